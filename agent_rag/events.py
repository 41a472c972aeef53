"""Typed events for one callback, ``on_event``: what happened, without the content."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["DocumentsDeleted", "DocumentsReplaced", "Event", "EventCallback", "LoadProgress", "Trigger"]

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


class LoadProgress(Event):
    """One step of an ingestion."""

    source: str
    stage: Literal["list", "parse", "store", "prune", "done"]
    """``list`` and ``done`` come once for each source, the others once for each file."""
    done: int
    """Files that are through this stage; of `total`, except for ``prune``."""
    total: int
    document_id: str | None = None
    outcome: str | None = None
    """Of a stored file: added or replaced; of a pruned one: pruned. The report has the others."""


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
