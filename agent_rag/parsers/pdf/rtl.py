"""Right-to-left text: what an engine that turns runs letter by letter gets wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

from .layout import Box

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff]")
_SWAPPED_LAM_ALEF = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
_MARKS = "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670"
_LETTERS = "\u05d0-\u05ea\u0620-\u063f\u0641-\u064a\u0671-\u06d3"
_MARK_BEFORE_LETTER = re.compile(f"[ \xa0]?([{_MARKS}]+)([{_LETTERS}])")
_BORDER = re.compile(f"(?<=[{_LETTERS}{_MARKS}])(?=[A-Za-z\u00c0-\u024f])|(?<=[A-Za-z\u00c0-\u024f])(?=[{_LETTERS}])")
_NOTHING = "\0"
"""Taken out by `clean`; keeps the other letters at their index."""


def is_right_to_left(text: str) -> bool:
    """Whether some of it is Arabic, Hebrew or a neighbour of theirs."""
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None


def in_reading_order(text: str, char_box: Callable[[int], Box | None]) -> str:
    """Text of the same length with lam before its alef and marks behind their letter.

    The two letters of one lam-alef glyph have the same place, and a mark stands over its own letter.

    Args: char_box: Of the character at an index of `text`.
    """
    letters = list(text)
    for match in _SWAPPED_LAM_ALEF.finditer(text):
        first = match.start()
        if char_box(first) == char_box(first + 1):
            letters[first], letters[first + 1] = letters[first + 1], letters[first]
    for match in _MARK_BEFORE_LETTER.finditer(text):
        first, last = match.start(1), match.start(2)
        own, other = char_box(last), char_box(match.start() - 1) if match.start() else None
        if any(not _is_over(char_box(i), own) or _is_over(char_box(i), other) for i in range(first, last)):
            continue
        letters[first : last + 1] = letters[first : last + 1][::-1]
        if first > match.start() and _is_over(char_box(match.start()), own):
            letters[match.start()] = _NOTHING
    return "".join(letters)


def with_spaced_scripts(text: str) -> str:
    """A space where a right-to-left word touches a Latin one: the engine has put it on the other side, if anywhere."""
    return _BORDER.sub(" ", text)


def _is_over(mark: Box | None, letter: Box | None) -> bool:
    return mark is not None and letter is not None and letter.left <= (mark.left + mark.right) / 2 <= letter.right
