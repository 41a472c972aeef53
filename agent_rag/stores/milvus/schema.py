"""How documents lie in Milvus, and the one function that writes filter expressions.

A collection is two Milvus collections: ``rag_<name>_chunks`` has a row per chunk, ``rag_<name>_heads_<mark>`` a row per
document, and `INFO_ID`. The mark is random, and part of the name of a field of the chunks: who makes the chunks first
has made the collection, with the heads that belong to it.

Milvus takes filters as text only and cannot bind values: what goes into an expression here are field names of this
module, hexadecimal hashes and numbers, never a caller's text.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from ...errors import RecordError
from ...filters import FilterLike
from ...filters.plan import plan
from ..engine.filter_tokens import token_hash
from ..engine.payload import TOKENS, metadata_payload, translate
from ..engine.sparse import Terms, storable_average
from ..versions.heads import Name
from ..versions.protocol import Head, NewRow, RowId, head_of
from ..versions.stored_info import StoredInfo
from .options import METRICS

ID, PLACE, VERSION, LENGTH = "id", "a", "g", "l"
"""On all rows. `PLACE` is a random number above 0 on chunks and heads, 0 on others; `LENGTH` counts tokens."""
TOKEN_LIST, NUMBERS = "y", "n"
DENSE, SPARSE, CONTENT, SIZE, TERMS = "v", "k", "c", "z", "w"
"""On chunks. `SIZE`: most bytes of it in an answer. `TERMS`: term ids, to count document frequencies."""
DOCUMENT_HASH, HEAD, BRIEF, REVISION, COUNT, INDEXED = "q", "f", "b", "r", "m", "x"
"""On heads. `BRIEF`: what searches read of a head."""
INFO_ID, REMOVALS_ID = "info", "removals"

NEVER, ALWAYS = 'id == ""', 'id != ""'
PLACES = 2**62
_HEAD_FIELD = re.compile(r"p((?:_[0-9a-f]{16})?)")  # without a mark in the layout before
_PIECE = 16_000  # characters; a VARCHAR holds 65,535 bytes
_CAPACITY = 4_096
_MAX_TOKENS = 3_800
# Milvus takes sparse dimensions below 2**32 - 1, and no empty sparse vector.
_TOP, _TOP_STORED, _NO_TERMS = 2**32 - 1, 2**32 - 3, 2**32 - 4


class MilvusInfo(StoredInfo):
    """The row `INFO_ID` of the heads."""

    mark: str = ""
    """What tells this collection from earlier ones of the same name."""

    @property
    def is_sparse(self) -> bool:
        """Whether chunks have the column `SPARSE`; Milvus wants some kind of vector."""
        return self.keyword or not self.dimensions

    @property
    def chunks(self) -> str:
        return chunks_of(self.name)

    @property
    def heads(self) -> str:
        return heads_of(self.name, self.mark)

    @property
    def head_field(self) -> str:
        """On a chunk: the id of its document's head."""
        return f"p{self.mark}"


# --- names ---


def chunks_of(name: str) -> str:
    return f"{_milvus_name(name)}_chunks"


def heads_of(name: str, mark: str) -> str:
    return f"{_milvus_name(name)}_heads{mark}"


def heads_beside(chunks: str, fields: Collection[str]) -> str | None:
    """The collection of heads that belongs to one of chunks with these fields; None where it is not ours."""
    marks = [found[1] for field in fields if (found := _HEAD_FIELD.fullmatch(field))]
    return f"{chunks.removesuffix('chunks')}heads{marks[0]}" if marks else None


def new_mark() -> str:
    return f"_{random.SystemRandom().randrange(16**16):016x}"


def _milvus_name(name: str) -> str:
    """Milvus takes letters, digits and underscores; equal for equal names only."""
    safe = re.sub(r"[^a-zA-Z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
    return f"rag_{safe}" if len(safe) <= 180 else f"rag_{safe[:100]}__{hashlib.sha256(name.encode()).hexdigest()}"


def row_id(row: RowId) -> str:
    return f"{row.version}:{row.index}"


def parse_row_id(text: str) -> RowId:
    version, _, index = text.partition(":")
    return RowId(version, int(index))


def document_hash(document_id: str) -> str:
    return hashlib.sha256(document_id.encode()).hexdigest()[:32]


# --- filters ---


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

    def condition(self, metadata_filter: FilterLike | None, *more: str, without: Collection[str] = ()) -> str:
        """An expression for `metadata_filter`, all of `more` and none of the versions `without`; "" for every row."""
        node = plan(metadata_filter)
        parts = [*more, *([] if node is None else [translate(node, self)])]
        if without:
            parts.append(among(VERSION, sorted(without), negate=True))
        return " and ".join(parts)


def among(field: str, hashes: Collection[str], *, negate: bool = False) -> str:
    """A text field has one of these hexadecimal digits, or none of them."""
    return f"{field} {'not in' if negate else 'in'} {json.dumps(list(hashes))}"


# --- fields ---

Field = tuple[str, dict[str, Any]]
"""Kind and what it needs, as `pymilvus` and `milvus_lite` call them."""
Fields = dict[str, Field]
"""By name."""
Indexes = dict[str, dict[str, str]]

_LONG = 65_535
_TEXT: Field = ("VARCHAR", {"max_length": 64})
LONG_TEXT: Field = ("VARCHAR", {"max_length": _LONG})
_TEXTS: Field = ("ARRAY", {"element_type": "VARCHAR", "max_capacity": _CAPACITY, "max_length": _LONG})
_NUMBER: Field = ("INT64", {})
_SHARED: Fields = {
    ID: ("VARCHAR", {"max_length": 100, "is_primary": True}),
    **dict.fromkeys((PLACE, LENGTH), _NUMBER),
    VERSION: _TEXT,
    TOKEN_LIST: ("ARRAY", {"element_type": "VARCHAR", "max_capacity": _CAPACITY, "max_length": 32}),
    NUMBERS: ("JSON", {}),
}
_INVERTED = {"index_type": "INVERTED"}
HEAD_FIELDS: Fields = {
    **_SHARED,
    DENSE: ("FLOAT_VECTOR", {"dim": 2}),
    **dict.fromkeys((DOCUMENT_HASH, REVISION), _TEXT),
    **dict.fromkeys((COUNT, INDEXED), _NUMBER),
    **dict.fromkeys((HEAD, BRIEF), _TEXTS),
}
HEAD_INDEXES: Indexes = {
    DENSE: {"index_type": "FLAT", "metric_type": "L2"},
    **dict.fromkeys((PLACE, DOCUMENT_HASH, TOKEN_LIST), _INVERTED),
}


def typed(field: Field, kinds: Any) -> tuple[Any, dict[str, Any]]:
    """`field` with members of `kinds`, the enumeration of the library that takes it."""
    kind, options = field
    element = {"element_type": kinds[options["element_type"]]} if "element_type" in options else {}
    return kinds[kind], {**options, **element}


def chunk_fields(info: MilvusInfo) -> Fields:
    fields: Fields = {
        **_SHARED,
        info.head_field: _TEXT,
        SIZE: _NUMBER,
        TERMS: ("ARRAY", {"element_type": "INT64", "max_capacity": _CAPACITY}),
        CONTENT: _TEXTS,
    }
    if info.dimensions:
        fields[DENSE] = ("FLOAT_VECTOR", {"dim": info.dimensions})
    if info.is_sparse:
        fields[SPARSE] = ("SPARSE_FLOAT_VECTOR", {})
    return fields


def chunk_indexes(info: MilvusInfo, index_type: str) -> Indexes:
    indexes: Indexes = dict.fromkeys((PLACE, VERSION, info.head_field, TOKEN_LIST, TERMS), _INVERTED)
    if info.dimensions:
        indexes[DENSE] = {"index_type": index_type, "metric_type": METRICS[info.distance]}
    if info.is_sparse:
        indexes[SPARSE] = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}
    return indexes


# --- rows ---


def chunk_row(info: MilvusInfo, version: str, row: NewRow, average_length: float) -> dict[str, Any]:
    counted: Counter[int] = Counter(cast(Sequence[int], row.terms))
    terms = Terms(list(counted), list(counted.values()), counted.total())
    stored = {
        ID: row_id(RowId(version, row.index)),
        PLACE: _new_place(),
        VERSION: version,
        LENGTH: terms.length,
        info.head_field: head_of(version),
        CONTENT: _split(row.chunk),
        SIZE: 1_000 + 4 * (len(row.chunk) + len(row.vector)),
        TERMS: terms.ids[:_CAPACITY],  # a chunk with more different words is not counted for the rest of them
        **_filter_columns(row.metadata),
    }
    if len(row.vector):
        stored[DENSE] = row.vector.tolist()
    if info.is_sparse:
        stored[SPARSE] = sparse_row(*terms.sparse(storable_average(average_length)))
    return stored


def head_row(head: Head) -> dict[str, Any]:
    """Of a tombstone too, which is in no scan and no sum."""
    is_there = head.summary is not None
    return {
        ID: head.id,
        PLACE: _new_place() if is_there else 0,
        VERSION: head.version,
        LENGTH: head.tokens,
        COUNT: head.count,
        INDEXED: head.indexed,
        REVISION: head.revision,
        DENSE: [0.0, 0.0],
        DOCUMENT_HASH: document_hash(head.name[1]) if is_there else "",
        HEAD: _split(head.body()),
        BRIEF: _split(json.dumps([head.name, head.version, head.written_at])),
        **_filter_columns(head.summary.metadata if head.summary is not None else {}),
    }


def text_row(row: str, text: str = "") -> dict[str, Any]:
    """A row of the heads that belongs to no document; its `REVISION` is new each time."""
    return {
        ID: row,
        PLACE: 0,
        **dict.fromkeys((LENGTH, COUNT, INDEXED), 0),
        **dict.fromkeys((VERSION, DOCUMENT_HASH), ""),
        REVISION: new_mark(),
        DENSE: [0.0, 0.0],
        HEAD: _split(text),
        BRIEF: [],
        TOKEN_LIST: [],
        NUMBERS: {},
    }


def info_of_row(row: Mapping[str, Any]) -> MilvusInfo:
    return MilvusInfo.model_validate_json("".join(row[HEAD]))


def name_of_row(row: Mapping[str, Any]) -> tuple[Name, str, float]:
    """Name, version and time of a head."""
    (scope, document_id), version, written_at = json.loads("".join(row[BRIEF]))
    return (scope, document_id), version, written_at


def sparse_row(indices: Sequence[int], values: Sequence[float]) -> dict[int, float]:
    """The sparse vector that Milvus stores; see `Terms.sparse`."""
    row = {_TOP_STORED if index == _TOP else index: value for index, value in zip(indices, values, strict=True)}
    return row or {_NO_TERMS: 1.0}


def sparse_of_row(row: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    """Indices and values for `decode`."""
    sparse = {_TOP if index == _TOP_STORED else index: value for index, value in row[SPARSE].items()}
    sparse.pop(_NO_TERMS, None)
    return list(sparse), list(sparse.values())


def _new_place() -> int:
    return random.randrange(PLACES) + 1


def _filter_columns(metadata: Mapping[str, Any]) -> dict[str, Any]:
    payload = metadata_payload(metadata)
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
    texts = sum(len(piece) for name in (CONTENT, HEAD) for piece in row.get(name, ()))
    return 1_000 + 4 * texts + 4 * len(row.get(DENSE, ())) + 12 * len(row.get(SPARSE, ())) + 20 * len(row[TOKEN_LIST])
