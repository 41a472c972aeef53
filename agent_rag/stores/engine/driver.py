"""Runs `retrieve_steps` for a store: the store only answers the steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from ...documents import VectorSearchResult
from ..base import RetrieveRequest, Scored, Step, retrieve_steps


class HasScore(Protocol):
    @property
    def score(self) -> float: ...


Hit = TypeVar("Hit", bound=HasScore)


def run_steps(request: RetrieveRequest, answer: Callable[[Step], Any]) -> list[VectorSearchResult]:
    """One search, for a store that answers in the calling thread (inside its lock or its worker thread).

    Args:
        answer: Gives the answer of one step, see `Nearest`, `Keyword` and `Get`. Its errors go through.
    """
    if request.limit <= 0:
        return []
    steps = retrieve_steps(request)
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as end:
            found: list[VectorSearchResult] = end.value
            return found
        reply = answer(step)


async def run_steps_async(
    request: RetrieveRequest, answer: Callable[[Step], Awaitable[Any]]
) -> list[VectorSearchResult]:
    """As `run_steps`, for a store that awaits its server (inside one transaction or point in time)."""
    if request.limit <= 0:
        return []
    steps = retrieve_steps(request)
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as end:
            found: list[VectorSearchResult] = end.value
            return found
        reply = await answer(step)


def best(scored: Iterable[Scored], limit: int) -> list[Scored]:
    """The first `limit` by score, equal ones by key."""
    return sorted(scored, key=lambda hit: (-hit.score, hit.key))[:limit]


def cut_ties(found: Callable[[int], list[tuple[Any, float]]], limit: int, count: int) -> list[tuple[Any, float]]:
    """The best hits, asking for more while the last one ties with the one at `limit`, so that ties are cut by key.

    Args:
        found: ``found(n)``: the best `n` hits, best first.
        count: First `n` to ask for, above `limit`.
    """
    while True:
        hits = found(count)
        if len(hits) < count or hits[-1][1] < hits[limit - 1][1]:
            return hits
        count *= 4


def all_from(found: Callable[[int], list[Hit]], limit: int, share: float) -> list[Hit]:
    """All hits that score at least `share` of the one at `limit`, where scores are above 0 and slightly wrong.

    Args:
        found: ``found(n)``: the best `n` hits, best first.
    """
    count = limit + 20
    while True:
        hits = found(count)
        lowest = share * hits[limit - 1].score if len(hits) >= limit else 0.0
        if len(hits) < count or hits[-1].score < lowest:
            return [hit for hit in hits if hit.score >= lowest]
        count *= 2
