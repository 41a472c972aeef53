"""Scenarios of the hint."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ...chat import ChatMessage, ChatReply
from ...errors import AgentRAGError
from ..chat import ScriptedChatModel, call, spoken
from ..knowledge import PIXEL, FactBase, Flag, hit, picture
from .base import AdapterFixtures, agentic, causes, images, roles, static, when


class AdapterStatic(AdapterFixtures):
    """Hints."""

    @when("static")
    async def test_the_first_call_sees_the_hint_right_after_the_ask(self) -> None:
        """The hint has the user's role, stands behind the user's words, and is there once."""
        model = ScriptedChatModel("done")

        outcome = await self.run(self.make_agent(model, [static(FactBase())]), "hello")

        users = [message.text for message in model.inputs[0] if message.role == "user"]
        said = "\n".join(users)
        assert outcome.text == "done"
        assert said.index("hello") < said.index("FACT(hello)")
        assert said.count("FACT(hello)") == 1
        assert "FACT(" not in spoken([message for message in model.inputs[0] if message.role != "user"])

    @when("static")
    async def test_the_hint_stays_for_the_turn(self) -> None:
        """With hint_scope="turn" the model still sees the hint after a tool call, in the same place."""
        model = ScriptedChatModel(call(query="more"), "done")
        base = FactBase()

        await self.run(self.make_agent(model, [static(base), agentic(FactBase("faq"))]), "hello")

        first, second = (roles(messages) for messages in model.inputs)
        assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
        assert second[: len(first)] == first
        assert base.queries == [["hello"]]

    @when("static", "call_scope")
    async def test_the_hint_of_one_call_is_gone_on_the_second(self) -> None:
        """With hint_scope="call" only the first call has the hint."""
        model = ScriptedChatModel(call(query="more"), "done")
        middlewares = [static(FactBase(), hint_scope="call"), agentic(FactBase("faq"))]

        await self.run(self.make_agent(model, middlewares), "hello")

        assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, False]

    @when("static", "has_history")
    async def test_nothing_stored_holds_the_hint(self) -> None:
        """History, state and checkpoints are clean, and the next turn has only its own hint: under a number that goes
        on where the framework stores what the first one stood for."""
        model = ScriptedChatModel("one", "two")
        agent = self.make_agent(model, [static(FactBase())])

        await self.run(agent, "hello")
        await self.run(agent, "second")

        stored = await self.stored(agent)
        assert "FACT(" not in stored
        assert "hello" in stored
        assert "second" in stored
        last = spoken(model.inputs[1])
        assert "FACT(second)" in last
        assert "FACT(hello)" not in last
        assert len(re.findall(r"^\[[12]\] \(source: docs\.md\)", last, re.MULTILINE)) == 1

    @when("static", "persists", "has_history")
    async def test_persist_keeps_the_hint(self) -> None:
        """With persist_hint the history holds the hint once, and the next turn sees it too."""
        model = ScriptedChatModel("one", "two")
        agent = self.make_agent(model, [static(FactBase(), persist_hint=True)])

        await self.run(agent, "hello")
        await self.run(agent, "second")

        assert spoken(model.inputs[0]).count("FACT(hello)") == 1
        assert spoken(model.inputs[1]).count("FACT(hello)") == 1
        assert spoken(model.inputs[1]).count("FACT(second)") == 1
        assert "FACT(hello)" in await self.stored(agent)

    @when("static")
    async def test_a_dead_store_does_not_end_the_turn(self) -> None:
        """Fail-open: the model answers without a hint, and the callback gets the reason without secrets."""
        events: list[Any] = []
        dead = FactBase(error=RuntimeError("http://user:hunter2@host:9200 refused"))
        model = ScriptedChatModel("done")

        outcome = await self.run(self.make_agent(model, [static(dead, on_event=events.append)]), "hello")

        assert outcome.text == "done"
        assert [type(event).__name__ for event in events] == ["SearchFailed"]
        assert "refused" in events[0].reason
        assert "hunter2" not in events[0].reason

    @when("static")
    async def test_a_slow_store_costs_the_timeout_at_most(self) -> None:
        """A store that hangs is left behind after timeout_s."""
        model = ScriptedChatModel("done")
        agent = self.make_agent(model, [static(FactBase(delay_s=30), timeout_s=0.1)])

        async with asyncio.timeout(10):
            outcome = await self.run(agent, "hello")

        assert outcome.text == "done"
        assert "FACT(" not in spoken(model.inputs[0])

    @when("static", "raises")
    async def test_strict_mode_raises(self) -> None:
        """With on_error="raise" a dead store ends the run with an error, and the model is not called."""
        model = ScriptedChatModel("done")
        agent = self.make_agent(model, [static(FactBase(error=RuntimeError("down")), on_error="raise")])

        with pytest.raises(Exception, match="down") as caught:
            await self.run(agent, "hello")

        assert any(isinstance(error, AgentRAGError) for error in causes(caught.value))
        assert model.inputs == []

    @when("static", "hint_images")
    async def test_a_vision_model_gets_the_image_and_a_text_model_its_caption(self) -> None:
        """Images are image parts where the model takes them; else a note, and never base64 text."""
        base = FactBase(hits=[hit(picture(), document_id="manual")])
        seeing, blind = ScriptedChatModel("done", supports_images=True), ScriptedChatModel("done")

        await self.run(self.make_agent(seeing, [static(base)], supports_images=True), "hello")
        await self.run(self.make_agent(blind, [static(base)]), "hello")

        assert images(seeing.inputs[0]) == [PIXEL]
        assert images(blind.inputs[0]) == []
        assert "[image: diagram.png] a wiring diagram" in spoken(blind.inputs[0])
        assert PIXEL not in spoken(blind.inputs[0])

    @when("static")
    async def test_the_hint_keeps_to_its_budget(self) -> None:
        """Whole hits are dropped from the end, and the user's words stay."""
        many = [hit(f"HIT{number} " + "word " * 400, document_id=f"d{number}") for number in range(5)]
        model = ScriptedChatModel("done")

        await self.run(self.make_agent(model, [static(FactBase(hits=many), max_context_tokens=1_200)]), "hello")

        said = spoken(model.inputs[0])
        assert [f"HIT{number}" in said for number in range(5)] == [True, True, False, False, False]
        assert "3 further hits left out" in said
        assert "hello" in said

    @when("static", "has_history")
    async def test_an_error_of_the_model_leaves_the_history_clean(self) -> None:
        """When the model call fails, no hint is left behind, and the next turn works."""
        model = ScriptedChatModel(RuntimeError("no model"), "two")
        agent = self.make_agent(model, [static(FactBase())])

        with pytest.raises(Exception):  # noqa: B017 - each framework has its own
            await self.run(agent, "hello")
        outcome = await self.run(agent, "second")

        assert outcome.text == "two"
        assert "FACT(hello)" not in spoken(model.inputs[1])
        assert "FACT(" not in await self.stored(agent)

    @when("static", "cancels")
    async def test_cancelling_a_search_cancels_the_run(self) -> None:
        """CancelledError passes through, and the agent serves the next turn."""
        base = FactBase(delay_s=lambda query: 30 if query == "hello" else 0)
        model = ScriptedChatModel("done")
        agent = self.make_agent(model, [static(base)])
        running = asyncio.create_task(self.run(agent, "hello"))
        await base.asked.wait()

        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await self.run(agent, "second", session="other")).text == "done"
        assert len(model.inputs) == 1

    @when("not cancels")
    async def test_a_run_in_a_thread_goes_on_when_its_caller_is_cancelled(self) -> None:
        """Probe: nothing tells the framework, which goes on to its tools and to the model's next call."""
        asked, cancelled, ended = Flag(), threading.Event(), Flag()

        def first(messages: Sequence[ChatMessage]) -> ChatReply:
            asked.set()
            cancelled.wait(10)
            return call(query="more")

        def second(messages: Sequence[ChatMessage]) -> str:
            ended.set()
            return "done"

        model = ScriptedChatModel(first, second)
        running = asyncio.create_task(self.run(self.make_agent(model, [agentic(FactBase())]), "hello"))
        await asked.wait()

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        cancelled.set()

        async with asyncio.timeout(30):
            await ended.wait()
        assert "FACT(more)" in spoken(model.inputs[1])
