"""RAGAS itself, judged by a stand-in for a language model that answers by the schema it is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.errors import ChatError
from agent_rag.evaluation import AnsweredQuestion, Question, score_answers
from agent_rag.evaluation.ragas import METRICS
from agent_rag.testing import HashEmbedding

pytest.importorskip("ragas", reason="scripts/test adapters ragas")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

QUESTION = "How long is the gateway timeout?"


class AgreeableJudge:
    """Fills every schema: finds one statement in each text, and agrees with all of it."""

    def __init__(self, *, disagrees: bool = False) -> None:
        self.verdict = 0 if disagrees else 1
        self.calls = 0

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        raise AssertionError("the judge is asked for JSON")

    async def structured(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any]) -> str:
        self.calls += 1
        return json.dumps(self._filled(schema, schema.get("$defs", {}), ""))

    def _filled(self, schema: Mapping[str, Any], known: Mapping[str, Any], name: str) -> Any:
        if "$ref" in schema:
            return self._filled(known[schema["$ref"].rpartition("/")[2]], known, name)
        match schema.get("type"):
            case "object":
                return {key: self._filled(one, known, key) for key, one in schema["properties"].items()}
            case "array":
                empty = name in ("FP", "FN") if self.verdict else name == "TP"
                return [] if empty else [self._filled(schema["items"], known, name)]
            case "integer" | "number" | "boolean":
                return 0 if name == "noncommittal" else self.verdict
            case _:
                return QUESTION if name == "question" else "the timeout is thirty seconds"


def answered(**changes: Any) -> AnsweredQuestion:
    """An answer that says what the passage and the reference say."""
    question = Question(question=QUESTION, answer=changes.pop("reference", "The timeout is thirty seconds."))
    fields = {"answer": "The timeout is thirty seconds.", "contexts": ["The gateway timeout is thirty seconds."]}
    return AnsweredQuestion(question=question, **{**fields, **changes})


async def test_a_judge_that_agrees_gives_full_marks() -> None:
    """All seven metrics are there, in [0, 1]."""
    judge = AgreeableJudge()

    report = await score_answers([answered()], judge, HashEmbedding())

    assert report.notes == []
    assert report.metrics == pytest.approx(dict.fromkeys(METRICS, 1.0), abs=1e-6)
    assert report.counted == dict.fromkeys(METRICS, 1)
    assert judge.calls >= len(METRICS)


async def test_a_judge_that_disagrees_gives_none() -> None:
    """Similarity comes from vectors alone, a quarter of correctness too."""
    metrics = [name for name in METRICS if name != "context_entity_recall"]

    report = await score_answers([answered()], AgreeableJudge(disagrees=True), HashEmbedding(), metrics=metrics)

    assert report.notes == []
    assert report.metrics["faithfulness"] == report.metrics["context_recall"] == 0.0
    assert report.metrics["context_precision"] == pytest.approx(0.0, abs=1e-6)
    assert report.metrics["answer_similarity"] == pytest.approx(1.0)
    assert report.metrics["answer_correctness"] == pytest.approx(0.25)


async def test_what_cannot_be_judged_has_a_reason_and_no_score() -> None:
    """No passages, no reference, no answer, a judge that fails: each is told, none counts as 0."""

    class Broken(AgreeableJudge):
        async def structured(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any]) -> str:
            raise ChatError("no credit")

    class Prose(AgreeableJudge):
        async def structured(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any]) -> str:
            return "It looks fine to me."

    bare = answered(contexts=[])
    lost = AnsweredQuestion(question=bare.question, error="ChatError: down")

    report = await score_answers([bare, lost], AgreeableJudge(), HashEmbedding(), metrics=["faithfulness"])
    broken = await score_answers([answered()], Broken(), HashEmbedding(), metrics=["faithfulness"])
    prose = await score_answers([answered()], Prose(), HashEmbedding(), metrics=["faithfulness"])

    assert report.metrics == broken.metrics == prose.metrics == {}
    assert report.notes == [
        "1 questions were not answered: ChatError: down",
        "faithfulness: 1 answers have no score: there is no retrieved_contexts",
    ]
    assert broken.notes == ["faithfulness: 1 answers have no score: ChatError: no credit"]
    assert "the judge's answer is no StatementGeneratorOutput: no JSON in it" in prose.notes[0]
