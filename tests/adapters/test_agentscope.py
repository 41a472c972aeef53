"""The AgentScope adapter: the shared contract, the seed's snippets, and what only AgentScope has."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("agentscope", reason="scripts/test adapters agentscope installs it")

from agentscope.agent import Agent, InjectionConfig, ModelConfig, ReActConfig
from agentscope.credential import OpenAICredential
from agentscope.event import ConfirmResult, HintBlockEvent, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import AssistantMsg, Msg, ToolCallBlock, UserMsg
from agentscope.message import TextBlock as ScopeTextBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from pydantic import BaseModel

from agent_rag import Chunk, KnowledgeBase, MemoryStore
from agent_rag.chat import ChatMessage, ToolCall, ToolSpec
from agent_rag.content import Base64Source, ContentBlock, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware, TurnRegistry
from agent_rag.middleware.agentscope import RAGMiddleware as AgentScopeRAG
from agent_rag.middleware.agentscope import _turns, checked
from agent_rag.middleware.agentscope import citations as cited_in
from agent_rag.testing import AdapterContract, FactBase, HashEmbedding, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.adapter_contract.base import images
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import PIXEL, hit, picture
from tests.shared import ROOT, SHARED, needs_shared


class ScriptedModel(ChatModelBase):
    """An AgentScope chat model that formats messages for OpenAI and asks a ScriptedChatModel."""

    class Parameters(BaseModel):
        """None."""

    def __init__(self, script: ScriptedChatModel) -> None:
        super().__init__(OpenAICredential(api_key="x"), "scripted", self.Parameters(), stream=False)
        self.formatter = OpenAIChatFormatter()
        self.script = script

    async def _call_api(
        self, model_name: str, messages: list[Msg], tools: Any = None, tool_choice: Any = None, **options: Any
    ) -> ChatResponse:
        specs = [ToolSpec(**tool["function"]) for tool in tools or []]
        asked = [neutral(message) for message in await self.formatter.format(messages)]
        reply = await self.script(asked, tools=[spec for spec in specs if not is_builtin(spec)])
        calls = [ToolCallBlock(id=one.id, name=one.name, input=json.dumps(one.arguments)) for one in reply.tool_calls]
        texts = [ScopeTextBlock(text=reply.text)] if reply.text else []
        return ChatResponse(content=[*texts, *calls], is_last=True)


def is_builtin(spec: ToolSpec) -> bool:
    return spec.name == "CompressContext"


def neutral(message: dict[str, Any]) -> ChatMessage:
    """A message as AgentScope's formatter writes it for OpenAI."""
    content = message.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks: list[ContentBlock] = []
    for part in parts:
        if part["type"] == "text":
            blocks.append(TextBlock(text=part["text"]))
        else:
            media_type, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
            blocks.append(DataBlock(source=Base64Source(data=data, media_type=media_type)))
    calls = [
        ToolCall(id=one["id"], name=one["function"]["name"], arguments=json.loads(one["function"]["arguments"]))
        for one in message.get("tool_calls") or []
    ]
    return ChatMessage(role=message["role"], content=blocks, tool_calls=calls)


@dataclass
class Service:
    """An AgentScope agent holds one conversation; this makes one for each session, all with the same middlewares."""

    model: ScriptedChatModel
    middlewares: list[AgentScopeRAG]
    states: dict[str, AgentState] = field(default_factory=dict)

    async def agent(self, session: str = "s", **options: Any) -> Agent:
        state = self.states.setdefault(session, AgentState(session_id=session))
        return Agent(
            name="agent",
            system_prompt="Be brief.",
            model=ScriptedModel(self.model),
            toolkit=Toolkit(tools=[tool for one in self.middlewares for tool in await one.list_tools()]),
            middlewares=self.middlewares,
            state=state,
            react_config=ReActConfig(interruption_raise_cancelled_error=True),
            **options,
        )


CALLERS: dict[str, Any] = {}
"""Session id -> identity, as a service would keep them."""


def service_of(model: ScriptedChatModel, *middlewares: RAGMiddleware, supports_images: bool | None = False) -> Service:
    wrapped = [
        AgentScopeRAG(one, supports_images=supports_images, context=lambda state: CALLERS.get(state.session_id))
        for one in middlewares
    ]
    return Service(model, wrapped)


def citations_of(state: AgentState) -> list[dict[str, Any]]:
    """Of the last reply."""
    results = [block for message in state.context[-1:] for block in message.get_content_blocks("tool_result")]
    return [citation for result in results for citation in result.metadata["citations"]]


class TestAgentScope(AdapterContract):
    subagents = False  # nothing is around the agent's other tools

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Service:
        return service_of(model, *middlewares, supports_images=supports_images)

    async def run(self, agent: Service, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        CALLERS[session] = context
        message = await (await agent.agent(session)).reply(UserMsg("user", text))
        return Outcome(
            message.get_text_content(), citations_of(agent.states[session]), cited_in(message), [], checked(message)
        )

    async def stored(self, agent: Service, session: str = "s") -> str:
        return agent.states[session].model_dump_json()

    async def stream(self, agent: Service, text: str, *, session: str = "s") -> Outcome:
        CALLERS[session] = None
        made = await agent.agent(session)
        stream = made.reply_stream(UserMsg("user", text), yield_final_msg=True)
        parts = [part async for part in stream]
        events = [part.metadata for part in parts if isinstance(part, HintBlockEvent) and "Knowledge" in part.source]
        return Outcome(
            parts[-1].get_text_content(),
            citations_of(agent.states[session]),
            cited_in(parts[-1]),
            events,
            checked(parts[-1]),
        )


async def reply(service: Service, *inputs: Any, **options: Any) -> str:
    return str((await (await service.agent(**options)).reply(list(inputs))).get_text_content())


async def test_the_hint_stands_before_the_hints_of_the_framework() -> None:
    """AgentScope tells the time in the reply's own message; that call still is the first, for hint_scope="call"."""
    model = ScriptedChatModel(call(query="more"), "done")
    service = service_of(model, static(FactBase(), hint_scope="call"), agentic(FactBase("faq")))

    await reply(service, UserMsg("user", "hello"), injection_config=InjectionConfig(inject_runtime_state=True))

    ask, hint, time = (message.text for message in model.inputs[0] if message.role == "user")
    assert ask == "hello"
    assert "FACT(hello)" in hint
    assert "<current-time>" in time
    assert "FACT(hello)" not in spoken(model.inputs[1])


async def test_all_messages_of_the_input_are_the_question() -> None:
    """Also those of another agent, which have the assistant's role; the hint follows the last one."""
    base = FactBase()
    model = ScriptedChatModel("done")

    await reply(service_of(model, static(base)), UserMsg("ada", "one"), AssistantMsg("bob", "two"))

    assert base.queries == [["one\ntwo"]]
    assert [message.text.split("\n")[0] for message in model.inputs[0][1:3]] == ["one", "two"]
    assert "FACT(one" in model.inputs[0][3].text


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_turn_goes_on_after_the_users_approval(restarted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the reply sees the hint; only another process, which has the stored state alone, searches again."""

    async def pay() -> str:
        """Pay."""
        return "paid"

    base = FactBase()
    model = ScriptedChatModel(call("pay"), "done")
    service = service_of(model, static(base))
    agent = await service.agent()
    await agent.toolkit.add_tool(FunctionTool(pay))
    events = [event async for event in agent.reply_stream(UserMsg("user", "hello"))]
    asked = next(event for event in events if isinstance(event, RequireUserConfirmEvent))
    if restarted:
        monkeypatch.setattr("agent_rag.middleware.agentscope._turns", TurnRegistry())
    results = [ConfirmResult(confirmed=True, tool_call=one) for one in asked.tool_calls]

    message = await agent.reply(UserConfirmResultEvent(reply_id=asked.reply_id, confirm_results=results))

    assert message.get_text_content() == "done"
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert base.queries == [["hello"]] * (2 if restarted else 1)


async def test_turns_are_forgotten() -> None:
    """Nothing is kept of a reply that ended or failed."""
    before = len(_turns)
    service = service_of(ScriptedChatModel("done", RuntimeError("no model")), static(FactBase()))

    await reply(service, UserMsg("user", "hello"))
    with pytest.raises(RuntimeError, match="no model"):
        await reply(service, UserMsg("user", "again"), model_config=ModelConfig(max_retries=0))

    assert len(_turns) == before


async def test_the_formatter_says_whether_images_are_taken() -> None:
    """By default an image is shown where the model's formatter lists image types."""
    base = FactBase(hits=[hit(picture())])
    model = ScriptedChatModel("one", "two", supports_images=True)
    service = service_of(model, static(base), supports_images=None)
    agent = await service.agent()

    await agent.reply(UserMsg("user", "hello"))
    agent.model.formatter = OpenAIChatFormatter(input_types=["text/plain"])
    await agent.reply(UserMsg("user", "second"))

    assert [images(messages) for messages in model.inputs] == [[PIXEL], []]


async def test_a_bad_call_is_marked_as_an_error() -> None:
    """The tool result has the state "error", and the words say what is allowed."""
    model = ScriptedChatModel(call(query="x", knowledge_bases=["nope"]), "done")
    service = service_of(model, agentic(FactBase()))

    await reply(service, UserMsg("user", "hello"))

    (result,) = service.states["s"].context[-1].get_content_blocks("tool_result")
    assert result.state == "error"
    assert "allowed: docs" in result.output[0].text


async def test_the_tool_works_in_an_agent_without_the_middleware() -> None:
    """Numbers go on over the calls of a reply, by the state that AgentScope hands to the tool."""
    model = ScriptedChatModel(call(query="one"), call(id="call_2", query="two"), "done")
    service = service_of(model, agentic(FactBase()))
    toolkit = Toolkit(tools=await service.middlewares[0].list_tools())

    await Agent("agent", "Be brief.", ScriptedModel(model), toolkit).reply(UserMsg("user", "hello"))

    assert "[2] (source: docs.md)" in spoken(model.inputs[2])
    assert "Any of: docs." in model.tools[0][0].parameters["properties"]["knowledge_bases"]["description"]


async def test_an_agentscope_model_reranks() -> None:
    """It is asked in its own messages, with structured output."""
    model = ScriptedModel(ScriptedChatModel(call("generate_structured_output", ids=["c2", "c1"])))
    base = FactBase(hits=[hit("one", document_id="a"), hit("two", document_id="b")])
    rag = AgentScopeRAG([base], AgentScopeRAG.Parameters(mode="agentic"), model)

    result = await rag.rag.call_tool({"query": "q"})

    assert [citation.document_id for citation in result.citations] == ["b", "a"]
    assert not result.degraded


# --- the seed ---


def snippet(title: str) -> str:
    """A block of the seed's page, with the one import changed."""
    page = (SHARED / "seeds/agentscope-rag.txt").read_text("utf-8")
    (found,) = re.findall(rf"```python {title} theme=\{{null\}}\n(.*?)```", page, re.DOTALL)
    assert "from agentscope.middleware import RAGMiddleware" in found
    return str(found).replace("from agentscope.middleware", "from agent_rag.middleware.agentscope")


async def run_snippet(title: str, model: ScriptedChatModel) -> dict[str, Any]:
    """Its global names after it ran, with real parts for those that the page made before."""
    store = await MemoryStore().__aenter__()
    knowledge = KnowledgeBase("pets", "About pets.", HashEmbedding(), store, "pets")
    await knowledge.insert_document(
        [
            Chunk(content=TextBlock(text=text), source="pets.md", chunk_index=index, total_chunks=2)
            for index, text in enumerate(["Cats sleep sixteen hours a day.", "Dogs sleep twelve hours a day."])
        ]
    )
    names = {"__name__": "seed", "Agent": Agent, "knowledge": knowledge, "chat_model": ScriptedModel(model)}
    code = compile(snippet(title), title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = types.FunctionType(code, names)()
    if inspect.isawaitable(result):
        await result
    return names


@needs_shared
@pytest.mark.parametrize("title", ["static mode", "agentic mode", "combined modes"])
async def test_the_seeds_agents_run(title: str) -> None:
    """Each agent of the page answers from the knowledge base, by a hint, by the tool, or by both."""
    has_hint, has_tool = title != "agentic mode", title != "static mode"
    script = [call(query="How long do dogs sleep?")] if has_tool else []
    model = ScriptedChatModel(*script, "done")
    names = await run_snippet(title, model)

    message = await names["agent"].reply(UserMsg("user", "How long do cats sleep?"))

    assert message.get_text_content() == "done"
    assert ("Cats sleep sixteen" in spoken(model.inputs[0])) == has_hint
    assert [tool.name for tool in model.tools[0]] == (["search_knowledge"] if has_tool else [])
    assert "sleep" in spoken(model.inputs[-1])


@needs_shared
async def test_the_seeds_rerank_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's middleware asks its chat model for the order, ten candidates for three hits."""
    judge = ScriptedChatModel(call("generate_structured_output", ids=["c2", "c1"]))
    monkeypatch.setattr("agentscope.model.DashScopeChatModel", lambda credential, model: ScriptedModel(judge))
    names = await run_snippet("Configure a rerank model", ScriptedChatModel())
    plain = await names["knowledge"].search(["How long do cats sleep?"])

    (tool,) = await names["rag_mw"].list_tools()
    chunk = await tool(query="How long do cats sleep?")

    citations = chunk.metadata["citations"]
    assert [one["text"] for one in citations] == [result.chunk.content.text for result in reversed(plain)]
    assert "How long do cats sleep?" in spoken(judge.inputs[0])


def test_the_example_runs() -> None:
    """examples/agents/agentscope_agent.py prints the hint, a cited answer, and a clean context."""
    example = ROOT / "examples/agents/agentscope_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert "lasts five years" not in result.stdout.splitlines()[-1]
