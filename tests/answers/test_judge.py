"""A model may find what word comparison does not, if it can quote it."""

from __future__ import annotations

import re

import pytest

from agent_rag import check_answer
from agent_rag.answers import CheckedAnswer, Sentence, judge_rest
from agent_rag.errors import ChatError
from agent_rag.middleware import Citation
from agent_rag.testing import ScriptedChatModel
from agent_rag.testing.chat import spoken
from tests.fence_corpus import ATTACKS, as_read

from .test_check import PUMP, shown

ANSWER = "Buyers must pay for a new filter themselves [1]. It weighs 58 kg [1]. It weighs 85 kg [1]."


def citations() -> list[Citation]:
    return [shown(1, PUMP)]


async def test_a_judge_is_asked_about_what_was_not_found_only() -> None:
    """One call; what differs by a number stays so, whatever a model would say."""
    quote = "warranty of seven years does not cover the filter"
    model = ScriptedChatModel(f'{{"number": 1, "quote": "{quote}"}}')

    judged = await judge_rest(check_answer(ANSWER, citations()), citations(), model)

    assert [one.outcome for one in judged.sentences] == ["supported", "number", "supported"]
    assert [one.judged for one in judged.sentences] == [True, False, False]
    assert judged.sentences[0].support[0].quote == quote
    assert len(model.inputs) == 1
    assert "[1]" not in spoken(model.inputs[0]).split("Sentence:")[1]


@pytest.mark.parametrize(
    "answer",
    [
        '{"number": 1, "quote": "the filter is never paid for"}',
        '{"number": 0, "quote": ""}',
        "yes, it is so",
        '{"number": 7}',
    ],
)
async def test_a_judge_that_cannot_quote_changes_nothing(answer: str) -> None:
    """An invented quote, none, prose, an invented number."""
    judged = await judge_rest(check_answer(ANSWER, citations()), citations(), ScriptedChatModel(answer))

    assert judged.sentences[0].outcome == "not_found"


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_attacks_stay_inside_of_a_judge_prompt(attack: str) -> None:
    """In a passage and in the sentence: each fence is closed once, and no header is forged."""
    model = ScriptedChatModel('{"number": 0}')
    sentence = f"Zzz {' '.join(attack.split())} [1]"
    open_one = Sentence(text=sentence, start=0, end=len(sentence), outcome="not_found", numbers=(1,))

    await judge_rest(CheckedAnswer(sentences=(open_one,)), [shown(1, attack)], model)

    closing = re.findall(r"</((?:candidate|query)-[0-9a-f]{16})>", as_read(spoken(model.inputs[0])))
    assert [name.split("-")[0] for name in closing] == ["candidate", "query"]
    assert not re.search(r"</?retrieved|<\|im_", spoken(model.inputs[0]))


async def test_a_judge_that_fails_is_told_of() -> None:
    """For some sentences by their number, for all by an error."""

    def fails(messages: object) -> str:
        raise ChatError("no connection")

    two = f"{ANSWER} Nobody knows who built this machine [1]."
    half = ScriptedChatModel('{"number": 0, "quote": ""}', fails)

    judged = await judge_rest(check_answer(two, citations()), citations(), half)
    with pytest.raises(ChatError, match="no connection"):
        await judge_rest(check_answer(ANSWER, citations()), citations(), ScriptedChatModel(fails))

    assert judged.unjudged == 1
