"""The one renderer of tables, for all formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, get_args, overload

from ..errors import ConfigurationError

TableFormat = Literal["markdown", "json"]

JSON_MARKER = "<system-info>A table loaded as a JSON array:</system-info>"
"""First line of a JSON table, so that a reader knows what follows; AgentScope's wording."""

_MAX_FILLED_CELLS = 10_000_000
"""Beyond it short rows stay short, so that one long row among many short ones cannot fill the memory."""
_UNIT = "\x1f"
_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")


class PackedRows(Sequence[Sequence[str]]):
    """Rows of texts, each row in one string: short cells take ten times their size as strings of their own."""

    def __init__(self, rows: Iterable[Sequence[str]] = ()) -> None:
        self._rows: list[str | list[str]] = []
        for row in rows:
            self.append(row)

    def append(self, row: Sequence[str]) -> None:
        packed = _UNIT.join(row)
        self._rows.append(packed if row and packed.count(_UNIT) == len(row) - 1 else list(row))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Sequence[str]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[str]]: ...
    def __getitem__(self, index: int | slice) -> Sequence[str] | Sequence[Sequence[str]]:
        return [*map(_unpacked, self._rows[index])] if isinstance(index, slice) else _unpacked(self._rows[index])

    def __iter__(self) -> Iterator[Sequence[str]]:
        return map(_unpacked, self._rows)


def _unpacked(row: str | list[str]) -> Sequence[str]:
    return row.split(_UNIT) if isinstance(row, str) else row


def check_table_format(table_format: str) -> None:
    """Raises: ConfigurationError: it is neither "markdown" nor "json"."""
    if table_format not in get_args(TableFormat):
        raise ConfigurationError(f"table_format is {table_format!r}; use 'markdown' or 'json'")


def render_table(rows: Sequence[Sequence[str]], table_format: TableFormat, *, has_header: bool = True) -> str:
    """A table as text; "" when no cell has any. Without a header a Markdown table has an empty one.

    Args:
        rows: The header first. Rows may have different lengths; the longest sets the width.
    """
    width = max(map(len, rows), default=0)
    if not any(map(any, rows)):
        return ""
    width = min(width, max(len(rows[0]), _MAX_FILLED_CELLS // len(rows)))
    if table_format == "json":
        return json_table(rows)
    return markdown_table(rows if has_header else chain([()], rows), width)


def markdown_table(rows: Iterable[Sequence[str]], width: int) -> str:
    """A pipe table that ends in a newline; every row has `width` cells, short ones are filled with empty cells."""
    lines = [markdown_row(row, width) for row in rows]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines) + "\n"


def markdown_row(cells: Sequence[str], width: int) -> str:
    """One line of a pipe table."""
    line = "| " + " | ".join(map(escape_cell, cells)) + " |" if cells else "|"
    return line + "  |" * (width - len(cells))


def escape_cell(text: str) -> str:
    r"""A cell on one line: ``|`` gets a backslash, a line break becomes ``<br>``."""
    if "|" in text:
        text = text.replace("|", "\\|")
    return text if text.isprintable() else _LINE_BREAK.sub("<br>", text)


def json_table(rows: Iterable[Sequence[str]]) -> str:
    """The marker line and one JSON array of arrays, each row as long as it is."""
    return f"{JSON_MARKER}\n{json.dumps([list(row) for row in rows], ensure_ascii=False)}"


def json_rows(rows: Iterable[Sequence[str] | dict[str, str]]) -> str:
    """The marker line and one JSON value a line: an array, or an object by cell coordinate."""
    return "\n".join([JSON_MARKER, *(json.dumps(row, ensure_ascii=False) for row in rows)])
