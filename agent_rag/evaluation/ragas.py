"""Answers judged by the seven metrics of RAGAS, with any `ChatModel` as the judge. Needs the extra ``ragas``."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from .._util.extras import needs
from .._util.sync import run_sync
from ..chat import ChatModel, ask, read_json, user
from ..embeddings.base import EmbeddingModelLike
from ..errors import ChatError, ConfigurationError, redact
from ..knowledge.embedder import Embedder
from .answering import AnsweredQuestion, AnswerReport, ScoredAnswer

METRICS = {
    "faithfulness": "Faithfulness",
    "answer_relevancy": "AnswerRelevancy",
    "answer_correctness": "AnswerCorrectness",
    "answer_similarity": "SemanticSimilarity",
    "context_precision": "ContextPrecision",
    "context_recall": "ContextRecall",
    "context_entity_recall": "ContextEntityRecall",
}
"""Name in reports -> class of RAGAS; the seven of tRPC-Agent-Go's comparison."""
_ATTEMPTS = 2
_ANSWER_TOKENS = 4_096


async def score_answers(
    answers: Sequence[AnsweredQuestion],
    judge: ChatModel,
    embedding_model: EmbeddingModelLike,
    *,
    metrics: Sequence[str] = tuple(METRICS),
    concurrency: int = 4,
    on_question: Callable[[int, int], None] | None = None,
) -> AnswerReport:
    """Score every answer, each metric in [0, 1] (relevancy and similarity are cosines).

    Correctness, similarity, context precision and both recalls compare with ``question.answer``; answers without one
    lack them. What fails has no score and its reason; nothing counts as 0 that was not judged.

    Args:
        judge: Asked several times for each answer; temperature 0 makes runs comparable.
        embedding_model: For relevancy, similarity and a quarter of correctness.
        concurrency: Answers judged at a time.

    Raises: MissingExtraError: RAGAS is not installed. ConfigurationError: a metric is unknown.
    """
    if unknown := [name for name in metrics if name not in METRICS]:
        raise ConfigurationError(f"metric {unknown[0]!r} is unknown; use {', '.join(METRICS)}")
    made = _made(metrics, judge, embedding_model)
    gate = asyncio.Semaphore(concurrency)
    done = 0

    async def score(one: AnsweredQuestion) -> ScoredAnswer:
        nonlocal done
        scored = ScoredAnswer(**dict(one))
        async with gate:
            for name, metric in made.items() if one.error is None else ():
                await _score(scored, name, metric)
        done += 1
        if on_question is not None:
            on_question(done, len(answers))
        return scored

    report = AnswerReport(answers=list(await asyncio.gather(*map(score, answers))))
    report.notes = list(_notes(report.answers))
    return report


async def _score(scored: ScoredAnswer, name: str, metric: Any) -> None:
    """Raises: nothing; a failure stands in `scored`."""
    fields: dict[str, Any] = {
        "user_input": scored.question.question,
        "response": scored.answer,
        "retrieved_contexts": scored.contexts,
        "reference": scored.question.answer,
    }
    wanted = {key: fields[key] for key in inspect.signature(metric.ascore).parameters if key in fields}
    if missing := [key for key, value in wanted.items() if not value]:
        scored.failures[name] = f"there is no {missing[0]}"
        return
    try:
        value = float((await metric.ascore(**wanted)).value)
    except Exception as error:  # RAGAS raises whatever its metrics meet; one answer must not end the run
        scored.failures[name] = redact(f"{type(error).__name__}: {error}")[:300]
        return
    if math.isfinite(value):
        scored.scores[name] = value
    else:
        scored.failures[name] = f"RAGAS gave {value}"


def require_ragas() -> Any:
    """RAGAS's metrics, so that a missing package is known before answers are paid for. Its telemetry is switched off.

    Raises: MissingExtraError: it is not installed.
    """
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    return needs("ragas", "ragas.metrics.collections", purpose="judging answers")


def _made(metrics: Sequence[str], judge: ChatModel, embedding_model: EmbeddingModelLike) -> dict[str, Any]:
    """The metrics, each with the judge and the embeddings that it takes."""
    collection = require_ragas()
    parts = {"llm": _judge(judge), "embeddings": _embeddings(embedding_model)}
    made = {}
    for name in metrics:
        kind = getattr(collection, METRICS[name])
        taken = inspect.signature(kind.__init__).parameters
        made[name] = kind(**{key: part for key, part in parts.items() if key in taken})
    return made


def _judge(model: ChatModel) -> Any:
    """A model of RAGAS that asks `model`."""
    base = needs("ragas", "ragas.llms.base").InstructorBaseRagasLLM

    class Judge(base):  # type: ignore[misc, valid-type]
        def generate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
            return run_sync(self.agenerate(prompt, response_model))

        async def agenerate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
            return await _judged(model, prompt, response_model)

    return Judge()


async def _judged(model: ChatModel, prompt: str, response_model: type[BaseModel]) -> BaseModel:
    """Raises: ChatError: two answers that are not of the form that was asked for."""
    schema = response_model.model_json_schema()
    asked, told = prompt, ""
    for _ in range(_ATTEMPTS):
        text = await ask(model, [user(asked)], schema, max_tokens=_ANSWER_TOKENS)
        for value in read_json(text):
            try:
                return response_model.model_validate(value)
            except ValidationError as error:
                told = str(error)
        again = "Your last answer was not of the form that was asked for. Answer with JSON of this schema only:"
        asked = f"{prompt}\n\n{again} {json.dumps(schema)}"
    raise ChatError(f"the judge's answer is no {response_model.__name__}: {told or 'no JSON in it'}")


def _embeddings(model: EmbeddingModelLike) -> Any:
    """Embeddings of RAGAS that come from `model`."""
    base = needs("ragas", "ragas.embeddings.base").BaseRagasEmbedding
    embedder = Embedder(model)

    class Embeddings(base):  # type: ignore[misc, valid-type]
        def embed_text(self, text: str, **options: Any) -> list[float]:
            return run_sync(self.aembed_text(text))

        async def aembed_text(self, text: str, **options: Any) -> list[float]:
            return (await self.aembed_texts([text]))[0]

        async def aembed_texts(self, texts: Sequence[str], **options: Any) -> list[list[float]]:
            # Both sides are compared with each other, so both are embedded alike.
            return [list(vector) for vector in await embedder.embed(list(texts), "document")]

    return Embeddings()


def _notes(answers: Sequence[ScoredAnswer]) -> Sequence[str]:
    notes = []
    if failed := [one for one in answers if one.error]:
        notes.append(f"{len(failed)} questions were not answered: {failed[0].error}")
    for name in METRICS:
        reasons = [one.failures[name] for one in answers if name in one.failures]
        if reasons:
            notes.append(f"{name}: {len(reasons)} answers have no score: {reasons[0]}")
    return notes
