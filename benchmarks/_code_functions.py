"""Functions of a source file, found without tree-sitter: Python by `ast`, C and C++ by counting braces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*""", re.S | re.M
)
_HEAD = re.compile(r"[\w*&>\]\s:~,<]*?\b([A-Za-z_]\w*)\s*\([^{};]*\)[\s\w]*\Z", re.S)
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


def brace_functions(text: str) -> Iterator[tuple[int, int, int]]:
    """As `python_functions`, for functions at the outermost braces and those inside ``extern``, class or namespace."""
    blank = _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    lines = text.split("\n")
    opened: list[tuple[int, bool]] = []
    head_start = 0
    for mark in re.finditer(r"[{};]", blank):
        if mark[0] == "{":
            head = blank[head_start : mark.start()]
            inside = any(is_function for _, is_function in opened)
            found = None if inside else _HEAD.search(head)
            is_function = bool(found) and found is not None and found[1] not in _NO_FUNCTION
            opened.append((head_start + len(head) - len(head.lstrip()), is_function))
        elif mark[0] == "}" and opened:
            begin, is_function = opened.pop()
            if is_function:
                start, end = text.count("\n", 0, begin), text.count("\n", 0, mark.start()) + 1
                lead = start
                while lead and re.match(r"\s*(?://|/?\*|\*/)", lines[lead - 1]):
                    lead -= 1
                yield lead, start, end
        head_start = mark.end()
