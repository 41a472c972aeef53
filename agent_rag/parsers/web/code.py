"""Text of a page that is read as it stands: code, and the page's title."""

from __future__ import annotations

from collections.abc import Callable

from .attributes import Attributes, code_language

HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = frozenset(
    {"address", "article", "aside", "body", "center", "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset"}
    | {"figcaption", "figure", "footer", "form", "frameset", "header", "hgroup", "hr", "html", "legend", "main"}
    | {"noframes", "p", "search", "section", "summary", "tbody", "tfoot", "thead", "blockquote", "caption"}
)
_LINES = BLOCKS | frozenset(HEADINGS) | {"li", "tr", "table", "ul", "ol"}
"""Elements that stand in lines of their own."""

Closer = Callable[[], None] | None


class RawText:
    """Characters with their line breaks; elements inside that stand in lines of their own make some."""

    def __init__(self, language: str = "", *, is_block: bool = False) -> None:
        self.language = language
        """The programming language, as far as an element names one."""
        self.is_block = is_block
        """Whether it stands in lines."""
        self._pieces: list[str] = []
        self._ended_line = False

    def start(self, tag: str, attributes: Attributes) -> Closer:
        """Open an element; returns what is to be done at its end."""
        self.language = self.language or code_language(tag, attributes)
        if tag == "br":
            self._pieces.append("\n")
            self.is_block = True
        elif tag == "pre":
            self.is_block = True
        elif tag == "sup" and self._pieces and self._pieces[-1][-1:].isalnum():
            self._pieces.append("^")
        elif tag in _LINES:
            self.is_block = True
            self._break_line()
            length = len(self._pieces)
            return lambda: self._end_line(length)
        return None

    def data(self, text: str) -> None:
        if self._ended_line:
            text = text.removeprefix("\n")  # generators end the line behind its element, too
            self._ended_line = False
        if text:
            self._pieces.append(text)

    def text(self) -> str:
        return "".join(self._pieces).replace("\xa0", " ")

    def _break_line(self) -> None:
        if self._pieces and not self._pieces[-1].endswith("\n"):
            self._pieces.append("\n")

    def _end_line(self, length: int) -> None:
        """The line that an element makes, an empty one too."""
        if len(self._pieces) == length:
            self._pieces.append("\n")
        self._break_line()
        self._ended_line = True
