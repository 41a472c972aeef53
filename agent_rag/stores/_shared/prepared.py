"""Records as an embedded engine writes them, computed off the event loop and before the engine is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...documents import DocumentSummary, VectorRecord
from .payload import CHUNK, metadata_payload
from .records import Prepared
from .sparse import Terms


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A record as it is written, computed off the event loop and before the engine is asked."""

    index: int
    vector: list[float]
    payload: dict[str, Any]
    terms: Terms

    @classmethod
    def of(cls, record: VectorRecord, vector: list[float]) -> PreparedChunk:
        chunk = record.chunk
        payload = {CHUNK: chunk.model_dump_json(), **metadata_payload(chunk.metadata)}
        return cls(chunk.chunk_index, vector, payload, Terms.of(chunk.indexed_text))


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document as it is written."""

    summary: DocumentSummary
    chunks: list[PreparedChunk]
    """By index, each once."""
    given: bool
    """Whether the summary was passed to `replace`."""

    @property
    def name(self) -> tuple[str, str]:
        """``(scope, document id)``."""
        return self.summary.scope, self.summary.document_id


def prepare_documents(
    summaries: Sequence[DocumentSummary], prepared: Prepared, *, given: bool
) -> list[PreparedDocument]:
    """Everything about the documents that needs no engine: JSON, tokens, terms. For a worker thread."""
    chunks: dict[tuple[str, str], list[PreparedChunk]] = {
        (summary.scope, summary.document_id): [] for summary in summaries
    }
    for record, vector in zip(prepared.records, prepared.matrix.tolist(), strict=True):
        chunks[record.scope, record.document_id].append(PreparedChunk.of(record, vector))
    return [
        PreparedDocument(
            summary, sorted(chunks[summary.scope, summary.document_id], key=lambda chunk: chunk.index), given
        )
        for summary in summaries
    ]
