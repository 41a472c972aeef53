"""The LlamaIndex adapter: the shared contract, and what only LlamaIndex has."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="scripts/test adapters llama-index installs it")

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.llms import ChatMessage as LlamaMessage
from llama_index.core.llms import ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import ToolSelection
from llama_index.core.workflow import Context
from pydantic import ConfigDict

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.llama_index import (
    CONTEXT_KEY,
    KnowledgeFunctionTool,
    RAGHintEvent,
    attach,
    checked,
    citations,
)
from agent_rag.middleware.llama_index import RAGMiddleware as LlamaIndexRAG
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken

pytestmark = [
    # A context warns that it does not serialise the memory; it is kept in the object.
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
    # ReActAgent asks its context whether it runs.
    pytest.mark.filterwarnings("ignore:is_running called from within a step"),
    # The workflow base class looks at every attribute of an agent, also at those that Pydantic has deprecated.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
]


class ScriptedModel(FunctionCallingLLM):
    """A LlamaIndex model that asks a ScriptedChatModel."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    script: ScriptedChatModel

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    async def achat(self, messages: Sequence[LlamaMessage], **options: Any) -> ChatResponse:
        specs = [ToolSpec(**tool.metadata.to_openai_tool()["function"]) for tool in options.get("tools") or []]
        return response(await self.script([neutral(message) for message in messages], tools=specs))

    async def astream_chat(self, messages: Sequence[LlamaMessage], **options: Any) -> Any:
        whole = await self.achat(messages, **options)

        async def parts() -> Any:
            yield whole

        return parts()

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **options: Any
    ) -> Any:
        return {"messages": list(chat_history or []), "tools": tools}

    def get_tool_calls_from_response(self, response: ChatResponse, **options: Any) -> list[ToolSelection]:
        calls: list[ToolSelection] = response.message.additional_kwargs.get("tool_calls", [])
        return calls

    def _unused(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    chat = stream_chat = complete = acomplete = stream_complete = astream_complete = _unused


def response(reply: ChatReply) -> ChatResponse:
    calls = [ToolSelection(tool_id=one.id, tool_name=one.name, tool_kwargs=one.arguments) for one in reply.tool_calls]
    message = LlamaMessage(role="assistant", content=reply.text, additional_kwargs={"tool_calls": calls})
    return ChatResponse(message=message, delta=reply.text)


def neutral(message: LlamaMessage) -> ChatMessage:
    blocks: list[TextBlock | DataBlock] = []
    for block in message.blocks:
        if block.block_type == "image":
            source = Base64Source(data=block.image.decode(), media_type=block.image_mimetype)
            blocks.append(DataBlock(source=source))
        else:
            blocks.append(TextBlock(text=block.text))
    return ChatMessage(role=message.role.value, content=blocks)


def agent_of(
    model: ScriptedChatModel, *middlewares: RAGMiddleware, agent_class: Any = FunctionAgent, **options: Any
) -> Any:
    return attach(agent_class(llm=ScriptedModel(script=model), **options), *wrapped(middlewares))


def wrapped(middlewares: Sequence[RAGMiddleware], **options: Any) -> list[LlamaIndexRAG]:
    return [LlamaIndexRAG(middleware, **options) for middleware in middlewares]


def outcome_of(output: Any, events: Sequence[Any] = ()) -> Outcome:
    return Outcome(
        text=output.response.content or "",
        cited=citations(output),
        checked=checked(output),
        citations=[one for made in output.tool_calls for one in made.tool_output.raw_output["citations"]],
        events=[event.hint.model_dump(mode="json") for event in events if isinstance(event, RAGHintEvent)],
    )


class TestLlamaIndex(AdapterContract):
    subagents = False  # nothing is around the agent's other tools

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        plain = FunctionAgent(llm=ScriptedModel(script=model))
        agent = attach(plain, *wrapped(middlewares, supports_images=supports_images))
        return SimpleNamespace(agent=agent, sessions={})

    async def begin(self, agent: Any, text: str, session: str, context: Any = None) -> Any:
        made = Context(agent.agent), ChatMemoryBuffer.from_defaults(token_limit=100_000)
        ctx, memory = agent.sessions.setdefault(session, made)
        await ctx.store.set(CONTEXT_KEY, context)
        return agent.agent.run(user_msg=text, ctx=ctx, memory=memory)

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        return outcome_of(await (await self.begin(agent, text, session, context)))

    async def stored(self, agent: Any, session: str = "s") -> str:
        ctx, memory = agent.sessions[session]
        return repr([memory.get_all(), ctx.to_dict()])

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        handler = await self.begin(agent, text, session)
        events = [event async for event in handler.stream_events()]
        return outcome_of(await handler, events)


class TestWithoutStreaming(TestLlamaIndex):
    """The same scenarios with ``streaming=False``, which asks the model by another method."""

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        agent = super().make_agent(model, middlewares, supports_images=supports_images)
        agent.agent.streaming = False
        return agent


async def test_agents_of_a_workflow_share_the_turn() -> None:
    """After a handoff the numbers go on."""
    handoff = call("handoff", id="2", to_agent="second", reason="x")
    model = ScriptedChatModel(call(query="one"), handoff, call(id="3", query="two"), "done")
    first = agent_of(model, agentic(FactBase()), name="first", description="a", can_handoff_to=["second"])
    second = agent_of(model, agentic(FactBase("faq")), name="second", description="b")
    workflow = AgentWorkflow(agents=[first, second], root_agent="first")

    output = await workflow.run(user_msg="hello")

    assert "[1] (source: docs.md)\nFACT(one)" in spoken(model.inputs[1])
    assert "[2] (source: faq.md)\nFACT(two)" in spoken(model.inputs[3])
    assert str(output) == "done"


async def test_a_react_agent_sees_the_hint_and_calls_the_tool() -> None:
    """The adapter knows nothing of the kind of agent."""
    steps = [
        'Thought: search.\nAction: search_knowledge\nAction Input: {"query": "more"}',
        "Thought: I can answer without using any more tools.\nAnswer: done",
    ]
    model = ScriptedChatModel(*steps)

    output = await agent_of(model, static(FactBase()), agentic(FactBase("faq")), agent_class=ReActAgent).run(
        user_msg="hello"
    )

    assert "search_knowledge" in spoken(model.inputs[0])
    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
    assert "FACT(more)" in spoken(model.inputs[1])
    assert str(output) == "done"


async def test_the_state_of_the_agent_is_not_searched_for() -> None:
    """LlamaIndex writes its state into the user's message; the query is the user's words."""
    base, model = FactBase(), ScriptedChatModel("done")

    await agent_of(model, static(base), initial_state={"colour": "red"}).run(user_msg="hello")

    assert base.queries == [["hello"]]
    assert "red" in model.inputs[0][0].text
    assert "FACT(hello)" in model.inputs[0][1].text


async def test_a_stored_context_goes_on() -> None:
    """The turn in a context survives neither JSON nor a restart; a tool call then goes on with the stored question."""
    model = ScriptedChatModel("done")
    agent = agent_of(model, agentic(FactBase()))
    ctx: Any = Context(agent)
    await agent.run(user_msg="hello", ctx=ctx)
    restored: Any = Context.from_dict(agent, ctx.to_dict())
    (tool,) = agent.tools

    output = await tool.acall(ctx=restored, query="more")

    assert output.raw_output["citations"][0]["number"] == 1


async def test_the_tool_works_outside_of_an_agent() -> None:
    """As a plain LlamaIndex tool, sync and async; a bad call is an error with the reason."""
    rag = agentic(FactBase())
    tool = KnowledgeFunctionTool(rag.tools[0], rag)

    good, bad = await tool.acall(query="x"), await asyncio.to_thread(tool.call, query="")

    assert "FACT(x)" in good.content
    assert good.raw_output["citations"][0]["number"] == 1
    assert not good.is_error
    assert bad.is_error
    assert "query" in bad.content


async def test_a_result_can_be_blocks_that_anthropic_cites() -> None:
    """One for each passage; the raw output is the same."""
    rag = agentic(FactBase("faq"), search_results="blocks")

    output = await KnowledgeFunctionTool(rag.tools[0], LlamaIndexRAG(rag)).acall(query="more")

    (block,) = output.blocks
    assert (block.block_type, block.title, block.source) == ("citable", "[1] faq.md", "faq.md")
    assert [part.text for part in block.content] == ["FACT(more)"]
    assert [one["number"] for one in output.raw_output["citations"]] == [1]


def test_a_long_description_is_no_error() -> None:
    """Many knowledge bases make a description of more than 1,024 characters."""
    rag = agentic(FactBase(description="word " * 400))

    spec = KnowledgeFunctionTool(rag.tools[0], rag).metadata.to_openai_tool()

    assert len(spec["function"]["description"]) > 1_024


async def test_fields_of_the_store_reach_the_model() -> None:
    """With filter_fields="auto" the tool is described when the model is asked."""

    class Listing(FactBase):
        async def list_documents(self) -> list[Any]:
            return [SimpleNamespace(metadata={"kind": "manual"})]

    model = ScriptedChatModel("done")

    await agent_of(model, agentic(Listing(), filter_fields="auto")).run(user_msg="hello")

    assert "- kind (text, one of manual)" in model.tools[0][0].parameters["properties"]["filter"]["description"]


def test_the_example_runs() -> None:
    """examples/agents/llama_index_agent.py prints a cited answer, offline."""
    example = Path(__file__).resolve().parents[2] / "examples/agents/llama_index_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
