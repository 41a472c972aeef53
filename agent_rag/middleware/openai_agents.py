"""OpenAI Agents SDK: ``agent = attach(agent, RAGMiddleware([knowledge]))``, then ``await Runner.run(agent, "...")``."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from .._util.extras import needs
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage, Role
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.adapter import Adapter, FrameworkChatModel, checked_with, plain_text, shown_now
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.rag import is_known_hint
from .core.result import ToolResult
from .core.tool import KnowledgeTool
from .core.turn import Turn, TurnRegistry

_agents = needs("openai-agents", "agents", purpose="agent_rag.middleware.openai_agents")
_interface = needs("openai-agents", "agents.models.interface")

logger = logging.getLogger("agent_rag")

# The turns of a run, by what asks, under its usage counter: the one thing that hooks, tools and results share.
_runs: dict[int, dict[bytes, Turn]] = {}
# The last turns of runs with a filter, which is not shown the usage: by context and ask.
_filtered = TurnRegistry(max_turns=256)
# From the tool to the extractor of its custom data, which is given the same context.
_results: weakref.WeakKeyDictionary[Any, ToolResult] = weakref.WeakKeyDictionary()


class ChatModel(FrameworkChatModel):
    """A model of the SDK, or the name of one, as the chat model of `LLMReranker` and `LLMQueryRewriter`."""

    def __init__(self, model: Any) -> None:
        super().__init__(_agents.MultiProvider().get_model(model) if isinstance(model, str) else model)

    async def answer(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> str:
        response = await self._model.get_response(
            system_instructions=None,
            input=[{"role": message.role, "content": _parts(message.content)} for message in messages],
            model_settings=_agents.ModelSettings(max_tokens=max_tokens),
            tools=[],
            output_schema=None,
            handoffs=[],
            tracing=_interface.ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        return "".join(_agents.ItemHelpers.extract_last_text(item) or "" for item in response.output)


class RAGMiddleware(Adapter):
    """Retrieval for the Agents SDK. Static: a hint after the user's message. Agentic: function tools.

    `attach` puts one or several on an agent. By hand: the agent gets `tools`, and each ``Runner.run`` a `run_config`.
    Citations are in ``ToolCallOutputItem.custom_data["citations"]``; `citations` gives all of a run. The `scope`
    callable gets the run's `context`.
    """

    chat_models = (((str, _interface.Model), ChatModel),)

    @cached_property
    def tools(self) -> list[Any]:
        """For ``Agent(tools=...)``; empty in static mode."""
        return [self._function_tool(tool) for tool in self.rag.tools]

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
        turns = _Turns([self])

        async def invoke(context: Any, arguments: str) -> Any:
            result = await tool(arguments, turn=_turn_of(context, turns))
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


def citations(result: Any) -> list[Citation]:
    """What each number in a run's result stands for, from this process's memory of the run."""
    turns = list(_runs.get(id(result.context_wrapper.usage), {}).values())
    if not turns:
        asked = result.input if isinstance(result.input, list) else [{"role": "user", "content": result.input}]
        turn = _filtered.get(_last_ask(result.context_wrapper.context, asked))
        turns = [] if turn is None else [turn]
    return collected(*(turn.citations for turn in turns))


def checked(result: Any) -> CheckedAnswer | None:
    """The check of a run's answer, with ``check_answer=True``, from this process's memory of the run. Of agents that
    `attach` made: a ``RunConfig`` does not see the answer."""
    turns = _runs.get(id(result.context_wrapper.usage), {}).values()
    return next((turn.checked for turn in reversed(turns) if turn.checked is not None), None)


@dataclass
class AttachedAgent(_agents.Agent):  # type: ignore[misc, name-defined]
    """An agent with retrieval: in ``Runner.run``, in handoffs and as a tool. `run`, `run_sync` and `run_streamed` are
    those of ``Runner``, with its options; only they keep the hints of `persist_hint` in the session."""

    middlewares: tuple[RAGMiddleware, ...] = ()

    async def run(self, input: Any, **options: Any) -> Any:
        return await _agents.Runner.run(self, input, **self._with_config(options))

    def run_sync(self, input: Any, **options: Any) -> Any:
        return _agents.Runner.run_sync(self, input, **self._with_config(options))

    def run_streamed(self, input: Any, **options: Any) -> Any:
        return _agents.Runner.run_streamed(self, input, **self._with_config(options))

    def _with_config(self, options: dict[str, Any]) -> dict[str, Any]:
        base = options.get("run_config") or _agents.RunConfig()
        return {**options, "run_config": _storing(base, self.hooks.turns, options.get("context"))}


def attach(agent: Any, *middlewares: Any) -> AttachedAgent:
    """A copy of an agent with retrieval. Agents that take over by a handoff get theirs by an `attach` of their own; in
    one run they share the turn.

    Args:
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.
    """
    wrapped = [RAGMiddleware.of(one) for one in middlewares]
    own = [tool for middleware in wrapped for tool in middleware.tools]
    values = {field.name: getattr(agent, field.name) for field in fields(agent) if field.name != "middlewares"}
    turns = _Turns(wrapped)
    values["tools"] = [*(_sharing(tool, turns) for tool in agent.tools), *own]
    values["hooks"] = _Hooks(turns, agent.hooks)
    return AttachedAgent(**values, middlewares=tuple(wrapped))


def _sharing(tool: Any, turns: _Turns) -> Any:
    """A function tool that runs in the caller's turn: it may be a subagent, whose numbers go on."""
    if not isinstance(tool, _agents.FunctionTool):
        return tool

    async def invoke(context: Any, arguments: str) -> Any:
        with _turn_of(context, turns).active():
            return await tool.on_invoke_tool(context, arguments)

    return replace(tool, on_invoke_tool=invoke)


class _Hooks(_agents.AgentHooks):  # type: ignore[misc, name-defined]
    """An agent's own hooks, and the hints before each of its model calls."""

    def __init__(self, turns: _Turns, base: Any) -> None:
        self.turns = turns
        self._base = base if base is not None else _agents.AgentHooks()

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: list[Any]) -> None:
        # The list is what the model is sent; the session and the run's items are others.
        input_items[:] = await self.turns.prepared(list(input_items), context.context, usage=context.usage)
        await self._base.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, *arguments: Any, **options: Any) -> None:
        await self._base.on_llm_end(*arguments, **options)

    async def on_start(self, *arguments: Any, **options: Any) -> None:
        await self._base.on_start(*arguments, **options)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        for turn in list(_turns_of(context.usage).values())[-1:]:
            await checked_with([one.rag for one in self.turns.middlewares], output, turn)
        await self._base.on_end(context, agent, output)

    async def on_handoff(self, *arguments: Any, **options: Any) -> None:
        await self._base.on_handoff(*arguments, **options)

    async def on_tool_start(self, *arguments: Any, **options: Any) -> None:
        await self._base.on_tool_start(*arguments, **options)

    async def on_tool_end(self, *arguments: Any, **options: Any) -> None:
        await self._base.on_tool_end(*arguments, **options)


def run_config(middlewares: Sequence[RAGMiddleware], base: Any = None, *, context: Any = None) -> Any:
    """As `RAGMiddleware.run_config`, for several instances, whose hints keep this order."""
    base = base or _agents.RunConfig()
    previous = base.call_model_input_filter
    if isinstance(previous, _Filter):
        middlewares, previous = [*previous.turns.middlewares, *middlewares], previous.base
    own = _Filter(_Turns(list(middlewares)), previous)
    return _storing(replace(base, call_model_input_filter=own), own.turns, context)


def _storing(config: Any, turns: _Turns, context: Any) -> Any:
    """`config` with hints that are to be kept put into the session."""
    if not any(middleware.rag.parameters.persist_hint for middleware in turns.middlewares):
        return config
    merged = config.session_input_callback

    async def store(history: list[Any], new: list[Any]) -> list[Any]:
        return await turns.stored(await _awaited(merged(history, new)) if merged else [*history, *new], context)

    return replace(config, session_input_callback=store)


class _Filter:
    """The ``call_model_input_filter`` of a RunConfig."""

    def __init__(self, turns: _Turns, base: Any) -> None:
        self.turns = turns
        self.base = base

    async def __call__(self, data: Any) -> Any:
        given = await _awaited(self.base(data)) if self.base else data.model_data
        return replace(given, input=await self.turns.prepared(list(given.input), data.context))


class _Turns:
    """The turns of the runs of some middlewares, and their hints."""

    def __init__(self, middlewares: list[RAGMiddleware]) -> None:
        self.middlewares = middlewares
        # Of runs whose usage is not known here: with a filter, or before the first call of the model.
        self._turns = TurnRegistry(max_turns=256)

    async def prepared(self, items: list[Any], context: Any, *, usage: Any = None) -> list[Any]:
        """The items of a model call with the hints; the same where nobody asks."""
        for middleware in self.middlewares:
            await middleware.refresh()
        position = _ask(items)
        if position < 0:
            return items
        first = position == len(items) - 1
        turn = self.turn(items, context, anew=first) if usage is None else self.of_run(items, context, usage)
        hints = []
        for hint in await self._hints(turn):
            if hint.persist and not _is_stored(items[position + 1 :], hint):
                if first:
                    logger.warning("persist_hint needs a session: the hint is shown, but not kept")
                hint = shown_now(hint)
            hints.append((hint, _item(hint)))
        return _placed(items, position, hints)

    async def stored(self, items: list[Any], context: Any) -> list[Any]:
        """The items of a session with the hint behind the new message."""
        position = _ask(items)
        if position < 0 or position < len(items) - 1:
            return items
        turn = self.turn(items, context, anew=True)
        kept = [shown_now(hint) for hint in await self._hints(turn) if hint.persist]
        return _placed(items, position, [(hint, _item(hint)) for hint in kept])

    def turn(self, items: Sequence[Any], context: Any, *, anew: bool = False) -> Turn:
        """The turn that asks with the last user message of `items`; with `anew` one that has just begun.

        A turn holds its context, so that the id is of no other object while the turn is known.
        """
        position = _ask(items)
        key = (id(context), _fingerprint(items[: position + 1]))
        if anew:
            self._turns.end(key)
        turn = self._turns.get_or_start(key, lambda: self._start(items, position, context))
        last = _last_ask(context, items)
        if _filtered.get(last) is not turn:
            _filtered.end(last)
            _filtered.get_or_start(last, lambda: turn)
        return turn

    def of_run(self, items: Sequence[Any], context: Any, usage: Any) -> Turn:
        """The turn that asks with the last user message of `items`, in the run that counts this usage."""
        turns, position = _turns_of(usage), _ask(items)
        asked = _fingerprint(items[: position + 1])
        if asked not in turns:
            key = (id(context), asked)
            turns[asked] = self._turns.get(key) or self._start(items, position, context)
            self._turns.end(key)
        return turns[asked]

    def _start(self, items: Sequence[Any], position: int, context: Any) -> Turn:
        return self.middlewares[0]._start(
            _blocks(items[position]) if position >= 0 else None,
            lambda: list(_history(items[: max(position, 0)])),
            context,
            beside=self.middlewares[1:],
        )

    async def _hints(self, turn: Turn) -> list[Hint]:
        return [hint for one in self.middlewares if (hint := await one.rag.hint(turn)) is not None]


def _turns_of(usage: Any) -> dict[bytes, Turn]:
    key = id(usage)
    if key not in _runs:
        _runs[key] = {}
        weakref.finalize(usage, _runs.pop, key, None)
    return _runs[key]


def _turn_of(context: Any, turns: _Turns) -> Turn:
    """The turn of a tool call."""
    own = getattr(context.run_config, "call_model_input_filter", None)
    if isinstance(own, _Filter):
        return own.turns.turn(context.turn_input, context.context)
    return turns.of_run(context.turn_input, context.context, context.usage)


def _placed(items: list[Any], position: int, hints: list[tuple[Hint, Any]]) -> list[Any]:
    asking = items[position]
    return with_hints(items, hints, is_ask=lambda item: item is asking, is_hint=_is_hint)


def _ask(items: Sequence[Any]) -> int:
    asks = (index for index, item in enumerate(items) if _role(item) == "user" and not _is_hint(item))
    return max(asks, default=-1)


def _last_ask(context: Any, items: Sequence[Any]) -> tuple[int, bytes]:
    position = _ask(items)
    return id(context), _fingerprint(items[position : position + 1] if position >= 0 else [])


def _is_hint(item: Any) -> bool:
    return _role(item) == "user" and is_known_hint(_text(item))


def _is_stored(items: Iterable[Any], hint: Hint) -> bool:
    return any(_role(item) == "user" and _text(item) == _text(_item(hint)) for item in items)


def _history(items: Iterable[Any]) -> Iterator[ChatMessage]:
    roles: dict[str, Role] = {"user": "user", "assistant": "assistant"}
    for item in items:
        if (role := roles.get(_role(item))) is not None:
            name = HINT_NAME if _is_hint(item) else None
            yield ChatMessage(role=role, content=[TextBlock(text=_text(item))], name=name)
        elif item.get("type") == "function_call_output":
            output = item["output"]
            yield ChatMessage(role="tool", content=[TextBlock(text=_text({"content": output}))])


# --- translation ---


def _item(hint: Hint) -> dict[str, Any]:
    return {"role": "user", "content": _parts(hint.blocks)}


def _parts(blocks: Sequence[ContentBlock]) -> str | list[dict[str, Any]]:
    """Text alone as a string, which every backend of the SDK takes."""
    if (text := plain_text(blocks)) is not None:
        return text
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


__all__ = ["AttachedAgent", "ChatModel", "RAGMiddleware", "attach", "checked", "citations", "run_config"]
