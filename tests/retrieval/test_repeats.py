"""Hits that say the same are one hit with several places."""

from __future__ import annotations

from agent_rag.retrieval.rank import collapse_by

PAGE = " ".join(f"Gateway rule {number} says that the timeout is {number} seconds." for number in range(8))
OTHER = " ".join(f"Plum {number} is kept in cellar {number} behind the pears." for number in range(8))


def collapsed(*texts: str) -> list[str]:
    """The kept texts, each with the first letters of what was merged into it."""
    return collapse_by(texts, lambda text: text, lambda first, other: f"{first}+{other[:4]}")


def test_another_cut_of_the_same_page_is_another_place() -> None:
    """Nine tenths of it stand in the better hit; blanks and case do not count."""
    assert collapsed(PAGE, PAGE[60:].upper()) == [f"{PAGE}+{PAGE[60:64].upper()}"]


def test_half_a_page_is_a_hit_of_its_own() -> None:
    """So is a better hit that is the smaller one, and a short text that happens to stand in another."""
    half = PAGE[: len(PAGE) // 2] + OTHER

    assert collapsed(PAGE, half) == [PAGE, half]
    assert collapsed(PAGE[60:], PAGE + OTHER) == [PAGE[60:], PAGE + OTHER]
    assert collapsed(PAGE, "Gateway rule 3 says") == [PAGE, "Gateway rule 3 says"]


def test_chinese_is_compared_as_well() -> None:
    """Runs of characters need no words."""
    page = "".join(f"第{number}条规定网关的超时时间为{number}秒，超过后请求会被取消并记录。" for number in range(8))

    assert collapsed(page, page[20:]) == [f"{page}+{page[20:24]}"]
