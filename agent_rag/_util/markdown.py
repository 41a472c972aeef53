"""The one reader of Markdown: blocks as spans of the source text, titles, front matter.

Blocks and titles are those of markdown-it-py (CommonMark and tables). A text is parsed window by window: the tokens of
a whole one take a hundred times its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?=\S)(.*?^)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_YAML_KEY = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s#\-\[{>|&*!%@`:][^:\n]*+):(?:[ \t]|\r?$)""")
_YAML_LINE = re.compile(r"\r?$|[ \t#\]}]|-(?:[ \t]|\r?$)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_RULER = re.compile(r"^\|(?: --- \|)++\n?", re.M)
_CELL_END = re.compile(r"(?<!\\)\|")
_WHOLE = {"fence", "code_block", "table_open", "html_block", "heading_open"}
_ANCHOR = re.compile(r"(?<!\s)[ \t]+\{#[\w:.-]+\}[ \t]*$")
_INLINE_MARKUP = re.compile(r"[\\`*_\[\]<&!]")
_MAX_TITLE = 2_000
"""Characters of a title whose markup is read: some takes the square of its length."""
_WINDOW = 64 * 1024
_LISTS = {"bullet_list_open", "ordered_list_open"}
_CONTAINERS = {*_LISTS, "list_item_open", "blockquote_open"}


@dataclass(slots=True)
class Block:
    """A block and the blank lines behind it."""

    kind: str
    """Token type of markdown-it: ``paragraph_open``, ``fence``, ``table_open``, ...; ``text`` for what has no token."""
    start: int
    stop: int
    """Where its own lines end."""
    end: int
    """Where the next block starts."""
    children: list[Block] = field(default_factory=list)
    """Of lists, list items and block quotes."""
    level: int = 0
    """Of a heading, from 1; 0 for any other block."""
    title: str = ""
    """Of a heading, with its inline markup."""

    @property
    def is_prose(self) -> bool:
        return self.kind not in _WHOLE


def front_matter(text: str) -> re.Match[str] | None:
    """YAML between two lines of dashes at the start of a text; group 1 is what stands between them.

    A blank line behind the first dashes, or a line that no mapping has, makes them a rule: slides begin so.
    """
    found = _FRONT_MATTER.match(text)
    lines = (found[1] or "").split("\n") if found else []
    keys = [bool(_YAML_KEY.match(line)) for line in lines]
    valid = any(keys) and all(key or _YAML_LINE.match(line) for key, line in zip(keys, lines, strict=True))
    return found if valid else None


class Markdown:
    """A text, and its link definitions, which may stand behind their use."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._definitions: dict[str, Any] = {}

    def top_blocks(self) -> Iterator[Block]:
        """The top-level blocks, in order; text that belongs to none (link definitions, front matter) is passed over."""
        front = front_matter(self.text)
        offset, size = front.end() if front else 0, _WINDOW
        items: list[Block] = []
        while offset < len(self.text):
            end = self.text.find("\n", offset + size) + 1 or len(self.text)
            tokens = _parser().parse(_normal(self.text[offset:end]), self._definitions)
            blocks = _nested(iter(tokens), _line_starts(self.text, offset, end), level=0)
            if items:
                blocks[0].start, blocks[0].children = items[0].start, items + blocks[0].children
            if end == len(self.text):
                yield from blocks
                return
            *whole, last = blocks or [Block("text", offset, end, end)]
            yield from whole
            # What stands behind an item of a list is read alike without those before it.
            *items, last = last.children if last.kind in _LISTS else [last]
            # One block or item may go on behind the window.
            offset, size = (last.start, _WINDOW) if last.start > offset else (offset, 2 * size)

    def blocks(self) -> list[Block]:
        """The top-level blocks; together they cover the text."""
        front = front_matter(self.text)
        blocks = [Block("text", 0, front.end(), front.end())] if front else []
        return _covering([*blocks, *self.top_blocks()], 0, len(self.text), self.text)

    def title(self, markup: str) -> str:
        """A heading as it reads: without marks of emphasis and links, images only where there is nothing else, and
        without an anchor (``{#name}``) at its end.

        Definitions count that stand in the blocks read so far.
        """
        markup = _ANCHOR.sub("", markup)
        if len(markup) > _MAX_TITLE or not _INLINE_MARKUP.search(markup):
            return " ".join(markup.split())
        tokens = _inline_parser().parseInline(markup, self._definitions)[0].children or []
        title = " ".join("".join(map(_shown, tokens)).split())
        return title or " ".join(" ".join(token.content for token in tokens if token.type == "image").split())


def headings_in(blocks: Iterable[Block]) -> Iterator[Block]:
    """The headings among `blocks`, those in lists and quotes too, in order."""
    for block in blocks:
        if block.level:
            yield block
        yield from headings_in(block.children)


def _shown(token: Token) -> str:
    """What an inline token adds to a title."""
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return token.content if token.type in ("text", "code_inline") else ""


def _normal(text: str) -> str:
    """What markdown-it's rule of that name gives; its regular expressions hold the interpreter for 100 ms at 15 MB."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd") if "\0" in text else text


def table_blocks(text: str) -> list[Block]:
    """The blocks of a text that is one table with lines above and below, as a sheet is: without reading its cells."""
    ruler = _RULER.search(text)
    if ruler is None:
        return [Block("paragraph_open", 0, len(text), len(text))]
    start = text.rfind("\n", 0, ruler.start() - 1) + 1 if ruler.start() else 0
    stop = ruler.end()
    while text.startswith("|", stop):
        stop = text.find("\n", stop) + 1 or len(text)
    return _covering([Block("table_open", start, stop, stop)], 0, len(text), text)


def rows_of(text: str, table: Block) -> tuple[int, list[tuple[int, int]]]:
    """End of a table's header (with its delimiter row), and the spans of its body rows."""
    lines = [match.span() for match in _LINE.finditer(text, table.start, table.stop) if match.end() > match.start()]
    return lines[1][1], lines[2:]


def cells_of(row: str) -> list[str]:
    """The cells of a table's row as they are written, a bar in them with its backslash."""
    return [cell.strip() for cell in _CELL_END.split(row.strip().removeprefix("|").removesuffix("|"))]


def table_of(rows: Sequence[Sequence[str]]) -> str:
    """A table of such cells, without a final line end; the first row is its header."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def _line_starts(text: str, offset: int, end: int) -> list[int]:
    starts = [match.start() for match in _LINE.finditer(text, offset, end) if match.end() > match.start()]
    return [*starts, end]


def _nested(tokens: Iterator[Token], lines: Sequence[int], *, level: int) -> list[Block]:
    """The blocks among `tokens` up to the end of their container."""
    blocks: list[Block] = []
    for token in tokens:
        if token.nesting < 0 and token.level < level:
            break
        if token.map is None or token.level != level or token.type == "inline":
            continue
        first, last = token.map
        start, stop = lines[first], lines[min(last, len(lines) - 1)]
        block = Block(token.type, start, stop, stop)
        if token.type in _CONTAINERS:
            block.children = _nested(tokens, lines, level=level + 1)
        elif token.type == "heading_open":
            block.level, block.title = int(token.tag[1:]), next(tokens).content
        blocks.append(block)
    return blocks


def _covering(blocks: list[Block], start: int, end: int, text: str) -> list[Block]:
    """`blocks` stretched over ``text[start:end]``; visible text that belongs to none (link definitions) gets one."""
    covering: list[Block] = []
    position = start
    for block in blocks:
        if text[position : block.start].strip():
            covering.append(Block("text", position, block.start, block.start))
        elif covering:
            covering[-1].end = block.start
        else:
            block.start = position
        covering.append(block)
        position = block.stop
    if text[position:end].strip():
        covering.append(Block("text", position, end, end))
    elif covering:
        covering[-1].end = end
    for block in covering:
        block.children = _covering(block.children, block.start, block.end, text) if block.children else []
    return covering


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Shared by all threads: pure Python, and what a call changes is in a state of its own.
    parser = MarkdownIt("commonmark").enable("table")
    # Only the block structure is needed; inline parsing would take most of the time.
    parser.core.ruler.enableOnly(["block"])
    return parser


@cache
def _inline_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")
