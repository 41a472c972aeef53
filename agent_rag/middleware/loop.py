"""A plain agent loop: for programs without a framework, and the shortest example of an adapter."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..answers import CheckedAnswer, check_answer
from ..chat import HINT_NAME, ChatMessage, ChatModel, ChatReply, ToolCall, ToolSpec, user
from ..content import ContentBlock, TextBlock
from ..errors import ConfigurationError
from .core.arguments import ArgumentError, as_object, echo
from .core.citation import Citation, collected
from .core.hint import Hint, with_hints
from .core.rag import RAGMiddleware
from .core.result import ToolResult
from .core.search import reason_of
from .core.tool import KnowledgeTool
from .core.turn import Turn

__all__ = ["AgentRun", "FunctionTool", "run_agent"]

logger = logging.getLogger("agent_rag")


@dataclass(frozen=True)
class FunctionTool:
    """A tool of your own: ``function(**arguments)``, sync or async, giving text or anything with a text form."""

    spec: ToolSpec
    function: Callable[..., Any | Awaitable[Any]]


Tool = FunctionTool | KnowledgeTool


class Shown(BaseModel):
    """The artifact of an answer: everything that was shown to the model in its turn."""

    citations: tuple[Citation, ...] = ()


class AgentRun(BaseModel):
    """One turn of the loop, finished."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    text: str
    """The final answer; what the model said last when the steps ran out first."""
    messages: list[ChatMessage]
    """The history to keep and pass in again: what was passed in, and the new messages. Without hints, unless
    `persist_hint`."""
    citations: list[Citation] = Field(default_factory=list)
    """What each number in `messages` stands for: in this turn, and earlier where the history came from here."""
    hints: list[Hint] = Field(default_factory=list)
    steps: int = 0
    """Calls of the model."""
    stopped: Literal["answer", "max_steps"] = "answer"
    checked: CheckedAnswer | None = None
    """`cited`, where a middleware has the option ``check_answer``, which also tells its `on_event`."""

    @property
    def cited(self) -> CheckedAnswer:
        """`text`, sentence by sentence: what the passages that it cites say, and numbers that nobody showed."""
        return self.checked or check_answer(self.text, self.citations)


def _middlewares(given: object) -> list[RAGMiddleware]:
    items: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for item in items:
        if not isinstance(item, RAGMiddleware):
            raise ConfigurationError(
                f"middleware is a {type(item).__name__}; pass RAGMiddleware(kb), or several of them"
            )
    return items


async def run_agent(
    model: ChatModel,
    messages: str | ChatMessage | Sequence[ChatMessage],
    *,
    middleware: RAGMiddleware | Sequence[RAGMiddleware] = (),
    tools: Sequence[Tool] = (),
    max_steps: int = 8,
    tool_timeout_s: float | None = 60.0,
    context: Any = None,
) -> AgentRun:
    """Let `model` answer the last user message, calling tools until it does.

    Tool calls of one step run at the same time; a tool that fails, does not exist or takes too long gives the model a
    short answer. On the last step the model gets no tools, so that it has to answer.

    Args:
        messages: The conversation, oldest first, ending with the user's message. Not changed.
        middleware: Static ones add hints, agentic ones tools.
        tools: Further tools; names differ.
        max_steps: Calls of the model, at least 1.
        tool_timeout_s: For each call; None waits for ever.
        context: The caller's identity, for `scope`.

    Raises: ChatError: the model failed. ConfigurationError: there is no user message, or two tools share a name. What a
        middleware with ``on_error="raise"`` raises. CancelledError passes through; `messages` is as it was.
    """
    history = [user(messages)] if isinstance(messages, str) else _listed(messages)
    middlewares = [middleware] if isinstance(middleware, RAGMiddleware) else _middlewares(middleware)
    if max_steps < 1:
        raise ConfigurationError(f"max_steps is {max_steps}; the model needs at least one")
    position = max((index for index, message in enumerate(history) if _is_ask(message)), default=-1)
    if position < 0:
        raise ConfigurationError("the conversation holds no user message to answer")
    turn = Turn(
        history[position],
        history=history[:position],
        context=context,
        supports_images=bool(getattr(model, "supports_images", False)),
    )
    by_name = _by_name([*tools, *[tool for one in middlewares for tool in await one.list_tools()]])
    hints = [hint for one in middlewares if (hint := await one.hint(turn)) is not None]
    history[position + 1 : position + 1] = [hint.message() for hint in hints if hint.persist]
    run = AgentRun(text="", messages=history, hints=hints)
    with turn.active():
        await _loop(run, model, by_name, turn, max_steps, tool_timeout_s)
    for one in middlewares:
        run.checked = await one.check_turn(run.text, turn) or run.checked
    if run.messages[-1].role == "assistant":
        run.messages[-1].artifact = Shown(citations=tuple(turn.citations))
    run.citations = collected(*(_citations_of(message) for message in run.messages), turn.citations)
    return run


async def _loop(
    run: AgentRun, model: ChatModel, tools: Mapping[str, Tool], turn: Turn, max_steps: int, timeout_s: float | None
) -> None:
    made = [(hint, hint.message()) for hint in run.hints]
    specs = [tool.spec for tool in tools.values()]
    for step in range(1, max_steps + 1):
        offered = specs if step < max_steps else []
        reply: ChatReply = await model(with_hints(run.messages, made, is_ask=_is_ask, is_hint=_is_hint), tools=offered)
        run.steps = step
        run.text = reply.text
        if not reply.tool_calls:
            run.messages.append(reply.message())
            return
        if step == max_steps:
            break
        results = await asyncio.gather(*(_call(tools, call, turn, timeout_s) for call in reply.tool_calls))
        run.messages += [reply.message(), *results]
    run.stopped = "max_steps"


async def _call(tools: Mapping[str, Tool], call: ToolCall, turn: Turn, timeout_s: float | None) -> ChatMessage:
    """The tool message that answers `call`."""
    blocks: Sequence[ContentBlock]
    artifact: Any = None
    try:
        tool = tools.get(call.name)
        if tool is None:
            raise ArgumentError(f"There is no tool {echo(call.name)}; available: {', '.join(tools) or 'none'}.")
        async with asyncio.timeout(timeout_s):
            if isinstance(tool, KnowledgeTool):
                artifact = await tool(call.arguments, turn=turn)
                blocks = artifact.blocks
            else:
                blocks = [TextBlock(text=await _run_function(tool, call.arguments))]
    except ArgumentError as error:
        blocks = [TextBlock(text=str(error))]
    except TimeoutError:
        blocks = [TextBlock(text=f"The tool {call.name} did not answer within {timeout_s or 0:g} s.")]
    except Exception as error:
        logger.warning("tool %s failed", call.name, exc_info=True)
        blocks = [TextBlock(text=f"The tool {call.name} failed: {reason_of(error)}.")]
    return ChatMessage(role="tool", content=list(blocks), tool_call_id=call.id, name=call.name, artifact=artifact)


async def _run_function(tool: FunctionTool, arguments: Any) -> str:
    """Synchronous functions run in a thread, so that one does not hold up the others."""
    given = as_object(arguments)
    if inspect.iscoroutinefunction(tool.function):
        return str(await tool.function(**given))
    answer = await asyncio.to_thread(tool.function, **given)
    return str(await answer if inspect.isawaitable(answer) else answer)


def _citations_of(message: ChatMessage) -> tuple[Citation, ...]:
    return message.artifact.citations if isinstance(message.artifact, Shown | Hint | ToolResult) else ()


def _is_ask(message: ChatMessage) -> bool:
    return message.role == "user" and message.name != HINT_NAME


def _is_hint(message: ChatMessage) -> bool:
    return message.name == HINT_NAME


def _listed(messages: ChatMessage | Sequence[ChatMessage]) -> list[ChatMessage]:
    listed = [messages] if isinstance(messages, ChatMessage) else list(messages)
    for message in listed:
        if not isinstance(message, ChatMessage):
            raise ConfigurationError(
                f"a conversation is a list of ChatMessage, got a {type(message).__name__} in it; "
                "agent_rag.chat.user(text) makes one"
            )
    return listed


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    by_name: dict[str, Tool] = {}
    for tool in tools:
        if tool.spec.name in by_name:
            raise ConfigurationError(f"two tools are called {tool.spec.name!r}; set tool_name on one middleware")
        by_name[tool.spec.name] = tool
    return by_name
