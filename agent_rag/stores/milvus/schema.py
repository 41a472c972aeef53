"""How documents lie in Milvus, and the one function that writes filter expressions.

A collection is two Milvus collections. ``<name>_chunks`` has a row per chunk, ``<name>_heads`` a row per document. Each
version of a document has a random number; a chunk's id is ``<number>:<index>``, and the head names the number and the
indexes that count. So writing the head is what publishes a version, whatever else lies in the chunks.

Milvus takes filters as text only and cannot bind values: what goes into an expression here are field names of this
module, hexadecimal hashes and numbers, never a caller's text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from ...documents import Chunk, DocumentSummary
from ...errors import RecordError
from ...filters import FilterLike
from ...filters.plan import plan
from .._shared.heads import Head, Name
from .._shared.payload import CHUNK, TOKENS, metadata_payload, parse_chunk, translate
from .._shared.prepared import PreparedChunk
from ..base import CollectionInfo

ID, NUMBER, DENSE, SPARSE = "id", "g", "v", "k"
TEXT_TOKENS, TOKEN_LIST, NUMBERS = "x", "y", "n"
CONTENT, TERMS = "c", "w"
"""`TERMS` is on servers only: the term ids of a chunk, to count document frequencies."""
HEAD_OF = "p"
"""On a chunk: the id of its document's head row."""
DOCUMENT_HASH, HEAD, SUMMARY, FREQUENCIES = "q", "f", "h", "t"
INFO_ID, REMOVALS_ID = "info", "removals"

NUMBER_COLUMNS = tuple(f"d{number}" for number in range(8))
"""In local files only: numbers, NaN where a chunk has none."""
VALUE_COLUMNS = tuple(f"e{number}" for number in range(8))
"""In local files only: hashes of single values, 0 where a chunk has none."""

NEVER, ALWAYS = 'id == ""', 'id != ""'
_LIKE_TOKENS = 16
_PIECE = 16_000  # characters; a VARCHAR holds 65,535 bytes
_CAPACITY = 4_096
_MAX_TOKENS = 3_800
# Milvus takes sparse dimensions below 2**32 - 1, and no empty sparse vector.
_TOP, _TOP_STORED, _NO_TERMS = 2**32 - 1, 2**32 - 3, 2**32 - 4


class MilvusInfo(CollectionInfo):
    """The row `INFO_ID` of the heads."""

    keyword: bool = True
    """Whether its words are indexed."""
    weight_average: float = 0.0
    """Average length that new sparse weights are computed with; 0 until the first write."""
    number_columns: dict[str, str] = Field(default_factory=dict)
    """Range key (`number_field`) -> column, for the first keys of a local file. Milvus Lite compares columns in C++ and
    JSON row by row: 10 ms and 900 ms for 10,000 rows on a busy machine."""
    value_columns: dict[str, str] = Field(default_factory=dict)
    """Hash of a field's path -> column, for the first fields of a local file; "" for a path that has none. A filtered
    search of 100,000 rows spends 6 ms on comparing integers and 36 ms on looking for tokens in a text."""
    is_indexed: bool = False
    """Whether a local file has an index of the vectors, see `Connection.index_vectors`."""

    @property
    def is_sparse(self) -> bool:
        """Whether chunks have the column `SPARSE`; Milvus wants some kind of vector."""
        return self.keyword or not self.dimensions

    def public(self) -> CollectionInfo:
        return CollectionInfo.model_validate(self.model_dump(include=set(CollectionInfo.model_fields)))


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
    return f"{_milvus_name(name)}_chunks"


def heads_of(name: str) -> str:
    return f"{_milvus_name(name)}_heads"


def _milvus_name(name: str) -> str:
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


def value_key(token: str) -> str | None:
    """Hash of the path, of a token that says which single value a field has; None for other tokens."""
    path, _, rest = token.partition("\x1f")
    return token_hash(path) if rest.startswith("is\x1f") else None


def value_hash(token: str) -> int:
    """Above 0, below 2**60 + 1."""
    return int(token_hash(token)[:15], 16) + 1


class MilvusDialect:
    """Conditions as expression text.

    Args:
        scans_text: Look for tokens in a text column. Milvus Lite evaluates that in C++ (11 ms for 5,000 rows) and
            arrays row by row in Python (130 ms); a server has an index on the array.
        numbers: See `MilvusInfo.number_columns`; heads have none.
        values: See `MilvusInfo.value_columns`; heads have none.
    """

    def __init__(
        self,
        *,
        scans_text: bool,
        numbers: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> None:
        self._scans_text = scans_text
        self.numbers, self.values = numbers or {}, values or {}

    def any_token(self, tokens: Sequence[str]) -> str:
        by_column: dict[str, list[int]] = {}
        others = []
        for token in tokens:
            if column := self.values.get(value_key(token) or ""):
                by_column.setdefault(column, []).append(value_hash(token))
            else:
                others.append(token_hash(token))
        parts = [among(column, hashes) for column, hashes in by_column.items()]
        if others or not parts:
            parts.append(self._any_hash(others))
        return f"({' or '.join(parts)})"

    def _any_hash(self, hashed: Sequence[str]) -> str:
        if not hashed:
            return NEVER
        if self._scans_text and len(hashed) <= _LIKE_TOKENS:
            return " or ".join(f'{TEXT_TOKENS} like "%|{one}|%"' for one in hashed)
        listed = ", ".join(f'"{one}"' for one in hashed)
        return f"array_contains_any({TOKEN_LIST}, [{listed}])"

    def in_range(self, field: str, bounds: Mapping[str, float]) -> str:
        operators = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
        column = self.numbers.get(field)
        # The token comes first, since the negation of a comparison with a missing number is not true everywhere. No
        # comparison with NaN is true, so the negation of one is.
        parts = [] if column and bounds else [self.any_token([field])]
        number = column or f'{NUMBERS}["{field}"]'
        parts += [f"{number} {operators[bound]} {float(value)!r}" for bound, value in bounds.items()]
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
    """What a chunk has on every deployment."""
    row = {
        ID: chunk_row_id(number, chunk.index),
        NUMBER: number,
        HEAD_OF: head_row_id(name),
        CONTENT: _split(chunk.payload[CHUNK]),
        **_filter_columns(chunk.payload),
    }
    if chunk.vector:
        row[DENSE] = chunk.vector
    if info.is_sparse:
        row[SPARSE] = sparse_row(*chunk.terms.sparse(info.weight_average or 1.0))
    return row


def stored_terms(chunk: PreparedChunk) -> list[int]:
    """The column `TERMS`; a chunk with more different words is not counted for the rest of them."""
    return chunk.terms.ids[:_CAPACITY]


def number_keys(payload: Mapping[str, Any]) -> list[str]:
    """Range keys of a payload."""
    return [key for key in payload if key.startswith("n_")]


def value_tokens(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(`value_key`, token) of the tokens of a payload that have one."""
    return [(key, token) for token in payload[TOKENS] if (key := value_key(token)) is not None]


def local_columns(chunk: PreparedChunk, info: MilvusInfo) -> dict[str, float | int]:
    """Every column of numbers and of values."""
    row: dict[str, float | int] = {**dict.fromkeys(NUMBER_COLUMNS, math.nan), **dict.fromkeys(VALUE_COLUMNS, 0)}
    for key in number_keys(chunk.payload):
        if column := info.number_columns.get(key):
            row[column] = float(chunk.payload[key])
    for key, token in value_tokens(chunk.payload):
        if column := info.value_columns.get(key):
            row[column] = value_hash(token)
    return row


def with_columns(info: MilvusInfo, payloads: Sequence[Mapping[str, Any]]) -> MilvusInfo:
    """`info` with free columns given to the numbers and fields of `payloads` that are new."""
    numbers = _assigned(info.number_columns, {key for one in payloads for key in number_keys(one)}, NUMBER_COLUMNS)
    counted = [Counter(key for key, _ in value_tokens(one)) for one in payloads]
    values = _assigned(info.value_columns, {key for one in counted for key in one}, VALUE_COLUMNS)
    # Paths with control characters can look alike: a column holds one value, so such a path has none.
    values |= {key: "" for one in counted for key, times in one.items() if times > 1}
    return info.model_copy(update={"number_columns": numbers, "value_columns": values})


def _assigned(columns: Mapping[str, str], keys: Iterable[str], every: Sequence[str]) -> dict[str, str]:
    new = sorted(set(keys) - columns.keys())
    free = [column for column in every if column not in columns.values()]
    return {**columns, **dict(zip(new, free, strict=False))}


def head_row(
    summary: DocumentSummary, head: Head, frequencies: Mapping[int, int], history: Sequence[int]
) -> dict[str, Any]:
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
        FREQUENCIES: _split(pack_frequencies(frequencies)),
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
        FREQUENCIES: [],
        TEXT_TOKENS: "",
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


def pack_frequencies(frequencies: Mapping[int, int]) -> str:
    """Term -> number of chunks, as text: 8 bytes each."""
    terms = np.fromiter(frequencies.keys(), "<u4", len(frequencies))
    counts = np.fromiter(frequencies.values(), "<u4", len(frequencies))
    return base64.b64encode(terms.tobytes() + counts.tobytes()).decode()


def unpack_frequencies(row: Mapping[str, Any]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Terms and counts of a head row."""
    numbers = np.frombuffer(base64.b64decode("".join(row[FREQUENCIES])), "<u4")
    half = len(numbers) // 2
    return numbers[:half], numbers[half:]


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
    numbers = {key: payload[key] for key in number_keys(payload)}
    hashed = [token_hash(token) for token in (*payload[TOKENS], *numbers)]
    if len(hashed) > _MAX_TOKENS:
        raise RecordError(
            f"metadata has {len(hashed):,} values to filter by; Milvus keeps {_MAX_TOKENS:,}, so shorten its lists"
        )
    return {TEXT_TOKENS: f"|{'|'.join(hashed)}|", TOKEN_LIST: hashed, NUMBERS: numbers}


def _split(text: str) -> list[str]:
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    if len(pieces) > _CAPACITY:
        raise RecordError(f"a chunk of {len(text):,} characters is too long for Milvus ({_PIECE * _CAPACITY:,})")
    return pieces


def frequencies_of(chunks: Sequence[PreparedChunk]) -> Counter[int]:
    """Term -> number of `chunks` that have it."""
    return Counter(term for chunk in chunks for term in chunk.terms.ids)


def row_bytes(row: Mapping[str, Any]) -> int:
    """At least what a row takes in a message."""
    texts = sum(len(piece) for piece in row.get(CONTENT, ())) + sum(len(piece) for piece in row.get(FREQUENCIES, ()))
    return 1_000 + 4 * texts + 4 * len(row.get(DENSE, ())) + 12 * len(row.get(SPARSE, ())) + 20 * len(row[TOKEN_LIST])
