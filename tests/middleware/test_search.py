"""Several knowledge bases, duplicates, reranking: from candidates to what is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from agent_rag.documents import VectorSearchResult
from agent_rag.middleware import Turn
from agent_rag.retrieval.rerank import Order, RerankerBase
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import spoken
from agent_rag.testing.knowledge import hit, picture

from .bases import agentic, chunk, knowledge, static


def hits(prefix: str, count: int, *, score: float = 0.5) -> list[VectorSearchResult]:
    """`count` hits of as many documents, with scores that fall from `score`."""
    return [hit(f"{prefix} {n}", document_id=f"{prefix}{n}", score=score - n / 100) for n in range(count)]


def shown(citations: Sequence[Any]) -> list[str]:
    return [citation.document_id for citation in citations]


class Reversing(RerankerBase):
    """Turns the order round, and remembers what it saw."""

    def __init__(self, *, error: Exception | None = None, delay_s: float = 0.0) -> None:
        self.seen: list[list[str]] = []
        self.queries: list[str] = []
        self._error = error
        self._delay_s = delay_s

    async def order(self, query: str, candidates: Sequence[VectorSearchResult], *, top_n: int) -> Order:
        self.queries.append(query)
        self.seen.append([candidate.document_id for candidate in candidates])
        await asyncio.sleep(self._delay_s)
        if self._error is not None:
            raise self._error
        return [(position, float(position)) for position in range(len(candidates))]


class TestSeveralBases:
    """R13 and the seed's raw-score merge."""

    async def test_five_results_in_all_by_merged_rank(self) -> None:
        """Three knowledge bases of ten relevant chunks each do not flood the prompt; each hit tells its base."""
        bases = [FactBase(name, hits=hits(name, 10)) for name in ("a", "b", "c")]

        result = await agentic(*bases).call_tool({"query": "x"})

        assert shown(result.citations) == ["a0", "b0", "c0", "a1", "b1"]
        assert [citation.knowledge_base for citation in result.citations] == ["a", "b", "c", "a", "b"]
        assert "[2] (source: b0.md, knowledge base b)" in result.text

    async def test_a_limit_per_base_is_an_option(self) -> None:
        """For bases of very different size."""
        bases = [FactBase("a", hits=hits("a", 10)), FactBase("b", hits=hits("b", 1))]

        result = await agentic(*bases, top_k_per_knowledge_base=2).call_tool({"query": "x"})

        assert shown(result.citations) == ["a0", "b0", "a1"]
        assert [base.limits for base in bases] == [[2], [2]]

    async def test_raw_scores_do_not_count_across_bases(self) -> None:
        """Dot products of 9 do not push out cosines, nor distances below zero get lost."""
        dot, cosine, distance = (
            FactBase(name, hits=hits(name, 3, score=score))
            for name, score in (("dot", 9), ("cos", 0.9), ("dist", -0.1))
        )

        result = await agentic(dot, cosine, distance, top_k=3).call_tool({"query": "x"})

        assert shown(result.citations) == ["dot0", "cos0", "dist0"]

    async def test_one_base_keeps_its_own_scores(self) -> None:
        """There is nothing to merge."""
        result = await agentic(FactBase(hits=hits("a", 2, score=0.8))).call_tool({"query": "x"})

        assert [citation.score for citation in result.citations] == [0.8, 0.79]

    async def test_the_threshold_reaches_each_base(self) -> None:
        """Nothing above it is a normal, empty answer."""
        result = await agentic(FactBase(hits=hits("a", 5, score=0.3)), score_threshold=0.275).call_tool({"query": "x"})

        assert shown(result.citations) == ["a0", "a1", "a2"]

    async def test_they_are_searched_at_the_same_time(self) -> None:
        """The slowest decides how long it takes, not the sum."""
        bases = [FactBase(str(n), delay_s=0.1) for n in range(10)]

        async with asyncio.timeout(0.5):
            await agentic(*bases).call_tool({"query": "x"})


class TestDuplicates:
    """R07: identical passages do not fill the top k."""

    async def test_one_entry_for_a_text_with_all_its_sources(self) -> None:
        """The same text in three files and four others: five distinct texts."""
        documents = {f"copy{n}": ["The pump pressure is 3 bar."] for n in range(3)}
        documents |= {f"other{n}": [f"Pump pressure of model {n} differs."] for n in range(4)}
        async with knowledge(documents) as base:
            result = await agentic(base).call_tool({"query": "pump pressure 3 bar"})

        assert len(result.citations) == 5
        assert len({citation.text for citation in result.citations}) == 5
        first = result.citations[0]
        assert {first.document_id, *(place.document_id for place in first.also_in)} == {"copy0", "copy1", "copy2"}
        assert result.text.count("3 bar") == 1

    async def test_copies_in_several_bases_are_one_entry(self) -> None:
        """White space, mark-up and quotes aside; the header names the other file."""
        one = FactBase("a", hits=[hit("**Press** the “button”  twice", document_id="one")])
        other = FactBase("b", hits=[hit('press the "button" twice', document_id="other")])

        result = await agentic(one, other).call_tool({"query": "x"})

        assert shown(result.citations) == ["one"]
        assert "(source: one.md, knowledge base a, also in other.md)" in result.text
        (place,) = result.citations[0].also_in
        assert (place.chunk_id, place.source, place.knowledge_base) == ("other:0", "other.md", "b")

    @pytest.mark.parametrize(
        ("one", "other"), [("max 1.5 bar", "max 15 bar"), ("-5 degrees", "5 degrees"), ("v1", "v2")]
    )
    async def test_texts_that_differ_in_a_number_are_both_shown(self, one: str, other: str) -> None:
        """Near is not the same where it matters."""
        base = FactBase(hits=[hit(one, document_id="a"), hit(other, document_id="b")])

        result = await agentic(base).call_tool({"query": "x"})

        assert shown(result.citations) == ["a", "b"]

    async def test_it_can_be_switched_off(self) -> None:
        """For those who want every occurrence."""
        base = FactBase(hits=[hit("same", document_id="a"), hit("same", document_id="b")])

        result = await agentic(base, collapse_duplicates=False).call_tool({"query": "x"})

        assert shown(result.citations) == ["a", "b"]


class TestReranking:
    """The seed's rules for `rerank_model`, with any reranker."""

    async def test_twice_top_k_candidates_are_judged(self) -> None:
        """At most 50, or as many as rerank_candidate_k says."""
        base, reranker = FactBase(hits=hits("d", 50)), Reversing()

        result = await agentic(base, top_k=3, options={"reranker": reranker}).call_tool({"query": "x"})
        await agentic(base, top_k=3, rerank_candidate_k=8, options={"reranker": reranker}).call_tool({"query": "x"})
        await agentic(base, top_k=40, options={"reranker": reranker}).call_tool({"query": "x"})

        assert base.limits == [6, 8, 50]
        assert [len(seen) for seen in reranker.seen] == [6, 8, 50]
        assert shown(result.citations) == ["d5", "d4", "d3"]
        assert [citation.signals.rerank for citation in result.citations] == [5.0, 4.0, 3.0]
        assert [citation.score for citation in result.citations] == [0.45, 0.46, 0.47]

    @pytest.mark.parametrize("problem", [{"error": RuntimeError("key=sk-12345678901 refused")}, {"delay_s": 30}])
    async def test_a_failing_reranker_leaves_the_order_of_the_search(self, problem: dict[str, Any]) -> None:
        """Best effort, flagged, reported, within the timeout."""
        events: list[Any] = []
        rag = static(FactBase(hits=hits("d", 10)), top_k=2, timeout_s=0.3, emit_hint_event=False, on_error="raise",
                     options={"reranker": Reversing(**problem), "on_event": events.append})  # fmt: skip
        turn = rag.start_turn("x")

        hint = await rag.hint(turn)

        assert hint is not None
        assert hint.degraded
        assert shown(hint.citations) == ["d0", "d1"]
        assert [event.stage for event in events] == ["rerank"]
        assert "sk-1" not in events[0].reason

    async def test_a_rerank_model_reads_prompt_query_and_candidates(self) -> None:
        """The chat model of the seed's third argument, with its prompt filled in."""
        model = ScriptedChatModel('{"ids": ["c3"]}')
        rag = agentic(
            FactBase(hits=hits("d", 4)), top_k=2, rerank_prompt="Best {top_k} for {query}, {{}} {name}",
            options={"rerank_model": model},
        )  # fmt: skip

        result = await rag.call_tool({"query": "pumps"})

        prompt = spoken(model.inputs[0])
        assert prompt.startswith("Best 2 for <query-")
        assert "pumps" in prompt
        assert "{name}" in prompt
        assert shown(result.citations) == ["d2", "d0"]

    async def test_pictures_the_model_cannot_read_come_last(self) -> None:
        """One with a caption is judged by it."""
        blind, captioned = hit(picture(caption=None), document_id="blind"), hit(picture(), document_id="captioned")
        base = FactBase(hits=[blind, captioned, hit("words", document_id="text")])
        rag = agentic(base, options={"reranker": Reversing()}, collapse_duplicates=False)

        result = await rag.call_tool({"query": "x"})

        assert shown(result.citations) == ["text", "captioned", "blind"]

    async def test_the_rewritten_query_is_what_is_judged(self) -> None:
        """The reranker reads what was searched for."""
        reranker = Reversing()
        options = {"reranker": reranker, "query_rewriter": lambda query, history: ["HP9 warranty", "other"]}

        await agentic(FactBase(), options=options).call_tool({"query": "its warranty"})

        assert reranker.queries == ["HP9 warranty"]


class TestForeignResults:
    """Duck-typed knowledge bases."""

    async def test_results_of_other_libraries_are_accepted(self) -> None:
        """Objects with AgentScope's fields, and mappings."""
        source = SimpleNamespace(data="AAAA", media_type="image/png")
        foreign = [
            SimpleNamespace(
                score=0.9,
                document_id="d",
                chunk=SimpleNamespace(
                    content=SimpleNamespace(type="text", text="object text"),
                    source="o.md", chunk_index=2, total_chunks=3, metadata={"page": 7},
                ),
            ),
            SimpleNamespace(
                score=0.8,
                document_id="i",
                chunk=SimpleNamespace(
                    content=SimpleNamespace(type="data", source=source), source="i.png", chunk_index=0, metadata=None
                ),
            ),
            {"text": "mapping text", "source": "m.md", "score": 0.7, "metadata": {"page": 8}},
        ]  # fmt: skip
        result = await agentic(FactBase(hits=foreign)).call_tool({"query": "x"})  # type: ignore[arg-type]

        assert [citation.label for citation in result.citations] == ["o.md, page 7", "i.png", "m.md, page 8"]
        assert "object text" in result.text
        assert "mapping text" in result.text
        assert "[image: image/png]" in result.text

    async def test_a_bare_search_function_is_enough(self) -> None:
        """The seed's three arguments; more hits than asked for are cut."""

        class Bare:
            name, description = "bare", "d"

            async def search(
                self, queries: list[str], top_k: int = 5, score_threshold: float | None = None
            ) -> list[Any]:
                return [{"text": f"{queries[0]} {n}", "document_id": str(n)} for n in range(99)]

        result = await agentic(Bare(), top_k=2, filter_fields=["kind"]).call_tool({"query": "x"})
        filtered = await agentic(Bare(), filter_fields=["kind"]).call_tool({"query": "x", "filter": {"kind": "a"}})

        assert shown(result.citations) == ["0", "1"]
        assert filtered.text == "The knowledge base bare takes no filter; leave 'filter' out."


class TestNumbers:
    """M11: citation numbers."""

    async def test_a_chunk_keeps_its_number_in_the_next_search(self) -> None:
        """Numbers start at 1, are unique in the turn, and stand for chunk, file and page."""
        pages = [hit(f"p{n}", document_id="a", index=2 * n, metadata={"page": n}) for n in (1, 2)]
        other = hit("b", document_id="b", source="b.md")
        found = {"first": [*pages, other], "second": [other, hit("new", document_id="c"), pages[0]]}
        rag = agentic(FactBase(hits=lambda query: found[query]))
        turn = rag.start_turn()

        first = await rag.call_tool({"query": "first"}, turn)
        second = await rag.call_tool({"query": "second"}, turn)

        assert [(c.number, c.chunk_ids, c.label) for c in first.citations] == [
            (1, ("a:2",), "a.md, page 1"),
            (2, ("a:4",), "a.md, page 2"),
            (3, ("b:0",), "b.md"),
        ]
        assert [c.number for c in second.citations] == [1, 3, 4]
        assert "[3] (source: b.md)" in second.text
        assert [c.number for c in turn.citations] == [1, 2, 3, 4]
        assert turn.citation(4).document_id == "c"  # type: ignore[union-attr]

    async def test_the_same_chunk_of_two_bases_has_two_numbers(self) -> None:
        """Ids are unique within a base only."""
        one, two = (FactBase(name, hits=[hit(f"of {name}", document_id="d")]) for name in ("a", "b"))

        result = await agentic(one, two).call_tool({"query": "x"})

        assert [(c.number, c.knowledge_base) for c in result.citations] == [(1, "a"), (2, "b")]

    async def test_a_merged_hit_takes_the_number_of_its_known_chunk(self) -> None:
        """And its citation covers both chunks from then on."""
        parts = [chunk("alpha one two three", "a.md", span=(0, 19), section_index=0),
                 chunk("three beta", "a.md", span=(14, 24), section_index=0)]  # fmt: skip
        async with knowledge({"a": parts}) as base:
            rag = agentic(base, top_k=1)
            turn = rag.start_turn()
            await rag.call_tool({"query": "alpha"}, turn)
            await rag.call_tool({"query": "alpha three beta", "top_k": 2}, turn)

        (citation,) = turn.citations
        assert (citation.number, citation.chunk_ids) == (1, ("a:0", "a:1"))

    async def test_both_modes_number_through(self) -> None:
        """What a hint showed is named, not repeated, and what is new fills the answer."""
        base = FactBase(hits=lambda query: hits("d", 3) if query == "ask" else hits("d", 9))
        static_rag, agentic_rag = static(base, top_k=3), agentic(base, top_k=3)
        turn = Turn("ask")

        hint = await static_rag.hint(turn)
        result = await agentic_rag.call_tool({"query": "more"}, turn)

        assert hint is not None
        assert [c.number for c in hint.citations] == [1, 2, 3]
        assert shown(result.citations) == ["d0", "d1", "d2", "d3", "d4", "d5"]
        assert (
            "shown earlier in this turn: [1] (source: d0.md); [2] (source: d1.md); [3] (source: d2.md)." in result.text
        )
        assert "\nd 2" not in result.text
        assert "[4] (source: d3.md)\nd 3" in result.text

    async def test_a_hint_of_one_call_is_shown_again_by_the_tool(self) -> None:
        """With hint_scope="call" the model does not see it any more."""
        base = FactBase(hits=hits("d", 1))
        turn = Turn("ask")

        await static(base, hint_scope="call").hint(turn)
        result = await agentic(base).call_tool({"query": "more"}, turn)

        assert "[1] (source: d0.md)\nd 0" in result.text
