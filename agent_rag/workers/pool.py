"""Parsing in worker processes: a time limit, a memory limit, real cancellation, and a crash that costs one file.

The workers bound resources; they are no sandbox against code execution. They are plain subprocesses that never import
the caller's main module, so they need no ``if __name__ == "__main__"`` guard and work in notebooks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from ..errors import (
    ConfigurationError,
    ParseLimitError,
    ParserCrashedError,
    ParseTimeoutError,
)
from .isolated import is_isolated
from .process import Job, Outcome, WorkerProcess

logger = logging.getLogger(__name__)

T = TypeVar("T")
Isolation = Literal["process", "none"]
"""Where a call runs: in a worker process, or in a thread of this one."""


class _Workers:
    """The processes and threads of a pool; knows nothing of the pool, so that a forgotten pool can be collected."""

    def __init__(self, count: int, memory_mb: int) -> None:
        self.memory_mb = memory_mb
        self.owner = os.getpid()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="agent-rag-parser")
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self.closed = False
        self.used = False
        """Whether a process was ever asked for."""

    def submit(self, job: Job) -> asyncio.Future[Outcome]:
        self._refuse_closed()
        self.used = True
        return asyncio.get_running_loop().run_in_executor(self._threads, self._execute, job)

    def _refuse_closed(self) -> None:
        if self.closed:
            raise ConfigurationError("the pool is closed; make a new one")

    def _execute(self, job: Job) -> Outcome:
        if job.cancelled:
            return Outcome("cancelled")
        try:
            frame = job.frame()
        except Exception as error:
            return Outcome("unloadable", detail=f"{type(error).__name__}: {error}")
        worker = self._take()
        outcome = worker.run(job, frame)
        del frame
        self._give_back(worker, outcome)
        return outcome

    def _take(self) -> WorkerProcess:
        with self._lock:
            self._refuse_closed()
            while self._idle:
                worker = self._idle.pop()
                if worker.alive():
                    return worker
                self._all.discard(worker)
                worker.stop()
            worker = WorkerProcess(self.memory_mb)
            self._all.add(worker)
            return worker

    def _give_back(self, worker: WorkerProcess, outcome: Outcome) -> None:
        with self._lock:
            if not self.closed and worker.reusable(outcome):
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.stop()

    def close(self) -> None:
        """Kill every worker, also one at work, and wait until the processes are gone."""
        if os.getpid() != self.owner:
            return  # a forked child must not end its parent's workers
        with self._lock:
            self.closed = True
            workers, self._idle = list(self._all), []
            self._all.clear()
        for worker in workers:
            worker.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


class WorkerPool:
    """Runs calls in warm worker processes.

    A call that hangs, eats memory or aborts its process costs that call: the worker is killed and replaced. Cancelling
    the awaiting task kills the worker at once.

    Args:
        workers: Processes at most, started when needed; None: one per CPU, four at most.
        timeout_s: Time one call may take.
        memory_mb: Memory one call may take in its worker, in MiB, beyond that of the idle process.

    Use it as an async context manager, or call `close`; a forgotten pool ends with its last reference or the process.
    """

    def __init__(self, workers: int | None = None, *, timeout_s: float = 60.0, memory_mb: int = 1024) -> None:
        count = workers if workers is not None else min(4, os.cpu_count() or 1)
        if count < 1 or timeout_s <= 0 or memory_mb < 64:
            raise ConfigurationError(
                f"{type(self).__name__}(workers={workers}, timeout_s={timeout_s}, memory_mb={memory_mb}): "
                "needs workers >= 1, timeout_s > 0 and memory_mb >= 64"
            )
        self.workers = count
        self.timeout_s = timeout_s
        self.memory_mb = memory_mb
        self._start()

    def _start(self) -> None:
        self._workers = _Workers(self.workers, self.memory_mb)
        self._finalizer = weakref.finalize(self, self._workers.close)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._workers.closed

    async def run(
        self, function: Callable[..., Any], *arguments: Any, filename: str, timeout_s: float | None = None
    ) -> Any:
        """Call a module-level function (or coroutine function) in a worker.

        Args:
            filename: Named in errors.
            timeout_s: Instead of the pool's.

        Raises: what `function` raises; NotPortableError: the call cannot travel; ParseTimeoutError, ParserCrashedError,
            ParseLimitError (memory): what became of the worker.
        """
        workers = self._own_workers()
        limit = self.timeout_s if timeout_s is None else timeout_s
        job = Job((os.getcwd(), function, arguments), limit)
        try:
            outcome = await workers.submit(job)
        except asyncio.CancelledError:
            job.cancel()
            raise
        return _unwrapped(outcome, filename, limit, self.memory_mb)

    def prepare(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a worker and let it make this call, whose result nobody gets: a later call need not wait for a process
        and its imports. Does not wait; nothing where a worker was started before. From a running event loop."""
        workers = self._own_workers()
        if not workers.used:
            prepared = workers.submit(Job((os.getcwd(), function, arguments), self.timeout_s))
            # What went wrong is an error of the call that needs the worker.
            prepared.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _own_workers(self) -> _Workers:
        if self._workers.owner != os.getpid():  # forked: the workers belong to the parent process
            self._finalizer.detach()
            self._start()
        return self._workers

    def close(self) -> None:
        """End all workers. Calls that are running fail with ParserCrashedError."""
        self._finalizer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


async def run_isolated(
    function: Callable[..., T],
    *arguments: Any,
    filename: str,
    isolation: Isolation = "process",
    timeout_s: float | None = None,
) -> T:
    """Run a module-level function off the event loop: in a worker of the shared pool, or in a thread.

    Inside a worker it runs where it is. Both the function and the arguments must survive pickling.

    Args:
        isolation: "process" for native engines that can abort; "none" for a thread.
        timeout_s: Time it may take in a worker; None: the shared pool's.
    """
    if is_isolated():
        return function(*arguments)
    if isolation == "none":
        return await asyncio.to_thread(function, *arguments)
    try:
        result: T = await shared_pool().run(function, *arguments, filename=filename, timeout_s=timeout_s)
    except NotPortableError as reason:
        logger.info("%s runs in a thread, not in a worker process: %s", function, reason)
        return await asyncio.to_thread(function, *arguments)
    return result


_shared: WorkerPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool behind a direct `parser.parse()` of a native engine and the default of ingestion."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.is_closed:
            _shared = WorkerPool()
        return _shared


class NotPortableError(Exception):
    """A function or argument cannot be sent to a worker."""


def _unwrapped(outcome: Outcome, filename: str, timeout_s: float, memory_mb: int) -> Any:
    for name, level, message in outcome.log:
        logging.getLogger(name).log(level, "%s", message)
    match outcome.kind:
        case "result":
            return outcome.value
        case "error":
            raise _relinked(outcome.value)
        case "unloadable":
            raise NotPortableError(outcome.detail)
        case "timeout":
            raise timeout_error(filename, timeout_s)
        case "memory":
            raise _ended(
                ParseLimitError(
                    f"{filename}: parsing needs more memory than memory_mb={memory_mb}; "
                    "split the file, or parse it with ParserPool(memory_mb=...)"
                )
            )
        case "cancelled":
            raise asyncio.CancelledError
        case _:
            raise _ended(
                ParserCrashedError(
                    f"{filename}: the worker process ended while it parsed the file ({outcome.detail}); "
                    "the file is damaged or hostile, or the library has a bug"
                )
            )


def _ended(error: Exception) -> Exception:
    error.ended_worker = True  # type: ignore[attr-defined]
    return error


def timeout_error(filename: str, timeout_s: float) -> ParseTimeoutError:
    return ParseTimeoutError(
        f"{filename}: parsing took longer than timeout_s={timeout_s:g}; parse it with ParserPool(timeout_s=...)"
    )


def _relinked(chain: list[BaseException]) -> BaseException:
    for error, cause in pairwise(chain):
        error.__cause__ = cause
    return chain[0]
