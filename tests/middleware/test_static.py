"""Static mode: one search per turn, a hint that is shown and not stored, failures that do not end the turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from agent_rag.chat import ChatMessage, system, user
from agent_rag.content import DataBlock, TextBlock
from agent_rag.errors import AgentRAGError, ConfigurationError, StoreUnavailableError
from agent_rag.middleware import HINT_NAME, Hint, HintEvent, SearchFailed, Turn, with_hints
from agent_rag.middleware.loop import run_agent
from agent_rag.retrieval.rewrite import LLMQueryRewriter, RecentMessages
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import spoken
from agent_rag.testing.knowledge import PIXEL, hit, picture

from .bases import agentic, chunk, knowledge, static


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=[TextBlock(text=text)])


async def test_searches_once_however_often_the_hint_is_asked_for() -> None:
    """Also when several ask at the same time."""
    base = FactBase(delay_s=0.01)
    rag = static(base)
    turn = rag.start_turn("hello")

    hints = await asyncio.gather(*(rag.hint(turn) for _ in range(5)))

    assert base.queries == [["hello"]]
    assert hints == [hints[0]] * 5


@pytest.mark.parametrize("ask", [None, "", "  \n ", [TextBlock(text=" ")]])
async def test_a_blank_ask_is_not_searched(ask: object) -> None:
    """There is nothing to look for."""
    base = FactBase()
    rag = static(base)

    hint = await rag.hint(rag.start_turn(ask))  # type: ignore[arg-type]

    assert hint is None
    assert base.queries == []


async def test_agentic_mode_has_no_hint_and_static_mode_no_tool() -> None:
    """One instance does one thing."""
    base = FactBase()

    assert await agentic(base).hint(Turn("hello")) is None
    assert await static(base).list_tools() == []
    assert base.queries == []


async def test_text_and_images_of_the_ask_are_searched_together() -> None:
    """As one search: the text, then the images."""
    base = FactBase()
    rag = static(base)

    await rag.hint(rag.start_turn(ChatMessage(role="user", content=[TextBlock(text="what is this?"), picture()])))

    assert base.queries == [["what is this?", picture()]]


async def test_nothing_found_is_no_hint_and_no_event() -> None:
    """The turn goes on as if there were no middleware."""
    events: list[object] = []
    rag = static(FactBase(hits=[]), options={"on_event": events.append})

    assert await rag.hint(rag.start_turn("hello")) is None
    assert events == []


@pytest.mark.parametrize(("emit", "count"), [(True, 1), (False, 0)])
async def test_the_event_comes_once_with_the_hint(emit: bool, count: int) -> None:
    """A typed event with queries, text and citations, for the callback and for the framework's stream."""
    events: list[object] = []
    rag = static(FactBase(), emit_hint_event=emit, options={"on_event": events.append, "name": "mine"})
    turn = rag.start_turn("hello")

    hint = await rag.hint(turn)
    await rag.hint(turn)

    assert hint is not None
    assert len(events) == count
    assert (hint.event is not None) is emit
    for event in events:
        assert isinstance(event, HintEvent)
        assert (event.middleware, event.queries, event.text) == ("mine", ("hello",), hint.text)
        assert [citation.source for citation in event.citations] == ["docs.md"]


async def test_a_gate_skips_the_search() -> None:
    """Small talk need not be searched."""
    base = FactBase()
    rag = static(base, options={"gate": lambda text: "?" in text})

    skipped = await rag.hint(rag.start_turn("thanks"))
    searched = await rag.hint(rag.start_turn("why?"))

    assert skipped is None
    assert searched is not None
    assert base.queries == [["why?"]]


async def test_a_failing_gate_is_open_and_reported() -> None:
    """A bug in it must not take the knowledge away."""
    events: list[object] = []

    def gate(text: str) -> bool:
        raise KeyError("oops")

    rag = static(FactBase(), emit_hint_event=False, options={"gate": gate, "on_event": events.append})

    assert await rag.hint(rag.start_turn("hello")) is not None
    assert [(event.stage, event.reason) for event in events] == [("gate", "KeyError: 'oops'")]  # type: ignore[attr-defined]


class TestPlacement:
    """`with_hints`: where the hint goes."""

    @staticmethod
    def place(messages: Sequence[str], hints: Sequence[tuple[Hint, str]]) -> list[str]:
        return with_hints(messages, hints, is_ask=lambda text: text[0] == "u", is_hint=lambda text: text[0] == "h")

    @staticmethod
    def hint(**fields: object) -> Hint:
        return Hint(text="x", blocks=(TextBlock(text="x"),), **fields)  # type: ignore[arg-type]

    def test_after_the_last_ask_and_before_what_follows(self) -> None:
        """System prompt and earlier turns stay in front, so that prompt caches hold."""
        placed = self.place(["s", "u1", "a1", "u2", "a2", "t"], [(self.hint(), "h")])

        assert placed == ["s", "u1", "a1", "u2", "h", "a2", "t"]

    def test_after_the_hints_of_other_instances(self) -> None:
        """So that numbers ascend."""
        assert self.place(["u", "h1", "a"], [(self.hint(), "h2")]) == ["u", "h1", "h2", "a"]

    def test_of_one_call_only_while_nothing_follows(self) -> None:
        """Other hints do not count as something."""
        once = self.hint(scope="call")

        assert self.place(["u", "h1"], [(once, "h2")]) == ["u", "h1", "h2"]
        assert self.place(["u", "a"], [(once, "h")]) == ["u", "a"]

    def test_persisted_hints_and_messages_without_ask_are_left_alone(self) -> None:
        """The result is a copy in any case."""
        messages = ["s", "a"]

        assert self.place(messages, [(self.hint(), "h")]) == messages
        assert self.place(["u"], [(self.hint(persist=True), "h")]) == ["u"]
        assert self.place(messages, []) is not messages


class TestHistory:
    """M01: retrieved text does not pile up."""

    async def test_ten_turns_carry_only_their_own_text(self) -> None:
        """Model input n holds the markers of turn n only; the history grows by two messages a turn and holds none."""
        base = FactBase(hits=lambda query: [hit(f"ZZ-{query}-{n}", document_id=f"d{n}") for n in range(3)])
        model = ScriptedChatModel(otherwise="answer")
        messages: list[ChatMessage] = [system("be brief")]

        for number in range(10):
            run = await run_agent(model, [*messages, user(f"ask{number}")], middleware=static(base))
            messages = run.messages

        for number, sent in enumerate(model.inputs):
            assert spoken(sent).count("ZZ-") == 3
            assert spoken(sent).count(f"ZZ-ask{number}-") == 3
        assert "ZZ" not in spoken(messages)
        assert len(messages) == 1 + 2 * 10

    @pytest.mark.parametrize("failure", [RuntimeError("boom"), None], ids=["error", "cancel"])
    async def test_a_failed_model_call_leaves_the_history_as_it_was(self, failure: Exception | None) -> None:
        """After an exception or a cancellation in the model call."""
        messages = [user("hello")]
        model = ScriptedChatModel(failure or "never", delay_s=0 if failure else 30)
        running = asyncio.create_task(run_agent(model, messages, middleware=static(FactBase(), persist_hint=True)))

        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises((RuntimeError, asyncio.CancelledError)):
            await running

        assert [message.text for message in messages] == ["hello"]


class TestRewriting:
    """M03: follow-ups are searched with their subject."""

    history = (
        system("SECRET SYSTEM PROMPT"),
        user("How loud is the heat pump HP9?"),
        assistant("It is quiet."),
        ChatMessage(role="user", content=[TextBlock(text="OLD HINT")], name=HINT_NAME),
        ChatMessage(role="tool", content=[TextBlock(text="TOOL TEXT")], tool_call_id="1"),
    )

    async def test_the_first_follow_up_is_searched_with_its_subject(self) -> None:
        """The rewriter sees the talk, and neither system prompts nor hints nor tool traffic."""
        seen: list[str] = []

        async def rewriter(query: str, history: Sequence[ChatMessage]) -> str:
            seen.append(spoken(history))
            return f"HP9 {query}"

        base = FactBase()
        rag = static(base, options={"query_rewriter": rewriter})
        turn = rag.start_turn("and its warranty?", history=self.history)

        hint = await rag.hint(turn)

        assert base.queries == [["HP9 and its warranty?"]]
        assert seen == ["How loud is the heat pump HP9?\nIt is quiet."]
        assert hint is not None
        assert hint.queries == ("HP9 and its warranty?",)
        assert turn.text == "and its warranty?"

    async def test_a_failing_rewriter_falls_back_to_the_words(self) -> None:
        """And the reason is reported."""
        events: list[object] = []

        def rewriter(query: str, history: Sequence[ChatMessage]) -> str:
            raise RuntimeError("no model")

        base = FactBase()
        rag = static(base, on_error="raise", emit_hint_event=False,
                     options={"query_rewriter": rewriter, "on_event": events.append})  # fmt: skip

        await rag.hint(rag.start_turn("and its warranty?", history=self.history))

        assert base.queries == [["and its warranty?"]]
        assert [(event.stage, event.reason) for event in events] == [("rewrite", "RuntimeError: no model")]  # type: ignore[attr-defined]

    @pytest.mark.parametrize("answer", ["", [], ["  "]])
    async def test_an_empty_rewrite_is_ignored(self, answer: str | list[str]) -> None:
        """Searching for nothing helps nobody."""
        base = FactBase()
        rag = static(base, options={"query_rewriter": lambda query, history: answer})

        await rag.hint(rag.start_turn("hello"))

        assert base.queries == [["hello"]]

    async def test_a_slow_rewriter_does_not_use_up_the_timeout(self) -> None:
        """The search still has its share."""

        async def rewriter(query: str, history: Sequence[ChatMessage]) -> str:
            await asyncio.sleep(30)
            return "late"

        base = FactBase(delay_s=0.02)
        rag = static(base, timeout_s=0.5, options={"query_rewriter": rewriter})

        hint = await rag.hint(rag.start_turn("hello"))

        assert hint is not None
        assert base.queries == [["hello"]]

    async def test_several_queries_go_into_one_search(self) -> None:
        """The knowledge base merges them."""
        base = FactBase()
        rag = static(base, options={"query_rewriter": lambda query, history: ["one", "two"]})

        await rag.hint(rag.start_turn("hello"))

        assert base.queries == [["one", "two"]]

    async def test_it_serves_the_tool_too(self) -> None:
        """The model's query is rewritten with the same history."""
        base = FactBase()
        rag = agentic(base, options={"query_rewriter": RecentMessages(1)})

        await rag.call_tool({"query": "its warranty"}, rag.start_turn("x", history=self.history))

        assert base.queries == [["How loud is the heat pump HP9?\nits warranty"]]

    async def test_a_model_writes_queries_from_the_talk(self) -> None:
        """The prompt holds the messages and no system prompt; what the model wraps around the JSON is overlooked."""
        model = ScriptedChatModel('Sure:\n```json\n{"queries": ["HP9 warranty", "HP9 guarantee", "third"]}\n```')
        rewriter = LLMQueryRewriter(model, max_queries=2)
        base = FactBase()
        rag = static(base, options={"query_rewriter": rewriter})

        await rag.hint(rag.start_turn("and its warranty?", history=self.history))

        assert base.queries == [["HP9 warranty", "HP9 guarantee"]]
        prompt = spoken(model.inputs[0])
        assert "user: How loud is the heat pump HP9?" in prompt
        assert "and its warranty?" in prompt
        assert "SECRET" not in prompt

    async def test_the_history_is_read_only_when_it_is_needed(self) -> None:
        """An adapter may hand over a function, so that turns that show nothing cost nothing."""

        def history() -> list[ChatMessage]:
            raise AssertionError("read")

        rag = static(FactBase(hits=[]))

        assert await rag.hint(rag.start_turn("hello", history=history)) is None


class TestFailures:
    """M15: a dead store does not take the conversation along."""

    async def test_a_store_that_is_down_is_skipped_and_reported(self) -> None:
        """The hint is missing, the reason is in the event, without the password."""
        events: list[SearchFailed] = []
        down = FactBase(error=ConnectionError("http://elastic:hunter2@db:9200 refused\nsecond line"))
        rag = static(down, options={"on_event": events.append})

        assert await rag.hint(rag.start_turn("hello")) is None
        assert [(event.stage, event.knowledge_base, event.reason) for event in events] == [
            ("search", "docs", "ConnectionError: http://***@db:9200 refused")
        ]

    async def test_a_store_that_hangs_costs_the_timeout(self) -> None:
        """Also one that swallows cancellation."""

        class Stubborn(FactBase):
            async def search(self, *arguments: object, **options: object) -> list[object]:  # type: ignore[override]
                for _ in range(20):
                    try:
                        await asyncio.sleep(0.1)
                    except asyncio.CancelledError:
                        continue
                finished.append(True)
                return []

        finished: list[bool] = []
        rag = static(Stubborn(), timeout_s=0.2)

        assert await rag.hint(rag.start_turn("hello")) is None
        assert not finished

    async def test_strict_mode_raises_the_error(self) -> None:
        """Ours as it is, others wrapped from the original and without secrets."""
        down = static(FactBase(error=RuntimeError("password=hunter2 is wrong")), on_error="raise")
        slow = static(FactBase(delay_s=30), on_error="raise", timeout_s=0.05)

        with pytest.raises(AgentRAGError, match=r"'docs' failed: RuntimeError: password=\*\*\*") as caught:
            await down.hint(down.start_turn("hello"))
        with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.05"):
            await slow.hint(slow.start_turn("hello"))

        assert isinstance(caught.value.__cause__, RuntimeError)

    async def test_one_of_several_may_fail_alone(self) -> None:
        """The others' hits are shown, and the hint says that it is degraded."""
        rag = static(FactBase("dead", error=RuntimeError("x")), FactBase("slow", delay_s=30), FactBase(), timeout_s=0.2)

        hint = await rag.hint(rag.start_turn("hello"))

        assert hint is not None
        assert "FACT(hello)" in hint.text
        assert hint.degraded

    async def test_cancellation_passes_through_and_ends_the_searches(self) -> None:
        """The turn is cancelled, the search tasks too, and the next call of `hint` searches again."""
        base = FactBase(delay_s=lambda query: 30)
        rag = static(base)
        turn = rag.start_turn("hello")
        running = asyncio.create_task(rag.hint(turn))
        await base.asked.wait()
        before = len(asyncio.all_tasks())

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before - 2
        base.delay_s = 0
        assert await rag.hint(turn) is not None

    @pytest.mark.parametrize("stage", ["scope", "on_results"])
    async def test_what_guards_the_results_fails_closed(self, stage: str) -> None:
        """A broken scope or post-processor means no text at all, never the unguarded one."""

        def broken(*arguments: object) -> None:
            raise RuntimeError("broken")

        events: list[SearchFailed] = []
        options = {"on_event": events.append, **({"scope": broken} if stage == "scope" else {})}
        parameters = {"on_results": broken} if stage == "on_results" else {}
        rag = static(FactBase(), options=options, **parameters)
        strict = static(FactBase(), options=options, on_error="raise", **parameters)

        assert await rag.hint(rag.start_turn("hello")) is None
        assert [(event.stage, event.reason) for event in events] == [(stage, "RuntimeError: broken")]
        with pytest.raises(ConfigurationError, match=stage):
            await strict.hint(strict.start_turn("hello"))


class TestImages:
    """M17: pictures for those who can see, words for the others."""

    async def test_a_text_only_model_gets_the_caption(self) -> None:
        """Name and caption, no base64."""
        hits = [hit(picture(caption="OCR: 400 V")), hit(picture("b.png", None), index=4)]
        rag = static(FactBase(hits=hits), collapse_duplicates=False)

        hint = await rag.hint(rag.start_turn("hello"))

        assert hint is not None
        assert "[image: diagram.png] OCR: 400 V" in hint.text
        assert "[image: b.png]" in hint.text
        assert PIXEL not in hint.text
        assert [type(block) for block in hint.blocks] == [TextBlock]

    async def test_a_vision_model_gets_the_image_between_its_header_and_its_note(self) -> None:
        """A proper block; the text form stays free of it."""
        rag = static(FactBase(hits=[hit("words"), hit(picture(), document_id="pic")]))

        hint = await rag.hint(rag.start_turn("hello", supports_images=True))

        assert hint is not None
        before, image, after = hint.blocks
        assert isinstance(image, DataBlock)
        assert isinstance(before, TextBlock)
        assert isinstance(after, TextBlock)
        assert before.text.endswith("[2] (source: pic.md)\n")
        assert after.text.startswith("[image: diagram.png] a wiring diagram")
        assert before.text + after.text == hint.text

    @pytest.mark.parametrize(("images", "supports", "shown"), [("always", False, 1), ("never", True, 0)])
    async def test_the_option_overrules_the_adapter(self, images: str, supports: bool, shown: int) -> None:
        """For models whose abilities the adapter does not know."""
        rag = static(FactBase(hits=[hit(picture())]), images=images)

        hint = await rag.hint(rag.start_turn("hello", supports_images=supports))

        assert hint is not None
        assert sum(isinstance(block, DataBlock) for block in hint.blocks) == shown


class TestBudget:
    """M09: the context window does not overflow."""

    async def test_twenty_large_hits_fit_three_thousand_tokens(self, caplog: pytest.LogCaptureFixture) -> None:
        """Whole hits are dropped from the end, their number is said and logged, the ask is untouched."""
        caplog.set_level(logging.INFO, logger="agent_rag")

        def count(text: str) -> int:
            return len(text.split())

        hits = [hit(f"H{number} " + "word " * 1_999, document_id=f"d{number}") for number in range(20)]
        rag = static(FactBase(hits=hits), top_k=20, max_context_tokens=3_000, token_counter=count)
        turn = rag.start_turn("hello")

        hint = await rag.hint(turn)

        assert hint is not None
        assert count(hint.text) <= 3_000
        assert "H0 " in hint.text
        assert "H1 " not in hint.text
        assert "(19 further hits left out to fit the context budget.)" in hint.text
        assert hint.dropped == 19
        assert [citation.document_id for citation in turn.citations] == ["d0"]
        assert "19 of 20 hits left out" in caplog.text
        assert turn.text == "hello"

    @pytest.mark.parametrize("budget", [100, 200, 400, 1_000])
    async def test_a_hit_larger_than_the_budget_is_cut_and_marked(self, budget: int) -> None:
        """Never more than the budget, by the default counter."""
        rag = static(FactBase(hits=[hit("word " * 4_000)]), max_context_tokens=budget)

        hint = await rag.hint(rag.start_turn("hello"))

        assert hint is not None
        assert -(-len(hint.text.encode()) // 4) <= budget
        assert "[…cut: " in hint.text

    async def test_a_budget_below_the_template_gives_no_hint(self) -> None:
        """Rather than an empty frame."""
        rag = static(FactBase(), max_context_tokens=50)

        assert await rag.hint(rag.start_turn("hello")) is None


class TestShape:
    """Neighbours and duplicates over a real knowledge base."""

    async def test_neighbouring_chunks_are_joined_without_their_overlap(self) -> None:
        """One number for both, the span of both, the text once."""
        text = "The pump starts slowly. The valve opens after ten seconds. The fan follows."
        parts = [
            chunk(text[0:58], "a.md", span=(0, 58), section_index=0),
            chunk(text[24:75], "a.md", span=(24, 75), section_index=0),
        ]
        async with knowledge({"a": parts, "b": ["Nothing about that."]}) as base:
            rag = static(base, top_k=2, hint_template="{context}")
            turn = rag.start_turn("pump valve fan")

            hint = await rag.hint(turn)

        assert hint is not None
        assert f"[1] (source: a.md)\n{text}\n" in hint.text
        (citation,) = turn.citations
        assert (citation.chunk_ids, citation.span) == (("a:0", "a:1"), (0, 75))

    async def test_neighbours_of_two_pages_keep_their_numbers(self) -> None:
        """A citation names one page."""
        parts = [chunk(f"pump on page {page}", "a.pdf", metadata={"page": page}) for page in (1, 2)]
        async with knowledge({"a": parts}) as base:
            rag = static(base)
            turn = rag.start_turn("pump page")

            await rag.hint(turn)

        assert sorted(citation.label for citation in turn.citations) == ["a.pdf, page 1", "a.pdf, page 2"]
