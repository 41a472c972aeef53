"""The name of a source that nobody named, as a collection knows it.

A name that was given is the name. Else, in this order:

1. A source that the collection has from this place keeps its name.
2. A tree that was moved keeps its name: its old place is gone, and at least half of its documents are here, under the
   same paths and with the same bytes.
3. The name of the folder; if another source has it, with as many folders above as it takes (``b/docs``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from ..documents import DocumentSummary
from ..sources import Listing, SourceBase, SourceItem
from .state import FileState, Pipeline, metadata_digest

MOVED_SHARE = 0.5
"""Least share of a moved tree's documents that must be found again."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A document of the collection with what ingestion kept of it."""

    summary: DocumentSummary
    state: FileState


@dataclass
class StoredSource:
    """What a collection holds of one source."""

    name: str
    location: str = ""
    chosen: bool = False
    documents: list[Stored] = field(default_factory=list)


def stored_sources(documents: Sequence[Stored]) -> dict[str, StoredSource]:
    """The sources of a collection by name."""
    sources: dict[str, StoredSource] = {}
    for document in documents:
        state = document.state
        source = sources.setdefault(state.source, StoredSource(state.source))
        source.location = state.location or source.location
        source.chosen = source.chosen or bool(state.chosen)
        source.documents.append(document)
    return sources


def name_of(
    source: SourceBase,
    listing: Listing,
    known: Mapping[str, StoredSource],
    digest: Callable[[SourceItem], str],
) -> str:
    """The name of `source` in a collection with the sources `known`; may read files, to recognise a moved tree.

    Args:
        digest: SHA-256 of an item.
    """
    if source.named:
        return source.name
    here = [one for one in known.values() if source.location and one.location == source.location]
    if here:
        return min(here, key=lambda one: (one.chosen, one.name)).name
    items = {item.key: item for item in listing.items}
    recognised = [one for one in known.values() if _is_this(one, source.location, items, digest)]
    if recognised:
        return max(recognised, key=lambda one: (len(one.documents), one.name)).name
    return _free_name(source, known)


def path_of(location: str) -> str | None:
    """The path of a ``file:`` URI, also of one with a scheme before it (``files:file:///...``)."""
    uri = location[location.find("file:") :] if "file:" in location else ""
    return url2pathname(unquote(urlsplit(uri).path)) if uri else None


def _is_this(
    source: StoredSource, location: str, items: Mapping[str, SourceItem], digest: Callable[[SourceItem], str]
) -> bool:
    """Whether the tree `items` at `location` is `source`, moved or copied."""
    path = path_of(source.location)
    stored = [one for one in source.documents if one.state.digest and one.state.path]
    if path is None or source.location.partition("file:")[0] != location.partition("file:")[0] or not stored:
        return False
    if not os.path.lexists(path):
        return _share_here(stored, items, MOVED_SHARE, digest) >= MOVED_SHARE
    if not len(stored) == len(items) > 1 or not all(_has_metadata(one, items) for one in stored):
        return False
    return _share_here(stored, items, 1.0, digest) == 1.0


def _has_metadata(one: Stored, items: Mapping[str, SourceItem]) -> bool:
    item, pipeline = items.get(one.state.path), Pipeline.load(one.state.pipeline)
    return item is not None and pipeline is not None and pipeline.metadata == metadata_digest(item, item.also)


def _share_here(
    stored: Sequence[Stored], items: Mapping[str, SourceItem], least: float, digest: Callable[[SourceItem], str]
) -> float:
    """Share of the documents that are among `items` by path and content; 0 when it cannot be `least`."""
    candidates = [(one, items[one.state.path]) for one in stored if one.state.path in items]
    if len(candidates) < least * len(stored):
        return 0.0
    found = 0
    for one, item in candidates:
        try:
            found += digest(item) == one.state.digest
        except OSError:
            continue
    return found / len(stored)


def _free_name(source: SourceBase, known: Mapping[str, StoredSource]) -> str:
    scheme, _, _ = source.location.partition("file:")
    path = path_of(source.location)
    parts = [part for part in (path or "").replace("\\", "/").split("/") if part]
    name, above = source.name, len(parts) - 1
    while name in known and above > 0:
        above -= 1
        name = scheme + "/".join(parts[above:])
    return name if name not in known else f"{name} ({source.location})"
