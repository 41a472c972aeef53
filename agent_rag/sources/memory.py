"""Documents in memory as a source: uploads, rows of a database, anything a program holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from ..errors import ConfigurationError
from .base import Listing, SourceBase, SourceItem


class SourceDocument(BaseModel):
    """A document that a program holds. `ingest(kb, SourceDocument(...))` stores it in one step."""

    document_id: str
    """Its id, and its path within the source."""
    content: str | bytes
    filename: str | None = None
    """Name that is parsed, shown and cited; its ending tells the kind. Default: `document_id`."""
    media_type: str | None = None
    """Default: by content and name; plain text for a text whose name has no ending."""
    title: str | None = None
    uri: str | None = None
    """Where it can be opened; default: ``memory:<source>/<document_id>``."""
    metadata: dict[str, Any] = Field(default_factory=dict)


class MemorySource(SourceBase):
    """Documents given by a program. Nothing is ever read from disk.

    With `ingest` the documents given are added to those of this name; `sync` deletes the others.
    """

    def __init__(self, documents: Sequence[SourceDocument], *, name: str = "memory") -> None:
        """Raises: ConfigurationError: two documents have one id."""
        self.documents = list(documents)
        self.name = name
        ids = [document.document_id for document in self.documents]
        if len(set(ids)) != len(ids):
            twice = next(one for number, one in enumerate(ids) if one in ids[:number])
            raise ConfigurationError(f"document id {twice!r} occurs twice in the source {name!r}; give each its own")

    async def list(self) -> Listing:
        return Listing(items=[self._item(document) for document in self.documents])

    def _item(self, document: SourceDocument) -> SourceItem:
        content, filename = document.content, document.filename or document.document_id
        plain = isinstance(content, str) and "." not in filename
        return SourceItem(
            document_id=document.document_id,
            uri=document.uri or f"memory:{self.name}/{document.document_id}",
            title=document.title,
            data=content.encode("utf-8", "ignore") if isinstance(content, str) else content,
            filename=filename,
            media_type=document.media_type or ("text/plain" if plain else None),
            metadata=dict(document.metadata),
        )
