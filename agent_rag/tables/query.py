"""Questions to tables in SQL: bounded, read-only, with citations, and with errors that say what is nearest."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from ..errors import ConfigurationError, ParseError, TableQueryError
from ..places import place_text
from ..workers import WorkerPool
from .catalog import Catalog, CatalogTable
from .sandbox import Answered, Readable, answer

_MISSING_TABLE = re.compile(r"no such table: (?:\w+\.)?(.+)")
_MISSING_COLUMN = re.compile(r"no such column: (.+)")
_SHOWN_NAMES = 12
_GRACE_S = 0.15
"""One step of SQLite's machine may take long, without a look at the clock; after so long its process is ended."""
_MEMORY_MB = 512


class QueryLimits(BaseModel):
    """Bounds of a query."""

    rows: int = Field(default=200, ge=1, le=10_000)
    """Rows of an answer at most."""
    timeout_s: float = Field(default=0.6, gt=0, le=60)
    characters: int = Field(default=20_000, ge=100)
    """Of an answer as text; a cell has 500 at most."""


class TableCitation(BaseModel):
    """Where an answer comes from: a table that the query read."""

    table: str
    """Its name in SQL."""
    document_id: str
    source: str
    """File name."""
    title: str | None = None
    """Of the document."""
    uri: str | None = None
    place: dict[str, Any] = Field(default_factory=dict)
    """Sheet, page or slide."""
    unit: Literal["rows", "records", "lines"] = "rows"
    rows: tuple[int, int] | None = None
    """First and last row in the file; of the answer's own rows where it has the column ``_row``, else of the table."""
    row_count: int = 0
    """Rows of the table."""
    scope: str = ""

    @property
    def label(self) -> str:
        """``sales.xlsx, sheet North, rows 5-104``: for people."""
        parts = [self.source, *(f"{name} {place_text(value)}" for name, value in self.place.items())]
        return ", ".join([*parts, f"{self.unit} {place_text(list(self.rows))}"] if self.rows else parts)


class TableAnswer(BaseModel):
    """The rows of an answer and where they come from."""

    sql: str
    columns: list[str]
    rows: list[tuple[Any, ...]]
    has_more: bool = False
    """Whether there are more rows than the limit, or than fit the characters."""
    citations: list[TableCitation] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """What to know of the tables that were read: cells that are NULL because they could not be read, rows left out."""

    def text(self) -> str:
        """For people and models: the rows as a Markdown table, notes, sources."""
        head = ["| " + " | ".join(map(_cell, self.columns)) + " |", "|" + " --- |" * len(self.columns)]
        rows = ["| " + " | ".join(map(_cell, row)) + " |" for row in self.rows]
        count = f"{len(self.rows)} row(s)" + (", and there are more: narrow or sum up" if self.has_more else "")
        sources = [f"source: {citation.label}" for citation in self.citations]
        return "\n".join([*head, *rows, count, *(f"note: {note}" for note in self.notes), *sources])


class GoneError(Exception):
    """A document was replaced or deleted since the catalog was read."""


async def run_query(sql: str, catalog: Catalog, limits: QueryLimits) -> TableAnswer:
    """The answer to one SELECT over the tables of `catalog`.

    It runs in a process of its own, so that a query which takes too long, or too much memory, can be ended.

    Raises: TableQueryError: the message says what is wrong with it, and what is nearest. GoneError: look again.
    """
    if not (first := _first_word(sql)):
        raise TableQueryError("the query is empty; write a SELECT over the tables of describe_tables")
    if first.lower() not in ("select", "with", "values") or "\x00" in sql:
        raise TableQueryError(f"only SELECT is answered (WITH may stand before it), not {first[:40]!r}")
    mentioned = catalog.mentioned(sql)
    readable = [Readable(table.name, table.file, table.position) for table in mentioned]
    limit_s = limits.timeout_s + _GRACE_S + 0.02 * len(readable)
    try:
        found: Answered = await _pool().run(
            answer, sql, readable, limits.rows, limits.timeout_s, filename="query", timeout_s=limit_s
        )
    except (ParseError, ConfigurationError) as error:  # of the worker: it took too long, or too much memory
        raise _too_much(limits) from error
    if found.gone:
        raise GoneError(found.error)
    if found.timed_out:
        raise _too_much(limits)
    if found.error or found.refused:
        raise TableQueryError(_explained(found, catalog, mentioned))
    rows, has_more = _fitting(found.rows, limits.characters)
    used = [catalog[name] for name in found.used]
    return TableAnswer(
        sql=sql,
        columns=found.columns,
        rows=rows,
        has_more=found.has_more or has_more,
        citations=[_cite(table, found, only=len(used) == 1) for table in used],
        notes=list(_notes(used)),
    )


def prepare() -> None:
    """Start the process that answers queries, which takes half a second, before there is one. From a running loop."""
    _pool().prepare(answer, "select 1", [], 1, QueryLimits().timeout_s)


def _first_word(sql: str) -> str:
    """Behind blanks, comments and brackets."""
    at = 0
    while at < len(sql):
        if sql[at].isspace() or sql[at] == "(":
            at += 1
        elif sql.startswith("--", at):
            at = sql.find("\n", at) + 1 or len(sql)
        elif sql.startswith("/*", at):
            end = sql.find("*/", at + 2)
            at = end + 2 if end >= 0 else len(sql)
        else:
            return re.split(r"\W", sql[at:], maxsplit=1)[0] or sql[at]
    return ""


_workers: WorkerPool | None = None
_lock = threading.Lock()


def _pool() -> WorkerPool:
    global _workers
    with _lock:
        if _workers is None or _workers.is_closed:
            _workers = WorkerPool(2, memory_mb=_MEMORY_MB)
        return _workers


def _too_much(limits: QueryLimits) -> TableQueryError:
    return TableQueryError(
        f"the query took longer than {limits.timeout_s:g} s or too much memory, and was stopped; "
        "filter earlier, join on equal columns, and let recursion end"
    )


def _explained(found: Answered, catalog: Catalog, mentioned: Sequence[CatalogTable]) -> str:
    """The error for whoever wrote the query."""
    names = [table.name for table in catalog.tables]
    if (missing := _MISSING_TABLE.match(found.error)) or found.refused.startswith("table "):
        wanted = missing[1] if missing else found.refused.removeprefix("table ")
        return f"there is no table {wanted!r}; {_nearest(wanted, names, 'tables')}"
    if found.refused:
        return f"only one SELECT over tables is answered; the query has {found.refused}, which is not allowed"
    if missing := _MISSING_COLUMN.match(found.error):
        wanted = missing[1].rpartition(".")[2].strip('"')
        columns = [column.name for table in mentioned for column in table.info.columns]
        where = f" of {', '.join(table.name for table in mentioned)}" if mentioned else ""
        return f"there is no column {wanted!r}; {_nearest(wanted, distinct_of(columns), f'columns{where}')}"
    if "one statement" in found.error:
        return "only one SELECT is answered at a time; send the statements one by one"
    return f"the query is not valid SQL of SQLite: {found.error}"


def _nearest(wanted: str, names: Sequence[str], what: str) -> str:
    near = difflib.get_close_matches(wanted.lower(), names, n=3, cutoff=0.5)
    if near:
        return f"nearest: {', '.join(near)}"
    shown = ", ".join(names[:_SHOWN_NAMES]) + (
        f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    )
    return f"{what}: {shown}" if names else f"there are no {what}"


def distinct_of(names: Iterable[str]) -> list[str]:
    """Names once, in their order."""
    return list(dict.fromkeys(names))


def _fitting(rows: Sequence[tuple[Any, ...]], characters: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Rows as long as they fit, and whether some did not."""
    kept: list[tuple[Any, ...]] = []
    for row in rows:
        characters -= sum(min(len(str(value)), _CELL_CHARACTERS) + 3 for value in row) + 2
        if characters < 0:
            return kept, True
        kept.append(row)
    return kept, False


_CELL_CHARACTERS = 500


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = repr(value) if isinstance(value, float) else str(value)
    text = text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"
    return " ".join(text.split()).replace("|", "\\|")


def _cite(table: CatalogTable, found: Answered, *, only: bool) -> TableCitation:
    info, document = table.info, table.document
    rows = (info.first, info.last) if info.first is not None and info.last is not None else None
    if only and "_row" in found.columns:
        at = found.columns.index("_row")
        shown = [row[at] for row in found.rows if isinstance(row[at], int)]
        rows = (min(shown), max(shown)) if shown else rows
    return TableCitation(
        table=table.name,
        document_id=document.document_id,
        source=document.source,
        title=document.title,
        uri=document.uri,
        place=info.place,
        unit=info.unit,
        rows=rows,
        row_count=info.row_count,
        scope=document.scope,
    )


def _notes(tables: Sequence[CatalogTable]) -> Iterable[str]:
    for table in tables:
        for note in table.info.notes:
            yield f"{table.name}: {note}"
        for column in table.info.columns:
            for note in column.notes:
                yield f"{table.name}.{column.name}: {note}"
