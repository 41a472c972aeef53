"""The Google ADK adapter: the shared contract, and what only ADK has."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

# Importing ADK warns: 2.7 of its own old classes, and the OpenTelemetry that goes with 2.10 of a use of importlib.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("google.adk.runners", reason="scripts/test adapters google-adk installs it")
    pytest.importorskip("google.adk.agents.llm_agent", reason="scripts/test adapters google-adk installs it")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import ConfigDict

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware, google_adk
from agent_rag.middleware.google_adk import METADATA_KEY, ChatModel, checked, citations
from agent_rag.middleware.google_adk import RAGMiddleware as GoogleADKRAG
from agent_rag.retrieval.rerank_llm import LLMReranker
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.adapter_contract.base import images, tool_text
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import PIXEL, hit
from tests.shared import ROOT


class ScriptedModel(BaseLlm):
    """An ADK model that asks a ScriptedChatModel."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: str = "scripted"
    script: ScriptedChatModel

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        offered = [tool.function_declarations or [] for tool in llm_request.config.tools or []]
        specs = [
            ToolSpec(name=one.name, description=one.description or "", parameters=one.parameters_json_schema or {})
            for declarations in offered
            for one in declarations
        ]
        instruction = llm_request.config.system_instruction
        heard = [ChatMessage(role="system", content=str(instruction))] if instruction else []
        heard += [message for content in llm_request.contents for message in neutral(content)]
        reply = await self.script(heard, tools=specs)
        if stream and reply.text:
            yield LlmResponse(content=content_of(reply), partial=True)
        yield LlmResponse(content=content_of(reply))


def content_of(reply: ChatReply) -> types.Content:
    calls = [
        types.Part(function_call=types.FunctionCall(id=one.id, name=one.name, args=one.arguments))
        for one in reply.tool_calls
    ]
    return types.Content(role="model", parts=calls or [types.Part(text=reply.text)])


def neutral(content: types.Content) -> list[ChatMessage]:
    heard, own = [], []
    for part in content.parts or []:
        if (response := part.function_response) is not None:
            blobs = [inner.inline_data for inner in response.parts or []]
            found = [TextBlock(text=str(response.response["result"])), *[data(blob) for blob in blobs]]
            heard.append(ChatMessage(role="tool", content=found))
        elif part.text:
            own.append(TextBlock(text=part.text))
        elif part.inline_data:
            own.append(data(part.inline_data))
    if own:
        heard.append(ChatMessage(role="user" if content.role == "user" else "assistant", content=own))
    return heard


def data(blob: Any) -> DataBlock:
    encoded = base64.b64encode(blob.data).decode()
    return DataBlock(source=Base64Source(data=encoded, media_type=blob.mime_type))


class Conversation:
    """A runner with an app of one agent; `context` of a run is the user's id."""

    def __init__(self, model: ScriptedChatModel, plugins: Sequence[BasePlugin], **options: Any) -> None:
        agent = LlmAgent(name="a", model=ScriptedModel(script=model), **options)
        self.runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=list(plugins)))
        self.runner.auto_create_session = True

    def arguments(self, message: Any, session: str, context: Any) -> dict[str, Any]:
        parts = [types.Part(text=message)] if isinstance(message, str) else message
        return {
            "user_id": context or "somebody",
            "session_id": session,
            "new_message": types.Content(role="user", parts=parts),
        }

    async def turn(self, message: Any, session: str = "s", context: Any = None, **options: Any) -> list[Event]:
        events = self.runner.run_async(**self.arguments(message, session, context), **options)
        return [event async for event in events]

    async def events(self, session: str = "s", context: Any = None) -> list[Event]:
        stored = await self.runner.session_service.get_session(
            app_name="app", user_id=context or "somebody", session_id=session
        )
        return list(stored.events) if stored is not None else []


def wrapped(*middlewares: RAGMiddleware, **options: Any) -> list[GoogleADKRAG]:
    return [GoogleADKRAG(middleware, **options) for middleware in middlewares]


def text_of(event: Event) -> str:
    parts = (event.content.parts or []) if event.content else []
    return "".join(part.text for part in parts if part.text)


def outcome_of(events: Sequence[Event]) -> Outcome:
    shown = [(event.custom_metadata or {}).get(METADATA_KEY, {}) for event in events]
    slots = [one for results in shown for result in results.values() for one in result["citations"]]
    return Outcome(text=text_of(events[-1]), citations=slots, cited=citations(events), checked=checked(events))


class TestGoogleADK(AdapterContract):
    stream_events = False  # see test_what_is_yielded_is_stored
    subagents = False  # an AgentTool runs an app of its own

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Conversation:
        return Conversation(model, wrapped(*middlewares, supports_images=supports_images))

    async def run(self, agent: Conversation, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        return outcome_of(await agent.turn(text, session, context))

    async def stored(self, agent: Conversation, session: str = "s") -> str:
        return str([event.model_dump_json() for event in await agent.events(session)])

    async def stream(self, agent: Conversation, text: str, *, session: str = "s") -> Outcome:
        return outcome_of(await agent.turn(text, session, run_config=RunConfig(streaming_mode=StreamingMode.SSE)))


class TestSyncGoogleADK(TestGoogleADK):
    """The same scenarios through the runner's sync `run`."""

    cancels = False

    async def run(self, agent: Conversation, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        events = await asyncio.to_thread(lambda: list(agent.runner.run(**agent.arguments(text, session, context))))
        return outcome_of(events)


async def test_what_is_yielded_is_stored() -> None:
    """Probe: an event that a plugin changes on its way out is kept like that, so a hint has no place there."""

    class Marking(BasePlugin):
        async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event:
            return event.model_copy(update={"custom_metadata": {"hint": "secret"}})

    conversation = Conversation(ScriptedChatModel("done"), [Marking("marking")])

    await conversation.turn("hello")

    assert [event.custom_metadata for event in await conversation.events()][-1] == {"hint": "secret"}


# ADK 2.8 says so of the schema that it makes for the agent's own function.
@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\] feature FeatureName.JSON_SCHEMA_FOR_FUNC_DECL:UserWarning")
async def test_instructions_and_tools_of_the_agent_stay() -> None:
    """The hint changes no system instruction, and our tool stands beside the agent's own."""

    def weather(city: str) -> str:
        """The weather in a city."""
        return f"rain in {city}"

    model = ScriptedChatModel(call("weather", city="Ostrava"), call(id="call_2", query="x"), "done")
    own = wrapped(static(FactBase()), agentic(FactBase("faq")))

    await Conversation(model, own, instruction="Be brief.", tools=[weather]).turn("hello")

    systems = {messages[0].text for messages in model.inputs}
    assert len(systems) == 1
    assert "Be brief." in systems.pop()
    assert sorted(tool.name for tool in model.tools[0]) == ["search_knowledge", "weather"]
    assert "rain in Ostrava" in spoken(model.inputs[1])
    assert "FACT(x)" in tool_text(model.inputs[2])


async def test_two_static_instances_show_two_hints_in_order() -> None:
    """Without names of their own, both hints follow the ask, numbered through."""
    model = ScriptedChatModel("done")

    await Conversation(model, wrapped(static(FactBase("a")), static(FactBase("b")))).turn("hello")

    ask, one, two = (message.text for message in model.inputs[0] if message.role == "user")
    assert ask == "hello"
    assert "[1] (source: a.md)" in one
    assert "[2] (source: b.md)" in two


async def test_parallel_calls_keep_their_citations_apart() -> None:
    """One event answers several calls; the citations are there by the id of each call."""
    calls = [{"id": f"call_{query}", "name": "search_knowledge", "arguments": {"query": query}} for query in "xy"]
    model = ScriptedChatModel(ChatReply(tool_calls=calls), "done")

    events = await Conversation(model, wrapped(agentic(FactBase()))).turn("hello")

    (shown,) = [slot[METADATA_KEY] for event in events if METADATA_KEY in (slot := event.custom_metadata or {})]
    assert {key: [one["document_id"] for one in result["citations"]] for key, result in shown.items()} == {
        "call_x": ["docs-x"],
        "call_y": ["docs-y"],
    }


async def test_the_model_reads_no_citation_records() -> None:
    """The function response holds the text only, so that no tokens go to scores and ids."""
    model = ScriptedChatModel(call(query="x"), "done")

    events = await Conversation(model, wrapped(agentic(FactBase()))).turn("hello")

    (response,) = [response for event in events for response in event.get_function_responses()]
    assert list(response.response) == ["result"]


async def test_only_the_named_agents_get_it() -> None:
    """With `agents`, others have neither hint nor tools; the agent that takes over sees the hint of the same search."""
    base, model = FactBase(), ScriptedChatModel(call("transfer_to_agent", agent_name="b"), "done")
    other = LlmAgent(name="b", description="Knows pumps.", model=ScriptedModel(script=model))
    own = wrapped(static(base), agentic(FactBase("faq")), agents=["b"])

    await Conversation(model, own, sub_agents=[other]).turn("hello")

    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [False, True]
    assert [any(tool.name == "search_knowledge" for tool in tools) for tools in model.tools] == [False, True]
    assert base.queries == [["hello"]]


# AgentTool itself passes plugins to the inner runner in a way that ADK deprecates.
@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
async def test_an_agent_as_a_tool_has_a_turn_of_its_own() -> None:
    """What the outer agent asks the inner one is the inner turn's question."""
    base, model = FactBase(), ScriptedChatModel(call("inner", request="pumps"), "inner done", "done")
    inner = LlmAgent(name="inner", description="Knows pumps.", model=ScriptedModel(script=model))

    await Conversation(model, wrapped(static(base)), tools=[AgentTool(inner)]).turn("hello")

    assert "FACT(pumps)" in spoken(model.inputs[1])
    assert "FACT(hello)" not in spoken(model.inputs[1])
    assert "FACT(hello)" in spoken(model.inputs[2])
    assert base.queries == [["hello"], ["pumps"]]


async def test_the_identity_may_come_from_the_session() -> None:
    """With `context`, the scope follows what the session's state says."""
    base = FactBase(hits=[hit(f"FACT({who})", document_id=who, metadata={"owner": who}) for who in ("acme", "globex")])
    model = ScriptedChatModel("done")
    rag = static(base, scope=lambda tenant: {"owner": tenant})
    conversation = Conversation(model, wrapped(rag, context=lambda context: context.session.state["tenant"]))
    await conversation.runner.session_service.create_session(
        app_name="app", user_id="somebody", session_id="s", state={"tenant": "acme"}
    )

    await conversation.turn("hello")

    assert "FACT(acme)" in spoken(model.inputs[0])
    assert "FACT(globex)" not in spoken(model.inputs[0])


async def test_the_rewriter_hears_the_conversation_without_hints() -> None:
    """Earlier user and assistant text, no tool traffic and no stored hint."""
    heard: list[list[tuple[str, str]]] = []

    def rewrite(query: str, history: Sequence[ChatMessage]) -> str:
        heard.append([(message.role, message.text) for message in history])
        return query

    model = ScriptedChatModel(call(query="x"), "one", "two")
    rag = RAGMiddleware(
        [FactBase()], RAGMiddleware.Parameters(mode="static", persist_hint=True), query_rewriter=rewrite
    )
    conversation = Conversation(model, wrapped(rag, agentic(FactBase("faq"))))

    await conversation.turn("hello")
    await conversation.turn("second")

    assert heard == [[], [("user", "hello"), ("assistant", "one")]]


async def test_a_second_persisting_instance_is_shown_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """ADK lets one plugin replace the user's message; the hint of the next is shown all the same."""
    model = ScriptedChatModel("done")
    own = wrapped(static(FactBase("a"), persist_hint=True), static(FactBase("b"), persist_hint=True))

    with caplog.at_level(logging.WARNING, "agent_rag"):
        await Conversation(model, own).turn("hello")

    assert spoken(model.inputs[0]).count("(source: a.md)") == 1
    assert spoken(model.inputs[0]).count("(source: b.md)") == 1
    assert "the hint is shown, but not kept" in caplog.text


async def test_an_image_of_the_user_is_searched_for() -> None:
    """The ask carries the user's image."""
    base, model = FactBase(), ScriptedChatModel("done")
    png = types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png")

    await Conversation(model, wrapped(static(base), supports_images=True)).turn([types.Part(text="what?"), png])

    (queries,) = base.queries
    assert [getattr(query, "source", None) and query.source.data for query in queries] == [None, PIXEL]
    assert images(model.inputs[0]) == [PIXEL]


async def test_fields_of_the_stores_are_offered() -> None:
    """With filter_fields="auto" the first call's tool has the stores' fields."""

    class Listed(FactBase):
        async def list_documents(self) -> list[Any]:
            return [type("Summary", (), {"metadata": {"year": 2024}})()]

    model = ScriptedChatModel("done")

    await Conversation(model, wrapped(agentic(Listed(), filter_fields="auto"))).turn("hello")

    assert "year" in str(model.tools[0][0].parameters["properties"]["filter"])


async def test_nothing_of_a_run_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the run, and after one that failed, no turn is left in memory."""

    def fail(messages: Sequence[ChatMessage]) -> str:
        raise RuntimeError("no model")

    # Pytest keeps what is logged, with the frames of the error.
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    model = ScriptedChatModel(call(query="x"), "done", fail)
    conversation = Conversation(model, wrapped(static(FactBase()), agentic(FactBase("faq"))))

    await conversation.turn("hello")
    with pytest.raises(RuntimeError, match="no model"):
        await conversation.turn("second")
    gc.collect()

    assert google_adk._runs == {}


async def test_an_adk_model_reranks() -> None:
    """An ADK model is accepted as rerank model."""
    script = ScriptedChatModel('{"ids": ["c2", "c1"]}')
    candidates = [hit("one", document_id="a"), hit("two", document_id="b")]

    reranked = await LLMReranker(ChatModel(ScriptedModel(script=script))).rerank("q", candidates)

    assert [result.document_id for result in reranked.results] == ["b", "a"]
    assert not reranked.degraded
    assert GoogleADKRAG([FactBase()], rerank_model=ScriptedModel(script=script)).rag.mode == "agentic"


def test_the_example_runs() -> None:
    """examples/agents/google_adk_agent.py prints the hint, a cited answer, and a clean history."""
    example = ROOT / "examples/agents/google_adk_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored events: ['user', 'assistant', 'assistant', 'assistant']\n")
