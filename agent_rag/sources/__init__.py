"""Sources: what to ingest, and what changed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import Listing, SourceBase, SourceItem
from .files import DirectorySource, FileSource
from .memory import MemorySource, SourceDocument
from .opening import open_source
from .text import TextSource

if TYPE_CHECKING:
    from .fsspec import FsspecSource
    from .git import GitSource
    from .web import WebSource

__all__ = [
    "DirectorySource",
    "FileSource",
    "FsspecSource",
    "GitSource",
    "Listing",
    "MemorySource",
    "SourceBase",
    "SourceDocument",
    "SourceItem",
    "TextSource",
    "WebSource",
    "open_source",
]

# These bring packages that files do not need.
_LATE = {"FsspecSource": "fsspec", "GitSource": "git", "WebSource": "web"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
