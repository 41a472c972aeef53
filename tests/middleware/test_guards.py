"""Bounds and refusals between a model's call and a knowledge base, each tried on both sides."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from agent_rag.content import Base64Source, DataBlock, TextBlock, URLSource
from agent_rag.documents import VectorSearchResult
from agent_rag.errors import ConfigurationError, StoreError
from agent_rag.middleware.core.arguments import (
    ArgumentError,
    as_object,
    check_names,
    echo,
    integer_argument,
    search_arguments,
    text_argument,
)
from agent_rag.middleware.core.events import SearchFailed
from agent_rag.middleware.core.pipeline import takes_argument
from agent_rag.middleware.core.search import Base, Deadline, Failure, as_own_error, ask_all, reason_of, search_all
from agent_rag.testing import FactBase
from agent_rag.testing.knowledge import hit

from .bases import agentic, static
from .test_search import Reversing


class TestArguments:
    """What a model sends."""

    def test_a_value_is_echoed_up_to_80_characters(self) -> None:
        """In JSON, the quotes counted; a longer one ends in an ellipsis."""
        assert echo("x" * 78) == f'"{"x" * 78}"'
        assert echo("x" * 79) == f'"{"x" * 78}…'
        assert len(echo("x" * 500)) == 80

    @pytest.mark.parametrize(("value", "text"), [("a", "a"), (["a"], "a"), (7, "7"), (2.5, "2.5"), (" a ", "a")])
    def test_a_query_is_a_text_a_number_or_a_list_of_one(self, value: Any, text: str) -> None:
        """White space around it goes."""
        assert text_argument(value, "query") == text

    @pytest.mark.parametrize("value", [True, False, None, "", " ", ["a", "b"], [], {"a": 1}, ["a", None]])
    def test_anything_else_is_no_query(self, value: Any) -> None:
        """A truth value is no number."""
        with pytest.raises(ArgumentError, match="'query' is needed"):
            text_argument(value, "query")

    def test_the_least_number_counts(self) -> None:
        """1 where nothing is said; below it is refused."""
        assert integer_argument(1, "top_k", default=5) == 1
        assert integer_argument(0, "from", default=5, least=0) == 0
        assert integer_argument("", "top_k", default=5) == 5
        with pytest.raises(ArgumentError, match="at least 1"):
            integer_argument(0, "top_k", default=5)
        with pytest.raises(ArgumentError, match="at least 0"):
            integer_argument(-1, "from", default=5, least=0)

    def test_the_most_hits_are_a_cap(self) -> None:
        """50 are given, 51 become 50."""
        asked = [
            search_arguments({"query": "x", "top_k": n}, bases=["a"], default_top_k=5, fields={}) for n in (50, 51)
        ]

        assert [arguments.top_k for arguments in asked] == [50, 50]

    def test_knowledge_bases_come_in_the_order_of_attachment(self) -> None:
        """Whatever order the model names them in."""
        asked = search_arguments(
            {"query": "x", "knowledge_bases": ["c", "A"]}, bases=["a", "b", "c"], default_top_k=5, fields={}
        )

        assert asked.knowledge_bases == ("a", "c")

    def test_null_arguments_of_another_name_are_overlooked(self) -> None:
        """Strict mode sends all of them."""
        check_names({"other": None}, ["query"])
        with pytest.raises(ArgumentError, match="other"):
            check_names({"other": 0}, ["query"])
        assert as_object(None) == {}
        assert as_object(" ") == {}


class Mapped:
    """A retriever that gives mappings."""

    name, description = "mapped", "d"

    def __init__(self, *found: Any) -> None:
        self.found = list(found)

    async def search(self, queries: Sequence[Any], top_k: int = 5, score_threshold: float | None = None) -> list[Any]:
        return self.found


async def adopted(found: Any) -> VectorSearchResult:
    (result,) = await Base(Mapped(found)).search([TextBlock(text="x")], 5, None, None)
    return result


class TestForeignHits:
    """What other retrievers give, field by field."""

    async def test_a_mapping_may_be_a_text_alone(self) -> None:
        """Its source and document are the knowledge base, its place the first."""
        found = await adopted({"text": "t"})

        assert (found.document_id, found.chunk.source, found.chunk.chunk_index, found.chunk.total_chunks) == (
            "mapped", "mapped", 0, 1,
        )  # fmt: skip
        assert (found.score, found.chunk.metadata, found.knowledge_base) == (0.0, {}, "mapped")

    async def test_what_a_mapping_says_is_kept(self) -> None:
        """Each field; a document id without a source names the source."""
        whole = await adopted(
            {"text": "t", "source": "a.md", "document_id": "d", "chunk_index": 3, "score": 0.4, "metadata": {"page": 7}}
        )

        assert (whole.document_id, whole.chunk.source, whole.chunk.chunk_index, whole.chunk.total_chunks) == (
            "d", "a.md", 3, 4,
        )  # fmt: skip
        assert (whole.score, whole.chunk.metadata) == (0.4, {"page": 7})
        assert (await adopted({"text": "t", "document_id": "d"})).chunk.source == "d"
        assert (await adopted({"text": "t", "source": "a.md"})).document_id == "a.md"

    async def test_an_object_has_agentscopes_fields(self) -> None:
        """`total_chunks` may be missing, contents may be texts, blocks or pictures by address."""

        def of(content: Any, **more: Any) -> SimpleNamespace:
            chunk = SimpleNamespace(content=content, source="o.md", chunk_index=2, metadata={"page": 7}, **more)
            return SimpleNamespace(score=0.5, document_id="d", chunk=chunk)

        plain, told = await adopted(of("text")), await adopted(of("text", total_chunks=9))
        address = SimpleNamespace(url="https://x.y/a.png", media_type="image/png")
        data = SimpleNamespace(data="AAAA", media_type="image/png")

        assert (plain.chunk.text, plain.chunk.total_chunks, plain.chunk.metadata) == ("text", 3, {"page": 7})
        assert told.chunk.total_chunks == 9
        remote = (await adopted(of(SimpleNamespace(source=address)))).chunk.content
        local = (await adopted(of(SimpleNamespace(source=data, name="n.png")))).chunk.content
        assert isinstance(remote, DataBlock)
        assert remote.source == URLSource.model_validate({"url": "https://x.y/a.png", "media_type": "image/png"})
        assert isinstance(local, DataBlock)
        assert (local.source, local.name) == (Base64Source(data="AAAA", media_type="image/png"), "n.png")

    async def test_more_than_asked_for_is_cut(self) -> None:
        """To `top_k`."""
        base = Base(Mapped(*({"text": str(number)} for number in range(5))))

        assert [found.chunk.text for found in await base.search([TextBlock(text="x")], 2, None, None)] == ["0", "1"]

    async def test_a_hit_names_the_base_that_gave_it(self) -> None:
        """Also one of ours that names another."""
        assert (await adopted(hit("t"))).knowledge_base == "mapped"


class TestSearches:
    """Several knowledge bases at once."""

    async def test_nothing_to_ask_is_nothing_found(self) -> None:
        """Without bases, without queries."""
        base = Base(FactBase(hits=[hit("t")]))

        assert (await search_all([], [TextBlock(text="x")], top_k=5)).hits == []
        assert (await search_all([base], [], top_k=5)).hits == []
        assert await ask_all([], lambda base: base.search([], 1, None, None), 1.0) == ([], [])

    async def test_late_and_failed_bases_leave_nothing_to_the_loop(self) -> None:
        """Their ends are looked at, so that no handler of the loop is told of them."""
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

        async def question(base: Base) -> list[VectorSearchResult]:
            if base.name == "failing":
                raise ValueError("x")
            await asyncio.sleep(60)
            return []

        rankings, failures = await ask_all([Base(FactBase("failing")), Base(FactBase("late"))], question, 0.01)
        await asyncio.sleep(0.01)
        gc.collect()

        assert rankings == [[], []]
        assert [failure.knowledge_base for failure in failures] == ["failing", "late"]
        assert told == []

    async def test_a_filter_that_cannot_be_enforced_is_refused(self) -> None:
        """By the base itself, too."""
        with pytest.raises(ConfigurationError, match="'mapped' takes no filter"):
            await Base(Mapped()).search([TextBlock(text="x")], 5, None, {"a": 1})

    def test_a_base_may_take_anything(self) -> None:
        """``**options`` counts as taking a filter, but nobody is sent what it was not written for."""

        class Anything(Mapped):
            async def search(self, queries: Sequence[Any], **options: Any) -> list[Any]:  # type: ignore[override]
                return []

        class Both(Mapped):
            async def search(self, queries: Sequence[Any], *, filter: Any = None, distinct: bool = False) -> list[Any]:  # type: ignore[override]
                return []

        found = [Base(kind()) for kind in (Mapped, Anything, Both)]

        assert [(base.takes_filter, base.takes_distinct) for base in found] == [
            (False, False), (True, False), (True, True),
        ]  # fmt: skip

    def test_a_reason_is_one_line_of_200_characters(self) -> None:
        """The class, the first line, and nothing where there is no text."""
        assert reason_of(ValueError("a\nb")) == "ValueError: a"
        assert reason_of(ValueError()) == "ValueError"
        assert len(reason_of(ValueError("x" * 500))) == 200

    def test_an_error_of_ours_is_raised_as_it_is(self) -> None:
        """Another becomes a StoreError that names the knowledge base."""
        own = ConfigurationError("no key")

        assert as_own_error(Failure("docs", own)) is own
        assert str(as_own_error(Failure("docs", ValueError("x")))) == "the knowledge base 'docs' failed: ValueError: x"
        assert isinstance(as_own_error(Failure("docs", ValueError("x"))), StoreError)

    def test_a_deadline_may_be_none(self) -> None:
        """And is never below nothing."""
        assert Deadline(None).left() is None
        assert Deadline(0.0).left() == 0.0
        left = Deadline(100.0).left(0.5)
        assert left is not None
        assert 0 < left <= 50


class TestPipeline:
    """What stands between the call and the search."""

    @pytest.mark.parametrize(
        ("function", "takes"),
        [
            (lambda: None, False), (lambda context: None, True), (lambda *contexts: None, True),
            (lambda *, scope=None: None, False), (lambda **options: None, False), (len, True),
        ],
    )  # fmt: skip
    def test_a_function_is_given_the_context_where_it_takes_one(self, function: Any, takes: bool) -> None:
        """By position."""
        assert takes_argument(function) is takes

    async def test_no_more_than_50_are_searched(self) -> None:
        """What the model asks for, and what it has seen already, together."""
        base = FactBase(hits=[hit(f"t {n}", document_id=str(n)) for n in range(60)])

        await agentic(base).call_tool({"query": "x", "top_k": 50})

        assert base.limits == [50]

    async def test_several_bases_are_named_one_is_not(self) -> None:
        """In the header of each hit."""
        one, other = FactBase("docs", hits=[hit("t")]), FactBase("faq")

        alone = await agentic(one).call_tool({"query": "x"})
        together = await agentic(one, other).call_tool({"query": "x"})

        assert "docs" not in alone.text
        assert "docs" in together.text

    async def test_fields_of_scopes_and_excluded_ones_are_hidden(self) -> None:
        """From citations as from the model."""
        base = FactBase(hits=[hit("t", metadata={"tenant": "a", "kind": "b", "page": 7})])
        base.metadata_filter = {"tenant": "a"}  # type: ignore[attr-defined]
        rag = static(base, exclude_metadata=["kind"])
        turn = rag.start_turn("x")

        await rag.hint(turn)

        assert [citation.metadata for citation in turn.citations] == [{"page": 7}]

    @pytest.mark.parametrize("asynchronous", [False, True])
    async def test_a_scope_function_that_gives_nothing_opens_nothing(self, asynchronous: bool) -> None:
        """A forgotten return: no base is asked, in any call of the turn."""

        async def later() -> None: ...

        def forgotten() -> Any:
            return later() if asynchronous else None

        base = FactBase(hits=[hit("secret", metadata={"tenant": "b"})])
        rag = agentic(base, options={"scope": forgotten})
        turn = rag.start_turn("x")

        results = [await rag.call_tool({"query": query}, turn) for query in ("x", "y")]

        assert [result.is_error for result in results] == [True, True]
        assert "secret" not in "".join(result.text for result in results)
        assert base.queries == []

    async def test_a_failing_reranker_says_why(self) -> None:
        """In the event, with the class of the error."""
        events: list[Any] = []
        reranker = Reversing(error=ValueError("no model"))
        rag = agentic(FactBase(hits=[hit("t")]), options={"reranker": reranker, "on_event": events.append})

        await rag.call_tool({"query": "x"})

        (failed,) = [event for event in events if isinstance(event, SearchFailed)]
        assert failed.stage == "rerank"
        assert "ValueError: no model" in failed.reason
