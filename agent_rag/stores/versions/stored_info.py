"""What a collection remembers of itself beside the data."""

from __future__ import annotations

from ..base import CollectionInfo


class StoredInfo(CollectionInfo):
    """What is public, and what only the engine needs."""

    keyword: bool = True
    """Whether its words are indexed."""
    embedding: str | None = None
    """Model with which the server embeds texts; then it finds texts by that instead of by words."""
    layout: int = 1
    """How its documents lie there."""
    place: str = ""
    """Where it lies, once it has been given another name than the one it was made with; then only an alias says which
    name it has."""

    def public(self) -> CollectionInfo:
        return CollectionInfo.model_validate(self.model_dump(include=set(CollectionInfo.model_fields)))
