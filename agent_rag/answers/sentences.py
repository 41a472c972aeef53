"""An answer as its sentences, each with the citation numbers that belong to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MARKER = re.compile(r"[\[【]\^?(\d{1,3}(?:\s*[,;、–-]\s*\^?\d{1,3})*)[\]】]")
"""``[3]``, ``[1, 3]``, ``[1-3]``, ``【3】``. A year such as [2024] is none."""

_END = re.compile(r"[.!?…]+[\"'”’»)\]*_]*(?=\s)|[。！？；]+[”’」』）]*")
_NEXT = re.compile(r"\s*(\S+)")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[^\W\d_]|[A-Z][a-z]?|Dr|St|Mr|Mrs|Ms|Prof|Jr|Sr|vs|No|Nr|Inc|Ltd|Co|ca|approx|etc|bzw|usw|vgl|ggf|inkl|"
    r"z\.\s?B|d\.\s?h|u\.\s?a|e\.g|i\.e|U\.S|Abs|Art|Fig|Abb|Tel|Str|Bd|S|p|pp)\.$"
)
_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.$")
_LINE = re.compile(r"[^\n]+")
_FENCED_CODE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_STARTS = "The A An It He She They This That These In On At For But And However Der Die Das Es Er Sie"


@dataclass(frozen=True)
class Piece:
    """A sentence of an answer, as it stands there."""

    text: str
    start: int
    end: int
    numbers: tuple[int, ...] = ()
    """Of the markers in it and right behind it; else of the next marker in the same line."""


def pieces(answer: str) -> Iterator[Piece]:
    """The sentences of an answer in Markdown, line by line; blocks of code are none."""
    code = [match.span() for match in _FENCED_CODE.finditer(answer)]
    for line in _LINE.finditer(answer):
        if not any(start <= line.start() < end for start, end in code):
            yield from _of_line(line[0], line.start())


def split(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences of `text`; a line end ends one too."""
    spans = []
    for line in _LINE.finditer(text):
        spans += [(start + line.start(), end + line.start()) for start, end in _spans(line[0])]
    return spans


def numbers_in(text: str) -> list[int]:
    """The numbers of all markers in `text`, in order, each once; ``[2-4]`` is three."""
    found: dict[int, None] = {}
    for marker in MARKER.findall(text):
        for part in re.split(r"\s*[,;、]\s*", marker):
            first, _, last = part.replace("^", "").replace("–", "-").partition("-")
            low, high = int(first), int(last or first)
            found.update(dict.fromkeys(range(low, high + 1) if low <= high < low + 50 else (low, high)))
    return list(found)


def _of_line(line: str, offset: int) -> Iterator[Piece]:
    spans: list[tuple[int, int]] = []
    for start, end in _spans(line):
        if spans and not MARKER.sub("", line[start:end]).strip(" .,;:。"):
            spans[-1] = (spans[-1][0], end)  # a marker behind the full stop
        elif spans and (leading := re.match(rf"(?:\s*{MARKER.pattern})+", line[start:end])):
            spans[-1] = (spans[-1][0], start + leading.end())
            spans.append((start + leading.end(), end))
        else:
            spans.append((start, end))
    numbers: tuple[int, ...] = ()
    found = []
    for start, end in reversed(spans):
        own = tuple(numbers_in(line[start:end]))
        numbers = own or numbers
        found.append(Piece(line[start:end].strip(), offset + start, offset + end, numbers))
    yield from reversed(found)


def _spans(line: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _END.finditer(line):
        if not _goes_on(line, start, match):
            yield start, match.end()
            start = match.end()
    if line[start:].strip():
        yield start, len(line)


def _goes_on(line: str, start: int, match: re.Match[str]) -> bool:
    """Whether the full stop is one of an abbreviation, a date, or a number of a list."""
    if match[0][0] != ".":
        return False
    before = line[start : match.start() + 1]
    following = _NEXT.match(line, match.end())
    word = following[1] if following else ""
    if _ABBREVIATION.search(before) or (word[:1].islower() and word[:1].isalpha()):
        return True
    return bool(_ORDINAL.search(before)) and word not in _STARTS.split()
