"""Queries, projections and stages of the stand-in for MongoDB, as far as `MongoDBStore` sends them.

After "Query and Projection Operators" and "Aggregation Stages" of the manual of MongoDB 8.0. Anything else is an error,
never a silent success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Document = dict[str, Any]
Predicate = Callable[[Document], bool]
Row = tuple[Document, Document]
"""A document on its way through a pipeline, and its scores ("vectorSearchScore", "searchScore")."""

MAX_BSON_SIZE = 16 * 1024 * 1024


class MongoError(Exception):
    """A command error as the server reports it: `{ok: 0, code, codeName, errmsg}`."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self._name = name

    def reply(self) -> Document:
        return {"ok": 0.0, "errmsg": self.message, "code": self.code, "codeName": self._name}


def bad_value(message: str) -> MongoError:
    return MongoError(2, "BadValue", message)


def known(body: Any, allowed: Iterable[str], where: str) -> None:
    """Refuse fields that the documentation does not have or the store does not send."""
    if unknown := sorted(set(body) - set(allowed)):
        raise MongoError(40415, "IDLUnknownField", f"BSON field '{where}.{unknown[0]}' is an unknown field.")


# --- queries ---


def compile_filter(query: Mapping[str, Any]) -> Predicate:
    """What a query keeps. A value meets a condition when it does or, as an array, one of its elements."""
    parts = [_clause(name, condition) for name, condition in query.items()]
    return parts[0] if len(parts) == 1 else lambda doc: all(part(doc) for part in parts)


def _clause(name: str, condition: Any) -> Predicate:
    if name in ("$and", "$or"):
        if not isinstance(condition, list) or not condition:
            raise bad_value("$and/$or/$nor must be a nonempty array")
        parts = list(map(compile_filter, condition))
        quantifier = all if name == "$and" else any
        return lambda doc: quantifier(part(doc) for part in parts)
    if name.startswith("$") or "." in name:
        raise bad_value(f"unknown top level operator, or path: {name}")
    if not isinstance(condition, Mapping):
        return lambda doc: _has(doc.get(name), {condition})
    tests = [_test(name, operator, operand) for operator, operand in condition.items()]
    return lambda doc: all(test(doc) for test in tests)


def _test(name: str, operator: str, operand: Any) -> Predicate:
    if operator in ("$in", "$nin"):
        if not isinstance(operand, list):
            raise bad_value(f"{operator} needs an array")
        values, wanted = set(operand), operator == "$in"
        return lambda doc: _has(doc.get(name), values) == wanted
    if operator == "$lt":
        return lambda doc: isinstance(doc.get(name), int | float) and doc[name] < operand
    raise bad_value(f"unknown operator: {operator}")


def _has(value: Any, wanted: set[Any]) -> bool:
    if isinstance(value, list):
        return not wanted.isdisjoint(value)
    return value in wanted


def project(doc: Document, fields: Mapping[str, Any], scores: Mapping[str, float] | None = None) -> Document:
    """The named fields and `_id`; ``{"$meta": name}`` is a score."""
    shown = {"_id": doc["_id"]}
    for name, spec in fields.items():
        if isinstance(spec, Mapping):
            known(spec, {"$meta"}, "$project")
            if spec["$meta"] not in (scores or {}):
                raise MongoError(
                    40218, "Location40218", f"query requires {spec['$meta']} metadata, but is not available"
                )
            shown[name] = (scores or {})[spec["$meta"]]
        elif spec != 1:
            raise bad_value(f"projection of {name!r} by {spec!r}")
        elif name in doc:
            shown[name] = doc[name]
    return shown


# --- stages ---


def run_stages(rows: list[Row], stages: Iterable[Mapping[str, Any]]) -> list[Row]:
    for stage in stages:
        ((name, spec),) = stage.items()
        if name not in _STAGES:
            raise MongoError(40324, "Location40324", f"Unrecognized pipeline stage name: '{name}'")
        rows = _STAGES[name](rows, spec)
    return rows


def _match(rows: list[Row], spec: Any) -> list[Row]:
    matches = compile_filter(spec)
    return [row for row in rows if matches(row[0])]


def _limit(rows: list[Row], spec: Any) -> list[Row]:
    if isinstance(spec, bool) or not isinstance(spec, int) or spec < 1:
        raise MongoError(15958, "Location15958", f"the limit must be positive: {spec}")
    return rows[:spec]


def _project(rows: list[Row], spec: Any) -> list[Row]:
    if not spec:
        raise MongoError(51272, "Location51272", "projection specification must have at least one field")
    return [(project(doc, spec, scores), scores) for doc, scores in rows]


def _group(rows: list[Row], spec: Any) -> list[Row]:
    """By a field or a constant; sums of a field or of a number."""
    groups: dict[Any, Document] = {}
    for doc, _ in rows:
        key = _value(doc, spec["_id"])
        group = groups.setdefault(key, {"_id": key, **{name: 0 for name in spec if name != "_id"}})
        for name, accumulator in spec.items():
            if name != "_id":
                known(accumulator, {"$sum"}, "$group")
                group[name] += _value(doc, accumulator["$sum"])
    return [(group, {}) for group in groups.values()]


def _value(doc: Document, expression: Any) -> Any:
    is_path = isinstance(expression, str) and expression.startswith("$")
    return doc.get(expression[1:]) if is_path else expression


_STAGES: dict[str, Callable[[list[Row], Any], list[Row]]] = {
    "$match": _match,
    "$limit": _limit,
    "$project": _project,
    "$group": _group,
}
