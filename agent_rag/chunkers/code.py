"""Source code, cut along its syntax tree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import ClassVar

from pydantic import Field

from .._util.languages import language_named, language_of
from ..documents import Section
from ._boundaries import first_solid, line_end, line_start
from ._symbols import Outline, embed_context
from ._syntax_tree import syntax_tree
from ._text import STRUCTURED_CHARACTERS, Piece, SizedChunker, SizeParameters
from ._tree_cutter import TreeCutter
from ._windows import Cutter

_LONGEST_LINE = 500_000
"""A longer one was written by a program, and its tree takes a second and a half for a megabyte."""


class CodeChunker(SizedChunker):
    """Keeps functions, classes and statements whole where they fit, with the comments and attributes above them.

    The language is ``section.metadata["language"]``, else that of the file name, a shebang or a modeline. Nothing is
    dropped: a node that is too large is entered, a leaf that is too large (a long string) is cut as any text. Without
    the extra ``code``, for a language without a grammar, or where a line has more than 500,000 characters, the text is
    cut at lines; where the syntax is wrong, the rest of the file keeps its structure.

    `heading_path` is module, class and function as the language spells them; their words, the names that the chunk
    defines and the signature that it continues are embedded with it. Every chunk has ``line_start`` and ``line_end``,
    from 1, in its metadata. `overlap` counts only where the text is cut at lines.
    """

    chunker_type: ClassVar[str] = "code"
    _in_process_characters: ClassVar[int] = STRUCTURED_CHARACTERS

    class Parameters(SizeParameters):
        overlap: int = Field(default=0, json_schema_extra={"minimum": 0})

    def split(self, section: Section) -> Iterator[Piece]:
        text = section.text
        starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        cutter = self.cutter(find_end=line_end, find_start=line_start)
        for piece in cut_code(text, section.source, self._language(section), cutter):
            first = bisect_right(starts, first_solid(text, piece.start, piece.end))
            last = bisect_right(starts, piece.start + len(text[piece.start : piece.end].rstrip()) - 1)
            path = None if section.headings or piece.heading_path is None else piece.heading_path
            yield piece._replace(
                metadata={"line_start": first, "line_end": max(first, last)},
                heading_path=None if path is None else [*section.heading_path, *path],
            )

    def _language(self, section: Section) -> str | None:
        told = section.metadata.get("language") or section.metadata.get("format")
        named = language_named(told) if isinstance(told, str) else None
        return named or language_of(section.source, section.text)


def cut_code(text: str, source: str, language: str | None, cutter: Cutter) -> Iterator[Piece]:
    """Pieces of code with their symbols; cut by `cutter` alone where there is no grammar for `language`.

    Args:
        source: Path of the file, for the name of its module; "" for code inside a text.
    """
    tree = None if language is None or _has_endless_line(text) else syntax_tree(text, language)
    if tree is None:
        yield from (Piece(start, end) for start, end in cutter.cut(text))
        return
    divided = TreeCutter(tree, cutter)
    outline = Outline(tree, source)
    for start, end in divided.cut():
        solid = first_solid(text, start, end)
        stop = start + len(text[start:end].rstrip())
        if solid < stop:
            place = outline.place(solid, stop, divided.items.get(start))
            yield Piece(start, end, heading_path=place.path, embed_context=embed_context(place) or None)


def _has_endless_line(text: str) -> bool:
    return len(text) > _LONGEST_LINE and max(map(len, text.split("\n"))) > _LONGEST_LINE
