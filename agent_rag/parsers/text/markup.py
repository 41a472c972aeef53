"""AsciiDoc, Org and LaTeX: one Section with its headings. Python has no light library for them."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from ..._util.markup import whole_blocks
from ...documents import Section
from ..headings import Headings, matches_in_lines
from .plain import DecodingParser, as_written

_ASCIIDOC = re.compile(r"^(={1,6}|#{1,6})[ \t]+(\S[^\n]*?)[ \t]*=*$", re.M)
_ORG = re.compile(
    r"^(\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAITING)[ \t]+)?(?:\[#\w\][ \t]+)?(\S[^\n]*?)(?:[ \t]+:[\w@:]+:)?[ \t]*$", re.M
)
_LATEX = re.compile(
    r"^[^%\n]{0,80}?\\(part|chapter|section|subsection|subsubsection|paragraph)\*?(?:\[[^\]\n]{0,200}\])?"
    r"\{((?:[^{}]|\{[^{}]{0,100}\}){1,300})\}",
    re.M,
)
_LATEX_RANKS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_LATEX_COMMAND = re.compile(r"\\[A-Za-z]+\*?|[{}~]")


class MarkupParser(DecodingParser):
    """The text as it stands; a subclass finds the headings outside of code, tables and examples."""

    markup: ClassVar[str]
    """Metadata ``format``."""

    def read_text(self, text: str, filename: str) -> list[Section]:
        headings = Headings()
        blocks = iter(whole_blocks(text, self.markup))
        start, stop = next(blocks, (len(text), len(text)))
        for level, title, offset in self.headings(text):
            while offset >= stop and start < len(text):
                start, stop = next(blocks, (len(text), len(text)))
            if title and not start <= offset < stop:
                headings.add(level, title, offset)
        return as_written(text, filename, headings.found, format=self.markup)

    @abstractmethod
    def headings(self, text: str) -> Iterator[tuple[int, str, int]]:
        """(level from 1, title, offset) in their order, also those inside of blocks."""


class AsciiDocParser(MarkupParser):
    """The text as it stands, one Section with metadata ``{"format": "asciidoc"}`` and its headings."""

    format_name = "AsciiDoc"
    markup = "asciidoc"
    supported_media_types: ClassVar[list[str]] = ["text/asciidoc", "text/x-asciidoc"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".adoc", ".asc", ".asciidoc"]

    def headings(self, text: str) -> Iterator[tuple[int, str, int]]:
        return ((len(found[1]), found[2], found.start()) for found in matches_in_lines(_ASCIIDOC, text))


class OrgParser(MarkupParser):
    """The text as it stands, one Section with metadata ``{"format": "org"}`` and its headings, without their state and
    tags."""

    format_name = "Org"
    markup = "org"
    supported_media_types: ClassVar[list[str]] = ["text/org", "text/x-org"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".org"]

    def headings(self, text: str) -> Iterator[tuple[int, str, int]]:
        return ((len(found[1]), found[2], found.start()) for found in matches_in_lines(_ORG, text))


class LaTeXParser(MarkupParser):
    """The source as it stands, one Section with metadata ``{"format": "latex"}``; headings from ``\\part`` to
    ``\\paragraph``, without commands."""

    format_name = "LaTeX"
    markup = "latex"
    supported_media_types: ClassVar[list[str]] = ["application/x-tex", "text/x-tex", "application/x-latex"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".latex", ".tex"]

    def headings(self, text: str) -> Iterator[tuple[int, str, int]]:
        for found in matches_in_lines(_LATEX, text):
            title = " ".join(_LATEX_COMMAND.sub(" ", found[2]).split())
            yield _LATEX_RANKS.index(found[1]) + 1, title, found.start(1) - 1
