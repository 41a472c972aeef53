"""What a KnowledgeBase does with documents before a store sees them: check, and merge metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..content import DataBlock, TextBlock
from ..documents import Chunk, DocumentSummary, storable_metadata, storable_text
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
    kept = [chunk for chunk in document.chunks if _indexable(chunk, embedder, report)]
    common = _common([chunk.metadata for chunk in kept])
    document_metadata = storable_metadata({**document.metadata, **common, **(scope or {})})
    chunks = []
    for index, chunk in enumerate(kept):
        size = len(chunk.text)
        limits.check("chunk_characters", size, f"chunk {index} of document {document.document_id[:80]!r}")
        metadata = storable_metadata({**document.metadata, **chunk.metadata, **(scope or {})})
        update: dict[str, Any] = {
            "metadata": metadata,
            "chunk_index": index,
            "total_chunks": len(kept),
            "document_id": document.document_id,
            "title": chunk.title or document.title,
            "uri": chunk.uri or document.uri,
        }
        if isinstance(chunk.content, TextBlock) and (clean := storable_text(chunk.content.text)) != chunk.content.text:
            update["content"] = TextBlock(text=clean)
        chunks.append(chunk.model_copy(update=update))
    return document.model_copy(update={"chunks": chunks, "metadata": document_metadata})


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


def _common(metadata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all chunks have: metadata of the document. (The first chunk's own, such as its page, is not.)"""
    if not metadata:
        return {}
    first, *others = metadata
    missing = object()
    return {
        field: value for field, value in first.items() if all(other.get(field, missing) == value for other in others)
    }


def _indexable(chunk: Chunk, embedder: Embedder, report: WriteReport) -> bool:
    if embedder.can_index(chunk):
        return True
    if isinstance(chunk.content, DataBlock):
        report.images_left_out += 1
    else:
        report.blank_left_out += 1
    return False
