"""A client of OpenAI-compatible chat endpoints."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import SecretStr

from .._util.http import AsksByHTTP, HTTPFailure, JSONClient, secret
from ..content import DataBlock, TextBlock
from ..errors import ChatError, ChatTimeoutError, ConfigurationError
from .base import ChatMessage, ChatReply, ToolCall, ToolSpec, data_url, image_note
from .streaming import ReplyBuilder

T = TypeVar("T")


class OpenAIChatModel(AsksByHTTP):
    """Asks an OpenAI-compatible endpoint (``POST /chat/completions``). What you send leaves the machine."""

    def __init__(
        self,
        model: str | None = None,
        *,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        supports_images: bool = False,
        timeout_s: float = 60.0,
        max_attempts: int = 3,
        options: Mapping[str, Any] | None = None,
        client_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            model: Default: environment variable OPENAI_MODEL.
            api_key: Default: OPENAI_API_KEY. Servers without keys need none.
            base_url: Default: OPENAI_BASE_URL, else OpenAI's.
            supports_images: Send images as image parts; else as their caption or ``[image: name]``.
            timeout_s: Of each attempt.
            max_attempts: Including the first. 429 and 5xx are retried, respecting Retry-After; other 4xx never.
            options: Further fields of the request body, such as ``{"temperature": 0}``.
            client_kwargs: Passed to `httpx.AsyncClient` (proxy, verify, ...).

        Raises: ConfigurationError: no model is named.
        """
        chosen = model or os.environ.get("OPENAI_MODEL")
        if not chosen:
            raise ConfigurationError("OpenAIChatModel needs a model name: pass model=... or set OPENAI_MODEL")
        self.model = chosen
        self.supports_images = supports_images
        self._options = dict(options or {})
        self._takes_schema = True
        self._http = JSONClient(
            base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            api_key=secret(api_key, "OPENAI_API_KEY"),
            timeout_s=timeout_s,
            max_attempts=max_attempts,
            client_kwargs=client_kwargs,
        )

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model!r}, base_url={self._http.base_url!r})"

    async def __call__(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_tokens: int | None = None
    ) -> ChatReply:
        return _reply(await self._post(self._body(messages, max_tokens, tools)))

    async def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_tokens: int | None = None
    ) -> AsyncIterator[str | ChatReply]:
        """The text of the answer, piece by piece as it comes, and last the whole `ChatReply`, with its tool calls.

        A server that cannot stream gives the whole at once. Retried as other calls until the first piece.

        Raises: ChatError: also when the stream ends early. ChatTimeoutError.
        """
        body = {**self._body(messages, max_tokens, tools), "stream": True}
        builder = ReplyBuilder()
        async with await self._sent(body, self._http.open_lines) as lines:
            try:
                async for line in lines:
                    if text := builder.add(line):
                        yield text
            except HTTPFailure as failure:
                raise _chat_error(failure) from failure
        yield _reply(builder.message())

    async def structured(
        self, messages: Sequence[ChatMessage], schema: Mapping[str, Any], *, max_tokens: int | None = None
    ) -> str:
        """Text that follows the JSON `schema` where the server can; read it tolerantly (`read_json`)."""
        body = self._body(messages, max_tokens)
        if self._takes_schema:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}
        try:
            return _reply(await self._post(body)).text
        except ChatError as error:
            if not self._takes_schema or "response_format" not in str(error):
                raise
        self._takes_schema = False
        return await self.structured(messages, schema, max_tokens=max_tokens)

    def _body(
        self, messages: Sequence[ChatMessage], max_tokens: int | None, tools: Sequence[ToolSpec] = ()
    ) -> dict[str, Any]:
        wire = [_wire(message, images=self.supports_images) for message in messages]
        bound = {} if max_tokens is None or "max_completion_tokens" in self._options else {"max_tokens": max_tokens}
        offered = {"tools": [{"type": "function", "function": tool.model_dump()} for tool in tools]} if tools else {}
        return {"model": self.model, "messages": wire, **bound, **self._options, **offered}

    async def _post(self, body: dict[str, Any]) -> Any:
        return await self._sent(body, self._http.post)

    async def _sent(self, body: dict[str, Any], send: Callable[[str, dict[str, Any]], Awaitable[T]]) -> T:
        try:
            return await send("/chat/completions", body)
        except HTTPFailure as failure:
            if failure.status == 400 and "max_tokens" in body and "max_completion_tokens" in str(failure):
                # OpenAI's reasoning models know the newer name only.
                newer = {name: value for name, value in body.items() if name != "max_tokens"}
                return await self._sent({**newer, "max_completion_tokens": body["max_tokens"]}, send)
            raise _chat_error(failure) from failure


def _chat_error(failure: HTTPFailure) -> ChatError:
    if failure.timed_out:
        return ChatTimeoutError(f"{failure}; raise timeout_s or check base_url")
    cure = "; check api_key or OPENAI_API_KEY" if failure.status in (401, 403) else ""
    return ChatError(f"{failure}{cure}")


def _wire(message: ChatMessage, *, images: bool) -> dict[str, Any]:
    if images and any(isinstance(block, DataBlock) for block in message.content):
        content: Any = [_part(block) for block in message.content]
    else:
        content = "\n".join(
            block.text if isinstance(block, TextBlock) else image_note(block) for block in message.content
        )
    wire: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        wire["tool_calls"] = [_wire_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _part(block: TextBlock | DataBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if not block.source.media_type.startswith("image/"):
        return {"type": "text", "text": image_note(block)}
    return {"type": "image_url", "image_url": {"url": data_url(block)}}


def _wire_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reply(answer: Any) -> ChatReply:
    try:
        message = answer["choices"][0]["message"]
        calls = [_call(item, position) for position, item in enumerate(message.get("tool_calls") or [])]
        return ChatReply(text=_text(message.get("content")), tool_calls=calls)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ChatError(f"the chat endpoint answered no message: {str(answer)[:200]}") from error


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _call(item: Mapping[str, Any], position: int) -> ToolCall:
    function = item["function"]
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except ValueError:
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else arguments
    # Some servers leave the id out; it only has to be the same in the answer.
    return ToolCall(id=item.get("id") or f"call_{position}", name=function["name"], arguments=arguments)
