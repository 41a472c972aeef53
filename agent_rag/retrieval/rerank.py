"""Rerankers: something that reads the query and the candidates, and orders them better than the search did."""

from __future__ import annotations

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from pydantic import BaseModel, Field

from ..documents import VectorSearchResult
from ..errors import ConfigurationError, RerankError, redact

logger = logging.getLogger("agent_rag")

Order = Sequence[int | tuple[int, float]]


class Reranked(BaseModel):
    """The candidates in their new order."""

    results: list[VectorSearchResult] = Field(default_factory=list)
    degraded: bool = False
    """The reranker failed: this is (partly) the order it was given."""
    reason: str | None = None
    """Why, without secrets."""


class RerankerBase(ABC):
    """Orders candidates. A subclass implements `order`; everything that can go wrong around it is handled here."""

    timeout_s: float | None = 30.0
    """For one call."""
    max_candidate_characters: int = 4_000
    """A longer candidate is cut before it is judged; the result keeps its whole text."""

    @abstractmethod
    async def order(self, query: str, candidates: Sequence[VectorSearchResult], *, top_n: int) -> Order:
        """Positions in `candidates`, best first, alone or with a score (then the scores decide).

        Positions may be missing, repeated or out of range: the caller keeps each candidate exactly once.

        Args:
            query: Not blank.
            candidates: At least one; each has text. Use `judged_text` for what to show of it.
            top_n: How many will be kept.
        """

    async def rerank(self, query: str, results: Sequence[VectorSearchResult], *, top_n: int | None = None) -> Reranked:
        """The `top_n` best of `results` (all when None), each at most once. Never fails: on an error the given order
        stays and `degraded` says so.

        Candidates without text (an image without caption) come last. A reranker's score goes into ``signals.rerank``;
        `score` stays the search's. Equal scores keep the given order.

        Raises: ValueError: `top_n` is not positive.
        """
        if top_n is not None and top_n < 1:
            raise ConfigurationError(f"top_n is {top_n}; it must be at least 1")
        keep = len(results) if top_n is None else min(top_n, len(results))
        readable = [result for result in results if self.readable(result)]
        if not readable or not query.strip():
            return Reranked(results=list(results)[:keep])
        try:
            async with asyncio.timeout(self.timeout_s):
                answer = await self.order(query, readable, top_n=keep)
            ordered = _permutation(answer, readable)
        except Exception as error:
            reason = redact(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)[:300]
            logger.warning("%s failed, the order of the search stays: %s", type(self).__name__, reason)
            return Reranked(results=list(results)[:keep], degraded=True, reason=reason)
        unread = [result for result in results if not self.readable(result)]
        return Reranked(results=[*ordered, *unread][:keep])

    def readable(self, result: VectorSearchResult) -> bool:
        """Whether this reranker can judge the candidate; the rest comes last."""
        return bool(result.chunk.text.strip())

    def judged_text(self, result: VectorSearchResult) -> str:
        """The candidate's text, cut to `max_candidate_characters`."""
        return result.chunk.text[: self.max_candidate_characters]


class TopKReranker(RerankerBase):
    """Keeps the order of the search and cuts it."""

    async def order(self, query: str, candidates: Sequence[VectorSearchResult], *, top_n: int) -> Order:
        return range(len(candidates))

    def readable(self, result: VectorSearchResult) -> bool:
        return True


def _permutation(answer: Order, candidates: Sequence[VectorSearchResult]) -> list[VectorSearchResult]:
    """Each candidate once: those named, in their order, then the rest in the given order.

    Raises: RerankError: no valid position was named.
    """
    pairs = [(item, None) if isinstance(item, int) else (item[0], float(item[1])) for item in answer]
    scored = [score for _, score in pairs if score is not None and math.isfinite(score)]
    if scored:
        pairs.sort(key=lambda pair: -(pair[1] if pair[1] is not None and math.isfinite(pair[1]) else -math.inf))
    named: dict[int, float | None] = {}
    for position, score in pairs:
        if 0 <= position < len(candidates):
            named.setdefault(position, score)
    if not named:
        raise RerankError(f"the reranker named none of the {len(candidates)} candidates")
    if scored:
        named = dict(sorted(named.items(), key=lambda item: (-_finite(item[1]), item[0])))
    rest = [position for position in range(len(candidates)) if position not in named]
    return [_with_score(candidates[position], named.get(position)) for position in (*named, *rest)]


def _finite(score: float | None) -> float:
    return score if score is not None and math.isfinite(score) else -math.inf


def _with_score(result: VectorSearchResult, score: float | None) -> VectorSearchResult:
    if score is None or not math.isfinite(score):
        return result
    return result.model_copy(update={"signals": result.signals.model_copy(update={"rerank": score})})
