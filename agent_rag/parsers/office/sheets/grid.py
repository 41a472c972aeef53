"""The cells of a sheet that hold something, and the rectangle that they make on paper."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ....documents import CellFacts
from ....errors import ParseLimitError

_CELL = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})", re.I)
_NUMBER_STARTS = frozenset("0123456789-+(.,'$€£¥₹")
_MAX_MERGE_STEPS = 5_000_000


class Row(NamedTuple):
    """The filled cells of a row, from left to right."""

    number: int
    """From 1."""
    columns: tuple[int, ...]
    """From 1."""
    texts: list[str]


class Area(NamedTuple):
    """A rectangle of cells, both ends included."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass
class Limits:
    """Bounds on one workbook. `cells` counts the cells of the rectangles that are written."""

    rows: int
    columns: int
    cells: int
    filename: str
    omitted: list[str] = field(default_factory=list)
    """Names of the hidden sheets that are not read."""

    def check_rows(self, rows: int, sheet: str) -> None:
        if rows > self.rows:
            raise self._error(f"sheet {sheet!r} has more than {self.rows:,} filled rows", "max_rows")

    def check_columns(self, column: int, sheet: str) -> None:
        if column > self.columns:
            raise self._error(f"sheet {sheet!r} has a cell in column {column:,}", "max_columns")

    def take_cells(self, cells: int, sheet: str) -> None:
        """Count cells against the workbook's budget."""
        self.cells -= cells
        if self.cells < 0:
            raise self._error(f"the sheets up to {sheet!r} make too many cells ({cells:,} in this one)", "max_cells")

    def _error(self, what: str, option: str) -> ParseLimitError:
        return ParseLimitError(f"{self.filename}: {what}, over the limit {option}; split the file, or raise {option}")


@dataclass
class Grid:
    """The filled cells of one sheet.

    Empty rows and columns are not kept: a run of them, however long, is written as a single empty one between its
    neighbours, and not at all before the first and after the last.
    """

    sheet: str
    limits: Limits
    rows: list[Row] = field(default_factory=list)
    _columns: set[int] = field(default_factory=set)
    _last: tuple[int, ...] = ()
    _tall: list[tuple[Area, str]] = field(default_factory=list)
    """Merged ranges of several rows and their values."""
    number_texts: set[int] = field(default_factory=set)
    """Columns that hold texts which look like numbers (`seems_number`)."""

    def add(self, number: int, columns: Sequence[int], texts: list[str]) -> None:
        """Add the next row; one without cells is ignored."""
        if not columns:
            return
        found = tuple(columns)
        if found == self._last:
            found = self._last  # one tuple for all rows of a regular table
        else:
            self._last = found
            self._columns.update(found)
            self.limits.check_columns(max(found), self.sheet)
        if self.rows and number <= self.rows[-1].number:
            number = self.rows[-1].number + 1  # a damaged file; the rows stay in their order
        self.rows.append(Row(number, found, texts))
        self.limits.check_rows(len(self.rows), self.sheet)

    def merge(self, areas: Iterable[Area], *, repeat: bool) -> None:
        """Leave a merged range its first cell only; Excel shows no other, though files may hold them.

        Args:
            repeat: Write its value in each of its filled rows, in the first column.
        """
        steps = 0
        for area in areas:
            if area.bottom > area.top and (text := self._text_at(area.top, area.left)):
                self._tall.append((area, text))
            for index in self._between(area.top, area.bottom):
                steps += 1
                self._clear(index, area)
            if steps > _MAX_MERGE_STEPS:
                raise ParseLimitError(f"{self.limits.filename}: sheet {self.sheet!r} has too many merged cells")
        if repeat:
            self.rows = [carried(row, self._tall) for row in self.rows]
        self.rows = [row for row in self.rows if row.columns]

    def _text_at(self, row: int, column: int) -> str:
        for index in self._between(row, row):
            found = self.rows[index]
            return found.texts[found.columns.index(column)] if column in found.columns else ""
        return ""

    def append(self, row: int, column: int, text: str) -> None:
        """Add ` (text)` to a filled cell that does not say it already."""
        for index in self._between(row, row):
            found = self.rows[index]
            if column in found.columns:
                position = found.columns.index(column)
                if text not in found.texts[position]:
                    found.texts[position] += f" ({text})"

    def table(self) -> Table:
        """The rectangle to write. Raises: ParseLimitError: it has more cells than the limit."""
        table = Table(self.rows, _positions(sorted(self._columns)), self._tall, self.number_texts)
        self.limits.take_cells(len(self.rows) * table.width, self.sheet)
        return table

    def _between(self, top: int, bottom: int) -> range:
        start = bisect.bisect_left(self.rows, top, key=lambda row: row.number)
        end = bisect.bisect_right(self.rows, bottom, key=lambda row: row.number)
        return range(start, end)

    def _clear(self, index: int, area: Area) -> None:
        row = self.rows[index]
        origin = area.left if row.number == area.top else 0
        kept = [i for i, c in enumerate(row.columns) if not area.left <= c <= area.right or c == origin]
        if len(kept) < len(row.columns):
            self.rows[index] = Row(row.number, tuple(row.columns[i] for i in kept), [row.texts[i] for i in kept])


class Table:
    """The filled rows of a sheet as full rows of a table."""

    def __init__(
        self, rows: list[Row], positions: dict[int, int], tall: list[tuple[Area, str]], number_texts: set[int]
    ) -> None:
        self.rows = rows
        self._tall = tall
        self._positions = positions
        self._number_texts = number_texts
        self.width = max(positions.values(), default=-1) + 1

    def group(self, start: int, end: int) -> list[Row]:
        """Rows for a part of their own: the first one carries the merged cells that began above it."""
        rows = self.rows[start:end]
        return [carried(row, self._tall) for row in rows[:1]] + rows[1:]

    def facts(self) -> CellFacts | None:
        """What its text does not say; None where there is no more."""
        places = self._positions
        merged = [(area.top, area.bottom, places[area.left]) for area, _ in self._tall if area.left in places]
        texts = sorted(places[column] for column in self._number_texts if column in places)
        return CellFacts(merged=merged, number_texts=texts) if merged or texts else None

    def full_rows(self, rows: Iterable[Row], *, coordinates: bool = False) -> Iterator[list[str]]:
        """Rows with all their cells; an empty one for each gap.

        Args:
            coordinates: Write ``[A1]`` before each cell.
        """
        previous = None
        for row in rows:
            if previous is not None and row.number > previous + 1:
                yield [""] * self.width
            previous = row.number
            cells = [""] * self.width
            for column, text in zip(row.columns, row.texts, strict=True):
                cells[self._positions[column]] = f"[{column_name(column)}{row.number}] {text}" if coordinates else text
            yield cells

    def row_numbers(self, rows: Iterable[Row]) -> Iterator[int]:
        """The number of each of `full_rows`, 0 for a gap."""
        previous = None
        for row in rows:
            if previous is not None and row.number > previous + 1:
                yield 0
            previous = row.number
            yield row.number


def seems_number(text: str) -> bool:
    """Whether a text may be a number that a person wrote: it begins as one."""
    return text[:1] in _NUMBER_STARTS or (text[:3].isupper() and any(map(str.isdecimal, text[3:6])))


def carried(row: Row, tall: Iterable[tuple[Area, str]]) -> Row:
    """The row with the values of the merged ranges that reach into it, where its cell is empty."""
    cells = dict(zip(row.columns, row.texts, strict=True))
    for area, text in tall:
        if area.top < row.number <= area.bottom:
            cells.setdefault(area.left, text)
    if len(cells) == len(row.columns):
        return row
    columns = tuple(sorted(cells))
    return Row(row.number, columns, [cells[column] for column in columns])


def _positions(columns: list[int]) -> dict[int, int]:
    positions: dict[int, int] = {}
    position, previous = -1, None
    for column in columns:
        position += 1 if previous is None or column == previous + 1 else 2
        positions[column] = position
        previous = column
    return positions


@cache
def column_name(column: int) -> str:
    """1 is A, 27 is AA."""
    name = ""
    while column > 0:
        column, letter = divmod(column - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


@cache
def column_number(letters: str) -> int:
    """A is 1, AA is 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def area(reference: str) -> Area | None:
    """``B2:C3`` or ``B2`` as numbers; None when it is no such reference."""
    first_cell, _, last_cell = reference.partition(":")
    first, last = _CELL.fullmatch(first_cell.strip()), _CELL.fullmatch((last_cell or first_cell).strip())
    if first is None or last is None:
        return None
    return Area(int(first[2]), column_number(first[1]), int(last[2]), column_number(last[1]))
