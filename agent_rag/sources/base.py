"""The contract of a source: what there is to ingest, and where it can be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

MetadataFor = Mapping[str, Any] | Callable[[str], Mapping[str, Any]]
"""Metadata of every document, or a function from a document's id to its metadata."""


class SourceItem(BaseModel):
    """One document of a source."""

    document_id: str
    """Preferred id: the path relative to the source's root, with ``/``, in Unicode NFC."""
    uri: str
    """Where the document can be opened; one document per uri."""
    title: str
    path: Path | None = None
    """The file, where it is one."""
    data: bytes | None = None
    """The content, where there is no file."""
    filename: str
    """Name that is parsed, shown and cited."""
    media_type: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class Listing(BaseModel):
    """What a source holds now."""

    items: list[SourceItem] = Field(default_factory=list)
    skipped: list[tuple[str, str]] = Field(default_factory=list)
    """(path, reason) of what is not meant to be ingested, such as an unknown extension."""
    errors: list[tuple[str, str]] = Field(default_factory=list)
    """(path, reason) of what could not be read; a listing with errors never prunes."""


class SourceBase(ABC):
    """Something to ingest. `name` tells its documents from those of other sources in the same collection."""

    name: str

    @abstractmethod
    async def list(self) -> Listing:
        """Look at the source now. Errors of single entries are reported, not raised.

        Raises: SourceError: the source as a whole cannot be read.
        """


def metadata_of(metadata: MetadataFor | None, document_id: str) -> dict[str, Any]:
    """The metadata of one document."""
    return dict((metadata(document_id) if callable(metadata) else metadata) or {})


def is_address(text: object) -> bool:
    """Whether this names a page of the web and no path."""
    return isinstance(text, str) and text.strip().lower().startswith(("http://", "https://"))
