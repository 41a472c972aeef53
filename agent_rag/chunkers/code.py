"""Source code, cut along its syntax tree."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from .._util.extras import needs
from ..documents import Section
from ..errors import MissingExtraError
from ._boundaries import first_solid, line_end, line_start
from ._text import STRUCTURED_CHARACTERS, Piece, SizedChunker, SizeParameters
from ._windows import Cutter, Span

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

logger = logging.getLogger(__name__)

# Wheels with the grammar inside; tree-sitter-language-pack downloads grammars at run time since 1.0.
GRAMMARS: dict[str, tuple[str, str]] = {
    "bash": ("tree_sitter_bash", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "python": ("tree_sitter_python", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
LANGUAGE_BY_EXTENSION: dict[str, str] = {
    ".bash": "bash", ".c": "c", ".cc": "cpp", ".cjs": "javascript", ".cpp": "cpp", ".cs": "csharp", ".cxx": "cpp",
    ".go": "go", ".h": "c", ".hpp": "cpp", ".java": "java", ".js": "javascript", ".jsx": "javascript",
    ".mjs": "javascript", ".php": "php", ".py": "python", ".pyi": "python", ".rb": "ruby", ".rs": "rust",
    ".sh": "bash", ".ts": "typescript", ".tsx": "tsx",
}  # fmt: skip
_READ_BYTES = 4096
_MAX_DEPTH = 200
"""Below this a node is cut by lines: deeply nested expressions would exhaust Python's stack."""


class CodeChunker(SizedChunker):
    """Keeps functions, classes and statements whole where they fit, with the comment above them.

    The language is ``section.metadata["language"]``, else that of the file name. Nothing is dropped: a node that is too
    large is entered, a leaf that is too large (a long string) is cut as any text. Without the extra ``code``, for
    another language, or when the syntax is wrong, the text is cut at lines. Every chunk has ``line_start`` and
    ``line_end``, from 1, in its metadata. `overlap` counts only where the text is cut at lines.
    """

    chunker_type: ClassVar[str] = "code"
    _in_process_characters: ClassVar[int] = STRUCTURED_CHARACTERS

    class Parameters(SizeParameters):
        overlap: int = Field(default=0, json_schema_extra={"minimum": 0})

    def split(self, section: Section) -> Iterator[Piece]:
        text = section.text
        lines = [0, *accumulate(len(line) for line in text.split("\n"))]
        lines = [start + number for number, start in enumerate(lines)]
        cutter = self.cutter(find_end=line_end, find_start=line_start)
        language = section.metadata.get("language") or language_of(section.source)
        root = _syntax_tree(text, language) if isinstance(language, str) else None
        spans = cutter.cut(text) if root is None else _TreeCutter(text, lines, cutter).cut(root)
        for start, end in spans:
            first = bisect_right(lines, first_solid(text, start, end))
            last = bisect_right(lines, start + len(text[start:end].rstrip()) - 1)
            yield Piece(start, end, metadata={"line_start": first, "line_end": max(first, last)})


def language_of(filename: str) -> str | None:
    """The programming language that a file name's ending stands for."""
    return LANGUAGE_BY_EXTENSION.get(PurePath(filename).suffix.lower())


class _TreeCutter:
    """Packs the nodes of a syntax tree, depth first."""

    def __init__(self, text: str, lines: list[int], cutter: Cutter) -> None:
        self.text, self.lines, self.cutter = text, lines, cutter
        self.spans: list[Span] = []
        self.start = 0
        """Start of the open span."""

    def cut(self, root: Node) -> list[Span]:
        self._add(root, 0, len(self.text), 0)
        self._close(len(self.text))
        return self.spans

    def _add(self, node: Node, begin: int, end: int, depth: int) -> None:
        """Add ``text[begin:end]``, which `node` fills."""
        if self._fits(self.start, end):
            return
        if self.start < begin and (self._fits(begin, end) or not self._fits(self.start, begin, share=2)):
            self._close(begin)
        if self._fits(self.start, end):
            return
        starts = self._child_starts(node, begin) if depth < _MAX_DEPTH else []
        if not starts:
            spans = self.cutter.cut(self.text, self.start, end)
            self.spans.extend(spans[:-1])
            self.start = spans[-1][0] if spans else end
            return
        for index, (child, start) in enumerate(starts):
            stop = starts[index + 1][1] if index + 1 < len(starts) else end
            self._add(child, begin if index == 0 else start, stop, depth + 1)

    def _fits(self, start: int, end: int, *, share: int = 1) -> bool:
        """Whether the text fits in the size (or in half of it, with share 2)."""
        if self.cutter.length is len:
            return end - start <= self.cutter.size // share
        return self.cutter.length(self.text[start:end]) <= self.cutter.size // share

    def _close(self, end: int) -> None:
        if self.start < end:
            self.spans.append((self.start, end))
        self.start = end

    def _child_starts(self, node: Node, begin: int) -> list[tuple[Node, int]]:
        """The children with the offset where each may be cut off; a comment belongs to what stands below it."""
        starts: list[tuple[Node, int]] = []
        comment_start: int | None = None
        for child in node.children:
            start = self._offset(child)
            if "comment" in child.type:
                comment_start = start if comment_start is None else comment_start
                continue
            start = start if comment_start is None else comment_start
            comment_start = None
            if start >= begin and (not starts or start > starts[-1][1]):
                starts.append((child, start))
        return starts

    def _offset(self, node: Node) -> int:
        """Index of the node's first character, or of its line's when only white space stands before it."""
        row, column = node.start_point.row, node.start_point.column
        line: int = self.lines[row]
        # Columns count bytes.
        head = self.text[line : line + column]
        if not head.isascii():
            head = head.encode()[:column].decode(errors="ignore")
        return line if not head.strip() else line + len(head)


def _syntax_tree(text: str, language: str) -> Node | None:
    """The root, or None when the grammar is missing or the syntax is wrong."""
    grammar = _grammar(language)
    if grammar is None:
        return None
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # Lone surrogates.
        return None
    # Read by a function, because between its calls the event loop's thread may run.
    root = _parser(grammar).parse(lambda offset, _: encoded[offset : offset + _READ_BYTES], encoding="utf8").root_node
    return None if root.has_error else root


def _parser(grammar: Language) -> Parser:
    """A parser for one call: while it reads through a function, another thread or loop may start to parse."""
    parser: Parser = needs("code", "tree_sitter", purpose="CodeChunker").Parser(grammar)
    return parser


@cache
def _grammar(language: str) -> Language | None:
    """The grammar; never written after it is made (a pointer to constant tables), so threads may share it."""
    if language not in GRAMMARS:
        return None
    module, function = GRAMMARS[language]
    try:
        tree_sitter = needs("code", "tree_sitter", purpose="CodeChunker")
        grammar = needs("code", module, purpose=f"CodeChunker for {language}")
    except MissingExtraError as error:
        logger.info("%s code is cut at lines: %s", language, error)
        return None
    found: Language = tree_sitter.Language(getattr(grammar, function)())
    return found
