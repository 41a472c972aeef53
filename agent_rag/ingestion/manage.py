"""Sources of a knowledge base: which there are, reading one anew, removing one."""

from __future__ import annotations

import asyncio
import os
from typing import Unpack

from pydantic import BaseModel

from ..errors import ConfigurationError, SourceError
from ..events import Trigger
from ..knowledge.knowledge_base import KnowledgeBase
from ..sources import DirectorySource, SourceBase
from .ingest import sync
from .options import SyncOptions
from .report import IngestReport
from .source_names import path_of
from .state import FileState

_DELETED_AT_ONCE = 500


class SourceSummary(BaseModel):
    """What a knowledge base holds of one source."""

    name: str
    location: str = ""
    """Where it lay when it was ingested last, as a URI; empty for one that lies nowhere."""
    documents: int = 0
    chunks: int = 0
    skipped: int = 0
    """Files that were skipped and are remembered."""
    failed: int = 0
    """Files that could not be read; of some the last good version is stored."""


async def list_sources(kb: KnowledgeBase) -> list[SourceSummary]:
    """By name. Documents that came from no source are not in it."""
    found: dict[str, SourceSummary] = {}
    for summary in await kb.list_documents(remembered=True):
        state = FileState.of(summary.state)
        if state is None:
            continue
        source = found.setdefault(state.source, SourceSummary(name=state.source))
        source.location = state.location or source.location
        source.documents += summary.chunk_count > 0
        source.chunks += summary.chunk_count
        source.skipped += summary.status == "skipped"
        source.failed += summary.status == "failed"
    return [found[name] for name in sorted(found)]


async def reload_source(kb: KnowledgeBase, source: str | SourceBase, **options: Unpack[SyncOptions]) -> IngestReport:
    """Read every file of a source anew and make the knowledge base hold what it holds.

    Args:
        source: A source, or the name of one that is a folder of this machine.

    Raises: ConfigurationError: no source has that name, or it cannot be made from its name. Otherwise as `sync`.
    """
    if isinstance(source, str):
        source = await _made_again(kb, source)
    options.setdefault("force", True)
    return await sync(kb, source, **options)


async def remove_source(kb: KnowledgeBase, name: str, *, trigger: Trigger = "user") -> list[str]:
    """Delete what came from a source. Returns the ids of its documents, sorted.

    Raises: ConfigurationError: no source has that name.
    """
    summaries = await kb.list_documents(source=name, remembered=True)
    if not summaries:
        raise ConfigurationError(f"{kb.name!r} has no source {name!r}; {await _names(kb)}")
    ids = [summary.document_id for summary in summaries]
    for start in range(0, len(ids), _DELETED_AT_ONCE):
        await kb.delete_documents(ids[start : start + _DELETED_AT_ONCE], trigger=trigger)
    return [summary.document_id for summary in summaries if summary.chunk_count]


async def _made_again(kb: KnowledgeBase, name: str) -> SourceBase:
    found = next((one for one in await list_sources(kb) if one.name == name), None)
    if found is None:
        raise ConfigurationError(f"{kb.name!r} has no source {name!r}; {await _names(kb)}")
    path = path_of(found.location) if found.location.startswith("file:") else None
    if path is None:
        raise ConfigurationError(f"source {name!r} is no folder; pass the source itself, with the options it needs")
    if not await asyncio.to_thread(os.path.isdir, path):
        raise SourceError(f"the folder {path} of source {name!r} is not there; pass the source with its new place")
    return DirectorySource(path, name=name)


async def _names(kb: KnowledgeBase) -> str:
    names = [source.name for source in await list_sources(kb)]
    return f"it has {', '.join(map(repr, names))}" if names else "it has none; ingest something first"
