"""Merging rankings: thresholds, ties, several queries, copies."""

from __future__ import annotations

from typing import Any

import pytest

from agent_rag.documents import ChunkKey, Signals
from agent_rag.retrieval.fusion import distribution_based, reciprocal_rank
from agent_rag.retrieval.rank import best_score, collapse_by, hybrid

A, B, C = (ChunkKey("", name, 0) for name in "abc")


def test_the_best_score_of_each_key_wins() -> None:
    """Ties go by key; a score on the threshold stays; a negative one counts too."""
    rankings = [[(A, 0.2), (B, 0.5)], [(A, 0.5), (C, -0.5)]]

    assert best_score(rankings) == [(A, 0.5), (B, 0.5), (C, -0.5)]
    assert best_score(rankings, threshold=0.5) == [(A, 0.5), (B, 0.5)]
    assert best_score(rankings, threshold=0.51) == []
    assert best_score(rankings, threshold=-0.5) == [(A, 0.5), (B, 0.5), (C, -0.5)]


def signals(**semantic: float | None) -> dict[ChunkKey, Signals]:
    return {ChunkKey("", name, 0): Signals(semantic=value) for name, value in semantic.items()}


@pytest.mark.parametrize(
    ("fusion", "expected"),
    [
        # keyword: a 1, b 0; semantic: b 1, a 0. Weight .75: a .75, b .25.
        ("convex", [(A, 0.75), (B, 0.25)]),
        # Each is first once and second once: (1/61 + 1/62) / (2/61).
        ("rrf", [(A, (1 / 61 + 1 / 62) / (2 / 61)), (B, (1 / 61 + 1 / 62) / (2 / 61))]),
        # Two scores are one deviation from their mean: 4/6 and 2/6; the mean of both is 1/2.
        ("dbsf", [(A, 0.5), (B, 0.5)]),
    ],
)
def test_each_fusion_is_the_one_it_is_called(fusion: Any, expected: list[tuple[ChunkKey, float]]) -> None:
    """Numbers by hand."""
    fused = hybrid(
        [[(B, 0.9), (A, 0.1)]], [[(A, 3.0), (B, 1.0)]], signals(a=0.1, b=0.9), fusion=fusion, keyword_weight=0.75
    )

    assert fused == [(key, pytest.approx(score)) for key, score in expected]


def test_a_threshold_looks_at_the_semantic_signal() -> None:
    """One on it stays, one below it goes, one without a signal goes; without a threshold all stay."""
    lists: Any = ([[(A, 0.5), (B, 0.4)]], [[(C, 9.0), (B, 3.0)]], signals(a=0.5, b=0.4, c=None))

    assert {key for key, _ in hybrid(*lists, threshold=0.5)} == {A}
    assert {key for key, _ in hybrid(*lists, threshold=0.4)} == {A, B}
    assert {key for key, _ in hybrid(*lists)} == {A, B, C}


def test_several_queries_are_merged_by_rank() -> None:
    """An image query has no keyword list; a key that two queries find comes first."""
    fused = hybrid([[(A, 0.9)], [(A, 0.8), (B, 0.2)]], [[(A, 1.0)]], signals(a=0.9, b=0.2))

    # a: first twice, 1; b: second once, (1/62) / (2/61).
    assert fused == [(A, pytest.approx(1.0)), (B, pytest.approx(61 / 124))]
    assert hybrid([], [], {}) == []


def test_weights_of_rankings_count() -> None:
    """Three to one: first in the heavy list is .75."""
    fused = reciprocal_rank([[("a", 1.0)], [("b", 1.0)]], weights=[3.0, 1.0])

    assert fused == [("a", pytest.approx(0.75)), ("b", pytest.approx(0.25))]
    assert reciprocal_rank([]) == []
    assert reciprocal_rank([[("a", 1.0), ("b", 0.5)]], k=1) == [("a", pytest.approx(1.0)), ("b", pytest.approx(2 / 3))]


def test_equal_scores_of_a_distribution_are_in_the_middle() -> None:
    """Without a deviation each score is 1/2, halved when the other list has nothing; outliers stay in [0, 1]."""
    assert distribution_based([("a", 2.0), ("b", 2.0)], []) == [("a", 0.25), ("b", 0.25)]
    wide = distribution_based([("a", 1e6), *((f"k{n:02}", 0.0) for n in range(50))], [])
    assert wide[0][0] == "a"
    assert all(0 <= score <= 1 for _, score in wide)
    # 50 zeros and one outlier: it is more than three deviations from the mean, so it is cut to 1, halved.
    assert wide[0][1] == 0.5


def test_copies_differ_in_blanks_and_case_at_most() -> None:
    """The first stays and gets the others; blank texts are each their own."""
    items = ["Pump\u00a0 loud", "pump loud", "ＰＵＭＰ loud ", "pump", "", " "]

    kept = collapse_by(items, lambda text: text, lambda first, other: f"{first}+")

    assert kept == ["Pump\u00a0 loud++", "pump", "", " "]
