"""The adapter contract passes for the plain agent loop, and fails for adapters with the usual faults."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_rag.chat import ChatMessage, user
from agent_rag.middleware import RAGMiddleware
from agent_rag.middleware.loop import run_agent
from agent_rag.testing import AdapterContract, Outcome, ScriptedChatModel

ROOT = Path(__file__).resolve().parents[2]


class PlainAgent:
    """The plain loop with a store of conversations."""

    def __init__(self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], images: bool) -> None:
        model.supports_images = images
        self.model = model
        self.middlewares = middlewares
        self.sessions: dict[str, list[ChatMessage]] = {}


class TestPlainLoop(AdapterContract):
    streams = False
    subagents = False  # a tool of the loop knows nothing of the run that calls it

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> PlainAgent:
        return PlainAgent(model, middlewares, supports_images)

    async def run(self, agent: PlainAgent, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        history = [*agent.sessions.get(session, []), user(text)]
        agent.sessions[session] = history
        run = await run_agent(agent.model, history, middleware=agent.middlewares, context=context)
        agent.sessions[session] = run.messages
        results = [message.artifact for message in run.messages[len(history) :] if message.role == "tool"]
        return Outcome(
            text=run.text,
            citations=[citation for result in results for citation in result.structured()["citations"]],
            cited=run.citations,
            checked=run.checked,
        )

    async def stored(self, agent: PlainAgent, session: str = "s") -> str:
        return repr([message.model_dump() for message in agent.sessions[session]])


FAULTY = """
from agent_rag.chat import user
from agent_rag.middleware.loop import run_agent
from agent_rag.middleware import with_hints
from tests.testing.test_adapter_contract import TestPlainLoop as _Good, Outcome

class TestFaulty(_Good):
    {fault}
"""
FAULTS = {
    "keeps the hint in the history": (
        """
        async def run(self, agent, text, *, session="s", context=None):
            history = [*agent.sessions.get(session, []), user(text)]
            for middleware in agent.middlewares:
                if hint := await middleware.hint(middleware.start_turn(text)):
                    history.append(user(hint.text))
            reply = await agent.model(history)
            agent.sessions[session] = [*history, reply.message()]
            return Outcome(reply.text)
        """,
        "test_nothing_stored_holds_the_hint",
    ),
    "keeps the turn on the shared object": (
        """
        turn = None
        async def run(self, agent, text, *, session="s", context=None):
            import asyncio
            type(self).turn = agent.middlewares[0].start_turn(text)
            await asyncio.sleep(0.001)
            hint = await agent.middlewares[0].hint(self.turn)
            return Outcome(await agent.model([user(text), hint.message()]) and "")
        """,
        "test_concurrent_runs_do_not_cross",
    ),
    "searches on every call": (
        """
        async def run(self, agent, text, *, session="s", context=None):
            for middleware in agent.middlewares:
                await middleware.hint(middleware.start_turn(text))
            return await super().run(agent, text, session=session, context=context)
        """,
        "test_the_hint_stays_for_the_turn",
    ),
    "drops the citations": (
        """
        async def run(self, agent, text, *, session="s", context=None):
            outcome = await super().run(agent, text, session=session, context=context)
            return Outcome(outcome.text)
        """,
        "test_citations_are_in_the_frameworks_slot",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_adapter_with_a_fault_fails(fault: str, tmp_path: Path) -> None:
    """Each of the usual faults fails the scenario that is there for it."""
    code, scenario = FAULTS[fault]
    body = textwrap.indent(textwrap.dedent(code), "    ").strip()
    (tmp_path / "test_faulty.py").write_text(FAULTY.format(fault=body), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-k",
               f"Faulty and {scenario}", str(tmp_path / "test_faulty.py")]  # fmt: skip

    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})

    assert "1 failed" in result.stdout, result.stdout + result.stderr
