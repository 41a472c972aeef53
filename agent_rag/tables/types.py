"""What the cells of a column are: the type of all, the value of each, and what could not be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .dates import Moment, Order, clock, moment, order_of
from .model import ColumnType, Value
from .numbers import Number, Style, Written, value_of, vote, written

_MISSING = re.compile(
    r"[-–—_.?/]{1,3}|n\.? ?/?a\.?|nan|null|nil|none|k\. ?a\.|keine angabe|unknown|unbekannt|#n/?a|#nv|missing|tbd", re.I
)
"""What stands in a typed column where a value is missing."""
_BOOLEANS = {"true": 1, "false": 0, "wahr": 1, "falsch": 0}
_LEAST_SHARE = 0.9
"""Of the cells that must be of a type, so that the others are faults in it and not a column of text."""
_SAMPLE_CELLS = 60
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?(?:[eE][-+]?\d{1,3})?")
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}\.\d{3}")
_MAX_PLAIN = 17
_INFINITE = float("inf")
_MAX_INTEGER = 10**18
_EXAMPLES = 3
_EXAMPLE_CHARACTERS = 40


@dataclass
class Typed:
    """A column's cells."""

    type: ColumnType
    values: list[Value]
    unit: str | None = None
    unread: list[int] = field(default_factory=list)
    """Positions of the cells that are not of the type."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hints:
    """What the rest of the table says about its numbers and dates."""

    style: Style | None = None
    order: Order | None = None
    computed: bool = False
    """The numbers were written by a program, with a decimal point and no groups."""
    by_hand: bool = False
    """They were typed as text into a sheet: 1.234 is rather a thousand than three decimals."""


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return not text or _MISSING.fullmatch(text) is not None


def is_typed(text: str) -> bool:
    """Whether a cell is a number, a date, a time or a truth value."""
    return written(text) is not None or text.lower() in _BOOLEANS or moment(text) is not None or clock(text) is not None


def hints_of(columns: Sequence[Sequence[str]]) -> Hints:
    """What all columns of a table say together, for those whose own cells say nothing."""
    numbers: list[Written] = []
    dates: list[Moment] = []
    for text in (text for column in columns for text in column if text):
        if (number := written(text)) is not None:
            numbers.append(number)
        elif (found := moment(text)) is not None:
            dates.append(found)
    return Hints(vote(numbers), order_of(dates))


def typed(texts: Sequence[str], hints: Hints) -> Typed:
    """A column of texts as values of one type.

    Args:
        texts: The cells; "" where there is none.
        hints: What to go by where the column says nothing itself.
    """
    filled = [text for text in texts if not is_missing(text)]
    if not filled:
        return _as_text(texts)
    if (column := _plain_numbers(texts, filled, hints)) is not None:
        return column
    sample = filled[:: max(1, len(filled) // _SAMPLE_CELLS)]
    if sum(map(is_typed, sample)) * 2 < len(sample):
        return _as_text(texts)
    for reader in (_numbers, _truths, _dates, _times):
        found = reader(texts, filled, hints)
        if found is not None:
            return found
    return _as_text(texts)


def _as_text(texts: Sequence[str]) -> Typed:
    return Typed("text", [text or None for text in texts])


def _enough(count: int, total: int) -> bool:
    return count == total or (count >= 3 and count >= _LEAST_SHARE * total)


def _plain_numbers(texts: Sequence[str], filled: Sequence[str], hints: Hints) -> Typed | None:
    """Numbers as programs write them, which are most: none of the questions below arises, at a fifth of the time."""
    points = 0
    for text in filled:
        found = _PLAIN.fullmatch(text)
        if found is None or len(text) > _MAX_PLAIN:
            return None
        points += found[1] is not None
    if points and not hints.computed and all(_THOUSANDS.fullmatch(text) for text in filled if "." in text):
        return None
    values: list[Value]
    if points or any("e" in text or "E" in text for text in filled):
        values = [None if is_missing(text) else float(text) for text in texts]
        return Typed("number", values) if all(value is None or abs(value) < _INFINITE for value in values) else None  # type: ignore[arg-type]
    values = [None if is_missing(text) else int(text) for text in texts]
    return Typed("integer", values)


def _numbers(texts: Sequence[str], filled: Sequence[str], hints: Hints) -> Typed | None:
    parts: list[Written | None] = [written(text) for text in texts]
    numbers = [part for part in parts if part is not None]
    if not _enough(len(numbers), len(filled)) or any(
        part is None and text.isdecimal() for part, text in zip(parts, texts, strict=True)
    ):
        return None
    units = Counter(part.unit for part in numbers if part.unit is not None)
    if len(units) > 1 or (units and not _enough(units.total(), len(numbers))):
        return _as_text_with(texts, f"text, since its numbers have several units ({_listed(units)})") if units else None
    style = vote(numbers) or ("point" if hints.computed else hints.style)
    note = ""
    if (
        style is None
        and hints.by_hand
        and (mark := next((sign for n in numbers for sign in n.digits if sign in ".,"), ""))
    ):
        style = "comma" if mark == "." else "point"
        note = f"{mark!r} is taken for a separator of thousands, since all its numbers have three digits behind it"
    style = style or "point"
    read: list[Number | None] = [None if part is None else value_of(part, style) for part in parts]
    if not _enough(sum(number is not None for number in read), len(filled)):
        return None
    values: list[Value] = [None if number is None else number.value for number in read]
    whole = all(isinstance(value, int) for value in values if value is not None)
    if any(isinstance(value, int) and abs(value) > _MAX_INTEGER for value in values):
        if whole:
            return _as_text_with(texts, "text, since its numbers have more than 18 digits")
        values = [None if value is None else float(value) for value in values]
    column = Typed("integer" if whole else "number", values, next(iter(units), None), notes=[note] if note else [])
    return _with_unread(column, texts, "number")


def _truths(texts: Sequence[str], filled: Sequence[str], hints: Hints) -> Typed | None:
    values: list[Value] = [_BOOLEANS.get(text.lower()) for text in texts]
    if not _enough(sum(value is not None for value in values), len(filled)):
        return None
    return _with_unread(Typed("boolean", values), texts, "truth value")


def _dates(texts: Sequence[str], filled: Sequence[str], hints: Hints) -> Typed | None:
    if not any(map(str.isdecimal, filled[0])) and not any(map(str.isdecimal, filled[-1])):
        return None
    found: list[Moment | None] = [moment(text) for text in texts]
    dates = [one for one in found if one is not None]
    if not dates or not _enough(len(dates), len(filled)):
        return None
    own = order_of(dates)
    order = own or hints.order or ("day" if hints.style == "comma" else "month")
    with_time = any(one.time is not None for one in dates)
    values: list[Value] = [None if one is None else _date_text(one, order, with_time) for one in found]
    column = Typed("datetime" if with_time else "date", values)
    if own is None and any(one.swapped for one in dates):
        column.notes.append(f"day and month are not told apart by the data; read with the {order} first")
    return _with_unread(column, texts, "date")


def _date_text(one: Moment, order: Order, with_time: bool) -> str:
    day = one.swapped if order == "month" and one.swapped is not None else one.date
    if not with_time:
        return day.isoformat()
    return f"{day.isoformat()} {one.time.isoformat() if one.time is not None else '00:00:00'}"


def _times(texts: Sequence[str], filled: Sequence[str], hints: Hints) -> Typed | None:
    found = [clock(text) for text in texts]
    if not _enough(sum(one is not None for one in found), len(filled)):
        return None
    values: list[Value] = [None if one is None else one.isoformat() for one in found]
    return _with_unread(Typed("time", values), texts, "time")


def _as_text_with(texts: Sequence[str], note: str) -> Typed:
    column = _as_text(texts)
    column.notes.append(note)
    return column


def _with_unread(column: Typed, texts: Sequence[str], kind: str) -> Typed:
    column.unread = [
        index
        for index, (value, text) in enumerate(zip(column.values, texts, strict=True))
        if value is None and not is_missing(text)
    ]
    if column.unread:
        shown = _listed(dict.fromkeys(texts[index][:_EXAMPLE_CHARACTERS] for index in column.unread))
        column.notes.append(f"{len(column.unread)} cells are no {kind} and are NULL ({shown})")
    return column


def _listed(texts: Counter[str] | dict[str, None]) -> str:
    shown = [repr(text) for text in list(texts)[:_EXAMPLES]]
    return ", ".join([*shown, "..."] if len(texts) > _EXAMPLES else shown)
