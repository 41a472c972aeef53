"""The CrewAI adapter: the shared contract, and what only CrewAI has."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

# Before the import: no telemetry, no traces, and no files in the user's home.
os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    OTEL_SDK_DISABLED="true",
    CREWAI_TRACING_ENABLED="false",
    CREWAI_STORAGE_DIR=tempfile.mkdtemp(prefix="crewai-test-"),
)
with warnings.catch_warnings():
    # Its dependencies warn of each other when they are imported.
    warnings.simplefilter("ignore")
    pytest.importorskip("crewai", reason="scripts/test adapters crewai installs it")
    from crewai import Agent, BaseLLM, Crew, Task

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import TextBlock
from agent_rag.errors import ConfigurationError
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.crewai import attach, citations
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken

# CrewAI reads deprecated fields of its own agents.
pytestmark = pytest.mark.filterwarnings(
    "ignore:function_calling_llm is deprecated:DeprecationWarning", "ignore:deprecated$:DeprecationWarning"
)


class ScriptedLLM(BaseLLM):
    """A CrewAI model that asks a ScriptedChatModel."""

    script: Any = None

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
        return answer(self.script.answer([neutral(message) for message in messages], tools=specs(tools)))

    async def acall(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
        return answer(await self.script([neutral(message) for message in messages], tools=specs(tools)))


def answer(reply: ChatReply) -> Any:
    return [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": json.dumps(one.arguments)}}
        for one in reply.tool_calls
    ] or reply.text


def specs(tools: Any) -> list[ToolSpec]:
    keep = ("name", "description", "parameters")
    return [ToolSpec(**{key: tool["function"][key] for key in keep}) for tool in tools or []]


def neutral(message: dict[str, Any]) -> ChatMessage:
    """Without CrewAI's words around the task."""
    text = message.get("content") or ""
    if message["role"] == "user" and "Current Task: " in text:
        text = text.partition("Current Task: ")[2].partition("\n\nThis is the expected")[0]
    return ChatMessage(role=message["role"], content=[TextBlock(text=text)])


def agent_of(model: ScriptedChatModel, *middlewares: RAGMiddleware, tools: Sequence[Any] = (), **options: Any) -> Agent:
    agent = Agent(
        role="clerk",
        goal="help",
        backstory="none",
        llm=ScriptedLLM(model="scripted", script=model),
        tools=list(tools),
        max_retry_limit=0,
        verbose=False,
    )
    return attach(agent, middlewares, **options)


def crew_of(agent: Agent, **options: Any) -> Crew:
    task = Task(description="{ask}", expected_output="an answer", agent=agent)
    return Crew(agents=[agent], tasks=[task], verbose=False, **options)


class TestCrewAI(AdapterContract):
    same_agent = False
    has_history = False
    persists = False
    tool_images = False
    hint_images = False
    citation_slot = False
    stream_events = False
    cancels = False

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        made = SimpleNamespace(context=None)
        made.agent = agent_of(model, *middlewares, context=lambda: made.context)
        return made

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        output = await asyncio.to_thread(crew_of(agent.agent).kickoff, inputs={"ask": text})
        return Outcome(text=output.raw)

    async def stored(self, agent: Any, session: str = "s") -> str:
        raise NotImplementedError

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        def streamed() -> str:
            streaming = crew_of(agent.agent, stream=True).kickoff(inputs={"ask": text})
            list(streaming)
            return streaming.result.raw

        return Outcome(text=await asyncio.to_thread(streamed))


class TestAsyncCrewAI(TestCrewAI):
    """The same scenarios through `akickoff`."""

    streams = False

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        output = await crew_of(agent.agent).akickoff(inputs={"ask": text})
        return Outcome(text=output.raw)


def test_a_task_has_no_history_and_its_messages_no_hint() -> None:
    """Probe: a second kickoff knows nothing of the first, so there is nothing to persist a hint in."""
    model = ScriptedChatModel("one", "two")
    crew = crew_of(agent_of(model, static(FactBase(), persist_hint=True)))

    first = crew.kickoff(inputs={"ask": "hello"})
    second = crew.kickoff(inputs={"ask": "second"})

    assert "FACT(hello)" in spoken(model.inputs[0])
    assert "hello" not in spoken(model.inputs[1])
    assert "FACT(" not in repr((first.tasks_output[0].messages, second.tasks_output[0].messages))


def test_a_tool_result_has_no_place_for_citations() -> None:
    """Probe: what is kept of a result is its text; `citations` gives them by the task."""
    agent = agent_of(ScriptedChatModel(call(query="one"), "done"), static(FactBase("faq")), agentic(FactBase()))
    crew = crew_of(agent)

    output = crew.kickoff(inputs={"ask": "hello"})

    (message,) = [message for message in output.tasks_output[0].messages if message["role"] == "tool"]
    assert set(message) == {"role", "content", "tool_call_id", "name"}
    assert type(message["content"]) is str
    assert [(one.number, one.source) for one in citations(crew.tasks[0])] == [(1, "faq.md"), (2, "docs.md")]


def test_the_tool_cache_does_not_serve_another_caller() -> None:
    """The same call in the next execution of a crew is searched again, by the scope of its caller."""
    base, callers = FactBase(), iter(["ada", "bob"])
    model = ScriptedChatModel(call(query="x"), "one", call(query="x"), "two")
    seen: list[str] = []

    def scope(who: str) -> dict[str, str]:
        seen.append(who)
        return {"owner": who}

    crew = crew_of(agent_of(model, agentic(base, scope=scope), context=lambda: next(callers)), cache=True)
    for text in ("hello", "second"):
        crew.kickoff(inputs={"ask": text})

    assert seen == ["ada", "bob"]
    assert base.queries == [["x"], ["x"]]


def test_a_retry_is_the_same_turn() -> None:
    """When CrewAI tries a task again, the hint is there and nothing is searched anew."""
    base = FactBase()
    model = ScriptedChatModel(RuntimeError("no model"), "done")
    agent = agent_of(model, static(base))
    agent.max_retry_limit = 1

    output = crew_of(agent).kickoff(inputs={"ask": "hello"})

    assert output.raw == "done"
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert base.queries == [["hello"]]


def test_an_agent_alone_has_turns_too() -> None:
    """`kickoff` of an agent, with its messages as the history."""
    seen: list[Any] = []

    async def rewrite(text: str, history: Sequence[ChatMessage]) -> list[str]:
        seen.append((text, [(message.role, message.text) for message in history]))
        return [text]

    parameters = RAGMiddleware.Parameters(mode="static")
    model = ScriptedChatModel("done")
    agent = agent_of(model, RAGMiddleware([FactBase()], parameters, query_rewriter=rewrite))
    said = [("user", "before"), ("assistant", "answer"), ("user", "hello")]

    agent.kickoff([{"role": role, "content": content} for role, content in said])

    assert seen == [("hello", [("user", "before"), ("assistant", "answer")])]
    assert "FACT(hello)" in spoken(model.inputs[0])


def test_copies_of_a_crew_keep_the_middlewares() -> None:
    """`kickoff_for_each` copies the crew and its agents."""
    base = FactBase()
    model = ScriptedChatModel("one", "two")

    crew_of(agent_of(model, static(base))).kickoff_for_each([{"ask": "hello"}, {"ask": "second"}])

    assert ["FACT(" in spoken(messages) for messages in model.inputs] == [True, True]
    assert base.queries == [["hello"], ["second"]]


def test_fields_of_the_store_reach_the_model() -> None:
    """With filter_fields="auto" the tool is described when the model is asked."""

    class Listing(FactBase):
        async def list_documents(self) -> list[Any]:
            return [SimpleNamespace(metadata={"kind": "manual"})]

    model = ScriptedChatModel("done")

    crew_of(agent_of(model, agentic(Listing(), filter_fields="auto"))).kickoff(inputs={"ask": "hello"})

    assert "- kind (text, one of manual)" in model.tools[0][0].parameters["properties"]["filter"]["description"]


def test_an_agent_is_attached_once() -> None:
    """A second attach says what to do; the class keeps its name."""
    agent = agent_of(ScriptedChatModel("done"), static(FactBase()))

    assert (type(agent).__name__, type(agent.llm).__name__) == ("Agent", "ScriptedLLM")
    with pytest.raises(ConfigurationError, match="in one call"):
        attach(agent, agentic(FactBase()))


def test_the_example_runs() -> None:
    """examples/agents/crewai_agent.py prints a cited answer, offline."""
    example = Path(__file__).resolve().parents[2] / "examples/agents/crewai_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert "hint: ['warranty.md']\n" in result.stdout
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored messages: ['system', 'user', 'assistant', 'tool', 'assistant']\n")
