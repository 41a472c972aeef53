"""Scenarios of both modes, streams, identities and concurrency."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

from ...chat import ChatMessage, ChatReply
from ..chat import ScriptedChatModel, call, spoken
from ..knowledge import FactBase, hit
from .base import AdapterFixtures, Outcome, agentic, static, tool_text, when


class AdapterTogether(AdapterFixtures):
    """Both modes, streams, identities and concurrency."""

    @when("static")
    async def test_both_modes_share_the_turn(self) -> None:
        """Numbers go on after the hint's, and what the hint showed is not shown again."""
        known, fresh = hit("KNOWN text", document_id="a"), hit("FRESH text", document_id="b")
        found = FactBase(hits=lambda query: [known] if query == "hello" else [known, fresh])
        model = ScriptedChatModel(call(query="more"), "done")

        await self.run(self.make_agent(model, [static(found), agentic(found)]), "hello")

        answer = tool_text(model.inputs[1])
        assert "[1] (source: a.md)\nKNOWN text" in spoken(model.inputs[0])
        assert "[2] (source: b.md)\nFRESH text" in answer
        assert "KNOWN" not in answer
        assert "[1]" in answer

    @when("static", "streams")
    async def test_streaming_gives_the_same(self) -> None:
        """A streamed turn sees the hint on both calls and searches once."""
        base = FactBase()
        model = ScriptedChatModel(call(query="more"), "done")

        outcome = await self.stream(self.make_agent(model, [static(base), agentic(FactBase("faq"))]), "hello")

        assert outcome.text == "done"
        assert ["FACT(hello)" in spoken(messages) for messages in model.inputs] == [True, True]
        assert base.queries == [["hello"]]

    @when("static", "streams", "stream_events")
    async def test_the_stream_carries_one_hint_event(self) -> None:
        """With the hint and its citations; none with emit_hint_event=False."""
        loud, quiet = ScriptedChatModel("done"), ScriptedChatModel("done")

        told = await self.stream(self.make_agent(loud, [static(FactBase())]), "hello")
        silent = await self.stream(self.make_agent(quiet, [static(FactBase(), emit_hint_event=False)]), "hello")

        (event,) = told.events
        assert "FACT(hello)" in event["text"]
        assert [citation["number"] for citation in event["citations"]] == [1]
        assert silent.events == []

    @when("has_context")
    async def test_the_scope_follows_the_caller(self) -> None:
        """Each run reads only what its caller may, whatever filter the model writes."""
        base = FactBase(
            hits=[hit(f"SECRET of {who}", document_id=who, metadata={"owner": who}) for who in ("ada", "bob")]
        )
        filter_of_bob = {"field": "owner", "operator": "eq", "value": "bob"}
        model = ScriptedChatModel(call(query="x"), call(id="call_2", query="x", filter=filter_of_bob), "done")
        middleware = agentic(base, filter_fields=["owner"], scope=lambda who: {"owner": who})

        await self.run(self.make_agent(model, [middleware]), "hello", context="ada")

        said = spoken(model.inputs[2])
        assert "SECRET of ada" in said
        assert "SECRET of bob" not in said
        assert "No match found" in said

    @when("static")
    async def test_concurrent_runs_do_not_cross(self) -> None:
        """Many turns at once on one middleware object, with staggered searches and model calls, see only their own."""
        for round_number in range(self.concurrent_rounds):
            await self._one_round(round_number)

    async def _one_round(self, round_number: int) -> None:
        count = self.concurrent_runs

        def delay(query: str) -> float:
            return (zlib.crc32(f"{round_number} {query}".encode()) % 5) / 1_000

        middlewares = [static(FactBase(delay_s=delay)), agentic(FactBase("faq", delay_s=delay))]
        model = ScriptedChatModel(otherwise=_echo, delay_s=0.001)
        shared = self.make_agent(model, middlewares)

        async def one(number: int) -> Outcome:
            await asyncio.sleep(((number * 7 + round_number) % count) / 2_000)
            agent = shared if self.same_agent else self.make_agent(model, middlewares)
            return await self.run(agent, f"user-{number}", session=f"s{round_number}-{number}")

        outcomes = await asyncio.gather(*(one(number) for number in range(count)))

        expected = [f"FACT(user-{number}) FACT(more of user-{number})" for number in range(count)]
        assert [outcome.text for outcome in outcomes] == expected


def _echo(messages: Sequence[ChatMessage]) -> ChatReply | str:
    """First a tool call about the user's words, then every FACT that can be seen."""
    asks = [message.text for message in messages if message.role == "user" and "FACT(" not in message.text]
    if not any(message.role == "tool" for message in messages):
        ask = next((text for text in asks if text.startswith("user-")), None)
        if ask is None:
            # A framework may have put the hint into the user's own message.
            ask = next(message.text for message in messages if message.role == "user").split("\n")[0]
        return call(query=f"more of {ask}")
    said = spoken(messages)
    return " ".join(f"FACT({part.split(')')[0]})" for part in said.split("FACT(")[1:])
