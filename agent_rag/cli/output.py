"""What the command line prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..documents import Chunk, DocumentSummary, VectorSearchResult
from ..knowledge.hits import Hits
from ..places import location_of, place_text
from .advice import with_keys

if TYPE_CHECKING:
    from pathlib import Path

    from ..embeddings.cached import CacheStats
    from ..ingestion.manage import SourceSummary
    from ..knowledge.finding import FindResult
    from ..knowledge.outline import DocumentOutline
    from ..knowledge.reembedding import ModelReindex
    from ..knowledge.reindexing import KeywordReindex
    from ..stores.copy import CopyReport
    from ..stores.sqlite.maintenance import CheckReport, CompactReport
    from ..tables.query import TableAnswer
    from .ask import Answer

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SHOWN_ROWS = 40
_SHOWN_NAMES = 5


def show_json(value: Any) -> None:
    """Print one JSON value: indented on a terminal, on one line elsewhere."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.write(json.dumps(plain, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None) + "\n")


def show_results(results: Sequence[VectorSearchResult], *, as_json: bool) -> None:
    """Hits with their place and scores."""
    if as_json:
        show_json([result.model_dump(mode="json", exclude_none=True) for result in results])
        return
    console = console_of()
    if isinstance(results, Hits) and results.corrected:
        said = ", ".join(f"{other} (nothing has {word})" for word, other in results.corrected.items())
        console.print(plain_text(f"searched for {said}", style="dim"))
    if not results:
        console.print("nothing found")
    for number, result in enumerate(results, 1):
        place = "".join(f", {name} {place_text(value)}" for name, value in location_of(result.chunk.metadata).items())
        title = f"[{number}] {result.chunk.source}{place}"
        signals = result.signals.model_dump(exclude_none=True)
        scores = ", ".join(f"{name} {value:.3f}" for name, value in {"score": result.score, **signals}.items())
        console.print(plain_text(title, style="bold"), plain_text(f"({scores})", style="dim"))
        show_passage(console, result.chunk.text.strip())
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
    """The answer, unless it was `streamed`, then what it cites, then what nothing that it cites says."""
    if as_json:
        show_json(answer)
        return
    console = console_of()
    if not streamed.endswith(answer.text) or not answer.text:
        show_passage(console, answer.text if not streamed else f"\n\n{answer.text}")
    else:
        console.print()
    if answer.citations:
        console.print()
    for citation in answer.citations:
        show_passage(console, citation.label)
    if answer.unsupported:
        console.print()
    for remark in answer.unsupported:
        said = f"unsupported: “{' '.join(remark.text.split())}”: {remark.remark}"
        console.print(plain_text(said, style="yellow"), soft_wrap=True)
    if answer.note:
        errors().print(plain_text(f"note: {answer.note}", style="yellow"), soft_wrap=True)


def show_documents(documents: Sequence[DocumentSummary], *, as_json: bool) -> None:
    """One row a document."""
    if as_json:
        show_json([document.model_dump(mode="json") for document in documents])
        return
    reasons = [with_keys(document.state.get("reason", "")) for document in documents]
    table = listing("document", "title", "chunks", "uri", *(["reason"] if any(reasons) else []), numbers=("chunks",))
    for document, reason in zip(documents, reasons, strict=True):
        row = (document.document_id, document.title or "", str(document.chunk_count), document.uri or "")
        table.add_row(*map(plain_text, row), *([plain_text(reason)] if any(reasons) else []))
    console = console_of()
    show_rows(console, table if documents else "no documents")


def show_query(answer: TableAnswer) -> None:
    """The rows of an answer as a table, then what to know of it and where it comes from."""
    console = console_of()
    table = Table()
    for name in answer.columns:
        table.add_column(plain_text(name))
    for row in answer.rows:
        table.add_row(*(plain_text("" if value is None else str(value)) for value in row))
    show_rows(console, table)
    console.print(f"{len(answer.rows)} row(s)" + (", and there are more (--limit)" if answer.has_more else ""))
    for note in answer.notes:
        console.print(plain_text(f"note: {note}", style="dim"), soft_wrap=True)
    for citation in answer.citations:
        console.print(plain_text(f"source: {citation.label}"), soft_wrap=True)


def show_chunks(chunks: Sequence[Chunk], *, as_json: bool) -> None:
    """The text of a document, chunk by chunk."""
    if as_json:
        show_json([chunk.model_dump(mode="json", exclude_none=True) for chunk in chunks])
        return
    console = console_of()
    for chunk in chunks:
        place = "".join(f", {name} {place_text(value)}" for name, value in location_of(chunk.metadata).items())
        path = f" ({' > '.join(chunk.heading_path)})" if chunk.heading_path else ""
        console.print(plain_text(f"{chunk.chunk_index}: {chunk.source}{place}{path}", style="bold"), soft_wrap=True)
        show_passage(console, chunk.text.strip())
        console.print()


def show_found(result: FindResult, *, as_json: bool) -> None:
    """The documents with their counts, below each its lines; the total at the end."""
    if as_json:
        show_json(result.model_dump(mode="json", exclude_none=True))
        return
    out = console_of()
    for document in result.documents:
        matches = [
            one for one in result.matches if (one.scope, one.document_id) == (document.scope, document.document_id)
        ]
        if not matches and result.matches:
            continue
        out.print(plain_text(f"{document.document_id}: {document.count:,}", style="bold"), soft_wrap=True)
        for match in matches:
            where = location_of(match.chunk.metadata)
            place = ", ".join(f"{name} {place_text(value)}" for name, value in where.items())
            line = Text("  ").append_text(plain_text(f"{place}: " if place else "", style="dim"))
            before, after = match.line[: match.start].lstrip(), match.line[match.end :].rstrip()
            for piece, style in ((before, ""), (match.text, "bold red"), (after, "")):
                line.append_text(plain_text(" ".join(piece.split("\n")), style=style))
            out.print(line, soft_wrap=True)
    hidden = len(result.documents) - len({(one.scope, one.document_id) for one in result.matches})
    shown = len(result.matches)
    if result.matches and shown < result.total:
        more = f" and {hidden:,} more documents" if hidden else ""
        out.print(f"... {result.total - shown:,} more occurrences{more} not shown; --limit shows more")
    counted = f"{result.total:,} occurrence{'s' if result.total != 1 else ''} in {len(result.documents):,} document"
    out.print(counted + ("s" if len(result.documents) != 1 else ""))


def show_outline(outline: DocumentOutline, *, as_json: bool) -> None:
    """One line a heading, slide or sheet, as deep as it lies."""
    if as_json:
        show_json(outline)
        return
    console = console_of()
    ranges = {"pages": outline.pages, "rows": outline.rows}
    about = [f"{outline.chunk_count} chunks", *(f"{name} {one[0]}-{one[1]}" for name, one in ranges.items() if one)]
    console.print(plain_text(f"{outline.title or outline.document_id} ({', '.join(about)})", style="bold"))
    for entry in outline.entries:
        place = ", ".join(f"{name} {place_text(value)}" for name, value in entry.place.items())
        line = f"{'  ' * entry.level}{entry.title}" + (f" ({place})" if place else "")
        console.print(plain_text(line), soft_wrap=True)


def show_dropped(name: str, chunks: int, *, as_json: bool) -> None:
    """What is gone."""
    if as_json:
        show_json({"dropped": name, "chunks": chunks})
        return
    console_of().print(plain_text(f"deleted the knowledge base {name} ({chunks:,} chunks)"))


def show_settings(rows: Sequence[tuple[str, Any, str]], *, as_json: bool, hidden: int = 0) -> None:
    """One row a setting; `hidden`: so many defaults are left out."""
    if as_json:
        show_json([{"name": name, "value": value, "from": origin} for name, value, origin in rows])
        return
    table = listing("setting", "value", "from")
    for name, value, origin in rows:
        table.add_row(plain_text(name), plain_text(json.dumps(value, ensure_ascii=False)), plain_text(origin))
    show_rows(console_of(), table if rows else "no configuration file, and no variable is set")
    if hidden:
        console_of().print(f"{hidden} settings have their default; --all shows them")


def show_sources(sources: Sequence[SourceSummary], *, as_json: bool) -> None:
    """One row a source."""
    counted = ("documents", "chunks", "skipped", "failed")
    if as_json:
        show_json([source.model_dump(mode="json") for source in sources])
        return
    table = listing("source", *counted, "place", numbers=counted)
    for source in sources:
        counts = (source.documents, source.chunks, source.skipped, source.failed)
        table.add_row(plain_text(source.name), *map(str, counts), plain_text(source.location))
    show_rows(console_of(), table if sources else "no sources")


def show_removed(name: str, document_ids: Sequence[str], *, as_json: bool) -> None:
    """Which documents went with a source."""
    if as_json:
        show_json({"source": name, "removed": list(document_ids)})
        return
    console_of().print(plain_text(f"removed {name} ({len(document_ids)} documents)"))


def show_deleted(removed: Mapping[str, int], *, as_json: bool) -> None:
    """How many chunks went with each document."""
    if as_json:
        show_json(dict(removed))
        return
    for document_id, count in removed.items():
        said = f"deleted {document_id} ({count} chunks)" if count else f"{document_id} is not in this knowledge base"
        console_of().print(plain_text(said))


def show_copied(report: CopyReport, *, as_json: bool) -> None:
    """What was copied."""
    if as_json:
        show_json(report)
        return
    console_of().print(f"copied {report.documents} documents, {report.chunks} chunks in {report.seconds:.1f} s")
    for note in report.notes:
        console_of().print(plain_text(note), soft_wrap=True)


def show_check(report: CheckReport, *, as_json: bool) -> None:
    """What was read, and a line for each problem."""
    if as_json:
        show_json({**report.model_dump(mode="json"), "ok": report.ok})
        return
    for problem in report.problems:
        console_of().print(plain_text(problem, style="red"), soft_wrap=True)
    state = "all is well" if report.ok else f"{len(report.problems)} problems"
    console_of().print(
        f"{report.collections} collections, {report.documents} documents, {report.chunks} chunks: {state}"
    )


def show_backup(file: Path, *, as_json: bool) -> None:
    """Where the copy is, and its size."""
    size = file.stat().st_size
    if as_json:
        show_json({"file": str(file), "bytes": size})
        return
    console_of().print(plain_text(f"copied to {file}, {size:,} bytes"), soft_wrap=True)


def show_cache(stats: CacheStats, *, cleared: int | None, as_json: bool) -> None:
    """Where the cache is, and what is or was in it."""
    if as_json:
        show_json({"path": str(stats.path), "vectors": stats.vectors, "bytes": stats.bytes, "cleared": cleared})
        return
    held = f"{stats.vectors:,} vectors, {stats.bytes:,} bytes in {stats.path}"
    console_of().print(plain_text(held if cleared is None else f"deleted: {held}"), soft_wrap=True)


def show_compacted(report: CompactReport, *, as_json: bool) -> None:
    """Size before and after."""
    if as_json:
        show_json(report)
        return
    console_of().print(f"{report.bytes_before:,} bytes before, {report.bytes_after:,} now", highlight=False)
    if not report.settled:
        console_of().print("another process is reading an older state; deleted text goes from the WAL when it ends")


def show_reindexed(report: KeywordReindex, *, as_json: bool) -> None:
    """What was indexed anew, and with which fields."""
    if as_json:
        show_json(report)
        return
    if report.fields is None:
        console_of().print("there is nothing to index")
        return
    unchanged = f", {report.unchanged:,} had them already" if report.unchanged else ""
    done = f"{report.documents:,} documents ({report.chunks:,} chunks) indexed anew with {report.fields}{unchanged}"
    console_of().print(done, highlight=False)


def show_reembedded(report: ModelReindex, model: str, *, configured: bool, as_json: bool) -> None:
    """What was embedded anew, and what to write into agent-rag.toml so that it is used.

    Args:
        configured: Whether the file names the former model.
    """
    if as_json:
        show_json(report)
        return
    unchanged = f", {report.unchanged:,} by an earlier run" if report.unchanged else ""
    done = f"{report.documents:,} documents ({report.chunks:,} chunks) embedded with {model}{unchanged}"
    lines = [done]
    if not report.switched:
        lines.append(f'this store cannot switch by itself; in agent-rag.toml: collection = "{report.collection}"')
    if configured or not report.switched or not model.startswith("local"):
        lines.append(f'in agent-rag.toml, from now on: embedding = "{model}"')
    for line in lines:
        console_of().print(line, highlight=False, markup=False)


def errors() -> Console:
    """Standard error; without a terminal nothing is cut or coloured."""
    return Console(stderr=True) if sys.stderr.isatty() else Console(stderr=True, width=10_000, no_color=True)


def listing(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """A table without frames, in which nothing is cut: what does not fit goes on in the next line.

    Args:
        numbers: Columns that are set flush right.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold", justify="right" if name in numbers else "left")
    return table


def grid(*, indent: int = 0) -> Table:
    """Rows of a word and what it says."""
    table = Table.grid(padding=(0, 2, 0, indent))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def show_passage(console: Console, text: str) -> None:
    """Wrapped at words on a terminal; elsewhere lines stay as they are."""
    console.print(plain_text(text), soft_wrap=not console.is_terminal, overflow="fold")


def plain_text(value: str, style: str = "", *, one_line: bool = False) -> Text:
    """`value` as it is, but for control characters, which a terminal would obey."""
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return Text(shown, style=style, overflow="ellipsis", no_wrap=True) if one_line else Text(shown, style=style)


def console_of() -> Console:
    """Standard output."""
    # Output that is not a terminal is never cut or wrapped to 80 columns.
    return Console(highlight=False) if sys.stdout.isatty() else Console(width=10_000, no_color=True, highlight=False)


def show_rows(console: Console, rows: Table | str) -> None:
    """A table; without a terminal its lines are not padded to one width."""
    if console.is_terminal or isinstance(rows, str):
        console.print(rows)
        return
    with console.capture() as captured:
        console.print(rows)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def show_table(table: Table, lines: Sequence[str] = ()) -> None:
    """A table with lines of plain text below it."""
    console = console_of()
    show_rows(console, table)
    for line in lines:
        console.print(plain_text(line), soft_wrap=True)
