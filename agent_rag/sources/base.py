"""The contract of a source: what there is to ingest, and where it can be read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

MetadataFor = Mapping[str, Any] | Callable[[str], Mapping[str, Any]]
"""Metadata of every document, or a function from a document's id to its metadata."""


ListProgress = Callable[[int, int], None]


class SourceItem(BaseModel):
    """One document of a source."""

    document_id: str
    """Preferred id; taken unless a document of another source has it."""
    key: str = ""
    """Path within the source: with the source's name the document's identity. Default: `document_id`."""
    uri: str
    """Where the document can be opened."""
    also: list[str] = Field(default_factory=list)
    """Further paths within the source that reach the same document (links), sorted."""
    title: str | None = None
    """A title that somebody gave; a file name is none, so that renaming a file changes nothing that is embedded."""
    path: Path | None = None
    """The file, where it is one."""
    data: bytes | None = None
    """The content, where there is no file."""
    read: Callable[[], bytes] | None = Field(default=None, exclude=True, repr=False)
    """Gets the content when it is needed, in a thread; instead of `path` and `data`. Raises: OSError, SourceError."""
    filename: str
    """Name that is parsed, shown and cited."""
    media_type: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    size: int | None = None
    """Bytes, where they are known without reading."""
    stamp: str | None = None
    """Equal for as long as the content is the same, as far as can be told without reading it; None: read it."""

    def model_post_init(self, context: Any) -> None:
        """`key` is `document_id` unless given."""
        if not self.key:
            self.key = self.document_id


class Listing(BaseModel):
    """What a source holds now."""

    items: list[SourceItem] = Field(default_factory=list)
    skipped: list[tuple[str, str]] = Field(default_factory=list)
    """(path, reason) of what is not meant to be ingested, such as an unknown extension."""
    errors: list[tuple[str, str]] = Field(default_factory=list)
    """(path, reason) of what could not be read; a listing with errors never prunes."""
    notes: list[str] = Field(default_factory=list)
    """What a reader of the report should know, such as a path that was given twice."""


class SourceBase(ABC):
    """Something to ingest. A document is (name of the source, path within it), and nothing else."""

    name: str
    """Tells its documents from those of other sources in the same collection."""
    named: bool = True
    """Whether somebody chose `name`. Else it is a proposal: the collection may know the source by another name, from
    where it lies now (`location`) or lay before it was moved; see `agent_rag.ingestion.source_names`."""
    location: str = ""
    """Where the source lies, as a URI; stored with its documents."""

    @abstractmethod
    async def list(self) -> Listing:
        """Look at the source now. Errors of single entries are reported, not raised.

        Raises: SourceError: the source as a whole cannot be read.
        """

    async def list_since(self, stamps: Mapping[str, str], progress: ListProgress) -> Listing:
        """As `list`, for a source that asks somebody else: what did not change need not be sent again.

        Args:
            stamps: Path within the source -> `SourceItem.stamp` of last time, where it was read well.
            progress: To be called with (entries done, entries in all); 0 for a number that is not known.
        """
        return await self.list()


def stamp_of(stat: os.stat_result) -> str:
    """What tells whether a file was changed, without reading it: size, times of content and entry, inode.

    The time of the entry (ctime) also changes where a program sets the time of the content back.
    """
    return f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"


def with_content(item: SourceItem) -> SourceItem:
    """`item` with its content at hand: one that is to be read is read. Raises: OSError, SourceError."""
    if item.read is None or item.path is not None or item.data is not None:
        return item
    return item.model_copy(update={"data": item.read()})


def metadata_of(metadata: MetadataFor | None, document_id: str) -> dict[str, Any]:
    """The metadata of one document."""
    return dict((metadata(document_id) if callable(metadata) else metadata) or {})


def is_address(text: object) -> bool:
    """Whether this names a page of the web and no path."""
    return isinstance(text, str) and text.strip().lower().startswith(("http://", "https://"))
