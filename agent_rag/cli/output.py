"""What the command line prints: tables for people, JSON for programs, progress bars while it works."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..documents import DocumentSummary, VectorSearchResult
from ..events import Event, LoadProgress
from ..middleware.core.citation import location_of, place_text

if TYPE_CHECKING:
    from pathlib import Path

    from ..embeddings.cached import CacheStats
    from ..ingestion.manage import SourceSummary
    from ..ingestion.report import IngestReport
    from ..stores.copy import CopyReport
    from ..stores.sqlite.maintenance import CheckReport, CompactReport
    from .ask import Answer
    from .doctor import Finding

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STAGES = ("parse", "store")
_SHOWN_UNCHANGED = 20


def show_json(value: Any) -> None:
    """Print one JSON document."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.write(json.dumps(plain, ensure_ascii=False, indent=2) + "\n")


def show_report(report: IngestReport, *, as_json: bool) -> None:
    """What was added, replaced, unchanged, skipped, failed, and why."""
    if as_json:
        show_json({**report.model_dump(mode="json"), "counts": report.counts, "ok": report.ok})
        return
    table = Table("document", "outcome", "chunks", "note")
    unchanged = report.of("unchanged")
    hidden = len(unchanged) if len(unchanged) > _SHOWN_UNCHANGED else 0
    styles = {"failed": "red", "skipped": "yellow", "added": "green", "replaced": "green", "pruned": "magenta"}
    for file in report.files:
        if hidden and file.outcome == "unchanged":
            continue
        also = [f"also {', '.join(file.also)}"] if file.also else []
        note = "; ".join([*([file.reason] if file.reason else []), *file.warnings, *also])
        outcome = _text(file.outcome, style=styles.get(file.outcome, ""))
        table.add_row(_text(file.document_id), outcome, str(file.chunks or ""), _text(note))
    console = _console()
    if table.row_count:
        console.print(table)
    if hidden:
        console.print(f"{hidden} unchanged documents not shown")
    for note in report.notes:
        console.print(_text(note))
    console.print(str(report), markup=False, highlight=False)


def show_results(results: Sequence[VectorSearchResult], *, as_json: bool) -> None:
    """Hits with their place and scores."""
    if as_json:
        show_json([result.model_dump(mode="json", exclude_none=True) for result in results])
        return
    console = _console()
    if not results:
        console.print("nothing found")
    for number, result in enumerate(results, 1):
        place = "".join(f", {name} {place_text(value)}" for name, value in location_of(result.chunk.metadata).items())
        title = f"[{number}] {result.chunk.source}{place}"
        signals = result.signals.model_dump(exclude_none=True)
        scores = ", ".join(f"{name} {value:.3f}" for name, value in {"score": result.score, **signals}.items())
        console.print(_text(title, style="bold"), _text(f"({scores})", style="dim"))
        console.print(_text(result.chunk.text.strip()), soft_wrap=True)
        console.print()


def show_answer(answer: Answer, *, as_json: bool) -> None:
    """The answer, then what it cites."""
    if as_json:
        show_json(answer)
        return
    console = _console()
    console.print(_text(answer.text), soft_wrap=True)
    if answer.citations:
        console.print()
    for citation in answer.citations:
        console.print(_text(citation.label), soft_wrap=True)


def show_documents(documents: Sequence[DocumentSummary], *, as_json: bool) -> None:
    """One row a document."""
    if as_json:
        show_json([document.model_dump(mode="json") for document in documents])
        return
    table = Table("document", "title", "chunks", "uri")
    for document in documents:
        row = (document.document_id, document.title or "", str(document.chunk_count), document.uri or "")
        table.add_row(*map(_text, row))
    console = _console()
    console.print(table if documents else "no documents")


def show_sources(sources: Sequence[SourceSummary], *, as_json: bool) -> None:
    """One row a source."""
    if as_json:
        show_json([source.model_dump(mode="json") for source in sources])
        return
    table = Table("source", "documents", "chunks", "skipped", "failed", "place")
    for source in sources:
        counts = (source.documents, source.chunks, source.skipped, source.failed)
        table.add_row(_text(source.name), *map(str, counts), _text(source.location))
    _console().print(table if sources else "no sources")


def show_removed(name: str, document_ids: Sequence[str], *, as_json: bool) -> None:
    """Which documents went with a source."""
    if as_json:
        show_json({"source": name, "removed": list(document_ids)})
        return
    _console().print(_text(f"removed {name} ({len(document_ids)} documents)"))


def show_deleted(removed: Mapping[str, int], *, as_json: bool) -> None:
    """How many chunks went with each document."""
    if as_json:
        show_json(dict(removed))
        return
    for document_id, count in removed.items():
        said = f"deleted {document_id} ({count} chunks)" if count else f"{document_id} is not in this knowledge base"
        _console().print(_text(said))


def show_copied(report: CopyReport, *, as_json: bool) -> None:
    """What was copied."""
    if as_json:
        show_json(report)
        return
    _console().print(f"copied {report.documents} documents, {report.chunks} chunks in {report.seconds:.1f} s")


def show_check(report: CheckReport, *, as_json: bool) -> None:
    """What was read, and a line for each problem."""
    if as_json:
        show_json({**report.model_dump(mode="json"), "ok": report.ok})
        return
    for problem in report.problems:
        _console().print(_text(problem, style="red"), soft_wrap=True)
    state = "all is well" if report.ok else f"{len(report.problems)} problems"
    _console().print(f"{report.collections} collections, {report.documents} documents, {report.chunks} chunks: {state}")


def show_backup(file: Path, *, as_json: bool) -> None:
    """Where the copy is, and its size."""
    size = file.stat().st_size
    if as_json:
        show_json({"file": str(file), "bytes": size})
        return
    _console().print(_text(f"copied to {file}, {size:,} bytes"), soft_wrap=True)


def show_cache(stats: CacheStats, *, cleared: int | None, as_json: bool) -> None:
    """Where the cache is, and what is or was in it."""
    if as_json:
        show_json({"path": str(stats.path), "vectors": stats.vectors, "bytes": stats.bytes, "cleared": cleared})
        return
    held = f"{stats.vectors:,} vectors, {stats.bytes:,} bytes in {stats.path}"
    _console().print(_text(held if cleared is None else f"deleted: {held}"), soft_wrap=True)


def show_compacted(report: CompactReport, *, as_json: bool) -> None:
    """Size before and after."""
    if as_json:
        show_json(report)
        return
    _console().print(f"{report.bytes_before:,} bytes before, {report.bytes_after:,} now", highlight=False)
    if not report.settled:
        _console().print("another process is reading an older state; deleted text goes from the WAL when it ends")


def show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """One row a check."""
    if as_json:
        show_json([finding.model_dump(mode="json") for finding in findings])
        return
    table = Table("kind", "name", "state", "detail")
    for finding in findings:
        style = "green" if finding.ok else "red" if finding.required else "yellow"
        state = Text("ok" if finding.ok else "missing", style=style)
        table.add_row(finding.kind, _text(finding.name), state, _text(finding.detail))
    _console().print(table)


@contextlib.contextmanager
def progress_of_load(*, quiet: bool) -> Iterator[Callable[[Event], None]]:
    """A bar per stage of an ingestion, on standard error."""
    with _bars(quiet) as bars:
        tasks = {stage: bars.add_task(stage, total=None) for stage in _STAGES}
        finished: dict[tuple[str, str], int] = {}
        totals: dict[str, int] = {}

        def on_event(event: Event) -> None:
            if not isinstance(event, LoadProgress):
                return
            totals[event.source] = event.total
            finished[event.source, event.stage] = event.done
            for stage, task in tasks.items():
                done = sum(count for (_, name), count in finished.items() if name == stage)
                bars.update(task, completed=done, total=sum(totals.values()))

        yield on_event


@contextlib.contextmanager
def progress(name: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """One bar; call the given function with (done, total)."""
    with _bars(quiet) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _bars(quiet: bool) -> Progress:
    columns = (TextColumn("{task.description:>6}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = sys.stderr.isatty() and not quiet
    return Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True)


def _text(value: str, style: str = "") -> Text:
    """`value` as it is, but for control characters, which a terminal would obey."""
    return Text(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", value), style=style)


def _console() -> Console:
    # Output that is not a terminal is never cut or wrapped to 80 columns.
    return Console() if sys.stdout.isatty() else Console(width=10_000, no_color=True)
