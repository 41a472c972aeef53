"""The command ``agent-rag eval``: measure the search on questions of one's own, and compare settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ..config.settings import KnowledgeBaseSettings, Settings
from ..errors import ConfigurationError
from ..knowledge.knowledge_base import KnowledgeBase
from . import output as console
from .options import AsJSON, Base, Config, StoreURI
from .progress import progress
from .running import run_with_settings, stop

if TYPE_CHECKING:
    from ..evaluation import Configuration, ConfigurationResult, EvaluationReport, Question
    from ..ingestion.options import IngestOptions

_CONFIGURED = "configured"
"""Name of the reranker of agent-rag.toml."""
MAIN_METRICS = ("recall@5", "ndcg@10", "mrr@10", "quoted@5", "quoted@2000t")
"""Columns of the table; `--json` and the page have all."""


def evaluate(
    questions: Annotated[Path, typer.Argument(help="Questions with what should be found, one JSON object a line.")],
    kb: Base = None,
    config: Config = None,
    store: StoreURI = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            "-w",
            help="Settings to compare with those of now, such as mode=keyword or keyword_weight=.8,chunk_size=600; "
            "may be repeated.",
        ),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", help="Where chunk sizes and models read the documents; default: where they are from."),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Only the questions of a side: train, test or all.")] = "all",
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with every change.")] = None,
    as_json: AsJSON = False,
) -> None:
    """Measure the search on questions of your own, and compare settings.

    A line of the file is like {"question": "How long is the timeout?", "quotes": ["The timeout is thirty seconds."]}.
    """
    if split not in ("train", "test", "all"):
        stop(f"--split is {split!r}; use train, test or all", as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings, known: Settings) -> None:
        from .. import evaluation
        from ..evaluation.questions import in_split

        asked = in_split(evaluation.read_questions(questions), split)  # type: ignore[arg-type]
        if not asked:
            stop(f"{questions} has no question in the split {split}", as_json)
        report = await _measured(base, settings, asked, _ways(settings, known, compare or ()), corpus, quiet=as_json)
        if html is not None:
            from ..evaluation.page import write_page

            write_page(html, report)
        show_evaluation(report, as_json=as_json)
        if html is not None and not as_json:
            typer.echo(f"wrote {html}")

    run_with_settings(work, kb, config, store, as_json)


def _ways(settings: KnowledgeBaseSettings, known: Settings, compare: Sequence[str]) -> list[Configuration]:
    """The settings of agent-rag.toml, then each of `compare` over them."""
    from ..config.parts import reranker_of
    from ..evaluation import Configuration, configuration_from

    now = Configuration(name="now", mode=settings.search.mode, score_threshold=settings.score_threshold)
    ways = [now]
    for text in compare:
        way = configuration_from(text)
        if way.reranker == _CONFIGURED:
            reranker = reranker_of(known)
            if reranker is None:
                raise ConfigurationError("reranker=configured needs a [reranker] table in agent-rag.toml")
            way = replace(way, reranker=reranker)
        threshold = now.score_threshold if way.score_threshold is None else way.score_threshold
        ways.append(replace(way, mode=way.mode or now.mode, score_threshold=threshold))
    return ways


async def _measured(
    base: KnowledgeBase,
    settings: KnowledgeBaseSettings,
    asked: Sequence[Question],
    ways: Sequence[Configuration],
    corpus: Sequence[Path] | None,
    *,
    quiet: bool,
) -> EvaluationReport:
    from ..evaluation.run import evaluate as measure

    with progress("questions", quiet=quiet) as on_question:
        return await measure(
            base,
            asked,
            ways,
            corpus=corpus or None,
            ingest_options=_reading(settings),
            on_question=on_question,
        )


def _reading(settings: KnowledgeBaseSettings) -> IngestOptions:
    """How the documents of a knowledge base are read."""
    from ..config.parts import chunker_of, parser_choice, run_options

    options = run_options(settings.ingest)
    return {**options, "chunker": chunker_of(settings), "parser_for": parser_choice(settings)}  # type: ignore[typeddict-item]


def show_evaluation(report: EvaluationReport, *, as_json: bool) -> None:
    """A row for each configuration, below it its differences to the first."""
    if as_json:
        left_out = {"results": {"__all__": {"outcomes": {"__all__": {"hits": {"__all__": {"text"}}}}}}}
        console.show_json(report.model_dump(mode="json", exclude=left_out))
        return
    shown = [name for name in MAIN_METRICS if name in report.baseline.metrics]
    table = Table("", *shown, "ms", "chunks")
    for one in report.configurations:
        figures = [f"{one.metrics[name]:.3f}" for name in shown]
        table.add_row(console.plain_text(one.name), *figures, f"{one.latency_p50_ms:.1f}", str(one.chunks))
        if one.differences:
            table.add_row("", *(_difference(one, name) for name in shown), "", "", style="dim")
    asked = f"{report.questions} questions in {report.seconds:.1f} s"
    if len(report.configurations) > 1:
        asked += f"; below each: difference to {report.baseline.name!r}, its 95 % interval, * where that excludes 0"
    console.show_table(table, [asked, *(f"note: {note}" for note in report.notes)])


def _difference(one: ConfigurationResult, metric: str) -> str:
    difference = one.differences[metric]
    sign = "*" if difference.significant else ""
    return f"{difference.mean:+.3f}{sign}\n{difference.low:+.3f} to {difference.high:+.3f}"
