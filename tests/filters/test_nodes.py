"""Filters given as JSON nodes, and the fields that a model may filter by."""

from __future__ import annotations

from typing import Any

import pytest

from agent_rag import F, KnowledgeBase, MemoryStore
from agent_rag.errors import ConfigurationError, FilterError
from agent_rag.filters import FilterField, as_filter, filter_schema, matches, parse_filter


@pytest.mark.parametrize(
    "node",
    [
        {"field": "year", "operator": "gte", "value": 2024},
        {"operator": "and", "value": [{"field": "year", "operator": "gte", "value": 2024}, {"kind": "memo"}]},
        {"field": "kind", "operator": "IN", "value": ["memo", "note"]},
        {"field": "tags", "operator": "exists"},
    ],
)
def test_a_node_is_read_wherever_a_filter_is_taken(node: dict[str, Any]) -> None:
    """`as_filter`, which every search calls, reads a JSON node as `parse_filter` does, not as three equalities."""
    assert as_filter(node) == parse_filter(node)
    assert matches(node, {"year": 2025, "kind": "memo", "tags": ["a"]})


def test_a_plain_mapping_may_name_a_field_operator() -> None:
    """A field that happens to be called operator stays one."""
    assert as_filter({"operator": "vodafone"}) == (F("operator") == "vodafone")
    assert matches({"operator": "and"}, {"operator": "and"})
    assert matches({"operator": "eq", "value": 3}, {"operator": "eq", "value": 3})


def test_an_unknown_operator_of_a_node_is_named() -> None:
    """A node with an operator of another system is refused, not silently without hits."""
    with pytest.raises(FilterError, match="unknown operator 'like'; use one of eq, ne"):
        as_filter({"field": "name", "operator": "like", "value": "%a%"})


@pytest.mark.parametrize("fixed", [True, False])
def test_a_node_is_no_scope(fixed: bool) -> None:
    """A scope is stamped onto records, so it is field -> scalar."""
    node = {"field": "tenant", "operator": "eq", "value": "a"}

    def scope_of() -> Any:
        return KnowledgeBase("k", "d", None, MemoryStore(), "c", node if fixed else lambda: node).metadata_filter

    with pytest.raises(ConfigurationError, match="is a filter node"):
        scope_of()


@pytest.mark.parametrize(
    "filter",
    [
        {"year": 2024},
        {"field": "year", "operator": "gte", "value": 2024},
        {"field": "year", "operator": "contains_any", "value": ["a", 1, True]},
    ],
)
def test_a_field_of_any_type_takes_every_operator_and_scalar(filter: dict[str, Any]) -> None:
    """Declared without a type, a number is not taken for text."""
    fields = {"year": FilterField(type="any")}

    assert parse_filter(filter, fields) == parse_filter(filter)


def test_the_schema_of_a_field_of_any_type() -> None:
    """It offers text, numbers and booleans."""
    schema = filter_schema({"year": FilterField(type="any")})["anyOf"][0]

    assert schema["properties"]["value"]["anyOf"][0] == {
        "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
    }
    assert {"gte", "between", "contains", "eq"} <= set(schema["properties"]["operator"]["enum"])
