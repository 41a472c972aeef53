"""What is written of a page while it is parsed: the open parts, and the blocks in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .attributes import Attributes
from .blocks import Scope
from .code import Closer, RawText

Opener = Callable[[Any, Attributes], Closer]
"""A method that opens an element; it returns what is to be done at its end."""

CONTENT = frozenset({"article", "main", "section", "blockquote", "li", "td", "figure", "dialog", "details"})
"""Elements in which a header or footer is not that of the page."""
_STRUCTURED = frozenset({"article", "blockquote", "dl", "form", "section"})


class PageWriter:
    """The open parts of a page. What a tag means stands in the classes that add to it."""

    def __init__(self) -> None:
        self._scopes = [Scope("\n\n")]
        self._content_depth: int = 0
        self._heading_depth: int = 0
        self._raw: RawText | None = None
        self._muted = False
        """Between LaTeX2HTML's comments around its navigation."""

    def _push(self, separator: str = "\n", *, is_inline: bool = False) -> None:
        self._scopes.append(Scope(separator, is_inline=is_inline))

    def _pop(self) -> Scope:
        scope = self._scopes.pop()
        scope.flush()
        return scope

    def _taken_raw(self) -> RawText:
        raw, self._raw = self._raw, None
        assert raw is not None
        return raw

    def _begin_block(self, tag: str) -> Closer:
        scope = self._scopes[-1]
        scope.flush()
        scope.structured |= tag in _STRUCTURED
        return self._end_content_block if tag in CONTENT else self._end_block

    def _end_block(self) -> None:
        self._scopes[-1].flush()

    def _end_content_block(self) -> None:
        self._content_depth -= 1
        self._scopes[-1].flush()
