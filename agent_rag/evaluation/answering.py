"""Answers to be judged: what was answered, from which passages, and what would have been right."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from pydantic import BaseModel, Field

from ..documents import VectorSearchResult
from ..errors import AgentRAGError, redact
from ..filters import FilterLike
from ..knowledge.knowledge_base import KnowledgeBase
from ..knowledge.search import Query, SearchMode
from .configurations import Configuration
from .questions import Question

TRPC = Configuration(name="trpc", mode="semantic", top_k=4, chunk_size=500, overlap=50)
"""Settings of the published comparison of tRPC-Agent-Go, LangChain, Agno, CrewAI and AutoGen: chunks of 500 characters
that share 50, four hits of vector search; there with temperature 0 and at most three searches (`TRPC_SEARCHES`)."""
TRPC_SEARCHES = 3
ANSWER_INSTRUCTIONS = (
    "Answer the question of the user. Search the knowledge base at least once before you answer, and at most three "
    "times. Use only facts that the search gave you, nothing that you know otherwise. Name every fact that is asked "
    "for. If the passages do not answer it, say that they do not. Answer in a few plain sentences, and do not speak of "
    "the search."
)
"""What an answering model is told, for comparable answers."""


class AnsweredQuestion(BaseModel):
    """One question with its answer."""

    question: Question
    answer: str = ""
    contexts: list[str] = Field(default_factory=list)
    """Texts of the passages that were retrieved for it, best first, each once."""
    error: str | None = None
    """Why there is no answer."""


class ScoredAnswer(AnsweredQuestion):
    """One answer with its scores."""

    scores: dict[str, float] = Field(default_factory=dict)
    failures: dict[str, str] = Field(default_factory=dict)
    """Metric -> why it has no score."""


class AnswerReport(BaseModel):
    """Scores of all answers."""

    answers: list[ScoredAnswer]
    notes: list[str] = Field(default_factory=list)

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each metric over the answers that have it."""
        return {name: math.fsum(values) / len(values) for name, values in self._columns().items()}

    @property
    def counted(self) -> dict[str, int]:
        """How many answers have the metric."""
        return {name: len(values) for name, values in self._columns().items()}

    def _columns(self) -> dict[str, list[float]]:
        columns: dict[str, list[float]] = {}
        for one in self.answers:
            for name, score in one.scores.items():
                columns.setdefault(name, []).append(score)
        return columns


class RecordingBase:
    """Stands in for a knowledge base, as middleware takes it, and keeps what its searches gave.

    Make one for each question: what an agent saw is then known whatever framework it runs in.
    """

    def __init__(self, base: KnowledgeBase, configuration: Configuration | None = None) -> None:
        """
        Args:
            configuration: Its `mode`, `top_k` and `score_threshold` count instead of what a search asks for.
        """
        self.name = base.name
        self.description = base.description
        self._base = base
        self._way = configuration or Configuration(name="now")
        self._contexts: dict[str, None] = {}

    @property
    def contexts(self) -> list[str]:
        """Texts found so far, in the order they were found, each once."""
        return list(self._contexts)

    async def search(
        self,
        queries: Query | Sequence[Query],
        top_k: int = 5,
        score_threshold: float | None = None,
        *,
        mode: SearchMode | None = None,
        filter: FilterLike | None = None,
    ) -> list[VectorSearchResult]:
        """As `KnowledgeBase.search`."""
        hits = await self._base.search(
            queries,
            self._way.top_k or top_k,
            score_threshold if self._way.score_threshold is None else self._way.score_threshold,
            mode=self._way.mode or mode,
            filter=filter,
        )
        self._contexts.update(dict.fromkeys(hit.chunk.text for hit in hits))
        return hits


Answerer = Callable[[str], Awaitable[tuple[str, Sequence[str]]]]
"""From a question to the answer and the texts of the passages that were retrieved for it."""


async def answer_questions(
    questions: Sequence[Question],
    answer: Answerer,
    *,
    concurrency: int = 4,
    on_question: Callable[[int, int], None] | None = None,
) -> list[AnsweredQuestion]:
    """Have every question answered, `concurrency` at a time, in the order given; a failure stands in its `error`."""
    gate = asyncio.Semaphore(concurrency)
    done = 0

    async def one(question: Question) -> AnsweredQuestion:
        nonlocal done
        async with gate:
            try:
                text, contexts = await answer(question.question)
                answered = AnsweredQuestion(question=question, answer=text, contexts=list(contexts))
            except AgentRAGError as error:
                answered = AnsweredQuestion(question=question, error=redact(f"{type(error).__name__}: {error}"))
        done += 1
        if on_question is not None:
            on_question(done, len(questions))
        return answered

    return list(await asyncio.gather(*map(one, questions)))
