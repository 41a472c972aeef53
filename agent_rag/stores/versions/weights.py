"""What BM25 needs of a collection that others write to: totals, and how many chunks have a word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ...retrieval.lexical import idf
from .protocol import Primitives, Totals

_FRESH_S = 30.0
_ATTEMPTS = 5
_TERMS = 1_000


class Weighed(NamedTuple):
    """The terms of a query."""

    weights: dict[Any, float]
    """Term -> idf times its weight in the query, of the terms that are in the collection, the heaviest 1,000."""
    average: float
    """Average length of a chunk."""
    indexed: int
    """Number of chunks that have terms."""
    frequencies: Mapping[Any, int]
    """Term -> number of chunks that have it."""


class Weights:
    """Statistics of a moment: kept until this store writes, at most 30 s.

    Sums over heads and over rows tell whether every row is named by a head. Only where they differ (somebody writes, or
    died while writing) versions are compared, and the rows of those that no head names are left out of the counts.
    """

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives
        self._sums: tuple[Totals, Totals] | None = None
        self._unnamed: set[str] = set()
        self._frequency: dict[Any, int] = {}
        self._since = 0.0
        self._rough: tuple[float | None, float] = (None, 0.0)

    @property
    def unnamed(self) -> set[str]:
        """Versions that no head named when the statistics were read."""
        return self._unnamed

    def forget(self) -> None:
        """After a write of this store."""
        self._sums = None

    async def totals(self) -> Totals:
        """Over heads."""
        # Nothing is kept of an empty collection, and of words that nobody has: others may add some any moment.
        if self._sums is None or not self._sums[0].indexed or time.monotonic() - self._since > _FRESH_S:
            await self._refresh(await self._primitives.totals())
        assert self._sums is not None
        return self._sums[0]

    async def rough_average(self) -> float | None:
        """Average length of the chunks that have tokens, as it lately was; None where there are none."""
        average, since = self._rough
        if not average or time.monotonic() - since > _FRESH_S:
            totals, _ = await self._primitives.totals()
            average = totals.tokens / totals.indexed if totals.indexed else None
            self._rough = average, time.monotonic()
        return average

    async def of(self, terms: Mapping[Any, float], beside: Collection[Any] = ()) -> Weighed:
        """What the terms of a query weigh now.

        Args:
            beside: Those that only change the order of what words find (`FIELD_PREFIXES`); that nobody has one is kept,
                too.
        """
        for _ in range(_ATTEMPTS):
            totals = await self.totals()
            known = self._frequency
            unknown = [term for term in terms if not (term in known if term in beside else known.get(term))]
            if not unknown or not totals.indexed:
                break
            before, unnamed = self._sums, self._unnamed
            counted, sums = await asyncio.gather(
                self._primitives.document_frequencies(unknown, without=unnamed), self._primitives.totals()
            )
            if sums == before == self._sums:
                self._frequency |= {term: counted.get(term, 0) for term in unknown}
                break
            await self._refresh(sums)  # somebody wrote meanwhile
        else:
            self._frequency |= counted
        weights = {
            term: weight * idf(max(totals.indexed, frequency), frequency)
            for term, weight in terms.items()
            if (frequency := self._frequency.get(term, 0))
        }
        heaviest = dict(sorted(weights.items(), key=lambda item: -item[1])[:_TERMS])
        return Weighed(heaviest, totals.tokens / max(totals.indexed, 1), totals.indexed, self._frequency)

    async def _refresh(self, sums: tuple[Totals, Totals]) -> None:
        over_heads, over_rows = sums
        unnamed: set[str] = set()
        if over_heads != over_rows:
            counted = await self._primitives.tally(None)
            unnamed = counted.keys() - await self._primitives.named()
        self._sums, self._unnamed, self._frequency, self._since = sums, unnamed, {}, time.monotonic()
