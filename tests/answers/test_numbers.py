"""Numbers are equal when their values are, however they are written."""

from __future__ import annotations

import pytest

from agent_rag.answers.tokens import tokens


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("48.312", "48,312"),
        ("48312", "48 312".replace(" ", "\u202f")),
        ("8,5", "8.5"),
        ("twelve", "12"),
        ("zwölf", "12"),
        ("十二", "12"),
        ("二〇一三", "2013"),
        ("一千二百三十四", "1234"),
        ("1.5 million", "1,500,000"),
        ("3,2 Millionen", "3200000"),
        ("5万", "50,000"),
        ("½", "0.5"),
        ("７", "7"),
        ("15 percent", "15%"),
        ("20 Prozent", "20 %"),
    ],
)
def test_one_value_has_one_key(first: str, second: str) -> None:
    """Groups, decimals, words of three languages, factors, percent."""
    assert [token.key for token in tokens(first)] == [token.key for token in tokens(second)]


@pytest.mark.parametrize(("first", "second"), [("0.125", "125"), ("1,25", "125"), ("3 million", "3"), ("7%", "7")])
def test_other_values_have_other_keys(first: str, second: str) -> None:
    """Thousands need a digit from 1 before them; factors and signs count."""
    assert [token.key for token in tokens(first)] != [token.key for token in tokens(second)]
