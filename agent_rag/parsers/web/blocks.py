"""Blocks of Markdown as they come out of an HTML page."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from .inline import escaped_lines

_BATCH = 8_192
_LONG = 1_000_000
_BLANK = re.compile(r"\s")


class Scope:
    """Blocks of Markdown in the making: of the page, or of a list item, a table cell, a link, a heading.

    Many short texts take ten times their size, so they are joined by the thousand.
    """

    __slots__ = (
        "_joined",
        "aside",
        "blocks",
        "has_link",
        "headings",
        "inline",
        "is_inline",
        "is_layout",
        "separator",
        "structured",
    )

    def __init__(self, separator: str = "\n", *, is_inline: bool = False) -> None:
        self.separator = separator
        """What will stand between the blocks."""
        self.is_inline = is_inline
        """Becomes a part of a line."""
        self.blocks: list[str] = []
        self.headings: list[Mark] = []
        self.inline: list[str] = []
        self.structured = False
        """Holds a list, a table, a heading or code."""
        self.is_layout = False
        """Holds a table or a heading, which have no place in a table cell."""
        self.has_link = False
        self.aside = ""
        """Text of a button in a heading."""
        self._joined = 0

    def write(self, text: str) -> None:
        """Add to the running paragraph."""
        self.inline.append(text)
        if len(self.inline) > _BATCH:
            self.inline[:] = ["".join(self.inline)]

    def flush(self) -> None:
        """End the running paragraph."""
        if len(self.inline) == 1 and "\n" not in self.inline[0]:
            if text := squeezed(self.inline.pop()):
                self._append(text if self.is_inline else escaped_lines(text))
        elif self.inline:
            lines = [squeezed(line) for line in "".join(self.inline).split("\n")]
            self.inline.clear()
            if text := "\n".join(lines).strip():
                self._append(text if self.is_inline else escaped_lines(text))

    def add(self, block: str) -> None:
        self.flush()
        self._append(block)
        self.structured = True

    def adopt(self, other: Scope) -> None:
        self.flush()
        count = len(self.blocks)
        self.headings += [mark._replace(block=mark.block + count) for mark in other.headings]
        self.blocks += other.blocks
        self._joined = len(self.blocks)
        self.structured |= other.structured
        self.is_layout |= other.is_layout

    def before(self) -> str:
        """The end of the running paragraph."""
        return "".join(self.inline[-8:])

    def text(self) -> str:
        return self.separator.join(self.blocks)

    def _append(self, block: str) -> None:
        self.blocks.append(block)
        if len(self.blocks) - self._joined > _BATCH:
            self._join()

    def _join(self) -> None:
        """Make the latest blocks one; headings among them keep their place by an offset in it."""
        first = self._joined
        starts = list(accumulate((len(block) + len(self.separator) for block in self.blocks[first:]), initial=0))
        index = len(self.headings)
        while index and self.headings[index - 1].block >= first:
            index -= 1
            mark = self.headings[index]
            self.headings[index] = mark._replace(block=first, offset=starts[mark.block - first] + mark.offset)
        self.blocks[first:] = [self.separator.join(self.blocks[first:])]
        self._joined = first + 1


class Mark(NamedTuple):
    """A heading in a scope."""

    block: int
    """Index of its block."""
    offset: int
    """Of its first character in the block."""
    level: int
    title: str


def squeezed(text: str) -> str:
    """`text` with each run of white space as one space, and none at the ends."""
    if len(text) < _LONG:
        return " ".join(text.split())
    pieces: list[str] = []
    start = 0
    while start < len(text):  # word by word a long text takes many times its size
        blank = _BLANK.search(text, start + _LONG)
        end = blank.end() if blank else len(text)
        pieces.append(" ".join(text[start:end].split()))
        start = end
    return " ".join(piece for piece in pieces if piece)
