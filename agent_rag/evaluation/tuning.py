"""Propose settings on one half of the questions, and prove them on the other, or say that those of now stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, Field

from ..errors import ConfigurationError
from ..ingestion.options import IngestOptions
from ..knowledge.knowledge_base import KnowledgeBase
from .bootstrap import Difference
from .configurations import Configuration
from .indexing import Corpus
from .questions import Question, in_split
from .report import ConfigurationResult, EvaluationReport
from .run import OnQuestion, evaluate

KEYWORD_WEIGHTS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
LEAST_QUESTIONS = 20
"""On each side: with fewer every interval holds 0."""


class TuneReport(BaseModel):
    """What was tried, what it proposes, and whether the proposal holds on questions that chose nothing."""

    metric: str
    train_questions: int
    test_questions: int
    tried: list[ConfigurationResult]
    """Figures on the training questions; the first is the settings of now."""
    proposal: dict[str, str | int | float] = Field(default_factory=dict)
    """The best settings on the training questions; empty where those of now were the best."""
    before: float | None = None
    """The metric on the test questions with the settings of now."""
    after: float | None = None
    """The same with the proposal."""
    difference: Difference | None = None
    """After minus before, on the test questions."""
    notes: list[str] = Field(default_factory=list)

    @property
    def proven(self) -> bool:
        """Whether the proposal is better on the test questions, its 95 % interval above 0."""
        return self.difference is not None and self.difference.low > 0

    def conclusion(self) -> str:
        """One or two sentences for people."""
        if not self.proposal or self.difference is None:
            return f"The settings stand: none of those tried has a higher {self.metric} on the training questions."
        told = ", ".join(f"{name} = {value}" for name, value in self.proposal.items())
        proof = f"{self.metric} {self.before:.3f} to {self.after:.3f}, {self.difference}; {self.test_questions} others"
        if self.proven:
            return f"Better: {told} ({proof})."
        return f"The settings stand: {told} was best on the training questions, but that is not proven ({proof})."


async def tune(
    base: KnowledgeBase,
    questions: Sequence[Question],
    *,
    now: Configuration | None = None,
    metric: str | None = None,
    keyword_weights: Sequence[float] = KEYWORD_WEIGHTS,
    chunk_sizes: Sequence[int] = (),
    corpus: Corpus | None = None,
    ingest_options: IngestOptions | None = None,
    on_question: OnQuestion | None = None,
) -> TuneReport:
    """Try keyword weights, then chunk sizes with the best of them, on the training questions (`split_of`), and measure
    the one that comes out against the settings of now on the test questions.

    Args:
        now: The settings to beat; default: the knowledge base as it is.
        metric: What to raise; default: ``quoted@2000t`` with chunk sizes, since larger chunks raise every figure that
            counts hits, else ``ndcg@10``.
        chunk_sizes: Characters; each needs an index of its own, see `evaluate` for `corpus` and `ingest_options`.

    Raises: ConfigurationError: fewer than 20 questions on a side, or none has the metric. Otherwise as `evaluate`.
    """
    chosen_metric = metric or ("quoted@2000t" if chunk_sizes else "ndcg@10")
    train, test = _sides(questions)
    start = replace(now, name="now") if now else Configuration(name="now")

    async def measured(asked: Sequence[Question], ways: Sequence[Configuration]) -> EvaluationReport:
        report = await evaluate(
            base, asked, ways, corpus=corpus, ingest_options=ingest_options, on_question=on_question
        )
        if chosen_metric not in report.baseline.metrics:
            known = ", ".join(report.baseline.metrics)
            raise ConfigurationError(f"no question has the metric {chosen_metric!r}; these have {known}")
        return report

    ways = [start]
    if start.mode in (None, "hybrid") and base.default_mode == "hybrid":
        ways += [replace(start, name=f"keyword_weight={one:g}", keyword_weight=one) for one in keyword_weights]
    first = await measured(train, ways)
    best = _best(ways, first, chosen_metric)
    tried, notes = list(first.configurations), list(first.notes)
    if chunk_sizes:
        sized = [
            replace(best, name=" ".join([*_named(best), f"chunk_size={one}"]), chunk_size=one) for one in chunk_sizes
        ]
        second = await measured(train, [best, *sized])
        tried += second.configurations[1:]
        notes += [note for note in second.notes if note not in notes]
        best = _best([best, *sized], second, chosen_metric)
    report = TuneReport(
        metric=chosen_metric, train_questions=len(train), test_questions=len(test), tried=tried, notes=notes
    )
    if best is start:
        return report
    proof = await measured(test, [start, replace(best, name="proposal")])
    report.proposal = {name: value for name, value in best.settings.items() if name not in start.settings}
    report.before, report.after = (one.metrics[chosen_metric] for one in proof.configurations)
    report.difference = proof.configurations[1].differences[chosen_metric]
    report.notes += [note for note in proof.notes if note not in notes]
    return report


def _sides(questions: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    searchable = [question for question in questions if question.searchable]
    sides = in_split(searchable, "train"), in_split(searchable, "test")
    for name, side in zip(("training", "test"), sides, strict=True):
        if len(side) < LEAST_QUESTIONS:
            raise ConfigurationError(
                f"{len(side)} {name} questions are too few to tell settings apart; {LEAST_QUESTIONS} are the least on "
                "each side, 100 are better (agent-rag eval --make N)"
            )
    return sides


def _best(ways: Sequence[Configuration], report: EvaluationReport, metric: str) -> Configuration:
    """The best by the mean; of equal ones the first, so that nothing is changed for nothing."""
    figures = {one.name: one.metrics[metric] for one in report.configurations}
    return max(ways, key=lambda way: figures[way.name])


def _named(way: Configuration) -> list[str]:
    return [] if way.name == "now" else [way.name]
