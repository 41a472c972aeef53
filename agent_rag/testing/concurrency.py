"""Many calls at once from several threads, each with an event loop of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 4
AT_ONCE = 80
_SWITCH_S = 1e-5
"""CPython switches threads every 5 ms, which hides most races of short calls."""


def many_at_once(work: Callable[[T], Awaitable[R]], inputs: Sequence[T]) -> list[R]:
    """What `work` gives for each input, all begun together: `THREADS` threads, a loop each, its share gathered.

    Between the calls each loop also runs a task that lets the others in, as a slow reader does.
    """

    async def share(part: Sequence[T]) -> list[R]:
        slow = asyncio.create_task(_let_others_in())
        try:
            return list(await asyncio.gather(*(work(item) for item in part)))
        finally:
            slow.cancel()

    with _switching_often(), ThreadPoolExecutor(THREADS) as pool:
        runs = [pool.submit(asyncio.run, share(inputs[number::THREADS])) for number in range(THREADS)]
        parts = [run.result() for run in runs]
    return [parts[index % THREADS][index // THREADS] for index in range(len(inputs))]


async def _let_others_in() -> None:
    for _ in repeat(None):
        await asyncio.sleep(0.001)


@contextmanager
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
