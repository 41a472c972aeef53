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
pytestmark = pytest.mark.filterwarnings("ignore:function_calling_llm is deprecated:DeprecationWarning")


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
    concurrent_rounds = 5

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
    concurrent_rounds = 2

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        agent.context = context
        output = await crew_of(agent.agent).akickoff(inputs={"ask": text})
        return Outcome(text=output.raw)
