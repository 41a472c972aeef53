"""The Agno adapter: the shared contract, and what only Agno has."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agno", reason="scripts/test adapters agno installs it")

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.base import RunStatus

from agent_rag.chat import ChatMessage, ChatReply, ToolSpec
from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.errors import ConfigurationError
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.agno import CONTEXT_KEY, attach
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
    return attach(agent, middlewares, supports_images=supports_images)


def outcome_of(output: Any) -> Outcome:
    if output.status == RunStatus.error:
        raise RuntimeError(output.content)
    citations = [one for made in output.references or [] for one in made.references]
    return Outcome(text=output.content or "", citations=citations)


class TestAgno(AdapterContract):
    stream_events = False
    raises = False

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
