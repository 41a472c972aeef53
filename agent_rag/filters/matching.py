"""The reference meaning of a filter, which every store is tested against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

from ..documents import date_text
from ..errors import FilterError
from .language import And, Condition, Filter, Not, Or, range_value
from .nodes import FilterLike, as_filter


def matches(value: FilterLike | None, metadata: Mapping[str, Any]) -> bool:
    """Whether `metadata` satisfies `value`: the meaning that every store is tested against."""
    parsed = as_filter(value)
    return parsed is None or _matches(parsed, flatten(metadata))


def flatten(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Field path -> value, with nested dicts joined by dots (the dict itself is there too); less nested wins."""
    flat: dict[str, Any] = {}
    level: list[tuple[str, Any]] = list(metadata.items())
    while level:
        deeper: list[tuple[str, Any]] = []
        for path, value in level:
            flat.setdefault(path, value)
            if isinstance(value, Mapping):
                deeper.extend((f"{path}.{key}", item) for key, item in value.items())
        level = deeper
    return flat


_MISSING = object()


def _matches(value: Filter, flat: Mapping[str, Any]) -> bool:
    match value:
        case And(filters):
            return all(_matches(part, flat) for part in filters)
        case Or(filters):
            return any(_matches(part, flat) for part in filters)
        case Not(inner):
            return not _matches(inner, flat)
        case Condition(field, operator, operand):
            return _condition_matches(operator, flat.get(field, _MISSING), operand)
    raise FilterError(f"unknown filter {value!r}")


def _condition_matches(operator: str, stored: Any, operand: Any) -> bool:
    if isinstance(stored, date):
        stored = date_text(stored)
    match operator:
        case "exists":
            return (stored is not _MISSING) is operand
        case "is_null":
            return (stored is _MISSING or stored is None) is operand
        case "eq":
            return scalars_equal(stored, operand)
        case "ne":
            return not scalars_equal(stored, operand)
        case "in":
            return any(scalars_equal(stored, item) for item in operand)
        case "not_in":
            return not any(scalars_equal(stored, item) for item in operand)
        case "contains":
            return _list_has(stored, operand)
        case "contains_any":
            return any(_list_has(stored, item) for item in operand)
        case "contains_all":
            return isinstance(stored, list | tuple) and all(_list_has(stored, item) for item in operand)
        case _:
            return in_range(stored, *range_bounds(operator, operand))


def scalars_equal(stored: Any, operand: Any) -> bool:
    if operand is None:
        return stored is None or stored is _MISSING
    if isinstance(stored, bool) or isinstance(operand, bool):
        return stored is operand
    if isinstance(stored, int | float) and isinstance(operand, int | float):
        return bool(stored == operand)
    return isinstance(stored, str) and isinstance(operand, str) and bool(stored == operand)


def _list_has(stored: Any, operand: Any) -> bool:
    if not isinstance(stored, list | tuple):
        return False
    if operand is None:
        return any(item is None for item in stored)
    return any(scalars_equal(date_text(item) if isinstance(item, date) else item, operand) for item in stored)


def in_range(stored: Any, bounds: Mapping[str, float], kind: str) -> bool:
    ordinal = range_value(stored)
    if ordinal is None or ordinal[0] != kind:
        return False
    number = ordinal[1]
    return (
        number > bounds.get("gt", -math.inf)
        and number >= bounds.get("gte", -math.inf)
        and number < bounds.get("lt", math.inf)
        and number <= bounds.get("lte", math.inf)
    )


def range_bounds(operator: str, operand: Any) -> tuple[dict[str, float], str]:
    values = operand if operator == "between" else (operand,)
    ordinals = [range_value(value) for value in values]
    names = ("gte", "lte") if operator == "between" else (operator,)
    kinds = {ordinal[0] for ordinal in ordinals if ordinal}
    return {name: ordinal[1] for name, ordinal in zip(names, ordinals, strict=True) if ordinal}, kinds.pop()
