"""What the command line prints of an ingestion, of a store, and of the installation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from .advice import with_keys
from .output import console_of, grid, listing, plain_text, show_json, show_rows

if TYPE_CHECKING:
    from ..ingestion.report import FileReport, IngestReport
    from .doctor import Finding
    from .inventory import BaseStatus

_SHOWN_ROWS = 40
_SHOWN_NAMES = 5
_STYLES = {"added": "green", "replaced": "green", "pruned": "magenta"}


def show_report(report: IngestReport, *, as_json: bool, show_all: bool = False, quiet: bool = False) -> None:
    """What failed and was skipped, by reason; what changed; the rest as a number. With `quiet` only what failed."""
    if as_json:
        show_json({"event": "report", **report.model_dump(mode="json"), "counts": report.counts, "ok": report.ok})
        return
    console = console_of()
    _show_reasons(console, "failed", "bold red", report.of("failed"), show_all)
    if quiet:
        return
    _show_reasons(console, "skipped", "yellow", report.of("skipped"), show_all)
    changed = [file for file in report.files if file.outcome in _STYLES]
    warned = [file for file in changed if file.warnings or file.also]
    rows = report.files if show_all else changed if len(changed) <= _SHOWN_ROWS else warned[:_SHOWN_ROWS]
    if rows:
        _show_files(console, rows)
    if len(changed) > len(rows):
        console.print(f"{len(changed) - len(rows):,} further documents; --all shows every one", highlight=False)
    for note in report.notes:
        console.print(plain_text(note))
    console.print(str(report), markup=False, highlight=False)


def _show_files(console: Console, files: Sequence[FileReport]) -> None:
    notes = {
        file.document_id: "; ".join(
            [
                *([with_keys(file.reason)] if file.reason else []),
                *map(with_keys, file.warnings),
                *([f"also {', '.join(file.also)}"] if file.also else []),
            ]
        )
        for file in files
    }
    with_notes = any(notes.values())
    table = listing("document", "outcome", "chunks", *(["note"] if with_notes else []), numbers=("chunks",))
    for file in files:
        state = plain_text(file.outcome, style=_STYLES.get(file.outcome, ""))
        cells = [plain_text(file.document_id), state, plain_text(str(file.chunks or ""))]
        table.add_row(*cells, *([plain_text(notes[file.document_id])] if with_notes else []))
    show_rows(console, table)


def _show_reasons(console: Console, outcome: str, style: str, files: Sequence[FileReport], show_all: bool) -> None:
    """One paragraph a reason, with so many files and some of their names."""
    reasons: dict[str, list[str]] = {}
    for file in files:
        reason = file.reason or "no reason given"
        for name in (file.document_id, file.document_id.rpartition("/")[2]):
            reason = reason.removeprefix(f"{name}: ").replace(name, "FILE")
        reasons.setdefault(reason, []).append(file.document_id)
    if not reasons:
        return
    table = grid()
    for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        shown = names if show_all else names[:_SHOWN_NAMES]
        more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
        told = plain_text(with_keys(reason))
        told.append_text(plain_text(f"  {', '.join(shown)}{more}", style="dim"))
        table.add_row(plain_text(f"{len(names):,} {outcome}", style=style), told)
    show_rows(console, table)
    console.print()


def show_status(bases: Sequence[BaseStatus], *, as_json: bool) -> None:
    """A paragraph for each knowledge base."""
    if as_json:
        show_json([base.model_dump(mode="json") for base in bases])
        return
    console = console_of()
    if not bases:
        console.print("no knowledge bases")
    for base in bases:
        console.print(plain_text(base.name, style="bold"), soft_wrap=True)
        table = grid(indent=2)
        for name, value in _facts(base):
            table.add_row(plain_text(name, style="dim"), plain_text(value))
        show_rows(console, table)


def _facts(base: BaseStatus) -> Iterable[tuple[str, str]]:
    if base.note:
        yield "note", base.note
    if base.model is not None or base.documents:
        yield "holds", f"{base.documents:,} documents, {base.chunks:,} chunks"
    if base.failed:
        yield "failed", f"{_files(base.failed)}: agent-rag list -k {base.name} --status failed"
    if base.skipped:
        yield "skipped", f"{_files(base.skipped)}: agent-rag list -k {base.name} --status skipped"
    if base.sources:
        yield "sources", ", ".join(f"{name} ({count:,})" for name, count in base.sources.items())
    if base.model is not None:
        yield "model", base.model
    if base.keywords is not None:
        yield "keywords", base.keywords.replace("+", ", ")
    size = f" ({_size(base.bytes)})" if base.bytes is not None else ""
    yield "store", base.store + size
    if base.written is not None:
        yield "written", base.written.strftime("%Y-%m-%d %H:%M")


def _files(count: int) -> str:
    return f"{count:,} file{'s' if count != 1 else ''}"


def _size(count: int) -> str:
    """``812 bytes``, ``1.9 MB``."""
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def show_findings(findings: Sequence[Finding], *, as_json: bool, show_all: bool = False) -> None:
    """What is wrong first; packages and extras in a line each, unless `show_all`."""
    if as_json:
        show_json([finding.model_dump(mode="json") for finding in findings])
        return
    console = console_of()
    packages = [one for one in findings if one.kind == "package"]
    extras = [one for one in findings if one.kind == "extra"]
    others = [one for one in findings if one.kind not in ("package", "extra")]
    table = grid()
    if show_all:
        _add_findings(table, findings)
    else:
        _add_findings(table, [one for one in packages if not one.ok])
        fine = sum(one.ok for one in packages)
        table.add_row(plain_text("ok", style="green"), plain_text(f"packages: {fine} of {len(packages)}"))
        installed = ", ".join(one.name for one in extras if one.ok) or "none"
        table.add_row(plain_text("ok", style="green"), plain_text(f"extras: {installed}"))
        missing = ", ".join(one.name for one in extras if not one.ok)
        if missing:
            told = f"extras: {missing}; pip install 'agent-rag-middleware[NAME]' for those that you want"
            table.add_row(plain_text("not here", style="dim"), plain_text(told))
        _add_findings(table, others)
    show_rows(console, table)


def _add_findings(table: Table, findings: Iterable[Finding]) -> None:
    for one in findings:
        style = "green" if one.ok else "bold red" if one.required else "yellow"
        told = f"{one.kind} {one.name}" + (f": {one.detail}" if one.detail else "")
        table.add_row(plain_text("ok" if one.ok else "missing", style=style), plain_text(told))
