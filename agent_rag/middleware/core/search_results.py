"""A result as search-result blocks of Anthropic's Messages API, whose models cite them by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from ...retrieval.fence import FENCED, clean_inline
from .citation import Citation

_HEADER = re.compile(r"^\[(\d+)\] \(source: (.*)\)$", re.MULTILINE)


class Shown(Protocol):
    """A `ToolResult` or a `Hint`."""

    @property
    def text(self) -> str: ...
    @property
    def citations(self) -> tuple[Citation, ...]: ...


def search_result_blocks(result: Shown) -> list[dict[str, Any]]:
    """The content of a ``tool_result`` for the Anthropic SDK: a ``search_result`` block for each passage, with
    citations enabled, and a ``text`` block for each part around them. The model reads the same, and as clean.

    The title of a block begins with the passage's number, as in ``[1] guide.pdf, page 4``: the ``title`` of the API's
    ``search_result_location`` leads back to the `Citation`. Images are in the result's `blocks`.
    """
    places = {citation.number: citation for citation in result.citations}
    blocks: list[dict[str, Any]] = []
    end = 0
    for fence in FENCED.finditer(result.text):
        found = list(_passages(fence[0], places))
        if found:
            blocks += [*_texts(result.text[end : fence.start()]), *found]
            end = fence.end()
    return [*blocks, *_texts(result.text[end:])]


def _passages(fenced: str, places: dict[int, Citation]) -> Iterator[dict[str, Any]]:
    inside = fenced.partition("\n")[2].rpartition("\n")[0]
    parts = _HEADER.split(inside)
    for number, place, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        citation = places.get(int(number))
        source = (citation.uri or citation.source) if citation is not None else place
        yield {
            "type": "search_result",
            "source": clean_inline(source).strip('"'),
            "title": f"[{number}] {place}",
            # The API takes no blank text.
            "content": _texts(text) or _texts("(no text)"),
            "citations": {"enabled": True},
        }


def _texts(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text.strip()}] if text.strip() else []


__all__ = ["search_result_blocks"]
