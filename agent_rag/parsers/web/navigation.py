"""Lines of a page that lead elsewhere and say nothing."""

from __future__ import annotations

import re

from .blocks import Scope

_MARKDOWN_LINK = re.compile(r"!?\[[^\[\]\n]*+\]\([^()\n]*+\)")
_NAVIGATION_WORDS = frozenset({
    "next", "previous", "prev", "up", "top", "contents", "index", "home", "table", "of", "forward", "back", "toc",
})  # fmt: skip
_LINK_TEXT = re.compile(r"\[(\w+)\]\(")
_WORD = re.compile(r"\w+")


def drop_navigation_lines(page: Scope) -> None:
    """Take out the first and the last blocks of a page where they are "Next: ..., Up: ..." only."""
    last = len(page.blocks) - 1
    if last < 2:
        return
    dropped = {index for index in {0, 1, last - 1, last} if _is_navigation_line(page.blocks[index])}
    if not dropped:
        return
    kept = [index for index in range(len(page.blocks)) if index not in dropped]
    moved = {old: new for new, old in enumerate(kept)}
    page.headings = [mark._replace(block=moved[mark.block]) for mark in page.headings if mark.block in moved]
    page.blocks = [page.blocks[index] for index in kept]


def without_navigation(block: str) -> str:
    """A block without its lines of links only."""
    lines = (line for line in block.split("\n") if _says_something(line))
    return "\n".join(lines)


def _says_something(line: str) -> bool:
    return any(char.isalnum() for char in _MARKDOWN_LINK.sub("", line))


def _is_navigation_line(block: str) -> bool:
    """Whether a block is links and words such as "Next:" only."""
    if block.startswith(("#", "- ", "|", "`")) or "](" not in block:
        return False
    words = _WORD.findall(_MARKDOWN_LINK.sub("", block).lower())
    named = {word.lower() for word in _LINK_TEXT.findall(block)}
    return all(word in _NAVIGATION_WORDS for word in words) and bool(words or named & _NAVIGATION_WORDS)
