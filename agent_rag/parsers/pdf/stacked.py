"""Single characters one below another, which pdfium takes for a word: a column of scores 5, 4, 3 for 543."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from .layout import Box

_TOKEN = re.compile(r"\S{2,}")
_WRITTEN_DOWNWARDS = re.compile("[\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff\ufe10-\ufe4f\uff00-\uffef]")
"""Chinese, Japanese and Korean: their characters do make lines that go down."""
_LINE_GAP = 0.6
"""Between two lines at least, in the height of a character; a subscript stands nearer to its superscript."""
_NARROW = 1.5
"""Width of a single character at most, in its height."""


def may_be_stacked(boxes: Sequence[Box]) -> bool:
    """A first look: whether a piece of text as wide as a character stands right below another or above it."""
    return any(
        b[3] <= a[1] and b[0] < a[2] and b[2] > a[0] and min(a[2] - a[0], b[2] - b[0]) <= _NARROW * (a[3] - a[1])
        for a, b in pairwise(boxes)
    )


def unstacked(text: str, char_box: Callable[[int], Box | None], is_upright: Callable[[int], bool]) -> str:
    """The text with a line end where it goes on below or above the character before it. Turned words stay whole.

    Args:
        text: One character for each that the others know by its index.
        is_upright: Whether a character stands on a level line.
    """
    result: list[str] = []
    position = 0
    for token in _TOKEN.finditer(text):
        first, last = char_box(token.start()), char_box(token.end() - 1)
        if not (first and last and _turns(first, last)) or _WRITTEN_DOWNWARDS.search(token[0]):
            continue
        boxes = [char_box(index) for index in range(*token.span())]
        for index, (a, b) in enumerate(pairwise(boxes), start=token.start()):
            if not (a and b and _turns(a, b) and text[index].isalnum() and text[index + 1].isalnum()):
                continue
            if is_upright(index) and is_upright(index + 1):
                result += [text[position : index + 1], "\n"]
                position = index + 1
    return "".join([*result, text[position:]])


def _turns(a: Box, b: Box) -> bool:
    """Whether the line that holds `a` cannot hold `b` behind it, not even as its subscript or its accent."""
    gap = _LINE_GAP * max(a.top - a.bottom, b.top - b.bottom)
    return (a.bottom - b.top >= gap or b.bottom - a.top >= gap) and b.left < a.right
