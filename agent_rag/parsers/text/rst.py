"""reStructuredText: one Section with its headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from ...documents import Heading, Section
from ..headings import Headings
from .plain import DecodingParser, as_written

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1+\s*$")


class RSTParser(DecodingParser):
    """The text as it stands, one Section with metadata ``{"format": "rst"}`` and headings with their offsets.

    As in docutils, a heading's rank is the order in which its style of underline first appears.
    """

    format_name = "reStructuredText"
    supported_media_types: ClassVar[list[str]] = ["text/x-rst", "text/prs.fallenstein.rst"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".rest", ".rst"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        return as_written(text, filename, rst_headings(text), format="rst")


def rst_headings(text: str) -> list[Heading]:
    """Titles with an underline at least as long as they are, with or without an overline, by offset."""
    styles: list[str] = []
    headings = Headings()
    before, start, over, title = 0, 0, "", ""
    for offset, line in _lines(text):
        under = line.rstrip()
        if _is_title(title, under, over):
            overlined = over == under
            style = under[0] * 2 if overlined else under[0]
            if style not in styles:
                styles.append(style)
            headings.add(styles.index(style) + 1, title.strip(), before if overlined else start)
        before, start, over, title = start, offset, title.rstrip(), line
    return headings.found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its offset, one at a time: a list of the lines of a dense file is ten times its size."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield start, text[start:end]
        start = end + 1
    yield start, text[start:]


def _is_title(title: str, under: str, over: str) -> bool:
    if not title.strip() or _ADORNMENT.match(title) or not _ADORNMENT.match(under) or len(under) < len(title.rstrip()):
        return False
    overlined = over == under
    return overlined if title[0].isspace() else overlined or not over.strip() or bool(_ADORNMENT.match(over))
