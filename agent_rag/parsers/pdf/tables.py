"""Ruled tables of a PDF page as Markdown in the place of their text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..tables import render_table
from .layout import Grid, cell_origins
from .text import clean

_MAX_CHARS = 50_000
_DRAWN = re.compile("[^\\s\ufffe]+")
"""Not white space and not what the engine made up."""

Point = tuple[float, float]
Origins = list[list[tuple[int, int]]]
_MOST_CUT = 0.1
"""Share of words through which a rule goes; pdfium glues the words of neighbouring cells now and then."""


class _Piece(NamedTuple):
    """Part of the text that lies in one field of each grid, or outside."""

    start: int
    end: int
    x: float
    y: float


def with_tables(text: str, grids: list[Grid], centre_of: Callable[[int], Point | None]) -> str | None:
    """The cleaned text with its tables; None where no table can be told apart safely.

    Args:
        text: As the engine gives it, one character for each that `centre_of` knows.
        grids: Top to bottom.
        centre_of: The character at an index of `text`.
    """
    if len(text) > _MAX_CHARS:
        return None
    pieces = list(_pieces(text, grids, centre_of))
    tables: list[tuple[int, int, str]] = []
    for grid in grids:
        left, bottom, right, top = grid.box
        inside = [i for i, piece in enumerate(pieces) if left <= piece.x <= right and bottom <= piece.y <= top]
        if not inside or inside[-1] - inside[0] >= len(inside):
            continue  # nothing in it, or other text in between
        first, last = pieces[inside[0]].start, pieces[inside[-1]].end
        if any(last > a and first < b for a, b, _ in tables):
            continue
        table = _table(grid, text, [pieces[i] for i in inside])
        if table:
            tables.append((first, last, table))
    return _replaced(text, sorted(tables)) if tables else None


def _replaced(text: str, tables: list[tuple[int, int, str]]) -> str:
    result: list[str] = []
    position = 0
    for first, last, table in tables:
        result += [clean(text[position:first]), table]
        position = last
    result.append(clean(text[position:]))
    return "\n\n".join(part for part in result if part)


def _pieces(text: str, grids: list[Grid], centre_of: Callable[[int], Point | None]) -> Iterator[_Piece]:
    """Words, or letters where a word reaches from one field into another.

    A line above or below all tables is taken to be there as a whole, which saves most of the time.
    """
    bands = [(grid.ys[-1], grid.ys[0]) for grid in grids]
    end_of_line, outside = -1, None
    for match in _DRAWN.finditer(text):
        start, end = match.span()
        first = centre_of(start)
        if start > end_of_line:
            end_of_line = text.find("\n", start) % (len(text) + 1)
            outside = first if first and not any(low <= first[1] <= high for low, high in bands) else None
        last = outside or centre_of(end - 1)
        if outside or (first and last and all(_field(g, first) == _field(g, last) for g in grids)):
            yield _Piece(start, end, *(outside or first or (0.0, 0.0)))
            continue
        for index in range(start, end):
            if centre := centre_of(index):
                yield _Piece(index, index + 1, *centre)


def _field(grid: Grid, point: Point) -> tuple[int, int]:
    x, y = point
    left, bottom, right, top = grid.box
    if not (left <= x <= right and bottom <= y <= top):
        return -1, -1
    return bisect_left(grid.rows_down, -y), bisect_left(grid.columns, x)


def _table(grid: Grid, text: str, inside: list[_Piece]) -> str:
    """Markdown of what is `inside` a grid, or "" where too few cells hold text for a table."""
    origins = cell_origins(grid)
    if _cuts_words(grid, origins, text, inside):
        return ""
    cells = _cell_texts(grid, origins, text, inside)
    rows = [
        [" ".join(clean("".join(cells.get((r, c), ()))).split()) for c in range(len(grid.xs) - 1)]
        for r in range(len(grid.ys) - 1)
    ]
    rows = [row for row in rows if any(row)]
    filled = sum(bool(cell) for row in rows for cell in row)
    if len(rows) < 2 or filled < 4 or filled < 0.3 * len(rows) * len(rows[0]):
        return ""
    return render_table(rows, "markdown").rstrip("\n")


def _cuts_words(grid: Grid, origins: Origins, text: str, inside: list[_Piece]) -> bool:
    """Whether the rules go through the words, as those of squared paper behind a text do."""
    words = cut = 0
    last_end, last_origin, is_cut = -1, (-1, -1), False
    for start, end, x, y in inside:
        row, column = _field(grid, (x, y))
        origin = origins[row][column]
        if start != last_end:
            words += 1
            is_cut = False
        elif origin != last_origin and not is_cut and text[start - 1].isalpha() and text[start].isalpha():
            cut += 1
            is_cut = True
        last_end, last_origin = end, origin
    return cut >= 2 and cut > _MOST_CUT * words


def _cell_texts(grid: Grid, origins: Origins, text: str, inside: list[_Piece]) -> dict[tuple[int, int], list[str]]:
    """By the field where the cell begins."""
    cells: dict[tuple[int, int], list[str]] = {}
    previous: tuple[int, int] | None = None
    last = inside[0].start
    for start, end, x, y in inside:
        row, column = _field(grid, (x, y))
        origin = origins[row][column]
        letters = cells.setdefault(origin, [])
        if letters and (origin != previous or start != last):
            letters.append(text[last:start] if origin == previous else "\n")
        letters.append(text[start:end])
        previous, last = origin, end
    return cells
