"""LlamaIndex: ``agent = attach(FunctionAgent(llm=llm), RAGMiddleware([knowledge]))``. For every workflow agent."""

from __future__ import annotations

import base64
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from .._util.extras import needs
from .._util.sync import run_sync
from ..answers import CheckedAnswer
from ..chat import HINT_NAME, ChatMessage
from ..content import Base64Source, ContentBlock, DataBlock, TextBlock
from .core.adapter import Adapter, checked_with, derived, named_as, shown_now
from .core.citation import Citation
from .core.events import HintEvent
from .core.hint import Hint, with_hints
from .core.result import ToolResult
from .core.search_results import search_result_blocks
from .core.tool import KnowledgeTool
from .core.turn import Turn

_llms = needs("llama-index", "llama_index.core.llms", purpose="agent_rag.middleware.llama_index")
_tools = needs("llama-index", "llama_index.core.tools")
_workflow = needs("llama-index", "llama_index.core.workflow")

CONTEXT_KEY = "agent_rag_context"
"""Key in ``ctx.store`` of what the `scope` callable gets."""

_TURN_KEY = "agent_rag_turn"
_TALK = ("user", "assistant", "tool")

# By the answer's message, which the output of a run holds.
_answers: dict[int, Turn] = {}


class RAGHintEvent(_workflow.Event):  # type: ignore[misc, name-defined]
    """In the stream of a run: the hint of a static turn."""

    hint: HintEvent


class _Run(str):
    """The turn's id for whoever serialises the context; for us the turn of one run, of all agents and instances."""

    turn: Turn
    ask: str | None
    """The text of the message that asks, as the model reads it. None: not known, the turn began in a tool."""
    told: set[str]
    """Keys of the instances whose hint was shown."""

    def __deepcopy__(self, memo: Any) -> _Run:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)


class RAGMiddleware(Adapter):
    """Retrieval for a LlamaIndex agent; see `attach`. The `scope` callable gets what ``ctx.store`` holds under
    `CONTEXT_KEY`."""


def attach(agent: Any, *middlewares: Any) -> Any:
    """A copy of a workflow agent with retrieval. Agents in one `AgentWorkflow` share the turn.

    Static: a hint after the user's message, in the model's input only. Agentic: tools of the agent, with citations in
    ``ToolOutput.raw_output["citations"]``. A static turn writes a `RAGHintEvent` to the stream of the run. `citations`
    gives what a run has shown.

    Args:
        agent: A FunctionAgent, ReActAgent, CodeActAgent or another `BaseWorkflowAgent`.
        middlewares: Of `RAGMiddleware`; or knowledge bases, each for a tool of default options.
    """
    wrapped = [RAGMiddleware.of(one) for one in middlewares]
    kind: Any = type(agent)

    def own_tools() -> list[Any]:
        return [KnowledgeFunctionTool(tool, one) for one in wrapped for tool in one.rag.tools]

    class RAGAgent(kind):  # type: ignore[misc]
        async def take_step(self, ctx: Any, llm_input: list[Any], tools: Sequence[Any], memory: Any) -> Any:
            for one in wrapped:
                await one.rag.list_tools(refresh=False)
            # Described anew, since fields of the stores may be known by now.
            fresh = {tool.metadata.name: tool for tool in own_tools()}
            tools = [fresh.get(tool.metadata.name, tool) for tool in tools]
            messages = await _hinted(wrapped, ctx, llm_input, memory)
            output = await super().take_step(ctx, messages, tools, memory)
            if not output.tool_calls:
                turn = (await ctx.store.get(_TURN_KEY)).turn
                await checked_with([one.rag for one in wrapped], output.response.content, turn)
                _remember(output.response, turn)
            return output

    made = derived(agent, named_as(RAGAgent, kind))
    # An AgentWorkflow reads this list, and does not call `get_tools`.
    made.tools = [*(agent.tools or []), *own_tools()]
    return made


def citations(output: Any) -> list[Citation]:
    """What each number in the output of a run stands for, from this process's memory of the run."""
    turn = _answers.get(id(output.response))
    return turn.citations if turn is not None else []


def checked(output: Any) -> CheckedAnswer | None:
    """The check of the answer of a run, with ``check_answer=True``, from this process's memory of the run."""
    turn = _answers.get(id(output.response))
    return turn.checked if turn is not None else None


def _remember(answer: Any, turn: Turn) -> None:
    _answers[id(answer)] = turn
    weakref.finalize(answer, _answers.pop, id(answer), None)


class KnowledgeFunctionTool(_tools.FunctionTool):  # type: ignore[misc, name-defined]
    """A tool of the middleware as a LlamaIndex tool. Outside of an agent, each call is a turn of its own."""

    def __init__(self, tool: KnowledgeTool, middleware: RAGMiddleware) -> None:
        super().__init__(async_fn=tool.__call__, metadata=_RawSchema(tool))
        # The framework hands the run's context to function tools that say so.
        self.requires_context = True
        self.ctx_param_name = "ctx"
        self._tool = tool
        self._middleware = middleware

    async def acall(self, *args: Any, ctx: Any = None, **arguments: Any) -> Any:
        turn = None
        if ctx is not None:
            turn = (await _resume(self._middleware, ctx)).turn
        result = await self._tool(arguments, turn=turn)
        return _tools.ToolOutput(
            tool_name=self._tool.name,
            blocks=_result_blocks(result),
            raw_input=arguments,
            raw_output=result.structured(),
            is_error=result.is_error,
        )

    def call(self, *args: Any, **arguments: Any) -> Any:
        return run_sync(self.acall(*args, **arguments))


class _RawSchema(_tools.ToolMetadata):  # type: ignore[misc, name-defined]
    """Metadata with a JSON schema instead of a Pydantic model."""

    def __init__(self, tool: KnowledgeTool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._parameters = tool.parameters

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._parameters

    def to_openai_tool(self, skip_length_check: bool = False) -> dict[str, Any]:
        # The check counts 1,024 characters, which the list of the knowledge bases may well exceed.
        return super().to_openai_tool(skip_length_check=True)  # type: ignore[no-any-return]


# --- the turn of a run ---


async def _hinted(middlewares: Sequence[RAGMiddleware], ctx: Any, messages: list[Any], memory: Any) -> list[Any]:
    """What the model is about to get, with the hints. The scratchpad of the run is appended later."""
    hints = [one.rag for one in middlewares if one.rag.mode == "static"]

    def is_hint(message: Any) -> bool:
        return message.role == "user" and any(rag.is_hint(message.content or "") for rag in hints)

    run = await _current(middlewares, ctx, messages, is_hint)
    made = []
    for rag in hints:
        hint = await rag.hint(run.turn)
        if hint is None:
            continue
        fresh = rag.key not in run.told
        run.told.add(rag.key)
        if fresh and hint.event is not None:
            ctx.write_event_to_stream(RAGHintEvent(hint=hint.event))
        if fresh and hint.persist:
            await memory.aput(_hint_message(hint))
        if fresh or (hint.scope == "turn" and not hint.persist):
            # Until the next call reads the memory, a persisted hint is inserted like any other.
            made.append((shown_now(hint), _hint_message(hint)))

    def is_ask(message: Any) -> bool:
        if message.role != "user" or is_hint(message):
            return False
        return run.ask is None or message.content == run.ask

    return with_hints(messages, made, is_ask=is_ask, is_hint=is_hint)


async def _current(middlewares: Sequence[RAGMiddleware], ctx: Any, messages: list[Any], is_hint: Any) -> _Run:
    """The run that `ctx` is in; a new one on its first step, also where a context serves several runs."""
    run = await ctx.store.get(_TURN_KEY, default=None)
    if isinstance(run, _Run) and await ctx.store.get("num_iterations", default=0) > 0:
        return run
    asks = [index for index, message in enumerate(messages) if message.role == "user" and not is_hint(message)]
    position = asks[-1] if asks else 0
    ask = messages[position] if asks else None
    # The agent writes its state into the message; the user's words alone are in the store.
    text = await ctx.store.get("user_msg_str", default=None) or (ask.content if ask is not None else None) or ""
    images = [] if ask is None else list(_images(ask))
    turn = middlewares[0]._start(
        [text, *images],
        lambda: [_neutral(one, is_hint(one)) for one in messages[:position] if one.role in _TALK],
        await ctx.store.get(CONTEXT_KEY, default=None),
        beside=middlewares[1:],
    )
    return await _keep(ctx, turn, None if ask is None else ask.content)


async def _resume(middleware: RAGMiddleware, ctx: Any) -> _Run:
    """The run that `ctx` is in; from a context that was stored amid a run, a new one that goes on with its question."""
    run = await ctx.store.get(_TURN_KEY, default=None)
    if isinstance(run, _Run):
        return run
    turn = middleware._start(
        await ctx.store.get("user_msg_str", default=None), (), await ctx.store.get(CONTEXT_KEY, default=None)
    )
    return await _keep(ctx, turn, None)


async def _keep(ctx: Any, turn: Turn, ask: str | None) -> _Run:
    run = _Run(turn.id)
    run.turn, run.ask, run.told = turn, ask, set()
    await ctx.store.set(_TURN_KEY, run)
    return run


# --- translation ---


def _hint_message(hint: Hint) -> Any:
    # No name: integrations send `additional_kwargs` to the provider, and some providers refuse unknown fields.
    return _llms.ChatMessage(role="user", blocks=[_block(block) for block in hint.blocks])


def _result_blocks(result: ToolResult) -> list[Any]:
    if not result.as_search_results:
        return [_block(block) for block in result.blocks]
    images = [_block(block) for block in result.blocks if isinstance(block, DataBlock)]
    return [*map(_search_result, search_result_blocks(result)), *images]


def _search_result(block: dict[str, Any]) -> Any:
    """What llama-index-llms-anthropic makes a search-result block again."""
    if block["type"] == "text":
        return _llms.TextBlock(text=block["text"])
    content = [_llms.TextBlock(text=part["text"]) for part in block["content"]]
    return _llms.CitableBlock(title=block["title"], source=block["source"], content=content)


def _block(block: ContentBlock) -> Any:
    if isinstance(block, TextBlock):
        return _llms.TextBlock(text=block.text)
    source = block.source
    where = {"image": base64.b64decode(source.data)} if isinstance(source, Base64Source) else {"url": str(source.url)}
    return _llms.ImageBlock(image_mimetype=source.media_type, **where)


def _images(message: Any) -> Iterator[DataBlock]:
    """The images of a message that are at hand: none is fetched."""
    for block in message.blocks:
        if block.block_type == "image" and isinstance(block.image, bytes):
            source = Base64Source(data=block.image.decode(), media_type=block.image_mimetype or "image/png")
            yield DataBlock(source=source)


def _neutral(message: Any, is_hint: bool) -> ChatMessage:
    name = HINT_NAME if is_hint else None
    return ChatMessage(role=message.role.value, content=[TextBlock(text=message.content or "")], name=name)


__all__ = ["CONTEXT_KEY", "KnowledgeFunctionTool", "RAGHintEvent", "RAGMiddleware", "attach", "checked", "citations"]
