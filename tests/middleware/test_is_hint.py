"""Telling stored hints from what a user wrote, where messages carry no name."""

from __future__ import annotations

import pytest

from agent_rag.testing import FactBase
from agent_rag.testing.adapter_contract import static


@pytest.mark.parametrize("template", ["{context}", "Found:\n{context}\nCite it.", "Rules {x}: {context}"])
async def test_a_hint_is_known_by_its_template_and_fence(template: str) -> None:
    """Its own text is one; the same words with something before them, or without the fence, are not."""
    rag = static(FactBase(), hint_template=template)
    hint = await rag.hint(rag.start_turn("hello"))
    assert hint is not None

    known = [rag.is_hint(text) for text in (hint.text, f"See: {hint.text}", "hello", template, "")]

    assert known == [True, False, False, False, False]


async def test_another_template_makes_no_hint_of_ours() -> None:
    """A hint is recognised by instances with its template only."""
    other = static(FactBase(), hint_template="Found:\n{context}")
    hint = await other.hint(other.start_turn("hello"))
    assert hint is not None

    assert not static(FactBase()).is_hint(hint.text)
