"""The Pydantic AI adapter: the shared contract, and what only Pydantic AI has."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="scripts/test adapters pydantic-ai installs it")

from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, DeferredToolResults, ToolReturn, UsageLimitExceeded
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import UsageLimits

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.pydantic_ai import ChatModel, RAGHintEvent, checked, citations
from agent_rag.middleware.pydantic_ai import RAGMiddleware as PydanticAIRAG
from agent_rag.retrieval.rerank_llm import LLMReranker
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.adapter_contract.base import images, tool_text
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import PIXEL, hit
from tests.shared import ROOT

from .wire import assert_text_went_out, text_only_server


def model_of(script: ScriptedChatModel) -> FunctionModel:
    """A Pydantic AI model that asks a ScriptedChatModel."""

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ChatReply:
        specs = [
            ToolSpec(name=tool.name, description=tool.description or "", parameters=tool.parameters_json_schema)
            for tool in info.function_tools
        ]
        heard = [ChatMessage(role="system", content=info.instructions)] if info.instructions else []
        heard += [spoken_part for message in messages for spoken_part in neutral(message)]
        return await script(heard, tools=specs)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = await reply(messages, info)
        calls = [ToolCallPart(one.name, one.arguments, one.id) for one in said.tool_calls]
        return ModelResponse(parts=[*calls] if calls else [TextPart(said.text)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        response = await answer(messages, info)
        for index, part in enumerate(response.parts):
            if isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    return FunctionModel(answer, stream_function=stream)


def neutral(message: ModelMessage) -> list[ChatMessage]:
    if isinstance(message, ModelResponse):
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        return [ChatMessage(role="assistant", content="".join(texts))]
    heard = []
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            content = [part.content] if isinstance(part.content, str) else part.content
            heard.append(ChatMessage(role="user", content=blocks(content)))
        elif isinstance(part, ToolReturnPart):
            content = part.content if isinstance(part.content, list) else [part.content]
            heard.append(ChatMessage(role="tool", content=blocks(content)))
        else:
            heard.append(ChatMessage(role="system", content=str(part.content)))
    return heard


def blocks(content: Sequence[Any]) -> list[TextBlock | DataBlock]:
    made: list[TextBlock | DataBlock] = []
    for item in content:
        if isinstance(item, BinaryContent):
            made.append(DataBlock(source=Base64Source(data=item.base64, media_type=item.media_type)))
        else:
            made.append(TextBlock(text=item.content if isinstance(item, TextContent) else item))
    return made


class Conversation:
    """An agent, and the histories that an application keeps for it."""

    def __init__(self, model: ScriptedChatModel, capabilities: Sequence[Any], **options: Any) -> None:
        self.agent = Agent(model_of(model), capabilities=capabilities, deps_type=object, **options)
        self.histories: dict[str, list[ModelMessage]] = {}

    def begin(self, session: str) -> list[ModelMessage]:
        return self.histories.setdefault(session, [])

    def end(self, session: str, result: Any) -> list[ModelMessage]:
        self.histories[session] = result.all_messages()
        return list(result.new_messages())


def wrapped(middlewares: Sequence[RAGMiddleware], **options: Any) -> list[PydanticAIRAG]:
    return [PydanticAIRAG(middleware, **options) for middleware in middlewares]


def tool_returns(messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def outcome_of(text: str, messages: Sequence[ModelMessage], events: Sequence[Any] = (), *, cited: Any = ()) -> Outcome:
    return Outcome(
        text=text,
        cited=citations(cited),
        checked=checked(cited),
        citations=[
            citation for part in tool_returns(messages) for citation in (part.metadata or {}).get("citations", ())
        ],
        events=[event.hint.model_dump(mode="json") for event in events if isinstance(event, RAGHintEvent)],
    )


class TestPydanticAI(AdapterContract):
    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Conversation:
        return Conversation(model, wrapped(middlewares, supports_images=supports_images))

    async def run(self, agent: Conversation, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        result = await agent.agent.run(text, message_history=agent.begin(session), deps=context)
        return outcome_of(result.output, agent.end(session, result), cited=result)

    def make_caller(self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], expert: Conversation) -> Any:
        caller = Conversation(model, wrapped(middlewares))

        @caller.agent.tool_plain
        async def ask_expert(question: str) -> str:
            return str((await expert.agent.run(question)).output)

        return caller

    async def stored(self, agent: Conversation, session: str = "s") -> str:
        return ModelMessagesTypeAdapter.dump_json(agent.histories[session]).decode()

    async def stream(self, agent: Conversation, text: str, *, session: str = "s") -> Outcome:
        async with agent.agent.run_stream_events(text, message_history=agent.begin(session)) as stream:
            events = [event async for event in stream]
        result = events[-1].result
        return outcome_of(result.output, agent.end(session, result), events)

    async def test_an_error_of_the_model_leaves_the_history_clean(self) -> None:
        """The application keeps the history, so a failed run leaves none; the next turn works."""
        model = ScriptedChatModel(RuntimeError("no model"), "two")
        agent = self.make_agent(model, [static(FactBase())])

        with pytest.raises(RuntimeError, match="no model"):
            await self.run(agent, "hello")
        outcome = await self.run(agent, "second")

        assert outcome.text == "two"
        assert "FACT(hello)" not in spoken(model.inputs[1])
        assert "FACT(" not in await self.stored(agent)


class TestSyncPydanticAI(TestPydanticAI):
    """The same scenarios through `run_sync` and `run_stream`."""

    cancels = False

    async def run(self, agent: Conversation, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        def turn() -> Any:
            asyncio.set_event_loop(loop := asyncio.new_event_loop())
            try:
                return agent.agent.run_sync(text, message_history=agent.begin(session), deps=context)
            finally:
                loop.close()

        result = await asyncio.to_thread(turn)
        return outcome_of(result.output, agent.end(session, result), cited=result)

    async def stream(self, agent: Conversation, text: str, *, session: str = "s") -> Outcome:
        events: list[Any] = []

        async def hear(context: Any, heard: AsyncIterable[Any]) -> None:
            events.extend([event async for event in heard])

        history = agent.begin(session)
        async with agent.agent.run_stream(text, message_history=history, event_stream_handler=hear) as stream:
            output = await stream.get_output()
        return outcome_of(output, agent.end(session, stream), events)


async def test_instructions_survive_the_hint() -> None:
    """The agent's instructions reach the model with the hint, on each call."""
    model = ScriptedChatModel(call(query="more"), "done")
    agent = Conversation(model, wrapped([static(FactBase()), agentic(FactBase("faq"))]), instructions="Be brief.")

    await agent.agent.run("hello")

    assert [messages[0].text for messages in model.inputs] == ["Be brief.", "Be brief."]
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]


async def test_two_static_instances_show_two_hints_in_order() -> None:
    """Without names of their own, both hints follow the ask, numbered through."""
    model = ScriptedChatModel("done")

    await Conversation(model, wrapped([static(FactBase("a")), static(FactBase("b"))])).agent.run("hello")

    ask, one, two = (message.text for message in model.inputs[0])
    assert ask == "hello"
    assert "[1] (source: a.md)" in one
    assert "[2] (source: b.md)" in two


async def test_two_agentic_instances_answer_under_their_own_names() -> None:
    """Two tools on one agent share the turn's numbers."""
    model = ScriptedChatModel(call("first", query="x"), call("second", id="call_2", query="x"), "done")
    middlewares = [agentic(FactBase("a"), tool_name="first"), agentic(FactBase("b"), tool_name="second")]

    await Conversation(model, wrapped(middlewares)).agent.run("hello")

    assert "[1] (source: a.md)" in tool_text(model.inputs[1])
    assert "[2] (source: b.md)" in tool_text(model.inputs[2])


async def test_the_hint_stands_behind_the_ask_after_a_tool_shows_more_to_the_model() -> None:
    """A prompt part that a tool adds beside its result is not taken for the user's words."""
    base, model = FactBase(), ScriptedChatModel(call("look"), "done")
    agent = Conversation(model, wrapped([static(base)]))

    @agent.agent.tool_plain
    def look() -> ToolReturn:
        return ToolReturn("seen", content="a picture of a pump")

    await agent.agent.run("hello")

    first, second = ([message.text for message in messages] for messages in model.inputs)
    assert second[:2] == first == ["hello", first[1]]
    assert "FACT(hello)" in first[1]
    assert "a picture of a pump" in second
    assert base.queries == [["hello"]]


class Reminder(AbstractCapability[Any]):
    """Puts a message in line behind the ask."""

    async def before_run(self, ctx: Any) -> None:
        ctx.enqueue("Remember the units.")


@pytest.mark.parametrize("scope", ["turn", "call"])
async def test_a_reminder_of_another_capability_hides_no_hint(scope: Any) -> None:
    """A message that another capability puts in line is no second ask, and the first call is still the first."""
    base, model = FactBase(), ScriptedChatModel(call(query="more"), "done")
    own = wrapped([static(base, hint_scope=scope), agentic(FactBase("faq"))])

    await Conversation(model, [Reminder(), *own]).agent.run("hello")

    assert base.queries == [["hello"]]
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, scope == "turn"]
    assert all("Remember the units." in spoken(messages) for messages in model.inputs)


@pytest.mark.parametrize("persist", [False, True])
async def test_a_turn_goes_on_after_an_approval(persist: bool) -> None:
    """When a human approves a tool call, the rest of the turn sees the hint once, after at most one more search."""
    base, model = FactBase(), ScriptedChatModel(call("order"), "done")
    own = wrapped([static(base, persist_hint=persist)])
    agent = Conversation(model, own, output_type=[str, DeferredToolRequests])

    @agent.agent.tool_plain(requires_approval=True)
    def order() -> str:
        return "ordered"

    asked = await agent.agent.run("hello")
    approved = DeferredToolResults(approvals={"call_1": True})
    done = await agent.agent.run(message_history=asked.all_messages(), deferred_tool_results=approved)

    assert done.output == "done"
    assert [spoken(messages).count("FACT(hello)") for messages in model.inputs] == [1, 1]
    assert len(base.queries) <= 2
    assert str(done.all_messages()).count("FACT(hello)") == persist


async def test_a_run_without_a_prompt_answers_the_stored_message() -> None:
    """When the history ends with the user's message, that is the ask."""
    base, model = FactBase(), ScriptedChatModel("done")
    history = [ModelRequest(parts=[UserPromptPart("hello")])]

    await Conversation(model, wrapped([static(base)])).agent.run(message_history=history)

    assert base.queries == [["hello"]]
    assert "FACT(hello)" in spoken(model.inputs[0])


async def test_the_rewriter_hears_the_conversation_without_hints() -> None:
    """Earlier user and assistant text, no tool traffic and no stored hint."""
    heard: list[list[tuple[str, str]]] = []

    def rewrite(query: str, history: Sequence[ChatMessage]) -> str:
        heard.append([(message.role, message.text) for message in history])
        return query

    model = ScriptedChatModel("one", call(query="x"), "two")
    rag = RAGMiddleware(
        [FactBase()], RAGMiddleware.Parameters(mode="static", persist_hint=True), query_rewriter=rewrite
    )
    agent = Conversation(model, wrapped([rag, agentic(FactBase("faq"))]))
    one = await agent.agent.run("hello")

    # Through JSON, as an application stores it.
    stored = ModelMessagesTypeAdapter.validate_json(one.all_messages_json())
    await agent.agent.run(["second", BinaryContent(data=b"\x89PNG", media_type="image/png")], message_history=stored)

    assert heard == [[], [("user", "hello"), ("assistant", "one")]]


async def test_an_image_of_the_user_is_searched_for() -> None:
    """The ask carries the user's image."""
    base, model = FactBase(), ScriptedChatModel("done")
    png = BinaryContent.from_data_uri(f"data:image/png;base64,{PIXEL}")

    await Conversation(model, wrapped([static(base)], supports_images=True)).agent.run(["what is this?", png])

    (queries,) = base.queries
    assert [getattr(query, "source", None) and query.source.data for query in queries] == [None, PIXEL]
    assert images(model.inputs[0]) == [PIXEL]


async def test_fields_of_the_stores_are_offered() -> None:
    """With filter_fields="auto" the first run's tool has the stores' fields, though the agent was made before."""

    class Listed(FactBase):
        async def list_documents(self) -> list[Any]:
            return [type("Summary", (), {"metadata": {"year": 2024}})()]

    model = ScriptedChatModel("done")

    await Conversation(model, wrapped([agentic(Listed(), filter_fields="auto")])).agent.run("hello")

    assert "year" in str(model.tools[0][0].parameters["properties"]["filter"])


async def test_an_argument_of_any_name_is_answered() -> None:
    """Arguments that the schema does not have get a short answer, whatever they are called."""
    model = ScriptedChatModel(call(query="x", ctx=1, self=2), "done")

    result = await Conversation(model, wrapped([agentic(FactBase())])).agent.run("hello")

    assert result.output == "done"
    assert "ctx" in tool_text(model.inputs[1])


@pytest.mark.parametrize("arguments", ["[1]", '"text"', "nonsense{"])
async def test_arguments_that_are_no_object_do_not_end_the_run(arguments: str) -> None:
    """The model is told, by us or by Pydantic AI, and goes on."""
    replies = [ModelResponse(parts=[ToolCallPart("search_knowledge", arguments)]), ModelResponse([TextPart("done")])]
    model = FunctionModel(lambda messages, info: replies[sum(message.kind == "response" for message in messages)])

    result = await Agent(model, capabilities=[PydanticAIRAG([FactBase()])]).run("hello")

    assert result.output == "done"


async def test_nothing_of_a_run_is_kept() -> None:
    """After the run, and after one that failed, no turn is left in memory."""
    from agent_rag.middleware import pydantic_ai

    model = ScriptedChatModel(otherwise=call(query="x"))
    agent = Conversation(model, wrapped([static(FactBase()), agentic(FactBase("faq"))]))

    with pytest.raises(UsageLimitExceeded):
        await agent.agent.run("hello", usage_limits=UsageLimits(request_limit=2))
    import gc

    gc.collect()

    assert dict(pydantic_ai._runs) == {}


async def test_a_pydantic_ai_model_reranks() -> None:
    """A Pydantic AI model is accepted as rerank model."""
    script = ScriptedChatModel('{"ids": ["c2", "c1"]}')
    candidates = [hit("one", document_id="a"), hit("two", document_id="b")]

    reranked = await LLMReranker(ChatModel(model_of(script))).rerank("q", candidates)

    assert [result.document_id for result in reranked.results] == ["b", "a"]
    assert not reranked.degraded
    assert PydanticAIRAG([FactBase()], rerank_model=model_of(script)).rag.mode == "agentic"


def test_the_example_runs() -> None:
    """examples/agents/pydantic_ai_agent.py prints the hint, a cited answer, and a clean history."""
    example = ROOT / "examples/agents/pydantic_ai_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored parts: ['user-prompt', 'tool-call', 'tool-return', 'text']\n")


async def test_text_goes_out_as_a_string() -> None:
    """MW04: to an OpenAI-compatible server that refuses lists of parts."""
    pytest.importorskip("openai", reason="pip install openai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    with text_only_server() as server:
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{server.url}/v1", api_key="x"))
        result = await Agent(model, capabilities=wrapped([static(FactBase()), agentic(FactBase("faq"))])).run("hello")

        assert_text_went_out(server)
    assert "FACT(more)" in result.output
    assert [citation.number for citation in citations(result)] == [1, 2]
