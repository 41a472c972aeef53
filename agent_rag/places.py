"""Where in its file a part of a Section's text stands: what a citation names beside page, slide or sheet."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

__all__ = [
    "PLACE_FIELDS",
    "RANGE_FIELDS",
    "CueTimes",
    "LineNumbers",
    "Locator",
    "Places",
    "location_of",
    "place_text",
]


RANGE_FIELDS = ("rows", "records", "items", "lines", "time", "speaker")
"""Metadata fields that differ between neighbouring chunks of one place."""
PLACE_FIELDS = ("page", "pages", "slide", "sheet", "chapter", "row", "key_path", *RANGE_FIELDS)
"""Metadata fields that say where in a file a chunk is, in the order they are shown."""


class LineNumbers(BaseModel):
    """Each line of the text is a line, row or record of the file; their numbers are looked up by line."""

    kind: Literal["lines"] = "lines"
    unit: Literal["lines", "rows", "records"] = "lines"
    """What the numbers count, and the metadata field of a chunk that holds ``[first, last]``."""
    runs: list[tuple[int, int]]
    """(line of the text from 0, its number in the file from 1): the number grows by one a line until the next run. The
    number 0 is for lines that have none; so have those before the first run."""

    @classmethod
    def of(cls, numbers: list[int], *, first_line: int = 0, unit: Literal["lines", "rows", "records"]) -> LineNumbers:
        """For lines with these numbers from line `first_line` on, and lines without any behind them."""
        runs: list[tuple[int, int]] = []
        for index, number in enumerate(numbers):
            if not index or not numbers[index - 1] or number != numbers[index - 1] + 1:
                runs.append((first_line + index, number))
        return cls(unit=unit, runs=[*runs, (first_line + len(numbers), 0)])

    def between(self, first_line: int, last_line: int) -> dict[str, Any]:
        """``{"rows": [308, 312]}``: numbers of the first and the last line that have one; None if none has."""
        numbers: list[int] = []
        index = max(0, bisect_right(self.runs, (first_line, 1 << 60)) - 1)
        for line, number in self.runs[index:]:
            if line > last_line:
                break
            following = self.runs[index + 1][0] if index + 1 < len(self.runs) else last_line + 1
            index += 1
            begin, end = max(line, first_line), min(following - 1, last_line)
            if number and begin <= end:
                numbers += [number + begin - line, number + end - line]
        return {self.unit: [numbers[0], numbers[-1]] if numbers else None}


class CueTimes(BaseModel):
    """The text is what was said; each cue of a transcript has a speaker and a time."""

    kind: Literal["cues"] = "cues"
    cues: list[tuple[int, str, str, str]]
    """(line of the text from 0, speaker or "", begin, end), times as ``00:01:02``, by line."""

    def between(self, first_line: int, last_line: int) -> dict[str, Any]:
        """``{"time": "00:01:02-00:01:40", "speaker": "Ada, Bo"}``."""
        first = max(0, bisect_right(self.cues, (first_line, "\U0010ffff")) - 1)
        inside = list(self.cues[first : bisect_right(self.cues, (last_line, "\U0010ffff"))])
        if not inside:
            return {"time": None, "speaker": None}
        speakers = list(dict.fromkeys(speaker for _, speaker, _, _ in inside if speaker))
        return {"time": f"{inside[0][2]}-{inside[-1][3]}", "speaker": ", ".join(speakers) or None}


Places = Annotated[LineNumbers | CueTimes, Field(discriminator="kind")]
"""How a Section's lines find their place in the file."""


class Locator:
    """The places of many spans of one text; quick where they come in order."""

    def __init__(self, places: LineNumbers | CueTimes, text: str) -> None:
        self._places = places
        self._text = text
        self._offset = self._line = 0
        self._last = (0, 0), (0, 0)
        """The span before, and its first and last line: a row that is cut into columns is one span many times."""

    def between(self, start: int, end: int) -> dict[str, Any]:
        """Metadata for ``text[start:end]``, without the white space around it."""
        span, lines = self._last
        if span != (start, end):
            shown = self._text[start:end]
            first = self._line_of(start + len(shown) - len(shown.lstrip()))
            lines = first, max(first, self._line_of(start + len(shown.rstrip())))
            self._last = (start, end), lines
        return self._places.between(*lines)

    def _line_of(self, offset: int) -> int:
        if offset >= self._offset:
            self._line += self._text.count("\n", self._offset, offset)
        else:
            self._line -= self._text.count("\n", offset, self._offset)
        self._offset = offset
        return self._line


def location_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a chunk's metadata say about its place in the file, in the order it is shown."""
    return {name: metadata[name] for name in PLACE_FIELDS if metadata.get(name) not in (None, "", [])}


def place_text(value: Any) -> str:
    """``4``, ``10-17`` for a range, ``a > b`` for a path."""
    if isinstance(value, list | tuple):
        numbers = len(value) == 2 and all(isinstance(item, int) for item in value)
        return ("-" if numbers else " > ").join(map(str, value))
    return str(value)
