"""The rows of an HTML table, with their merged cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..tables import PackedRows
from .blocks import Scope

MAX_COLUMNS = 256
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
        """All rows from the first that has a merged cell; then `_plain` has those before."""
        self._open: list[Cell | str] = []
        self.width = 0
        self.structured = False
        """Whether a cell holds more than text."""

    def begin(self) -> None:
        """End the open row, if any."""
        row, self._open = self._open, []
        self.width = max(self.width, len(row))
        texts = [cell for cell in row if isinstance(cell, str)]
        if self._rows or len(texts) < len(row):
            self._rows.append(row)
        elif any(texts):
            self._plain.append(texts)

    def add(self, cell: Cell | str) -> None:
        self._open.append(cell)
        self.structured |= not isinstance(cell, str) and cell.scope is not None

    def cells(self) -> Iterator[Cell | str]:
        yield from (cell for row in self._plain for cell in row)
        yield from (cell for row in self._rows for cell in row)

    def grid(self) -> PackedRows:
        """Cells in their columns: a merged cell's text stands in its first field, the others it covers are empty."""
        for row in _grid(self._rows):
            if any(row):
                self._plain.append(row)
        return self._plain


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
