"""What a tool call gives back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from ...content import ContentBlock, TextBlock
from .citation import Citation


class ToolResult(BaseModel):
    """The answer to one tool call."""

    model_config = ConfigDict(frozen=True)

    text: str
    """What a text-only model reads; an image is its caption or ``[image: name]``."""
    blocks: tuple[ContentBlock, ...] = ()
    """The same as parts; with image blocks only if the turn's model takes images. Never empty."""
    citations: tuple[Citation, ...] = ()
    """What is shown, by number: for the framework's artifact slot."""
    is_error: bool = False
    """The call could not be answered: bad arguments, or no knowledge base answered. No hits is no error."""
    degraded: bool = False
    """A knowledge base did not answer, or a reranker failed."""
    dropped: int = 0
    """Hits left out to fit the budget."""
    repeated: bool = False
    """From the turn's cache, or refused because it was repeated too often."""

    as_search_results: bool = False
    """To be shown as `search_result_blocks`, where the framework passes them on."""

    def structured(self) -> dict[str, Any]:
        """Citations and flags as plain JSON, for artifact and metadata slots that no model reads."""
        return {
            "citations": [citation.model_dump(mode="json") for citation in self.citations],
            "is_error": self.is_error,
            "degraded": self.degraded,
            "dropped": self.dropped,
        }


def said(text: str, *, is_error: bool = False, **fields: Any) -> ToolResult:
    """A result of words only."""
    return ToolResult(text=text, blocks=(TextBlock(text=text),), is_error=is_error, **fields)
