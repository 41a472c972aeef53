"""What stores index of a record's metadata, and the five node types that they translate.

A store keeps two things for each record, a set of tokens and a map of numbers, and implements `Plan`. That is all an
engine needs to know, so engines cannot differ in what an operator means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from ..documents import date_text
from ..errors import FilterError
from .language import And, Condition, Filter, Not, Or, Scalar, range_value
from .matching import flatten, in_range, range_bounds
from .nodes import FilterLike, as_filter

_MAX_TOKEN = 200


@dataclass(frozen=True)
class HasAny:
    """At least one of `tokens` is among the record's tokens; no token at all is never true."""

    tokens: tuple[str, ...]


@dataclass(frozen=True)
class InRange:
    """The record has a number called `key` within all given bounds."""

    key: str
    bounds: tuple[tuple[Literal["gt", "gte", "lt", "lte"], float], ...]


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Plan, ...]


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Plan, ...]


@dataclass(frozen=True)
class NotOf:
    part: Plan


Plan = HasAny | InRange | AllOf | AnyOf | NotOf


@dataclass(frozen=True)
class IndexedMetadata:
    """What a store indexes of a record's metadata."""

    tokens: tuple[str, ...]
    """Unique; at most about 250 characters each (longer ones are hashed)."""
    numbers: dict[str, float]
    """Range key -> number or seconds since 1970. The keys are ``number:<path>`` and ``date:<path>``."""


def index_metadata(metadata: Mapping[str, Any]) -> IndexedMetadata:
    """Tokens and numbers such that `plan` evaluated over them agrees with `matches` over `metadata`."""
    tokens: dict[str, None] = {}
    numbers: dict[str, float] = {}
    for path, value in flatten(metadata).items():
        tokens[_token(path, "exists")] = None
        if isinstance(value, list | tuple):
            tokens[_token(path, "list")] = None
            for item in value:
                if not isinstance(item, list | tuple | Mapping):
                    tokens[_token(path, "item", item)] = None
        elif not isinstance(value, Mapping):
            tokens[_token(path, "is", value)] = None
            if ordinal := range_value(value):
                numbers[f"{ordinal[0]}:{path}"] = ordinal[1]
    return IndexedMetadata(tuple(tokens), numbers)


def plan(value: FilterLike | None) -> Plan | None:
    """Translate a filter into the five node types that stores implement; None keeps everything."""
    parsed = as_filter(value)
    return None if parsed is None else _plan(parsed)


def plan_matches(node: Plan, indexed: IndexedMetadata) -> bool:
    """Evaluate `node`; the in-memory meaning of a plan."""
    match node:
        case HasAny(tokens):
            return any(token in indexed.tokens for token in tokens)
        case InRange(key, bounds):
            number = indexed.numbers.get(key)
            return number is not None and in_range(number, dict(bounds), "number")
        case AllOf(parts):
            return all(plan_matches(part, indexed) for part in parts)
        case AnyOf(parts):
            return any(plan_matches(part, indexed) for part in parts)
        case NotOf(part):
            return not plan_matches(part, indexed)


def _plan(value: Filter) -> Plan:
    match value:
        case And(filters):
            return AllOf(tuple(map(_plan, filters)))
        case Or(filters):
            return AnyOf(tuple(map(_plan, filters)))
        case Not(inner):
            return NotOf(_plan(inner))
        case Condition(field, operator, operand):
            return _plan_condition(field, operator, operand)
    raise FilterError(f"unknown filter {value!r}")


def _plan_condition(field: str, operator: str, operand: Any) -> Plan:
    exists = HasAny((_token(field, "exists"),))
    match operator:
        case "exists":
            return exists if operand else NotOf(exists)
        case "is_null":
            null = AnyOf((NotOf(exists), HasAny((_token(field, "is", None),))))
            return null if operand else NotOf(null)
        case "eq":
            return _plan_equal(field, (operand,))
        case "ne":
            return NotOf(_plan_equal(field, (operand,)))
        case "in":
            return _plan_equal(field, operand)
        case "not_in":
            return NotOf(_plan_equal(field, operand))
        case "contains":
            return HasAny((_token(field, "item", operand),))
        case "contains_any":
            return HasAny(tuple(_token(field, "item", item) for item in operand))
        case "contains_all":
            items = tuple(HasAny((_token(field, "item", item),)) for item in operand)
            return AllOf((HasAny((_token(field, "list"),)), *items))
        case _:
            bounds, kind = range_bounds(operator, operand)
            return InRange(f"{kind}:{field}", tuple(bounds.items()))  # type: ignore[arg-type]


def _plan_equal(field: str, operands: Sequence[Scalar]) -> Plan:
    node: Plan = HasAny(tuple(_token(field, "is", item) for item in operands))
    if None in operands:
        return AnyOf((node, NotOf(HasAny((_token(field, "exists"),)))))
    return node


def _token(path: str, kind: Literal["exists", "list", "is", "item"], value: Any = None) -> str:
    match value:
        case _ if kind in ("exists", "list"):
            typed = ""
        case None:
            typed = "null"
        case bool():
            typed = f"bool:{str(value).lower()}"
        case int() | float():
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            typed = f"number:{whole!r}"
        case date():
            typed = f"text:{date_text(value)}"
        case _:
            typed = f"text:{value}"
    token = f"{path}\x1f{kind}\x1f{typed}"
    if len(token) > _MAX_TOKEN:
        return f"{path[:40]}\x1f#{hashlib.sha256(token.encode()).hexdigest()}"
    return token
