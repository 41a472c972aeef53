"""The pieces of a streamed answer of an OpenAI-compatible endpoint, put together."""

from __future__ import annotations

import json
from typing import Any

from ..errors import ChatError


class ReplyBuilder:
    """Takes the lines of an event stream, one by one; `message` is what they are together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._plain: list[str] = []
        self._ended = False

    def add(self, line: str) -> str:
        """The text that a line brings; "" for tool calls, comments and blank lines.

        Raises: ChatError: the line is no event, or tells an error of the server.
        """
        name, _, data = line.partition(":")
        if name != "data":
            if line.strip() and name not in ("event", "id", "retry", ""):
                self._plain.append(line)  # a server that does not stream answers a whole JSON
            return ""
        if data.strip() == "[DONE]":
            self._ended = True
            return ""
        event = _read(data)
        if event.get("error"):
            raise ChatError(f"the chat endpoint failed while it answered: {str(event['error'])[:500]}")
        choices = event.get("choices") or [{}]
        self._ended = self._ended or choices[0].get("finish_reason") is not None
        delta = choices[0].get("delta") or {}
        for call in delta.get("tool_calls") or []:
            self._add_call(call)
        text = delta.get("content") or ""
        self._text.append(text)
        return str(text)

    def message(self) -> dict[str, Any]:
        """The whole answer, in the shape of one that is not streamed.

        Raises: ChatError: the stream ended before the answer did.
        """
        if self._plain:
            return _read("\n".join(self._plain))
        if not self._ended:
            raise ChatError("the chat endpoint ended its answer in the middle; try again")
        calls = [self._calls[index] for index in sorted(self._calls)]
        return {"choices": [{"message": {"content": "".join(self._text), "tool_calls": calls}}]}

    def _add_call(self, part: dict[str, Any]) -> None:
        call = self._calls.setdefault(
            part.get("index", len(self._calls)), {"id": None, "function": {"name": "", "arguments": ""}}
        )
        function = part.get("function") or {}
        call["id"] = call["id"] or part.get("id")
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ChatError(f"the chat endpoint sent no JSON: {text[:200]!r}") from error
    if not isinstance(value, dict):
        raise ChatError(f"the chat endpoint sent no event: {text[:200]!r}")
    return value
