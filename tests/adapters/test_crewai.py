"""The CrewAI adapter: the shared contract, and what only CrewAI has."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    from crewai.events.event_bus import crewai_event_bus
    from crewai.llms.base_llm import llm_call_context
    from crewai.tools import BaseTool

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.errors import ConfigurationError
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.crewai import HintShownEvent, attach, checked, citations
from agent_rag.middleware.crewai import RAGMiddleware as CrewAIRAG
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.adapter_contract.base import images
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import PIXEL, Flag, hit, picture

# CrewAI reads deprecated fields of its own agents.
pytestmark = pytest.mark.filterwarnings(
    "ignore:function_calling_llm is deprecated:DeprecationWarning", "ignore:deprecated$:DeprecationWarning"
)


class ScriptedLLM(BaseLLM):
    """A CrewAI model that asks a ScriptedChatModel."""

    script: Any = None

    def supports_function_calling(self) -> bool:
        return True

    def supports_multimodal(self) -> bool:
        return bool(self.script.supports_images)

    def call(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
        return self.said(self.script.answer([neutral(message) for message in messages], tools=specs(tools)))

    async def acall(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
        return self.said(await self.script([neutral(message) for message in messages], tools=specs(tools)))

    def said(self, reply: ChatReply) -> Any:
        with llm_call_context():
            for chunk in chunks_of(reply.text):
                self._emit_stream_chunk_event(chunk)
        return answer(reply)


def chunks_of(text: str) -> list[str]:
    """Two halves."""
    middle = len(text) // 2
    return [text[:middle], text[middle:]] if text else []


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
    content = message.get("content") or ""
    if not isinstance(content, str):
        return ChatMessage(role=message["role"], content=[block(part) for part in content])
    if message["role"] == "user" and "Current Task: " in content:
        content = content.partition("Current Task: ")[2].partition("\n\nThis is the expected")[0]
    return ChatMessage(role=message["role"], content=[TextBlock(text=content)])


def block(part: dict[str, Any]) -> TextBlock | DataBlock:
    if part["type"] == "text":
        return TextBlock(text=part["text"])
    head, _, data = part["image_url"]["url"].partition(";base64,")
    return DataBlock(source=Base64Source(data=data, media_type=head.removeprefix("data:")))


class TextLLM(ScriptedLLM):
    """A model that calls tools in its text."""

    def supports_function_calling(self) -> bool:
        return False


def plain_agent(model: ScriptedChatModel, *tools: Any, kind: type[ScriptedLLM] = ScriptedLLM) -> Agent:
    llm = kind(model="scripted", script=model)
    return Agent(
        role="clerk", goal="help", backstory="none", llm=llm, tools=list(tools), max_retry_limit=0, verbose=False
    )


def agent_of(model: ScriptedChatModel, *middlewares: RAGMiddleware, **options: Any) -> Agent:
    return attach(plain_agent(model), *(CrewAIRAG(middleware, **options) for middleware in middlewares))


def crew_of(agent: Agent, **options: Any) -> Crew:
    task = Task(description="{ask}", expected_output="an answer", agent=agent)
    return Crew(agents=[agent], tasks=[task], verbose=False, **options)


class TestCrewAI(AdapterContract):
    subagents = False  # nothing is around the agent's other tools
    same_agent = False
    has_history = False
    persists = False
    citation_slot = False
    cancels = False

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        made = SimpleNamespace(context=None)
        made.agent = agent_of(model, *middlewares, context=lambda: made.context)
        return made

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        crew = crew_of(agent.agent)
        output = await asyncio.to_thread(crew.kickoff, inputs={"ask": text})
        return Outcome(text=output.raw, cited=citations(crew.tasks[0]), checked=checked(crew.tasks[0]))

    async def stored(self, agent: Any, session: str = "s") -> str:
        raise NotImplementedError

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        with hints_of_the_bus() as events:
            streaming = crew_of(agent.agent, stream=True).kickoff(inputs={"ask": text})
            chunks = await asyncio.to_thread(list, streaming)
        assert [chunk.content for chunk in chunks] == chunks_of(streaming.result.raw)
        return Outcome(text=streaming.result.raw, events=events)


class TestAsyncCrewAI(TestCrewAI):
    """The same scenarios through `akickoff`."""

    cancels = True

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        crew = crew_of(agent.agent)
        output = await crew.akickoff(inputs={"ask": text})
        return Outcome(text=output.raw, cited=citations(crew.tasks[0]), checked=checked(crew.tasks[0]))

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        with hints_of_the_bus() as events:
            streaming = await crew_of(agent.agent, stream=True).akickoff(inputs={"ask": text})
            chunks = [chunk.content async for chunk in streaming]
        assert chunks == chunks_of(streaming.result.raw)
        return Outcome(text=streaming.result.raw, events=events)


@contextmanager
def hints_of_the_bus() -> Iterator[list[dict[str, Any]]]:
    """The hint events on CrewAI's event bus, complete at the end."""
    events: list[dict[str, Any]] = []

    def keep(source: Any, event: HintShownEvent) -> None:
        events.append(event.model_dump(mode="json"))

    crewai_event_bus.register_handler(HintShownEvent, keep)
    try:
        yield events
        assert crewai_event_bus.flush()
    finally:
        crewai_event_bus.off(HintShownEvent, keep)


def test_a_task_has_no_history_and_its_messages_no_hint() -> None:
    """Probe: a second kickoff knows nothing of the first, so there is nothing to persist a hint in."""
    model = ScriptedChatModel("one", "two")
    crew = crew_of(agent_of(model, static(FactBase(), persist_hint=True)))

    first = crew.kickoff(inputs={"ask": "hello"})
    second = crew.kickoff(inputs={"ask": "second"})

    assert "FACT(hello)" in spoken(model.inputs[0])
    assert "hello" not in spoken(model.inputs[1])
    assert "FACT(" not in repr((first.tasks_output[0].messages, second.tasks_output[0].messages))


def test_an_agent_refuses_concurrent_crews() -> None:
    """Probe, without a middleware: one execution at a time, so each crew has its own agent."""
    refused: list[str] = []

    def first(messages: Sequence[ChatMessage]) -> str:
        with pytest.raises(RuntimeError) as caught:
            crew_of(agent).kickoff(inputs={"ask": "two"})
        refused.append(str(caught.value))
        return "done"

    agent = plain_agent(ScriptedChatModel(first))

    output = crew_of(agent).kickoff(inputs={"ask": "one"})

    assert output.raw == "done"
    assert "already running" in refused[0]


def test_the_result_of_any_tool_is_kept_as_a_text() -> None:
    """Probe, without a middleware: of what a tool returns, CrewAI keeps the words, for the model and in the output."""

    class Rich(BaseTool):
        name: str = "rich"
        description: str = "gives structured data and an image"

        def _run(self) -> Any:
            return {"citations": [1], "image": {"type": "image_url", "image_url": {"url": f"data:image/png,{PIXEL}"}}}

    model = ScriptedChatModel(call("rich"), "done")
    output = crew_of(plain_agent(model, Rich())).kickoff(inputs={"ask": "hello"})

    kept = [message["content"] for message in output.tasks_output[0].messages if message["role"] == "tool"]
    assert [type(content) for content in kept] == [str]
    assert images(model.inputs[1]) == []
    assert PIXEL in spoken(model.inputs[1])


async def test_cancelling_akickoff_ends_the_search() -> None:
    """The search does not go on in CrewAI's thread, and the model is not called."""
    ended = Flag()

    class Slow(FactBase):
        async def search(self, *args: Any, **options: Any) -> Any:
            try:
                return await super().search(*args, **options)
            except asyncio.CancelledError:
                ended.set()
                raise

    base, model = Slow(delay_s=20), ScriptedChatModel("done")
    running = asyncio.create_task(crew_of(agent_of(model, static(base))).akickoff(inputs={"ask": "hello"}))
    await base.asked.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(15):
        await ended.wait()
        await end_of_threads()
    assert model.inputs == []


async def test_cancelling_akickoff_after_the_search_spares_the_model() -> None:
    """With the hint just made, CrewAI's thread does not go on to the model."""
    cancelled, loop = threading.Event(), asyncio.get_running_loop()

    def cancel(event: Any) -> None:
        loop.call_soon_threadsafe(running.cancel)
        cancelled.wait(10)

    model = ScriptedChatModel("done")
    crew = crew_of(agent_of(model, static(FactBase(), on_event=cancel)))
    running = asyncio.create_task(crew.akickoff(inputs={"ask": "hello"}))

    with pytest.raises(asyncio.CancelledError):
        await running
    cancelled.set()

    async with asyncio.timeout(15):
        await end_of_threads()
    assert model.inputs == []


async def end_of_threads() -> None:
    """Of CrewAI's, which are those of the loop."""
    await asyncio.get_running_loop().shutdown_default_executor()


def test_the_hint_event_comes_before_the_models_first_chunk() -> None:
    """On the bus, once for all calls of the turn, with the task and the agent that it belongs to."""
    model = ScriptedChatModel(call(query="more"), "done")
    agent = agent_of(model, static(FactBase()), agentic(FactBase("faq")))
    crew = crew_of(agent, stream=True)

    with hints_of_the_bus() as events:
        streaming = crew.kickoff(inputs={"ask": "hello"})
        next(iter(streaming))
        assert crewai_event_bus.flush()
        before = list(events)
        list(streaming)

    assert [(event["type"], event["agent_role"], event["agent_id"]) for event in before] == [
        ("agent_rag_hint", "clerk", str(agent.id))
    ]
    assert before[0]["task_id"] == str(crew.tasks[0].id)
    assert events == before


def test_a_model_without_tool_calling_sees_the_images_too() -> None:
    """There the result is an observation in the assistant's words."""
    thought = 'Thought: look\nAction: search_knowledge\nAction Input: {"query": "x"}\n'
    model = ScriptedChatModel(thought, "Thought: I know\nFinal Answer: done", supports_images=True)
    agent = attach(plain_agent(model, kind=TextLLM), agentic(FactBase(hits=[hit(picture())])))

    output = crew_of(agent).kickoff(inputs={"ask": "hello"})

    assert output.raw == "done"
    said = [message.role for message in model.inputs[1]].index("assistant")
    assert "[image: diagram.png]" in model.inputs[1][said].text
    assert images(model.inputs[1][said + 1 : said + 2]) == [PIXEL]


DATA = {"media_type": "image/png", "data": PIXEL}
URL = f"data:image/png;base64,{PIXEL}"
IMAGE_PARTS = {
    "openai": {"type": "image_url", "image_url": {"url": URL}},
    "anthropic": {"type": "image", "source": {"type": "base64", **DATA}},
    "gemini": {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
    "bedrock": {"image": {"format": "png", "source": {"bytes": base64.b64decode(PIXEL)}}},
}


@pytest.mark.parametrize("provider", IMAGE_PARTS)
def test_images_are_parts_as_the_provider_takes_them(provider: str) -> None:
    """CrewAI's own model classes send the parts of a message on, and each API has its own."""
    seen: list[Any] = []

    class Native(ScriptedLLM):
        def call(self, messages: Any, *args: Any, **options: Any) -> Any:
            seen.extend(messages)
            return "done"

    llm = Native(model="scripted", provider=provider, script=ScriptedChatModel(supports_images=True))
    agent = Agent(role="clerk", goal="help", backstory="none", llm=llm)
    attach(agent, static(FactBase(hits=[hit(picture())]))).kickoff("hello")

    hint = seen[-1]["content"]
    assert hint[0] == {"type": "text", "text": hint[0]["text"]}
    assert IMAGE_PARTS[provider] in hint


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
