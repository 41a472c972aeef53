"""Filters as membership in one list of tokens."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from agent_rag.filters import F, matches
from agent_rag.stores.engine.filter_tokens import (
    Both,
    Condition,
    Has,
    Lacks,
    condition_of,
    range_prefixes,
    sortable,
    tokens_of,
)
from agent_rag.testing.store_contract.filters import random_filter, random_metadata

numbers = st.floats(allow_nan=False, allow_infinity=False)


def holds(condition: Condition, tokens: set[str]) -> bool:
    match condition:
        case Has(wanted):
            return not tokens.isdisjoint(wanted)
        case Lacks(unwanted):
            return tokens.isdisjoint(unwanted)
        case Both(parts):
            return all(holds(part, tokens) for part in parts)
    return any(holds(part, tokens) for part in condition.parts)


@given(seed=st.integers())
def test_conditions_mean_what_the_filter_means(seed: int) -> None:
    """Over random metadata, with every operator and its negation."""
    rng = random.Random(seed)
    metadata, where = random_metadata(rng), random_filter(rng, 3)

    condition = condition_of(where)

    assert condition is not None
    assert holds(condition, set(tokens_of(metadata))) == matches(where, metadata)


@given(low=numbers, high=numbers, number=numbers, strict=st.tuples(st.booleans(), st.booleans()))
def test_a_range_has_exactly_one_prefix_of_each_number_in_it(
    low: float, high: float, number: float, strict: tuple[bool, bool]
) -> None:
    """And none of a number outside; whatever the bounds, with few prefixes."""
    bounds = {"gt" if strict[0] else "gte": low, "lt" if strict[1] else "lte": high}

    prefixes = range_prefixes(bounds)

    inside = (number > low if strict[0] else number >= low) and (number < high if strict[1] else number <= high)
    assert sum(sortable(number).startswith(prefix) for prefix in prefixes) == int(inside)
    assert len(prefixes) <= 450


def test_every_record_has_a_token() -> None:
    """So that no list is empty, and what is always true can be asked for."""
    (every,) = tokens_of({})

    always, never = condition_of(F("x").not_in([])), condition_of(F("x").in_([]))

    assert (always, never) == (Has((every,)), Lacks((every,)))


@given(number=numbers)
def test_a_range_without_bounds_is_one_prefix(number: float) -> None:
    """The empty one, which each number has."""
    assert range_prefixes({}) == [""]
    assert tokens_of({"n": number})[1:] != tokens_of({})[1:]
