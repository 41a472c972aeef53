"""Sources: what to ingest, and what changed."""

from .base import Listing, SourceBase, SourceItem
from .files import DirectorySource, FileSource
from .text import TextSource

__all__ = ["DirectorySource", "FileSource", "Listing", "SourceBase", "SourceItem", "TextSource"]
