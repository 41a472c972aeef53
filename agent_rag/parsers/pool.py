"""Parsing in worker processes: a file that hangs, eats memory or aborts its process costs that file."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ..documents import Section
from ..errors import AgentRAGError, ParseError, ParseLimitError, ParserCrashedError, ParseTimeoutError
from ..workers import NotPortableError, WorkerPool, mark_as_isolated, shared_pool
from ..workers.pool import timeout_error
from .base import ParserBase

logger = logging.getLogger(__name__)

T = TypeVar("T")
File = bytes | str | Path
Then = Callable[[list[Section]], Awaitable[T]]
"""What to make of the Sections where they were read: a module-level function, or a method of an object that pickles."""


_TIMED_BYTES = 32 * 1024 * 1024
"""A file has the pool's time for each so many bytes. (200 MB of text take 35 s of CPU, 86 MB of JSON 30.)"""


class ParserPool(WorkerPool):
    """Parses files in warm worker processes. `timeout_s` is the time for each 32 MiB of a file.

    Parsers travel by pickle; one that a worker cannot import (defined in the caller's main module, a notebook or a
    function) runs in a thread of this process instead, without memory limit.
    """

    shares_disk: ClassVar[bool] = True
    """Whether files that a worker leaves on its disk can be read here."""

    async def parse(self, parser: ParserBase, file: File, filename: str) -> list[Section]:
        """`parser.parse(file, filename)` in a worker; a parser with a `fallback` gets a second try after a crash.

        Raises: ParseTimeoutError, ParserCrashedError, ParseLimitError (memory); ParseError: also for anything else
            that the parser raises; FileNotFoundError.
        """
        return await _with_fallback(self, parser, file, filename, _as_they_are)

    async def parse_then(self, parser: ParserBase, file: File, filename: str, then: Then[T]) -> T:
        """`then` of the parsed Sections, called in the worker, so that only its result comes back.

        A `then` that cannot travel is called here. Raises: as `parse`, and what `then` raises.
        """
        return await _with_fallback(self, parser, file, filename, then)


async def parse_in_shared_pool(parser: ParserBase, file: File, filename: str) -> list[Section]:
    """What a direct `parser.parse()` of a native engine, or of a large file, does."""
    return await _with_fallback(shared_pool(), parser, file, filename, _as_they_are)


async def _with_fallback(pool: WorkerPool, parser: ParserBase, file: File, filename: str, then: Then[T]) -> T:
    try:
        return await _parse(pool, parser, file, filename, then)
    except (ParserCrashedError, ParseLimitError) as error:
        fallback = getattr(parser, "fallback", None)
        if fallback is None or not getattr(error, "ended_worker", False):
            raise
        logger.warning("%s; trying again with %r", error, fallback)
        return await _parse(pool, fallback, file, filename, then)


async def _parse(pool: WorkerPool, parser: ParserBase, file: File, filename: str, then: Then[T]) -> T:
    try:
        result: T = await _run(pool, parser, file, filename, then)
        return result
    except NotPortableError as reason:
        logger.info("%s: %s or what follows it cannot run in a worker process: %s", filename, parser, reason)
    try:
        sections: list[Section] = await _run(pool, parser, file, filename, _as_they_are)
    except NotPortableError as reason:
        logger.info("%s runs in a thread, not in a worker process: %s", type(parser).__name__, reason)
        sections = await _in_thread(pool.timeout_s, parser, file, filename)
    return await then(sections)


async def _run(pool: WorkerPool, parser: ParserBase, file: File, filename: str, then: Then[Any]) -> Any:
    timeout_s = pool.timeout_s * max(1, -(-_size_of(file) // _TIMED_BYTES))
    return await pool.run(_parse_here, parser, file, filename, then, filename=filename, timeout_s=timeout_s)


def _size_of(file: File) -> int:
    """In bytes; 0 where it cannot be told, which reading will say."""
    if isinstance(file, bytes):
        return len(file)
    try:
        return os.stat(file).st_size
    except (OSError, ValueError):
        return len(file) if isinstance(file, str) else 0


async def _in_thread(timeout_s: float, parser: ParserBase, file: File, filename: str) -> list[Section]:
    def work() -> list[Section]:
        mark_as_isolated()
        return asyncio.run(_parse_here(parser, file, filename, _as_they_are))

    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.to_thread(work)
    except TimeoutError as error:
        if isinstance(error, ParseTimeoutError):
            raise
        raise timeout_error(filename, timeout_s) from error


async def _parse_here(parser: ParserBase, file: File, filename: str, then: Then[T]) -> T:
    try:
        sections = await parser.parse(file, filename)
    except (AgentRAGError, FileNotFoundError):
        raise
    except Exception as error:
        raise ParseError(f"{filename}: {type(parser).__name__} failed: {type(error).__name__}: {error}") from error
    return await then(sections)


async def _as_they_are(sections: list[Section]) -> list[Section]:
    return sections
