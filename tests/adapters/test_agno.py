"""The Agno adapter: the shared contract, and what only Agno has."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

with warnings.catch_warnings():
    # With Pydantic before 2.10 some models of Agno warn when they are made.
    warnings.filterwarnings("ignore", message=r"Field .* has conflict with protected namespace")
    pytest.importorskip("agno.agent", reason="scripts/test adapters agno installs it")

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.exceptions import InputCheckError
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.agent import CustomEvent
from agno.run.base import RunStatus

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.errors import ConfigurationError
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.agno import CONTEXT_KEY, attach, checked, citations
from agent_rag.middleware.agno import RAGMiddleware as AgnoRAG
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken


@dataclass
class ScriptedModel(Model):
    """An Agno model that asks a ScriptedChatModel."""

    id: str = "scripted"
    script: ScriptedChatModel = field(default_factory=ScriptedChatModel)

    def invoke(self, messages: list[Message], *args: Any, tools: Any = None, **options: Any) -> ModelResponse:
        return response(self.script.answer([neutral(message) for message in messages], tools=specs(tools)))

    async def ainvoke(self, messages: list[Message], *args: Any, tools: Any = None, **options: Any) -> ModelResponse:
        return response(await self.script([neutral(message) for message in messages], tools=specs(tools)))

    def invoke_stream(self, *args: Any, **options: Any) -> Any:
        yield ScriptedModel.invoke(self, *args, **options)

    async def ainvoke_stream(self, *args: Any, **options: Any) -> Any:
        yield await ScriptedModel.ainvoke(self, *args, **options)

    def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


def specs(tools: Any) -> list[ToolSpec]:
    keep = ("name", "description", "parameters")
    return [ToolSpec(**{name: tool["function"][name] for name in keep}) for tool in tools or []]


def response(reply: ChatReply) -> ModelResponse:
    calls = [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": json.dumps(one.arguments)}}
        for one in reply.tool_calls
    ]
    return ModelResponse(role="assistant", content=reply.text or None, tool_calls=calls)


def neutral(message: Message) -> ChatMessage:
    blocks: list[TextBlock | DataBlock] = [TextBlock(text=message.get_content_string())]
    for image in message.images or []:
        data = base64.b64encode(image.content).decode()
        blocks.append(DataBlock(source=Base64Source(data=data, media_type=image.mime_type)))
    return ChatMessage(role=message.role, content=blocks)


def agent_of(
    model: ScriptedChatModel, *middlewares: RAGMiddleware, supports_images: bool = False, **options: Any
) -> Agent:
    agent = Agent(
        model=ScriptedModel(script=model), db=InMemoryDb(), add_history_to_context=True, telemetry=False, **options
    )
    return attach(agent, *(AgnoRAG(middleware, supports_images=supports_images) for middleware in middlewares))


def outcome_of(output: Any) -> Outcome:
    if output.status == RunStatus.error:
        raise RuntimeError(output.content)
    slots = [one for made in output.references or [] for one in made.references]
    return Outcome(text=output.content or "", citations=slots, cited=citations(output), checked=checked(output))


class TestAgno(AdapterContract):
    stream_events = False
    raises = False
    subagents = False  # nothing is around the agent's other tools

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        return agent_of(model, *middlewares, supports_images=supports_images)

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        return outcome_of(await agent.arun(text, session_id=session, dependencies={CONTEXT_KEY: context}))

    async def stored(self, agent: Any, session: str = "s") -> str:
        return json.dumps(agent.db._sessions, default=repr)

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        parts = [part async for part in agent.arun(text, session_id=session, stream=True, yield_run_output=True)]
        return outcome_of(parts[-1])


class TestSyncAgno(TestAgno):
    """The same scenarios through `run`."""

    cancels = False

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        arguments = {"session_id": session, "dependencies": {CONTEXT_KEY: context}}
        return outcome_of(await asyncio.to_thread(agent.run, text, **arguments))

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        def parts() -> list[Any]:
            return list(agent.run(text, session_id=session, stream=True, yield_run_output=True))

        return outcome_of((await asyncio.to_thread(parts))[-1])


async def test_a_hook_cannot_write_to_the_stream() -> None:
    """Probe: what a hook returns or yields is dropped, so there is no stream event."""

    def returns(run_input: Any) -> Any:
        return CustomEvent()

    async def awaits(run_input: Any) -> Any:
        return CustomEvent()

    agent = agent_of(ScriptedChatModel("done"), static(FactBase()), pre_hooks=[returns, awaits])
    parts = [part async for part in agent.arun("hello", stream=True, stream_events=True)]

    assert parts
    assert not any(isinstance(part, CustomEvent) for part in parts)


async def test_an_error_is_the_status_of_the_run() -> None:
    """Probe: Agno turns every error into a status, so strict mode ends the run without raising."""
    model = ScriptedChatModel("done")
    agent = agent_of(model, static(FactBase(error=RuntimeError("down")), on_error="raise"))

    output = await agent.arun("hello")

    assert output.status == RunStatus.error
    assert "down" in output.content
    assert model.inputs == []


async def test_citations_of_each_call_are_references_of_the_run() -> None:
    """In the slot of Agno's own knowledge, with the query; also in the stored run."""
    model = ScriptedChatModel(call(query="one"), call(id="call_2", query="two"), "done")
    agent = agent_of(model, agentic(FactBase()))

    output = await agent.arun("hello", session_id="s")
    stored = agent.get_session(session_id="s").runs[-1]

    for run in (output, stored):
        assert [made.query for made in run.references] == ["one", "two"]
        assert [made.references[0]["number"] for made in run.references] == [1, 2]


async def test_the_given_model_stays_without_hints() -> None:
    """The agent gets a copy, so that a model shared with another agent is not changed."""
    base, model = FactBase(), ScriptedModel(script=ScriptedChatModel("one", "two"))
    agent = attach(Agent(model=model, telemetry=False), static(base))

    await agent.arun("hello")
    await Agent(model=model, telemetry=False).arun("hello")

    assert ["FACT(hello)" in spoken(messages) for messages in model.script.inputs] == [True, False]
    assert type(agent.model).__name__ == "ScriptedModel"


async def test_guardrails_come_before_the_search() -> None:
    """What a hook refuses is not searched for, and what it rewrites is searched as rewritten."""
    base = FactBase()

    def rewrite(run_input: Any) -> None:
        if run_input.input_content == "secret":
            raise InputCheckError("refused")
        run_input.input_content = "rewritten"

    agent = agent_of(ScriptedChatModel("done"), static(base), pre_hooks=[rewrite])

    refused = await agent.arun("secret")
    await agent.arun("hello")

    assert refused.status == RunStatus.error
    assert base.queries == [["rewritten"]]


async def test_fields_of_the_store_reach_the_model() -> None:
    """With filter_fields="auto" the tool is described when the model is asked."""

    class Listing(FactBase):
        async def list_documents(self) -> list[Any]:
            return [SimpleNamespace(metadata={"kind": "manual"})]

    model = ScriptedChatModel("done")

    await agent_of(model, agentic(Listing(), filter_fields="auto")).arun("hello")

    assert "- kind (text, one of manual)" in model.tools[0][0].parameters["properties"]["filter"]["description"]


async def test_the_rewriter_sees_the_conversation() -> None:
    """Earlier words of the session, without hints, come from Agno's session."""
    seen: list[list[str]] = []

    async def rewrite(text: str, history: Sequence[ChatMessage]) -> list[str]:
        seen.append([message.text for message in history])
        return [text]

    rag = RAGMiddleware(
        [FactBase()], RAGMiddleware.Parameters(mode="static", persist_hint=True), query_rewriter=rewrite
    )
    agent = agent_of(ScriptedChatModel("one", "two"), rag)

    await agent.arun("hello", session_id="s")
    await agent.arun("second", session_id="s")

    assert seen[-1] == ["hello", "one"]


def test_an_agent_without_a_model_is_refused() -> None:
    """There is nothing to show a hint to."""
    with pytest.raises(ConfigurationError, match="no model"):
        attach(Agent(telemetry=False), static(FactBase()))


def test_the_example_runs() -> None:
    """examples/agents/agno_agent.py prints a cited answer, offline."""
    example = Path(__file__).resolve().parents[2] / "examples/agents/agno_agent.py"

    result = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("hint: ['warranty.md']\n")
    assert "[2] conditions.md" in result.stdout
    assert result.stdout.endswith("stored messages: ['user', 'assistant', 'tool', 'assistant']\n")
