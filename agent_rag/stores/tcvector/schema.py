"""How documents lie in Tencent Cloud VectorDB, and the one function that writes filter expressions.

A collection is two collections there. ``..._chunks`` has a row for each chunk, ``..._heads`` one for each document, one
for what the collection is, and one for each version that is being written or removed. Each version of a document has a
random id (`g`); a chunk's id is ``<g>:<index>``, and the head names the id and the indexes that count. So writing the
head is what publishes a version, whatever else lies in the chunks.

The database takes filters as text only, without a documented escape: what goes into an expression are field names of
this module, whole numbers and hexadecimal hashes, never a caller's text.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...documents import Chunk, DocumentSummary, VectorRecord
from ...errors import LimitExceededError, RecordError
from ...filters import FilterLike
from ...retrieval.analysis import index_tokens
from ...retrieval.lexical import term_weight
from ..engine import prepared as documents
from ..engine.filter_tokens import Both, Condition, Either, Has, Lacks, condition_of, tokens_of
from ..engine.payload import parse_chunk
from ..engine.records import Prepared
from ..engine.sparse import Terms
from ..versions.heads import MAX_INDEX, Head, Name, check_indexes, runs_of

Row = dict[str, Any]

ID, VECTOR, SPARSE = "id", "vector", "sparse_vector"
VERSION, INDEX, TOKENS, TERMS = "g", "i", "x", "w"
CONTENT, COUNTS, TEXT = "c", "t", "text"
"""The chunk as JSON; its terms with their frequencies; on collections with remote embedding, what is embedded."""
KIND, DOCUMENT, ORDER, REVISION, WRITTEN = "k", "d", "o", "r", "at"
HEAD, SUMMARY, INFO = "f", "h", "info"
INFO_ID = "info"

MAX_EXPRESSION = 65_536
_SAFE_VALUE = re.compile(r"[0-9a-z:-]{1,128}")
_PLACEHOLDER = [1.0]
"""Vector of rows that have none, since each row needs one."""


class Stored(NamedTuple):
    """A head as it was read."""

    name: Name
    head: Head
    version: str
    revision: str
    """Changes with each write of the head."""
    written_at: float
    """Seconds since 1970, by the writer's clock."""


# --- names ---


def chunks_of(database: str, name: str) -> str:
    return f"{_safe_name(database, name)}_chunks"


def heads_of(database: str, name: str) -> str:
    return f"{_safe_name(database, name)}_heads"


def _safe_name(database: str, name: str) -> str:
    """Equal for equal names only; with the database, since names are unique in an instance."""
    whole = f"{database}.{name}"
    safe = re.sub(r"[^a-zA-Z0-9]", lambda found: f"_{ord(found[0]):x}_", whole)
    if len(safe) > 100:
        safe = f"{safe[:40]}__{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
    return f"rag_{safe}"


def new_version() -> str:
    return uuid.uuid4().hex


def chunk_row_id(version: str, index: int) -> str:
    return f"{version}:{index}"


def parse_row_id(row_id: str) -> tuple[str, int]:
    version, _, index = row_id.partition(":")
    return version, int(index)


def head_row_id(name: Name) -> str:
    return hashlib.sha256(json.dumps(name).encode()).hexdigest()


def log_row_id(version: str) -> str:
    return f"log-{version}"


def document_hash(document_id: str) -> str:
    return hashlib.sha256(document_id.encode()).hexdigest()[:32]


# --- expressions ---


def listed(values: Iterable[str]) -> str:
    """Values in an expression. All of them are made in this module, from hexadecimal digits.

    Raises: ValueError: one is not, so that it cannot be written.
    """
    found = []
    for value in values:
        if not _SAFE_VALUE.fullmatch(value):
            raise ValueError(f"{value!r} cannot stand in an expression")
        found.append(f'"{value}"')
    return f"({','.join(found)})"


def is_in(field: str, values: Iterable[str], *, negate: bool = False) -> str:
    return f"{field} {'not in' if negate else 'in'} {listed(values)}"


def expression(metadata_filter: FilterLike | None, *more: str) -> str | None:
    """All of `more`, and the filter; None for every row.

    Raises: LimitExceededError: it would be longer than the database takes.
    """
    condition = condition_of(metadata_filter)
    parts = [*more, *([] if condition is None else [_written(condition)])]
    whole = " and ".join(parts)
    if len(whole) > MAX_EXPRESSION:
        raise LimitExceededError(
            f"a filter takes {len(whole):,} characters in TcVectorStore, which has {MAX_EXPRESSION:,}; "
            "filter by fewer values"
        )
    return whole or None


def _written(condition: Condition) -> str:
    match condition:
        case Has(tokens):
            return f"{TOKENS} include {listed(tokens)}"
        case Lacks(tokens):
            return f"{TOKENS} exclude {listed(tokens)}"
        case Both(parts):
            return f"({' and '.join(map(_written, parts))})"
        case Either(parts):
            return f"({' or '.join(map(_written, parts))})"


def has_term(term: int) -> str:
    return f"{TERMS} include {listed([_term(term)])}"


def _term(term: int) -> str:
    return f"{term:08x}"


# --- rows ---


@dataclass(frozen=True)
class NewChunk:
    """A chunk before it belongs to a version."""

    index: int
    row: Row
    terms: Terms

    @classmethod
    def of(cls, record: VectorRecord, vector: Sequence[float]) -> NewChunk:
        chunk = record.chunk
        if chunk.chunk_index > MAX_INDEX:
            raise RecordError(
                f"chunk_index {chunk.chunk_index} of {record.document_id!r} is above {MAX_INDEX:,}; "
                "number the chunks of a document from 0"
            )
        terms = Terms.of(index_tokens(chunk))
        pairs = zip(terms.ids, terms.frequencies, strict=True)
        row: Row = {
            INDEX: chunk.chunk_index,
            TOKENS: tokens_of(chunk.metadata),
            TERMS: list(map(_term, terms.ids)),
            COUNTS: " ".join(f"{term}:{frequency}" for term, frequency in pairs),
            CONTENT: chunk.model_dump_json(),
            TEXT: chunk.indexed_text,
            VECTOR: list(vector) or _PLACEHOLDER,
        }
        return cls(chunk.chunk_index, row, terms)

    def in_version(self, version: str, average_length: float, *, embedded: bool) -> Row:
        """As it is stored; `embedded`: the database makes the vector."""
        row = {**self.row, ID: chunk_row_id(version, self.index), VERSION: version}
        row.pop(VECTOR if embedded else TEXT)
        if self.terms.ids:
            weights = (term_weight(count, self.terms.length, average_length) for count in self.terms.frequencies)
            row[SPARSE] = [[term, weight] for term, weight in zip(self.terms.ids, weights, strict=True)]
        return row


class NewDocument(documents.NewDocument[NewChunk]):
    """A document as it is written."""

    @property
    def head(self) -> Head:
        lengths = [chunk.terms.length for chunk in self.chunks]
        return Head(
            number=0,
            runs=runs_of(chunk.index for chunk in self.chunks),
            tokens=sum(lengths),
            indexed=sum(map(bool, lengths)),
        )


def new_documents(summaries: Sequence[DocumentSummary], prepared: Prepared) -> list[NewDocument]:
    """Raises: RecordError: a chunk index is too high."""
    check_indexes(prepared.records)
    found = documents.by_document(summaries, prepared, lambda record, vector: NewChunk.of(record, vector.tolist()))
    return [NewDocument(summary, chunks) for summary, chunks in found]


def head_row(summary: DocumentSummary, head: Head, version: str) -> Row:
    name = (summary.scope, summary.document_id)
    one = head_row_id(name)
    return {
        ID: one,
        VECTOR: _PLACEHOLDER,
        KIND: "head",
        VERSION: version,
        REVISION: uuid.uuid4().hex,
        DOCUMENT: document_hash(summary.document_id),
        ORDER: int(one[:12], 16),
        WRITTEN: int(time.time() * 1000),
        HEAD: json.dumps({"name": name, **head.payload()}),
        SUMMARY: summary.model_dump_json(),
        TOKENS: tokens_of(summary.metadata),
    }


def log_row(version: str) -> Row:
    return {
        ID: log_row_id(version),
        VECTOR: _PLACEHOLDER,
        KIND: "log",
        VERSION: version,
        REVISION: "0",
        DOCUMENT: "0",
        ORDER: int(version[:12], 16),
        WRITTEN: int(time.time() * 1000),
        TOKENS: ["0"],
    }


def info_row(info: str) -> Row:
    return {**log_row("0" * 32), ID: INFO_ID, KIND: "info", INFO: info}


def stored_of(row: Mapping[str, Any]) -> Stored:
    payload = json.loads(row[HEAD])
    scope, document_id = payload.pop("name")
    return Stored((scope, document_id), Head.of_payload(payload), row[VERSION], row[REVISION], row[WRITTEN] / 1000)


def summary_of(row: Mapping[str, Any]) -> DocumentSummary:
    summary = DocumentSummary.model_validate_json(row[SUMMARY])
    summary.chunk_count = stored_of(row).head.count
    return summary


def chunk_of(row: Mapping[str, Any]) -> Chunk:
    return parse_chunk(row[CONTENT])


def counts_of(row: Mapping[str, Any]) -> dict[int, int]:
    """Term -> frequency."""
    pairs = (pair.partition(":") for pair in row[COUNTS].split())
    return {int(term): int(count) for term, _, count in pairs}


def row_weight(row: Mapping[str, Any]) -> int:
    """About the bytes that a row takes in a request."""
    numbers = 22 * len(row.get(VECTOR, ())) + 34 * len(row.get(SPARSE, ()))
    texts = sum(len(row.get(name, "")) for name in (CONTENT, COUNTS, TEXT, HEAD, SUMMARY))
    return 500 + numbers + 3 * texts + 20 * len(row[TOKENS]) + 12 * len(row.get(TERMS, ()))


def as_matrix(rows: Sequence[Mapping[str, Any]]) -> Any:
    """One row for each vector."""
    return np.array([row[VECTOR] for row in rows], dtype=np.float32)
