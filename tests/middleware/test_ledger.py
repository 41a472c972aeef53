"""One ledger of citation numbers for a conversation: it survives restarts and cleared tool results."""

from __future__ import annotations

import random
import re

import pytest

from agent_rag import KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextSource, sync
from agent_rag.chat import ChatMessage, user
from agent_rag.middleware import Citation, RAGMiddleware, Turn
from agent_rag.middleware.core import citation as citations_of_process
from agent_rag.middleware.core.conversation.memory import Remembered
from agent_rag.middleware.core.render import approximate_tokens
from agent_rag.testing import FactBase
from agent_rag.testing.knowledge import hit

from .bases import agentic, static
from .test_numbers import said

_ENTRY = re.compile(r"^\[(\d+)\] \(source: (\S+?)\.md\)\n(text \S+)", re.MULTILINE)


@pytest.fixture
def restart(monkeypatch: pytest.MonkeyPatch) -> object:
    """Called where another process would go on: nothing is remembered."""

    def forget() -> None:
        memory: object = Remembered()
        for module in ("citation", "conversation.ledger", "conversation.numbers"):
            monkeypatch.setattr(f"agent_rag.middleware.core.{module}.remembered", memory)

    assert citations_of_process.remembered is not None
    return forget


def by_query() -> FactBase:
    return FactBase(hits=lambda query: [hit(f"text {word}", document_id=word) for word in query.split()])


async def turn_of(rag: RAGMiddleware, query: str, history: list[ChatMessage]) -> str:
    return (await rag.call_tool({"query": query}, Turn(query, history=history))).text


async def test_what_an_earlier_turn_showed_is_one_line() -> None:
    """By its number; what is new is shown."""
    rag = agentic(by_query())
    history = [user("x"), said("tool", await turn_of(rag, "a b", []))]

    again = await turn_of(rag, "a b", history)
    more = await turn_of(rag, "a c", history)

    assert again == 'Nothing new; shown above: [1], [2]. To read one again, search for "[1]".'
    assert "[3] (source: c.md)\ntext c" in more
    assert "text a" not in more
    assert "Shown above: [1]." in more


async def test_a_new_process_reads_the_numbers_from_the_history(restart: object) -> None:
    """By the headers in it; a passage that stands there keeps its number, and is not shown twice."""
    assert callable(restart)
    rag = agentic(by_query())
    history = [user("x"), said("tool", await turn_of(rag, "a b", [])), said("assistant", "So [2].")]
    restart()
    turn = Turn("y", history=history)

    result = await agentic(by_query()).call_tool({"query": "b c"}, turn)

    assert "[3] (source: c.md)\ntext c" in result.text
    assert "Shown above: [2]." in result.text
    assert [(one.number, one.document_id) for one in result.citations] == [(2, "b"), (3, "c")]


async def test_a_persisted_hint_is_not_shown_again() -> None:
    """The hint of the next turn names it, and is still known as a hint."""
    rag = static(by_query(), persist_hint=True)
    first = await rag.hint(rag.start_turn("a b"))
    assert first is not None

    second = await rag.hint(rag.start_turn("b c", history=[user("a b"), first.message()]))
    third = await rag.hint(rag.start_turn("a b", history=[user("a b"), first.message()]))

    assert second is not None
    assert third is not None
    assert "text b" not in second.text
    assert "[3] (source: c.md)\ntext c" in second.text
    assert third.text.endswith("Nothing new; shown above: [1], [2].")
    assert rag.is_hint(third.text)
    assert [one.number for one in third.citations] == [1, 2]


async def test_cleared_results_are_read_again_by_their_number(restart: object) -> None:
    """From what the framework stores beside its messages, also in another process; the scope holds."""
    assert callable(restart)
    async with MemoryStore() as store:
        kb = KnowledgeBase("k", "d", LocalEmbeddingModel(), store, "k")
        await sync(kb, TextSource({"a.md": "The gate opens at nine.", "b.md": "The shop closes at six."}))
        rag = agentic(kb)
        shown = await rag.call_tool({"query": "When does the gate open?"}, Turn("x"))
        number = next(one.number for one in shown.citations if one.document_id == "a.md")
        places = [one.place() for one in shown.citations]
        cleared = [
            user("x"),
            said("tool", "[cleared]"),
            ChatMessage(role="assistant", content=f"At nine [{number}].", artifact=places),  # type: ignore[arg-type]
        ]
        restart()

        again = await agentic(kb).call_tool({"query": f"[{number}]"}, Turn("y", history=cleared))
        hidden = await RAGMiddleware([kb], scope={"tenant": "b"}).call_tool(
            {"query": f"[{number}]"}, Turn("y", history=cleared)
        )
        unknown = await agentic(kb).call_tool({"query": "[77]"}, Turn("y", history=cleared))

    assert f"[{number}] (source: a.md, lines 1-1)\nThe gate opens at nine." in again.text
    assert [one.number for one in again.citations] == [number]
    assert "nine" not in hidden.text
    assert unknown.text.startswith("There is no [77] in this conversation")


async def test_a_base_without_chunks_shows_again_by_searching() -> None:
    """A knowledge base of somebody else cannot read by number: it says so, and its next search shows the passage."""
    rag = agentic(by_query())
    history = [user("x"), said("tool", await turn_of(rag, "a", []))]
    turn = Turn("y", history=history)

    refused = await rag.call_tool({"query": "[1]"}, turn)
    again = await rag.call_tool({"query": "a"}, turn)

    assert refused.text == "[1] cannot be read again by its number; search for it with its words."
    assert "[1] (source: a.md)\ntext a" in again.text


async def test_ten_turns_over_three_questions_leave_little() -> None:
    """At most 3,500 tokens of tool results, where each answer of a search has more than 1,000 (11,000 before)."""
    words = "pressure valve opens before the pump starts and closes when the tank is full "
    base = FactBase(
        hits=lambda query: [hit(f"{query} {at} {words * 10}", document_id=f"{query}{at}") for at in range(5)]
    )
    rag = agentic(base)
    history: list[ChatMessage] = []
    for turn in range(10):
        text = await turn_of(rag, f"question {turn % 3}", history)
        history += [user("x"), said("tool", text), said("assistant", "So [1].")]

    tokens = [approximate_tokens(message.text) for message in history if message.role == "tool"]

    assert all(count > 1_000 for count in tokens[:3])
    assert sum(tokens) <= 3_500


async def test_what_others_store_beside_a_message_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Foreign data in the slot is left alone; a citation that cannot be read is said in the log."""
    odd: list[object] = ["text", [{"chunk_ids": 7}], [{"url": "x"}], {"citations": 1}, [3]]
    history = [ChatMessage(role="assistant", content=[], artifact=artifact) for artifact in odd]

    text = await turn_of(agentic(by_query()), "a", history)

    assert "[1] (source: a.md)\ntext a" in text
    assert "cannot be read" in caplog.text


async def test_no_number_means_two_things_in_a_thousand_conversations(restart: object) -> None:
    """Random turns with restarts, cleared tool results, and answers that cite what they saw."""
    assert callable(restart)
    for seed in range(1_000):
        chance = random.Random(seed)
        meaning: dict[int, str] = {}
        history: list[ChatMessage] = []
        for _ in range(chance.randint(2, 5)):
            query = " ".join(chance.sample("abcdefgh", 2))
            mode = chance.choice(["static", "agentic"])
            rag = static(by_query(), persist_hint=chance.random() < 0.5) if mode == "static" else agentic(by_query())
            turn = Turn(query, history=list(history))
            if mode == "static":
                hint = await rag.hint(turn)
                assert hint is not None
                text, kept = hint.text, [hint.message()] if hint.persist else []
            else:
                text = (await rag.call_tool({"query": query}, turn)).text
                kept = [said("tool", text)]
            for number, source, _ in _ENTRY.findall(text):
                assert meaning.setdefault(int(number), source) == source, (seed, text)
            for one in turn.citations:
                assert meaning.setdefault(one.number, one.document_id) == one.document_id, seed
            cited = "".join(f"[{one.number}]" for one in turn.citations[-2:])
            history += [user(query), *kept, _answered(cited, turn.citations, stored=chance.random() < 0.9)]
            if chance.random() < 0.3:
                history = [said("tool", "[cleared]") if one.role == "tool" else one for one in history]
            if chance.random() < 0.2:
                restart()


def _answered(cited: str, shown: list[Citation], *, stored: bool) -> ChatMessage:
    """An answer that cites its last passage, with what a framework keeps, or without it and with every number."""
    if stored:
        places = [one.place() for one in shown]
        return ChatMessage(role="assistant", content=f"So {cited}.", artifact=places)  # type: ignore[arg-type]
    every = "".join(f"[{one.number}]" for one in shown)
    return said("assistant", f"So {every}.")
