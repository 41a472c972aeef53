"""Strands Agents: ``Agent(plugins=[RAGMiddleware([knowledge])])``."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from .._util.extras import needs
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage, image_note
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.adapter import CITATIONS_KEY, Adapter, FrameworkChatModel, check_in, checked_with
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.tool import KnowledgeTool
from .core.turn import Turn

_plugins = needs("strands", "strands.plugins", purpose="agent_rag.middleware.strands")
_middleware = needs("strands", "strands.middleware")
_hooks = needs("strands", "strands.hooks")
_models = needs("strands", "strands.models")
_tools = needs("strands", "strands.tools.tools")

_HINT_BLOCKS = "agent_rag_hint_blocks"
_IMAGE_FORMATS = ("png", "jpeg", "gif", "webp")


class ChatModel(FrameworkChatModel):
    """A Strands model as the chat model of `LLMReranker` and `LLMQueryRewriter`. Its token limit is the model's own."""

    async def answer(self, messages: Sequence[ChatMessage], max_tokens: int | None) -> str:
        asked = [{"role": message.role, "content": [{"text": message.text}]} for message in messages]
        deltas = [
            event["contentBlockDelta"]["delta"]
            async for event in self._model.stream(asked)
            if "contentBlockDelta" in event
        ]
        return "".join(delta.get("text", "") for delta in deltas)


class RAGMiddleware(Adapter, _plugins.Plugin):  # type: ignore[misc, name-defined]
    """Retrieval as Strands plugin. Static: a hint at the end of the user's message. Agentic: tools of the agent.

    Citations are in ``toolResult["structuredContent"]["citations"]``, the slot of Strands' own MCP tools, which no
    provider is sent, and all of a run in the state of its result; `citations` reads them. A static turn streams
    ``{"agent_rag_hint": {...}}``. The `scope` callable gets the run's ``invocation_state``, or what `context` makes of
    it. One object serves any number of agents.
    """

    chat_models = ((_models.Model, ChatModel),)

    def _plug(self) -> None:
        _plugins.Plugin.__init__(self)

    @property
    def name(self) -> str:
        return self.rag.name

    @property
    def tools(self) -> list[Any]:
        return [_agent_tool(tool) for tool in self.rag.tools]

    def init_agent(self, agent: Any) -> None:
        agent.add_hook(self._begin, _hooks.BeforeInvocationEvent)
        agent.add_hook(self._end, _hooks.AfterInvocationEvent)
        agent.add_middleware(_middleware.InvokeModelStage, self._call_model)
        agent.add_middleware(_middleware.ExecuteToolStage, self._execute_tool)

    # --- the turn begins and ends ---

    async def _begin(self, event: Any) -> None:
        key = _key(event.agent)
        run = event.invocation_state.get(key)
        if run is None:
            turn = self._start_at([*event.agent.messages, *(event.messages or [])], event.invocation_state)
            run = event.invocation_state[key] = _Run(turn)
        try:
            await self.rag.list_tools(refresh=False)
            hint = await self.rag.hint(run.turn)
        except BaseException:
            # Strands sends no AfterInvocationEvent then, and the state may serve another run.
            self._end(event)
            raise
        if hint is not None and hint.persist:
            event.messages = _persisted(event.messages or [], hint)

    def _end(self, event: Any) -> None:
        event.invocation_state.pop(_key(event.agent), None)

    def _start_at(self, messages: Sequence[Any], invocation_state: dict[str, Any]) -> Turn:
        position = max((index for index, message in enumerate(messages) if _is_ask(message)), default=-1)
        return self._start(
            _blocks(_said(messages[position])) if position >= 0 else None,
            lambda: _history(messages[: max(position, 0)]),
            invocation_state,
        )

    # --- each model call and tool call ---

    async def _call_model(
        self, context: Any, next_fn: Callable[[Any], AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        run = context.invocation_state.get(_key(context.agent))
        hint = None if run is None else await self.rag.hint(run.turn)
        if hint is not None:
            if hint.event is not None and self.rag.key not in run.announced:
                run.announced.add(self.rag.key)
                yield _middleware.TypedEvent({"agent_rag_hint": hint.event.model_dump(mode="json")})
            context = _with_hint(context, hint)
        if run is not None:
            # The state of the result, in which an application finds what its answer cites.
            places = [citation.place() for citation in run.turn.citations]
            context.invocation_state.setdefault("request_state", {})[CITATIONS_KEY] = places
        if self.rag.parameters.filter_fields == "auto":
            fresh = {tool.name: _spec(tool) for tool in self.rag.tools}
            context = context.replace(tool_specs=[fresh.get(spec["name"], spec) for spec in context.tool_specs])
        async for event in next_fn(context):
            if run is not None and "stop" in event and event["stop"][0] != "tool_use":
                answer = "\n".join(part["text"] for part in event["stop"][1]["content"] if "text" in part)
                context.invocation_state["request_state"].update(await checked_with([self.rag], answer, run.turn))
            yield event

    async def _execute_tool(
        self, context: Any, next_fn: Callable[[Any], AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        run = context.invocation_state.get(_key(context.agent))
        own = next((tool for tool in self.rag.tools if tool.name == context.tool_use["name"]), None)
        if run is not None and own is not None:
            context = context.replace(tool=_agent_tool(own, run.turn))
        # It may run a subagent, whose numbers go on.
        with run.turn.active() if run is not None else nullcontext():
            async for event in next_fn(context):
                yield event


@dataclass
class _Run:
    """In the ``invocation_state`` of the run, by agent: agents of a graph share the state."""

    turn: Turn
    announced: set[str] = field(default_factory=set)
    """Instances whose hint was streamed."""


def citations(result: Any) -> list[Citation]:
    """What each number in an ``AgentResult`` stands for."""
    return collected((result.state or {}).get(CITATIONS_KEY) or ())


def checked(result: Any) -> CheckedAnswer | None:
    """The check of the answer in an ``AgentResult``, with ``check_answer=True``."""
    return check_in([result.state])


def _key(agent: Any) -> str:
    return f"agent_rag_run_{id(agent)}"


def _spec(tool: KnowledgeTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.parameters}}


def _agent_tool(tool: KnowledgeTool, turn: Turn | None = None) -> Any:
    async def answer(tool_use: dict[str, Any], **invocation_state: Any) -> dict[str, Any]:
        result = await tool(tool_use["input"], turn=turn)
        return {
            "toolUseId": tool_use["toolUseId"],
            "status": "error" if result.is_error else "success",
            "content": [_content(block) for block in result.blocks],
            "structuredContent": result.structured(),
        }

    return _tools.PythonAgentTool(tool.name, _spec(tool), answer)


def _with_hint(context: Any, hint: Hint) -> Any:
    """The hint in the user's message: providers want the roles to alternate."""
    made = {"role": "user", "content": [_content(block) for block in hint.blocks]}
    messages = with_hints(context.messages, [(hint, made)], is_ask=_is_ask)
    position = next((index for index, message in enumerate(messages) if message is made), None)
    if position is None:
        return context
    ask = messages[position - 1]
    messages[position - 1 : position + 1] = [{**ask, "content": [*ask["content"], *made["content"]]}]
    # Cache points go before what later turns will not have; a fold into an earlier message cannot be told.
    trailing = len(made["content"]) if position == len(messages) else 0
    return context.replace(messages=messages, dynamic_trailing_blocks=context.dynamic_trailing_blocks + trailing)


def _persisted(messages: Sequence[Any], hint: Hint) -> list[Any]:
    """The input with the hint in its last question, marked in metadata, which Strands stores and never sends."""
    position = max((index for index, message in enumerate(messages) if _is_ask(message)), default=-1)
    if position < 0:
        return list(messages)
    ask = messages[position]
    metadata = ask.get("metadata", {})
    count = _hint_blocks(ask) + len(hint.blocks)
    marked = {
        **ask,
        "content": [*ask["content"], *(_content(block) for block in hint.blocks)],
        "metadata": {**metadata, "custom": {**metadata.get("custom", {}), _HINT_BLOCKS: count}},
    }
    return [*messages[:position], marked, *messages[position + 1 :]]


def _hint_blocks(message: Any) -> int:
    return int(message.get("metadata", {}).get("custom", {}).get(_HINT_BLOCKS, 0))


def _said(message: Any) -> list[Any]:
    """The content without a persisted hint."""
    content = list(message["content"])
    return content[: len(content) - _hint_blocks(message)]


def _content(block: ContentBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"text": block.text}
    kind = block.source.media_type.removeprefix("image/")
    if isinstance(block.source, Base64Source) and kind in _IMAGE_FORMATS:
        return {"image": {"format": kind, "source": {"bytes": base64.b64decode(block.source.data)}}}
    return {"text": image_note(block)}


def _blocks(content: Iterable[Any]) -> list[ContentBlock]:
    """The text and the images of a Strands message."""
    blocks: list[ContentBlock] = []
    for part in content:
        if part.get("text"):
            blocks.append(TextBlock(text=part["text"]))
        elif isinstance(data := part.get("image", {}).get("source", {}).get("bytes"), bytes):
            media_type = f"image/{part['image']['format']}"
            source = Base64Source(data=base64.b64encode(data).decode("ascii"), media_type=media_type)
            blocks.append(DataBlock(source=source))
    return blocks


def _history(messages: Iterable[Any]) -> list[ChatMessage]:
    history = []
    for message in messages:
        count = len(message["content"]) - _hint_blocks(message)
        own, hint = message["content"][:count], message["content"][count:]
        results = [one for part in own if "toolResult" in part for one in part["toolResult"]["content"]]
        history.append(ChatMessage(role=message["role"], content=_blocks(own)))
        history.append(ChatMessage(role="user", content=_blocks(hint), name=HINT_NAME))
        history.append(ChatMessage(role="tool", content=_blocks(results)))
    return [message for message in history if message.content]


def _is_ask(message: Any) -> bool:
    """A message of the user; tool results have the user's role too."""
    return bool(message["role"] == "user" and not any("toolResult" in block for block in message["content"]))


__all__ = ["ChatModel", "RAGMiddleware", "checked", "citations"]
