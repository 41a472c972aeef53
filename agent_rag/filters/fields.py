"""Filters that a model writes, checked against declared fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from ..errors import FilterError
from .language import OPERATORS, Condition, Filter, Scalar, conditions_of, range_value
from .matching import scalars_equal
from .nodes import parse_node


class FilterField(BaseModel):
    """A metadata field that a model may filter by."""

    type: Literal["any", "text", "number", "boolean", "date", "list"] = "text"
    """`list` is a list of text; `any` allows every operator and scalar, for a field whose type is not known."""
    values: list[Scalar] | None = None
    """The allowed values; None allows any."""
    description: str | None = Field(default=None, max_length=500)


_OPERATORS_OF: dict[str, tuple[str, ...]] = {
    "any": OPERATORS,
    "text": ("eq", "ne", "in", "not_in", "is_null", "exists"),
    "boolean": ("eq", "ne", "is_null", "exists"),
    "number": ("eq", "ne", "gt", "gte", "lt", "lte", "between", "in", "not_in", "is_null", "exists"),
    "date": ("eq", "ne", "gt", "gte", "lt", "lte", "between", "is_null", "exists"),
    "list": ("contains", "contains_any", "contains_all", "is_null", "exists"),
}
_JSON_TYPE: dict[str, dict[str, Any]] = {
    "any": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]},
    "text": {"type": "string"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "description": "ISO 8601 date or datetime"},
    "list": {"type": "string"},
}


def filter_schema(fields: Mapping[str, FilterField]) -> dict[str, Any]:
    """JSON schema of the filters a model may write over `fields`, in a stable order.

    A node is a condition ``{"field", "operator", "value"}`` or ``{"operator": "and"|"or"|"not", "value": [nodes]}``.
    """
    conditions = []
    for name, field in sorted(fields.items()):
        item = dict(_JSON_TYPE[field.type]) if not field.values else _enumerated(field.values)
        condition: dict[str, Any] = {
            "type": "object",
            "properties": {
                # One value of an enum: Gemini has no "const".
                "field": {"type": "string", "enum": [name]},
                "operator": {"type": "string", "enum": list(_OPERATORS_OF[field.type])},
                "value": {"anyOf": [item, {"type": "array", "items": item}, {"type": "boolean"}, {"type": "null"}]},
            },
            "required": ["field", "operator"],
            "additionalProperties": False,
        }
        if field.description:
            condition["description"] = field.description
        conditions.append(condition)
    combination = {
        "type": "object",
        "properties": {
            "operator": {"type": "string", "enum": ["and", "or", "not"]},
            "value": {
                "type": "array",
                "items": {"type": "object"},
                "description": "nodes of this same schema",
            },
        },
        "required": ["operator", "value"],
        "additionalProperties": False,
    }
    return {"anyOf": [*conditions, combination]}


def _enumerated(values: Sequence[Scalar]) -> dict[str, Any]:
    """An enum with its type; numbers and booleans by type alone, since Gemini takes an enum of text only."""
    kinds = {
        "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number" for value in values
    }
    if kinds == {"string"}:
        return {"type": "string", "enum": list(values)}
    listed = ", ".join(map(str, values))
    if len(kinds) == 1:
        return {"type": kinds.pop(), "description": f"one of {listed}"}
    return {"anyOf": [{"type": kind} for kind in sorted(kinds)], "description": f"one of {listed}"}


def parse_filter(
    value: Any,
    fields: Mapping[str, FilterField] | None = None,
    *,
    max_values: int = 100,
    max_conditions: int = 64,
) -> Filter | None:
    """Read a filter written as JSON (an object, or text holding one): a node, or a plain mapping.

    Args:
        fields: The fields, types and values that are allowed; None allows any field.

    Raises: FilterError: what is wrong and what is allowed, in words that a model can act on.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise FilterError(f"filter is not valid JSON: {error}") from None
    if value is None or value == {}:
        return None
    if not isinstance(value, Mapping):
        raise FilterError(f"filter must be an object, got {type(value).__name__}")
    parsed = parse_node(value)
    conditions = conditions_of(parsed)
    if len(conditions) > max_conditions:
        raise FilterError(f"filter has {len(conditions)} conditions; at most {max_conditions} are allowed")
    for condition in conditions:
        if isinstance(condition.value, tuple) and len(condition.value) > max_values:
            raise FilterError(f"filter on {condition.field!r} lists more than {max_values} values")
        if fields is not None:
            _check_declared(condition, fields)
    return parsed


def _check_declared(condition: Condition, fields: Mapping[str, FilterField]) -> None:
    field = fields.get(condition.field)
    if field is None:
        raise FilterError(f"unknown filter field {condition.field!r}; allowed fields: {', '.join(sorted(fields))}")
    allowed = _OPERATORS_OF[field.type]
    if condition.operator not in allowed:
        raise FilterError(
            f"operator {condition.operator!r} does not fit the {field.type} field {condition.field!r}; "
            f"use one of {', '.join(allowed)}"
        )
    if condition.operator in ("is_null", "exists"):
        return
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    for value in values:
        if field.values is not None and not any(scalars_equal(value, item) for item in field.values):
            raise FilterError(f"{condition.field!r} has no value {value!r}; allowed: {field.values}")
        if field.values is None and value is not None and not _fits(value, field.type):
            raise FilterError(f"{condition.field!r} is a {field.type} field; {value!r} does not fit")


def _fits(value: Scalar, kind: str) -> bool:
    match kind:
        case "any":
            return True
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "date":
            ordinal = range_value(value)
            return ordinal is not None and ordinal[0] == "date"
        case _:
            return isinstance(value, str)
