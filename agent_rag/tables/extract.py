"""The typed tables of a document, out of the Sections that its parser gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress, islice
from typing import Any

from ..documents import Section
from .blocks import MAX_COLUMNS, Block, blocks_of, fill
from .header import Layout, layout_of
from .model import Column, Table, Value
from .names import distinct, sql_name
from .raw import RawTable, raw_tables
from .totals import total_rows
from .types import Hints, Typed, hints_of, typed

VERSION = "1"
"""Raised when the same document would give other tables; ingestion reads the files anew then."""

_MAX_CELL = 4000
"""Characters of a text; the whole cell is in the document's chunks."""
_MAX_BLOCKS = 60
_MAX_TABLES = 200
_HINT_ROWS = 100
_COUNTED = 20_000
_EXAMPLES = 8
_EXAMPLE_CHARACTERS = 60


def extract_tables(sections: Sequence[Section]) -> list[Table]:
    """The tables with a header among a document's Sections, typed, in their order; at most 200.

    Sheets, CSV files, JSON Lines, lists of objects in JSON, and tables in texts. Two columns and a row of data are the
    least; a table without a header counts where it is a whole CSV file, or has three columns and three rows.
    """
    blocks = [(raw, block) for raw in raw_tables(sections) for block in blocks_of(raw)[:_MAX_BLOCKS]]
    all_say = hints_of([cells for raw, block in blocks for cells in _by_hand(raw, block, block.rows)])
    tables = (_table(raw, block, all_say) for raw, block in blocks)
    found = list(islice((table for table in tables if table is not None), _MAX_TABLES))
    several_sheets = len({str(table.place.get("sheet")) for table in found}) > 1
    names = [_name(table, several_sheets) for table in found]
    for table, name in zip(found, distinct(names), strict=True):
        table.name = name
    return found


def _name(table: Table, several_sheets: bool) -> str:
    parts = [str(table.place["sheet"])] if several_sheets and "sheet" in table.place else []
    if not parts and table.name:
        parts = [table.name]
    return sql_name(" ".join(parts), otherwise="table") if parts else "table"


def _by_hand(raw: RawTable, block: Block, rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """The first cells of the columns where people wrote the numbers."""
    for index, column in enumerate(block.columns):
        if column in raw.number_texts:
            yield [row[index] for row in rows[:_HINT_ROWS]]


def _table(raw: RawTable, block: Block, all_say: Hints) -> Table | None:
    if block.width > MAX_COLUMNS:
        return None
    layout = layout_of(block, named=raw.named)
    rows, numbers = block.rows[layout.start :], block.numbers[layout.start :]
    if not rows or not _is_table(raw, block, layout, len(rows)):
        return None
    rows, numbers, below = _without_notes(rows, numbers, raw)
    if not rows:
        return None
    _fill_merged(rows, numbers, block, raw)
    cells = [list(column) for column in zip(*rows, strict=True)]
    own = hints_of(list(_by_hand(raw, block, rows)))
    hints = Hints(own.style or all_say.style, own.order or all_say.order, by_hand=raw.kind == "sheet")
    columns = [typed(column, _hinted(raw, block.columns[i], hints)) for i, column in enumerate(cells)]
    values = [tuple(row) for row in zip(*(column.values for column in columns), strict=True)]
    numeric = [i for i, column in enumerate(columns) if column.type in ("integer", "number")]
    texts = [i for i, column in enumerate(columns) if column.type == "text"]
    totals = total_rows(values, numeric, texts) if raw.kind in ("sheet", "csv", "document") else []
    notes = [*_said("rows that sum up others are left out", [numbers[at] for at in totals], raw.unit)]
    below = [*below, *block.below]
    notes += [f"below it: {' '.join(below)[:300]}"] if below else []
    left_out = set(totals)
    kept = [at for at in range(len(values)) if at not in left_out]
    if totals:
        columns = [
            typed([cells[i][at] for at in kept], _hinted(raw, block.columns[i], hints)) for i in range(len(cells))
        ]
        values = [tuple(row) for row in zip(*(column.values for column in columns), strict=True)]
        numbers = [numbers[at] for at in kept]
    if not values:
        return None
    return _made(raw, layout, columns, values, numbers, notes)


def _hinted(raw: RawTable, column: int, hints: Hints) -> Hints:
    return hints if column in raw.number_texts else replace(hints, computed=True)


def _made(
    raw: RawTable,
    layout: Layout,
    columns: Sequence[Typed],
    values: Sequence[tuple[Value, ...]],
    numbers: Sequence[int],
    notes: list[str],
) -> Table:
    used = [any(row[i] is not None for row in values) or bool(layout.names[i]) for i in range(len(columns))]
    names = distinct(sql_name(name, otherwise=f"column_{i + 1}") for i, name in enumerate(layout.names))
    made = [
        Column(
            name=names[i],
            header=layout.names[i],
            type=column.type,
            unit=(column.unit or layout.units[i]) if column.type in ("integer", "number") else layout.units[i],
            **_values_of(column),
            empty=sum(row[i] is None for row in values) - len(column.unread),
            unread=len(column.unread),
            notes=column.notes,
        )
        for i, column in enumerate(columns)
    ]
    long = 0
    rows: list[tuple[Value, ...]] = []
    for row, number in zip(values, numbers, strict=True):
        kept = list(compress(row, used))
        for i, value in enumerate(kept):
            if isinstance(value, str) and len(value) > _MAX_CELL:
                kept[i] = value[: _MAX_CELL - 1] + "…"
                long += 1
        rows.append((*kept, number or None))
    if long:
        notes.append(f"{long} texts are cut after {_MAX_CELL:,} characters")
    if not layout.is_headed:
        notes.append("it has no header: the columns are numbered")
    known = [number for number in numbers if number]
    return Table(
        name=layout.titles[0] if layout.titles else raw.title or "",
        title=" ".join(layout.titles)[:200] or raw.title,
        place=raw.place,
        unit=raw.unit,
        first=min(known, default=None),
        last=max(known, default=None),
        columns=list(compress(made, used)),
        row_count=len(rows),
        notes=notes,
        rows=rows,
    )  # its name is the text that `_name` makes it of


def _values_of(column: Typed) -> dict[str, Any]:
    """What stands in a column: examples, and how many different values."""
    values = [value for value in column.values if value is not None]
    if not values:
        return {}
    counts = Counter(values[:_COUNTED])
    if column.type == "text":
        examples: list[Value] = [str(value)[:_EXAMPLE_CHARACTERS] for value, _ in counts.most_common(_EXAMPLES)]
    else:
        examples = [min(values), max(values)]
    return {"examples": examples, "distinct": min(len(counts), 1000)}


def _is_table(raw: RawTable, block: Block, layout: Layout, count: int) -> bool:
    """Whether a block is a table, and not a few facts or a layout of text."""
    if raw.kind == "csv" or raw.kind == "records":
        return block.width > 0
    if layout.is_headed:
        named = sum(map(bool, layout.names))
        small = raw.kind == "sheet" and block.width == 2 and count < 2
        return block.width > 1 and named * 2 >= block.width and not small
    return raw.kind == "sheet" and block.width >= 3 and count >= 3


def _without_notes(
    rows: list[list[str]], numbers: list[int], raw: RawTable
) -> tuple[list[list[str]], list[int], list[str]]:
    """Rows without the remarks at the end: a single text in the first cell of a table of three columns and more."""
    end = len(rows)
    if raw.kind in ("sheet", "csv") and rows and len(rows[0]) > 2:
        while end > 1 and fill(rows[end - 1]) == 1 and rows[end - 1][0] and len(rows[end - 1][0]) > 3:
            end -= 1
        if end == 1 and len(rows) > 2:
            end = len(rows)
    return [list(row) for row in rows[:end]], numbers[:end], [row[0] for row in rows[end:]]


def _fill_merged(rows: list[list[str]], numbers: Sequence[int], block: Block, raw: RawTable) -> None:
    """Write the value of merged cells into each of their rows."""
    at = {number: index for index, number in enumerate(numbers) if number}
    columns = {column: index for index, column in enumerate(block.columns)}
    for first, last, column in raw.merged:
        if column not in columns or first not in at or last - first > len(rows) * 4:
            continue
        text = rows[at[first]][columns[column]]
        for number in range(first + 1, last + 1):
            index = at.get(number)
            if index is not None and not rows[index][columns[column]]:
                rows[index][columns[column]] = text


def _said(what: str, numbers: Sequence[int], unit: str) -> Iterator[str]:
    if numbers:
        shown = ", ".join(str(number) for number in numbers[:10] if number)
        yield f"{len(numbers)} {what}" + (f" ({unit} {shown}{'...' if len(numbers) > 10 else ''})" if shown else "")
