"""Tools of the plain agent loop: failures become short answers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from agent_rag.chat import ChatReply, ToolCall, ToolSpec
from agent_rag.errors import ConfigurationError
from agent_rag.middleware.loop import FunctionTool, run_agent
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import call

from .bases import agentic

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def tool(function: Any, name: str = "add_one") -> FunctionTool:
    return FunctionTool(ToolSpec(name=name, description="d", parameters=SCHEMA), function)


async def answer_of(function: Any, arguments: Any = None, *, name: str = "add_one") -> str:
    """What the model reads after calling a tool that runs `function`."""
    reply = ChatReply(tool_calls=[ToolCall(id="1", name=name, arguments=arguments or {"a": 1})])
    model = ScriptedChatModel(reply, "done")
    run = await run_agent(model, "hello", tools=[tool(function)], tool_timeout_s=0.1)
    return run.messages[2].text


async def test_functions_may_be_sync_or_async() -> None:
    """Their answer becomes text."""

    async def later(a: int) -> int:
        return a + 1

    assert await answer_of(lambda a: a + 1) == "2"
    assert await answer_of(later) == "2"


async def test_failures_are_short_answers() -> None:
    """Errors, secrets, unknown names, bad arguments and slow tools; the run goes on."""

    def broken(a: int) -> None:
        raise RuntimeError("token=abc123 is wrong")

    assert await answer_of(broken) == "The tool add_one failed: RuntimeError: token=*** is wrong."
    assert await answer_of(broken, name="nope") == 'There is no tool "nope"; available: add_one.'
    assert "not valid JSON" in await answer_of(broken, "{broken")
    assert "TypeError" in await answer_of(broken, {"b": 1})
    assert await answer_of(lambda a: asyncio.sleep(30)) == "The tool add_one did not answer within 0.1 s."


async def test_a_blocking_function_does_not_hold_up_the_others() -> None:
    """Synchronous tools run in threads."""
    calls = [ToolCall(id=str(n), name="add_one", arguments={"a": n}) for n in range(3)]
    model = ScriptedChatModel(ChatReply(tool_calls=calls), "done")

    together = threading.Barrier(3)
    run = await run_agent(model, "hello", tools=[tool(lambda a: together.wait(timeout=20))])

    assert run.text == "done"
    assert not together.broken


async def test_two_tools_of_one_name_are_refused() -> None:
    """The model could not tell them apart."""
    with pytest.raises(ConfigurationError, match="search_knowledge"):
        await run_agent(ScriptedChatModel("x"), "hello", middleware=[agentic(FactBase()), agentic(FactBase())])


async def test_cancelling_the_run_cancels_its_tools() -> None:
    """And CancelledError comes out."""
    ended = asyncio.Event()

    async def long(a: int) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    model = ScriptedChatModel(call("add_one", a=1), "done")
    running = asyncio.create_task(run_agent(model, "hello", tools=[tool(long)], tool_timeout_s=None))
    await asyncio.sleep(0.05)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert ended.is_set()


async def test_a_conversation_of_something_else_is_refused() -> None:
    """A str among the messages is named, with what makes a message of it."""
    with pytest.raises(ConfigurationError, match=r"got a str in it; agent_rag.chat.user"):
        await run_agent(ScriptedChatModel("done"), ["hello"])  # type: ignore[list-item]


async def test_a_knowledge_base_is_no_middleware() -> None:
    """The message says how to make one of it."""
    for wrong in (FactBase(), [FactBase()]):
        with pytest.raises(ConfigurationError, match=r"middleware is a FactBase; pass RAGMiddleware\(kb\)"):
            await run_agent(ScriptedChatModel("done"), "hello", middleware=wrong)  # type: ignore[arg-type]
