"""Filters from what callers and models write: plain mappings and JSON nodes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import FilterError
from .language import OPERATORS, And, Condition, Filter, Not, Or

FilterLike = Filter | Mapping[str, Any]
"""A filter, or a plain mapping: a scalar is eq, a list is in, fields are ANDed."""
_MAX_DEPTH = 8


def as_filter(value: FilterLike | None) -> Filter | None:
    """A `Filter` from a filter, a plain mapping or a JSON node; None and ``{}`` stay None.

    Raises: FilterError: `value` is none of them, or a field's value does not fit.
    """
    if value is None or isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping):
        raise FilterError(f"a filter is a mapping or built with F(...), got {type(value).__name__}")
    if is_node(value):
        return parse_node(value)
    conditions: list[Filter] = [
        Condition(field, "in", tuple(item))
        if isinstance(item, list | tuple | set | frozenset)
        else Condition(field, "eq", item)
        for field, item in value.items()
    ]
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else And(tuple(conditions))


def is_node(value: Mapping[str, Any]) -> bool:
    """Whether a mapping is a JSON node: only field, operator and value, and an operator with a field or with nodes."""
    operator = value.get("operator")
    if not isinstance(operator, str) or not value.keys() <= {"field", "operator", "value"}:
        return False
    return "field" in value or (operator.lower() in ("and", "or", "not") and isinstance(value.get("value"), list))


def all_of(*filters: FilterLike | None) -> Filter | None:
    """The AND of `filters`, leaving out None; None when nothing is left."""
    parts = tuple(part for part in map(as_filter, filters) if part is not None)
    return None if not parts else parts[0] if len(parts) == 1 else And(parts)


def parse_node(node: Any, depth: int = 0) -> Filter:
    """Read a node or a plain mapping, without the limits and the declared fields of `parse_filter`."""
    if depth > _MAX_DEPTH:
        raise FilterError(f"filter is nested more than {_MAX_DEPTH} deep")
    if not isinstance(node, Mapping):
        raise FilterError(f"a filter node must be an object, got {node!r}")
    operator = node.get("operator")
    if isinstance(operator, str) and "operator" in node and set(node) <= {"field", "operator", "value"}:
        operator = operator.lower().replace(" ", "_")
        if operator in ("and", "or", "not"):
            return _parse_combination(operator, node.get("value"), depth)
        if operator not in OPERATORS:
            raise FilterError(
                f"unknown operator {operator!r}; use one of {', '.join((*OPERATORS, 'and', 'or', 'not'))}"
            )
        if not isinstance(node.get("field"), str):
            raise FilterError(f"a condition needs a field name: {dict(node)!r}")
        return Condition(node["field"], operator, node.get("value"))  # type: ignore[arg-type]
    parsed = as_filter(node)
    return And(()) if parsed is None else parsed


def _parse_combination(operator: str, value: Any, depth: int) -> Filter:
    nodes = [value] if isinstance(value, Mapping) else value
    if not isinstance(nodes, list) or not nodes:
        raise FilterError(f"{operator!r} takes a list of filter nodes as its value")
    parts = tuple(parse_node(part, depth + 1) for part in nodes)
    if operator == "not":
        return Not(parts[0] if len(parts) == 1 else And(parts))
    return And(parts) if operator == "and" else Or(parts)


def to_json(value: Filter) -> dict[str, Any]:
    """The JSON node of a filter; `parse_filter` reads it back."""
    match value:
        case And(filters):
            return {"operator": "and", "value": [to_json(part) for part in filters]}
        case Or(filters):
            return {"operator": "or", "value": [to_json(part) for part in filters]}
        case Not(inner):
            return {"operator": "not", "value": [to_json(inner)]}
        case Condition(field, operator, operand):
            operand = list(operand) if isinstance(operand, tuple) else operand
            return {"field": field, "operator": operator, "value": operand}
    raise FilterError(f"unknown filter {value!r}")
