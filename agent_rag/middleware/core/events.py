"""What the middleware reports, in the neutral callback and in the streams of the frameworks."""

from __future__ import annotations

from typing import Literal

from ...answers import Outcome
from ...events import Event
from .citation import Citation


class HintEvent(Event):
    """A hint was made for a turn. Emitted once, before the model's first call."""

    middleware: str
    """Name of the instance."""
    queries: tuple[str, ...]
    text: str
    """The hint as the model reads it."""
    citations: tuple[Citation, ...]
    dropped: int = 0
    """Hits left out to fit the token budget."""
    degraded: bool = False
    """Whether a reranker failed or a knowledge base did not answer."""


class ToolCallEvent(Event):
    """A tool call was answered. Without its content."""

    middleware: str
    tool: str
    query: str = ""
    knowledge_bases: tuple[str, ...] = ()
    hits: int = 0
    dropped: int = 0
    repeated: bool = False
    """Answered from the turn's cache, or refused as repeated too often."""
    is_error: bool = False
    degraded: bool = False
    duration_s: float = 0.0


class AnswerChecked(Event):
    """An answer was compared with the passages that it cites. Without its text."""

    middleware: str
    counts: dict[Outcome, int]
    """Outcome -> number of sentences; see `agent_rag.answers`."""
    never_shown: tuple[int, ...] = ()
    """Numbers that the answer cites and that stand for nothing."""
    judged: int = 0
    """Sentences for which a model found the place."""
    unjudged: int = 0
    """Sentences about which the model gave no answer."""


class SearchFailed(Event):
    """A part of a search failed and the turn goes on without it."""

    middleware: str
    stage: Literal["scope", "gate", "rewrite", "search", "rerank", "read", "on_results"]
    knowledge_base: str | None = None
    reason: str
    """Class and message of the error, without secrets."""
