"""The Haystack adapter: the shared contract, and what only Haystack has."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("haystack.hooks", reason="scripts/test adapters haystack installs it")

from haystack import component
from haystack.components.agents import Agent
from haystack.components.agents.state import State
from haystack.dataclasses import ChatMessage as HaystackMessage
from haystack.dataclasses import ImageContent, StreamingChunk, TextContent
from haystack.dataclasses import ToolCall as HaystackCall
from haystack.hooks import hook

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.errors import ConfigurationError
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.haystack import CONTEXT_KEY, attach, checked, citations
from agent_rag.middleware.haystack import RAGMiddleware as HaystackRAG
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken


@component
class ScriptedGenerator:
    """A Haystack chat generator that asks a ScriptedChatModel."""

    def __init__(self, script: ScriptedChatModel) -> None:
        self.script = script

    @component.output_types(replies=list[HaystackMessage])
    def run(self, messages: list[HaystackMessage], tools: Any = None, streaming_callback: Any = None) -> dict[str, Any]:
        reply = self.script.answer([neutral(message) for message in messages], tools=specs(tools))
        if streaming_callback is not None:
            streaming_callback(StreamingChunk(reply.text))
        return {"replies": [assistant(reply)]}

    @component.output_types(replies=list[HaystackMessage])
    async def run_async(
        self, messages: list[HaystackMessage], tools: Any = None, streaming_callback: Any = None
    ) -> dict[str, Any]:
        reply = await self.script([neutral(message) for message in messages], tools=specs(tools))
        if streaming_callback is not None:
            await streaming_callback(StreamingChunk(reply.text))
        return {"replies": [assistant(reply)]}


def specs(tools: Any) -> list[ToolSpec]:
    return [ToolSpec(**tool.tool_spec) for tool in tools or []]


def assistant(reply: ChatReply) -> HaystackMessage:
    calls = [HaystackCall(one.name, one.arguments, id=one.id) for one in reply.tool_calls]
    return HaystackMessage.from_assistant(reply.text or None, tool_calls=calls)


def neutral(message: HaystackMessage) -> ChatMessage:
    parts: list[Any] = [*message.texts, *message.images]
    for result in message.tool_call_results:
        parts += [result.result] if isinstance(result.result, str) else result.result
    return ChatMessage(role=message.role.value, content=[block(part) for part in parts])


def block(part: Any) -> TextBlock | DataBlock:
    if isinstance(part, ImageContent):
        return DataBlock(source=Base64Source(data=part.base64_image, media_type=part.mime_type))
    return TextBlock(text=part.text if isinstance(part, TextContent) else part)


def agent_of(
    model: ScriptedChatModel,
    *middlewares: RAGMiddleware,
    supports_images: bool = False,
    agent: Any = None,
    **options: Any,
) -> Agent:
    plain = Agent(chat_generator=ScriptedGenerator(model), **(agent or {}), **options)
    return attach(plain, *(HaystackRAG(middleware, supports_images=supports_images) for middleware in middlewares))


def user(text: str) -> list[HaystackMessage]:
    return [HaystackMessage.from_user(text)]


class TestHaystack(AdapterContract):
    stream_events = False
    subagents = False  # nothing is around the agent's other tools

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        agent = agent_of(model, *middlewares, supports_images=supports_images)
        return SimpleNamespace(agent=agent, sessions={})

    async def run(
        self, agent: Any, text: str, *, session: str = "s", context: Any = None, streaming_callback: Any = None
    ) -> Outcome:
        messages = agent.sessions.setdefault(session, []) + user(text)
        agent.sessions[session] = messages
        result = await self.ask(
            agent.agent,
            messages=messages,
            hook_context={CONTEXT_KEY: context},
            **({"streaming_callback": streaming_callback} if streaming_callback else {}),
        )
        agent.sessions[session] = result.pop("messages")
        return Outcome(
            text=result["last_message"].text,
            citations=result.get("citations") or [],
            cited=citations(result),
            checked=checked(result),
        )

    async def ask(self, agent: Agent, **arguments: Any) -> dict[str, Any]:
        return await agent.run_async(**arguments)

    async def stored(self, agent: Any, session: str = "s") -> str:
        return repr(agent.sessions[session])

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        async def hear(chunk: StreamingChunk) -> None:
            assert "FACT(hello)" not in repr(chunk)

        return await self.run(agent, text, session=session, streaming_callback=hear)


class TestSyncHaystack(TestHaystack):
    """The same scenarios through `run`."""

    cancels = False

    async def ask(self, agent: Agent, **arguments: Any) -> dict[str, Any]:
        return await asyncio.to_thread(agent.run, **arguments)

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        return await self.run(agent, text, session=session, streaming_callback=lambda chunk: None)


async def test_a_hook_cannot_write_to_the_stream() -> None:
    """Probe: nothing that a hook gets holds the run's streaming callback, so there is no stream event."""
    seen: list[Any] = []

    async def hear(chunk: StreamingChunk) -> None:
        pass

    @hook
    def look(state: State) -> None:
        seen.extend([*state.data.values(), *vars(state).values()])

    agent = agent_of(ScriptedChatModel("done"), static(FactBase()), hooks={"before_llm": [look]})
    await agent.run_async(user("hello"), streaming_callback=hear)

    assert seen
    assert hear not in seen


async def test_the_result_holds_nothing_of_ours_but_the_citations() -> None:
    """Neither the turn nor the caller's identity are outputs, and the caller's mapping is left alone."""
    model, mine = ScriptedChatModel(call(query="x"), "done"), {CONTEXT_KEY: "caller-ada"}

    result = await agent_of(model, agentic(FactBase())).run_async(user("hello"), hook_context=mine)

    assert mine == {CONTEXT_KEY: "caller-ada"}
    assert "caller-ada" not in repr(result)
    assert {key for key in result if "rag" in key or "context" in key} == set()
    assert result["citations"][0]["number"] == 1


async def test_other_hooks_do_not_see_the_hint() -> None:
    """A hook that stores or rewrites the conversation gets it as it is stored."""
    seen: list[str] = []

    @hook
    def look(state: State) -> None:
        seen.append(repr(state.data["messages"]))

    points = ("before_llm", "before_tool", "after_tool", "on_exit", "after_run")
    model = ScriptedChatModel(call(query="more"), "done")
    options = {"hooks": {point: [look] for point in points}}

    await agent_of(model, static(FactBase()), agentic(FactBase("faq")), **options).run_async(user("hello"))

    assert len(seen) == 6
    assert not any("FACT(hello)" in text for text in seen)
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]


async def test_the_hint_stays_with_the_question_when_a_hook_adds_a_message() -> None:
    """A user message that a hook writes to keep the agent going is not the question."""
    base = FactBase()
    added = iter([True])

    @hook
    def go_on(state: State) -> None:
        if next(added, False):
            state.set("messages", [HaystackMessage.from_user("Go on.")])
            state.set("continue_run", True)

    model = ScriptedChatModel("half", "done")

    await agent_of(model, static(base), hooks={"on_exit": [go_on]}).run_async(user("hello"))

    texts = [message.text for message in model.inputs[1]]
    assert texts[0] == "hello"
    assert "FACT(hello)" in texts[1]
    assert texts[2:] == ["half", "Go on."]
    assert base.queries == [["hello"]]


async def test_tools_hooks_and_schema_of_the_user_stay() -> None:
    """What the agent has besides is kept."""
    own = agent_of(ScriptedChatModel("done"), agentic(FactBase("other"), tool_name="other"))
    options = {"tools": own.tools, "state_schema": {"colour": {"type": str}}}

    agent = agent_of(ScriptedChatModel("done"), agentic(FactBase()), **options)

    assert [tool.name for tool in agent.tools] == ["other", "search_knowledge"]
    assert set(agent.state_schema) >= {"colour", "citations"}


async def test_fields_of_the_store_reach_the_model() -> None:
    """With filter_fields="auto" the tool is described when the model is asked."""

    class Listing(FactBase):
        async def list_documents(self) -> list[Any]:
            return [SimpleNamespace(metadata={"kind": "manual"})]

    model = ScriptedChatModel("done")

    await agent_of(model, agentic(Listing(), filter_fields="auto")).run_async(user("hello"))

    assert "- kind (text, one of manual)" in model.tools[0][0].parameters["properties"]["filter"]["description"]


def test_an_agent_with_live_knowledge_is_not_serialised() -> None:
    """Saving it says why, instead of writing a half of it."""
    agent = agent_of(ScriptedChatModel("done"), static(FactBase()))

    with pytest.raises(ConfigurationError, match="attach it anew"):
        agent.hooks["before_llm"][0].to_dict()


def test_the_example_runs() -> None:
    """examples/agents/haystack_agent.py prints a cited answer, offline."""
    example = Path(__file__).resolve().parents[2] / "examples/agents/haystack_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored messages: ['user', 'assistant', 'tool', 'assistant']\n")
