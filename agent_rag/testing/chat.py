"""A chat model that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
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

    def __init__(self, *script: Step, supports_images: bool = False, delay_s: float = 0.0) -> None:
        self.supports_images = supports_images
        self.inputs: list[list[ChatMessage]] = []
        """The messages of each call."""
        self.tools: list[list[ToolSpec]] = []
        """The tools offered at each call."""
        self._script = list(script)
        self._delay_s = delay_s

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        """Raises: AssertionError: the script is over."""
        self.inputs.append([message.model_copy() for message in messages])
        self.tools.append(list(tools))
        await asyncio.sleep(self._delay_s)
        if len(self.inputs) > len(self._script):
            raise AssertionError(f"the script has {len(self._script)} steps, this is call {len(self.inputs)}")
        step = self._script[len(self.inputs) - 1]
        if isinstance(step, Exception):
            raise step
        answer = step(messages) if callable(step) else step
        return ChatReply(text=answer) if isinstance(answer, str) else answer


def texts(messages: Sequence[ChatMessage | Mapping[str, Any]]) -> str:
    """Everything a list of messages says, as one text to look into."""
    return "\n".join(message.text if isinstance(message, ChatMessage) else str(message) for message in messages)
