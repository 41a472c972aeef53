"""M13: one middleware object serves everyone, and nobody sees another's text."""

from __future__ import annotations

import asyncio
import random

import pytest

from agent_rag.chat import ChatMessage, ChatReply, user
from agent_rag.middleware import Turn, TurnRegistry
from agent_rag.middleware.loop import run_agent
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import hit

from .bases import agentic, static


async def test_fifty_turns_at_once_do_not_cross_in_twenty_rounds() -> None:
    """Each turn has its own marker and tenant, with random waits in the store and in the model."""
    chance = random.Random(7)
    tenants = [f"tenant{n}" for n in range(50)]
    stored = [
        hit(f"MARK-{who}-{n}", document_id=f"{who}-{n}", metadata={"tenant": who}) for who in tenants for n in (0, 1)
    ]
    base = FactBase(hits=stored, delay_s=lambda query: chance.random() / 200)
    scope = {"scope": lambda who: {"tenant": who}}
    middlewares = [static(base, top_k=1, options=scope), agentic(base, top_k=2, options=scope)]

    class Slow(ScriptedChatModel):
        async def __call__(self, messages: object, **options: object) -> ChatReply:
            await asyncio.sleep(chance.random() / 200)
            return self.answer(messages, **options)  # type: ignore[arg-type]

    for _ in range(20):

        async def one(who: str) -> None:
            model = Slow(call(query="more"), "done")
            run = await run_agent(model, f"I am {who}", middleware=middlewares, context=who)
            for sent in model.inputs:
                marks = {part.split("-")[0] for part in spoken(sent).split("MARK-")[1:]}
                assert marks == {who}
            assert {citation.metadata["tenant"] for citation in run.citations} == {who}
            assert [citation.number for citation in run.citations] == [1, 2]

        await asyncio.gather(*(one(who) for who in tenants))


async def test_turns_share_nothing() -> None:
    """Two turns of one object: separate numbers, hints and repeat caches."""
    rag = static(FactBase())
    first, second = rag.start_turn("a"), rag.start_turn("b")

    hints = await asyncio.gather(rag.hint(first), rag.hint(second))

    assert ["FACT(a)" in hint.text for hint in hints if hint] == [True, False]
    assert [[c.number for c in turn.citations] for turn in (first, second)] == [[1], [1]]
    assert first.id != second.id


async def test_the_active_turn_is_that_of_the_context() -> None:
    """Tasks with turns of their own do not see each other's."""

    async def one(name: str) -> str:
        with Turn(name).active() as turn:
            await asyncio.sleep(0.001)
            found = Turn.current()
            assert found is turn
            return found.text

    assert await asyncio.gather(*(one(str(n)) for n in range(5))) == ["0", "1", "2", "3", "4"]
    assert Turn.current() is None


def test_the_registry_forgets_what_was_unused_for_longest() -> None:
    """For frameworks without a per-run slot; bounded."""
    registry = TurnRegistry(max_turns=2)
    turns = {key: registry.get_or_start(key, Turn) for key in ("a", "b")}

    again = registry.get_or_start("a", lambda: Turn("other"))
    registry.get_or_start("c", lambda: Turn("c"))

    assert again is turns["a"]
    assert [registry.get(key) is not None for key in ("a", "b", "c")] == [True, False, True]
    registry.end("a")
    registry.end("unknown")
    assert len(registry) == 1


class TestLoop:
    """The plain agent loop."""

    async def test_calls_of_one_step_run_at_the_same_time(self) -> None:
        """And their answers come in the order of the calls."""
        two = ChatReply(tool_calls=[*call(id="1", query="a").tool_calls, *call(id="2", query="b").tool_calls])
        model = ScriptedChatModel(two, "done")
        base = FactBase(delay_s=lambda query: 0.2 if query == "a" else 0.1)

        async with asyncio.timeout(0.29):
            run = await run_agent(model, "hello", middleware=agentic(base))

        answers = [message for message in run.messages if message.role == "tool"]
        assert [message.tool_call_id for message in answers] == ["1", "2"]
        assert ["FACT(a)" in answers[0].text, "FACT(b)" in answers[1].text] == [True, True]
        assert [citation.number for citation in run.citations] == [1, 2]

    async def test_the_last_step_has_no_tools(self) -> None:
        """So that the model has to answer; if it calls all the same, the run says that it stopped."""
        model = ScriptedChatModel(otherwise=lambda messages: call(query=f"q{len(messages)}"))

        run = await run_agent(model, "hello", middleware=agentic(FactBase()), max_steps=3)

        assert [len(tools) for tools in model.tools] == [1, 1, 0]
        assert (run.stopped, run.steps, run.text) == ("max_steps", 3, "")
        assert [message.role for message in run.messages] == ["user", "assistant", "tool", "assistant", "tool"]

    async def test_the_history_it_returns_can_be_passed_in_again(self) -> None:
        """Earlier messages first; the ask is the last one of the user."""
        model = ScriptedChatModel("one", "two")
        rag = static(FactBase())

        first = await run_agent(model, "hello", middleware=rag)
        second = await run_agent(model, [*first.messages, user("again")], middleware=rag)

        assert [message.text for message in second.messages] == ["hello", "one", "again", "two"]
        assert [hint.queries for hint in second.hints] == [("again",)]

    async def test_a_persisted_hint_is_in_the_history_once(self) -> None:
        """As a message of its own after the user's, and in the next model input too."""
        model = ScriptedChatModel(call(query="x"), "one", "two")
        middlewares = [static(FactBase(), persist_hint=True), agentic(FactBase("faq"))]

        first = await run_agent(model, "hello", middleware=middlewares)
        await run_agent(model, [*first.messages, user("again")], middleware=middlewares)

        assert [message.role for message in first.messages] == ["user", "user", "assistant", "tool", "assistant"]
        assert [spoken(sent).count("FACT(hello)") for sent in model.inputs] == [1, 1, 1]

    @pytest.mark.parametrize("messages", [[], [ChatMessage(role="assistant", content="hi")]])  # type: ignore[list-item]
    async def test_without_a_user_message_there_is_nothing_to_do(self, messages: list[ChatMessage]) -> None:
        """A clear error."""
        with pytest.raises(ValueError, match="no user message"):
            await run_agent(ScriptedChatModel("x"), messages)
