"""What a KnowledgeBase does with documents before a store sees them: check, and merge metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..content import DataBlock, TextBlock
from ..documents import Chunk, DocumentSummary, VectorRecord, storable_metadata, storable_text
from ..errors import ConfigurationError
from ..limits import Limits
from .document import Document, WriteReport
from .embedder import Embedder


def check_chunks(chunks: object) -> None:
    """Raises: ConfigurationError: not a sequence of chunks."""
    items = chunks if isinstance(chunks, Sequence) and not isinstance(chunks, str | bytes) else [chunks]
    for item in items:
        if not isinstance(item, Chunk):
            raise ConfigurationError(
                f"a document is made of chunks, got a {type(item).__name__}; make them with a parser and a chunker, "
                "as in `await RecursiveChunker().chunk(await parse_text(text, 'a.txt'))`, or use ingest"
            )


def check_documents(documents: Sequence[Document], limits: Limits, where: str) -> None:
    """Raises: LimitExceededError: an input is over a limit. ConfigurationError: an id is empty or occurs twice."""
    limits.check("documents_per_request", len(documents), f"documents written to {where!r} at once")
    reject_duplicates([document.document_id for document in documents])
    for document in documents:
        what = f"document {document.document_id[:80]!r}"
        if not document.document_id.strip():
            raise ConfigurationError("a document id is a non-empty string")
        limits.check("identifier_characters", len(document.document_id), f"id of {what}")
        limits.check("chunks_per_document", len(document.chunks), f"chunks of {what}")
        limits.check("metadata_fields", len(document.metadata), f"metadata of {what}")


def prepare(
    document: Document, scope: Mapping[str, Any] | None, embedder: Embedder, limits: Limits, report: WriteReport
) -> Document:
    """Copies with merged metadata, without what cannot be indexed, numbered anew."""
    kept = indexable(document.chunks, embedder, report)
    common = common_metadata(chunk.metadata for chunk in kept)
    return document.model_copy(
        update={
            "chunks": prepared_chunks(document, kept, scope, limits, first=0, total=len(kept)),
            "metadata": storable_metadata({**document.metadata, **common, **(scope or {})}),
        }
    )


def prepared_chunks(
    document: Document,
    kept: Sequence[Chunk],
    scope: Mapping[str, Any] | None,
    limits: Limits,
    *,
    first: int,
    total: int,
) -> list[Chunk]:
    """Copies of some neighbouring chunks of a document with its metadata.

    Args:
        first: Index of the first of them.
        total: Chunks of the document.
    """
    chunks = []
    for index, chunk in enumerate(kept, first):
        size = len(chunk.text)
        limits.check("chunk_characters", size, f"chunk {index} of document {document.document_id[:80]!r}")
        metadata = storable_metadata({**document.metadata, **chunk.metadata, **(scope or {})})
        update: dict[str, Any] = {
            "metadata": metadata,
            "chunk_index": index,
            "total_chunks": total,
            "document_id": document.document_id,
            "title": chunk.title or document.title,
            "uri": chunk.uri or document.uri,
        }
        if isinstance(chunk.content, TextBlock) and (clean := storable_text(chunk.content.text)) != chunk.content.text:
            update["content"] = TextBlock(text=clean)
        chunks.append(chunk.model_copy(update=update))
    return chunks


def records_of(
    document_id: str, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]], scope: str
) -> list[VectorRecord]:
    """Chunks of a document as they are stored; `scope` is a `scope_key`."""
    return [
        VectorRecord.model_construct(vector=vector, document_id=document_id, chunk=chunk, scope=scope)
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]


class Overview(NamedTuple):
    """What is to be known of a document's chunks before the first of them is written."""

    chunks: int
    """How many can be found."""
    first: Chunk | None
    common: dict[str, Any]
    """Metadata that all of them have."""


def overview_of(parts: Iterable[Sequence[Chunk]], embedder: Embedder, report: WriteReport) -> Overview:
    """Goes through all of them; what cannot be found is counted in the report."""
    count = 0
    first: Chunk | None = None
    common: dict[str, Any] = {}
    for part in parts:
        kept = indexable(part, embedder, report)
        if kept:
            first = first or kept[0]
            common = common_metadata([*([common] if count else []), *(chunk.metadata for chunk in kept)])
            count += len(kept)
    return Overview(count, first, common)


def summary_of(document: Document, scope: str) -> DocumentSummary:
    """What the store lists for a prepared document."""
    return DocumentSummary(
        document_id=document.document_id,
        source=document.source or (document.chunks[0].source if document.chunks else document.document_id),
        chunk_count=len(document.chunks),
        metadata=document.metadata,
        title=document.title,
        uri=document.uri,
        scope=scope,
        state=document.state,
    )


def reject_duplicates(document_ids: Sequence[str]) -> None:
    """Raises: ConfigurationError: an id occurs twice."""
    seen: set[str] = set()
    for document_id in document_ids:
        if document_id in seen:
            raise ConfigurationError(f"document id {document_id!r} occurs twice in one request")
        seen.add(document_id)


def common_metadata(metadata: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What all chunks have: metadata of the document. (The first chunk's own, such as its page, is not.)"""
    missing = object()
    common: dict[str, Any] | None = None
    for fields in metadata:
        if common is None:
            common = dict(fields)
        elif common:
            common = {field: value for field, value in common.items() if fields.get(field, missing) == value}
    return common or {}


def indexable(chunks: Iterable[Chunk], embedder: Embedder, report: WriteReport) -> list[Chunk]:
    """Those that can be found; the others are counted in the report."""
    return [chunk for chunk in chunks if _indexable(chunk, embedder, report)]


def _indexable(chunk: Chunk, embedder: Embedder, report: WriteReport) -> bool:
    if embedder.can_index(chunk):
        return True
    if isinstance(chunk.content, DataBlock):
        report.images_left_out += 1
    else:
        report.blank_left_out += 1
    return False
