"""Answers and the passages that they come from, up to the judge; the judging is in tests/adapters/test_ragas.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from agent_rag import KnowledgeBase, MemoryStore, RAGMiddleware, TextSource, sync
from agent_rag.cli.evaluating.answering import answerer
from agent_rag.errors import ChatError, ConfigurationError
from agent_rag.evaluation import TRPC, AnswerReport, Configuration, Question, RecordingBase, answer_questions
from agent_rag.evaluation.answering import ScoredAnswer
from agent_rag.evaluation.ragas import METRICS, score_answers
from agent_rag.middleware.loop import run_agent
from agent_rag.testing import HashEmbedding, ScriptedChatModel
from agent_rag.testing.chat import call

TEXTS = {
    "gateway.md": "The gateway timeout is thirty seconds.",
    "canteen.md": "The canteen opens at noon.",
    "park.md": "Cars park behind the house.",
}


def question(text: str) -> Question:
    return Question(question=text, answer="right")


async def test_an_agent_answers_and_its_passages_are_known() -> None:
    """In the order they were found, each once, over several searches; the configuration says how many."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("notes", "Notes.", HashEmbedding(), store, "notes")
        await sync(kb, TextSource(TEXTS))
        model = ScriptedChatModel(
            call(query="gateway timeout"), call(id="2", query="canteen noon"), "Thirty seconds, and noon."
        )
        way = Configuration(name="one", mode="keyword", top_k=1)

        (answered,) = await answer_questions([question("both?")], answerer(kb, way, model))

    assert answered.answer == "Thirty seconds, and noon."
    assert answered.contexts == [TEXTS["gateway.md"], TEXTS["canteen.md"]]
    assert answered.error is None
    assert model.tools[0][0].name == "search_knowledge"
    assert "Use only facts that the search gave you" in model.inputs[0][0].text


async def test_the_recorder_stands_in_for_a_knowledge_base() -> None:
    """With any middleware; what an agent asks for counts where the configuration says nothing."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("notes", "Notes.", HashEmbedding(), store, "notes")
        await sync(kb, TextSource(TEXTS))
        recorder = RecordingBase(kb)

        run = await run_agent(
            ScriptedChatModel(call(query="gateway timeout"), "Thirty."),
            "how long?",
            middleware=RAGMiddleware([recorder], RAGMiddleware.Parameters(mode="agentic", top_k=2)),
        )

    assert run.text == "Thirty."
    assert recorder.contexts[0] == TEXTS["gateway.md"]
    assert len(recorder.contexts) == 2


async def test_a_question_that_cannot_be_answered_says_why() -> None:
    """The others are answered, in the order of the questions, and secrets are hidden."""
    told: list[tuple[int, int]] = []

    async def answer(text: str) -> tuple[str, Sequence[str]]:
        if text == "b":
            raise ChatError("refused: api_key=sk-abcdefghijk")
        return text.upper(), [text]

    answers = await answer_questions(
        [question("a"), question("b"), question("c")],
        answer,
        on_question=lambda done, total: told.append((done, total)),
    )

    assert [(one.answer, one.contexts) for one in answers] == [("A", ["a"]), ("", []), ("C", ["c"])]
    assert answers[1].error == "ChatError: refused: api_key=***"
    assert told[-1] == (3, 3)


def test_means_are_over_what_was_judged() -> None:
    """An answer without a score is left out of the mean, not counted as 0."""
    answers = [
        ScoredAnswer(question=question("a"), scores={"faithfulness": 1.0, "context_recall": 0.5}),
        ScoredAnswer(question=question("b"), scores={"faithfulness": 0.5}, failures={"context_recall": "no reference"}),
    ]

    report = AnswerReport(answers=answers)

    assert report.metrics == {"faithfulness": 0.75, "context_recall": 0.5}
    assert report.counted == {"faithfulness": 2, "context_recall": 1}


def test_the_preset_is_that_of_the_published_comparison() -> None:
    """Chunks of 500 sharing 50, four hits of vector search; its seven metrics."""
    assert TRPC.settings == {"mode": "semantic", "top_k": 4, "chunk_size": 500, "overlap": 50}
    assert len(METRICS) == 7


async def test_an_unknown_metric_is_refused() -> None:
    """Before RAGAS is needed."""
    with pytest.raises(ConfigurationError, match="metric 'beauty' is unknown"):
        await score_answers([], ScriptedChatModel(), HashEmbedding(), metrics=["beauty"])


def test_a_missing_extra_is_named() -> None:
    """With the line that installs it."""
    code = """
import asyncio, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "ragas":
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
from agent_rag.evaluation import score_answers
from agent_rag.testing import HashEmbedding, ScriptedChatModel
asyncio.run(score_answers([], ScriptedChatModel(), HashEmbedding()))
"""

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "MissingExtraError" in result.stderr
    assert "pip install 'agent-rag-middleware[ragas]'" in result.stderr
