"""Which rows of a block are its title, which name its columns, and which are none of its data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from .blocks import Block, fill, typed_columns
from .numbers import written
from .types import is_typed

_MAX_LEVELS = 4
_MAX_NAME = 120
_YEAR = re.compile(r"(?:FY|GJ)?\s?(?:19|20)\d\d(?:/\d\d)?")
_UNIT = re.compile(
    r"[\[(]?(?:[%‰]|[$€£¥]|T€|k€|Mio\.? ?€?|EUR|USD|GBP|CHF|[kmcµ]?[gmlsWAV]|km|kWh|MWh|°C|h|min|Stk\.?|Stück|pcs\.?|"
    r"[kmµ]?m[²³23]|t|ha|in [%€$\w]{1,6})[\])]?",
)
_UNIT_BEHIND = re.compile(
    rf"^(.*\S)\s*(?:\(({_UNIT.pattern})\)|\[({_UNIT.pattern})\]|\bin ([%€$]|T€|EUR|USD|GBP|CHF|kg|km|Mio\.? ?€?))$"
)
_NUMBERED = re.compile(r"(?:column|spalte|unnamed:?)[ _]?\d+", re.I)


@dataclass
class Layout:
    """The parts of a block."""

    titles: list[str]
    """Lines above it."""
    names: list[str]
    """Of its columns; "" for none."""
    units: list[str | None]
    start: int
    """Row of the block from which its data stand."""
    is_headed: bool
    notes: list[str] = field(default_factory=list)


def layout_of(block: Block, *, named: bool | None) -> Layout:
    """The parts of a block.

    Args:
        named: Whether its first row names the columns, where its format says so.
    """
    above = _leading(block)
    titles = [*block.above, *(" ".join(cell for cell in row if cell) for row in block.rows[:above])]
    rows = block.rows[above:]
    levels = _levels(rows) if named is not False else 0
    if named and not levels and rows and not _is_row_of_data(rows[0]):
        levels = 1
    names = _joined_names(rows[:levels], block.width)
    units: list[str | None] = [None] * block.width
    for index, name in enumerate(names):
        found = _UNIT_BEHIND.fullmatch(name)
        if found is not None:
            names[index] = found[1]
            units[index] = next(filter(None, found.groups()[1:])).strip("()[]").removeprefix("in ")
    if levels > 1 and _is_unit_row(rows[levels - 1]):
        for index, cell in enumerate(rows[levels - 1]):
            units[index] = cell.strip("()[]").removeprefix("in ") or units[index]
    return Layout(titles, names, units, above + levels, levels > 0)


def _leading(block: Block) -> int:
    """How many rows stand above the header: titles, remarks, a few facts such as the date of the report."""
    widths = [fill(row) for row in block.rows]
    usual = max(set(widths), key=lambda width: (widths.count(width), width))
    if usual < 2:
        return 0
    for index, row in enumerate(block.rows[:-1]):
        below = block.rows[index + 1]
        few = widths[index] == 1 or widths[index] * 3 <= usual or (widths[index] <= 2 and usual >= 5)
        if not few or not row[0] or _is_upper_level(row, below):
            return index
    return 0


def _is_upper_level(row: Sequence[str], below: Sequence[str]) -> bool:
    """Whether a row with few cells is the upper level of a header: it names what the row below leaves open, or its
    cells stand apart, each over several names."""
    if fill(below) < 2:
        return False
    filled = [index for index, cell in enumerate(row) if cell]
    apart = len(filled) > 1 and any(b - a > 1 for a, b in pairwise(filled))
    return any(a and not b for a, b in zip(row, below, strict=True)) or (
        apart and all(below[index] for index in filled)
    )


def _levels(rows: Sequence[Sequence[str]]) -> int:
    """How many rows name the columns; 0 where the first is data."""
    if len(rows) < 2 or not rows[0]:
        return 0
    types = typed_columns(rows[min(len(rows) - 1, max(1, len(rows) // 3)) :])
    if not types:
        return int(_names_words(rows))
    levels = 0
    for index, row in enumerate(rows[: min(_MAX_LEVELS, len(rows) - 1)]):
        if index and not _has_another_level(rows[index - 1], row):
            break
        if not _is_label_row(row, types, rows[index + 1 :]):
            break
        levels = index + 1
    return levels


def _is_label_row(row: Sequence[str], types: set[int], below: Sequence[Sequence[str]]) -> bool:
    """Whether no typed column has a value in it, but for years that are names."""
    cells = [row[index] for index in types if row[index]]
    values = [cell for cell in cells if is_typed(cell)]
    if not values:
        return fill(row) > 0 and (bool(cells) or fill(row) > 1 or len(row) == 1)
    if not all(_YEAR.fullmatch(cell) for cell in values) or len(set(values)) < len(values):
        return False
    years = [index for index in types if row[index] in values]
    others = [line[index] for line in below[:20] for index in years if line[index]]
    return len(values) > 1 and not all(_YEAR.fullmatch(cell) for cell in others)


def _has_another_level(upper: Sequence[str], lower: Sequence[str]) -> bool:
    """Whether the row below a header row is one too: it names what that leaves open, or gives the units."""
    if _is_unit_row(lower):
        return True
    return any(below and not above for above, below in zip(upper, lower, strict=True))


def _is_unit_row(row: Sequence[str]) -> bool:
    cells = [cell for cell in row if cell]
    return bool(cells) and all(_UNIT.fullmatch(cell) for cell in cells)


def _names_words(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row of a table of words names its columns: short, each name once and in no row below."""
    names = [cell.strip().lower() for cell in rows[0] if cell]
    if len(names) < len(rows[0]) or len(set(names)) < len(names) or any(len(name) > 60 for name in names):
        return False
    return not any(
        name == cell.lower() for name, column in zip(names, zip(*rows[1:], strict=True), strict=True) for cell in column
    )


def _is_row_of_data(row: Sequence[str]) -> bool:
    return any(written(cell) is not None and not _YEAR.fullmatch(cell) for cell in row)


def _joined_names(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """One name a column; an upper level holds for the columns to its right that have none of their own."""
    levels: list[list[str]] = []
    for index, row in enumerate(rows):
        if index and _is_unit_row(row):
            continue
        spread = list(row)
        if index + 1 < len(rows):
            below = rows[index + 1]
            for column in range(1, width):
                if not spread[column] and spread[column - 1] and below[column] and _is_spread(row, below, column):
                    spread[column] = spread[column - 1]
        levels.append(spread)
    names = []
    for parts in zip_longest(*levels, fillvalue=""):
        kept = list(dict.fromkeys(" ".join(part.split()) for part in parts if part))
        names.append(" / ".join(kept)[:_MAX_NAME])
    names += [""] * (width - len(names))
    return ["" if _NUMBERED.fullmatch(name) else name for name in names]


def _is_spread(row: Sequence[str], below: Sequence[str], column: int) -> bool:
    """Whether a name reaches to `column`: the one that it begins at has a name below too, or it would be complete."""
    start = max(index for index in range(column) if row[index])
    return bool(below[start])
