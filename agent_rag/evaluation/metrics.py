"""Measures of one ranking: recall, reciprocal rank, nDCG, and how much of quoted text fits into a budget of tokens.

All look at *gains*: position by position, from the best hit on, what a hit adds to what those before it had. An item
(a document, a quote, a place) counts once, at the first hit that holds it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Interval = tuple[int, int]


def recall(gains: Sequence[Sequence[int]], wanted: Sequence[int], k: int) -> float:
    """Share of the `wanted` items that the first `k` hits hold, in [0, 1].

    Args:
        gains: For each hit, best first, the grades of the items that it is the first to hold.
        wanted: The grades of all items; at least one.
    """
    return sum(len(new) for new in gains[:k]) / len(wanted)


def reciprocal_rank(gains: Sequence[Sequence[int]], k: int = 10) -> float:
    """One divided by the position of the first relevant hit among the first `k`, in (0, 1]; 0 where there is none."""
    return next((1 / rank for rank, new in enumerate(gains[:k], 1) if new), 0.0)


def ndcg(gains: Sequence[Sequence[int]], wanted: Sequence[int], k: int = 10) -> float:
    """Normalised discounted cumulative gain at `k` with linear gain, in [0, 1].

    A hit gains the best grade among the items that it is the first to hold. The ideal order has those gains, and one
    hit for each item that no hit holds: items that stand in one chunk need one hit, not several.

    Source: Järvelin and Kekäläinen, "Cumulated Gain-Based Evaluation of IR Techniques", ACM TOIS 2002; where each hit
    holds at most one item it is trec_eval's ``ndcg_cut``.
    """
    gained = [max(new, default=0) for new in gains]
    missing = list(wanted)
    for grade in (grade for new in gains for grade in new):
        missing.remove(grade)
    ideal = sorted([*gained, *missing], reverse=True)
    best = _discounted(ideal[:k])
    return _discounted(gained[:k]) / best if best else 0.0


def covered_share(lengths: Sequence[int], covered: Sequence[Sequence[Interval]]) -> float:
    """Share of the characters of all quotes that is covered, in [0, 1].

    Args:
        lengths: Characters of each quote.
        covered: For each quote, the ``(start, end)`` that hits hold; they may overlap.
    """
    return sum(map(_union, covered)) / sum(lengths)


def fitting(sizes: Sequence[int], budget: int) -> tuple[int, float]:
    """How many hits, from the first on, have together at most `budget` tokens, and the share of the next that fits.

    The cut of the next one makes large and small chunks comparable: without it a large chunk loses what it left over.
    """
    left = budget
    for position, size in enumerate(sizes):
        if size > left:
            return position, left / size
        left -= size
    return len(sizes), 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of `values` does not exceed (nearest rank); nan for none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _discounted(gained: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gained))


def _union(intervals: Sequence[Interval]) -> int:
    total = end_before = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, end_before))
        end_before = max(end_before, end)
    return total
