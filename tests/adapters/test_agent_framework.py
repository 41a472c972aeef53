"""The Agent Framework adapter: the shared contract, and what only Agent Framework has."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="scripts/test adapters agent-framework installs it")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
)
from packaging.version import Version

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, ContentBlock, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.agent_framework import RAGMiddleware as AgentFrameworkRAG
from agent_rag.middleware.agent_framework import checked, citations
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.adapter_contract.base import tool_text
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import hit
from tests.shared import ROOT

# Before, the framework refuses a call whose arguments have wrong types before any hook sees it.
REFUSES_FIRST = Version(version("agent-framework-core")) < Version("1.19")


class ScriptedRaw(BaseChatClient):
    """A chat client of the framework that asks a ScriptedChatModel."""

    script: ScriptedChatModel

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Any, **more: Any) -> Any:
        specs = [ToolSpec(**tool.to_json_schema_spec()["function"]) for tool in options.get("tools") or []]
        asked = [neutral(message) for message in messages]

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", contents(await self.script(asked, tools=specs)))])

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            for content in contents(await self.script(asked, tools=specs)):
                yield ChatResponseUpdate(role="assistant", contents=[content])

        return self._build_response_stream(updates()) if stream else answer()


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, ScriptedRaw):
    """With the framework's own layers on top."""


def client_of(script: ScriptedChatModel) -> ScriptedClient:
    client = ScriptedClient()
    client.script = script
    return client


def contents(reply: ChatReply) -> list[Content]:
    calls = [
        Content.from_function_call(call_id=one.id, name=one.name, arguments=json.dumps(one.arguments))
        for one in reply.tool_calls
    ]
    return [*([Content.from_text(reply.text)] if reply.text else []), *calls]


def neutral(message: Message) -> ChatMessage:
    blocks: list[ContentBlock] = []
    for content in message.contents:
        for item in content.items or [] if content.type == "function_result" else [content]:
            if item.type == "text":
                blocks.append(TextBlock(text=item.text or ""))
            elif item.type == "data":
                data = str(item.uri).partition(";base64,")[2]
                blocks.append(DataBlock(source=Base64Source(data=data, media_type=str(item.media_type))))
    return ChatMessage(role=message.role, content=blocks)


@dataclass
class Application:
    """An agent, and the sessions that an application would keep."""

    agent: Agent
    sessions: dict[str, AgentSession] = field(default_factory=dict)

    def session(self, name: str) -> AgentSession:
        return self.sessions.setdefault(name, AgentSession(session_id=name))


def app_of(
    model: ScriptedChatModel,
    *middlewares: RAGMiddleware,
    supports_images: bool = False,
    history: InMemoryHistoryProvider | None = None,
    **options: Any,
) -> Application:
    """The history is loaded after our providers ran: so the framework adds its own."""
    providers: list[Any] = [
        AgentFrameworkRAG(one, supports_images=supports_images, context=lambda session: session.state.get("caller"))
        for one in middlewares
    ]
    providers.append(history or InMemoryHistoryProvider())
    return Application(Agent(client=client_of(model), context_providers=providers, **options))


def outcome_of(response: Any, events: Sequence[dict[str, Any]] = ()) -> Outcome:
    results = [one for message in response.messages for one in message.contents if one.type == "function_result"]
    items = [item for result in results for item in (result.items or [])[:1]]
    slots = [one for item in items for one in (item.additional_properties or {}).get("citations", ())]
    return Outcome(response.messages[-1].text, slots, citations(response), list(events), checked(response))


class TestAgentFramework(AdapterContract):
    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Application:
        return app_of(model, *middlewares, supports_images=supports_images)

    def make_caller(self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], expert: Application) -> Any:
        async def ask_expert(question: str) -> str:
            """Ask an expert."""
            return (await self.run(expert, question)).text

        return app_of(model, *middlewares, tools=[ask_expert])

    async def run(self, agent: Application, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.session(session).state["caller"] = context
        return outcome_of(await agent.agent.run(text, session=agent.session(session)))

    async def stored(self, agent: Application, session: str = "s") -> str:
        return json.dumps(agent.session(session).to_dict(), default=repr)

    async def stream(self, agent: Application, text: str, *, session: str = "s") -> Outcome:
        stream = agent.agent.run(text, session=agent.session(session), stream=True)
        updates = [update async for update in stream]
        events = [event for one in updates for event in (one.additional_properties or {}).get("agent_rag_hints", ())]
        assert "FACT(hello)" not in await self.stored(agent, session)
        return outcome_of(await stream.get_final_response(), events)


if REFUSES_FIRST:
    # Shown by the next test.
    TestAgentFramework.test_wrong_arguments_get_a_short_answer = None


async def test_a_wrong_type_gets_a_short_answer() -> None:
    """Before 1.19 the framework refuses wrong types of top-level arguments in words of its own; names and filters are
    ours to answer in all versions."""
    wrong = [call(query="x", top_k=[1]), call(id="call_2", query="x", knowledge_bases=["nope"])]
    model = ScriptedChatModel(*wrong, "done")

    await run(app_of(model, agentic(FactBase())))

    answers = [tool_text(messages) for messages in model.inputs[1:]]
    assert ("Argument parsing failed" in answers[0]) == REFUSES_FIRST
    assert "allowed: docs" in answers[1]


async def run(app: Application, text: str = "hello") -> str:
    return str((await app.agent.run(text, session=app.session("s"))).text)


async def test_the_question_stands_after_the_history() -> None:
    """Although the history provider runs after ours, the rewriter sees the history, and the hint follows it."""
    seen: list[str] = []

    def rewrite(query: str, history: Sequence[ChatMessage]) -> str:
        seen.append(" ".join(message.text for message in history))
        return query

    model = ScriptedChatModel("one", "two")
    middleware = RAGMiddleware([FactBase()], RAGMiddleware.Parameters(mode="static"), query_rewriter=rewrite)
    app = app_of(model, middleware)

    await run(app, "first")
    await run(app, "second")

    assert seen == ["", "first one"]
    said = [message.text.split("\n")[0] for message in model.inputs[1]]
    assert said[:3] == ["first", "one", "second"]
    assert "FACT(second)" in model.inputs[1][3].text


async def test_storing_the_context_does_not_store_the_hint() -> None:
    """A history provider that keeps what other providers add never sees it."""
    model = ScriptedChatModel("done")
    app = app_of(model, static(FactBase()), history=InMemoryHistoryProvider(store_context_messages=True))

    await run(app)

    assert "FACT(hello)" in spoken(model.inputs[0])
    assert "FACT(" not in json.dumps(app.session("s").to_dict(), default=repr)


async def test_storing_each_model_call_does_not_store_the_hint() -> None:
    """With require_per_service_call_history_persistence the first call sees the hint and none stores it. Later ones see
    it in old versions only: in new ones a provider's middleware no longer gets the question again."""
    model = ScriptedChatModel(call(query="more"), "done")
    app = app_of(model, static(FactBase()), agentic(FactBase("faq")), require_per_service_call_history_persistence=True)

    await run(app)

    assert "FACT(hello)" in spoken(model.inputs[0])
    assert len(model.inputs) == 2
    assert "FACT(hello)" not in json.dumps(app.session("s").to_dict(), default=repr)


async def test_a_turn_goes_on_after_an_approval() -> None:
    """The run that brings the user's approval finds the question in the history, and its model sees the hint."""

    async def pay() -> str:
        """Pay."""
        return "paid"

    base = FactBase()
    model = ScriptedChatModel(call("pay"), "done")
    app = app_of(model, static(base), tools=[FunctionTool(name="pay", func=pay, approval_mode="always_require")])
    session = app.session("s")
    asked = await app.agent.run("hello", session=session)
    (request,) = asked.user_input_requests

    answered = await app.agent.run(Message("user", [request.to_function_approval_response(True)]), session=session)

    assert answered.text == "done"
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert base.queries == [["hello"], ["hello"]]


async def test_two_static_providers_show_two_hints_in_order() -> None:
    """With names of their own, both hints follow the question, numbered through, and both are in the stream."""
    model = ScriptedChatModel("done")
    first = RAGMiddleware([FactBase("a")], RAGMiddleware.Parameters(mode="static"), name="first")
    second = RAGMiddleware([FactBase("b")], RAGMiddleware.Parameters(mode="static"), name="second")

    updates = [update async for update in app_of(model, first, second).agent.run("hello", stream=True)]

    ask, one, two = (message.text for message in model.inputs[0])
    assert ask == "hello"
    assert "[1] (source: a.md)" in one
    assert "[2] (source: b.md)" in two
    assert {event["middleware"] for event in updates[0].additional_properties["agent_rag_hints"]} == {"first", "second"}


async def test_the_callers_list_of_messages_is_not_changed() -> None:
    """Also when the hint is stored."""
    messages = [Message("user", ["hello"])]
    app = app_of(ScriptedChatModel("done"), static(FactBase(), persist_hint=True))

    await app.agent.run(messages, session=app.session("s"))

    assert [message.text for message in messages] == ["hello"]


async def test_a_client_of_the_framework_reranks() -> None:
    """It is accepted as rerank model."""
    client = client_of(ScriptedChatModel('{"ids": ["c2", "c1"]}'))
    base = FactBase(hits=[hit("one", document_id="a"), hit("two", document_id="b")])
    provider = AgentFrameworkRAG([base], AgentFrameworkRAG.Parameters(), client)

    result = await provider.rag.call_tool({"query": "q"})

    assert [citation.document_id for citation in result.citations] == ["b", "a"]
    assert not result.degraded


def test_the_example_runs() -> None:
    """examples/agents/agent_framework_agent.py prints the hint, a cited answer, and a clean history."""
    example = ROOT / "examples/agents/agent_framework_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored messages: ['user', 'assistant', 'tool', 'assistant']\n")
