"""The LangChain adapter: the shared contract, and what only LangChain has."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("langchain", reason="scripts/test adapters langchain installs it")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ConfigDict

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.langchain import RAGMiddleware as LangChainRAG
from agent_rag.middleware.langchain import checked, citations
from agent_rag.retrieval.rerank_llm import LLMReranker
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import hit

from .wire import assert_text_went_out, text_only_server

ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


class ScriptedModel(BaseChatModel):
    """A LangChain chat model that asks a ScriptedChatModel."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    script: ScriptedChatModel
    tools: list[ToolSpec] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        functions = [convert_to_openai_tool(tool)["function"] for tool in tools]
        return self.model_copy(update={"tools": [ToolSpec(**function) for function in functions]})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return self._result(self.script.answer([neutral(message) for message in messages], tools=self.tools))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return self._result(await self.script([neutral(message) for message in messages], tools=self.tools))

    def _result(self, reply: ChatReply) -> ChatResult:
        calls = [{"name": one.name, "args": one.arguments, "id": one.id} for one in reply.tool_calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply.text, tool_calls=calls))])


def neutral(message: BaseMessage) -> ChatMessage:
    parts = [message.content] if isinstance(message.content, str) else message.content
    blocks: list[TextBlock | DataBlock] = []
    for part in parts:
        if isinstance(part, dict) and part["type"] == "image":
            blocks.append(DataBlock(source=Base64Source(data=part["base64"], media_type=part["mime_type"])))
        else:
            blocks.append(TextBlock(text=part if isinstance(part, str) else part["text"]))
    return ChatMessage(role=ROLES[message.type], content=blocks)


def agent_of(
    model: ScriptedChatModel, *middlewares: RAGMiddleware, supports_images: bool = False, **options: Any
) -> Any:
    wrapped = [LangChainRAG(middleware, supports_images=supports_images) for middleware in middlewares]
    return create_agent(
        ScriptedModel(script=model),
        middleware=[*wrapped, *options.pop("middleware", [])],
        checkpointer=InMemorySaver(),
        context_schema=str,
        **options,
    )


def outcome_of(messages: list[BaseMessage], events: Sequence[dict[str, Any]] = ()) -> Outcome:
    start = max(position for position, message in enumerate(messages) if message.type == "human")
    artifacts = [message.artifact for message in messages[start:] if message.type == "tool" and message.artifact]
    return Outcome(
        text=str(messages[-1].text),
        citations=[citation for artifact in artifacts for citation in artifact["citations"]],
        events=list(events),
        cited=citations(messages),
        checked=checked(messages),
    )


def config(session: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": session}}


class TestLangChain(AdapterContract):
    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        return agent_of(model, *middlewares, supports_images=supports_images)

    def make_caller(self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], expert: Any) -> Any:
        async def ask_expert(question: str) -> str:
            """Ask an expert."""
            return (await self.run(expert, question)).text

        def ask_in_sync(question: str) -> str:
            return str(expert.invoke({"messages": [HumanMessage(question)]}, config("s"))["messages"][-1].text)

        tool = StructuredTool.from_function(ask_in_sync, ask_expert, "ask_expert", "Ask an expert.")
        return agent_of(model, *middlewares, tools=[tool])

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        state = await agent.ainvoke({"messages": [HumanMessage(text)]}, config(session), context=context)
        return outcome_of(state["messages"])

    async def stored(self, agent: Any, session: str = "s") -> str:
        states = [state.values async for state in agent.aget_state_history(config(session))]
        saver = agent.checkpointer
        return repr([states, dict(saver.storage), dict(saver.blobs), dict(saver.writes)])

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        stream: AsyncIterator[Any] = agent.astream(
            {"messages": [HumanMessage(text)]}, config(session), stream_mode=["custom", "messages"]
        )
        parts = [part async for part in stream]
        events = [part for mode, part in parts if mode == "custom"]
        state = await agent.aget_state(config(session))
        return outcome_of(state.values["messages"], events)


class TestSyncLangChain(TestLangChain):
    """The same scenarios through `invoke` and `stream`."""

    cancels = False

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        state = await asyncio.to_thread(
            agent.invoke, {"messages": [HumanMessage(text)]}, config(session), context=context
        )
        return outcome_of(state["messages"])

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        def events() -> list[dict[str, Any]]:
            stream = agent.stream({"messages": [HumanMessage(text)]}, config(session), stream_mode="custom")
            return list(stream)

        heard = await asyncio.to_thread(events)
        return outcome_of((await agent.aget_state(config(session))).values["messages"], heard)


async def test_a_turn_goes_on_after_an_interrupt() -> None:
    """When a human approves the tool call, the rest of the turn still sees the hint, and searches at most once more."""
    base, model = FactBase(), ScriptedChatModel(call(query="more"), call(id="call_2", query="again"), "done")
    approval = HumanInTheLoopMiddleware(interrupt_on={"search_knowledge": True})
    agent = agent_of(model, static(base), agentic(FactBase("faq")), middleware=[approval])

    await agent.ainvoke({"messages": [HumanMessage("hello")]}, config("s"))
    for _ in range(2):
        await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config("s"))

    assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True, True]
    assert base.queries == [["hello"], ["hello"]]


async def test_two_static_instances_show_two_hints_in_order() -> None:
    """With names of their own, both hints follow the ask, numbered through."""
    model = ScriptedChatModel("done")
    first = RAGMiddleware([FactBase("a")], RAGMiddleware.Parameters(mode="static"), name="first")
    second = RAGMiddleware([FactBase("b")], RAGMiddleware.Parameters(mode="static"), name="second")

    await agent_of(model, first, second).ainvoke({"messages": [HumanMessage("hello")]}, config("s"))

    ask, one, two = (message.text for message in model.inputs[0])
    assert ask == "hello"
    assert "[1] (source: a.md)" in one
    assert "[2] (source: b.md)" in two


async def test_a_langchain_model_reranks() -> None:
    """A LangChain chat model is accepted as rerank model."""
    model = ScriptedModel(script=ScriptedChatModel('{"ids": ["c2", "c1"]}'))
    candidates = [hit("one", document_id="a"), hit("two", document_id="b")]

    reranked = await LLMReranker(model).rerank("q", candidates)

    assert [result.document_id for result in reranked.results] == ["b", "a"]
    assert not reranked.degraded


async def test_the_tool_works_outside_of_an_agent() -> None:
    """As a plain LangChain tool, sync and async, with citations in the artifact."""
    (tool,) = LangChainRAG([FactBase()]).tools

    message = await tool.ainvoke({"name": tool.name, "args": {"query": "x"}, "id": "1", "type": "tool_call"})

    assert "FACT(x)" in message.text
    assert message.artifact["citations"][0]["number"] == 1


async def test_a_bad_call_is_marked_as_an_error() -> None:
    """The tool message has status "error" and the reason."""
    model = ScriptedChatModel(call(query=""), "done")

    state = await agent_of(model, agentic(FactBase())).ainvoke({"messages": [HumanMessage("hello")]}, config("s"))

    message = next(message for message in state["messages"] if message.type == "tool")
    assert message.status == "error"
    assert "query" in message.text


async def test_fields_of_the_store_reach_the_model() -> None:
    """With filter_fields="auto" the tool is described anew when the turn begins, although it was made before."""

    class Listing(FactBase):
        async def list_documents(self) -> list[Any]:
            return [SimpleNamespace(metadata={"kind": "manual"})]

    model = ScriptedChatModel("done")

    await agent_of(model, agentic(Listing(), filter_fields="auto")).ainvoke(
        {"messages": [HumanMessage("hello")]}, config("s")
    )

    assert "- kind (text, one of manual)" in model.tools[0][0].parameters["properties"]["filter"]["description"]


def test_the_example_runs() -> None:
    """examples/agents/langchain_agent.py prints the hint, a cited answer, and a clean history."""
    example = Path(__file__).resolve().parents[2] / "examples/agents/langchain_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored messages: ['human', 'ai', 'tool', 'ai']\n")


async def test_text_goes_out_as_a_string() -> None:
    """MW04: to an OpenAI-compatible server that refuses lists of parts."""
    openai = pytest.importorskip("langchain_openai", reason="pip install langchain-openai")
    with text_only_server() as server:
        model = openai.ChatOpenAI(model="m", base_url=f"{server.url}/v1", api_key="x", max_retries=0)
        middlewares = [LangChainRAG(static(FactBase())), LangChainRAG(agentic(FactBase("faq")))]

        state = await create_agent(model, middleware=middlewares).ainvoke({"messages": [HumanMessage("hello")]})

        assert_text_went_out(server)
    assert "FACT(more)" in state["messages"][-1].text
    assert [citation.number for citation in citations(state)] == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
def test_a_forked_child_answers() -> None:
    """MW06: the parent has called `invoke`, forks, and the child calls it too."""
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
from tests.adapters.test_langchain import *
model = ScriptedChatModel(call(query="parent"), "one", call(query="child"), "two")
agent = agent_of(model, static(FactBase()), agentic(FactBase("faq"), timeout_s=2))

def ask(session):
    return agent.invoke({"messages": [HumanMessage("hello")]}, config(session))["messages"]

print("FACT(parent)" in ask("a")[-2].text, flush=True)
child = os.fork()
if child == 0:
    print("FACT(child)" in ask("b")[-2].text, flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    root = Path(__file__).resolve().parents[2]

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=root)

    assert (result.returncode, result.stdout) == (0, "True\nTrue\n"), result.stderr


async def test_a_result_can_be_blocks_that_anthropic_cites() -> None:
    """One for each passage; the artifact is the same."""
    (tool,) = LangChainRAG(agentic(FactBase("faq"), search_results="blocks")).tools
    asked = {"type": "tool_call", "id": "1", "name": "search_knowledge", "args": {"query": "more"}}

    message = await tool.ainvoke(asked)

    assert message.content == [
        {
            "type": "search_result",
            "source": "faq.md",
            "title": "[1] faq.md",
            "content": [{"type": "text", "text": "FACT(more)"}],
            "citations": {"enabled": True},
        }
    ]
    assert [citation.number for citation in citations([message])] == [1]
