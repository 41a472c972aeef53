"""Sources: what to ingest, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Listing, SourceBase, SourceItem
from .files import DirectorySource, FileSource
from .text import TextSource

if TYPE_CHECKING:
    from .web import WebSource

__all__ = ["DirectorySource", "FileSource", "Listing", "SourceBase", "SourceItem", "TextSource", "WebSource"]


def __getattr__(name: str) -> Any:
    if name != "WebSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .web import WebSource  # brings httpx, which files do not need

    return WebSource
