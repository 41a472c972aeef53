"""A folder that is kept in step while a program runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from .._util.extras import needs
from ..errors import SourceError, redact
from ..knowledge.knowledge_base import KnowledgeBase
from ..parsers import ParserPool
from ..sources import DirectorySource
from .ingest import sync
from .options import SyncOptions
from .report import IngestReport

logger = logging.getLogger("agent_rag")


async def watch(
    kb: KnowledgeBase,
    source: DirectorySource,
    *,
    on_report: Callable[[IngestReport], Any | Awaitable[Any]] | None = None,
    quiet_s: float = 0.5,
    stop: asyncio.Event | None = None,
    **options: Unpack[SyncOptions],
) -> None:
    """Sync a folder, and again after each change in it, until cancelled or `stop` is set. Needs the extra ``watch``.

    A burst of changes is one sync, and a change during a sync is followed by another. Each sync compares the whole
    folder, so nothing is lost if the system drops notices, and an editor that writes a new file and renames it over
    the old one is a change of one document. What a single sync refuses (a folder that lost most of its files, or is
    gone) is logged, and the watch goes on.

    Args:
        on_report: Called after each sync that did something.
        quiet_s: How long it must be quiet before a sync.
    """
    watchfiles = needs("watch", "watchfiles", purpose="watch")
    ending = stop or asyncio.Event()
    options.setdefault("prune", True)
    async with ParserPool() as pool:
        options.setdefault("pool", pool)
        # The watcher starts before the first sync, so that no change falls between the two.
        changes = watchfiles.awatch(
            source.root, stop_event=ending, step=int(quiet_s * 1000), debounce=max(1600, int(quiet_s * 4000)),
            recursive=True, yield_on_timeout=False,
        )  # fmt: skip
        waiting = asyncio.ensure_future(anext(changes, None))
        try:
            await asyncio.sleep(0)
            await _sync_reported(kb, source, on_report, options)
            while await waiting is not None:
                waiting = asyncio.ensure_future(anext(changes, None))
                await _sync_reported(kb, source, on_report, options)
        finally:
            ending.set()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


async def _sync_reported(
    kb: KnowledgeBase, source: DirectorySource, on_report: Callable[[IngestReport], Any] | None, options: SyncOptions
) -> None:
    try:
        report = await sync(kb, source, **options)
    except SourceError as error:
        logger.warning("%s is not synced: %s", source.name, redact(str(error)))
        return
    if on_report is not None and set(report.counts) - {"unchanged", "skipped"}:
        answer = on_report(report)
        if isinstance(answer, Awaitable):
            await answer
