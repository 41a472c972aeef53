"""How documents lie in MongoDB: one collection for each of ours, with four kinds of documents.

::

    info                   kind info    what the collection is
    head:<hash of name>    kind head    a document: its parts, counts, DocumentSummary
    <part>:<index>         kind chunk   a chunk; never changed, only deleted
    log:<part>             kind log     a part that does not count: not yet ("dead": false), or no more (true)

A part is up to 1,000 chunks of one document that were written together, under a random id. A writer logs its parts,
writes the chunks, waits until search finds them, and publishes them in one transaction: the heads name them, their log
entries go, and the parts that they replace get log entries. So every part without a log entry counts, and search knows
it; and a crash leaves log entries, from which a later writer clears up.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._util.extras import needs
from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord
from ...filters import FilterLike
from ..base import CollectionInfo
from ..engine.filter_tokens import EVERY, Both, Condition, Either, Has, Lacks, condition_of, tokens_of
from ..engine.payload import parse_chunk
from ..engine.prepared import by_document
from ..engine.records import Prepared
from ..engine.words import words_of
from ..versions.heads import Name

Document = dict[str, Any]

INFO_ID = "info"
INFO, HEAD, CHUNK, LOG = "info", "head", "chunk", "log"
PART_CHUNKS = 1_000
_FLOAT32_VECTOR = b"\x27\x00"  # BSON binary subtype 9: 32-bit floats, no padding
_VECTOR_SUBTYPE = 9

# Fields of a head that `HeadDocument` reads.
HEAD_FIELDS = ("scope", "document_id", "parts", "chunk_count", "tokens_total", "indexed")

INDEXES: tuple[tuple[tuple[str, int], ...], ...] = (
    (("kind", 1), ("scope", 1), ("document_id", 1)),
    (("document_id", 1), ("kind", 1), ("index", 1)),
    (("part", 1),),
    (("words", 1),),
    (("tokens", 1),),
)


def table_name(name: str) -> str:
    """The name itself where MongoDB takes it; equal for equal names only."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name) and not name.startswith("system."):
        return name
    return f"~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def vector_index(name: str, dimensions: int, similarity: str) -> Document:
    """Model of the index for `$vectorSearch`; nothing is quantised, so that scores are exact."""
    vector = {"type": "vector", "path": "vector", "numDimensions": dimensions, "similarity": similarity}
    filters = [{"type": "filter", "path": path} for path in ("tokens", "part")]
    return {"name": name, "type": "vectorSearch", "definition": {"fields": [vector, *filters]}}


def text_index(name: str) -> Document:
    """Model of the index for `$search`: words that `lexical` made, so that nothing but blanks divides them."""
    fields = {
        "text": {"type": "string", "analyzer": "lucene.whitespace"},
        "tokens": {"type": "token"},
        "part": {"type": "token"},
    }
    return {"name": name, "type": "search", "definition": {"mappings": {"dynamic": False, "fields": fields}}}


def head_id(name: Name) -> str:
    return f"head:{hashlib.sha256(json.dumps(name).encode()).hexdigest()}"


def chunk_id(part: str, index: int) -> str:
    return f"{part}:{index}"


def log_id(part: str) -> str:
    return f"log:{part}"


def part_of(chunk: str) -> str:
    return chunk.partition(":")[0]


# --- documents ---


@dataclass(frozen=True)
class ChunkDocument:
    """A chunk before it belongs to a part."""

    index: int
    fields: Document
    length: int

    @classmethod
    def of(cls, record: VectorRecord, row: npt.NDArray[np.float32]) -> ChunkDocument:
        chunk = record.chunk
        words = words_of(chunk.indexed_text)
        fields: Document = {
            "kind": CHUNK,
            "head": head_id((record.scope, record.document_id)),
            "scope": record.scope,
            "document_id": record.document_id,
            "index": chunk.chunk_index,
            "length": len(words),
            "words": list(dict.fromkeys(words)),
            "text": " ".join(words),
            "tokens": tokens_of(chunk.metadata),
            "zero": not row.any(),
            "chunk": chunk.model_dump_json(),
        }
        if len(row):
            fields["vector"] = binary_vector(row)
        return cls(chunk.chunk_index, fields, len(words))

    def in_part(self, part: str) -> Document:
        return {"_id": chunk_id(part, self.index), "part": part, **self.fields}

    @property
    def size(self) -> int:
        """About what it takes in a message, in bytes."""
        return (
            500 + 3 * (len(self.fields["chunk"]) + 2 * len(self.fields["text"])) + len(self.fields.get("vector", b""))
        )


@dataclass(frozen=True)
class NewDocument:
    """A document as it is written, divided into parts."""

    summary: DocumentSummary
    parts: dict[str, list[ChunkDocument]]

    @property
    def name(self) -> Name:
        return self.summary.scope, self.summary.document_id

    @property
    def chunks(self) -> Iterator[ChunkDocument]:
        return (chunk for part in self.parts.values() for chunk in part)


def new_documents(summaries: Sequence[DocumentSummary], prepared: Prepared) -> list[NewDocument]:
    """Everything about the documents that needs no server: tokens, words, JSON. For a worker thread."""
    found = []
    for summary, own in by_document(summaries, prepared, ChunkDocument.of):
        parts = {uuid.uuid4().hex: own[start : start + PART_CHUNKS] for start in range(0, len(own), PART_CHUNKS)}
        found.append(NewDocument(summary, parts))
    return found


class HeadDocument(NamedTuple):
    """A head as it was read."""

    name: Name
    parts: list[str]
    chunks: int

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> HeadDocument:
        return cls(
            name=(stored["scope"], stored["document_id"]),
            parts=stored["parts"],
            chunks=stored["chunk_count"],
        )


def head_document(document: NewDocument, *, first: bool) -> Document:
    """`first`: whether there was no version before; readers who miss this one then see what was."""
    chunks = list(document.chunks)
    return {
        "_id": head_id(document.name),
        "kind": HEAD,
        "scope": document.summary.scope,
        "document_id": document.summary.document_id,
        "parts": list(document.parts),
        "chunk_count": len(chunks),
        "tokens_total": sum(chunk.length for chunk in chunks),
        "indexed": sum(chunk.length > 0 for chunk in chunks),
        "first": first,
        **summary_fields(document.summary),
    }


def summary_fields(summary: DocumentSummary) -> Document:
    return {"summary": summary.model_dump_json(), "tokens": tokens_of(summary.metadata)}


def log_entry(part: str, name: Name, *, dead: bool) -> Document:
    return {
        "_id": log_id(part),
        "kind": LOG,
        "part": part,
        "head": head_id(name),
        "dead": dead,
        "written_at": time.time(),
    }


def info_document(info: CollectionInfo) -> Document:
    return {"_id": INFO_ID, "kind": INFO, **info.model_dump(mode="json")}


def info_of(stored: Mapping[str, Any]) -> CollectionInfo:
    return CollectionInfo.model_validate({name: stored[name] for name in CollectionInfo.model_fields if name in stored})


def summary_of(stored: Mapping[str, Any]) -> DocumentSummary:
    summary = DocumentSummary.model_validate_json(stored["summary"])
    summary.chunk_count = stored["chunk_count"]
    return summary


def key_of(stored: Mapping[str, Any]) -> ChunkKey:
    return ChunkKey(stored["scope"], stored["document_id"], stored["index"])


def chunk_of(stored: Mapping[str, Any]) -> Chunk:
    return parse_chunk(stored["chunk"])


def record_of(stored: Mapping[str, Any]) -> VectorRecord:
    """With the vector where it was read."""
    key = key_of(stored)
    vector = vector_of(stored["vector"]).tolist() if "vector" in stored else []
    return VectorRecord(vector=vector, document_id=key.document_id, chunk=chunk_of(stored), scope=key.scope)


def matrix_of(stored: Sequence[bytes]) -> npt.NDArray[np.float32]:
    """One row for each stored vector."""
    return np.stack([vector_of(one) for one in stored]) if stored else np.empty((0, 0), dtype=np.float32)


def vector_of(stored: bytes) -> npt.NDArray[np.float32]:
    return np.frombuffer(stored, dtype="<f4", offset=len(_FLOAT32_VECTOR))


def binary_vector(vector: npt.NDArray[np.float32]) -> Any:
    return needs("mongodb", "bson").Binary(_FLOAT32_VECTOR + vector.astype("<f4").tobytes(), _VECTOR_SUBTYPE)


# --- filters ---


def where(metadata_filter: FilterLike | None, *more: Document, without: Iterable[str] = ()) -> Document:
    """A query, also for the `filter` of `$vectorSearch`: all of `more`, the filter, and none of the parts `without`."""
    condition = condition_of(metadata_filter)
    parts = [*more, *([] if condition is None else [_query(condition)])]
    if excluded := sorted(without):
        parts.append({"part": {"$nin": excluded}})
    if not parts:
        return {"tokens": {"$in": [EVERY]}}
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _query(condition: Condition) -> Document:
    match condition:
        case Has(tokens):
            return {"tokens": {"$in": list(tokens)}}
        case Lacks(tokens):
            return {"tokens": {"$nin": list(tokens)}}
        case Both(parts):
            return {"$and": [_query(part) for part in parts]}
        case Either(parts):
            return {"$or": [_query(part) for part in parts]}


def search_clauses(metadata_filter: FilterLike | None, *, without: Iterable[str] = ()) -> list[Document]:
    """The same as `filter` clauses of a `compound` in `$search`."""
    condition = condition_of(metadata_filter)
    clauses = [] if condition is None else [_clause(condition)]
    if excluded := sorted(without):
        clauses.append(_not_in("part", excluded))
    return clauses


def _clause(condition: Condition) -> Document:
    match condition:
        case Has(tokens):
            return {"in": {"path": "tokens", "value": list(tokens)}}
        case Lacks(tokens):
            return _not_in("tokens", list(tokens))
        case Both(parts):
            return {"compound": {"filter": [_clause(part) for part in parts]}}
        case Either(parts):
            return {"compound": {"should": [_clause(part) for part in parts], "minimumShouldMatch": 1}}


def _not_in(path: str, values: list[str]) -> Document:
    # Lucene finds nothing by a negation alone.
    return {
        "compound": {"filter": [{"exists": {"path": "tokens"}}], "mustNot": [{"in": {"path": path, "value": values}}]}
    }
