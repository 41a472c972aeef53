"""A document as it is written, and what writing did."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from ..documents import Chunk
from ..tables.model import Table

PART_CHUNKS = 1_536
"""Chunks of a document that are in memory at once where it is too large as a whole."""


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
    tables: list[Table] = Field(default_factory=list, repr=False)
    """Its typed tables, for a KnowledgeBase with `tables`; others leave them out."""


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
