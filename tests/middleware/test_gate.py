"""``gate="auto"``: greetings, thanks and requests about the last answer search nothing; every question does."""

from __future__ import annotations

import pytest

from agent_rag.chat import ChatMessage, user
from agent_rag.middleware import RAGMiddleware, Turn
from agent_rag.middleware.core.conversation.gate import asks_for_search
from agent_rag.testing import FactBase
from agent_rag.testing.knowledge import picture
from tests.shared import needs_shared, retrieval_set

from .non_questions import ABOUT_THE_ANSWER, SMALL_TALK, listed

ANSWERED = [user("What is the price?"), ChatMessage.model_validate({"role": "assistant", "content": "It is 9."})]


def test_what_asks_for_nothing_is_let_go() -> None:
    """At most 5 of 100 search, over four languages."""
    said = [text for group in (SMALL_TALK, ABOUT_THE_ANSWER) for lines in group.values() for text in listed(lines)]

    searched = [text for text in said if asks_for_search(text)]

    assert len(said) >= 190
    assert len(searched) <= 0.05 * len(said), searched


@needs_shared
@pytest.mark.parametrize("name", ["xquad_en", "xquad_zh", "cmrc2018_zh", "scifact_train"])
def test_no_real_question_is_let_go(name: str) -> None:
    """Of 809 to 3,219 questions and claims."""
    assert [text for text in retrieval_set(name)[1].values() if not asks_for_search(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "hello world example in the SDK",
        "thanks to whom was the bridge built?",
        "translate",
        "email format",
        "summary of the safety report",
        "Translate the word Garantie",
        "good morning, what is the gateway timeout?",
        "ok, and the price?",
        "你好世界程序",
        "谢谢卡是什么",
        "привет",
        "1984",
        "E14",
    ],
)
def test_in_doubt_it_searches(text: str) -> None:
    """One word beyond the lists is enough, and so is another language."""
    assert asks_for_search(text, answered=text != "translate")


async def test_the_gate_of_a_middleware() -> None:
    """A request about the last answer needs one; a picture is a question; no search is made where it is let go."""
    base = FactBase()
    rag = RAGMiddleware([base], RAGMiddleware.Parameters(mode="static"), gate="auto")

    hints = [
        await rag.hint(Turn("hello")),
        await rag.hint(Turn("shorter please", history=ANSWERED)),
        await rag.hint(Turn("shorter please")),
        await rag.hint(Turn(["hello", picture()], supports_images=True)),
        await rag.hint(Turn("What is the price?", history=ANSWERED)),
    ]

    assert [hint is not None for hint in hints] == [False, False, True, True, True]
