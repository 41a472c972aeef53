"""Documents as an engine writes them, computed off the event loop and before the engine is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ...documents import DocumentSummary, VectorRecord
from ...retrieval.analysis import index_tokens
from ..base import CollectionInfo
from ..versions.heads import Name, check_indexes
from .payload import CHUNK, metadata_payload
from .records import Checked, Prepared, Vector
from .sparse import Terms


class Indexed(Protocol):
    """A chunk as it is written."""

    @property
    def index(self) -> int: ...


AnyChunk = TypeVar("AnyChunk", bound=Indexed)


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A record as it is written, computed off the event loop and before the engine is asked."""

    index: int
    vector: list[float]
    payload: dict[str, Any]
    terms: Terms

    @classmethod
    def of(cls, record: VectorRecord, vector: list[float], *, keyword: bool) -> PreparedChunk:
        chunk = record.chunk
        payload = {CHUNK: chunk.model_dump_json(), **metadata_payload(chunk.metadata)}
        return cls(chunk.chunk_index, vector, payload, Terms.of(index_tokens(chunk) if keyword else ()))


@dataclass(frozen=True)
class NewDocument(Generic[AnyChunk]):
    """A document as it is written."""

    summary: DocumentSummary
    chunks: list[AnyChunk]
    """By index, each once."""

    @property
    def name(self) -> Name:
        return self.summary.scope, self.summary.document_id


PreparedDocument = NewDocument[PreparedChunk]


def by_document(
    summaries: Sequence[DocumentSummary], prepared: Prepared, make: Callable[[VectorRecord, Vector], AnyChunk]
) -> list[tuple[DocumentSummary, list[AnyChunk]]]:
    """Each summary with its chunks by index.

    Args:
        make: Makes a chunk, as it is written, of a record and its row of the matrix.
    """
    chunks: dict[Name, list[AnyChunk]] = {(summary.scope, summary.document_id): [] for summary in summaries}
    for record, vector in zip(prepared.records, prepared.matrix, strict=True):
        chunks[record.scope, record.document_id].append(make(record, vector))
    return [
        (summary, sorted(chunks[summary.scope, summary.document_id], key=lambda chunk: chunk.index))
        for summary in summaries
    ]


def prepare_documents(
    summaries: Sequence[DocumentSummary], prepared: Prepared, *, keyword: bool = True
) -> list[PreparedDocument]:
    """Everything about the documents that needs no engine: JSON, tokens, terms. For a worker thread.

    Args:
        keyword: Whether words are indexed; without, no chunk has terms.

    Raises: RecordError: a chunk index is too high.
    """
    check_indexes(prepared.records)

    def make(record: VectorRecord, vector: Vector) -> PreparedChunk:
        return PreparedChunk.of(record, vector.tolist(), keyword=keyword)

    return [NewDocument(summary, chunks) for summary, chunks in by_document(summaries, prepared, make)]


async def prepare_write(info: CollectionInfo, checked: Checked, *, keyword: bool = True) -> list[PreparedDocument]:
    """`prepare_documents` in a thread."""
    return await asyncio.to_thread(lambda: prepare_documents(*checked(info.dimensions), keyword=keyword))
