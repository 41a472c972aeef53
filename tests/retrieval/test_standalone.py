"""Earlier messages help follow-ups and hurt questions that stand alone: they are told apart by their words."""

from __future__ import annotations

import pytest

from agent_rag.chat import user
from agent_rag.retrieval import RecentMessages, stands_alone
from tests.retrieval.follow_ups import FOLLOW_UPS, STANDALONE, listed
from tests.shared import needs_shared, retrieval_set


@pytest.mark.parametrize("language", FOLLOW_UPS)
def test_follow_ups_need_what_was_said(language: str) -> None:
    """At least 95 of 100."""
    questions = listed(FOLLOW_UPS[language])

    assert sum(stands_alone(question) for question in questions) <= 0.05 * len(questions)


@pytest.mark.parametrize("language", STANDALONE)
def test_questions_with_a_subject_stand_alone(language: str) -> None:
    """At least 95 of 100."""
    questions = listed(STANDALONE[language])

    assert sum(not stands_alone(question) for question in questions) <= 0.05 * len(questions)


@needs_shared
@pytest.mark.parametrize("name", ["xquad_en", "xquad_zh", "cmrc2018_zh", "scifact_train"])
def test_real_questions_stand_alone(name: str) -> None:
    """At least 92 of 100; some of these sets ask after "he" and "this edict"."""
    questions = list(retrieval_set(name)[1].values())

    assert sum(not stands_alone(question) for question in questions) <= 0.08 * len(questions)


def test_recent_messages_are_added_where_they_are_needed() -> None:
    """Before a follow-up, not before a question of its own, unless asked to."""
    history = [user("Tell me about the heat pump HP9.")]
    own = "What does the error E14 of the compressor mean?"

    assert RecentMessages()("And its warranty?", history) == "Tell me about the heat pump HP9.\nAnd its warranty?"
    assert RecentMessages()(own, history) == own
    assert RecentMessages(always=True)(own, history) == f"Tell me about the heat pump HP9.\n{own}"
