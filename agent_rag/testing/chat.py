"""A chat model that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ..chat import ChatMessage, ChatReply, ToolCall, ToolSpec

Step = str | ChatReply | Exception | Callable[[Sequence[ChatMessage]], "str | ChatReply"]


def call(name: str = "search_knowledge", /, *, id: str = "call_1", **arguments: Any) -> ChatReply:
    """A reply that calls one tool."""
    return ChatReply(tool_calls=[ToolCall(id=id, name=name, arguments=arguments)])


class ScriptedChatModel:
    """Answers with the steps of a script, one for each call, and keeps what it was sent.

    A step is a text, a `ChatReply` (see `call`), an exception to raise, or a function of the messages.
    """

    def __init__(
        self, *script: Step, otherwise: Step | None = None, supports_images: bool = False, delay_s: float = 0.0
    ) -> None:
        """
        Args:
            otherwise: The step of every call after the script.
        """
        self.supports_images = supports_images
        self.inputs: list[list[ChatMessage]] = []
        """The messages of each call."""
        self.tools: list[list[ToolSpec]] = []
        """The tools offered at each call."""
        self._script = list(script)
        self._otherwise = otherwise
        self._delay_s = delay_s

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        """Raises: AssertionError: the script is over."""
        await asyncio.sleep(self._delay_s)
        return self.answer(messages, tools=tools)

    def answer(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        """The same for synchronous callers."""
        self.inputs.append(list(messages))
        self.tools.append(list(tools))
        step = self._script[len(self.inputs) - 1] if len(self.inputs) <= len(self._script) else self._otherwise
        if step is None:
            raise AssertionError(f"the script has {len(self._script)} steps, this is call {len(self.inputs)}")
        if isinstance(step, Exception):
            raise step
        answer = step(messages) if callable(step) else step
        return ChatReply(text=answer) if isinstance(answer, str) else answer


def spoken(messages: Sequence[ChatMessage]) -> str:
    """Everything a list of messages says, as one text to look into."""
    return "\n".join(message.text for message in messages)
