"""Scenarios of citation numbers: over turns, over subagents, and in what a run gives back."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from ...chat import ChatMessage, ChatReply
from ...middleware import RAGMiddleware
from ..chat import ScriptedChatModel, call, spoken
from ..knowledge import FactBase
from .base import AdapterFixtures, agentic, static, when

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
