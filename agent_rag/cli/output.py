"""What the command line prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..documents import Chunk, DocumentSummary, VectorSearchResult
from ..places import location_of, place_text
from .advice import with_keys

if TYPE_CHECKING:
    from pathlib import Path

    from ..embeddings.cached import CacheStats
    from ..ingestion.manage import SourceSummary
    from ..ingestion.report import FileReport, IngestReport
    from ..stores.copy import CopyReport
    from ..stores.sqlite.maintenance import CheckReport, CompactReport
    from .ask import Answer
    from .doctor import Finding
    from .inventory import BaseStatus

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SHOWN_ROWS = 40
_SHOWN_NAMES = 5


def show_json(value: Any) -> None:
    """Print one JSON value: indented on a terminal, on one line elsewhere."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.write(json.dumps(plain, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None) + "\n")


def show_report(report: IngestReport, *, as_json: bool, show_all: bool = False, quiet: bool = False) -> None:
    """What failed and was skipped, by reason; what changed; the rest as a number. With `quiet` only what failed."""
    if as_json:
        show_json({"event": "report", **report.model_dump(mode="json"), "counts": report.counts, "ok": report.ok})
        return
    console = _console()
    for outcome, style in (("failed", "red"), ("skipped", "yellow"))[: 1 if quiet else 2]:
        _show_reasons(console, outcome, style, [file for file in report.files if file.outcome == outcome], show_all)
    if quiet:
        return
    styles = {"added": "green", "replaced": "green", "pruned": "magenta"}
    changed = [file for file in report.files if file.outcome in styles]
    warned = [file for file in changed if file.warnings or file.also]
    rows = report.files if show_all else changed if len(changed) <= _SHOWN_ROWS else warned[:_SHOWN_ROWS]
    if rows:
        table = Table("document", "outcome", "chunks", "note")
        for file in rows:
            also = [f"also {', '.join(file.also)}"] if file.also else []
            note = "; ".join([*([file.reason] if file.reason else []), *file.warnings, *also])
            state = plain_text(file.outcome, style=styles.get(file.outcome, ""))
            table.add_row(plain_text(file.document_id), state, str(file.chunks or ""), plain_text(with_keys(note)))
        console.print(table)
    hidden = len(changed) - len(rows)
    if hidden > 0:
        console.print(f"{hidden} further documents not shown; --all shows every one", highlight=False)
    for note in report.notes:
        console.print(plain_text(with_keys(note)))
    console.print(str(report), markup=False, highlight=False)


def _show_reasons(console: Console, outcome: str, style: str, files: Sequence[FileReport], show_all: bool) -> None:
    """One row a reason, with so many files and some of their names."""
    reasons: dict[str, list[str]] = {}
    for file in files:
        reason = (file.reason or "no reason given").replace(file.document_id, "FILE")
        for name in (file.document_id, file.document_id.rpartition("/")[2]):
            reason = reason.replace(name, "FILE")
        reasons.setdefault(reason, []).append(file.document_id)
    if not reasons:
        return
    table = Table(outcome, "why", "documents")
    for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        shown = names if show_all else names[:_SHOWN_NAMES]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        table.add_row(
            plain_text(str(len(names)), style=style), plain_text(with_keys(reason)), plain_text(", ".join(shown) + more)
        )
    console.print(table)


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
        console.print(plain_text(title, style="bold"), plain_text(f"({scores})", style="dim"))
        console.print(plain_text(result.chunk.text.strip()), soft_wrap=True)
        console.print()


class TextStream:
    """Shows the pieces of an answer as they come: on a terminal as they are, with `as_json` one line each."""

    def __init__(self, *, as_json: bool) -> None:
        self.text = ""
        """What was shown."""
        self._as_json = as_json

    def __call__(self, piece: str) -> None:
        self.text += piece
        if self._as_json:
            sys.stdout.write(json.dumps({"event": "text", "text": piece}, ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(plain_text(piece).plain)
        sys.stdout.flush()


def show_answer(answer: Answer, *, as_json: bool, streamed: str = "") -> None:
    """The answer, unless it was `streamed`, then what it cites."""
    if as_json:
        show_json(answer)
        return
    console = _console()
    if not streamed.endswith(answer.text) or not answer.text:
        console.print(plain_text(answer.text if not streamed else f"\n\n{answer.text}"), soft_wrap=True)
    else:
        console.print()
    if answer.citations:
        console.print()
    for citation in answer.citations:
        console.print(plain_text(citation.label), soft_wrap=True)
    if answer.note:
        errors().print(plain_text(f"note: {answer.note}", style="yellow"), soft_wrap=True)


def show_documents(documents: Sequence[DocumentSummary], *, as_json: bool) -> None:
    """One row a document."""
    if as_json:
        show_json([document.model_dump(mode="json") for document in documents])
        return
    table = Table("document", "title", "chunks", "uri")
    for document in documents:
        row = (document.document_id, document.title or "", str(document.chunk_count), document.uri or "")
        table.add_row(*map(plain_text, row))
    console = _console()
    console.print(table if documents else "no documents")


def show_chunks(chunks: Sequence[Chunk], *, as_json: bool) -> None:
    """The text of a document, chunk by chunk."""
    if as_json:
        show_json([chunk.model_dump(mode="json", exclude_none=True) for chunk in chunks])
        return
    console = _console()
    for chunk in chunks:
        place = "".join(f", {name} {place_text(value)}" for name, value in location_of(chunk.metadata).items())
        path = f" ({' > '.join(chunk.heading_path)})" if chunk.heading_path else ""
        console.print(plain_text(f"{chunk.chunk_index}: {chunk.source}{place}{path}", style="bold"), soft_wrap=True)
        console.print(plain_text(chunk.text.strip()), soft_wrap=True)
        console.print()


def show_status(bases: Sequence[BaseStatus], *, as_json: bool) -> None:
    """One row a knowledge base."""
    if as_json:
        show_json([base.model_dump(mode="json") for base in bases])
        return
    table = Table("name", "documents", "chunks", "skipped", "failed", "model", "store", "note")
    for base in bases:
        size = f" ({base.bytes:,} bytes)" if base.bytes is not None else ""
        counts = (base.documents, base.chunks, base.skipped, base.failed)
        texts = (base.model or "", base.store + size, base.note)
        table.add_row(plain_text(base.name), *(f"{count:,}" for count in counts), *map(plain_text, texts))
    _console().print(table if bases else "no knowledge bases")


def show_dropped(name: str, chunks: int, *, as_json: bool) -> None:
    """What is gone."""
    if as_json:
        show_json({"dropped": name, "chunks": chunks})
        return
    _console().print(plain_text(f"deleted the knowledge base {name} ({chunks:,} chunks)"))


def show_settings(rows: Sequence[tuple[str, Any, str]], *, as_json: bool) -> None:
    """One row a setting."""
    if as_json:
        show_json([{"name": name, "value": value, "from": origin} for name, value, origin in rows])
        return
    table = Table("setting", "value", "from")
    for name, value, origin in rows:
        table.add_row(plain_text(name), plain_text(json.dumps(value, ensure_ascii=False)), plain_text(origin))
    _console().print(table if rows else "no configuration file, and no variable is set")


def show_sources(sources: Sequence[SourceSummary], *, as_json: bool) -> None:
    """One row a source."""
    if as_json:
        show_json([source.model_dump(mode="json") for source in sources])
        return
    table = Table("source", "documents", "chunks", "skipped", "failed", "place")
    for source in sources:
        counts = (source.documents, source.chunks, source.skipped, source.failed)
        table.add_row(plain_text(source.name), *map(str, counts), plain_text(source.location))
    _console().print(table if sources else "no sources")


def show_removed(name: str, document_ids: Sequence[str], *, as_json: bool) -> None:
    """Which documents went with a source."""
    if as_json:
        show_json({"source": name, "removed": list(document_ids)})
        return
    _console().print(plain_text(f"removed {name} ({len(document_ids)} documents)"))


def show_deleted(removed: Mapping[str, int], *, as_json: bool) -> None:
    """How many chunks went with each document."""
    if as_json:
        show_json(dict(removed))
        return
    for document_id, count in removed.items():
        said = f"deleted {document_id} ({count} chunks)" if count else f"{document_id} is not in this knowledge base"
        _console().print(plain_text(said))


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
        _console().print(plain_text(problem, style="red"), soft_wrap=True)
    state = "all is well" if report.ok else f"{len(report.problems)} problems"
    _console().print(f"{report.collections} collections, {report.documents} documents, {report.chunks} chunks: {state}")


def show_backup(file: Path, *, as_json: bool) -> None:
    """Where the copy is, and its size."""
    size = file.stat().st_size
    if as_json:
        show_json({"file": str(file), "bytes": size})
        return
    _console().print(plain_text(f"copied to {file}, {size:,} bytes"), soft_wrap=True)


def show_cache(stats: CacheStats, *, cleared: int | None, as_json: bool) -> None:
    """Where the cache is, and what is or was in it."""
    if as_json:
        show_json({"path": str(stats.path), "vectors": stats.vectors, "bytes": stats.bytes, "cleared": cleared})
        return
    held = f"{stats.vectors:,} vectors, {stats.bytes:,} bytes in {stats.path}"
    _console().print(plain_text(held if cleared is None else f"deleted: {held}"), soft_wrap=True)


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
        table.add_row(finding.kind, plain_text(finding.name), state, plain_text(finding.detail))
    _console().print(table)


def errors() -> Console:
    """Standard error; without a terminal nothing is cut or coloured."""
    return Console(stderr=True) if sys.stderr.isatty() else Console(stderr=True, width=10_000, no_color=True)


def plain_text(value: str, style: str = "", *, one_line: bool = False) -> Text:
    """`value` as it is, but for control characters, which a terminal would obey."""
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return Text(shown, style=style, overflow="ellipsis", no_wrap=True) if one_line else Text(shown, style=style)


def _console() -> Console:
    # Output that is not a terminal is never cut or wrapped to 80 columns.
    return Console() if sys.stdout.isatty() else Console(width=10_000, no_color=True)


def show_table(table: Table, lines: Sequence[str] = ()) -> None:
    """A table with lines of plain text below it."""
    console = _console()
    console.print(table)
    for line in lines:
        console.print(plain_text(line), soft_wrap=True)
