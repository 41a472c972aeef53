"""How the value of a spreadsheet cell reads as text."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from functools import lru_cache
from typing import Literal

DateKind = Literal["date", "duration"]

_WHOLE = re.compile(r"[+-]?\d+")
_EAST_ASIAN_DATES = frozenset([*range(27, 37), *range(50, 59)])
"""Built-in formats that are dates in Chinese, Japanese and Korean Excel (ECMA-376 part 1, 18.8.30)."""
_MAX_PLAIN_EXPONENT = 25


class DateFormats:
    """Which number formats of a workbook show dates or durations."""

    def __init__(self) -> None:
        self._kinds: dict[int, DateKind | None] = {}
        self._custom: dict[int, str] = {}

    def add(self, number_format_id: int, code: str) -> None:
        """A custom format of the workbook."""
        self._custom[number_format_id] = code

    def kind(self, number_format_id: int) -> DateKind | None:
        """What a number in this format is; None: a number."""
        if number_format_id not in self._kinds:
            self._kinds[number_format_id] = self._look_up(number_format_id)
        return self._kinds[number_format_id]

    def _look_up(self, number_format_id: int) -> DateKind | None:
        from openpyxl.styles.numbers import BUILTIN_FORMATS

        code = self._custom.get(number_format_id) or BUILTIN_FORMATS.get(number_format_id)
        if code is None:
            return "date" if number_format_id in _EAST_ASIAN_DATES else None
        return self.kind_of(code)

    @staticmethod
    def kind_of(code: str) -> DateKind | None:
        """What a format code shows."""
        if not code or code in ("General", "0", "0.00", "@", "0%"):
            return None
        from openpyxl.styles.numbers import is_date_format, is_timedelta_format

        if is_timedelta_format(code):
            return "duration"
        return "date" if is_date_format(code) else None


def number_text(raw: str) -> str:
    """A stored number in its shortest exact form, whole ones without ".0"; text that is no number as it stands.

    >>> number_text("13.0"), number_text("1.1000000000000001"), number_text("1.234567890123456E+15")
    ('13', '1.1', '1234567890123456')
    """
    try:
        value = float(raw)
    except ValueError:
        return raw
    if not value.is_integer():
        return repr(value)
    if _WHOLE.fullmatch(raw) or not value:
        return raw if value else "0"
    whole = Decimal(repr(value))
    return f"{whole:.0f}" if whole.adjusted() < _MAX_PLAIN_EXPONENT else repr(value)


def moment_text(value: dt.date | dt.time | dt.timedelta) -> str:
    """A date, time or duration: ``2024-03-05``, ``2024-03-05 14:30:00``, ``14:30:00``, ``26:30:00``."""
    if isinstance(value, dt.timedelta):
        return _duration_text(value)
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ")
    return value.isoformat()


@lru_cache(maxsize=4096)
def date_text(raw: str, kind: DateKind, epoch_1904: bool = False) -> str:
    """A stored number as the date or duration that it stands for; as a number where there is no such date."""
    from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

    epoch = CALENDAR_MAC_1904 if epoch_1904 else CALENDAR_WINDOWS_1900
    try:
        return moment_text(from_excel(float(raw), epoch, timedelta=kind == "duration"))
    except (ValueError, OverflowError, TypeError):
        return number_text(raw)


def _duration_text(value: dt.timedelta) -> str:
    seconds = round(value.total_seconds())
    hours, rest = divmod(abs(seconds), 3600)
    return f"{'-' if seconds < 0 else ''}{hours}:{rest // 60:02d}:{rest % 60:02d}"
