"""Items in groups that one request takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
Bound = tuple[Callable[[T], int], int]
"""Size of one item, and the most of a group."""


def grouped(items: Iterable[T], *bounds: Bound[T]) -> Iterator[list[T]]:
    """Groups of items that follow each other, within all `bounds`; an item that alone is above one comes alone."""
    group: list[T] = []
    totals = [0] * len(bounds)
    for item in items:
        sizes = [size(item) for size, _ in bounds]
        sums = [total + size for total, size in zip(totals, sizes, strict=True)]
        if group and any(total > most for total, (_, most) in zip(sums, bounds, strict=True)):
            yield group
            group, sums = [], sizes
        group.append(item)
        totals = sums
    if group:
        yield group


def at_most(count: int) -> Bound[object]:
    """A bound on the number of items."""
    return (lambda _: 1), count


def slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in pieces of `size`, the last one shorter."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def side_by_side(works: Iterable[Awaitable[T]], width: int) -> list[T]:
    """Await `works`, up to `width` at once, and return their answers in order.

    All that began have ended when it returns or raises the first error.
    """
    answers: list[T] = []
    waiting = iter(works)
    while window := list(islice(waiting, width)):
        for answer in await asyncio.gather(*window, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
    return answers
