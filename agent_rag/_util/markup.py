"""Blocks of light markup that are no prose: code, tables, directives, as spans of the text."""

from __future__ import annotations

import re

Span = tuple[int, int]
_MOST_HEADINGS = 10_000
_CHARACTERS_OF_HEADING = 64
MAX_HEADINGS = 100_000
"""As many as a document may have chunks; some bytes of a file make a heading, which takes 400."""

_ASCIIDOC = re.compile(
    r"^(?P<mark>-{4,}|\.{4,}|={4,}|\+{4,}|\*{4,}|_{4,}|/{4,}|\|={3,}|`{3,})[^\n]*\n.*?(?:^(?P=mark)[ \t]*$|\Z)",
    re.M | re.S,
)
_ORG = re.compile(r"^[ \t]*#\+begin_(?P<kind>\w+)[^\n]*\n.*?(?:^[ \t]*#\+end_(?P=kind)[^\n]*|\Z)", re.M | re.S | re.I)
_LATEX = re.compile(
    r"\\begin\{(?P<kind>verbatim\*?|lstlisting|minted|alltt|equation\*?|align\*?|tabular\*?|tabularx|longtable|table\*?"
    r"|figure\*?|algorithm\w*)\}.*?(?:\\end\{(?P=kind)\}|\Z)",
    re.S,
)
_RST_OPENING = re.compile(r"^([ \t]*)(?:\.\. [^\n]*|[^\n]*::)[ \t]*$", re.M)
_BLOCKS = {"asciidoc": _ASCIIDOC, "org": _ORG, "latex": _LATEX}


def most_headings(characters: int) -> int:
    """So many headings divide a text: 10,000, of a long one as many as have a line of text each, at most 100,000."""
    return min(max(_MOST_HEADINGS, characters // _CHARACTERS_OF_HEADING), MAX_HEADINGS)


def whole_blocks(text: str, format: object) -> list[Span]:
    """The blocks of a text in ``rst``, ``asciidoc``, ``org`` or ``latex`` that are cut only where they do not fit."""
    if format == "rst":
        return _indented_blocks(text)
    pattern = _BLOCKS.get(format) if isinstance(format, str) else None
    return [found.span() for found in pattern.finditer(text)] if pattern else []


def _indented_blocks(text: str) -> list[Span]:
    """Directives, comments and literal blocks: what is indented below a line that begins with .. or ends with ::"""
    blocks: list[Span] = []
    done = 0
    for opening in _RST_OPENING.finditer(text):
        if opening.start() < done:
            continue
        indent, stop = len(opening[1].expandtabs()), opening.end()
        at = stop + 1
        while at < len(text):
            line_end = text.find("\n", at)
            line = text[at : line_end if line_end >= 0 else len(text)]
            if line.strip():
                if len(line.expandtabs()) - len(line.expandtabs().lstrip()) <= indent:
                    break
                stop = at + len(line)
            at += len(line) + 1
        if stop > opening.end():
            blocks.append((opening.start(), stop))
            done = stop
    return blocks
