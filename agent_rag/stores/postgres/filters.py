"""Filter plans as SQL. Tokens and numbers are bound, so no value or field name is ever part of the text."""

from __future__ import annotations

from typing import Any

from ...filters import FilterLike
from ...filters.plan import AllOf, AnyOf, HasAny, InRange, NotOf, Plan, plan

Range = tuple[str, list[tuple[str, float]]]
"""Key of a number, and its bounds as (gt, gte, lt or lte, value)."""
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


def ranges_of(value: FilterLike | None) -> list[Range]:
    """The ranges of numbers that every match is in, one for each field."""
    node = plan(value)
    bounds: dict[str, list[tuple[str, float]]] = {}
    for part in [] if node is None else _conjuncts(node):
        if isinstance(part, InRange):
            bounds.setdefault(part.key, []).extend(part.bounds)
    return list(bounds.items())


def range_sql(held: Range, table: str, values: Values) -> str:
    """A query for the ids of chunks in a range, over a table of (key, value, chunk)."""
    key, bounds = held
    limits = "".join(f" AND value {_COMPARISON[name]} {values.bind(bound, 'float8')}" for name, bound in bounds)
    return f"SELECT chunk FROM {table} WHERE key = {values.bind(key, 'text')}{limits}"


def where_among(
    value: FilterLike | None, held: Range, table: str, values: Values, *, at_most: int | None = None
) -> str:
    """The condition of `where` over the alias ``c`` of chunks, by the ids of those in a range of `ranges_of`.

    The ids take the place of a look into the numbers of every chunk: 0.3 ms instead of 2.5 where a range keeps 100 of
    10,000, and no more where it keeps all. One list only: the second would be gone through for each id of the first.

    Args:
        table: Of (key, value, chunk).
        at_most: Nothing matches where more are in the range.
    """
    node = plan(value)
    assert node is not None, "a filter with a range"
    left = AllOf(tuple(part for part in _conjuncts(node) if not isinstance(part, InRange) or part.key != held[0]))
    condition, ids = _condition(left, "c", values), range_sql(held, table, values)
    if at_most is not None:
        ids = (
            f"WITH ids AS MATERIALIZED ({ids} LIMIT {values.bind(at_most + 1, 'int8')}) "
            f"SELECT chunk FROM ids WHERE (SELECT count(*) FROM ids) <= {values.bind(at_most, 'int8')}"
        )
    return f"({condition}) AND c.id = ANY(ARRAY({ids}))"


def _conjuncts(node: Plan) -> list[Plan]:
    if not isinstance(node, AllOf):
        return [node]
    return [inner for part in node.parts for inner in _conjuncts(part)]


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


def compares(node: Plan) -> bool:
    """Whether a plan compares numbers."""
    match node:
        case InRange():
            return True
        case AllOf(parts) | AnyOf(parts):
            return any(map(compares, parts))
        case NotOf(part):
            return compares(part)
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
