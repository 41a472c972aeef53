"""Filter plans as SQL. Tokens and numbers are bound, so no value or field name is ever part of the text."""

from __future__ import annotations

from typing import Any

from ...filters import FilterLike
from ...filters.plan import AllOf, AnyOf, HasAny, InRange, NotOf, Plan, plan

_COMPARISON = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class Values(list[Any]):
    """Values of a statement, in the order of their placeholders."""

    def bind(self, value: Any, type_name: str) -> str:
        """The placeholder of `value`, with its type."""
        self.append(value)
        return f"${len(self)}::{type_name}"


def where(value: FilterLike | None, row: str, values: Values) -> str:
    """A condition over `row`, the alias of a table with the columns of `schema.FILTER_COLUMNS`.

    It is never null, so that it may be negated.
    """
    node = plan(value)
    return "true" if node is None else _condition(node, row, values)


def uses_index(value: FilterLike | None) -> bool:
    """Whether an index over tokens can find what matches: there are tokens of which each match has one."""
    node = plan(value)
    return node is not None and _has_tokens(node)


def _has_tokens(node: Plan) -> bool:
    match node:
        case HasAny():
            return True
        case AllOf(parts):
            return any(map(_has_tokens, parts))
        case AnyOf(parts):
            return bool(parts) and all(map(_has_tokens, parts))
        case _:
            return False


def _condition(node: Plan, row: str, values: Values) -> str:
    match node:
        case HasAny(()):
            return "false"
        case HasAny(tokens):
            return f"{row}.tokens && {values.bind(list(tokens), 'text[]')}"
        case InRange(key, bounds):
            number = f"{row}.number_values[array_position({row}.number_keys, {values.bind(key, 'text')})]"
            parts = [f"{number} {_COMPARISON[name]} {values.bind(bound, 'float8')}" for name, bound in bounds]
            return f"coalesce({' AND '.join(parts) or f'{number} IS NOT NULL'}, false)"
        case AllOf(parts):
            return " AND ".join(f"({_condition(part, row, values)})" for part in parts) or "true"
        case AnyOf(parts):
            return " OR ".join(f"({_condition(part, row, values)})" for part in parts) or "false"
        case NotOf(part):
            return f"NOT ({_condition(part, row, values)})"
