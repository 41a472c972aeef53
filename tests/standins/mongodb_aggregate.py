"""The pipeline half of the MongoDB stand-in: aggregation stages over rows of (document, scores).

Stands for: "Aggregation Stages" of the MongoDB 8.0 manual: $match, $project, $set/$addFields, $unset, $sort,
$skip, $limit, $group, $count, $unwind, $replaceRoot/$replaceWith, $unionWith, $facet, $sortByCount, $sample;
and, as first stage only, $vectorSearch, $search and $listSearchIndexes, which the storage behind answers.

Does not do: $lookup, $merge, $out, $bucket, $setWindowFields, $rankFusion, $scoreFusion. An unknown stage is
the server's own error 40324.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Protocol

from .mongodb_expressions import Scope, accumulate, distinct, evaluate
from .mongodb_query import (
    MISSING,
    Document,
    MongoError,
    compile_filter,
    equal,
    flatten_spec,
    order_key,
    project,
    remove_path,
    set_computed,
    sort_rows,
    sort_value,
    values_at,
)

Row = tuple[Document, Document]
"""A document on its way through a pipeline and its metadata ("vectorSearchScore", "searchScore")."""


class Source(Protocol):
    """What a pipeline reads from."""

    def documents(self, collection: str) -> list[Document]:
        """All documents of a collection as this reader sees them; none when it does not exist."""

    def first_stage(self, collection: str, name: str, spec: Any) -> list[Row]:
        """The rows of $vectorSearch, $search or $listSearchIndexes."""


FIRST_STAGES: Final = ("$vectorSearch", "$search", "$listSearchIndexes")
_NOT_IN_FACET: Final = ("$vectorSearch", "$search", "$facet", "$listSearchIndexes")


def scope_of(doc: Document, meta: Document, variables: Mapping[str, Any]) -> Scope:
    return {
        **variables,
        "ROOT": doc,
        "CURRENT": doc,
        "$meta": meta,
        "NOW": datetime.now(UTC).replace(tzinfo=None),
    }


def expression_filter(spec: Any, variables: Mapping[str, Any]) -> Callable[[Document], bool]:
    """A query predicate in which `$expr` may use the variables of `let`."""
    return compile_filter(spec, lambda expression, doc: evaluate(expression, scope_of(doc, {}, variables)))


def run_pipeline(source: Source, collection: str, pipeline: Any, variables: Mapping[str, Any]) -> list[Row]:
    """The rows a pipeline ends with."""
    stages = [_stage(entry) for entry in pipeline]
    if stages and stages[0][0] in FIRST_STAGES:
        rows = source.first_stage(collection, *stages[0])
        stages = stages[1:]
    else:
        rows = [(doc, {}) for doc in source.documents(collection)]
    for name, spec in stages:
        if name in FIRST_STAGES:
            raise MongoError(40602, "Location40602", f"{name} is only valid as the first stage in a pipeline")
        rows = _run(source, name, spec, rows, variables)
    return rows


def apply_pipeline_update(doc: Document, pipeline: list[Any], variables: Mapping[str, Any]) -> Document:
    """The document after an update given as a pipeline of $set/$addFields, $unset, $project,
    $replaceRoot/$replaceWith.
    """
    rows: list[Row] = [(doc, {})]
    for entry in pipeline:
        name, spec = _stage(entry)
        if name not in ("$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith"):
            raise MongoError(72, "InvalidOptions", f"{name} is not allowed to be used within an update")
        rows = _STAGES[name](spec, rows, variables)
    result = rows[0][0]
    if "_id" in doc and not equal(result.get("_id", doc["_id"]), doc["_id"]):
        raise MongoError(66, "ImmutableField", "the update would modify the immutable field '_id'")
    return {"_id": doc["_id"]} | result if "_id" in doc else result


def _stage(entry: Any) -> tuple[str, Any]:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise MongoError(
            40323, "Location40323", "A pipeline stage specification object must contain exactly one field."
        )
    name, spec = next(iter(entry.items()))
    if name not in _STAGES and name not in FIRST_STAGES and name not in ("$unionWith", "$facet"):
        raise MongoError(40324, "Location40324", f"Unrecognized pipeline stage name: '{name}'")
    return name, spec


def _run(source: Source, name: str, spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    if name == "$unionWith":
        target = {"coll": spec} if isinstance(spec, str) else spec
        _only(target, {"coll", "pipeline"}, name)
        return rows + run_pipeline(source, target["coll"], target.get("pipeline", []), variables)
    if name == "$facet":
        return [({key: _facet(source, part, rows, variables) for key, part in spec.items()}, {})]
    return _STAGES[name](spec, rows, variables)


def _facet(source: Source, pipeline: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Document]:
    for name, spec in [_stage(entry) for entry in pipeline]:
        if name in _NOT_IN_FACET:
            raise MongoError(40600, "Location40600", f"{name} is not allowed to be used within a $facet stage")
        rows = _run(source, name, spec, rows, variables)
    return [doc for doc, _ in rows]


def _only(spec: Any, allowed: set[str], stage: str) -> None:
    if not isinstance(spec, Mapping):
        raise MongoError(9, "FailedToParse", f"the {stage} stage specification must be an object")
    unknown = sorted(set(spec) - allowed)
    if unknown:
        raise MongoError(40415, "IDLUnknownField", f"BSON field '{stage}.{unknown[0]}' is an unknown field.")


# --- stages --------------------------------------------------------------------------------------------


def _match(spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    if not isinstance(spec, Mapping):
        raise MongoError(15959, "Location15959", "the match filter must be an expression in an object")
    predicate = expression_filter(spec, variables)
    return [row for row in rows if predicate(row[0])]


def _project(spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    if not isinstance(spec, Mapping) or not spec:
        raise MongoError(
            51272,
            "Location51272",
            "Invalid $project :: caused by :: projection specification must not be empty",
        )
    result: list[Row] = []
    for doc, meta in rows:
        result.append((project(doc, spec, partial(_evaluated_at, scope_of(doc, meta, variables))), meta))
    return result


def _evaluated_at(scope: Scope, expression: Any, _doc: Document) -> Any:
    return evaluate(expression, scope)


def _add_fields(spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    if not isinstance(spec, Mapping):
        raise MongoError(40272, "Location40272", "$addFields specification stage must be an object")
    result = []
    for doc, meta in rows:
        scope, changed = scope_of(doc, meta, variables), doc
        for path, expression in flatten_spec(spec):
            value = evaluate(expression, scope)
            if value is MISSING:
                changed = remove_path(changed, path)
            else:
                changed = set_computed(changed, path.split("."), value)
        result.append((changed, meta))
    return result


def _unset(spec: Any, rows: list[Row], _variables: Mapping[str, Any]) -> list[Row]:
    paths = [spec] if isinstance(spec, str) else spec
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise MongoError(31002, "Location31002", "$unset specification must be a string or an array of strings")
    for path in paths:
        rows = [(remove_path(doc, path), meta) for doc, meta in rows]
    return rows


def _sort(spec: Any, rows: list[Row], _variables: Mapping[str, Any]) -> list[Row]:
    if not isinstance(spec, Mapping) or not spec:
        raise MongoError(15976, "Location15976", "$sort stage must have at least one sort key")

    def key(row: Row, path: str, descending: bool) -> tuple[Any, ...]:
        direction = spec[path]
        if isinstance(direction, Mapping):
            return order_key(row[1].get(str(direction.get("$meta"))))
        return sort_value(row[0], path, descending)

    return sort_rows(rows, spec, key)


def _whole_number(spec: Any, stage: str, least: int) -> int:
    if isinstance(spec, bool) or not isinstance(spec, int | float) or spec != int(spec) or spec < least:
        raise MongoError(5107201, "Location5107201", f"invalid argument to {stage} stage: {spec!r}")
    return int(spec)


def _skip(spec: Any, rows: list[Row], _variables: Mapping[str, Any]) -> list[Row]:
    return rows[_whole_number(spec, "$skip", 0) :]


def _limit(spec: Any, rows: list[Row], _variables: Mapping[str, Any]) -> list[Row]:
    if spec == 0:
        raise MongoError(15958, "Location15958", "the limit must be positive")
    return rows[: _whole_number(spec, "$limit", 1)]


def _group(spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    if not isinstance(spec, Mapping) or "_id" not in spec:
        raise MongoError(15955, "Location15955", "a group specification must include an _id")
    groups: dict[Any, tuple[Any, dict[str, list[Any]]]] = {}
    accumulators = {name: _accumulator(name, entry) for name, entry in spec.items() if name != "_id"}
    for doc, meta in rows:
        scope = scope_of(doc, meta, variables)
        group_id = evaluate(spec["_id"], scope)
        _, values = groups.setdefault(order_key(group_id), (group_id, {name: [] for name in accumulators}))
        for name, (_, expression) in accumulators.items():
            values[name].append(evaluate(expression, scope))
    return [
        (
            {"_id": None if group_id is MISSING else group_id}
            | {name: _accumulated(accumulators[name][0], column) for name, column in values.items()},
            {},
        )
        for group_id, values in groups.values()
    ]


def _accumulator(field: str, entry: Any) -> tuple[str, Any]:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise MongoError(40234, "Location40234", f"The field '{field}' must be an accumulator object")
    name, expression = next(iter(entry.items()))
    if name not in ("$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$count"):
        raise MongoError(15952, "Location15952", f"unknown group operator '{name}'")
    return name, expression


def _accumulated(name: str, column: list[Any]) -> Any:
    if name == "$count":
        return len(column)
    if name in ("$first", "$last"):
        value = column[0 if name == "$first" else -1]
        return None if value is MISSING else value
    if name in ("$push", "$addToSet"):
        present = [value for value in column if value is not MISSING]
        return present if name == "$push" else distinct(present)
    return accumulate(name, column)


def _count(spec: Any, rows: list[Row], _variables: Mapping[str, Any]) -> list[Row]:
    if not isinstance(spec, str) or not spec or spec.startswith("$") or "." in spec:
        raise MongoError(40156, "Location40156", "the count field must be a non-empty string without '$' and '.'")
    return [({spec: len(rows)}, {})] if rows else []


def _unwind(spec: Any, rows: list[Row], _variables: Mapping[str, Any]) -> list[Row]:
    options = {"path": spec} if isinstance(spec, str) else spec
    _only(options, {"path", "includeArrayIndex", "preserveNullAndEmptyArrays"}, "$unwind")
    if not isinstance(options["path"], str) or not options["path"].startswith("$"):
        raise MongoError(
            28818, "Location28818", f"path option to $unwind stage should be prefixed with a '$': {options!r}"
        )
    path = options["path"][1:]
    index_field = options.get("includeArrayIndex")
    result: list[Row] = []
    for doc, meta in rows:
        value = next(values_at(doc, path.split(".")), MISSING)
        if isinstance(value, list) and value:
            for index, element in enumerate(value):
                unwound = set_computed(doc, path.split("."), element)
                result.append((unwound | ({index_field: index} if index_field else {}), meta))
        elif value is MISSING or value is None or value == []:
            if options.get("preserveNullAndEmptyArrays"):
                result.append((remove_path(doc, path) if value == [] else doc, meta))
        else:
            result.append((doc | ({index_field: None} if index_field else {}), meta))
    return result


def _replace_root(spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    _only(spec, {"newRoot"}, "$replaceRoot")
    return _replace_with(spec["newRoot"], rows, variables)


def _replace_with(spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    result: list[Row] = []
    for doc, meta in rows:
        root = evaluate(spec, scope_of(doc, meta, variables))
        if not isinstance(root, Mapping):
            raise MongoError(
                40228,
                "Location40228",
                "'newRoot' expression must evaluate to an object, but resulting value was not one",
            )
        result.append((dict(root), meta))
    return result


def _sort_by_count(spec: Any, rows: list[Row], variables: Mapping[str, Any]) -> list[Row]:
    return _sort({"count": -1}, _group({"_id": spec, "count": {"$sum": 1}}, rows, variables), variables)


def _sample(spec: Any, rows: list[Row], _variables: Mapping[str, Any]) -> list[Row]:
    _only(spec, {"size"}, "$sample")
    return random.sample(rows, min(len(rows), spec["size"]))


_STAGES: Final[dict[str, Callable[[Any, list[Row], Mapping[str, Any]], list[Row]]]] = {
    "$match": _match,
    "$project": _project,
    "$set": _add_fields,
    "$addFields": _add_fields,
    "$unset": _unset,
    "$sort": _sort,
    "$skip": _skip,
    "$limit": _limit,
    "$group": _group,
    "$count": _count,
    "$unwind": _unwind,
    "$replaceRoot": _replace_root,
    "$replaceWith": _replace_with,
    "$sortByCount": _sort_by_count,
    "$sample": _sample,
}
