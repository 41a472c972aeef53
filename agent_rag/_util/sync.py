"""The one bridge for synchronous callers and synchronous frameworks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..errors import ConfigurationError

T = TypeVar("T")


class _Background:
    """An event loop in a daemon thread, made when first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="agent-rag-sync", daemon=True)
                self._thread.start()
            return self._loop

    def is_here(self) -> bool:
        """Whether the caller runs in the loop's own thread."""
        return self._thread is threading.current_thread()


_background = _Background()


def _start_anew() -> None:
    """A forked child has the parent's loop without its thread, which would wait for ever."""
    global _background
    _background = _Background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` to its end from synchronous code, and return its result or raise its error.

    All calls share one event loop in a daemon thread, so that a store or client opened in one call serves the next;
    the calls of synchronous frameworks (``agent.invoke``, ``agent.run``) run in it too, so open the store with it::

        store = run_sync(SQLiteStore("docs.db").__aenter__())

    Works in notebooks and wherever the calling thread has a running loop, which waits meanwhile. The caller's context
    variables are seen. An interrupt (Ctrl-C) cancels the coroutine. A forked child gets a loop of its own: what was
    opened before the fork belongs to the parent, so open stores and clients after it.

    Raises: ConfigurationError: called from within itself, where it would wait for ever; use ``await``.
    """
    background = _background
    if background.is_here():
        coroutine.close()
        raise ConfigurationError("run_sync was called from a coroutine that run_sync runs; use await there")
    running = asyncio.run_coroutine_threadsafe(coroutine, background.loop())
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise
