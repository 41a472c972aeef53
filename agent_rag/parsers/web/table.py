"""The rows of an HTML table, with their merged cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..tables import PackedRows
from .blocks import Scope

MAX_COLUMNS = 256
_MAX_CELL = 1_000
"""Characters of a cell with lists or code, beyond which it is a page in a table."""
_MAX_FIELDS = 5_000_000
"""Fields of one table, merged ones counted as often as they cover: beyond it spans are taken as 1."""


class Cell(NamedTuple):
    """A cell that is merged or more than a line of text; others are just their text, since tables can be large."""

    text: str
    columns: int
    rows: int
    scope: Scope | None
    """Set where the cell holds more than text."""


class Rows:
    """The rows of a table; those of plain cells only are packed, since tables can be large."""

    def __init__(self) -> None:
        self._plain = PackedRows()
        """All rows with text, as long as all cells are plain."""
        self._rows: list[list[Cell | str]] = []
        """All rows from the first that has a merged or structured cell; then `_plain` has those before."""
        self._open: list[Cell | str] = []
        self._names: list[bool] = []
        """Whether each cell of the open row is a ``th``."""
        self._headers: set[int] = set()
        """Which of `_rows` name the columns; -1 for the first of `_plain`."""
        self.in_head = False
        self.width = 0

    def begin(self) -> None:
        """End the open row, if any."""
        row, self._open = self._open, []
        names, self._names = self._names, []
        self.width = max(
            self.width, len(row), sum(1 if isinstance(cell, str) else min(cell.columns, 2) for cell in row)
        )
        texts = [cell for cell in row if isinstance(cell, str)]
        is_header = bool(row) and (self.in_head or _names_columns(row, names))
        if self._rows or len(texts) < len(row):
            if is_header:
                self._headers.add(len(self._rows))
            self._rows.append(row)
        elif any(texts):
            if is_header and not len(self._plain):
                self._headers.add(-1)
            self._plain.append(texts)

    def add(self, cell: Cell | str, *, is_name: bool) -> None:
        self._open.append(cell)
        self._names.append(is_name)

    def parts(self) -> Iterator[Grid | list[Cell | str]]:
        """Grids of cells in their columns, and between them the cells of rows that are no row of a table.

        A merged cell's text stands in its first field, the others that it covers are empty.
        """
        grid = Grid(self._plain, -1 in self._headers)
        first = 0
        for index, row in enumerate(self._rows):
            if self.width < 2 or _is_layout(row):
                grid.take(_grid(self._rows[first:index]))
                yield grid
                yield row
                grid, first = Grid(PackedRows(), index + 1 in self._headers), index + 1
        if not len(grid.rows):
            grid.has_header = first in self._headers
        grid.take(_grid(self._rows[first:]))
        yield grid


class Grid:
    """Rows of one table."""

    def __init__(self, rows: PackedRows, has_header: bool) -> None:
        self.rows = rows
        self.has_header = has_header

    def take(self, rows: Iterator[list[str]]) -> None:
        for row in rows:
            if any(row):
                self.rows.append(row)


def _names_columns(row: list[Cell | str], names: list[bool]) -> bool:
    """Whether a row is all ``th``, but for empty corners. One that ends in a ``td`` has a name for itself."""
    texts = [cell if isinstance(cell, str) else cell.text for cell in row]
    return names[-1] and all(name or not text for name, text in zip(names, texts, strict=True))


def _is_layout(row: list[Cell | str]) -> bool:
    """Whether a row holds what no row can: headings, tables, pages; or nothing but a list or code."""
    scopes = [cell for cell in row if not isinstance(cell, str) and cell.scope is not None]
    if not scopes:
        return False
    filled = sum(bool(cell if isinstance(cell, str) else cell.text or cell.scope) for cell in row)
    return filled == 1 or any(cell.scope and (cell.scope.is_layout or len(cell.text) > _MAX_CELL) for cell in scopes)


def _grid(rows: list[list[Cell | str]]) -> Iterator[list[str]]:
    merged = [cell for row in rows for cell in row if isinstance(cell, Cell)]
    if sum(cell.columns * cell.rows for cell in merged) > _MAX_FIELDS:
        yield from ([cell if isinstance(cell, str) else cell.text for cell in row] for row in rows)
        return
    covered: dict[int, int] = {}
    for row in rows:
        line: list[str] = []
        below = {column: left - 1 for column, left in covered.items() if left > 1}
        for cell in row:
            while len(line) in covered:
                line.append("")
            if isinstance(cell, str):
                line.append(cell)
                continue
            columns = max(1, min(cell.columns, MAX_COLUMNS - len(line)))
            if cell.rows > 1:
                below.update({len(line) + i: cell.rows - 1 for i in range(columns)})
            line += [cell.text] + [""] * (columns - 1)
        line += [""] * (max(covered, default=-1) + 1 - len(line))
        covered = below
        yield line
