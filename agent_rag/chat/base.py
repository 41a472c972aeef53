"""Chat models: messages, and the protocol that reranking, rewriting and the plain agent loop need."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field, field_validator

from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from ..errors import ConfigurationError

Role = Literal["system", "user", "assistant", "tool"]
"""Who wrote a message."""

HINT_NAME = "agent_rag_hint"
"""Name that adapters give to hint messages, so that no one takes one for the user's words."""


class ToolCall(BaseModel):
    """A call that the model wants made."""

    id: str
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    """The arguments; text when the model sent something that is no JSON object."""


class ToolSpec(BaseModel):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments: an object."""


class ChatMessage(BaseModel):
    """One message. `content` may be given as plain text."""

    role: Role
    content: list[ContentBlock] = Field(default_factory=list)
    tool_calls: list[ToolCall] = Field(default_factory=list)
    """Of an assistant message."""
    tool_call_id: str | None = None
    """Of a tool message: the call it answers."""
    name: str | None = None
    """Who wrote it, where the role is not enough; a hint is named ``agent_rag_hint``."""
    artifact: Any = Field(default=None, exclude=True, repr=False)
    """For the application: the `ToolResult` or `Hint` behind this message. Never sent to a model."""

    @field_validator("content", mode="before")
    @classmethod
    def _blocks(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [TextBlock(text=value)] if value else []
        return [value] if isinstance(value, TextBlock | DataBlock) else value

    @property
    def text(self) -> str:
        """Its text blocks, one per line."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


class ChatReply(BaseModel):
    """What a model answered: text, tool calls, or both."""

    text: str = ""
    tool_calls: list[ToolCall] = Field(default_factory=list)

    def message(self) -> ChatMessage:
        return ChatMessage.model_validate({"role": "assistant", "content": self.text, "tool_calls": self.tool_calls})


class ChatModel(Protocol):
    """Anything that answers messages. A class attribute ``supports_images = True`` says that it takes images; one whose
    call also has ``max_tokens`` is given a bound for rankings and rewritten queries."""

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        """Answer `messages`, oldest first.

        Raises: ChatError: and ChatTimeoutError.
        """
        ...


def user(text: str) -> ChatMessage:
    """A user message of plain text."""
    return ChatMessage(role="user", content=[TextBlock(text=text)])


def system(text: str) -> ChatMessage:
    """A system message of plain text."""
    return ChatMessage(role="system", content=[TextBlock(text=text)])


def as_chat_model(model: Any) -> ChatModel:
    """`model` as a `ChatModel`: one already, a plain function from prompt text to answer text (sync or async), or a
    model with LangChain's ``ainvoke``.

    Raises: ConfigurationError: it is none of these.
    """
    if hasattr(model, "ainvoke"):
        return _InvokableModel(model)
    if inspect.isroutine(model):
        return _FunctionModel(model)
    if callable(model):
        return model  # type: ignore[no-any-return]
    raise ConfigurationError(
        f"{type(model).__name__} is no chat model; pass an agent_rag ChatModel, a function from text to text, "
        "or wrap it with the adapter of its framework"
    )


async def ask(
    model: ChatModel, messages: Sequence[ChatMessage], schema: Mapping[str, Any], *, max_tokens: int | None = None
) -> str:
    """The model's answer as text, following the JSON `schema` where the model has a ``structured`` method, of at most
    `max_tokens` where it takes such a bound."""
    structured: Callable[..., Awaitable[Any]] | None = getattr(model, "structured", None)
    call: Callable[..., Awaitable[Any]] = structured or model
    bound = {"max_tokens": max_tokens} if max_tokens is not None and _takes(call, "max_tokens") else {}
    if structured is not None:
        return str(await structured(messages, schema, **bound))
    reply: ChatReply = await call(messages, **bound)
    return reply.text


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def read_json(text: str) -> Iterator[Any]:
    """Every JSON object or array found in a model's answer, in order: bare, in a code fence, or amid prose.

    Trailing commas are forgiven; what cannot be read is skipped, after 100 failures all the rest.
    """
    decoder = json.JSONDecoder()
    position = failures = 0
    repaired = _TRAILING_COMMA.sub(r"\1", text)
    while failures < _MAX_FAILURES and (match := _JSON_START.search(repaired, position)):
        try:
            value, position = decoder.raw_decode(repaired, match.start())
        except (ValueError, RecursionError):
            position = match.start() + 1
            failures += 1
            continue
        yield value


_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
# Each failure may read to the end of the text: without a bound a hostile answer costs minutes.
_MAX_FAILURES = 100
_JSON_START = re.compile(r"[\[{]")


class _FunctionModel:
    supports_images = False

    def __init__(self, function: Callable[[str], str | Awaitable[str]]) -> None:
        self._function = function

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        answer = self._function("\n\n".join(message.text for message in messages))
        return ChatReply(text=str(await answer if inspect.isawaitable(answer) else answer))


class _InvokableModel:
    supports_images = False

    def __init__(self, model: Any) -> None:
        self._model = model

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        answer = await self._model.ainvoke([(message.role, message.text) for message in messages])
        content = getattr(answer, "content", answer)
        if isinstance(content, list):
            content = "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
        return ChatReply(text=str(content))


IMAGE_NOTE = re.compile(r"\A\[image: [^\n]*?\](?:\s+|\Z)")
"""What `image_note` puts before a caption."""


def image_note(block: DataBlock) -> str:
    """What a text-only model reads in place of an image: ``[image: name]`` and its caption."""
    note = f"[image: {' '.join((block.name or block.source.media_type).split())}]"
    return f"{note} {block.caption}" if block.caption else note


def data_url(block: DataBlock) -> str:
    """The address of an image part: a ``data:`` URL, or the block's own."""
    source = block.source
    if isinstance(source, Base64Source):
        return f"data:{source.media_type};base64,{source.data}"
    return str(source.url)
