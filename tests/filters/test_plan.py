"""The plan that stores translate means what `matches` means."""

from datetime import UTC, date, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_rag.filters import F, Filter, Not, matches
from agent_rag.filters.plan import index_metadata, plan, plan_matches

SCALARS = st.sampled_from(
    [
        None, True, False, 0, 1, 1.0, 1.5, -3, 2**53, 2**53 + 1, 2**70, "", "a", "b", "1", "true", "2024-05-01",
        "2024-05-01T10:00:00Z", "2024-05-02T10:00:00+02:00", "notadate", "é", "x" * 300, "a\x1fb",
        date(2024, 5, 1), datetime(2024, 5, 1, 10, tzinfo=UTC), datetime(2024, 5, 1, 10),
    ]
)  # fmt: skip
KEYS = st.sampled_from(["a", "b", "a.b", "sp key", 'quo"te', "br[0]", "é"])
METADATA = st.dictionaries(
    KEYS,
    SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.sampled_from(["b", "c"]), SCALARS, max_size=2),
    max_size=4,
)
FIELDS = st.sampled_from(["a", "b", "a.b", "a.c", "sp key", 'quo"te', "br[0]", "é", "missing"])
RANGED = st.sampled_from([0, 1, 1.5, 2**53, 2**53 + 1, date(2024, 5, 1), "2024-05-02T08:00:00Z", "2024-05-01"])


@st.composite
def conditions(draw: Any) -> Filter:
    field = F(draw(FIELDS))
    name = draw(st.sampled_from(["eq", "ne", "in_", "not_in", "range", "between", "contains", "contains_any",
                                 "contains_all", "is_null", "exists"]))  # fmt: skip
    match name:
        case "eq":
            return field == draw(SCALARS)
        case "ne":
            return field != draw(SCALARS)
        case "range":
            value = draw(RANGED)
            return draw(st.sampled_from([field > value, field >= value, field < value, field <= value]))
        case "between":
            numbers = st.sampled_from([0, 1, 1.5, 2**53])
            return field.between(draw(numbers), draw(numbers))
        case "contains":
            return field.contains(draw(SCALARS))
        case "is_null" | "exists":
            return getattr(field, name)(draw(st.booleans()))
        case _:
            return getattr(field, name)(draw(st.lists(SCALARS, max_size=3)))


FILTERS = st.recursive(
    conditions(),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | st.builds(Not, inner)
    ),
    max_leaves=5,
)


@settings(max_examples=1500, deadline=None)
@given(FILTERS, METADATA)
def test_plan_agrees_with_the_reference(condition: Filter, metadata: dict[str, Any]) -> None:
    """Evaluating the plan over the indexed metadata gives what `matches` gives over the metadata."""
    node = plan(condition)

    assert node is not None
    assert plan_matches(node, index_metadata(metadata)) == matches(condition, metadata)
