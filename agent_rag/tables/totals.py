"""Rows that sum up others: no data, for whoever sums again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from .model import Value

_LABEL = re.compile(
    r"(?:(?:grand|sub|overall|zwischen|gesamt|end)[ -]?)?(?:totals?|sum|summe|gesamt|insgesamt|gesamtsumme|ergebnis|"
    r"total général|totale|average|mean|mittelwert|durchschnitt|ø|Σ|合计|总计|合計|小计)\b.{0,30}",
    re.I,
)
_LABEL_BEHIND = re.compile(r".{1,40}\b(?:total|sum|summe|subtotal|gesamt|ergebnis)\s*:?", re.I)
_MAX_CANDIDATES = 200
"""With more, the words are those of the data."""
_CLOSE = 0.006
"""Totals are rounded to what is shown."""


def total_rows(rows: Sequence[Sequence[Value]], numeric: Sequence[int], texts: Sequence[int]) -> list[int]:
    """Positions of the rows that are totals.

    A row is one when its label says so and it is a sum or a mean of rows above, or the last row; or when it is the last
    row, has no label, and is the sum of all.

    Args:
        rows: Values by column.
        numeric, texts: Columns of numbers and of texts.
    """
    found: list[int] = []
    start = 0
    candidates = list(islice(_candidates(rows, numeric, texts), _MAX_CANDIDATES + 1)) if numeric else []
    for index, label in candidates if len(candidates) <= _MAX_CANDIDATES else ():
        row = rows[index]
        is_last = index == len(rows) - 1
        data = [at for at in range(index) if at not in found]
        recent = [at for at in data if at >= start]
        sums = any(_sums_up(rows, row, numeric, part, label) for part in (recent, data) if part)
        if sums or (label is not None and is_last and _LABEL.fullmatch(label.strip())):
            found.append(index)
            start = index + 1
    return found


def _candidates(
    rows: Sequence[Sequence[Value]], numeric: Sequence[int], texts: Sequence[int]
) -> Iterator[tuple[int, str | None]]:
    """(position, label) of the rows that say that they are totals, and of the last row where it says nothing."""
    for index, row in enumerate(rows):
        label = next((str(row[column]) for column in texts if row[column] is not None), None)
        if label is None:
            named = 1 < index == len(rows) - 1
        else:
            named = bool(_LABEL.fullmatch(label.strip()) or _LABEL_BEHIND.fullmatch(label.strip()))
        if named and any(row[column] is not None for column in numeric):
            yield index, label


def _sums_up(
    rows: Sequence[Sequence[Value]],
    row: Sequence[Value],
    numeric: Sequence[int],
    part: Sequence[int],
    label: str | None,
) -> bool:
    """Whether the numbers of `row` are the sums of those of `part`, or their means where it has a label."""
    agree = checked = 0
    for column in numeric:
        value = row[column]
        above = [number for at in part if isinstance(number := rows[at][column], int | float)]
        if not isinstance(value, int | float) or not above:
            continue
        checked += 1
        total = math.fsum(above)
        wanted = [total] if label is None else [total, total / len(above)]
        agree += any(abs(value - one) <= _CLOSE * max(1.0, abs(one)) for one in wanted)
    if label is None:
        return checked > 0 and agree == checked and len(part) > 1
    return agree > 0
