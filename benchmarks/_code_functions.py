"""Functions of a source file, found without tree-sitter: Python by `ast`, languages with braces by counting these."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_COMMENT = r"//[^\n]*|/\*.*?\*/"
_STRING = r'"(?:\\.|[^"\\\n])*"'
_QUOTED = r"'(?:\\.|[^'\\\n])*'"
_DIRECTIVE = r"^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*"
_NOT_CODE = {
    "c": re.compile("|".join([_COMMENT, _STRING, _QUOTED, _DIRECTIVE]), re.S | re.M),
    "go": re.compile("|".join([_COMMENT, _STRING, _QUOTED, "`[^`]*`"]), re.S),
    "rust": re.compile(
        "|".join([_COMMENT, r'r(#+)".*?"\1|r"[^"]*"|"(?:\\.|[^"\\])*"', r"'(?:\\[^\n]{1,9}?|[^'\\\n])'"]), re.S
    ),
    "javascript": re.compile(
        "|".join(
            [
                _COMMENT,
                _STRING,
                _QUOTED,
                r"`(?:\\.|[^`\\])*`",
                r"(?<=[(,=:?&|])\s*/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/",
            ]
        ),
        re.S,
    ),
}
"""What holds no braces that count: comments, strings, directives, regular expressions."""
_CALL_LIKE = r"\b([A-Za-z_$]\w*)\s*\([^{};]*\)"
_HEADS = {
    "c": re.compile(r"[\w*&>\]\s:~,<]*?" + _CALL_LIKE + r"[\s\w]*\Z", re.S),
    "go": re.compile(r"\bfunc\s+(?:\([^()]*\)\s*)?(\w+)\b[^{};]*\Z", re.S),
    "rust": re.compile(r"\bfn\s+(\w+)[^{};]*\Z", re.S),
    "javascript": re.compile(r"\b([A-Za-z_$]\w*)\s*\((?:[^(){};]|\([^(){};]*\))*\)(?:\s*:[^(){};=]*)?\s*\Z", re.S),
}
_NO_FUNCTION = {"if", "for", "while", "switch", "catch", "sizeof", "return", "else", "do", "defined"}


def python_functions(text: str) -> Iterator[tuple[int, int, int]]:
    """(lead, start, end) of every function, in lines from 0, end exclusive; the lead is its decorators and comments."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(item.lineno for item in node.decorator_list)]) - 1
            lead = start
            while lead and lines[lead - 1].lstrip().startswith("#"):
                lead -= 1
            yield lead, node.lineno - 1, node.end_lineno or node.lineno


def brace_functions(text: str, kind: str = "c") -> Iterator[tuple[int, int, int]]:
    """As `python_functions`, for functions at the outermost braces and those inside ``extern``, class or namespace.

    Args:
        kind: Whose comments, strings and heads: "c" (also C++), "go", "rust" or "javascript" (also TypeScript).
    """
    blank = _NOT_CODE[kind].sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    lines = text.split("\n")
    opened: list[tuple[int, bool]] = []
    head_start = 0
    for mark in re.finditer(r"[{};]", blank):
        if mark[0] == "{":
            head = blank[head_start : mark.start()]
            inside = any(is_function for _, is_function in opened)
            found = None if inside else _HEADS[kind].search(head)
            is_function = bool(found) and found is not None and found[1] not in _NO_FUNCTION
            # Without semicolons the head holds what stands before, too.
            begin = len(head) - len(head.lstrip()) if kind == "c" or not found else found.start(1)
            opened.append((head_start + begin, is_function))
        elif mark[0] == "}" and opened:
            begin, is_function = opened.pop()
            if is_function:
                start, end = text.count("\n", 0, begin), text.count("\n", 0, mark.start()) + 1
                lead = start
                while lead and re.match(r"\s*(?://|/?\*|\*/)", lines[lead - 1]):
                    lead -= 1
                yield lead, start, end
        head_start = mark.end()
