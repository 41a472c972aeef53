"""What an evaluation found, as data: for programs, the table of the command line, and the page."""

from __future__ import annotations

from pydantic import BaseModel, Field

from .bootstrap import Difference


class Hit(BaseModel):
    """One hit of one question."""

    chunk_id: str
    document_id: str
    source: str
    place: str = ""
    """Page, lines and the like, and the titles above it."""
    score: float
    relevant: bool
    """It holds something of what is wanted that no hit before it held."""
    text: str = ""
    """Its beginning; not in `--json`."""


class Outcome(BaseModel):
    """One question under one configuration."""

    metrics: dict[str, float]
    latency_ms: float
    hits: list[Hit] = Field(default_factory=list)
    """The first ones."""


class QuestionResult(BaseModel):
    """One question under every configuration."""

    id: str
    question: str
    wanted: list[str]
    """What should be found, as text."""
    outcomes: dict[str, Outcome]
    """By name of the configuration."""


class ConfigurationResult(BaseModel):
    """One configuration over all questions."""

    name: str
    settings: dict[str, str | int | float]
    """What it changes."""
    chunks: int
    """In its index."""
    metrics: dict[str, float]
    """Means over the questions that have the metric."""
    differences: dict[str, Difference] = Field(default_factory=dict)
    """To the first configuration, by metric; empty for that one."""
    latency_p50_ms: float
    """Median time of one search."""
    latency_p95_ms: float


class EvaluationReport(BaseModel):
    """Figures of each configuration, the first of which is the baseline, and each question's."""

    knowledge_base: str
    questions: int
    configurations: list[ConfigurationResult]
    results: list[QuestionResult]
    notes: list[str] = Field(default_factory=list)
    """What was left out or looks wrong in the questions."""
    seconds: float = 0.0

    @property
    def baseline(self) -> ConfigurationResult:
        return self.configurations[0]

    def values(self, configuration: str, metric: str) -> dict[str, float]:
        """Question id -> value, of the questions that have the metric."""
        outcomes = {result.id: result.outcomes[configuration].metrics for result in self.results}
        return {name: metrics[metric] for name, metrics in outcomes.items() if metric in metrics}

    def changed(self, configuration: str, metric: str) -> list[tuple[QuestionResult, float]]:
        """Questions whose metric differs from the baseline's, with the difference, worst first."""
        before, after = self.values(self.baseline.name, metric), self.values(configuration, metric)
        moved = [(result, after[result.id] - before[result.id]) for result in self.results if result.id in after]
        return sorted((pair for pair in moved if pair[1]), key=lambda pair: (pair[1], pair[0].id))
