"""OpenAI Agents SDK: ``assistant = attach(agent, RAGMiddleware([knowledge]))``, then ``await assistant.run("...")``."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._util.extras import needs
from ..chat import HINT_NAME, ChatMessage, ChatReply, Role, ToolSpec
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core import rag as core
from .core.hint import Hint, with_hints
from .core.parameters import Parameters as RAGParameters
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn, TurnRegistry

_agents = needs("openai-agents", "agents", purpose="agent_rag.middleware.openai_agents")
_interface = needs("openai-agents", "agents.models.interface")

logger = logging.getLogger("agent_rag")

# Of tool calls in runs that have no filter of ours; a turn goes with its run's usage counter.
_loose = TurnRegistry()
# From the tool to the extractor of its custom data, which is given the same context.
_results: weakref.WeakKeyDictionary[Any, ToolResult] = weakref.WeakKeyDictionary()


class RAGMiddleware:
    """Retrieval for the Agents SDK. Static: a hint after the user's message. Agentic: function tools.

    `attach` puts one or several on an agent. By hand: the agent gets `tools`, and each ``Runner.run`` a `run_config`.
    Citations are in ``ToolCallOutputItem.custom_data["citations"]``. The `scope` callable gets the run's `context`.
    """

    Parameters = RAGParameters

    def __init__(
        self,
        knowledge_bases: Sequence[Any] | core.RAGMiddleware | Any,
        parameters: RAGParameters | None = None,
        rerank_model: Any = None,
        *,
        supports_images: bool = False,
        **options: Any,
    ) -> None:
        """
        Args:
            knowledge_bases: As for `agent_rag.RAGMiddleware`, or such an object.
            rerank_model: A model of the SDK or its name, or whatever `LLMReranker` takes.
            supports_images: Whether the agent's model takes image parts.
            options: Further arguments of `agent_rag.RAGMiddleware`.
        """
        if isinstance(rerank_model, str | _interface.Model):
            rerank_model = ChatModel(rerank_model)
        if isinstance(knowledge_bases, core.RAGMiddleware):
            self.rag = knowledge_bases
        else:
            self.rag = core.RAGMiddleware(knowledge_bases, parameters, rerank_model, **options)
        self.supports_images = supports_images
        self.tools: list[Any] = [self._function_tool(tool) for tool in self.rag.tools]
        """For ``Agent(tools=...)``; empty in static mode."""

    def run_config(self, base: Any = None, *, context: Any = None) -> Any:
        """A ``RunConfig`` that adds the hint to `base`, and whose runs share the turn with the tools.

        Make one for each run: runs that share one and ask the same in the same `context` share citation numbers.

        Args:
            base: Yours; its filter and callbacks are kept. One that another instance made is extended.
            context: As given to ``Runner.run``; needed only for `persist_hint` with a `scope`.
        """
        return run_config([self], base, context=context)

    async def refresh(self) -> None:
        """Take over the filter fields of the stores into `tools`."""
        for made, tool in zip(self.tools, await self.rag.list_tools(refresh=False), strict=True):
            made.description, made.params_json_schema = tool.description, tool.parameters

    def _function_tool(self, tool: KnowledgeTool) -> Any:
        async def invoke(context: Any, arguments: str) -> Any:
            result = await tool(arguments, turn=self._turn_of(context))
            _results[context] = result
            return _output(result)

        return _agents.FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.parameters,
            on_invoke_tool=invoke,
            # Strict mode has no optional arguments and no free values, which a filter needs.
            strict_json_schema=False,
            custom_data_extractor=lambda context: _results[context.tool_context].structured(),
        )

    def _turn_of(self, context: Any) -> Turn:
        own = getattr(context.run_config, "call_model_input_filter", None)
        if isinstance(own, _Filter):
            return own.turn(context.turn_input, context.context)
        key = id(context.usage)
        if _loose.get(key) is None:
            weakref.finalize(context.usage, _loose.end, key)
        return _loose.get_or_start(key, lambda: Turn(context=context.context, supports_images=self.supports_images))


@dataclass(frozen=True)
class AttachedAgent:
    """An agent with retrieval; `run`, `run_sync` and `run_streamed` are those of ``Runner``, with its options."""

    agent: Any
    """A copy of the agent, with the tools."""
    middlewares: tuple[RAGMiddleware, ...]

    async def run(self, input: Any, **options: Any) -> Any:
        return await _agents.Runner.run(self.agent, input, **self._with_config(options))

    def run_sync(self, input: Any, **options: Any) -> Any:
        return _agents.Runner.run_sync(self.agent, input, **self._with_config(options))

    def run_streamed(self, input: Any, **options: Any) -> Any:
        return _agents.Runner.run_streamed(self.agent, input, **self._with_config(options))

    def _with_config(self, options: dict[str, Any]) -> dict[str, Any]:
        config = run_config(self.middlewares, options.get("run_config"), context=options.get("context"))
        return {**options, "run_config": config}


def attach(agent: Any, *middlewares: Any) -> AttachedAgent:
    """Put retrieval on an agent, which stays as it is.

    Args:
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.
    """
    wrapped = [one if isinstance(one, RAGMiddleware) else RAGMiddleware(one) for one in middlewares]
    tools = [tool for middleware in wrapped for tool in middleware.tools]
    return AttachedAgent(agent.clone(tools=[*agent.tools, *tools]), tuple(wrapped))


def run_config(middlewares: Sequence[RAGMiddleware], base: Any = None, *, context: Any = None) -> Any:
    """As `RAGMiddleware.run_config`, for several instances, whose hints keep this order."""
    base = base or _agents.RunConfig()
    previous = base.call_model_input_filter
    if isinstance(previous, _Filter):
        middlewares, previous = [*previous.middlewares, *middlewares], previous.base
    own = _Filter(list(middlewares), previous)
    if not any(middleware.rag.parameters.persist_hint for middleware in middlewares):
        return replace(base, call_model_input_filter=own)
    merged = base.session_input_callback

    async def store(history: list[Any], new: list[Any]) -> list[Any]:
        return await own.stored(await _awaited(merged(history, new)) if merged else [*history, *new], context)

    return replace(base, call_model_input_filter=own, session_input_callback=store)


class _Filter:
    """The ``call_model_input_filter`` of a RunConfig, with the turns of the runs that use it."""

    def __init__(self, middlewares: list[RAGMiddleware], base: Any) -> None:
        self.middlewares = middlewares
        self.base = base
        self._turns = TurnRegistry(max_turns=256)

    async def __call__(self, data: Any) -> Any:
        given = await _awaited(self.base(data)) if self.base else data.model_data
        items, hints = list(given.input), []
        for middleware in self.middlewares:
            await middleware.refresh()
        position = self._ask(items)
        if position < 0:
            return given
        first = position == len(items) - 1
        turn = self.turn(items, data.context, anew=first)
        for hint in await self._hints(turn):
            if hint.persist and not self._is_stored(items[position + 1 :], hint):
                if first:
                    logger.warning("persist_hint needs a session: the hint is shown, but not kept")
                hint = hint.model_copy(update={"persist": False})
            hints.append((hint, _item(hint)))
        return replace(given, input=self._placed(items, position, hints))

    async def stored(self, items: list[Any], context: Any) -> list[Any]:
        """The items of a session with the hint behind the new message."""
        position = self._ask(items)
        if position < 0 or position < len(items) - 1:
            return items
        turn = self.turn(items, context, anew=True)
        kept = [hint.model_copy(update={"persist": False}) for hint in await self._hints(turn) if hint.persist]
        return self._placed(items, position, [(hint, _item(hint)) for hint in kept])

    def turn(self, items: Sequence[Any], context: Any, *, anew: bool = False) -> Turn:
        """The turn that asks with the last user message of `items`; with `anew` one that has just begun.

        A turn holds its context, so that the id is of no other object while the turn is known.
        """
        position = self._ask(items)
        key = (id(context), _fingerprint(items[: position + 1]))
        if anew:
            self._turns.end(key)
        return self._turns.get_or_start(key, lambda: self._start(items, position, context))

    def _start(self, items: Sequence[Any], position: int, context: Any) -> Turn:
        return Turn(
            _blocks(items[position]) if position >= 0 else None,
            history=lambda: list(self._history(items[: max(position, 0)])),
            context=context,
            supports_images=any(middleware.supports_images for middleware in self.middlewares),
        )

    async def _hints(self, turn: Turn) -> list[Hint]:
        return [hint for one in self.middlewares if (hint := await one.rag.hint(turn)) is not None]

    def _placed(self, items: list[Any], position: int, hints: list[tuple[Hint, Any]]) -> list[Any]:
        asking = items[position]
        return with_hints(items, hints, is_ask=lambda item: item is asking, is_hint=self._is_hint)

    def _ask(self, items: Sequence[Any]) -> int:
        asks = (index for index, item in enumerate(items) if _role(item) == "user" and not self._is_hint(item))
        return max(asks, default=-1)

    def _is_hint(self, item: Any) -> bool:
        return _role(item) == "user" and any(one.rag.is_hint(_text(item)) for one in self.middlewares)

    def _is_stored(self, items: Iterable[Any], hint: Hint) -> bool:
        return any(_role(item) == "user" and _text(item) == _text(_item(hint)) for item in items)

    def _history(self, items: Iterable[Any]) -> Iterator[ChatMessage]:
        roles: dict[str, Role] = {"user": "user", "assistant": "assistant"}
        for item in items:
            if (role := roles.get(_role(item))) is not None:
                name = HINT_NAME if self._is_hint(item) else None
                yield ChatMessage(role=role, content=[TextBlock(text=_text(item))], name=name)


class ChatModel:
    """A model of the SDK, or the name of one, as the chat model of `LLMReranker` and `LLMQueryRewriter`."""

    def __init__(self, model: Any) -> None:
        self._model = _agents.MultiProvider().get_model(model) if isinstance(model, str) else model

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        response = await self._model.get_response(
            system_instructions=None,
            input=[{"role": message.role, "content": _parts(message.content)} for message in messages],
            model_settings=_agents.ModelSettings(),
            tools=[],
            output_schema=None,
            handoffs=[],
            tracing=_interface.ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        texts = [_agents.ItemHelpers.extract_last_text(item) or "" for item in response.output]
        return ChatReply(text="".join(texts))


# --- translation ---


def _item(hint: Hint) -> dict[str, Any]:
    return {"role": "user", "content": _parts(hint.blocks)}


def _parts(blocks: Sequence[ContentBlock]) -> str | list[dict[str, Any]]:
    """Text alone as a string, which every backend of the SDK takes."""
    if all(isinstance(block, TextBlock) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [
        {"type": "input_text", "text": block.text}
        if isinstance(block, TextBlock)
        else {"type": "input_image", "image_url": _url(block), "detail": "auto"}
        for block in blocks
    ]


def _output(result: ToolResult) -> Any:
    if all(isinstance(block, TextBlock) for block in result.blocks):
        return result.text
    return [
        _agents.ToolOutputText(text=block.text)
        if isinstance(block, TextBlock)
        else _agents.ToolOutputImage(image_url=_url(block))
        for block in result.blocks
    ]


def _url(block: DataBlock) -> str:
    source = block.source
    return f"data:{source.media_type};base64,{source.data}" if isinstance(source, Base64Source) else str(source.url)


def _blocks(item: Any) -> list[ContentBlock]:
    """The text and the images of a message."""
    content = item["content"]
    if isinstance(content, str):
        return [TextBlock(text=content)]
    blocks: list[ContentBlock] = []
    for part in content or ():
        head, _, data = str(part.get("image_url") or "").partition(";base64,")
        if "text" in part:
            blocks.append(TextBlock(text=part["text"]))
        elif head.startswith("data:image/") and data:
            blocks.append(DataBlock(source=Base64Source(data=data, media_type=head.removeprefix("data:"))))
    return blocks


def _text(item: Any) -> str:
    return "\n".join(block.text for block in _blocks(item) if isinstance(block, TextBlock))


def _role(item: Any) -> str:
    return str(item.get("role", "")) if "content" in item else ""


def _fingerprint(items: Iterable[Any]) -> bytes:
    """Of the messages; ids and tool traffic are left out, which the SDK rewrites."""
    said = [[item["role"], item["content"]] for item in items if _role(item)]
    return hashlib.blake2b(json.dumps(said, default=str, sort_keys=True).encode(), digest_size=16).digest()


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


__all__ = ["AttachedAgent", "ChatModel", "RAGMiddleware", "attach", "run_config"]
