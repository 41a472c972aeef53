"""The Strands adapter: the shared contract, and what only Strands has."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="scripts/test adapters strands installs it")

from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.middleware import InvokeModelStage
from strands.models import Model
from strands.session import FileSessionManager

from agent_rag.chat import ChatMessage, ToolSpec
from agent_rag.content import Base64Source, ContentBlock, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.strands import RAGMiddleware as StrandsRAG
from agent_rag.middleware.strands import checked, citations
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import hit
from tests.shared import ROOT


class ScriptedModel(Model):
    """A Strands model that asks a ScriptedChatModel."""

    def __init__(self, script: ScriptedChatModel) -> None:
        self.script = script

    def update_config(self, **options: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *arguments: Any, **options: Any) -> Any:
        yield {}

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **options: Any
    ) -> AsyncIterator[dict[str, Any]]:
        specs = [
            ToolSpec(name=one["name"], description=one["description"], parameters=one["inputSchema"]["json"])
            for one in tool_specs or []
        ]
        asked = [part for message in copy.deepcopy(messages) for part in neutral(message)]
        reply = await self.script(asked, tools=specs)
        yield {"messageStart": {"role": "assistant"}}
        if reply.text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": reply.text}}}
            yield {"contentBlockStop": {}}
        for one in reply.tool_calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": one.name, "toolUseId": one.id}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(one.arguments)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if reply.tool_calls else "end_turn"}}


def neutral(message: dict[str, Any]) -> list[ChatMessage]:
    """Tool results, which have the user's role in Strands, and the rest."""
    results = [part["toolResult"]["content"] for part in message["content"] if "toolResult" in part]
    rest = [part for part in message["content"] if "toolResult" not in part and "toolUse" not in part]
    made = [ChatMessage(role="tool", content=[block(part) for part in content]) for content in results]
    if rest or not results:
        made.append(ChatMessage(role=message["role"], content=[block(part) for part in rest]))
    return made


def block(part: dict[str, Any]) -> ContentBlock:
    if "text" in part:
        return TextBlock(text=part["text"])
    image = part["image"]
    data = base64.b64encode(image["source"]["bytes"]).decode()
    return DataBlock(source=Base64Source(data=data, media_type=f"image/{image['format']}"))


@dataclass
class Application:
    """A Strands agent holds one conversation; this makes one for each session, all with the same plugins."""

    model: ScriptedChatModel
    plugins: list[StrandsRAG]
    options: dict[str, Any] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)

    def agent(self, session: str = "s") -> Agent:
        if session not in self.agents:
            self.agents[session] = Agent(
                model=ScriptedModel(self.model), plugins=list(self.plugins), callback_handler=None, **self.options
            )
        return self.agents[session]


def app_of(
    model: ScriptedChatModel, *middlewares: RAGMiddleware, supports_images: bool = False, **options: Any
) -> Application:
    plugins = [
        StrandsRAG(one, supports_images=supports_images, context=lambda state: state.get("caller"))
        for one in middlewares
    ]
    return Application(model, plugins, options)


def outcome_of(agent: Agent, result: Any, before: int, events: Sequence[dict[str, Any]] = ()) -> Outcome:
    results = [part["toolResult"] for one in agent.messages[before:] for part in one["content"] if "toolResult" in part]
    slots = [one for answer in results for one in answer.get("structuredContent", {}).get("citations", ())]
    return Outcome(str(result).strip(), slots, citations(result), list(events), checked(result))


class TestStrands(AdapterContract):
    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Application:
        return app_of(model, *middlewares, supports_images=supports_images)

    def make_caller(self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], expert: Application) -> Any:
        @tool
        async def ask_expert(question: str) -> str:
            """Ask an expert.

            Args:
                question: What to ask.
            """
            return (await self.run(expert, question)).text

        return app_of(model, *middlewares, tools=[ask_expert])

    async def run(self, agent: Application, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        made = agent.agent(session)
        before = len(made.messages)
        result = await self.invoke(made, text, {"caller": context})
        return outcome_of(made, result, before)

    async def invoke(self, agent: Agent, text: str, state: dict[str, Any]) -> Any:
        return await agent.invoke_async(text, invocation_state=state)

    async def stored(self, agent: Application, session: str = "s") -> str:
        return repr([agent.agent(session).messages, agent.agent(session).state.get()])

    async def stream(self, agent: Application, text: str, *, session: str = "s") -> Outcome:
        made = agent.agent(session)
        before = len(made.messages)
        parts = [part async for part in made.stream_async(text)]
        events = [part["agent_rag_hint"] for part in parts if "agent_rag_hint" in part]
        return outcome_of(made, parts[-1]["result"], before, events)


class TestSyncStrands(TestStrands):
    """The same scenarios through ``agent(...)``."""

    cancels = False

    async def invoke(self, agent: Agent, text: str, state: dict[str, Any]) -> Any:
        return await asyncio.to_thread(agent, text, invocation_state=state)


def kept(folder: Path) -> str:
    return "".join(path.read_text("utf-8") for path in folder.rglob("*.json"))


@pytest.mark.parametrize("persist", [False, True])
async def test_a_session_on_disk_holds_the_hint_only_if_asked(persist: bool, tmp_path: Path) -> None:
    """The question and the tool's result are stored with their citations; the hint only with persist_hint."""
    model = ScriptedChatModel(call(query="more"), "done")
    session = FileSessionManager(session_id="s", storage_dir=str(tmp_path))
    app = app_of(model, static(FactBase(), persist_hint=persist), agentic(FactBase("faq")), session_manager=session)

    await app.agent().invoke_async("hello")

    assert "hello" in kept(tmp_path)
    assert "structuredContent" in kept(tmp_path)
    assert ("FACT(hello)" in kept(tmp_path)) == persist


async def test_a_rewriter_does_not_see_stored_hints() -> None:
    """They are in the user's message, but not the user's words."""
    seen: list[str] = []

    def rewrite(query: str, history: Sequence[ChatMessage]) -> str:
        seen.append(" ".join(message.text for message in history))
        return query

    parameters = RAGMiddleware.Parameters(mode="static", persist_hint=True)
    app = app_of(ScriptedChatModel("one", "two"), RAGMiddleware([FactBase()], parameters, query_rewriter=rewrite))

    await app.agent().invoke_async("first")
    await app.agent().invoke_async("second")

    assert seen == ["", "first one"]


async def test_two_static_plugins_show_two_hints_in_order() -> None:
    """With names of their own, both hints follow the question, numbered through, and both are streamed."""
    model = ScriptedChatModel("done")
    first = RAGMiddleware([FactBase("a")], RAGMiddleware.Parameters(mode="static"), name="first")
    second = RAGMiddleware([FactBase("b")], RAGMiddleware.Parameters(mode="static"), name="second")

    parts = [part async for part in app_of(model, first, second).agent().stream_async("hello")]

    (message,) = model.inputs[0]
    said = message.text
    assert said.index("hello") < said.index("[1] (source: a.md)") < said.index("[2] (source: b.md)")
    assert [part["agent_rag_hint"]["middleware"] for part in parts if "agent_rag_hint" in part] == ["first", "second"]


async def test_agents_that_share_an_invocation_state_do_not_cross() -> None:
    """As the nodes of a graph do, at the same time and one after the other; nothing is left in the state."""
    base = FactBase(delay_s=0.01)
    model = ScriptedChatModel(otherwise=lambda messages: spoken(messages))
    app = app_of(model, static(base))
    state = {"caller": "ada"}

    one, two = await asyncio.gather(
        *(app.agent(name).invoke_async(name, invocation_state=state) for name in ("one", "two"))
    )
    three = await app.agent("one").invoke_async("three", invocation_state=state)

    assert ["FACT(one)" in str(one), "FACT(two)" in str(one)] == [True, False]
    assert ["FACT(one)" in str(two), "FACT(two)" in str(two)] == [False, True]
    assert "FACT(three)" in str(three)
    assert [key for key in state if key.startswith("agent_rag")] == []


async def test_an_agent_refuses_concurrent_calls() -> None:
    """Why the contract's concurrent runs have an agent each: Strands allows one call at a time."""
    agent = app_of(ScriptedChatModel(otherwise="done", delay_s=0.05), static(FactBase())).agent()

    results = await asyncio.gather(agent.invoke_async("one"), agent.invoke_async("two"), return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["AgentResult", "ConcurrencyException"]


async def test_a_failed_search_leaves_nothing_in_the_invocation_state() -> None:
    """With on_error="raise" the next run with the same state is a turn of its own."""
    base = FactBase(error=RuntimeError("down"))
    model = ScriptedChatModel(otherwise=lambda messages: spoken(messages))
    app = app_of(model, static(base, on_error="raise"))
    state: dict[str, Any] = {}

    with pytest.raises(RuntimeError, match="down"):
        await app.agent().invoke_async("one", invocation_state=state)
    base.error = None
    result = await app.agent().invoke_async("two", invocation_state=state)

    assert "FACT(two)" in str(result)
    assert "FACT(one)" not in str(result)


async def test_cache_points_go_before_the_hint() -> None:
    """The hint is counted among the blocks that the next turn will not have."""
    counts: list[int] = []

    async def watch(context: Any, next_fn: Any) -> AsyncIterator[Any]:
        counts.append(context.dynamic_trailing_blocks)
        async for event in next_fn(context):
            yield event

    app = app_of(ScriptedChatModel(call(query="more"), "done"), static(FactBase()), agentic(FactBase("faq")))
    app.agent().add_middleware(InvokeModelStage, watch)

    await app.agent().invoke_async("hello")

    assert counts == [1, 0]


async def test_a_turn_goes_on_after_an_interrupt() -> None:
    """When the user approves the tool call, the rest of the turn still sees the hint, searched for once more."""

    def approve(event: BeforeToolCallEvent) -> None:
        event.interrupt("approval", reason="may I?")

    base = FactBase()
    model = ScriptedChatModel(call(query="more"), "done")
    app = app_of(model, static(base), agentic(FactBase("faq")))
    app.agent().add_hook(approve, BeforeToolCallEvent)

    stopped = await app.agent().invoke_async("hello")
    answers = [{"interruptResponse": {"interruptId": one.id, "response": "yes"}} for one in stopped.interrupts]
    result = await app.agent().invoke_async(answers)

    assert str(result).strip() == "done"
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert base.queries == [["hello"], ["hello"]]


async def test_a_bad_call_is_marked_as_an_error() -> None:
    """The tool result has the status "error" and the reason."""
    app = app_of(ScriptedChatModel(call(query=""), "done"), agentic(FactBase()))

    await app.agent().invoke_async("hello")

    (result,) = (part["toolResult"] for one in app.agent().messages for part in one["content"] if "toolResult" in part)
    assert result["status"] == "error"
    assert "query" in result["content"][0]["text"]


async def test_the_tool_can_be_called_directly() -> None:
    """Outside of a run, with citations."""
    agent = app_of(ScriptedChatModel(), agentic(FactBase())).agent()

    result = await asyncio.to_thread(agent.tool.search_knowledge, query="x")

    assert "FACT(x)" in result["content"][0]["text"]
    assert result["structuredContent"]["citations"][0]["number"] == 1


async def test_a_strands_model_reranks() -> None:
    """It is accepted as rerank model."""
    base = FactBase(hits=[hit("one", document_id="a"), hit("two", document_id="b")])
    model = ScriptedModel(ScriptedChatModel('{"ids": ["c2", "c1"]}'))

    result = await StrandsRAG([base], StrandsRAG.Parameters(), model).rag.call_tool({"query": "q"})

    assert [citation.document_id for citation in result.citations] == ["b", "a"]
    assert not result.degraded


def test_the_example_runs() -> None:
    """examples/agents/strands_agent.py prints the hint, a cited answer, and a clean history."""
    example = ROOT / "examples/agents/strands_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored blocks: ['text', 'toolUse', 'toolResult', 'text']\n")
