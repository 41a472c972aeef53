"""The text of a document put together from its stored chunks: overlaps once, borders closed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

_SEPARATOR = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
_MOST_GAP = 2_000
"""Characters between two chunks that chunkers may have left out as white space; behind more, something is missing."""


class TextPart(NamedTuple):
    """What of a stored chunk is needed to put its document together."""

    chunk_index: int
    section: int | None
    span: tuple[int, int] | None
    """Characters in the section's text; None where the chunk was written anew."""
    text: str


class DocumentText(NamedTuple):
    """The text of a stored document, or what of it a filter leaves."""

    scope: str
    document_id: str
    parts: list[TextPart]
    """By chunk index."""


class Run(NamedTuple):
    """Text that follows without a break."""

    text: str
    starts: list[int]
    """Where each part begins in `text`, ascending."""
    indexes: list[int]
    """`chunk_index` of each part."""

    def index_at(self, offset: int) -> int:
        """`chunk_index` of the last part that begins at or before a character."""
        return self.indexes[max(bisect_right(self.starts, offset) - 1, 0)]


def runs(parts: Iterable[TextPart]) -> list[Run]:
    """The runs of one document.

    Parts of one section with a span are joined: what two of them share stands once, and the white space that a chunker
    left out between two is line ends again. A part without a span is a run of its own; the table header that it repeats
    from the part before is left out.

    Args:
        parts: Of one document, by index.
    """
    found: list[Run] = []
    texts: list[str] = []
    begin = end = 0
    previous: TextPart | None = None

    def close() -> None:
        if texts:
            found[-1] = found[-1]._replace(text="".join(texts))
            texts.clear()

    for part in parts:
        if part.span is not None and len(part.text) == part.span[1] - part.span[0]:
            start, stop = part.span
            if texts and previous is not None and part.section == previous.section and _joins(texts, end, part):
                texts.append("\n" * (start - end) + part.text[max(end - start, 0) :])
                found[-1].starts.append(start - begin)
                found[-1].indexes.append(part.chunk_index)
                end = max(end, stop)
            else:
                close()
                begin, end = start, stop
                texts.append(part.text)
                found.append(Run("", [0], [part.chunk_index]))
        else:
            close()
            repeated = _repeated_header(previous, part)
            found.append(Run(part.text[repeated:], [0], [part.chunk_index]))
        previous = part
    close()
    return found


def _joins(texts: list[str], end: int, part: TextPart) -> bool:
    """Whether the text that ends with `texts` goes on with `part`; also that what both hold is the same."""
    assert part.span is not None
    shared = end - part.span[0]
    if shared <= 0:
        return -shared <= _MOST_GAP
    if shared > len(part.text):
        return False
    return _ends_with(texts, part.text[:shared])


def _ends_with(texts: list[str], shared: str) -> bool:
    for text in reversed(texts):
        if len(text) >= len(shared):
            return text.endswith(shared)
        if not shared.endswith(text):
            return False
        shared = shared[: len(shared) - len(text)]
    return False


def _repeated_header(previous: TextPart | None, part: TextPart) -> int:
    """Characters of the two header lines of a table that `part` repeats from the part before; 0 for none."""
    if previous is None or previous.section != part.section or previous.chunk_index != part.chunk_index - 1:
        return 0
    first = part.text.find("\n")
    second = part.text.find("\n", first + 1)
    if first < 0 or second < 0 or not _SEPARATOR.fullmatch(part.text[first + 1 : second].strip()):
        return 0
    header = part.text[: second + 1]
    return len(header) if previous.text.startswith(header) or f"\n{header}" in previous.text else 0
