"""The default chunker: paragraphs, lines, sentences, words."""

from __future__ import annotations

from typing import ClassVar

from ..documents import Section
from ._text import SizedChunker, SizeParameters
from ._windows import Span


class RecursiveChunker(SizedChunker):
    """Cuts at the best boundary that fits: paragraph, line, sentence (also 。！？), clause, word.

    A grapheme cluster is divided only when it alone exceeds the size. `chunk_size` is never exceeded (but by a single
    character that alone is longer), the overlap counts inside it and starts at a sentence or word, and no chunk lies
    within another. Every chunk is ``section.text[start:end]``; only white space between chunks is left out. A Section's
    headings are the best boundaries of all, and nothing is repeated across one.
    """

    chunker_type: ClassVar[str] = "recursive"
    _splits_visibly: ClassVar[bool] = True

    class Parameters(SizeParameters):
        """Sizes in characters, or in the unit of `length`."""

    def split(self, section: Section) -> list[Span]:
        breaks = [heading.offset for heading in section.headings]
        return self.cutter().cut(section.text, breaks=breaks)
