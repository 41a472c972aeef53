"""The headings of one text, in little memory and in bounded number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .._util.markup import most_headings
from ..documents import Heading

_LINES = 64 * 1024


class Headings:
    """Collects headings in the order of their offsets.

    When there are more than `most_headings`, those of the lowest rank are left out, all of them, so that the path above
    a place is shorter there but never that of another place.
    """

    def __init__(self) -> None:
        self.found: list[Heading] = []
        self.lowest = 10**9
        """Headings of a rank below this level are left out."""

    def add(self, level: int, title: str, offset: int) -> None:
        if level > self.lowest:
            return
        self.found.append(heading(level, title, offset))
        if len(self.found) > most_headings(offset):
            self.lowest = max(item.level for item in self.found) - 1
            self.found = [item for item in self.found if item.level <= self.lowest]


def matches_in_lines(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """``pattern.finditer(text)`` for a pattern that stays in a line, 64 kB at a time: where nothing is found, one call
    holds the interpreter for the whole text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _LINES) + 1 or len(text)
        yield from pattern.finditer(text, start, end)
        start = end


def heading(level: int, title: str, offset: int) -> Heading:
    """A Heading of checked values: a third faster, and 40 % smaller, than one that pydantic makes."""
    made = _new(Heading)
    _set(made, "__dict__", {"level": level, "title": title, "offset": offset})
    _set(made, "__pydantic_fields_set__", _FIELDS)
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


_new = object.__new__
_set = object.__setattr__
_FIELDS = set(Heading.model_fields)
