"""The command ``agent-rag eval``: measure the search on questions of one's own, and compare settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ...config.settings import KnowledgeBaseSettings, Settings
from ...errors import ConfigurationError
from ...evaluation.questions import review_path
from ...knowledge.knowledge_base import KnowledgeBase
from .. import output as console
from ..options import AsJSON, Base, Config, StoreURI
from ..progress import progress
from ..running import run_with_settings, stop

if TYPE_CHECKING:
    from ...evaluation import Configuration, ConfigurationResult, EvaluationReport, Question
    from ...ingestion.options import IngestOptions

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
    make: Annotated[
        int | None,
        typer.Option("--make", min=1, help="Write so many questions from the documents into QUESTIONS, for review."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="With --make: from titles and headings, without a language model.")
    ] = False,
    tune: Annotated[
        bool, typer.Option("--tune", help="Propose settings on half of the questions and prove them on the rest.")
    ] = False,
    answers: Annotated[
        bool,
        typer.Option(
            "--answers", help="Have the questions answered by the language model, and judge the answers (RAGAS)."
        ),
    ] = False,
    preset: Annotated[
        str | None, typer.Option("--preset", help="With --answers: trpc, the settings of its published comparison.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="With --answers: another model as the judge, at the same address.")
    ] = None,
    sizes: Annotated[
        list[int] | None,
        typer.Option("--chunk-size", min=50, help="With --tune: also try this chunk size; may be repeated."),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Only the questions of a side: train, test or all.")] = "all",
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with every change.")] = None,
    as_json: AsJSON = False,
) -> None:
    """Measure the search on questions of your own, compare settings, make questions, propose settings.

    A line of the file is like {"question": "How long is the timeout?", "quotes": ["The timeout is thirty seconds."]}.
    """
    if split not in ("train", "test", "all"):
        stop(f"--split is {split!r}; use train, test or all", as_json)
    if sum((bool(make), tune, answers)) > 1 or (make and compare):
        stop("--make writes questions; --tune, --answers and --with read them: one after the other", as_json)
    if (preset or judge) and not answers:
        stop("--preset and --judge are for --answers", as_json)
    if preset not in (None, "trpc"):
        stop(f"--preset is {preset!r}; there is trpc", as_json)
    if answers and html:
        stop("--html is for figures of the search; leave it out with --answers, or take --json", as_json)
    if (sizes and not tune) or (offline and not make):
        stop("--chunk-size is for --tune, --offline for --make", as_json)
    if tune and (compare or html or split != "all"):
        stop(
            "--tune chooses what it compares, and splits itself; leave out --with, --html and --split",
            as_json,
        )
    if make and (questions.exists() or review_path(questions).exists()):
        stop(f"{questions} or its review is there already; name another file, or remove it", as_json)

    async def work(base: KnowledgeBase, settings: KnowledgeBaseSettings, known: Settings) -> None:
        if make:
            await _make(base, known, questions, make, offline=offline, as_json=as_json)
            return
        asked, left_out = _read(questions, split, as_json)
        if answers:
            await _answers(base, settings, known, asked, corpus, compare or (), preset, judge, as_json=as_json)
            return
        if tune:
            await _tune(base, settings, known, asked, corpus, sizes or (), as_json=as_json)
            return
        ways = _ways(settings, known, compare or ())
        report = await _measured(base, settings, asked, ways, corpus, quiet=as_json)
        if settings.ingest.contexts and any(way.index.changed for way in ways):
            report.notes.append("indexes that were made for this run have no lines of context, which `now` has")
        if left_out:
            report.notes.append(f"{left_out} questions are left out by {review_path(questions)}")
        if html is not None:
            from ...evaluation.page import write_page

            write_page(html, report)
        show_evaluation(report, as_json=as_json)
        if html is not None and not as_json:
            typer.echo(f"wrote {html}")

    run_with_settings(work, kb, config, store, as_json)


def _read(path: Path, split: str, as_json: bool) -> tuple[list[Question], int]:
    """The questions of a side, and how many of all the review leaves out."""
    from ...evaluation import read_reviewed
    from ...evaluation.questions import in_split

    questions, left_out = read_reviewed(path)
    asked = in_split(questions, split)  # type: ignore[arg-type]
    if not asked:
        stop(f"{path} has no question in the split {split}", as_json)
    return asked, left_out


async def _make(base: KnowledgeBase, known: Settings, path: Path, count: int, *, offline: bool, as_json: bool) -> None:
    from ...config.parts import chat_model_of
    from ...evaluation import make_questions, write_questions, write_review
    from ..ask import missing_for_chat

    missing = "--offline" if offline else missing_for_chat(known)
    model = None if missing else chat_model_of(known.chat)
    with progress("questions", quiet=as_json) as on_question:
        result = await make_questions(base, count, model=model, on_question=on_question)
    notes = [*result.notes, *(f"{number} proposals left out: {why}" for why, number in result.rejected.items())]
    if missing:
        notes.insert(0, f"made from titles and headings, which keyword search finds easily ({missing})")
    if result.made:
        write_questions(path, result.questions)
        review = write_review(path, result.made)
        notes.append(f"next: read {review} and take the x out of bad ones; then agent-rag eval {path}")
    if as_json:
        console.show_json({"questions": len(result.made), "file": str(path) if result.made else None, "notes": notes})
    else:
        typer.echo(f"wrote {len(result.made)} questions to {path}" if result.made else "no question could be made")
        for note in notes:
            typer.echo(note)
    if not result.made:
        raise typer.Exit(1)


async def _tune(
    base: KnowledgeBase,
    settings: KnowledgeBaseSettings,
    known: Settings,
    asked: Sequence[Question],
    corpus: Sequence[Path] | None,
    sizes: Sequence[int],
    *,
    as_json: bool,
) -> None:
    from ...evaluation import tune

    (now,) = _ways(settings, known, ())
    with progress("questions", quiet=as_json) as on_question:
        report = await tune(
            base,
            asked,
            now=now,
            chunk_sizes=sizes,
            corpus=corpus or None,
            ingest_options=_reading(settings),
            on_question=on_question,
        )
    if as_json:
        console.show_json(
            {**report.model_dump(mode="json"), "proven": report.proven, "conclusion": report.conclusion()}
        )
        return
    lines = [f"{report.train_questions} training questions", *(f"note: {note}" for note in report.notes)]
    console.show_table(_table(report.tried, differences=False), [*lines, report.conclusion()])
    if report.proven:
        typer.echo("\n".join(["", "For agent-rag.toml:", *_entries(base.name, report.proposal)]))


async def _answers(
    base: KnowledgeBase,
    settings: KnowledgeBaseSettings,
    known: Settings,
    asked: Sequence[Question],
    corpus: Sequence[Path] | None,
    compare: Sequence[str],
    preset: str | None,
    judge: str | None,
    *,
    as_json: bool,
) -> None:
    from ...evaluation.answering import TRPC
    from . import answering

    if len(compare) + bool(preset) > 1:
        stop("--answers takes one configuration: one --with, or --preset", as_json)
    way = TRPC if preset else _ways(settings, known, compare)[-1]
    if way.reranker is not None:
        stop("--answers takes no reranker", as_json)
    report = await answering.judge_answers(
        base, known, asked, way, judge=judge, corpus=corpus, ingest_options=_reading(settings), quiet=as_json
    )
    answering.show_answers(report, as_json=as_json)
    if not report.metrics:
        raise typer.Exit(1)


def _entries(name: str, proposal: Mapping[str, object]) -> list[str]:
    """The lines of agent-rag.toml that a proposal stands for."""
    own = [f"{key} = {value}" for key, value in proposal.items() if key != "keyword_weight"]
    search = [f"{key} = {value}" for key, value in proposal.items() if key == "keyword_weight"]
    lines = [f"[knowledge_bases.{name}]", *own] if own else []
    return [*lines, *([f"[knowledge_bases.{name}.search]", *search] if search else [])]


def _ways(settings: KnowledgeBaseSettings, known: Settings, compare: Sequence[str]) -> list[Configuration]:
    """The settings of agent-rag.toml, then each of `compare` over them."""
    from ...config.parts import reranker_of
    from ...evaluation import Configuration, configuration_from

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
    from ...evaluation.run import evaluate as measure

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
    from ...config.parts import chunker_of, parser_choice, run_options

    options = run_options(settings.ingest)
    return {**options, "chunker": chunker_of(settings), "parser_for": parser_choice(settings)}  # type: ignore[typeddict-item]


def show_evaluation(report: EvaluationReport, *, as_json: bool) -> None:
    """A row for each configuration, below it its differences to the first."""
    if as_json:
        left_out = {"results": {"__all__": {"outcomes": {"__all__": {"hits": {"__all__": {"text"}}}}}}}
        console.show_json(report.model_dump(mode="json", exclude=left_out))
        return
    asked = f"{report.questions} questions in {report.seconds:.1f} s"
    if len(report.configurations) > 1:
        asked += f"; below each: difference to {report.baseline.name!r}, its 95 % interval, * where that excludes 0"
    console.show_table(_table(report.configurations), [asked, *(f"note: {note}" for note in report.notes)])


def _table(configurations: Sequence[ConfigurationResult], *, differences: bool = True) -> Table:
    shown = [name for name in MAIN_METRICS if name in configurations[0].metrics]
    table = Table("", *shown, "ms", "chunks")
    for one in configurations:
        figures = [f"{one.metrics[name]:.3f}" for name in shown]
        table.add_row(console.plain_text(one.name), *figures, f"{one.latency_p50_ms:.1f}", str(one.chunks))
        if one.differences and differences:
            table.add_row("", *(_difference(one, name) for name in shown), "", "", style="dim")
    return table


def _difference(one: ConfigurationResult, metric: str) -> str:
    difference = one.differences[metric]
    sign = "*" if difference.significant else ""
    return f"{difference.mean:+.3f}{sign}\n{difference.low:+.3f} to {difference.high:+.3f}"
