"""How a KnowledgeBase orders candidates: the `rank` function it hands to a store."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from ..documents import ChunkKey, Signals, VectorSearchResult
from .fusion import DEFAULT_KEYWORD_WEIGHT, convex_combination, distribution_based, reciprocal_rank

Fusion = Literal["convex", "rrf", "dbsf"]
Candidates = Sequence[tuple[ChunkKey, float]]
T = TypeVar("T")

_SHINGLE = 12
"""Characters without blanks: about two words of English, a clause of Chinese."""
_CONTAINED = 0.9
_COMPARABLE = 100
"""Shorter texts are the same only when they are equal."""
_BLANKS = re.compile(r"\s+")


def best_score(rankings: Iterable[Candidates], *, threshold: float | None = None) -> list[tuple[ChunkKey, float]]:
    """Merge rankings of one kind of score: each key with its best, those below `threshold` left out."""
    scores: dict[ChunkKey, float] = {}
    for key, score in (pair for ranking in rankings for pair in ranking):
        if (threshold is None or score >= threshold) and score > scores.get(key, float("-inf")):
            scores[key] = score
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


def hybrid(
    semantic: Sequence[Candidates],
    keyword: Sequence[Candidates],
    signals: dict[ChunkKey, Signals],
    *,
    fusion: Fusion = "convex",
    keyword_weight: float = DEFAULT_KEYWORD_WEIGHT,
    seen: Sequence[float] = (),
    threshold: float | None = None,
) -> list[tuple[ChunkKey, float]]:
    """Fuse the lists of each query, then merge the queries by rank.

    Args:
        semantic: One list per query; those of text queries come first, in the order of `keyword`.
        keyword: One list per text query.
        seen: For each of them the factor of `keyword_weight`, in [0, 1]; none is 1 (see `coverage.seen_share`).
        threshold: Compared with the semantic signal; a hit below it is left out.

    Returns: (key, score in [0, 1]), best first.
    """
    keep = {
        key
        for key, signal in signals.items()
        if threshold is None or (signal.semantic is not None and signal.semantic >= threshold)
    }
    merged = []
    for position, candidates in enumerate(semantic):
        texts = keyword[position] if position < len(keyword) else []
        weight = keyword_weight * (seen[position] if position < len(seen) else 1.0)
        merged.append([pair for pair in _fuse(texts, candidates, fusion, weight) if pair[0] in keep])
    return merged[0] if len(merged) == 1 else reciprocal_rank(merged)


def _fuse(keyword: Candidates, semantic: Candidates, fusion: Fusion, weight: float) -> list[tuple[ChunkKey, float]]:
    match fusion:
        case "rrf":
            return reciprocal_rank([keyword, semantic])
        case "dbsf":
            return distribution_based(keyword, semantic)
        case _:
            return convex_combination(keyword, semantic, keyword_weight=weight)


def collapse(results: Iterable[VectorSearchResult]) -> list[VectorSearchResult]:
    """Keep the first of several hits that say the same; it lists the others in `also_in`."""
    return collapse_by(results, lambda result: result.chunk.text, _merge)


def collapse_by(items: Iterable[T], text_of: Callable[[T], str], merge: Callable[[T, T], T]) -> list[T]:
    """Keep the first of several items that say the same.

    The texts differ in blanks and case at most, or nine tenths of the later one stand in the earlier one (another cut
    of the same page). The share is that of its runs of `_SHINGLE` characters, after Broder, "On the resemblance and
    containment of documents", 1997.
    """
    kept: list[T] = []
    seen: dict[str, int] = {}
    shingles: list[set[str]] = []
    for item in items:
        text = _BLANKS.sub("", unicodedata.normalize("NFKC", text_of(item))).casefold()
        own = {text[start : start + _SHINGLE] for start in range(len(text) - _SHINGLE + 1)}
        place = seen.get(text) if text else None
        if place is None and len(text) >= _COMPARABLE:
            place = next((at for at, other in enumerate(shingles) if len(own & other) >= _CONTAINED * len(own)), None)
        if place is not None:
            kept[place] = merge(kept[place], item)
            continue
        seen[text] = len(kept)
        kept.append(item)
        shingles.append(own)
    return kept


def _merge(first: VectorSearchResult, other: VectorSearchResult) -> VectorSearchResult:
    return first.model_copy(update={"also_in": [*first.also_in, other.key, *other.also_in]})
