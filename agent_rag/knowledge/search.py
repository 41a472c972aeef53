"""What a search of a knowledge base does around the store: check, rank, and vet what the store answered."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from ..content import DataBlock, TextBlock
from ..documents import ChunkKey, Signals, VectorSearchResult, is_blank, storable_text
from ..errors import ConfigurationError
from ..filters import FilterLike, as_filter, matches
from ..filters.language import conditions_of
from ..limits import Limits
from ..retrieval.rank import Fusion, best_score, hybrid
from ..stores.base import RankFunction, Scored

logger = logging.getLogger("agent_rag")

SearchMode = Literal["hybrid", "semantic", "keyword"]
Query = str | TextBlock | DataBlock


def check_number(name: str, value: object, kind: Any) -> None:
    """Raises: ConfigurationError: not a number of that kind."""
    if isinstance(value, bool) or not isinstance(value, kind) or value != value:
        raise ConfigurationError(f"{name} is {value!r}; it is a number")


def usable_queries(
    queries: Query | Sequence[Query], limits: Limits, *, multimodal: bool
) -> tuple[list[str], list[DataBlock]]:
    """Texts, cut to their limit, and the images that the model can embed; blank texts are left out."""
    items = [queries] if isinstance(queries, str | TextBlock | DataBlock) else list(queries or ())
    texts, blocks = [], []
    for item in items:
        if not isinstance(item, str | TextBlock | DataBlock):
            raise ConfigurationError(f"a query is text, a TextBlock or a DataBlock, got a {type(item).__name__}")
        if isinstance(item, DataBlock):
            if multimodal:
                blocks.append(item)
            continue
        text = storable_text(item if isinstance(item, str) else item.text)
        limit = limits.query_characters
        if len(text) > limit:
            logger.warning("query of %d characters cut to query_characters=%d", len(text), limit)
            text = text[:limit]
        if not is_blank(text):
            texts.append(text)
    return texts, blocks


def checked_filter(filter: FilterLike | None, limits: Limits) -> FilterLike | None:
    """The filter, parsed.

    Raises: FilterError: it cannot be read. LimitExceededError: too many conditions or values.
    """
    parsed = as_filter(filter)
    if parsed is None:
        return None
    conditions = conditions_of(parsed)
    limits.check("metadata_fields", len(conditions), "conditions of a filter")
    for condition in conditions:
        if isinstance(condition.value, tuple):
            limits.check("filter_values", len(condition.value), f"values of the filter on {condition.field!r}")
    return parsed


def rank_function(
    mode: SearchMode, threshold: float | None, *, fusion: Fusion, keyword_weight: float, seen: Sequence[float] = ()
) -> RankFunction:
    """How a store orders the candidates of one search; `seen` is `RetrieveRequest.seen`."""

    def rank(
        semantic: list[list[Scored]], keyword: list[list[Scored]], signals: dict[ChunkKey, Signals]
    ) -> list[Scored]:
        if mode == "hybrid":
            ranked = hybrid(
                semantic,
                keyword,
                signals,
                fusion=fusion,
                keyword_weight=keyword_weight,
                seen=seen,
                threshold=threshold,
            )
        else:
            ranked = best_score(semantic if mode == "semantic" else keyword, threshold=threshold)
        return [Scored(key, score) for key, score in ranked]

    return rank


def vetted(
    results: list[VectorSearchResult], scope: FilterLike | None, mode: SearchMode, threshold: float | None, name: str
) -> list[VectorSearchResult]:
    """What any store answered, checked again before it leaves the knowledge base `name`: scope, threshold, order."""
    kept = []
    for result in results:
        if scope is not None and not matches(scope, result.chunk.metadata):
            logger.error("store returned %r from outside the scope of %r; dropped", result.chunk_id, name)
            continue
        signal = result.signals.keyword if mode == "keyword" else result.signals.semantic
        if threshold is None or (signal is not None and signal >= threshold):
            kept.append(result)
    return sorted(kept, key=lambda result: -result.score)
