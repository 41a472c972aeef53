"""One thread for an embedded engine, and a fair queue in front of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A write in pieces: it yields after each, and returns its answer."""


class Worker:
    """Runs reads and writes in one thread, so that each read and each piece of a write sees one state.

    Writes run one after the other. Between two pieces of a write, the reads that wait at that moment run, so
    neither side starves the other. (Two threads of readers in a loop left a writer 1 of 200 turns.)
    """

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._reads: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._writes: deque[tuple[Future[Any], Steps[Any]]] = deque()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def read(self, job: Callable[[], T]) -> Future[T]:
        """Run `job` at the next turn."""
        future: Future[T] = Future()
        with self._changed:
            self._reads.append((future, job))
            self._changed.notify()
        return future

    def write(self, steps: Steps[T]) -> Future[T]:
        """Run `steps` to its end after the writes before it. Cancelling the future has no effect once it runs."""
        future: Future[T] = Future()
        with self._changed:
            self._writes.append((future, steps))
            self._changed.notify()
        return future

    def stop(self) -> None:
        """Run what is queued, then end the thread. Blocks."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        current: tuple[Future[Any], Steps[Any]] | None = None
        while True:
            with self._changed:
                while not (self._reads or self._writes or current or self._stopped):
                    self._changed.wait()
                reads = list(self._reads)
                self._reads.clear()
                if current is None and self._writes:
                    current = self._writes.popleft()
                    if not current[0].set_running_or_notify_cancel():
                        current = None
                if self._stopped and not (reads or current or self._writes):
                    return
            for future, job in reads:
                if future.set_running_or_notify_cancel():
                    _settle(future, job)
            if current is not None and _step(*current):
                current = None


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
