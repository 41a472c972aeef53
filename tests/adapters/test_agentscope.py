"""The AgentScope adapter: the shared contract, the seed's snippets, and what only AgentScope has."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import subprocess
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agentscope", reason="scripts/test adapters agentscope installs it")

from agentscope.agent import Agent, ReActConfig
from agentscope.credential import OpenAICredential
from agentscope.event import HintBlockEvent, RequireUserConfirmEvent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, UserMsg
from agentscope.message import TextBlock as ScopeTextBlock
from agentscope.message import ToolCallBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from pydantic import BaseModel

from agent_rag.chat import ChatMessage, ToolCall, ToolSpec
from agent_rag.content import Base64Source, ContentBlock, DataBlock, TextBlock
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.agentscope import RAGMiddleware as AgentScopeRAG
from agent_rag.testing import AdapterContract, FactBase, Outcome, ScriptedChatModel
from agent_rag.testing.adapter_contract import agentic, static
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import hit
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


def service_of(
    model: ScriptedChatModel, *middlewares: RAGMiddleware, supports_images: bool | None = False
) -> Service:
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
    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Service:
        return service_of(model, *middlewares, supports_images=supports_images)

    async def run(self, agent: Service, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        CALLERS[session] = context
        message = await (await agent.agent(session)).reply(UserMsg("user", text))
        return Outcome(message.get_text_content(), citations_of(agent.states[session]))

    async def stored(self, agent: Service, session: str = "s") -> str:
        return agent.states[session].model_dump_json()

    async def stream(self, agent: Service, text: str, *, session: str = "s") -> Outcome:
        CALLERS[session] = None
        made = await agent.agent(session)
        stream = made.reply_stream(UserMsg("user", text), yield_final_msg=True)
        parts = [part async for part in stream]
        events = [part.metadata for part in parts if isinstance(part, HintBlockEvent) and "Knowledge" in part.source]
        return Outcome(parts[-1].get_text_content(), citations_of(agent.states[session]), events)
