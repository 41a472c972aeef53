"""Fusing rankings. A ranking is a list of (key, score) pairs, best first; ties are broken by key."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

__all__ = ["DEFAULT_KEYWORD_WEIGHT", "convex_combination", "distribution_based", "reciprocal_rank"]

DEFAULT_KEYWORD_WEIGHT = 0.8
"""Share of the keyword score beside static vectors. (Of .5 to .9 the one that never lost more than .003 nDCG@10 to
another on 16 sets, and +.008 recall at 5 chunks of long documents over .7.)"""

K = TypeVar("K", bound=Hashable)
Ranking = Sequence[tuple[K, float]]


def convex_combination(
    keyword: Ranking[K], semantic: Ranking[K], *, keyword_weight: float = DEFAULT_KEYWORD_WEIGHT
) -> list[tuple[K, float]]:
    """Fuse two rankings by the weighted sum of their min-max normalised scores.

    Args:
        keyword: (key, BM25 score >= 0) pairs, best first, at most 100.
        semantic: (key, cosine in [-1, 1]) pairs, best first, at most 100.
        keyword_weight: Share of the keyword score, in [0, 1].

    Returns: (key, score in [0, 1]) pairs, best first, ties by key. A key in one list only scores 0 in the other;
        equal scores normalise to 1.
    Raises: ValueError: `keyword_weight` outside [0, 1].
    Source: Bruch et al., "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023.
    """
    if not 0 <= keyword_weight <= 1:
        raise ValueError(f"keyword_weight is {keyword_weight}; it is a share, from 0 to 1")
    left, right = _min_max(keyword), _min_max(semantic)
    return _ordered(
        {
            key: keyword_weight * left.get(key, 0.0) + (1 - keyword_weight) * right.get(key, 0.0)
            for key in dict.fromkeys((*left, *right))
        }
    )


def reciprocal_rank(
    rankings: Sequence[Ranking[K]], *, k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[K, float]]:
    """Fuse rankings by the sum of ``weight / (k + rank)``, ranks from 1, scaled so that the best possible sum is 1.

    Source: Cormack et al., "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods", 2009.
    """
    weights = weights or [1.0] * len(rankings)
    scores: dict[K, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, (key, _) in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + weight / (k + rank)
    best = sum(weights) / (k + 1) or 1.0
    return _ordered({key: score / best for key, score in scores.items()})


def distribution_based(keyword: Ranking[K], semantic: Ranking[K]) -> list[tuple[K, float]]:
    """Fuse two rankings by the mean of scores normalised to mean plus or minus three standard deviations, in [0, 1].

    Source: Mazzeschi, "Distribution-Based Score Fusion (DBSF), a new approach to Vector Search Ranking", 2023.
    """
    left, right = _three_sigma(keyword), _three_sigma(semantic)
    return _ordered({key: (left.get(key, 0.0) + right.get(key, 0.0)) / 2 for key in dict.fromkeys((*left, *right))})


def _min_max(ranking: Ranking[K]) -> dict[K, float]:
    if not ranking:
        return {}
    scores = [score for _, score in ranking]
    low, span = min(scores), max(scores) - min(scores)
    return {key: (score - low) / span if span > 0 else 1.0 for key, score in ranking}


def _three_sigma(ranking: Ranking[K]) -> dict[K, float]:
    if not ranking:
        return {}
    scores = [score for _, score in ranking]
    mean, deviation = statistics.fmean(scores), statistics.pstdev(scores)
    if deviation == 0:
        return {key: 0.5 for key, _ in ranking}
    low, high = mean - 3 * deviation, mean + 3 * deviation
    return {key: min(max((score - low) / (high - low), 0.0), 1.0) for key, score in ranking}


def _ordered(scores: dict[K, float]) -> list[tuple[K, float]]:
    def order(item: tuple[Any, float]) -> tuple[float, Any]:
        return (-item[1], item[0])

    return sorted(scores.items(), key=order)
