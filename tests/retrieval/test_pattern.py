"""What counts as an occurrence."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_rag.errors import PatternError
from agent_rag.retrieval.pattern import TextPattern
from agent_rag.retrieval.runs import TextPart, runs

LETTERS = st.sampled_from([*list("aAbiIsſİıßKKµé-. \n"), "é", "́", "Σ", "ς", "σ", "ſt", "한", "🙂"])
TEXTS = st.lists(LETTERS, max_size=30).map("".join)


@given(TEXTS, st.lists(LETTERS, min_size=1, max_size=6).map("".join), st.booleans())
@settings(max_examples=400)
def test_occurrences_are_those_of_re(text: str, pattern: str, ignore_case: bool) -> None:
    """A text is escaped, but for its white space, which stands for any."""
    if not pattern.strip():
        return

    found = TextPattern(pattern, ignore_case=ignore_case).spans(text)

    expression = r"\s+".join(map(re.escape, pattern.split()))
    assert found == [match.span() for match in re.finditer(expression, text, re.IGNORECASE if ignore_case else 0)]


def test_folding_follows_re_for_every_character() -> None:
    """What `re` takes for the same letter is the same letter here."""
    folded = TextPattern("x").folded
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if character == character.lower() == character.upper() == character.casefold():
            continue
        for other in {character.lower(), character.upper(), character.casefold(), "i", "s", "k", "µ"}:
            if len(other) == 1 != (other == character) and re.fullmatch(re.escape(other), character, re.IGNORECASE):
                assert folded(other) == folded(character), (hex(code), other)


def test_accents_are_ignored_when_asked() -> None:
    """Composed or not, and the places are those of the text as it is."""
    text = "Mu\u0308ller, Müller, Muller"

    assert TextPattern("muller", ignore_accents=True).spans(text) == [(0, 7), (9, 15), (17, 23)]
    assert TextPattern("Müller", ignore_accents=True).spans(text) == [(0, 7), (9, 15), (17, 23)]
    assert TextPattern("muller").spans(text) == [(17, 23)]
    assert TextPattern("하", ignore_accents=True).spans("한") == []


@pytest.mark.parametrize("wrong", ["", " \n", "x" * 1_001])
def test_a_pattern_must_be_something(wrong: str) -> None:
    """Blank and endless ones are refused."""
    with pytest.raises(PatternError, match="pattern"):
        TextPattern(wrong)


def test_a_repeated_table_header_stands_once() -> None:
    """The parts of a table that was divided repeat its header, which the file has once."""
    first = "Sales\n\n| Region | Sum |\n| --- | ---: |\n| North | 1 |\n"
    second = "| Region | Sum |\n| --- | ---: |\n| South | 2 |"
    third = "| Region | Sum |\n| --- | ---: |\n| West | 3 |"

    found = runs([TextPart(0, 0, (0, len(first)), first), TextPart(1, 0, None, second), TextPart(2, 0, None, third)])

    assert [run.text for run in found] == [first, "| South | 2 |", "| West | 3 |"]


def test_texts_that_do_not_fit_together_stay_apart() -> None:
    """Spans that say something else than the texts, another section, and what is missing between."""
    parts = [
        TextPart(0, 0, (0, 4), "abcd"),
        TextPart(1, 0, (2, 6), "cdef"),
        TextPart(2, 0, (4, 8), "xxgh"),
        TextPart(3, 1, (8, 9), "i"),
        TextPart(4, 1, (5_000, 5_001), "j"),
        TextPart(5, 1, (5_003, 5_004), "k"),
    ]

    assert [(run.text, run.indexes) for run in runs(parts)] == [
        ("abcdef", [0, 1]), ("xxgh", [2]), ("i", [3]), ("j\n\nk", [4, 5]),
    ]  # fmt: skip
