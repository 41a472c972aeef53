"""The block structure of Markdown, as spans of the source text. Parsed by markdown-it-py (CommonMark and tables)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n.*?^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_WHOLE = {"fence", "code_block", "table_open", "html_block", "heading_open"}
_CONTAINERS = {"bullet_list_open", "ordered_list_open", "list_item_open", "blockquote_open"}


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


def blocks_of(text: str) -> list[Block]:
    """The top-level blocks; together they cover the text."""
    front = _FRONT_MATTER.match(text)
    offset = front.end() if front else 0
    tokens = _parser().parse(_normal(text[offset:]))
    blocks = _nested(iter(tokens), _line_starts(text, offset), level=0)
    if front:
        blocks.insert(0, Block("text", 0, offset, offset))
    return _covering(blocks, 0, len(text), text)


def _normal(text: str) -> str:
    """What markdown-it's rule of that name gives; its regular expressions hold the interpreter for 100 ms at 15 MB."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd") if "\0" in text else text


def rows_of(text: str, table: Block) -> tuple[int, list[tuple[int, int]]]:
    """End of a table's header (with its delimiter row), and the spans of its body rows."""
    lines = [match.span() for match in _LINE.finditer(text, table.start, table.stop) if match.end() > match.start()]
    return lines[1][1], lines[2:]


def _line_starts(text: str, offset: int) -> list[int]:
    starts = [match.start() for match in _LINE.finditer(text, offset) if match.end() > match.start()]
    return [*starts, len(text)]


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


def plain_title(markup: str) -> str:
    """A title without its inline markup."""
    inline = _inline_parser().parseInline(markup)[0].children or []
    return " ".join("".join(token.content for token in inline if token.type in ("text", "code_inline")).split())


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    # Only the block structure is needed; inline parsing would take most of the time.
    parser.core.ruler.enableOnly(["block"])
    return parser


@cache
def _inline_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")
