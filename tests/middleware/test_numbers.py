"""Citation numbers are unique within what one prompt can hold: a conversation, and its subagents."""

from __future__ import annotations

from agent_rag.chat import ChatMessage, user
from agent_rag.middleware import RAGMiddleware, Turn
from agent_rag.middleware.core.conversation.ledger import highest_number
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import call
from agent_rag.testing.knowledge import hit

from .bases import agentic, static


def said(role: str, text: str) -> ChatMessage:
    return ChatMessage.model_validate({"role": role, "content": text, "tool_call_id": "1" if role == "tool" else None})


async def test_numbers_go_on_after_those_of_the_history() -> None:
    """Headers in tool results and hints, and markers in answers."""
    rag = agentic(FactBase())
    earlier = [said("user", "a"), said("tool", "[3] (source: a.md)\ntext"), said("assistant", "It is so [1, 4].")]

    result = await rag.call_tool({"query": "x"}, Turn("b", history=earlier))

    assert [citation.number for citation in result.citations] == [5]


async def test_what_others_number_does_not_count() -> None:
    """Words of the user, years, and brackets inside of a fence that quotes a document."""
    quoted = "<retrieved-0123456789abcdef>\n[2] (source: a.md)\nsee [77]\n</retrieved-0123456789abcdef>"

    assert highest_number([said("user", "what is [9]?"), said("assistant", "In [2024] it was so.")]) == 0
    assert highest_number([said("tool", quoted)]) == 2


async def test_a_turn_within_another_shares_its_numbers() -> None:
    """A subagent goes on with its caller's numbers, and the caller knows what they stand for."""
    outer, inner = agentic(FactBase("outer")), agentic(FactBase("inner"))
    turn = outer.start_turn("ask")
    await outer.call_tool({"query": "x"}, turn)

    with turn.active():
        sub = inner.start_turn("part")
    result = await inner.call_tool({"query": "y"}, sub)
    after = await outer.call_tool({"query": "z"}, turn)

    assert [citation.number for citation in result.citations] == [2]
    assert [citation.number for citation in after.citations] == [3]
    assert [(citation.number, citation.source) for citation in turn.citations] == [
        (1, "outer.md"),
        (2, "inner.md"),
        (3, "outer.md"),
    ]


async def test_a_subagent_is_shown_what_only_its_caller_saw() -> None:
    """Under the same number, since both prompts may meet."""
    base = FactBase(hits=[hit("text")])
    outer, inner = agentic(base), agentic(base)
    turn = outer.start_turn("ask")
    await outer.call_tool({"query": "x"}, turn)

    with turn.active():
        result = await inner.call_tool({"query": "x"}, inner.start_turn("part"))

    assert "[1] (source: doc.md)\ntext" in result.text


async def test_a_passage_is_shown_once_in_a_turn() -> None:
    """MW09: nineteen different searches of one chunk show it once, then name its number; past the limit it says so."""
    rag = agentic(FactBase(hits=[hit("only")]), search_limit=19)
    turn = rag.start_turn()

    results = [await rag.call_tool({"query": f"q{number}"}, turn) for number in range(20)]

    assert sum("\nonly" in result.text for result in results) == 1
    assert all("[1] (source: doc.md)" in result.text for result in results[:19])
    assert "19 searches were made in this turn" in results[19].text
    assert not results[19].is_error


async def test_the_loop_numbers_three_turns_through() -> None:
    """What the history shows keeps its number, static and agentic; the run knows what each stands for."""
    from agent_rag.middleware.loop import run_agent

    def answer(messages: object) -> str:
        return "See " + " ".join(f"[{number}]" for number in range(1, highest_number(messages) + 1))  # type: ignore[arg-type]

    rags: list[RAGMiddleware] = [static(FactBase("a")), agentic(FactBase("b"))]
    model = ScriptedChatModel(call(query="1"), answer, call(query="2"), answer, call(query="3"), answer)
    history: list[ChatMessage] = []
    for question in ("one", "two", "three"):
        run = await run_agent(model, [*history, user(question)], middleware=rags)
        history = run.messages

    numbers = [citation.number for citation in run.citations]
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert [citation.document_id for citation in run.citations] == ["a-one", "b-1", "a-two", "b-2", "a-three", "b-3"]


async def test_numbers_of_earlier_turns_stay_known() -> None:
    """From the fences in the history: they are cited, their passages keep them, and they can be read around."""
    base = FactBase(hits=lambda query: [hit(f"text {query}", document_id=query)])
    rag = agentic(base)
    first = await rag.call_tool({"query": "a"}, rag.start_turn("one"))
    turn = rag.start_turn("two", history=[said("user", "one"), said("tool", first.text)])

    second = await rag.call_tool({"query": "b"}, turn)
    again = await rag.call_tool({"query": "a"}, turn)

    assert [citation.number for citation in second.citations] == [2]
    assert again.text.startswith("Nothing new; shown above: [1].")
    assert [(citation.number, citation.document_id) for citation in turn.citations] == [(1, "a"), (2, "b")]
