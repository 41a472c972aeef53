"""Where the tables of a sheet are: apart by empty rows and columns, together where those stand inside of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from .raw import RawTable
from .types import is_missing, is_typed

_SAMPLE_ROWS = 100
_LEAST_OVERLAP = 0.8
_LEAST_TITLED_OVERLAP = 0.9
_MAX_TITLE_ROWS = 8
MAX_COLUMNS = 500
"""Of a table."""
MAX_SEGMENTS = 20_000
"""Runs of cells on a sheet; with more it is no sheet of tables, and taken as one."""
_MAX_GROUPS = 40
_NEAR = 50
"""So many blocks back one may go on."""
_REMARK = re.compile(
    r"[*†‡¹²³]|\(?\d{1,2}\)|(?:quelle|source|notes?|anmerkung(?:en)?|hinweise?|footnotes?|legende?)\b", re.I
)
"""How lines below a table begin, and titles do not."""


@dataclass
class Block:
    """A rectangle of a sheet: rows of texts, all of one length."""

    rows: list[list[str]]
    numbers: list[int]
    """Of each row in the file; 0 for none."""
    columns: list[int]
    """Of the rectangle, from 0."""
    above: list[str] = field(default_factory=list)
    """Lines that stand above it, apart from it."""
    below: list[str] = field(default_factory=list)
    _types: tuple[int, set[int]] = (0, set())
    """(rows that were looked at, what they said): looked at again when there are twice as many."""

    @property
    def width(self) -> int:
        return len(self.columns)

    def types(self) -> set[int]:
        """`typed_columns` of the rows below the first."""
        looked, found = self._types
        if len(self.rows) >= 2 * looked:
            found = typed_columns(self.rows[1:])
            self._types = (len(self.rows), found)
        return found


def blocks_of(raw: RawTable) -> list[Block]:
    """The rectangles of `raw` that may be tables, in reading order."""
    width = max(map(len, raw.rows), default=0)
    rows = [row + [""] * (width - len(row)) for row in raw.rows]
    if raw.kind in ("document", "records"):
        block = _taken(rows, raw.numbers, range(width))
        return [block] if block.rows else []
    segments = list(islice(_segments(rows, raw.numbers, range(width)), MAX_SEGMENTS + 1))
    if len(segments) > MAX_SEGMENTS:
        return [_taken(rows, raw.numbers, range(width))]
    return list(_joined(segments))


def fill(row: Sequence[str]) -> int:
    """How many cells of a row have something in them."""
    return sum(map(bool, row))


def typed_columns(rows: Sequence[Sequence[str]]) -> set[int]:
    """Columns of which most cells are numbers, dates or truth values."""
    found = set()
    sample = rows if len(rows) <= _SAMPLE_ROWS else rows[-_SAMPLE_ROWS:]
    for index in range(len(rows[0]) if rows else 0):
        cells = [row[index] for row in sample if row[index]]
        if cells and sum(map(is_typed, cells)) * 2 > len(cells):
            found.add(index)
    return found


def goes_on(above: Block, below: Block) -> bool:
    """Whether the first row of `below` is a row of the table above, by the types of its columns."""
    if len(above.rows) < 2 or above.width > MAX_COLUMNS or not set(below.columns) <= set(above.columns):
        return False
    row = dict(zip(below.columns, below.rows[0], strict=True))
    types = [above.columns[index] for index in above.types()]
    cells = [row.get(column, "") for column in types]
    typed = [cell for cell in cells if not is_missing(cell)]
    return bool(typed) and all(map(is_typed, typed)) and fill(below.rows[0]) > 1


def _runs(rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(start, end) of the rows between empty ones."""
    start: int | None = None
    for index, row in enumerate(rows):
        is_gap = not any(row)
        if start is not None and (is_gap or 0 < numbers[index - 1] < numbers[index] - 1):
            yield start, index
            start = None
        if start is None and not is_gap:
            start = index
    if start is not None:
        yield start, len(rows)


def _taken(rows: Sequence[Sequence[str]], numbers: Sequence[int], columns: Iterable[int]) -> Block:
    """Some columns, without those and the rows that are empty."""
    filled = [column for column in columns if any(row[column] for row in rows)]
    kept = [(number, [row[column] for column in filled]) for number, row in zip(numbers, rows, strict=True)]
    kept = [(number, row) for number, row in kept if any(row)]
    return Block([row for _, row in kept], [number for number, _ in kept], filled)


def _segments(rows: Sequence[list[str]], numbers: Sequence[int], columns: Sequence[int]) -> Iterator[Block]:
    """The rectangles between empty rows and columns; the parts of one table stay together."""
    for start, end in _runs([[row[column] for column in columns] for row in rows], numbers):
        part = rows[start:end]
        groups = _side_by_side(part, columns)
        for group in groups:
            if len(groups) > 1:
                yield from _segments(part, numbers[start:end], group)
            else:
                yield _taken(part, numbers[start:end], group)


def _side_by_side(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[int]]:
    """The columns between empty ones, in groups that are tables of their own."""
    groups: list[list[int]] = []
    for column in columns:
        if not any(row[column] for row in rows):
            continue
        if groups and column == groups[-1][-1] + 1:
            groups[-1].append(column)
        else:
            groups.append([column])
    if len(groups) > _MAX_GROUPS:
        return [list(chain.from_iterable(groups))]
    parts = groups[:1]
    for group in groups[1:]:
        if _is_one_table(rows, parts[-1], group):
            parts[-1] = [*parts[-1], *group]
        else:
            parts.append(group)
    return parts


def _is_one_table(rows: Sequence[Sequence[str]], left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether an empty column stands in a table: both sides begin in one row, under other names, and reach as far.

    Titles and facts above one side do not count.
    """
    body = [row for row in rows if fill([row[c] for c in (*left, *right)]) > 1]
    sides = [[[row[column] for column in side] for row in body] for side in (left, right)]
    here = [{index for index, row in enumerate(side) if any(row)} for side in sides]
    if not all(here):
        return False
    start = max(min(here[0]), min(here[1]))
    early = [row for side in sides for row in side[:start] if any(row)]
    if any(fill(row) == len(row) for row in early) or not all(any(side[start]) for side in sides):
        return False
    here = [{index for index in side if index >= start} for side in here]
    names = [{cell.lower() for row in side[start : start + 2] for cell in row if cell} for side in sides]
    if names[0] & names[1]:
        return False
    titled = all(len(side[start]) > 1 and fill(side[start]) == 1 for side in sides)  # or a level of the header
    least = _LEAST_TITLED_OVERLAP if titled else _LEAST_OVERLAP
    return len(here[0] & here[1]) >= least * len(here[0] | here[1])


def _joined(blocks: Sequence[Block]) -> Iterator[Block]:
    """Blocks with their titles, and with the rows that empty rows have cut off."""
    titles: list[Block] = []
    done: list[Block] = []
    for block in blocks:
        columns = set(block.columns)
        above = next((one for one in reversed(done[-_NEAR:]) if not columns.isdisjoint(one.columns)), None)
        if _is_title(block) and done and _REMARK.match(_lines(block)[0]):
            done[-1].below += _lines(block)
        elif _is_title(block):
            titles.append(block)
        elif above is not None and _has_its_header(above, block):
            _append(above, block, 1)
            titles = []
        elif above is not None and not titles and goes_on(above, block):
            _append(above, block, 0)
        else:
            if above is not None and above is done[-1] and _lacks_its_header(above, block):
                _take_header(above, block)
                if not above.rows:
                    done.pop()
                    block.above = above.above
            block.above += [line for title in titles for line in _lines(title)]
            titles = []
            done.append(block)
    for title in titles:
        if done:
            done[-1].below += _lines(title)
    yield from done


def _has_its_header(above: Block, block: Block) -> bool:
    """Whether a block begins with the header of the table above it, as printed lists do on each page."""
    named = _named(block, 0)
    return len(named) > 1 and any(
        _named(above, index) == named for index in range(min(len(above.rows), _MAX_TITLE_ROWS))
    )


def _named(block: Block, index: int) -> dict[int, str]:
    return {column: cell for column, cell in zip(block.columns, block.rows[index], strict=True) if cell}


def _lacks_its_header(above: Block, block: Block) -> bool:
    """Whether the last row of a block names the columns of the data below an empty row."""
    if block.width > MAX_COLUMNS:
        return False
    names = dict(zip(above.columns, above.rows[-1], strict=True))
    types = {block.columns[index] for index in typed_columns(block.rows)}
    shared = [names[column] for column in block.columns if names.get(column)]
    first = dict(zip(block.columns, block.rows[0], strict=True))
    return (
        bool(types)
        and any(first[column] and is_typed(first[column]) for column in types)
        and len(shared) > 1
        and len(shared) * 2 > block.width
        and not any(map(is_typed, shared))
    )


def _take_header(above: Block, block: Block) -> None:
    names = dict(zip(above.columns, above.rows.pop(), strict=True))
    block.rows.insert(0, [names.get(column, "") for column in block.columns])
    block.numbers.insert(0, above.numbers.pop())


def _is_title(block: Block) -> bool:
    return len(block.rows) <= _MAX_TITLE_ROWS and all(fill(row) == 1 for row in block.rows)


def _lines(block: Block) -> list[str]:
    return [" ".join(cell for cell in row if cell) for row in block.rows]


def _append(above: Block, below: Block, start: int) -> None:
    at = {column: index for index, column in enumerate(below.columns)}
    for number, row in zip(below.numbers[start:], below.rows[start:], strict=True):
        above.rows.append([row[at[column]] if column in at else "" for column in above.columns])
        above.numbers.append(number)
