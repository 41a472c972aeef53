"""How documents lie on a Milvus server, and the one function that writes filter expressions.

A collection is two Milvus collections. ``<name>_chunks`` has a row per chunk, ``<name>_heads`` a row per document. Each
version of a document has a random number; a chunk's id is ``<number>:<index>``, and the head names the number and the
indexes that count. So writing the head is what publishes a version, whatever else lies in the chunks.

Milvus takes filters as text only and cannot bind values: what goes into an expression here are field names of this
module, hexadecimal hashes and numbers, never a caller's text.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from ...documents import Chunk, DocumentSummary
from ...errors import RecordError
from ...filters import FilterLike
from ...filters.plan import plan
from ..engine.payload import CHUNK, TOKENS, metadata_payload, parse_chunk, translate
from ..engine.prepared import PreparedChunk
from ..versions.heads import Head, Name
from ..versions.stored_info import StoredInfo

ID, NUMBER, DENSE, SPARSE = "id", "g", "v", "k"
TOKEN_LIST, NUMBERS = "y", "n"
CONTENT, TERMS = "c", "w"
"""`TERMS`: the term ids of a chunk, to count document frequencies."""
HEAD_OF = "p"
"""On a chunk: the id of its document's head row."""
DOCUMENT_HASH, HEAD, SUMMARY = "q", "f", "h"
INFO_ID, REMOVALS_ID = "info", "removals"

NEVER, ALWAYS = 'id == ""', 'id != ""'
_PIECE = 16_000  # characters; a VARCHAR holds 65,535 bytes
_CAPACITY = 4_096
_MAX_TOKENS = 3_800
# Milvus takes sparse dimensions below 2**32 - 1, and no empty sparse vector.
_TOP, _TOP_STORED, _NO_TERMS = 2**32 - 1, 2**32 - 3, 2**32 - 4


class MilvusInfo(StoredInfo):
    """The row `INFO_ID` of the heads."""

    weight_average: float = 0.0
    """Average length that new sparse weights are computed with; 0 until the first write."""

    @property
    def is_sparse(self) -> bool:
        """Whether chunks have the column `SPARSE`; Milvus wants some kind of vector."""
        return self.keyword or not self.dimensions


class MilvusHead(BaseModel):
    """What a head row says of its document besides the summary."""

    scope: str
    document_id: str
    head: dict[str, Any]
    history: list[int] = Field(default_factory=list)
    """Numbers of the versions before this one, latest first."""
    written_at: float = 0.0
    """Seconds since 1970, by the writer's clock."""


class Stored(NamedTuple):
    """A head as it was read."""

    name: Name
    head: Head
    history: list[int]
    written_at: float = 0.0


# --- names ---


def chunks_of(name: str) -> str:
    return f"{milvus_name(name)}_chunks"


def heads_of(name: str) -> str:
    return f"{milvus_name(name)}_heads"


def milvus_name(name: str) -> str:
    """Milvus takes letters, digits and underscores; equal for equal names only."""
    safe = re.sub(r"[^a-zA-Z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
    return f"rag_{safe}" if len(safe) <= 180 else f"rag_{safe[:100]}__{hashlib.sha256(name.encode()).hexdigest()}"


def new_number() -> int:
    return secrets.randbits(62) + 1


def chunk_row_id(number: int, index: int) -> str:
    return f"{number}:{index}"


def parse_row_id(row_id: str) -> tuple[int, int]:
    number, _, index = row_id.partition(":")
    return int(number), int(index)


def head_row_id(name: Name) -> str:
    return hashlib.sha256(json.dumps(name).encode()).hexdigest()


def document_hash(document_id: str) -> str:
    return hashlib.sha256(document_id.encode()).hexdigest()[:32]


# --- filters ---


@lru_cache(maxsize=100_000)
def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class MilvusDialect:
    """Conditions as expression text."""

    def any_token(self, tokens: Sequence[str]) -> str:
        listed = ", ".join(f'"{token_hash(token)}"' for token in tokens)
        return f"(array_contains_any({TOKEN_LIST}, [{listed}]))" if tokens else f"({NEVER})"

    def has_term(self, term: int) -> str:
        """A chunk has a term."""
        return f"array_contains({TERMS}, {term:d})"

    def number(self, field: str) -> str:
        """A field of `NUMBERS`."""
        return f'{NUMBERS}["{field}"]'

    def in_range(self, field: str, bounds: Mapping[str, float]) -> str:
        operators = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
        # The token comes first, since the negation of a comparison with a missing number is not true everywhere.
        parts = [self.any_token([field])]
        parts += [f"{self.number(field)} {operators[bound]} {float(value)!r}" for bound, value in bounds.items()]
        return f"({' and '.join(parts)})"

    def combine(self, must: Sequence[str] = (), should: Sequence[str] = (), must_not: Sequence[str] = ()) -> str:
        parts = [*must, *([f"({' or '.join(should)})"] if should else []), *(f"(not {part})" for part in must_not)]
        return f"({' and '.join(parts)})" if parts else f"({ALWAYS})"

    def condition(self, metadata_filter: FilterLike | None, *more: str) -> str:
        """An expression for `metadata_filter` and all of `more`; "" for every row."""
        node = plan(metadata_filter)
        parts = [*more, *([] if node is None else [translate(node, self)])]
        return " and ".join(parts)


def among(field: str, numbers: Sequence[int], *, negate: bool = False) -> str:
    """An integer field has one of `numbers`, or none of them."""
    return f"{field} {'not in' if negate else 'in'} [{', '.join(map(str, map(int, numbers)))}]"


# --- rows ---


def chunk_row(name: Name, number: int, chunk: PreparedChunk, info: MilvusInfo) -> dict[str, Any]:
    row = {
        ID: chunk_row_id(number, chunk.index),
        NUMBER: number,
        HEAD_OF: head_row_id(name),
        CONTENT: _split(chunk.payload[CHUNK]),
        TERMS: chunk.terms.ids[:_CAPACITY],  # a chunk with more different words is not counted for the rest of them
        **_filter_columns(chunk.payload),
    }
    if chunk.vector:
        row[DENSE] = chunk.vector
    if info.is_sparse:
        row[SPARSE] = sparse_row(*chunk.terms.sparse(info.weight_average or 1.0))
    return row


def head_row(summary: DocumentSummary, head: Head, history: Sequence[int]) -> dict[str, Any]:
    about = MilvusHead(
        scope=summary.scope,
        document_id=summary.document_id,
        head=head.payload(),
        history=list(history),
        written_at=time.time(),
    )
    return {
        ID: head_row_id((summary.scope, summary.document_id)),
        NUMBER: head.number,
        DENSE: [0.0, 0.0],
        DOCUMENT_HASH: document_hash(summary.document_id),
        HEAD: _split(about.model_dump_json()),
        SUMMARY: _split(summary.model_dump_json()),
        **_filter_columns(metadata_payload(summary.metadata)),
    }


def info_row(info: MilvusInfo) -> dict[str, Any]:
    return _other_row(INFO_ID, info.model_dump_json())


def removals_row() -> dict[str, Any]:
    """A new one each time."""
    return _other_row(REMOVALS_ID, secrets.token_hex(8))


def _other_row(row_id: str, text: str) -> dict[str, Any]:
    """A row of the heads that belongs to no document."""
    return {
        ID: row_id,
        NUMBER: 0,
        DENSE: [0.0, 0.0],
        DOCUMENT_HASH: "",
        HEAD: _split(text),
        SUMMARY: [],
        TOKEN_LIST: [],
        NUMBERS: {},
    }


def stored_of_row(row: Mapping[str, Any]) -> Stored:
    about = MilvusHead.model_validate_json("".join(row[HEAD]))
    return Stored((about.scope, about.document_id), Head.of_payload(about.head), about.history, about.written_at)


def summary_of_row(row: Mapping[str, Any], count: int) -> DocumentSummary:
    summary = DocumentSummary.model_validate_json("".join(row[SUMMARY]))
    summary.chunk_count = count
    return summary


def chunk_of_row(row: Mapping[str, Any]) -> Chunk:
    return parse_chunk("".join(row[CONTENT]))


def sparse_row(indices: Sequence[int], values: Sequence[float]) -> dict[int, float]:
    """The sparse vector that Milvus stores; see `Terms.sparse`."""
    row = {_TOP_STORED if index == _TOP else index: value for index, value in zip(indices, values, strict=True)}
    return row or {_NO_TERMS: 1.0}


def sparse_of_row(row: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    """Indices and values for `decode`."""
    sparse = {_TOP if index == _TOP_STORED else index: value for index, value in row[SPARSE].items()}
    sparse.pop(_NO_TERMS, None)
    return list(sparse), list(sparse.values())


def _filter_columns(payload: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {key: value for key, value in payload.items() if key.startswith("n_")}
    hashed = [token_hash(token) for token in (*payload[TOKENS], *numbers)]
    if len(hashed) > _MAX_TOKENS:
        raise RecordError(
            f"metadata has {len(hashed):,} values to filter by; Milvus keeps {_MAX_TOKENS:,}, so shorten its lists"
        )
    return {TOKEN_LIST: hashed, NUMBERS: numbers}


def _split(text: str) -> list[str]:
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    if len(pieces) > _CAPACITY:
        raise RecordError(f"a chunk of {len(text):,} characters is too long for Milvus ({_PIECE * _CAPACITY:,})")
    return pieces


def row_bytes(row: Mapping[str, Any]) -> int:
    """At least what a row takes in a message."""
    texts = sum(len(piece) for piece in row.get(CONTENT, ()))
    return 1_000 + 4 * texts + 4 * len(row.get(DENSE, ())) + 12 * len(row.get(SPARSE, ())) + 20 * len(row[TOKEN_LIST])
