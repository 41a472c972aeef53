"""Records for tests, short to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..content import ContentBlock, TextBlock
from ..documents import Chunk, DocumentSummary, VectorRecord


def record(
    document_id: str = "doc",
    index: int = 0,
    text: str | ContentBlock = "text",
    *,
    vector: Sequence[float] = (1.0, 0.0, 0.0, 0.0),
    metadata: Mapping[str, Any] | None = None,
    scope: str = "",
    total: int | None = None,
    source: str = "file.txt",
    **chunk: Any,
) -> VectorRecord:
    """A record with defaults for everything that a test does not care about; `chunk` are further Chunk fields."""
    return VectorRecord(
        vector=list(vector),
        document_id=document_id,
        scope=scope,
        chunk=Chunk(
            content=TextBlock(text=text) if isinstance(text, str) else text,
            source=source,
            chunk_index=index,
            total_chunks=index + 1 if total is None else total,
            metadata=dict(metadata or {}),
            **chunk,
        ),
    )


def document(
    document_id: str = "doc",
    *,
    metadata: Mapping[str, Any] | None = None,
    state: Mapping[str, str] | None = None,
    title: str | None = None,
    uri: str | None = None,
    source: str = "file.txt",
    chunk_count: int = 0,
) -> DocumentSummary:
    """A summary to pass to `replace`."""
    return DocumentSummary(
        document_id=document_id,
        source=source,
        chunk_count=chunk_count,
        metadata=dict(metadata or {}),
        state=dict(state or {}),
        title=title,
        uri=uri,
    )
