"""What a KnowledgeBase does with documents before a store sees them: check, merge metadata, embed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from .content import DataBlock, TextBlock
from .documents import Chunk, DocumentSummary, is_blank, storable_metadata, storable_text
from .embeddings.base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase
from .errors import ConfigurationError, EmbeddingAuthError, EmbeddingError, EmbeddingTimeoutError
from .limits import Limits

_EMBED_BATCH = 512


class Document(BaseModel):
    """One document to write: all its chunks at once."""

    document_id: str
    chunks: list[Chunk]
    metadata: dict[str, Any] = Field(default_factory=dict)
    title: str | None = None
    uri: str | None = None
    source: str | None = None
    """Default: the source of the first chunk."""
    state: dict[str, str] = Field(default_factory=dict)
    """Kept with the document for ingestion; see DocumentSummary.state."""


class WriteReport(BaseModel):
    """What writing documents did."""

    chunk_count: int = 0
    """Chunks stored."""
    replaced_chunks: int = 0
    """Chunks of earlier versions that are gone."""
    embedded: int = 0
    """Vectors computed; the rest was reused."""
    blank_left_out: int = 0
    images_left_out: int = 0
    """Images that a text-only model cannot index because they have no caption."""


class Embedder:
    """An embedding model, ours or duck-typed or none, with its answers checked."""

    def __init__(self, model: EmbeddingModelBase | Any | None) -> None:
        self.model = model
        self._takes_mode = model is not None and "mode" in inspect.signature(model.__call__).parameters

    @property
    def dimensions(self) -> int:
        """0 without a model."""
        return int(self.model.dimensions) if self.model is not None else 0

    @property
    def fingerprint(self) -> str | None:
        """None when the model has none."""
        fingerprint = getattr(self.model, "fingerprint", None)
        return fingerprint if isinstance(fingerprint, str) else None

    @property
    def multimodal(self) -> bool:
        return bool(getattr(self.model, "supports_multimodal", False))

    def can_index(self, chunk: Chunk) -> bool:
        """Whether a chunk can be found: it has text, or is an image that the model embeds."""
        return not (is_blank(chunk.text) and is_blank(chunk.embed_text or "")) or (
            isinstance(chunk.content, DataBlock) and self.multimodal
        )

    async def vectors(
        self, chunks: Sequence[Chunk], known: Mapping[str, list[float]] | None, report: WriteReport
    ) -> list[list[float]]:
        """One vector per chunk; what is known, or occurs twice, is embedded once."""
        if self.model is None:
            return [[] for _ in chunks]
        vectors: dict[str, list[float]] = dict(known or {})
        wanted: dict[str, EmbeddingInput] = {}
        names = []
        for position, chunk in enumerate(chunks):
            image = isinstance(chunk.content, DataBlock) and self.multimodal
            name = f"\x00{position}" if image else chunk.indexed_text
            names.append(name)
            if name not in vectors and name not in wanted:
                wanted[name] = chunk.content if image else name
        todo = list(wanted)
        for start in range(0, len(todo), _EMBED_BATCH):
            part = todo[start : start + _EMBED_BATCH]
            try:
                embedded = await self.embed([wanted[name] for name in part], "document")
            except EmbeddingError as error:
                raise _with_place(error, chunks[names.index(part[0])], chunks[names.index(part[-1])]) from error
            vectors.update(zip(part, embedded, strict=True))
        report.embedded += len(todo)
        return [vectors[name] for name in names]

    async def embed(self, inputs: Sequence[EmbeddingInput], mode: EmbeddingMode) -> list[list[float]]:
        """Vectors of `inputs`, in order.

        Raises: EmbeddingError: wrong count or size, or a number that is not finite. ConfigurationError: no model.
        """
        model = self.model
        if model is None:
            raise ConfigurationError("there is no embedding model; only keyword search works")
        response = await (model(list(inputs), mode=mode) if self._takes_mode else model(list(inputs)))
        vectors: list[list[float]] = [list(vector) for vector in response.embeddings]
        if len(vectors) != len(inputs):
            raise EmbeddingError(f"the embedding model answered {len(vectors)} vectors for {len(inputs)} inputs")
        for vector in vectors:
            if len(vector) != self.dimensions:
                raise EmbeddingError(
                    f"the embedding model answered a vector of {len(vector)} numbers, not {self.dimensions}"
                )
            if not math.isfinite(sum(vector)):
                raise EmbeddingError("the embedding model answered a vector with a number that is not finite")
        return vectors


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
        source=document.source or document.chunks[0].source,
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


def _with_place(error: EmbeddingError, first: Chunk, last: Chunk) -> EmbeddingError:
    kind = next(cls for cls in (EmbeddingAuthError, EmbeddingTimeoutError, EmbeddingError) if isinstance(error, cls))
    return kind(
        f"embedding failed between chunk {first.document_id}:{first.chunk_index} "
        f"and {last.document_id}:{last.chunk_index}: {error}"
    )
