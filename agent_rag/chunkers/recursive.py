"""The default chunker: paragraphs, lines, sentences, words."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, ClassVar

from .._util.markup import whole_blocks
from ..documents import Section
from ._boundaries import line_end, natural_end, natural_start
from ._text import SizedChunker, SizeParameters
from ._windows import Span


class RecursiveChunker(SizedChunker):
    """Cuts at the best boundary that fits: paragraph, line, sentence (also 。！？), clause, word.

    A grapheme cluster is divided only when it alone exceeds the size. `chunk_size` is never exceeded (but by a single
    character that alone is longer), the overlap counts inside it and starts at a sentence or word, and no chunk lies
    within another. Every chunk is ``section.text[start:end]``; only white space between chunks is left out. A Section's
    headings are the best boundaries of all, and nothing is repeated across one. Code, tables and directives of
    reStructuredText, AsciiDoc, Org and LaTeX stay whole where they fit.
    """

    chunker_type: ClassVar[str] = "recursive"
    _splits_visibly: ClassVar[bool] = True

    class Parameters(SizeParameters):
        """Sizes in characters, or in the unit of `length`."""

    def split(self, section: Section) -> list[Span]:
        breaks = [heading.offset for heading in section.headings]
        whole = whole_blocks(section.text, section.metadata.get("format"))
        cutter = self.cutter(**_around(whole)) if whole else self.cutter()
        return cutter.cut(section.text, breaks=breaks)


def _around(blocks: list[Span]) -> dict[str, Any]:
    """Finders of a Cutter that do not end or begin in a block; one that does not fit is cut at its lines."""
    starts = [start for start, _ in blocks]

    def block_at(position: int) -> Span | None:
        index = bisect_left(starts, position) - 1
        return blocks[index] if index >= 0 and position < blocks[index][1] else None

    def find_end(text: str, begin: int, lowest: int, reach: int) -> int:
        end = natural_end(text, begin, lowest, reach)
        block = block_at(end)
        if block is None:
            return end
        if block[1] <= reach:
            return block[1]
        return block[0] if block[0] > lowest else line_end(text, begin, lowest, reach)

    def find_start(text: str, lowest: int, end: int) -> int:
        start = natural_start(text, lowest, end)
        return end if block_at(start) else start

    return {"find_end": find_end, "find_start": find_start}
