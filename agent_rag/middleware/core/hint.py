"""The hint: what a static middleware puts before the model, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ...chat import HINT_NAME, ChatMessage
from ...content import ContentBlock
from .citation import Citation
from .events import HintEvent

M = TypeVar("M")


class Hint(BaseModel):
    """What was found for a turn, ready to be shown."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The whole hint as text; an image is its caption or ``[image: name]``."""
    blocks: tuple[ContentBlock, ...]
    """The hint as parts of one message; with image blocks only if the turn's model takes images."""
    citations: tuple[Citation, ...] = ()
    queries: tuple[str, ...] = ()
    """What was searched for."""
    dropped: int = 0
    """Hits left out to fit the budget."""
    degraded: bool = False
    """A reranker failed or a knowledge base did not answer."""
    scope: Literal["turn", "call"] = "turn"
    persist: bool = False
    """Store it in the history as a message of its own after the user's; do not insert it again."""
    event: HintEvent | None = Field(default=None, repr=False)
    """For the framework's stream; None when `emit_hint_event` is off."""

    def shown(self, *, first_call: bool) -> bool:
        """Whether the model sees it on this call of the turn."""
        return self.scope == "turn" or first_call

    def message(self) -> ChatMessage:
        """The hint as a user message, to follow the user's."""
        return ChatMessage(role="user", content=list(self.blocks), name=HINT_NAME, artifact=self)


def with_hints(
    messages: Sequence[M],
    hints: Iterable[tuple[Hint, M]],
    *,
    is_ask: Callable[[M], bool],
    is_hint: Callable[[M], bool] = lambda message: False,
) -> list[M]:
    """A copy of `messages` with the hints right after the user's message of this turn.

    Args:
        messages: What the model is about to get, oldest first. Not changed.
        hints: Each hint and the framework's message made of it. Persisted ones are left out: they are stored already.
        is_ask: Whether a message is the user's own: of the user's role, and no hint, tool result or media echo. The
            last one is this turn's.
        is_hint: Whether a message is a hint, put there by another instance or stored. New ones go after those, and with
            ``scope="call"`` a hint is shown only while nothing else follows the user's message.
    """
    position = max((index for index, message in enumerate(messages) if is_ask(message)), default=-1)
    if position < 0:
        return list(messages)
    while position + 1 < len(messages) and is_hint(messages[position + 1]):
        position += 1
    first_call = position == len(messages) - 1
    shown = [made for hint, made in hints if not hint.persist and hint.shown(first_call=first_call)]
    return [*messages[: position + 1], *shown, *messages[position + 1 :]]
