"""``agent-rag eval --answers``: have questions answered by an agent, and the answers judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from ...chat import ChatModel, system, user
from ...config.parts import chat_model_of
from ...config.settings import Settings
from ...errors import ConfigurationError
from ...evaluation.answering import (
    ANSWER_INSTRUCTIONS,
    TRPC_SEARCHES,
    Answerer,
    AnswerReport,
    RecordingBase,
    answer_questions,
)
from ...evaluation.configurations import Configuration
from ...evaluation.indexing import Indexes
from ...evaluation.questions import Question
from ...evaluation.ragas import require_ragas, score_answers
from ...ingestion.options import IngestOptions
from ...knowledge.knowledge_base import KnowledgeBase
from ...middleware import RAGMiddleware
from ...middleware.loop import run_agent
from .. import output as console
from ..ask import missing_for_chat
from ..progress import progress

_ANSWERED_HITS = 5


async def judge_answers(
    base: KnowledgeBase,
    known: Settings,
    questions: Sequence[Question],
    way: Configuration,
    *,
    judge: str | None,
    corpus: Sequence[Path] | None,
    ingest_options: IngestOptions,
    quiet: bool,
) -> AnswerReport:
    """Answer with the model of ``[chat]``, and judge with it or with the model `judge` at the same address.

    Raises: ConfigurationError: no model is named, or the knowledge base has no embedding model. MissingExtraError.
    """
    if missing := missing_for_chat(known):
        raise ConfigurationError(f"--answers needs a language model: {missing}")
    require_ragas()
    settled = known.chat.model_copy(update={"options": {"temperature": 0, **known.chat.options}})
    model = chat_model_of(settled)
    judging = chat_model_of(settled.model_copy(update={"model": judge})) if judge else model
    async with Indexes(base, corpus or None, ingest_options) as indexes:
        searched = await indexes.of(way.index)
        if searched.embedding_model is None:
            raise ConfigurationError("--answers needs an embedding model, which the metrics use too")
        searching = searched.searching(fusion=way.fusion, keyword_weight=way.keyword_weight)
        with progress("answers", quiet=quiet) as on_question:
            answered = await answer_questions(questions, answerer(searching, way, model), on_question=on_question)
        with progress("judged", quiet=quiet) as on_question:
            report = await score_answers(answered, judging, searched.embedding_model, on_question=on_question)
        report.notes += indexes.notes
    return report


def answerer(base: KnowledgeBase, way: Configuration, model: ChatModel) -> Answerer:
    """An agent that searches `base` as `way` says, and answers from what it finds."""

    async def answer(question: str) -> tuple[str, Sequence[str]]:
        recording = RecordingBase(base, way)
        parameters = RAGMiddleware.Parameters(
            mode="agentic", top_k=way.top_k or _ANSWERED_HITS, search_limit=TRPC_SEARCHES
        )
        run = await run_agent(
            model, [system(ANSWER_INSTRUCTIONS), user(question)], middleware=RAGMiddleware([recording], parameters)
        )
        return run.text, recording.contexts

    return answer


def show_answers(report: AnswerReport, *, as_json: bool) -> None:
    """The mean of each metric; `--json` has every answer."""
    if as_json:
        console.show_json({"metrics": report.metrics, "counted": report.counted, **report.model_dump(mode="json")})
        return
    table = Table("metric", "mean", "answers")
    for name, value in report.metrics.items():
        table.add_row(name, f"{value:.4f}", str(report.counted[name]))
    console.show_table(table, [f"{len(report.answers)} questions", *(f"note: {note}" for note in report.notes)])
