"""Agentic mode: the schema, the arguments as models send them, and the answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_rag.content import TextBlock
from agent_rag.filters import F, FilterField, matches
from agent_rag.middleware import KnowledgeTool, ToolCallEvent, Turn
from agent_rag.middleware.loop import run_agent
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import call, spoken
from agent_rag.testing.knowledge import hit

from .bases import agentic, chunk, knowledge

YEAR = {"year": FilterField(type="number", description="year of issue")}


class TestSchema:
    """What the model sees."""

    def test_lists_the_knowledge_bases_sorted(self) -> None:
        """Equal options give equal text in every process, so prompt caches hold."""
        one, other = agentic(FactBase("b"), FactBase("a")), agentic(FactBase("a"), FactBase("b"))

        (tool,) = one.tools

        assert tool.spec == other.tools[0].spec
        assert tool.description.endswith("Knowledge bases:\n- a: the a of a test\n- b: the b of a test")
        assert tool.parameters["properties"]["knowledge_bases"]["items"]["enum"] == ["a", "b"]
        assert tool.parameters["required"] == ["query"]
        assert tool.parameters["additionalProperties"] is False
        json.dumps(tool.parameters)

    def test_filter_appears_with_declared_fields_only(self) -> None:
        """With their types, values and descriptions."""
        plain, filtered = agentic(FactBase()), agentic(FactBase(), filter_fields={"kind": ["a", "b"], **YEAR})

        schema = filtered.tools[0].parameters["properties"]["filter"]

        assert "filter" not in plain.tools[0].parameters["properties"]
        assert "- kind (text, one of a, b)\n- year (number): year of issue" in schema["description"]
        assert [part["properties"].get("field") for part in schema["anyOf"]] == [
            {"type": "string", "enum": ["kind"]},
            {"type": "string", "enum": ["year"]},
            None,
        ]

    async def test_auto_fields_come_from_the_stored_documents(self) -> None:
        """Types and short values; not the excluded ones and not those of the scope."""
        metadata: list[dict[str, Any]] = [
            {"kind": "manual", "year": 2020, "draft": True, "issued": "2020-05-01", "tags": ["x"], "internal": "s"},
            {"kind": "note", "year": 2021, "draft": False, "issued": "2021-05-01", "tags": ["y"], "mixed": 1},
            {"kind": "note", "mixed": "one"},
        ]
        async with knowledge({}, metadata_filter={"tenant": "a"}) as base:
            for number, fields in enumerate(metadata):
                await base.insert_document([chunk(f"text {number}")], f"d{number}", fields)
            rag = agentic(base, filter_fields="auto", exclude_metadata=("internal",))

            before = rag.tools[0].parameters["properties"]
            (tool,) = await rag.list_tools()
            found = await rag.call_tool({"query": "text", "filter": {"kind": "note", "year": 2021}})

        assert "filter" not in before
        guide = tool.parameters["properties"]["filter"]["description"].split("Fields:\n")[1]
        assert guide.split("\n") == [
            "- draft (boolean)",
            "- issued (date)",
            "- kind (text, one of manual, note)",
            "- tags (list, one of x, y)",
            "- year (number)",
        ]
        assert [citation.document_id for citation in found.citations] == ["d1"]

    async def test_auto_fields_of_one_scope_are_not_shown_to_another(self) -> None:
        """The values in the description are those of the tenant who asks."""
        tenant = "ada"
        async with knowledge({}, metadata_filter=lambda: {"tenant": tenant}) as base:
            for tenant in ("ada", "bob"):
                await base.insert_document([chunk("text")], "d", {"project": f"secret-{tenant}"})
            rag = agentic(base, filter_fields="auto")

            tenant = "ada"
            (of_ada,) = await rag.list_tools()
            tenant = "bob"
            (of_bob,) = await rag.list_tools()

        assert "secret-ada" in str(of_ada.parameters)
        assert "secret-bob" not in str(of_ada.parameters)
        assert "secret-bob" in str(of_bob.parameters)
        assert "secret-ada" not in str(of_bob.parameters)

    async def test_auto_fields_name_no_values_under_a_scope(self) -> None:
        """The middleware's scope is known in a run only; until then values might be another's."""
        async with knowledge({}) as base:
            await base.insert_document([chunk("text")], "d", {"project": "secret", "owner": "ada"})
            rag = agentic(base, filter_fields="auto", options={"scope": lambda who: {"owner": who}})

            (tool,) = await rag.list_tools()

        assert "- project (text)" in tool.parameters["properties"]["filter"]["description"]
        assert "secret" not in str(tool.parameters)

    def test_name_and_description_can_be_replaced(self) -> None:
        """tRPC's WithToolName and WithToolDescription."""
        (tool,) = agentic(FactBase(), tool_name="ask_docs", tool_description="Mine.").tools

        assert (tool.name, tool.description) == ("ask_docs", "Mine.")

    def test_without_knowledge_bases_the_model_is_told_not_to_call(self) -> None:
        """An empty list is allowed, as in the seed."""
        assert "do not call" in agentic().tools[0].description


class TestArguments:
    """M05: what models send."""

    @pytest.mark.parametrize(
        ("arguments", "limit", "bases"),
        [
            ({"query": "x"}, 5, "docs faq"),
            ({"query": "x", "top_k": "7"}, 7, "docs faq"),
            ({"query": "x", "top_k": 7.0}, 7, "docs faq"),
            ({"query": "x", "top_k": None, "knowledge_bases": None, "filter": None}, 5, "docs faq"),
            ({"query": "x", "top_k": 1e9}, 50, "docs faq"),
            ({"query": "x", "top_k": ""}, 5, "docs faq"),
            ({"query": "x", "knowledge_bases": '["faq"]'}, 5, "faq"),
            ({"query": "x", "knowledge_bases": "faq"}, 5, "faq"),
            ({"query": "x", "knowledge_bases": " FAQ "}, 5, "faq"),
            ({"query": "x", "knowledge_bases": ["faq", "faq"]}, 5, "faq"),
            ({"query": "x", "knowledge_bases": []}, 5, "docs faq"),
            ({"query": ["x"]}, 5, "docs faq"),
            ('{"query": "x", "top_k": 2}', 2, "docs faq"),
            ({"query": "x", "extra": None}, 5, "docs faq"),
        ],
    )
    async def test_safe_coercions_work(self, arguments: Any, limit: int, bases: str) -> None:
        """Numbers as text, JSON text for lists, null for the default; the cap applies."""
        docs, faq = FactBase("docs"), FactBase("faq")

        result = await agentic(docs, faq, filter_fields=YEAR).call_tool(arguments)

        assert not result.is_error
        searched = [base for base in (docs, faq) if base.queries]
        assert " ".join(base.name for base in searched) == bases
        assert [base.queries for base in searched] == [[["x"]]] * len(searched)
        assert {base.limits[0] for base in searched} == {limit}

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({}, "'query'"),
            (None, "'query'"),
            ("", "'query'"),
            ("not json", "not valid JSON"),
            ("[1]", "must be an object"),
            ([1], "must be an object"),
            (7, "must be an object"),
            ({"query": " "}, "'query'"),
            ({"query": {"a": 1}}, "'query'"),
            ({"query": "x", "top_k": True}, "'top_k'"),
            ({"query": "x", "top_k": 0}, "'top_k'"),
            ({"query": "x", "top_k": -3}, "'top_k'"),
            ({"query": "x", "top_k": 2.5}, "'top_k'"),
            ({"query": "x", "top_k": "many"}, "'top_k'"),
            ({"query": "x", "top_k": float("inf")}, "'top_k'"),
            ({"query": "x", "top_k": [5]}, "'top_k'"),
            ({"query": "x", "knowledge_bases": ["nope"]}, "allowed: docs, faq"),
            ({"query": "x", "knowledge_bases": [3]}, "allowed: docs, faq"),
            ({"query": "x", "knowledge_bases": "[broken"}, "allowed: docs, faq"),
            ({"query": "x", "knowledge_bases": 3}, "allowed: docs, faq"),
            ({"query": "x", "extra": 1}, '"extra"; allowed: query, more_queries, knowledge_bases, top_k, filter'),
            ({"knowledge": '["a"]'}, '"knowledge"'),
            ({"query": "x", "filter": {"colour": "red"}}, "year"),
            ({"query": "x", "filter": {"year": "new"}}, "'year' is a number field"),
            ({"query": "x", "filter": {"field": "year", "operator": "like", "value": 1}}, "operator"),
            ({"query": "x", "filter": "year > 3"}, "'filter'"),
            ({"query": "x", "filter": [1]}, "'filter'"),
        ],
    )
    async def test_the_rest_gets_a_short_answer(self, arguments: Any, says: str) -> None:
        """Naming the argument and what is allowed; nothing is searched and nothing is raised."""
        base = FactBase()

        result = await agentic(base, FactBase("faq"), filter_fields=YEAR).call_tool(arguments)

        assert result.is_error
        assert says in result.text
        assert len(result.text) < 400
        assert base.queries == []

    async def test_a_filter_without_declared_fields_is_an_unknown_argument(self) -> None:
        """A model cannot filter by what nobody declared."""
        result = await agentic(FactBase()).call_tool({"query": "x", "filter": {"tenant": "b"}})

        assert result.is_error
        assert 'Unknown argument "filter"' in result.text

    async def test_an_unknown_tool_is_named_with_those_there_are(self) -> None:
        """For loops that dispatch by name."""
        rag = agentic(FactBase(), read_document=True)

        result = await rag.call_tool({"query": "x"}, name="serch")

        assert result.text == 'There is no tool "serch"; available: search_knowledge, read_document.'

    async def test_the_tool_object_takes_named_arguments(self) -> None:
        """And finds the active turn."""
        (tool,) = agentic(FactBase()).tools
        turn = Turn("ask")

        with turn.active():
            await tool(query="one")
            result = await tool({"query": "two"})
        alone = await tool(query="three")

        assert isinstance(tool, KnowledgeTool)
        assert [citation.number for citation in result.citations] == [2]
        assert [citation.number for citation in alone.citations] == [1]
        assert Turn.current() is None


class TestAnswers:
    """M07 and around: what the model reads."""

    async def test_no_hits_say_so_and_what_to_change(self) -> None:
        """In a way that does not read like a failure."""
        rag = agentic(FactBase("docs", hits=[]), FactBase("faq", hits=[]), filter_fields=YEAR)

        plain = await rag.call_tool({"query": "x"})
        filtered = await rag.call_tool({"query": "x", "filter": {"year": 3}, "knowledge_bases": ["faq"]})

        assert plain.text == (
            'No match found for "x" in docs, faq. Do not repeat the same query: try other words, '
            "or tell the user that it is not in the knowledge bases."
        )
        assert not plain.is_error
        assert "in faq. " in filtered.text
        assert "try no filter or a wider one" in filtered.text

    async def test_a_model_that_repeats_itself_is_stopped(self) -> None:
        """The same call is searched once, answered from the cache with a note, and refused past the limit."""
        base = FactBase(hits=[])
        rag = agentic(base, repeat_limit=3)

        def stubborn(messages: Any) -> Any:
            done = "will not be answered again" in spoken(messages)
            return "I found nothing." if done else call(query="  X " if len(messages) % 4 else "x")

        model = ScriptedChatModel(otherwise=stubborn)
        run = await run_agent(model, "hello", middleware=rag, max_steps=20)

        assert run.text == "I found nothing."
        assert run.steps == 5
        assert base.queries == [["X"]]
        answers = [message.text for message in run.messages if message.role == "tool"]
        assert ["Same call as before" in answer for answer in answers] == [False, True, True, False]
        assert all("No match found" in answer for answer in answers[:3])

    async def test_repeats_count_per_turn(self) -> None:
        """The next turn may ask the same."""
        base = FactBase()
        rag = agentic(base)

        for _ in range(2):
            await rag.call_tool({"query": "x"}, rag.start_turn())

        assert base.queries == [["x"], ["x"]]

    async def test_identical_calls_at_the_same_time_are_searched_once(self) -> None:
        """A model may send them in one step."""
        base = FactBase(delay_s=0.01)
        rag = agentic(base)
        turn = rag.start_turn()

        results = await asyncio.gather(*(rag.call_tool({"query": "x"}, turn) for _ in range(3)))

        assert base.queries == [["x"]]
        assert [result.repeated for result in results] == [False, True, True]

    async def test_a_failed_call_is_searched_again(self) -> None:
        """The store may be back."""
        base = FactBase(error=RuntimeError("down"))
        rag = agentic(base)
        turn = rag.start_turn()

        failed = await rag.call_tool({"query": "x"}, turn)
        base.error = None
        worked = await rag.call_tool({"query": "x"}, turn)

        assert failed.is_error
        assert "FACT(x)" in worked.text

    async def test_errors_are_short_and_without_secrets(self) -> None:
        """Also those that no one expected."""
        events: list[Any] = []

        class Odd(FactBase):
            async def search(self, *arguments: object, **options: object) -> Any:
                return [object()]

        down = FactBase("down", error=RuntimeError("api_key=sk-abcdefghijkl rejected\n" + "stack " * 900))
        rag = agentic(Odd("odd"), down, options={"on_event": events.append})

        result = await rag.call_tool({"query": "x"})

        assert result.is_error
        assert "api_key=*** rejected" in result.text
        assert "sk-abc" not in result.text
        assert len(result.text) < 600
        assert [type(event).__name__ for event in events] == ["SearchFailed", "SearchFailed", "ToolCallEvent"]

    async def test_cancellation_passes_through(self) -> None:
        """The one thing a tool raises."""
        base = FactBase(delay_s=30)
        running = asyncio.create_task(agentic(base).call_tool({"query": "x"}))
        await base.asked.wait()

        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running

    async def test_the_event_says_what_was_asked_and_not_what_was_found(self) -> None:
        """Audit without content."""
        events: list[Any] = []
        rag = agentic(FactBase(), options={"on_event": events.append, "name": "mine"})

        await rag.call_tool({"query": "x"})

        (event,) = events
        assert isinstance(event, ToolCallEvent)
        assert (event.middleware, event.tool, event.query) == ("mine", "search_knowledge", "x")
        assert (event.knowledge_bases, event.hits, event.is_error) == (("docs",), 1, False)
        assert "FACT" not in event.model_dump_json()

    async def test_results_are_plain_json_for_artifact_slots(self) -> None:
        """Everything a front end needs to show a source."""
        meta = {"page": 4, "kind": "manual", "secret": "s"}
        found = hit("Some text", document_id="guide", source="guide.pdf", metadata=meta, heading_path=["Care"],
                    uri="file:///guide.pdf", title="The guide", span=(3, 12))  # fmt: skip
        rag = agentic(FactBase(hits=[found]), exclude_metadata="secret")

        result = await rag.call_tool({"query": "x"})

        assert "[1] (source: guide.pdf, page 4, section Care)\nSome text" in result.text
        assert json.loads(json.dumps(result.structured()))["citations"] == [
            {
                "number": 1,
                "chunk_ids": ["guide:0"],
                "document_id": "guide",
                "source": "guide.pdf",
                "title": "The guide",
                "uri": "file:///guide.pdf",
                "knowledge_base": "docs",
                "location": {"page": 4},
                "heading_path": ["Care"],
                "span": [3, 12],
                "score": 0.5,
                "signals": {"semantic": None, "keyword": None, "rerank": None},
                "text": "Some text",
                "fence": result.citations[0].fence,
                "metadata": {"page": 4, "kind": "manual"},
                "also_in": [],
            }
        ]

    async def test_on_results_has_the_last_word(self) -> None:
        """tRPC's result post-processor: what it returns is shown."""
        hits = [hit(text, document_id=text) for text in ("one", "two", "three")]
        rag = agentic(
            FactBase(hits=hits), on_results=lambda found: [one for one in found if "two" not in one.chunk.text]
        )
        keeping = agentic(FactBase(hits=hits), on_results=lambda found: None)

        assert [c.document_id for c in (await rag.call_tool({"query": "x"})).citations] == ["one", "three"]
        assert len((await keeping.call_tool({"query": "x"})).citations) == 3


class TestScope:
    """R09 for the middleware: what the caller may read, whatever the model writes."""

    async def test_scope_filter_and_the_models_filter_are_anded(self) -> None:
        """None of them widens another."""
        base = FactBase()
        rag = agentic(base, filter={"public": True}, filter_fields=YEAR, options={"scope": {"tenant": "a"}})

        await rag.call_tool({"query": "x", "filter": {"operator": "or", "value": [{"year": 1}, {"year": 2}]}})

        (used,) = base.filters
        assert used is not None
        for metadata, allowed in (
            ({"tenant": "a", "public": True, "year": 1}, True),
            ({"tenant": "b", "public": True, "year": 1}, False),
            ({"tenant": "a", "public": False, "year": 1}, False),
            ({"tenant": "a", "public": True, "year": 3}, False),
        ):
            assert matches(used, metadata) is allowed

    @pytest.mark.parametrize("kind", ["context", "plain", "async"])
    async def test_scope_is_asked_once_per_turn(self, kind: str) -> None:
        """With the turn's context if it takes an argument; sync or async."""
        asked: list[object] = []

        def with_context(context: str) -> Any:
            asked.append(context)
            return F("owner") == context

        def plain() -> Any:
            asked.append("ada")
            return {"owner": "ada"}

        async def later(context: str) -> Any:
            return with_context(context)

        scope = {"context": with_context, "plain": plain, "async": later}[kind]
        hits = [hit(f"of {who}", document_id=who, metadata={"owner": who}) for who in ("ada", "bob")]
        rag = agentic(FactBase(hits=hits), options={"scope": scope})
        turn = rag.start_turn(context="ada")

        for query in ("x", "y"):
            result = await rag.call_tool({"query": query}, turn)

        assert asked == ["ada"]
        assert [citation.document_id for citation in result.citations] == ["ada"]

    async def test_a_hit_outside_the_scope_is_dropped_whoever_answers_it(self) -> None:
        """A knowledge base that ignores its filter does not leak."""

        class Leaky(FactBase):
            async def search(
                self, queries: Any, top_k: int = 5, score_threshold: Any = None, *, filter: Any = None
            ) -> Any:
                return [hit("SECRET", metadata={"tenant": "b"}), hit("MINE", index=3, metadata={"tenant": "a"})]

        result = await agentic(Leaky(), options={"scope": {"tenant": "a"}}).call_tool({"query": "x"})

        assert "MINE" in result.text
        assert "SECRET" not in result.text

    async def test_a_failing_scope_searches_nothing(self) -> None:
        """And tells the model no reason."""

        def scope(context: object) -> Any:
            raise RuntimeError("directory of users is down")

        base = FactBase()
        result = await agentic(base, read_document=True, options={"scope": scope}).call_tool({"query": "x"})

        assert result.is_error
        assert "directory" not in result.text
        assert base.queries == []

    async def test_a_real_knowledge_base_keeps_tenants_apart(self) -> None:
        """Scope of the middleware over one collection with documents of two owners."""
        async with knowledge({}) as base:
            for who in ("ada", "bob"):
                await base.insert_document([chunk(f"the plan of {who}")], f"plan-{who}", {"owner": who})
            rag = agentic(base, options={"scope": lambda who: {"owner": who}}, read_document=True)

            texts = []
            for who in ("ada", "bob"):
                turn = rag.start_turn(context=who)
                found = await rag.call_tool({"query": "plan"}, turn)
                other = await rag.call_tool({"document_id": "plan-ada"}, turn, name="read_document")
                texts.append((found.text, other.text))

        assert ["plan of ada" in found for found, _ in texts] == [True, False]
        assert ["plan of bob" in found for found, _ in texts] == [False, True]
        assert ["plan of ada" in other for _, other in texts] == [True, False]


class TestReadDocument:
    """The second tool."""

    async def test_around_a_hit_shows_the_neighbours(self) -> None:
        """Two chunks on each side, under the number of the hit where it belongs."""
        async with knowledge({"book": [f"Chapter {n} about topic{n}." for n in range(9)], "other": ["x"]}) as base:
            rag = agentic(base, top_k=1, read_document=True)
            turn = rag.start_turn()

            found = await rag.call_tool({"query": "topic4"}, turn)
            read = await rag.call_tool({"around": "1"}, turn, name="read_document")

        assert "[1] (source: book.md, document book)" in found.text
        assert [f"topic{n}" in read.text for n in range(9)] == [False, False, *[True] * 5, False, False]
        assert '(Parts 2 to 6 of 9, counted from 0. To read on: document_id "book", start 7.)' in read.text

    async def test_a_whole_document_comes_in_parts_that_fit(self) -> None:
        """Reading on with `start` reaches the end; every part comes once."""
        async with knowledge({"book": [f"Part{n:02d} " + "word " * 60 for n in range(20)]}) as base:
            rag = agentic(base, read_document=True, max_context_tokens=500)
            turn, start, seen = rag.start_turn(), 0, []
            while start < 20:
                result = await rag.call_tool({"document_id": "book", "start": start}, turn, name="read_document")
                shown = [n for n in range(20) if f"Part{n:02d}" in result.text]
                assert -(-len(result.text.encode()) // 4) <= 500
                assert shown[0] == start
                seen += shown
                start = shown[-1] + 1

        assert seen == list(range(20))

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({}, "'document_id'"),
            ({"around": 7}, "There is no hit [7] in this turn; the numbers so far: none yet."),
            ({"document_id": "nope"}, 'No document "nope"'),
            ({"document_id": "book", "start": 99}, "part 99"),
            ({"document_id": "book", "chapter": 3}, "allowed: document_id, around, page, heading, rows, start"),
            ({"document_id": "book", "page": 3}, 'No document "book" with page or slide 3'),
            ({"document_id": "book", "rows": "all"}, "'rows'"),
            ({"document_id": "book", "start": -1}, "'start'"),
        ],
    )
    async def test_wrong_arguments_get_a_short_answer(self, arguments: dict[str, Any], says: str) -> None:
        """As in the search tool."""
        async with knowledge({"book": ["text"]}) as base:
            result = await agentic(base, read_document=True).call_tool(arguments, name="read_document")

        assert says in result.text

    async def test_it_is_not_there_unless_asked_for(self) -> None:
        """The default offers one tool."""
        rag = agentic(FactBase())

        result = await rag.call_tool({"document_id": "x"}, name="read_document")

        assert [tool.name for tool in await rag.list_tools()] == ["search_knowledge"]
        assert result.text == 'There is no tool "read_document"; available: search_knowledge.'

    async def test_knowledge_bases_that_cannot_list_are_passed_over(self) -> None:
        """External retrievers have no documents to read."""
        async with knowledge({"book": ["whole text"]}) as base:
            rag = agentic(FactBase("outside"), base, read_document=True)

            result = await rag.call_tool({"document_id": "book"}, name="read_document")

        assert "whole text" in result.text
        assert result.blocks == (TextBlock(text=result.text),)
