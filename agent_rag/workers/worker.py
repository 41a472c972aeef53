"""The other side of the pipe: a process that makes one call after another for a `WorkerPool`.

Frames in both directions are eight bytes of length (little endian) and a pickle. In: ``(folder, function,
arguments)``; a coroutine function is run to its end. Out: a `Reply`.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import pickle
import shutil
import signal
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from .isolated import mark_as_isolated

_MIB = 1024 * 1024
_LENGTH = struct.Struct("<Q")
_COLLECT_AFTER = (100_000, 20, 100)
"""A document is many objects at once and hardly a cycle: CPython's (700, 10, 10) takes a quarter of the time."""


class Reply(NamedTuple):
    kind: Literal["ready", "result", "error", "memory", "unloadable"]
    value: Any
    """The result; for an error the chain of exceptions, outermost first; else a text."""
    log: list[tuple[str, int, str]]
    """Warnings of this package on the way: logger name, level, message."""
    retire: bool
    """The process holds too much memory to serve another job."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame, or None when the stream has ended."""
    header = _read(stream, _LENGTH.size)
    return _read(stream, _LENGTH.unpack(header)[0]) if header else None


def _read(stream: BinaryIO, size: int) -> bytes | None:
    """Exactly `size` bytes, also from an unbuffered pipe, which gives what it has."""
    data = stream.read(size)
    if len(data) == size:
        return data
    pieces = bytearray(data)
    while data and len(pieces) < size:
        data = stream.read(size - len(pieces))
        pieces += data
    return bytes(pieces) if len(pieces) == size else None


def write_frame(stream: BinaryIO, frame: bytes) -> None:
    for piece in (_LENGTH.pack(len(frame)), frame):
        view = memoryview(piece)
        while view:
            view = view[stream.write(view) :]
    stream.flush()


def main(memory_mb: int, folder: str) -> None:
    """Serve jobs from standard input until it closes or the parent is gone.

    Args:
        memory_mb: Address space a job may take beyond what the started process has.
        folder: Own folder for temporary files, removed when the parent vanishes.
    """
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # native libraries print to standard output; keep that out of the frames
    threading.Thread(target=_end_with_parent, args=(os.getppid(), folder), daemon=True).start()
    log = _LogCollector()
    logging.getLogger("agent_rag").addHandler(log)
    mark_as_isolated()
    _limit_memory(memory_mb)
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    write_frame(replies, pickle.dumps(Reply("ready", "", [], False)))
    try:
        with asyncio.Runner() as runner:
            while (frame := read_frame(sys.stdin.buffer)) is not None:
                answer = _serve(frame, log, memory_mb, runner.get_loop())
                del frame
                write_frame(replies, answer)
    except BrokenPipeError:
        pass  # nobody waits for the answer any more
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a pipe ends by itself only when the parent was killed


def _serve(frame: bytes, log: _LogCollector, memory_mb: int, loop: asyncio.AbstractEventLoop) -> bytes:
    try:
        folder, function, arguments = pickle.loads(frame)
    except MemoryError:
        return pickle.dumps(Reply("memory", "the file does not fit", log.take(), True))
    except Exception as error:
        return pickle.dumps(Reply("unloadable", f"{type(error).__name__}: {error}", log.take(), False))
    try:
        os.chdir(folder)  # a relative path means the same here as for the caller
        result = function(*arguments)
        if inspect.iscoroutine(result):
            result = loop.run_until_complete(result)
        return pickle.dumps(Reply("result", result, log.take(), _resident_mb() > memory_mb // 2))
    except MemoryError as error:
        return pickle.dumps(Reply("memory", str(error), log.take(), True))
    except BaseException as error:  # pyo3's PanicException is no Exception
        if _memory_is_out(error):
            return pickle.dumps(Reply("memory", str(error), log.take(), True))
        return pickle.dumps(Reply("error", _portable_chain(error), log.take(), _resident_mb() > memory_mb // 2))


def _memory_is_out(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _portable_chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < 8:
        chain.append(_portable(link))
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _portable(error: BaseException) -> BaseException:
    """`error` if it survives pickling, else a RuntimeError that names it."""
    try:
        error.__traceback__ = None
        copy = pickle.loads(pickle.dumps(error))
        if isinstance(copy, BaseException) and str(copy) == str(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")


class _LogCollector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append((record.name, record.levelno, record.getMessage()))

    def take(self) -> list[tuple[str, int, str]]:
        taken, self._records = self._records, []
        return taken


def _limit_memory(memory_mb: int) -> None:
    """Bound the address space, so that an allocation beyond it fails in this process and hurts no other."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + memory_mb * _MIB
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))  # a program that a parser starts sets a limit of its own
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        return  # not Linux: the parent's time limit and the platform's own memory handling remain


def _resident_mb() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // _MIB
    except (OSError, ValueError):
        return 0


def _end_with_parent(parent: int, folder: str) -> None:
    """A parent that was killed cannot stop its workers; they notice that they were adopted."""
    while os.getppid() == parent:
        time.sleep(1)
    shutil.rmtree(folder, ignore_errors=True)
    if hasattr(os, "killpg"):
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os._exit(1)
