"""What an agent answered is compared with what it was shown."""

from __future__ import annotations

from typing import Any

from agent_rag.chat import ChatMessage
from agent_rag.middleware import AnswerChecked, RAGMiddleware
from agent_rag.middleware.loop import run_agent
from agent_rag.testing import FactBase, ScriptedChatModel
from agent_rag.testing.chat import call
from agent_rag.testing.knowledge import hit

LONG = "The gate opens at nine. " + "It is painted green. " * 40 + "The shop closes at six."


async def test_a_run_knows_what_its_answer_rests_on() -> None:
    """Also what stands far behind the preview of a citation, and in a hint that the history does not keep."""
    base = FactBase(hits=[hit(LONG)])
    static = RAGMiddleware([base], RAGMiddleware.Parameters(mode="static"))
    answer = "The shop closes at six [1]. The shop closes at seven [1]. It never rains."

    hinted = await run_agent(ScriptedChatModel(answer), "when?", middleware=static)
    called = await run_agent(ScriptedChatModel(call(query="x"), answer), "when?", middleware=RAGMiddleware([base]))

    for run in (hinted, called):
        assert [one.outcome for one in run.cited.sentences] == ["supported", "number", "uncited"]
        assert run.cited.sentences[0].support[0].start == LONG.index("The shop")


async def test_a_check_is_an_event_without_text() -> None:
    """With what a judge found, and what it gave no answer about."""
    events: list[Any] = []
    rag = RAGMiddleware([FactBase(hits=[hit(LONG)])], on_event=events.append, name="mine")
    run = await run_agent(
        ScriptedChatModel(call(query="x"), "Visitors may enter from nine on [1]. So [7]."), "when?", middleware=rag
    )
    judge = ScriptedChatModel('{"number": 1, "quote": "The gate opens at nine."}')

    checked = await rag.check(run.text, run.citations, judge=judge)

    assert [one.outcome for one in checked.sentences] == ["supported", "never_shown"]
    assert events[-1] == AnswerChecked(
        middleware="mine", counts={"supported": 1, "never_shown": 1}, never_shown=(7,), judged=1
    )


async def test_a_loop_checks_its_answer_when_asked_to() -> None:
    """Once for all instances, and not a blank answer."""
    events: list[Any] = []
    options = {"check_answer": True}
    static = RAGMiddleware([FactBase(hits=[hit(LONG)])], {"mode": "static", **options}, on_event=events.append)
    agentic = RAGMiddleware([FactBase("faq")], options, on_event=events.append)

    run = await run_agent(ScriptedChatModel("The shop closes at six [1]."), "when?", middleware=[static, agentic])
    blank = await run_agent(ScriptedChatModel(" "), "when?", middleware=[static, agentic])

    told = [event for event in events if isinstance(event, AnswerChecked)]
    assert [event.counts for event in told] == [{"supported": 1}]
    assert run.checked == run.cited
    assert blank.checked is None


async def test_a_number_of_another_process_was_shown() -> None:
    """Its passage stands in the history, and this process does not know its text."""
    rag = RAGMiddleware([FactBase(hits=[hit(LONG)])], {"check_answer": True})
    result = await rag.call_tool({"query": "x"})
    fence = result.citations[0].fence
    shown = result.text.replace(fence, fence[:-6] + "abcdef")
    turn = rag.start_turn("when?", history=[ChatMessage.model_validate({"role": "tool", "content": shown})])

    checked = await rag.check_turn("The shop closes at six [1]. So it is [2].", turn)

    assert checked is not None
    assert [one.outcome for one in checked.sentences] == ["no_text", "never_shown"]
