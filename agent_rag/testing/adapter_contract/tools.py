"""Scenarios of the tool."""

from __future__ import annotations

import asyncio

from ...filters import FilterField
from ..chat import ScriptedChatModel, call, spoken
from ..knowledge import PIXEL, FactBase, ShelfBase, TableBase, hit, picture
from .base import AdapterFixtures, agentic, enums, images, tool_text, when


class AdapterAgentic(AdapterFixtures):
    """Tools."""

    async def test_the_model_is_offered_the_tool(self) -> None:
        """Name, description with the knowledge bases, and a schema with the enum of their names."""
        model = ScriptedChatModel("done")

        await self.run(self.make_agent(model, [agentic(FactBase("faq"), FactBase("docs"))]), "hello")

        (tool,) = model.tools[0]
        assert tool.name == "search_knowledge"
        assert "- docs: the docs of a test\n- faq: the faq of a test" in tool.description
        assert ["docs", "faq"] in list(enums(tool.parameters))
        assert {"query", "knowledge_bases", "top_k"} <= set(tool.parameters["properties"])
        assert tool.parameters["required"] == ["query"]

    async def test_a_call_is_answered_with_numbered_hits(self) -> None:
        """The model reads the hits of the knowledge base that it chose."""
        model = ScriptedChatModel(call(query="pumps", knowledge_bases=["faq"]), "done")

        outcome = await self.run(self.make_agent(model, [agentic(FactBase("docs"), FactBase("faq"))]), "hello")

        answer = tool_text(model.inputs[1])
        assert outcome.text == "done"
        assert "[1] (source: faq.md, knowledge base faq)\nFACT(pumps)" in answer
        assert "docs.md" not in answer

    @when("citation_slot")
    async def test_citations_are_in_the_frameworks_slot(self) -> None:
        """Structured, with the numbers that the model saw, over two calls of a turn."""
        model = ScriptedChatModel(call(query="one"), call(id="call_2", query="two"), "done")

        outcome = await self.run(self.make_agent(model, [agentic(FactBase())]), "hello")

        keep = ("number", "chunk_ids", "document_id", "source")
        assert [[citation[name] for name in keep] for citation in outcome.citations] == [
            [1, ["docs-one:0"], "docs-one", "docs.md"],
            [2, ["docs-two:0"], "docs-two", "docs.md"],
        ]
        assert "[2] (source: docs.md)" in spoken(model.inputs[2])

    async def test_wrong_arguments_get_a_short_answer(self) -> None:
        """Unknown names, types and filters tell the model what is allowed; the run goes on."""
        wrong = [
            call(query="x", knowledge_bases=["nope"]),
            call(id="call_2", query="x", top_k=[1]),
            call(id="call_3", query="x", filter={"colour": "red"}),
        ]
        fields = {"year": FilterField(type="number")}
        model = ScriptedChatModel(*wrong, "done")

        outcome = await self.run(self.make_agent(model, [agentic(FactBase(), filter_fields=fields)]), "hello")

        answers = [tool_text(messages) for messages in model.inputs[1:]]
        assert outcome.text == "done"
        assert "allowed: docs" in answers[0]
        assert "top_k" in answers[1]
        assert "year" in answers[2]

    async def test_a_filter_of_the_model_is_applied(self) -> None:
        """A filter over declared fields narrows the search."""
        base = FactBase(hits=[hit("OLD", metadata={"year": 2020}), hit("NEW", index=4, metadata={"year": 2026})])
        model = ScriptedChatModel(call(query="x", filter={"field": "year", "operator": "gte", "value": 2025}), "done")

        await self.run(
            self.make_agent(model, [agentic(base, filter_fields={"year": FilterField(type="number")})]), "hello"
        )

        answer = tool_text(model.inputs[1])
        assert "NEW" in answer
        assert "OLD" not in answer

    async def test_every_tool_is_offered_and_answered(self) -> None:
        """With ``tools="all"``: text is found, documents are listed, and one is read by the number of a hit."""
        shelf = ShelfBase({"pumps.md": "Pump P-7 leaks.", "valves.md": "Valve V-1 and pump P-7."})
        model = ScriptedChatModel(
            call("find_text", pattern="P-7"),
            call("list_documents", id="call_2", pattern="valv*"),
            call("read_document", id="call_3", around=2),
            "done",
        )

        outcome = await self.run(self.make_agent(model, [agentic(shelf, tools="all")]), "hello")

        found, listed, read = (spoken(messages[-1:]) for messages in model.inputs[1:])
        assert outcome.text == "done"
        names = {"search_knowledge", "find_text", "list_documents", "read_document"}
        assert {tool.name for tool in model.tools[0]} == names
        assert '2 occurrences of "P-7" in 2 documents, all shown:' in found
        assert "[1] (source: pumps.md) Pump P-7 leaks." in found
        assert "- valves.md" in listed
        assert "pumps.md" not in listed
        assert "[2] (source: valves.md, document valves.md)\nValve V-1 and pump P-7." in read

    async def test_tables_are_described_and_asked(self) -> None:
        """Where a knowledge base keeps tables: a sum has a number and its rows, a wrong query what is nearest."""
        model = ScriptedChatModel(
            call("describe_tables", question="pay"),
            call("query_tables", id="call_2", sql="select sum(euro) from wages"),
            call("query_tables", id="call_3", sql="select sum(euro) as total from pay"),
            "done",
        )

        outcome = await self.run(self.make_agent(model, [agentic(TableBase(), tools="all")]), "hello")

        described, wrong, asked = (spoken(messages[-1:]) for messages in model.inputs[1:])
        assert outcome.text == "done"
        assert {"describe_tables", "query_tables"} <= {tool.name for tool in model.tools[0]}
        assert "euro number: 10.5 to 20.0" in described
        assert "nearest: pay" in wrong
        assert "[1] (source: pay.csv, rows 2-3, document pay.csv)" in asked
        assert "| 30.5 |" in asked

    async def test_no_hits_say_so_and_what_to_change(self) -> None:
        """An empty result is no failure."""
        model = ScriptedChatModel(call(query="x"), "done")

        outcome = await self.run(self.make_agent(model, [agentic(FactBase(hits=[]))]), "hello")

        assert outcome.text == "done"
        assert 'No match found for "x"' in tool_text(model.inputs[1])
        assert "Do not repeat" in tool_text(model.inputs[1])

    async def test_a_repeated_call_is_searched_once(self) -> None:
        """The same call again is answered from the turn's cache with a note."""
        base = FactBase()
        model = ScriptedChatModel(call(query="x"), call(id="call_2", query="x"), "done")

        await self.run(self.make_agent(model, [agentic(base)]), "hello")

        assert base.queries == [["x"]]
        assert "Do not repeat it" in spoken(model.inputs[2])

    async def test_a_dead_or_slow_store_is_a_short_answer(self) -> None:
        """The tool never raises: the model reads the reason, without secrets, and the other knowledge base answers."""
        dead = FactBase("dead", error=RuntimeError("http://user:hunter2@host refused"))
        slow = FactBase("slow", delay_s=30)
        model = ScriptedChatModel(call(query="x"), call(id="call_2", query="x", knowledge_bases=["dead"]), "done")

        async with asyncio.timeout(10):
            await self.run(self.make_agent(model, [agentic(dead, slow, FactBase(), timeout_s=0.2)]), "hello")

        first = tool_text(model.inputs[1])
        assert "FACT(x)" in first
        assert "dead did not answer" in first
        assert "slow did not answer" in first
        assert "The search failed" in spoken(model.inputs[2])
        assert "hunter2" not in spoken(model.inputs[2])

    @when("tool_images")
    async def test_images_of_a_result_reach_a_vision_model_only(self) -> None:
        """As image parts; a text-only model reads the caption."""
        base = FactBase(hits=[hit(picture(), document_id="manual")])
        seeing = ScriptedChatModel(call(query="x"), "done", supports_images=True)
        blind = ScriptedChatModel(call(query="x"), "done")

        await self.run(self.make_agent(seeing, [agentic(base)], supports_images=True), "hello")
        await self.run(self.make_agent(blind, [agentic(base)]), "hello")

        assert images(seeing.inputs[1]) == [PIXEL]
        assert images(blind.inputs[1]) == []
        assert "[image: diagram.png] a wiring diagram" in tool_text(blind.inputs[1])
        assert PIXEL not in spoken(blind.inputs[1])

    async def test_a_text_model_never_reads_base64(self) -> None:
        """Wherever images do not go, their note does."""
        model = ScriptedChatModel(call(query="x"), "done")

        await self.run(self.make_agent(model, [agentic(FactBase(hits=[hit(picture())]))]), "hello")

        assert PIXEL not in spoken(model.inputs[1])
        assert "[image: diagram.png]" in tool_text(model.inputs[1])
