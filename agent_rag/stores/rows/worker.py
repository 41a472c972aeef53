"""Turns on an embedded engine: a thread, and a fair queue in front of it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

from ...errors import StoreError

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A write in pieces: it yields after each, and returns its answer."""


class Worker:
    """Runs reads and writes one at a time, so that each read and each piece of a write sees one state.

    Writes run one after the other in a thread. Between two pieces of a write, the reads that wait at that moment run,
    so neither side starves the other. (Two threads of readers in a loop left a writer 1 of 200 turns.)
    """

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._reads: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._writes: deque[tuple[Future[Any], Steps[Any]]] = deque()
        self._current: tuple[Future[Any], Steps[Any]] | None = None
        self._stopped = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def read(self, job: Callable[[], T]) -> Future[T]:
        """Run `job` in the worker's thread at the next turn."""
        self._check_process()
        future: Future[T] = Future()
        with self._changed:
            self._reads.append((future, job))
            self._changed.notify_all()
        return future

    def write(self, steps: Steps[T]) -> Future[T]:
        """Run `steps` to its end after the writes before it. Cancelling the future has no effect once it runs."""
        self._check_process()
        future: Future[T] = Future()
        with self._changed:
            self._writes.append((future, steps))
            self._changed.notify_all()
        return future

    def stop(self) -> None:
        """Run what is queued, then end the thread. Blocks."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError("this store was opened before its process was forked; open one in the child instead")

    def _run(self) -> None:
        while (reads := self._turn()) is not None:
            for future, job in reads:
                if future.set_running_or_notify_cancel():
                    _settle(future, job)
            if self._current is not None and _step(*self._current):
                self._current = None

    def _turn(self) -> list[tuple[Future[Any], Callable[[], Any]]] | None:
        """Wait for something to do and take it; None when stopped."""
        with self._changed:
            while not (self._reads or self._writes or self._current or self._stopped):
                self._changed.wait()
            reads = list(self._reads)
            self._reads.clear()
            while self._current is None and self._writes:
                self._current = self._writes.popleft()
                if not self._current[0].set_running_or_notify_cancel():
                    self._current = None
            if self._stopped and not (reads or self._current):
                return None
            return reads


class Closing:
    """A close that runs in a thread. The next opening waits for it, also when the caller of the close was cancelled."""

    def __init__(self) -> None:
        self._running: Future[None] | None = None

    async def run(self, close: Callable[[], None]) -> None:
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # from here on nobody can cancel it
        self._running = future
        threading.Thread(target=_settle, args=(future, close), name="agent-rag-close").start()
        await asyncio.wrap_future(future)

    async def over(self) -> None:
        """Wait for a close that runs."""
        if self._running is not None:
            await asyncio.wait([asyncio.wrap_future(self._running)])


def _settle(future: Future[Any], job: Callable[[], Any]) -> None:
    try:
        future.set_result(job())
    except BaseException as error:  # handed to whoever waits
        future.set_exception(error)


def _step(future: Future[Any], steps: Steps[Any]) -> bool:
    """Run one piece; whether it was the last."""
    try:
        next(steps)
        return False
    except StopIteration as end:
        future.set_result(end.value)
    except BaseException as error:  # handed to whoever waits
        future.set_exception(error)
    return True
