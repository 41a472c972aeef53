"""A text with its syntax tree, in characters: tree-sitter counts bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ._grammars import definitions_in, grammar_of, parser_of

if TYPE_CHECKING:
    from tree_sitter import Node

# Characters that are no single unit of UTF-16; the parser sees another one of the same length in their place.
_LONG = re.compile("[\U00010000-\U0010ffff\ud800-\udfff]")


class SyntaxTree:
    """The tree of a text; one with errors, too: the nodes around them are right."""

    def __init__(self, text: str, root: Node, language: str, unit: int) -> None:
        self.text, self.root, self.language = text, root, language
        self._unit = unit

    def span(self, node: Node) -> tuple[int, int]:
        """The node as ``text[start:end]``. In constant time, because UTF-16 has two bytes for every character here."""
        return node.start_byte // self._unit, node.end_byte // self._unit

    def text_of(self, node: Node) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def definitions(self) -> list[Node]:
        """The nodes that define a name, by their start, outer before inner."""
        return definitions_in(self.root, self.language)


def syntax_tree(text: str, language: str) -> SyntaxTree | None:
    """None when there is no grammar for `language`."""
    grammar = grammar_of(language)
    if grammar is None:
        return None
    parser = parser_of(grammar)
    if text.isascii():
        return SyntaxTree(text, parser.parse(text.encode(), encoding="utf8").root_node, language, 1)
    encoded = _LONG.sub("\ufffd", text).encode("utf-16-le")
    return SyntaxTree(text, parser.parse(encoded, encoding="utf16le").root_node, language, 2)
