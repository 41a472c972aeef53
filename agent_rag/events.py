"""Typed events for one callback, ``on_event``: what happened, without the content."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

logger = logging.getLogger("agent_rag")

Trigger = Literal["user", "agent"]


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
    stage: Literal["list", "parse", "chunk", "embed", "store", "prune", "done"]
    done: int
    """Files finished, of `total`."""
    total: int
    document_id: str | None = None
    outcome: str | None = None
    """For a finished file: added, replaced, unchanged, skipped or failed."""


EventCallback = Callable[[Event], Any | Awaitable[Any]]


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
