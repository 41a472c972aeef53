"""The contract of a framework adapter, as tests: the same scenarios in every framework, with a scripted model.

An adapter's test file says how to build and run an agent of its framework::

    from agent_rag.testing import AdapterContract, Outcome, ScriptedChatModel

    class TestMyFramework(AdapterContract):
        def make_agent(self, model, middlewares, *, supports_images=False): ...
        async def run(self, agent, text, *, session="s", context=None): ...
        async def stored(self, agent, session="s"): ...
        async def stream(self, agent, text, *, session="s"): ...

The framework's model in these tests is a small subclass of its model base class that turns its messages into
`ChatMessage` (system, user, assistant, tool; images as DataBlock) and its tools into `ToolSpec`, asks the
`ScriptedChatModel`, and turns the `ChatReply` back. A tool result is role "tool" there, whatever its own name is.

What a framework cannot do is switched off by an attribute, with a probe in the adapter's own tests that shows it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest

from ..chat import ChatMessage, ChatReply
from ..content import DataBlock
from ..errors import AgentRAGError
from ..filters import FilterField
from ..middleware import Parameters, RAGMiddleware
from .chat import ScriptedChatModel, call, spoken
from .knowledge import PIXEL, FactBase, hit, picture

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass
class Outcome:
    """How a run ended."""

    text: str
    """The final answer."""
    citations: list[dict[str, Any]] = field(default_factory=list)
    """What the framework's own slot holds: of all tool results of this run, in order."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """`HintEvent`s that came through the framework's stream, as dicts."""


def when(*conditions: str) -> Callable[[Test], Test]:
    """Collect a test only where the contract class has all `conditions` as true attributes."""

    def mark(test: Test) -> Test:
        test.__dict__["_needs"] = conditions
        return test

    return mark


class AdapterFixtures:
    """What an adapter's test class sets."""

    pytestmark = pytest.mark.asyncio

    static: ClassVar[bool] = True
    """Can show a hint."""
    call_scope: ClassVar[bool] = True
    """Can show the hint on the first call only."""
    persists: ClassVar[bool] = True
    """Can keep the hint in the history."""
    has_history: ClassVar[bool] = True
    """`session` continues a conversation, and `stored` shows what was kept."""
    tool_images: ClassVar[bool] = True
    """Carries images in tool results."""
    hint_images: ClassVar[bool] = True
    citation_slot: ClassVar[bool] = True
    """The framework keeps structured data beside a tool result."""
    streams: ClassVar[bool] = True
    """`stream` works."""
    stream_events: ClassVar[bool] = True
    """The hint event comes through the framework's stream."""
    raises: ClassVar[bool] = True
    """An error in a hook ends the run."""
    cancels: ClassVar[bool] = True
    """A run can be cancelled from outside while it searches."""
    has_context: ClassVar[bool] = True
    """`context` of a run reaches the `scope` callable."""
    same_agent: ClassVar[bool] = True
    """One agent object serves concurrent runs; else one agent each, with the same middleware object."""
    concurrent_rounds: ClassVar[int] = 20
    concurrent_runs: ClassVar[int] = 8

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            for name, test in vars(base).items():
                can = all(getattr(cls, condition) for condition in getattr(test, "_needs", ()))
                if name.startswith("test_") and name not in vars(cls) and not can:
                    # Hidden, not skipped: what a framework cannot do is no missing test.
                    setattr(cls, name, None)

    def make_agent(
        self, model: ScriptedChatModel, middlewares: Sequence[RAGMiddleware], *, supports_images: bool = False
    ) -> Any:
        """Override: an agent of the framework with `model` and all `middlewares` attached."""
        raise NotImplementedError

    async def run(self, agent: Any, text: str, *, session: str = "s", context: Any = None) -> Outcome:
        """Override: one user turn in the conversation `session`, with `context` as the caller's identity."""
        raise NotImplementedError

    async def stored(self, agent: Any, session: str = "s") -> str:
        """Override: everything that is kept of a conversation (history, state, checkpoints), as text."""
        raise NotImplementedError

    async def stream(self, agent: Any, text: str, *, session: str = "s") -> Outcome:
        """Override with `streams`: a user turn by the framework's streaming call."""
        raise NotImplementedError


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
        """History, state and checkpoints are clean, and the next turn has only its own hint, numbered from 1."""
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
        assert "[1] (source: docs.md)" in last

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


class AdapterContract(AdapterStatic, AdapterAgentic, AdapterTogether):
    """All scenarios; subclass it and say how to build and run an agent."""


def static(*bases: FactBase, scope: Any = None, on_event: Any = None, **parameters: Any) -> RAGMiddleware:
    """A static middleware over `bases`."""
    return RAGMiddleware(list(bases), Parameters(mode="static", **parameters), scope=scope, on_event=on_event)


def agentic(*bases: FactBase, scope: Any = None, on_event: Any = None, **parameters: Any) -> RAGMiddleware:
    """An agentic middleware over `bases`."""
    return RAGMiddleware(list(bases), Parameters(**parameters), scope=scope, on_event=on_event)


def roles(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    """(role, text) of the messages, system prompts left out."""
    return [(message.role, message.text) for message in messages if message.role != "system"]


def tool_text(messages: Sequence[ChatMessage]) -> str:
    """What the last tool message says."""
    return [message.text for message in messages if message.role == "tool"][-1]


def images(messages: Sequence[ChatMessage]) -> list[str]:
    """The data of all image blocks."""
    blocks = [block for message in messages for block in message.content if isinstance(block, DataBlock)]
    return [getattr(block.source, "data", "") for block in blocks]


def enums(schema: Any) -> Iterator[Any]:
    """Every enum in a JSON schema."""
    if isinstance(schema, dict):
        if "enum" in schema:
            yield schema["enum"]
        for value in schema.values():
            yield from enums(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from enums(value)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and what is in groups."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from causes(inner)
        error = error.__cause__ or error.__context__


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
