"""Typed events for one callback, ``on_event``: what happened, without the content."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

__all__ = [
    "DocumentsDeleted",
    "DocumentsRefused",
    "DocumentsReplaced",
    "Event",
    "EventCallback",
    "LoadProgress",
    "MetadataUpdated",
    "Trigger",
]

logger = logging.getLogger("agent_rag")

Trigger = Literal["user", "agent"]
"""Who asked for a write."""


class Event(BaseModel):
    """Base of all events."""

    model_config = ConfigDict(frozen=True)


class DocumentsReplaced(Event):
    """Documents were written whole. Emitted after the store acknowledged the write."""

    knowledge_base: str
    document_ids: tuple[str, ...]
    chunk_count: int
    trigger: Trigger


class DocumentsDeleted(Event):
    """Documents were deleted. Emitted after the store acknowledged it."""

    knowledge_base: str
    document_ids: tuple[str, ...]
    chunk_count: int
    trigger: Trigger


class DocumentsRefused(Event):
    """A write or a deletion failed; of these documents is stored what was there before."""

    knowledge_base: str
    document_ids: tuple[str, ...]
    reason: str
    trigger: Trigger


class MetadataUpdated(Event):
    """Metadata of documents was changed in place."""

    knowledge_base: str
    document_ids: tuple[str, ...]
    fields: tuple[str, ...]
    trigger: Trigger


class LoadProgress(Event):
    """One step of an ingestion."""

    source: str
    """Name of the source, as it is stored."""
    stage: Literal["fetch", "list", "parse", "embed", "store", "prune", "working", "done"]
    """``list`` and ``done`` come once for each source; ``parse`` and ``store`` once for each file that is read or
    written, and ``parse`` once for all that are unchanged; ``fetch`` while a source asks others for its files;
    ``embed`` after each request, also within one large file; ``working`` each second in which nothing else is told."""
    done: int
    """Files that are through this stage; of `total`, except for ``prune``."""
    total: int
    document_id: str | None = None
    outcome: str | None = None
    """Of a stored file: added or replaced; of a pruned one: pruned. The report has the others."""
    error: str | None = None
    """Why this file failed."""
    bytes: int = 0
    """Size of the files that were read so far."""
    chunks: int = 0
    """Chunks embedded so far."""
    chunks_waiting: int = 0
    """Chunks that are read and not embedded yet."""
    requests_in_flight: int = 0
    elapsed_s: float = 0.0
    eta_s: float | None = None
    """Seconds to go if the other files take as long as those that are done; None until one is."""


EventCallback = Callable[[Event], Any | Awaitable[Any]]
"""A function of an `Event`, sync or async."""


async def emit(callback: EventCallback | None, event: Event) -> None:
    """Call `callback`; an error in it is logged and goes no further, since the event already happened."""
    if callback is None:
        return
    try:
        answer = callback(event)
        if inspect.isawaitable(answer):
            await answer
    except Exception:
        logger.exception("on_event callback failed for %s", type(event).__name__)
