"""Dates and times as people write them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Order = Literal["day", "month"]
"""What stands first in 03/04/2024."""

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jän jänner janvier enero gennaio", "february feb februar fév février febrero febbraio",
            "march mar märz mrz mär mars marzo", "april apr avril abril aprile", "may mai mayo maggio",
            "june jun juni juin junio giugno", "july jul juli juillet julio luglio",
            "august aug août agosto", "september sep sept septembre septiembre settembre",
            "october oct oktober okt octobre octubre ottobre", "november nov novembre noviembre",
            "december dec dezember dez décembre diciembre dicembre",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_TIME = r"(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d{1,9})?)?\s*([AaPp]\.?[Mm]\.?)?\s*(?:Uhr|Z|UTC|[+-]\d\d:?\d\d)?"
_REST = rf"(?:(?:T|,?\s+){_TIME})?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_REST}")
_YEAR_LAST = re.compile(rf"(?:[A-Za-z]{{2,9}}\.?,?\s+)?(\d{{1,2}})([-/.])\s?(\d{{1,2}})\2\s?(\d{{4}}|\d\d){_REST}")
_DAY_NAMED = re.compile(
    rf"(?:[A-Za-z]{{2,9}}\.?,?\s+)?(\d{{1,2}})(?:\.|st|nd|rd|th)?[\s-]+([^\W\d_]{{3,10}})\.?,?[\s-]+(\d{{4}}|\d\d){_REST}"
)
_MONTH_NAMED = re.compile(
    rf"(?:[A-Za-z]{{2,9}}\.?,?\s+)?([^\W\d_]{{3,10}})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}}){_REST}"
)
_ONLY_TIME = re.compile(_TIME)


class Moment(NamedTuple):
    """A date with or without a time; the order of day and month is open where `swapped` is set."""

    date: dt.date
    time: dt.time | None
    swapped: dt.date | None = None
    """The date with the month first, where `date` has the day first and both exist."""
    shown: Order | None = None
    """The order that it shows by a number over 12."""


def moment(text: str) -> Moment | None:
    """The date that a text is; None for other texts."""
    if not 6 <= len(text) <= 48 or not any(map(str.isdecimal, text)):
        return None
    return next(filter(None, _readings(text)), None)


def _readings(text: str) -> Iterator[Moment | None]:
    if found := _YEAR_FIRST.fullmatch(text):
        yield _made(found[1], found[3], found[4], found.groups()[4:])
    elif found := _YEAR_LAST.fullmatch(text):
        yield _with_order(found)
    elif found := _DAY_NAMED.fullmatch(text):
        yield _made(found[3], _MONTHS.get(found[2].lower()), found[1], found.groups()[3:])
    elif found := _MONTH_NAMED.fullmatch(text):
        yield _made(found[3], _MONTHS.get(found[1].lower()), found[2], found.groups()[3:])


def _with_order(found: re.Match[str]) -> Moment | None:
    first, mark, second, year, *time = found.groups()
    by_day = _made(year, second, first, time)
    by_month = _made(year, first, second, time)
    if by_day is None or mark == ".":
        return by_day if mark == "." else by_month and by_month._replace(shown="month")
    if by_month is None:
        return by_day._replace(shown="day")
    return by_day._replace(swapped=by_month.date) if first != second else by_day


def _made(year: str, month: str | int | None, day: str, time: Iterable[str | None]) -> Moment | None:
    if month is None:
        return None
    number = int(year)
    if len(year) == 2:
        number += 2000 if number < 70 else 1900
    try:
        return Moment(dt.date(number, int(month), int(day)), _clock(*time))
    except ValueError:
        return None


def _clock(hour: str | None, minute: str | None, second: str | None, half: str | None) -> dt.time | None:
    if hour is None or minute is None:
        return None
    number = int(hour)
    if half:
        number = number % 12 + (12 if half[0] in "pP" else 0)
    return dt.time(number, int(minute), int(second or 0))


def clock(text: str) -> dt.time | None:
    """The time of day that a text is; None for other texts, durations of a day and more among them."""
    found = _ONLY_TIME.fullmatch(text) if 4 <= len(text) <= 20 else None
    if found is None:
        return None
    try:
        return _clock(*found.groups())
    except ValueError:
        return None


def order_of(moments: Iterable[Moment]) -> Order | None:
    """The order of day and month that dates show; None where none does, or they differ."""
    shown = {moment.shown for moment in moments if moment.shown is not None}
    return shown.pop() if len(shown) == 1 else None
