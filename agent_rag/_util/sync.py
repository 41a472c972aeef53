"""The one bridge for synchronous callers and synchronous frameworks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_loop: asyncio.AbstractEventLoop | None = None
_lock = threading.Lock()


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` to its end from synchronous code and return its result.

    All calls share one event loop in a daemon thread, so that clients opened in one call serve the next. Works
    whether or not the calling thread has a running loop (which it then blocks).
    """
    return asyncio.run_coroutine_threadsafe(coroutine, _background_loop()).result()


def _background_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="agent-rag-sync", daemon=True).start()
        return _loop
