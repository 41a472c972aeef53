"""Scenarios of citation numbers: over turns, over subagents, and in what a run gives back."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest

from ...chat import ChatMessage, ChatReply
from ...middleware import AnswerChecked, RAGMiddleware
from ..chat import ScriptedChatModel, call, spoken
from ..knowledge import FactBase
from .base import AdapterFixtures, agentic, static, tool_text, when

_PASSAGE = re.compile(r"^\[(\d+)\] \(source: [^\n]*\)\n(FACT\([^)]*\))", re.MULTILINE)


def passages(text: str) -> list[tuple[int, str]]:
    """(number, fact) of every passage that a model reads."""
    return [(int(number), fact) for number, fact in _PASSAGE.findall(text)]


class AdapterNumbers(AdapterFixtures):
    """Numbers and citations."""

    @when("has_history")
    async def test_numbers_are_unique_over_three_turns(self) -> None:
        """No two passages in one prompt have the same number, and the answer's numbers are resolved."""
        model = ScriptedChatModel(otherwise=_search_once)
        middlewares = [agentic(FactBase("faq"))]
        if self.static:
            middlewares.insert(0, static(FactBase()))
        agent = self.make_agent(model, middlewares)

        outcomes = [await self.run(agent, text) for text in ("one", "two", "three")]

        for messages in model.inputs:
            seen = passages(spoken(messages))
            assert len({number for number, _ in seen}) == len({fact for _, fact in seen}), seen
        for outcome in outcomes:
            cited = {citation.number for citation in outcome.cited}
            shown = {number for number, _ in passages(spoken(model.inputs[2 * outcomes.index(outcome) + 1]))}
            assert shown <= cited

    @pytest.mark.parametrize("mode", ["static", "agentic", "both"])
    async def test_the_citations_of_a_run_are_complete(self, mode: str) -> None:
        """`citations(result)` has every passage that the model was shown, under its number."""
        middlewares: list[RAGMiddleware] = []
        if mode != "agentic":
            if not self.static:
                return
            middlewares.append(static(FactBase()))
        if mode != "static":
            middlewares.append(agentic(FactBase("faq")))
        steps: list[ChatReply | str] = ["done"] if mode == "static" else [call(query="more"), "done"]
        model = ScriptedChatModel(*steps)

        outcome = await self.run(self.make_agent(model, middlewares), "hello")

        expected = {"static": ["docs-hello"], "agentic": ["faq-more"], "both": ["docs-hello", "faq-more"]}[mode]
        assert [(citation.number, citation.document_id) for citation in outcome.cited] == list(enumerate(expected, 1))
        assert all(citation.chunk_ids == (f"{citation.document_id}:0",) for citation in outcome.cited)

    async def test_the_answer_of_a_run_can_be_checked(self) -> None:
        """`citations(result)` has the passages, so that each sentence is compared with what it cites."""
        answer = "It says FACT(more) [1]. It says FACT(less) [1]. So it is [9]."
        model = ScriptedChatModel(call(query="more"), answer)
        events: list[Any] = []
        rag = agentic(FactBase("faq"), on_event=events.append)

        outcome = await self.run(self.make_agent(model, [rag]), "hello")

        checked = await rag.check(outcome.text, outcome.cited)
        assert events[-1].counts == {"supported": 1, "not_found": 1, "never_shown": 1}
        assert [one.outcome for one in checked.sentences] == ["supported", "not_found", "never_shown"]
        assert checked.sentences[0].support[0].quote == "FACT(more)"

    @when("checks")
    async def test_the_answer_is_checked_when_the_run_ends(self) -> None:
        """Once for all instances with the option: an event, and beside the citations."""
        answer = "It says FACT(more) [1]. It says FACT(less) [1]. So it is [9]."
        model = ScriptedChatModel(call(query="more"), answer)
        events: list[Any] = []
        rags = [agentic(FactBase("faq"), on_event=events.append, check_answer=True)]
        if self.static:
            rags.append(static(FactBase(hits=[]), on_event=events.append, check_answer=True))

        outcome = await self.run(self.make_agent(model, rags), "hello")

        assert [event.counts for event in events if isinstance(event, AnswerChecked)] == [
            {"supported": 1, "not_found": 1, "never_shown": 1}
        ]
        assert outcome.checked is not None
        assert [one.outcome for one in outcome.checked.sentences] == ["supported", "not_found", "never_shown"]

    @when("checks", "streams")
    async def test_a_streamed_answer_is_checked(self) -> None:
        """As one that is not streamed."""
        model = ScriptedChatModel(call(query="more"), "It says FACT(more) [1].")
        events: list[Any] = []
        rag = agentic(FactBase("faq"), on_event=events.append, check_answer=True)

        await self.stream(self.make_agent(model, [rag]), "hello")

        assert [event.counts for event in events if isinstance(event, AnswerChecked)] == [{"supported": 1}]

    async def test_no_answer_is_checked_unasked(self) -> None:
        """It would cost time in every run."""
        model = ScriptedChatModel(call(query="more"), "It says FACT(more) [1].")
        events: list[Any] = []

        outcome = await self.run(self.make_agent(model, [agentic(FactBase("faq"), on_event=events.append)]), "hello")

        assert outcome.checked is None
        assert not any(isinstance(event, AnswerChecked) for event in events)

    @when("has_history")
    async def test_what_was_shown_before_is_named_by_its_number(self) -> None:
        """A search that finds the passage of an earlier turn shows its number, and shows it again when asked for it."""
        model = ScriptedChatModel(call(query="same"), "So [1].", call(id="call_2", query="same"), "So [1].")
        agent = self.make_agent(model, [agentic(FactBase("faq"))])

        await self.run(agent, "one")
        outcome = await self.run(agent, "two")

        assert passages(spoken(model.inputs[-1])) == [(1, "FACT(same)")]
        assert "Nothing new; shown above: [1]." in tool_text(model.inputs[-1])
        assert [citation.number for citation in outcome.cited] == [1]

    @when("has_history")
    async def test_no_number_means_two_things(self) -> None:
        """Over random conversations of three turns that ask for old and new passages."""
        for seed in range(5):
            chance = random.Random(seed)
            meaning: dict[int, str] = {}
            queries = [f"q{chance.randrange(4)}" for _ in range(3)]
            model = ScriptedChatModel(*(step for query in queries for step in (call(query=query), "Done.")))
            agent = self.make_agent(model, [agentic(FactBase("faq"))])

            outcomes = [await self.run(agent, f"turn {turn}", session=f"s{seed}") for turn in range(3)]

            for number, fact in passages("\n".join(spoken(messages) for messages in model.inputs)):
                assert meaning.setdefault(number, fact) == fact, queries
            for citation in (citation for outcome in outcomes for citation in outcome.cited):
                fact = f"FACT({citation.document_id.removeprefix('faq-')})"
                assert meaning.setdefault(citation.number, fact) == fact, queries

    @when("subagents")
    async def test_a_subagent_goes_on_with_the_numbers(self) -> None:
        """An agent that is asked by a tool of another numbers on, and the caller's citations have its passages too."""
        inner = ScriptedChatModel(call(query="inner"), "It is so [2].")
        outer = ScriptedChatModel(
            call(query="outer"),
            call("ask_expert", id="call_2", question="part"),
            call(id="call_3", query="last"),
            "done",
        )
        expert = self.make_agent(inner, [agentic(FactBase("expert"))])

        outcome = await self.run(self.make_caller(outer, [agentic(FactBase())], expert), "hello")

        assert passages(spoken(inner.inputs[1])) == [(2, "FACT(inner)")]
        assert passages(spoken(outer.inputs[-1])) == [(1, "FACT(outer)"), (3, "FACT(last)")]
        assert [citation.document_id for citation in outcome.cited] == ["docs-outer", "expert-inner", "docs-last"]


def _search_once(messages: Sequence[ChatMessage]) -> ChatReply | str:
    """One search in each turn, then an answer that cites all that is there."""
    if messages[-1].role != "tool":
        return call(query=f"q{sum(message.role == 'tool' for message in messages)}")
    return "See " + " ".join(f"[{number}]" for number, _ in passages(spoken(messages))) + "."
