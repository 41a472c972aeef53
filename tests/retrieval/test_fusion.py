"""Fusion of rankings, against numbers worked by hand."""

import pytest

from agent_rag.retrieval.fusion import convex_combination, distribution_based, reciprocal_rank


def test_convex_combination_weights_min_max_scores() -> None:
    """keyword a 10 -> 1, b 5 -> .5, c 0 -> 0; semantic b .9 -> 1, d .1 -> 0; weight .7: a .7, b .35 + .3, c 0, d 0."""
    fused = convex_combination([("a", 10.0), ("b", 5.0), ("c", 0.0)], [("b", 0.9), ("d", 0.1)], keyword_weight=0.7)

    assert fused == [("a", pytest.approx(0.7)), ("b", pytest.approx(0.65)), ("c", 0.0), ("d", 0.0)]


def test_equal_scores_normalise_to_one() -> None:
    """A list whose scores are all equal counts fully; ties are ordered by key."""
    assert convex_combination([("b", 2.0), ("a", 2.0)], [], keyword_weight=0.5) == [("a", 0.5), ("b", 0.5)]


@pytest.mark.parametrize("weight", [-0.1, 1.1])
def test_refuses_a_weight_that_is_no_share(weight: float) -> None:
    """A weight outside [0, 1] is a ValueError."""
    with pytest.raises(ValueError, match="share"):
        convex_combination([], [], keyword_weight=weight)


def test_reciprocal_rank_scales_to_one() -> None:
    """First in both lists scores 1; first in one of two scores 1/2; second in one 61/62/2."""
    fused = reciprocal_rank([[("a", 9.0), ("b", 8.0)], [("a", 0.5)]])

    assert fused == [("a", pytest.approx(1.0)), ("b", pytest.approx(61 / 62 / 2))]


def test_distribution_based_puts_the_mean_at_one_half() -> None:
    """Scores 0 and 2: mean 1, deviation 1, range -2..4; 2 -> 4/6, 0 -> 2/6; a single list is halved."""
    fused = distribution_based([("a", 2.0), ("b", 0.0)], [])

    assert fused == [("a", pytest.approx(1 / 3)), ("b", pytest.approx(1 / 6))]
