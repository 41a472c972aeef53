"""The text of a passage, and where words stand in it."""

from __future__ import annotations

import re

from .results import Quotable


def passage_text(citation: Quotable) -> tuple[str, bool]:
    """The text of a passage, and whether it is all of it: a citation that was stored has its beginning, or nothing."""
    passage = getattr(citation, "passage", None)
    return passage or citation.text, passage is None or bool(passage)


def place_of(quote: str, text: str) -> tuple[int, int] | None:
    """(start, end) of a quote in `text`, whatever its blanks and letters' case; None where it does not stand there."""
    words = re.findall(r"\S+", quote.strip().strip('"“”'))
    found = re.search(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE) if words else None
    return found.span() if found else None
