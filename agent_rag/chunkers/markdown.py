"""Markdown, cut along its own structure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from .._util.languages import language_named
from .._util.markdown import Block, Markdown, cells_of, headings_in, rows_of, table_blocks, table_of
from .._util.markup import most_headings
from ..documents import Heading, Section
from ..places import LineNumbers
from ._boundaries import first_solid, line_end, line_start
from ._text import STRUCTURED_CHARACTERS, HeadingPaths, Piece, SizedChunker, SizeParameters
from ._windows import Cutter, largest_fit
from .code import cut_code

_FENCE = re.compile(r"`{3,}|~{3,}")


class MarkdownChunker(SizedChunker):
    """A chunk holds text under one heading, and whole blocks where they fit.

    Each heading starts a chunk; one without text of its own shares the chunk of the sub-heading below it, so that no
    heading stands at a chunk's end. Fenced code, tables, lists and quotes stay whole up to `chunk_size`. A larger table
    is split by rows: its second and later parts repeat the header (their span is None), and ``metadata["rows"]`` gives
    the first and last body row, from 1. Larger code is split as by `CodeChunker`, each part in the fence with its
    language (their span is None, too), a larger list at its items, prose as in `RecursiveChunker`. Only prose is
    repeated as overlap, and never across a heading. Where there are more than 10,000 headings with less than 64
    characters each, those of the lowest rank are text like any other.

    The heading path is that of the Section's headings, or of those found in the text where the Section has none.
    """

    chunker_type: ClassVar[str] = "markdown"
    _in_process_characters: ClassVar[int] = STRUCTURED_CHARACTERS

    class Parameters(SizeParameters):
        keep_heading: bool = True
        """Whether a heading's line stays in its chunk's text; the path in the metadata has it either way."""

    parameters: Parameters

    def split(self, section: Section) -> Iterator[Piece]:
        text = section.text
        source = Markdown(text)
        blocks = table_blocks(text) if _is_of_rows(section) else source.blocks()
        lowest = _lowest_level(blocks, len(text))
        if not section.headings:
            section = section.model_copy(update={"headings": _headings(source, blocks, lowest)})
        paths = HeadingPaths(section)
        for head, body in _groups(blocks, lowest):
            packer = _Packer(text, self.cutter(), paths, head[-1].start if head else 0)
            if self.parameters.keep_heading or not body:
                packer.add_heading(head)
            for block in body:
                packer.add(block)
            yield from packer.finish()


def _is_of_rows(section: Section) -> bool:
    return isinstance(section.places, LineNumbers) and section.places.unit == "rows"


def _lowest_level(blocks: Iterable[Block], characters: int) -> int:
    """The lowest rank of headings that start a chunk: below it are thousands, with hardly a line of text each."""
    counts = Counter(block.level for block in headings_in(blocks))
    lowest = 6
    while counts.total() > most_headings(characters):
        del counts[lowest]
        lowest -= 1
    return lowest


def _headings(source: Markdown, blocks: Iterable[Block], lowest: int) -> list[Heading]:
    titled = ((block, source.title(block.title)) for block in headings_in(blocks) if block.level <= lowest)
    return [Heading(level=block.level, title=title, offset=block.start) for block, title in titled if title]


def _groups(blocks: Iterable[Block], lowest: int) -> Iterator[tuple[list[Block], list[Block]]]:
    """Runs of headings, each below the one before, with the blocks under the last of them."""
    head: list[Block] = []
    body: list[Block] = []
    for block in blocks:
        if not 0 < block.level <= lowest:
            body.append(block)
            continue
        if body or (head and block.level <= head[-1].level):
            yield head, body
            head, body = [], []
        head.append(block)
    if head or body:
        yield head, body


class _Packer:
    """Fills chunks with the blocks under one heading."""

    def __init__(self, text: str, cutter: Cutter, paths: HeadingPaths, path_from: int) -> None:
        self.text, self.cutter, self.paths = text, cutter, paths
        self.path_from = path_from
        """Offset of the last heading above the blocks: a chunk that starts with an outer one has its path, too."""
        self.lines = Cutter(cutter.size, 0, cutter.length, line_end, line_start)
        self.pieces: list[Piece] = []
        self.start = self.end = -1
        """The open chunk, ``text[start:end]``; -1 when there is none."""
        self.last: Block | None = None
        self.only_heading = False

    def add_heading(self, head: list[Block]) -> None:
        for block in head:
            self.add(block)
        self.only_heading = bool(head)

    def add(self, block: Block) -> None:
        if not self._extend(block):
            if self.start >= 0 and not self.only_heading:
                self._close_before(block)
            if not self._extend(block):
                self._divide(block)
        self.last, self.only_heading = block, False

    def finish(self) -> list[Piece]:
        self._close()
        return self.pieces

    def _extend(self, block: Block) -> bool:
        start = block.start if self.start < 0 else self.start
        for end in (block.end, block.stop):
            if self._fits(start, end):
                self.start, self.end = start, end
                return True
        return False

    def _fits(self, start: int, end: int) -> bool:
        return self.cutter.length(self.text[start:end]) <= self.cutter.size

    def _close(self) -> None:
        if self.start >= 0:
            self._piece(self.start, self.end)
        self.start = self.end = -1

    def _close_before(self, block: Block) -> None:
        """Close the chunk; the next one repeats the end of its prose when `block` still fits behind that."""
        start, end, last = self.start, self.end, self.last
        self._close()
        if last is not None and last.is_prose:
            again = self.cutter.next_start(self.text, start, end, breaks=[last.start])
            if again < end and self._fits(again, block.stop):
                self.start, self.end = again, end

    def _divide(self, block: Block) -> None:
        """Add a block that does not fit, behind the heading that is open, if any."""
        if block.children:
            for child in block.children:
                self.add(child)
        elif block.kind == "table_open":
            self._divide_table(block)
        elif not (block.kind == "fence" and self._divide_fence(block)):
            cutter = self.cutter if block.is_prose else self.lines
            start = block.start if self.start < 0 else self.start
            self.start = self.end = -1
            for span in cutter.cut(self.text, start, block.end):
                self._close()
                self.start, self.end = span  # The last part stays open for the blocks that follow.

    def _divide_fence(self, block: Block) -> bool:
        """Cut code as `CodeChunker` does, each part in a fence of its own; False where the fence takes too much."""
        opening_end = self.text.find("\n", block.start, block.stop) + 1
        fence = _FENCE.search(self.text, block.start, opening_end)
        if fence is None:
            return False
        opening, closing = self.text[block.start : opening_end], f"\n{fence[0]}"
        head = self.text[self.start : block.start] if self.start >= 0 else ""
        length = self.cutter.length
        if length(head + opening + closing) > self.cutter.size // 2:
            return False
        code = self.text[opening_end : block.stop].rstrip()
        last = code.rfind("\n") + 1
        body_end = opening_end + last if _FENCE.fullmatch(code[last:].strip()) else block.stop
        cutter = Cutter(
            self.cutter.size,
            0,
            lambda part: length(head + opening + part.rstrip("\r\n") + closing),
            line_end,
            line_start,
        )
        self.start = self.end = -1
        info = opening[fence.end() - block.start :].split()
        language = language_named(info[0].strip("{}.")) if info else None
        for part in cut_code(self.text[opening_end:body_end], "", language, cutter):
            start, end = opening_end + part.start, opening_end + part.end
            body = self.text[start:end].rstrip("\r\n")
            self._piece(start, end, head + opening + body + closing, symbols=part)
            head = ""
        return True

    def _divide_table(self, table: Block) -> None:
        header_end, rows = rows_of(self.text, table)
        header = self.text[table.start : header_end]
        if not rows:
            self._divide(Block("code_block", table.start, table.stop, table.end))
            return
        if self.cutter.length(header) > self.cutter.size // 2:
            self._divide_wide_table(table, header, rows)
            return
        done = self._first_part(table, rows)
        while done < len(rows):
            fitting = self._rows_that_fit(header, rows, done)
            if fitting:
                body = self.text[rows[done][0] : rows[done + fitting - 1][1]]
                self._table_piece(rows, done, done + fitting, header + body.rstrip("\r\n"))
            else:
                self._divide_row(header, rows, done)
            done += fitting or 1

    def _divide_wide_table(self, table: Block, header: str, rows: list[tuple[int, int]]) -> None:
        """Cut a table whose header alone takes too much room into tables of some of its columns, the first in each."""
        names = cells_of(header.partition("\n")[0])
        groups = self._column_groups(names)
        if not groups:
            self._divide(Block("code_block", table.start, table.stop, table.end))
            return
        self._close()
        cells = [cells_of(self.text[start:end]) for start, end in rows]
        done = 0
        while done < len(rows):
            parts = self._parts_of_columns(names, groups, cells[done : done + 1])
            count = 1
            while done + count < len(rows):
                wider = self._parts_of_columns(names, groups, cells[done : done + count + 1])
                if any(self.cutter.length(text) > self.cutter.size for text in wider):
                    break
                parts, count = wider, count + 1
            for text in parts:
                self._narrow_piece(rows, done, done + count, text)
            done += count

    def _parts_of_columns(self, names: list[str], groups: list[list[int]], rows: list[list[str]]) -> list[str]:
        """A table of these rows for each group of columns."""
        return [
            table_of([[row[column] for column in group if column < len(row)] for row in (names, *rows)])
            for group in groups
        ]

    def _column_groups(self, names: list[str]) -> list[list[int]]:
        """Columns whose names fit in a third of the size, beside that of the first column; none where one does not."""
        groups: list[list[int]] = []
        for column in range(1, len(names)):
            if groups and self._names_fit(names, [0, *groups[-1], column]):
                groups[-1].append(column)
            elif self._names_fit(names, [0, column]):
                groups.append([column])
            else:
                return []
        return [[0, *group] for group in groups]

    def _names_fit(self, names: list[str], columns: list[int]) -> bool:
        return self.cutter.length(table_of([[names[column] for column in columns]])) <= self.cutter.size // 3

    def _narrow_piece(self, rows: list[tuple[int, int]], first: int, end: int, text: str) -> None:
        """A chunk of some columns; a row that is larger than a chunk is cut under its names."""
        if self.cutter.length(text) <= self.cutter.size:
            self._table_piece(rows, first, end, text)
            return
        head_end = text.index("\n", text.index("\n") + 1) + 1
        header = text[:head_end]
        cutter = Cutter(self.cutter.size, 0, lambda part: self.cutter.length(header + part))
        for start, stop in cutter.cut(text, head_end):
            self._table_piece(rows, first, end, header + text[start:stop].rstrip("\n"))

    def _first_part(self, table: Block, rows: list[tuple[int, int]]) -> int:
        """The part that has its header by nature: a span of the text. Gives the number of its rows."""
        start = table.start if self.start < 0 else self.start
        fitting = self._most_rows(lambda count: self.text[start : rows[count - 1][1]] if count else "", len(rows))
        if fitting:
            self.start = self.end = -1
            self._piece(start, rows[fitting - 1][1], None, [1, fitting])
        else:
            self._close()
        return fitting

    def _rows_that_fit(self, header: str, rows: list[tuple[int, int]], done: int) -> int:
        begin = rows[done][0]
        return self._most_rows(
            lambda count: header + self.text[begin : rows[done + count - 1][1]] if count else "", len(rows) - done
        )

    def _most_rows(self, part: Callable[[int], str], most: int) -> int:
        length, size = self.cutter.length, self.cutter.size
        fitting = largest_fit(lambda count: length(part(count)), size, most, guess=8)
        while fitting and length(part(fitting)) > size:
            fitting -= 1
        return fitting

    def _divide_row(self, header: str, rows: list[tuple[int, int]], row: int) -> None:
        length = self.cutter.length
        cutter = Cutter(self.cutter.size, 0, lambda part: length(header + part))
        for start, end in cutter.cut(self.text, *rows[row]):
            self._table_piece(rows, row, row + 1, header + self.text[start:end].rstrip("\r\n"))

    def _table_piece(self, rows: list[tuple[int, int]], first: int, end: int, text: str) -> None:
        self._piece(rows[first][0], rows[end - 1][1], text, [first + 1, end])

    def _piece(
        self,
        start: int,
        end: int,
        text: str | None = None,
        rows: list[int] | None = None,
        symbols: Piece | None = None,
    ) -> None:
        path = self.paths.at(max(first_solid(self.text, start, end), self.path_from))
        context = None
        if symbols is not None:
            path, context = [*path, *(symbols.heading_path or [])], symbols.embed_context
        self.pieces.append(Piece(start, end, text, {"rows": rows} if rows else None, path, context))
