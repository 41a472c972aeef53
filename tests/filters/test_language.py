"""What a filter refuses, and where its bounds are."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_rag import F
from agent_rag.errors import FilterError
from agent_rag.filters import (
    And,
    Condition,
    FilterField,
    Not,
    Or,
    all_of,
    as_filter,
    filter_schema,
    matches,
    parse_filter,
)


@pytest.mark.parametrize(
    "bounds",
    [(1,), (1, 2, 3), (1, "2024-01-01"), ("a", "b"), (1, None), (True, False), ("2024-01-01", 2), (), [None, None]],
)
def test_between_takes_two_numbers_or_two_dates(bounds: Any) -> None:
    """Anything else would silently match nothing."""
    with pytest.raises(FilterError, match="two numbers or two ISO 8601 dates"):
        Condition("year", "between", bounds)


@pytest.mark.parametrize(
    ("filter", "values"),
    [
        (F("n") > 2, [3]),
        (F("n") >= 2, [2, 3]),
        (F("n") < 2, [1]),
        (F("n") <= 2, [1, 2]),
        (F("n").between(1, 2), [1, 2]),
    ],
)
def test_bounds_are_inclusive_where_they_say_so(filter: Any, values: list[int]) -> None:
    """On whole numbers and on dates."""
    assert [n for n in (1, 2, 3) if matches(filter, {"n": n})] == values

    dates = {1: "2024-01-01", 2: "2024-01-02", 3: "2024-01-03"}
    dated = Condition(
        "n", filter.operator, [dates[n] for n in filter.value] if filter.operator == "between" else dates[2]
    )
    assert [n for n in (1, 2, 3) if matches(dated, {"n": dates[n]})] == values


def test_dates_and_numbers_do_not_compare() -> None:
    """A date's seconds are no number, and a date without a zone is UTC."""
    assert not matches(F("n") > 0, {"n": "2024-01-01"})
    assert not matches(F("n") > "1970-01-01", {"n": 10**9})
    assert matches(Condition("n", "between", ["2024-01-01T00:00:00Z", "2024-01-01"]), {"n": "2024-01-01T01:00+01:00"})


@pytest.mark.parametrize("operator", ["is_null", "exists"])
def test_presence_takes_true_or_false(operator: Any) -> None:
    """Neither 1 nor text."""
    for value in (1, "true", [True]):
        with pytest.raises(FilterError, match="takes true or false"):
            Condition("a", operator, value)
    assert Condition("a", operator).value is True


def test_values_that_no_metadata_can_have_are_refused() -> None:
    """Numbers that are not finite, bytes, objects; lists where one value is asked for, and the other way round."""
    for value in (float("nan"), float("inf"), b"x", object()):
        with pytest.raises(FilterError):
            Condition("a", "eq", value)
        with pytest.raises(FilterError):
            Condition("a", "in", [value])
    for value in ([1], (1,), {1}, {"b": 1}):
        with pytest.raises(FilterError, match="takes one value"):
            Condition("a", "eq", value)
    for value in (1, "abc", None, b"ab"):
        with pytest.raises(FilterError, match="takes a list"):
            Condition("a", "in", value)
    for value in ("abc", True, None):
        with pytest.raises(FilterError):
            Condition("a", "gt", value)


@pytest.mark.parametrize("field", ["", None, 7])
def test_a_field_has_a_name(field: Any) -> None:
    """As text."""
    with pytest.raises(FilterError, match="non-empty string"):
        Condition(field, "eq", 1)


def test_an_operator_is_one_of_the_language() -> None:
    """Also where a program names it."""
    with pytest.raises(FilterError, match="unknown operator 'like'; use one of eq, ne"):
        Condition("a", "like", "x")  # type: ignore[arg-type]


def test_a_filter_has_no_truth_value() -> None:
    """``and`` between two of them would drop the first."""
    with pytest.raises(TypeError, match="no truth value"):
        bool(F("a") == 1)


def test_one_part_stays_itself() -> None:
    """`all_of` and the JSON ``not`` wrap nothing that is alone."""
    one, other = F("a") == 1, F("b") == 2

    assert all_of() is None
    assert all_of(None, {}) is None
    assert all_of(one) is one
    assert all_of(one, None, other) == And((one, other))
    assert as_filter({"a": 1}) == one
    assert as_filter({"a": 1, "b": 2}) == And((one, other))
    assert parse_filter({"operator": "and", "value": [{"a": 1}, {"b": 2}]}) == And((one, other))
    assert parse_filter({"operator": "or", "value": [{"a": 1}, {"b": 2}]}) == Or((one, other))
    assert parse_filter({"operator": "not", "value": [{"a": 1}]}) == Not(one)
    assert parse_filter({"operator": "not", "value": [{"a": 1}, {"b": 2}]}) == Not(And((one, other)))


def test_nodes_are_nested_eight_deep_at_most() -> None:
    """A model's filter cannot exhaust the stack."""

    def nested(depth: int) -> dict[str, Any]:
        return {"operator": "not", "value": [nested(depth - 1)]} if depth else {"a": 1}

    assert parse_filter(nested(8)) is not None
    with pytest.raises(FilterError, match="nested more than 8 deep"):
        parse_filter(nested(9))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be an object"),
        (7, "must be an object"),
        ({"operator": "and", "value": []}, "takes a list of filter nodes"),
        ({"operator": "or", "value": "a"}, "a filter is a mapping|takes a list|must be an object"),
        ({"operator": "gt", "field": 3, "value": 1}, "needs a field name"),
        ({"operator": "and", "value": [3]}, "must be an object"),
    ],
)
def test_what_a_model_writes_wrongly_is_said(value: Any, message: str) -> None:
    """In words that it can act on."""
    with pytest.raises(FilterError, match=message):
        parse_filter(value)


def test_a_models_filter_is_bounded() -> None:
    """64 conditions, 100 values, and not one more."""
    many = {"operator": "or", "value": [{"a": number} for number in range(64)]}
    assert parse_filter(many) is not None
    with pytest.raises(FilterError, match="65 conditions; at most 64"):
        parse_filter({"operator": "or", "value": [*many["value"], {"a": 64}]})
    assert parse_filter({"a": list(range(100))}) is not None
    with pytest.raises(FilterError, match="more than 100 values"):
        parse_filter({"a": list(range(101))})
    assert parse_filter(None) is None
    assert parse_filter("{}") is None


FIELDS = {
    "when": FilterField(type="date"),
    "n": FilterField(type="number"),
    "ok": FilterField(type="boolean"),
    "tags": FilterField(type="list"),
    "kind": FilterField(values=["a", "b"]),
    "level": FilterField(type="number", values=[1, 2]),
    "free": FilterField(type="any"),
}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"field": "when", "operator": "gt", "value": 7}, "date field; 7 does not fit"),
        ({"field": "n", "operator": "eq", "value": "7"}, "does not fit"),
        ({"field": "n", "operator": "eq", "value": True}, "does not fit"),
        ({"field": "ok", "operator": "eq", "value": 1}, "does not fit"),
        ({"field": "tags", "operator": "contains", "value": 1}, "does not fit"),
        ({"field": "tags", "operator": "eq", "value": "x"}, "does not fit the list field"),
        ({"kind": "c"}, "has no value 'c'"),
        ({"level": 3}, "has no value 3"),
        ({"level": True}, "has no value True"),
        ({"nope": 1}, "unknown filter field 'nope'; allowed fields: free, kind, level, n, ok, tags, when"),
    ],
)
def test_declared_fields_are_kept(value: Any, message: str) -> None:
    """A filter of a model has the fields, types and values that were declared."""
    with pytest.raises(FilterError, match=message):
        parse_filter(value, FIELDS)


@pytest.mark.parametrize(
    "value",
    [
        {"field": "when", "operator": "gt", "value": "2024-01-01"},
        {"n": 7},
        {"n": 7.5},
        {"ok": True},
        {"field": "tags", "operator": "contains_any", "value": ["x"]},
        {"kind": ["a", "b"]},
        {"level": 1.0},
        {"field": "kind", "operator": "exists", "value": False},
        {"free": True},
    ],
)
def test_what_fits_is_taken(value: Any) -> None:
    """Also presence of a field with listed values."""
    assert parse_filter(value, FIELDS) is not None


def test_the_schema_of_declared_fields() -> None:
    """Texts are an enum; numbers are described, since not every provider takes an enum of them; all have a type."""
    nodes = filter_schema(FIELDS)["anyOf"]
    items = {node["properties"]["field"]["enum"][0]: node["properties"]["value"]["anyOf"][0] for node in nodes[:-1]}

    assert items["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert items["level"] == {"type": "number", "description": "one of 1, 2"}
    assert items["ok"] == {"type": "boolean"}
    assert [*items] == sorted(FIELDS)
    assert nodes[-1]["properties"]["operator"]["enum"] == ["and", "or", "not"]


def test_a_description_is_bounded() -> None:
    """500 characters go into each request."""
    FilterField(description="x" * 500)
    with pytest.raises(ValidationError):
        FilterField(description="x" * 501)
