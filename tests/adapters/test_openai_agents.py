"""The OpenAI Agents adapter: the shared contract, and what only the Agents SDK has."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, get_args

import pytest

pytest.importorskip("agents", reason="scripts/test adapters openai-agents installs it")

from agents import (
    Agent,
    FunctionTool,
    ModelResponse,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    ToolCallOutputItem,
    function_tool,
    set_tracing_disabled,
)
from agents.models.interface import Model
from agents.run import CallModelData, ModelInputData
from agents.stream_events import StreamEvent
from agents.usage import Usage
from openai import AsyncOpenAI
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware, openai_agents
from agent_rag.middleware.openai_agents import AttachedAgent, ChatModel, attach, checked, citations, run_config
from agent_rag.middleware.openai_agents import RAGMiddleware as OpenAIAgentsRAG
from agent_rag.retrieval.rerank_llm import LLMReranker
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.adapter_contract.base import images, tool_text
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import PIXEL, hit
from tests.shared import ROOT

from .wire import assert_text_went_out, text_only_server

set_tracing_disabled(True)


class ScriptedModel(Model):
    """A model of the SDK that asks a ScriptedChatModel."""

    def __init__(self, script: ScriptedChatModel) -> None:
        self.script = script

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *rest: Any, **options: Any
    ) -> ModelResponse:
        specs = [
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.params_json_schema)
            for tool in tools
            if isinstance(tool, FunctionTool)
        ]
        heard = [ChatMessage(role="system", content=system_instructions)] if system_instructions else []
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        heard += [message for item in items if (message := neutral(item)) is not None]
        reply = await self.script(heard, tools=specs)
        return ModelResponse(output=output_of(reply), usage=Usage(), response_id=None)

    async def stream_response(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        answer = await self.get_response(*arguments, **options)
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=answer.output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def output_of(reply: ChatReply) -> list[Any]:
    if reply.tool_calls:
        return [
            ResponseFunctionToolCall(
                arguments=one.arguments if isinstance(one.arguments, str) else json.dumps(one.arguments),
                call_id=one.id,
                name=one.name,
                type="function_call",
            )
            for one in reply.tool_calls
        ]
    text = ResponseOutputText(text=reply.text, annotations=[], type="output_text")
    message = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
    return [message]


def neutral(item: Any) -> ChatMessage | None:
    if item.get("type") == "function_call_output":
        return ChatMessage(role="tool", content=blocks(item["output"]))
    if item.get("role") in ("user", "assistant"):
        return ChatMessage(role=item["role"], content=blocks(item["content"]))
    return None


def blocks(content: Any) -> list[TextBlock | DataBlock]:
    if isinstance(content, str):
        return [TextBlock(text=content)]
    made: list[TextBlock | DataBlock] = []
    for part in content:
        if part["type"] == "input_image":
            head, _, data = part["image_url"].partition(";base64,")
            made.append(DataBlock(source=Base64Source(data=data, media_type=head.removeprefix("data:"))))
        else:
            made.append(TextBlock(text=part["text"]))
    return made


class Conversation:
    """An agent, and the sessions that an application keeps for it."""

    def __init__(self, model: ScriptedChatModel, *middlewares: OpenAIAgentsRAG, **options: Any) -> None:
        self.attached: AttachedAgent = attach(Agent("a", model=ScriptedModel(model), **options), *middlewares)
        self.sessions: dict[str, SQLiteSession] = {}

    def session(self, name: str) -> SQLiteSession:
        return self.sessions.setdefault(name, SQLiteSession(name))


def wrapped(*middlewares: RAGMiddleware, **options: Any) -> list[OpenAIAgentsRAG]:
    return [OpenAIAgentsRAG(middleware, **options) for middleware in middlewares]


def outcome_of(result: Any) -> Outcome:
    outputs = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    slots = [citation for item in outputs for citation in (item.custom_data or {}).get("citations", [])]
    return Outcome(text=result.final_output, citations=slots, cited=citations(result), checked=checked(result))


class TestOpenAIAgents(AdapterContract):
    stream_events = False  # see test_the_stream_has_no_events_of_applications

    @pytest.fixture(autouse=True)
    def closed_sessions(self) -> Any:
        self.made: list[Conversation] = []
        yield
        for conversation in self.made:
            for session in conversation.sessions.values():
                session.close()

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Conversation:
        self.made.append(Conversation(model, *wrapped(*middlewares, supports_images=supports_images)))
        return self.made[-1]

    def make_caller(self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], expert: Any) -> Conversation:
        @function_tool
        async def ask_expert(question: str) -> str:
            return (await self.run(expert, question)).text

        self.made.append(Conversation(model, *wrapped(*middlewares), tools=[ask_expert]))
        return self.made[-1]

    async def run(self, agent: Conversation, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        return outcome_of(await agent.attached.run(text, session=agent.session(session), context=context))

    async def stored(self, agent: Conversation, session: str = "s") -> str:
        return str(await agent.session(session).get_items())

    async def stream(self, agent: Conversation, text: str, *, session: str = "s") -> Outcome:
        result = agent.attached.run_streamed(text, session=agent.session(session))
        async for _ in result.stream_events():
            pass
        return outcome_of(result)


class TestSyncOpenAIAgents(TestOpenAIAgents):
    """The same scenarios through `run_sync`."""

    cancels = False

    async def run(self, agent: Conversation, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        def turn() -> Any:
            asyncio.set_event_loop(loop := asyncio.new_event_loop())
            try:
                return agent.attached.run_sync(text, session=agent.session(session), context=context)
            finally:
                loop.close()

        return outcome_of(await asyncio.to_thread(turn))


class TestSharedRunConfig(TestOpenAIAgents):
    """The same scenarios wired by hand, with one RunConfig for all runs."""

    checks = False  # a RunConfig does not see the answer
    subagents = False  # nothing is around the agent's other tools

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Conversation:
        own = wrapped(*middlewares, supports_images=supports_images)
        conversation = super().make_agent(model, [])
        tools = [tool for middleware in own for tool in middleware.tools]
        conversation.agent = Agent("a", model=ScriptedModel(model), tools=tools)  # type: ignore[attr-defined]
        conversation.config = RunConfig()  # type: ignore[attr-defined]
        for middleware in own:
            conversation.config = middleware.run_config(conversation.config)  # type: ignore[attr-defined]
        return conversation

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        return outcome_of(
            await Runner.run(
                agent.agent, text, session=agent.session(session), context=context, run_config=agent.config
            )
        )

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        result = Runner.run_streamed(agent.agent, text, session=agent.session(session), run_config=agent.config)
        async for _ in result.stream_events():
            pass
        return outcome_of(result)


def test_the_stream_has_no_events_of_applications() -> None:
    """The SDK's stream has three kinds of events, none for others to emit; use `on_event`."""
    kinds = {kind.__name__ for kind in get_args(StreamEvent)}

    assert kinds == {"RawResponsesStreamEvent", "RunItemStreamEvent", "AgentUpdatedStreamEvent"}


async def test_history_by_hand_is_clean() -> None:
    """Without a session, `to_input_list` holds no hint and the next turn only its own."""
    model = ScriptedChatModel("one", "two")
    attached = Conversation(model, *wrapped(static(FactBase()))).attached

    result = await attached.run("hello")
    await attached.run([*result.to_input_list(), {"role": "user", "content": "second"}])

    assert "FACT(" not in str(result.to_input_list())
    assert "FACT(second)" in spoken(model.inputs[1])
    assert "FACT(hello)" not in spoken(model.inputs[1])


async def test_persist_without_a_session_shows_the_hint_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """There is nowhere to keep it; the model sees it all the same, on each call."""
    model = ScriptedChatModel(call(query="x"), "done")
    attached = Conversation(model, *wrapped(static(FactBase(), persist_hint=True), agentic(FactBase("faq")))).attached

    with caplog.at_level(logging.WARNING, "agent_rag"):
        await attached.run("hello")

    assert [spoken(messages).count("FACT(hello)") for messages in model.inputs] == [1, 1]
    assert [record.message for record in caplog.records] == [
        "persist_hint needs a session: the hint is shown, but not kept"
    ]


async def test_persist_searches_once_and_reads_as_the_caller() -> None:
    """The hint that a session keeps is found with the run's context."""
    base = FactBase(hits=[hit(f"FACT({who})", document_id=who, metadata={"owner": who}) for who in ("ada", "bob")])
    model = ScriptedChatModel(call(query="x"), "one", "two")
    rag = static(base, persist_hint=True, scope=lambda who: {"owner": who})
    conversation = Conversation(model, *wrapped(rag, agentic(FactBase("faq"))))

    await conversation.attached.run("hello", session=conversation.session("s"), context="ada")
    await conversation.attached.run("second", session=conversation.session("s"), context="bob")

    assert base.queries == [["hello"], ["second"]]
    assert [spoken(messages).count("FACT(ada)") for messages in model.inputs] == [1, 1, 1]
    assert [spoken(messages).count("FACT(bob)") for messages in model.inputs] == [0, 0, 1]
    conversation.session("s").close()


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
    conversation = Conversation(model, *wrapped(rag, agentic(FactBase("faq"))))

    for text in ("hello", "second"):
        await conversation.attached.run(text, session=conversation.session("s"))

    assert heard == [[], [("user", "hello"), ("assistant", "one")]]
    conversation.session("s").close()


async def test_filters_and_callbacks_of_the_application_are_kept() -> None:
    """The application's filter comes first, and its session callback still merges."""
    model = ScriptedChatModel("done")
    seen: list[str] = []

    async def filtered(data: CallModelData[Any]) -> ModelInputData:
        seen.append(str(data.model_data.input))
        return ModelInputData(input=data.model_data.input, instructions="Be brief.")

    def merged(history: list[Any], new: list[Any]) -> list[Any]:
        return [{"role": "user", "content": "before"}, *history, *new]

    config = RunConfig(call_model_input_filter=filtered, session_input_callback=merged)
    conversation = Conversation(model, *wrapped(static(FactBase(), persist_hint=True)))
    await conversation.attached.run("hello", session=conversation.session("s"), run_config=config)

    assert len(seen) == 1
    assert [message.text for message in model.inputs[0]][:3] == ["Be brief.", "before", "hello"]
    assert "FACT(hello)" in model.inputs[0][3].text
    conversation.session("s").close()


async def test_a_turn_goes_on_after_an_approval() -> None:
    """When a human approves a tool call, the rest of the turn sees the hint, and at most one more search is made."""
    base, model = FactBase(), ScriptedChatModel(call("order"), "done")

    @function_tool(needs_approval=True)
    def order() -> str:
        return "ordered"

    conversation = Conversation(model, *wrapped(static(base)), tools=[order])
    asked = await conversation.attached.run("hello")
    state: RunState[Any] = asked.to_state()
    state.approve(asked.interruptions[0])
    done = await conversation.attached.run(state)

    assert done.final_output == "done"
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert len(base.queries) <= 2


async def test_the_hint_follows_a_handoff() -> None:
    """The agent that takes over sees the same hint, from the same search."""
    base, model = FactBase(), ScriptedChatModel(call("transfer_to_b"), "done")
    own = wrapped(static(base))
    other = attach(Agent("b", model=ScriptedModel(model)), *own)
    first = attach(Agent("a", model=ScriptedModel(model), handoffs=[other]), *own)

    await Runner.run(first, "hello")

    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert base.queries == [["hello"]]


async def test_an_agent_as_a_tool_has_a_turn_of_its_own() -> None:
    """What the outer agent asks the inner one is the inner turn's question."""
    base, model = FactBase(), ScriptedChatModel(call("inner", input="pumps"), "inner done", "done")
    inner = Agent("inner", model=ScriptedModel(model))
    own = wrapped(static(base))
    tool = inner.as_tool("inner", "Knows pumps.", run_config=run_config(own))

    await Conversation(model, *own, tools=[tool]).attached.run("hello")

    assert "FACT(pumps)" in spoken(model.inputs[1])
    assert "FACT(hello)" not in spoken(model.inputs[1])
    assert "FACT(hello)" in spoken(model.inputs[2])
    assert base.queries == [["hello"], ["pumps"]]


async def test_a_conversation_on_the_server_keeps_the_hint() -> None:
    """With conversation_id the SDK sends only what is new: the hint goes once, and stays on the server."""
    model = ScriptedChatModel(call(query="x"), "done")
    conversation = Conversation(model, *wrapped(static(FactBase()), agentic(FactBase("faq"))))

    await conversation.attached.run("hello", conversation_id="conv_1")

    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, False]
    assert [message.role for message in model.inputs[1]] == ["tool"]


async def test_tools_without_a_filter_share_the_run() -> None:
    """An agent that only has the tools numbers through its run, and the next run starts from 1."""
    model = ScriptedChatModel(call(query="x"), call(id="call_2", query="y"), "done", call(query="z"), "done")
    (own,) = wrapped(agentic(FactBase()))
    agent = Agent("a", model=ScriptedModel(model), tools=own.tools)

    await Runner.run(agent, "hello")
    await Runner.run(agent, "hello")

    assert "[1] (source: docs.md)\nFACT(x)" in tool_text(model.inputs[1])
    assert "[2] (source: docs.md)\nFACT(y)" in tool_text(model.inputs[2])
    assert "[1] (source: docs.md)\nFACT(z)" in tool_text(model.inputs[4])


async def test_nothing_of_a_run_is_kept() -> None:
    """After runs with and without a filter, no turn and no result is left in memory."""
    model = ScriptedChatModel(otherwise=lambda heard: call(query="x") if heard[-1].role == "user" else "done")
    (own,) = wrapped(agentic(FactBase()))
    gc.collect()
    before = len(openai_agents._runs)  # the SDK itself holds runs that waited for an approval

    await Runner.run(Agent("a", model=ScriptedModel(model), tools=own.tools), "hello")
    await Conversation(model, own).attached.run("hello")
    gc.collect()

    assert len(openai_agents._runs) == before
    assert len(openai_agents._results) == 0


async def test_the_same_question_again_is_searched_again() -> None:
    """Two runs that share a RunConfig and ask the same, one after the other, are two turns."""
    base, model = FactBase(), ScriptedChatModel(otherwise="done")
    (own,) = wrapped(static(base))
    agent, config = Agent("a", model=ScriptedModel(model)), own.run_config()

    await Runner.run(agent, "hello", run_config=config)
    await Runner.run(agent, "hello", run_config=config)

    assert base.queries == [["hello"], ["hello"]]


async def test_an_image_of_the_user_is_searched_for() -> None:
    """The ask carries the user's image."""
    base, model = FactBase(), ScriptedChatModel("done")
    parts = [
        {"type": "input_text", "text": "what is this?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
    ]

    attached = Conversation(model, *wrapped(static(base), supports_images=True)).attached
    await attached.run([{"role": "user", "content": parts}])

    (queries,) = base.queries
    assert [getattr(query, "source", None) and query.source.data for query in queries] == [None, PIXEL]
    assert images(model.inputs[0]) == [PIXEL]


async def test_fields_of_the_stores_are_offered() -> None:
    """With filter_fields="auto" the first call's tool has the stores' fields, though the agent was made before."""

    class Listed(FactBase):
        async def list_documents(self) -> list[Any]:
            return [type("Summary", (), {"metadata": {"year": 2024}})()]

    model = ScriptedChatModel("done")

    await Conversation(model, *wrapped(agentic(Listed(), filter_fields="auto"))).attached.run("hello")

    assert "year" in str(model.tools[0][0].parameters["properties"]["filter"])


@pytest.mark.parametrize("arguments", ["[1]", '"text"', "nonsense{"])
async def test_arguments_that_are_no_object_do_not_end_the_run(arguments: str) -> None:
    """The model is told, by us or by the SDK, and goes on."""
    model = ScriptedChatModel(
        ChatReply(tool_calls=[{"id": "1", "name": "search_knowledge", "arguments": arguments}]), "done"
    )

    result = await attach(Agent("a", model=ScriptedModel(model)), FactBase()).run("hello")

    assert result.final_output == "done"
    assert "object" in tool_text(model.inputs[1])


async def test_a_model_of_the_sdk_reranks() -> None:
    """A model of the SDK is accepted as rerank model."""
    script = ScriptedChatModel('{"ids": ["c2", "c1"]}')
    candidates = [hit("one", document_id="a"), hit("two", document_id="b")]

    reranked = await LLMReranker(ChatModel(ScriptedModel(script))).rerank("q", candidates)

    assert [result.document_id for result in reranked.results] == ["b", "a"]
    assert not reranked.degraded
    assert OpenAIAgentsRAG([FactBase()], rerank_model=ScriptedModel(script)).rag.mode == "agentic"


def test_the_example_runs() -> None:
    """examples/agents/openai_agents_agent.py prints the hint, a cited answer, and a clean history."""
    example = ROOT / "examples/agents/openai_agents_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored items: ['user', 'function_call', 'function_call_output', 'assistant']\n")


async def test_text_goes_out_as_a_string() -> None:
    """MW04: to an OpenAI-compatible server that refuses lists of parts."""
    with text_only_server() as server:
        client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
        plain = Agent("a", model=OpenAIChatCompletionsModel("m", client))

        result = await Runner.run(attach(plain, static(FactBase()), agentic(FactBase("faq"))), "hello")
        await client.close()

        assert_text_went_out(server)
    assert [citation.number for citation in citations(result)] == [1, 2]


async def test_an_attached_agent_is_an_agent() -> None:
    """It is handed over to, keeps its name, and can be a tool."""
    agent = attach(Agent("clerk", handoff_description="Knows."), agentic(FactBase()))

    assert isinstance(agent, Agent)
    assert (agent.name, agent.handoff_description) == ("clerk", "Knows.")
    assert [tool.name for tool in agent.tools] == ["search_knowledge"]
    assert agent.as_tool("clerk", "Knows.").name == "clerk"
    assert isinstance(Agent("a", handoffs=[agent]).handoffs[0], Agent)
