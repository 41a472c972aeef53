"""The update half of the MongoDB stand-in: update operators, replacements and what an upsert starts from.

Stands for: the update engine of a MongoDB 8.0 server, as the manual page "Update Operators" describes it.
Pipeline updates run in `mongodb_aggregate`.

Does not do: positional operators (`$`, `$[]`, `$[x]`), `arrayFilters`, `$bit`, `$sort` inside `$push`. Each
is an error.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from .mongodb_query import (
    MISSING,
    Document,
    MongoError,
    array_member_test,
    bad_value,
    compile_filter,
    equal,
    is_operator_object,
    order_key,
    type_rank,
)


def is_replacement(update: Any) -> bool:
    return isinstance(update, Mapping) and not is_operator_object(update)


def apply_update(doc: Document, update: Any, *, inserting: bool) -> Document:
    """The document after operator updates or a replacement; the argument is not changed.

    Raises: MongoError: unknown operator (9), two changes of one path (40), a changed `_id` (66), a path
        through a value that is no document (28), an operand of the wrong type (14).
    """
    if is_replacement(update):
        replaced = ({"_id": doc["_id"]} if "_id" in doc else {}) | copy.deepcopy(dict(update))
        _check_id(doc, replaced, "_id")
        return replaced
    touched: list[str] = []
    result: Document = copy.deepcopy(doc)
    for operator, changes in update.items():
        if operator not in _UPDATES and operator != "$setOnInsert":
            if not operator.startswith("$"):
                raise MongoError(
                    9, "FailedToParse", f"the update operator document contains the plain field {operator!r}"
                )
            raise MongoError(
                9,
                "FailedToParse",
                f"Unknown modifier: {operator}. Expected a valid update modifier or pipeline-style "
                "update specified as an array",
            )
        if not isinstance(changes, Mapping):
            raise MongoError(
                9, "FailedToParse", f"Modifiers operate on fields but we found type {type(changes).__name__}"
            )
        for path, operand in changes.items():
            _check_path(path, touched)
            if operator == "$setOnInsert":
                if inserting:
                    _UPDATES["$set"](result, path, operand)
            else:
                _UPDATES[operator](result, path, operand)
            if path == "_id" or path.startswith("_id."):
                _check_id(doc, result, path)
    return result


def _check_id(before: Document, after: Document, path: str) -> None:
    if "_id" in before and not equal(before["_id"], after.get("_id", MISSING)):
        raise MongoError(
            66,
            "ImmutableField",
            f"Performing an update on the path '{path}' would modify the immutable field '_id'",
        )


def _check_path(path: str, touched: list[str]) -> None:
    parts = path.split(".")
    if not all(parts):
        raise MongoError(
            56,
            "EmptyFieldName",
            f"The update path '{path}' contains an empty field name, which is not allowed.",
        )
    if any(part.startswith("$") for part in parts):
        raise MongoError(
            52, "DollarPrefixedFieldName", f"The dollar ($) prefixed field '{path}' is not supported here."
        )
    for other in touched:
        if other == path or other.startswith(f"{path}.") or path.startswith(f"{other}."):
            raise MongoError(
                40,
                "ConflictingUpdateOperators",
                f"Updating the path '{path}' would create a conflict at '{other}'",
            )
    touched.append(path)


def _parent(doc: Document, path: str, *, create: bool) -> tuple[Any, Any]:
    """The container that holds the last part of a path and the key or index in it; (None, None) when it is
    not there.
    """
    parts = path.split(".")
    node: Any = doc
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if isinstance(node, dict):
            if last:
                return node, part
            if part not in node:
                if not create:
                    return None, None
                node[part] = {}
            node = node[part]
        elif isinstance(node, list) and part.isdigit():
            index = int(part)
            if index >= len(node):
                if not create:
                    return None, None
                node.extend([None] * (index + 1 - len(node)))
                if not last:
                    node[index] = {}
            if last:
                return node, index
            node = node[index]
        elif not create:
            return None, None
        else:
            held = {parts[position - 1]: node}
            raise MongoError(28, "PathNotViable", f"Cannot create field '{part}' in element {held!r}")
    raise AssertionError("a path has at least one part")


def _read(doc: Document, path: str) -> Any:
    container, key = _parent(doc, path, create=False)
    if isinstance(container, dict):
        return container.get(key, MISSING)
    return container[key] if isinstance(container, list) else MISSING


def set_path(doc: Document, path: str, value: Any) -> None:
    container, key = _parent(doc, path, create=True)
    container[key] = copy.deepcopy(value)


def _unset(doc: Document, path: str, _operand: Any) -> None:
    container, key = _parent(doc, path, create=False)
    if isinstance(container, dict):
        container.pop(key, None)
    elif isinstance(container, list):
        container[key] = None


def _arithmetic(operator: str, combine: Callable[[Any, Any], Any], start: Any) -> Callable[[Document, str, Any], None]:
    def apply(doc: Document, path: str, operand: Any) -> None:
        if type_rank(operand) != 2:
            raise MongoError(
                14,
                "TypeMismatch",
                f"Cannot {operator[1:]} with non-numeric argument: {{{path}: {operand!r}}}",
            )
        current = _read(doc, path)
        if current is not MISSING and type_rank(current) != 2:
            raise MongoError(
                14,
                "TypeMismatch",
                f"Cannot apply {operator} to a value of non-numeric type. "
                f"The field '{path}' has a value of type {type(current).__name__}",
            )
        set_path(doc, path, combine(start if current is MISSING else current, operand))

    return apply


def _extreme(greater: bool) -> Callable[[Document, str, Any], None]:
    def apply(doc: Document, path: str, operand: Any) -> None:
        current = _read(doc, path)
        if current is MISSING or ((order_key(operand) > order_key(current)) == greater and not equal(operand, current)):
            set_path(doc, path, operand)

    return apply


def _array_for(doc: Document, path: str, operator: str) -> list[Any] | None:
    current = _read(doc, path)
    if current is MISSING:
        return None
    if not isinstance(current, list):
        raise bad_value(f"The field '{path}' must be an array but is of type {type(current).__name__} for {operator}")
    return current


def _push(doc: Document, path: str, operand: Any) -> None:
    array = list(_array_for(doc, path, "$push") or [])
    if isinstance(operand, Mapping) and "$each" in operand:
        unknown = set(operand) - {"$each", "$slice", "$position"}
        if unknown:
            raise bad_value(f"Unrecognized clause in $push: {sorted(unknown)[0]}")
        at = operand.get("$position", len(array))
        array[at:at] = operand["$each"]
        if "$slice" in operand:
            array = array[: operand["$slice"]] if operand["$slice"] >= 0 else array[operand["$slice"] :]
    else:
        array.append(operand)
    set_path(doc, path, array)


def _add_to_set(doc: Document, path: str, operand: Any) -> None:
    array = list(_array_for(doc, path, "$addToSet") or [])
    for value in operand["$each"] if isinstance(operand, Mapping) and "$each" in operand else [operand]:
        if not any(equal(value, present) for present in array):
            array.append(value)
    set_path(doc, path, array)


def _pull(doc: Document, path: str, operand: Any) -> None:
    array = _array_for(doc, path, "$pull")
    if array is None:
        return
    if isinstance(operand, Mapping) and not is_operator_object(operand):
        matches = compile_filter(operand)
        kept = [e for e in array if not (isinstance(e, Mapping) and matches(dict(e)))]
    else:
        test = array_member_test(operand)
        kept = [e for e in array if not test(e)]
    set_path(doc, path, kept)


def _pop(doc: Document, path: str, operand: Any) -> None:
    array = _array_for(doc, path, "$pop")
    if operand not in (1, -1):
        raise MongoError(9, "FailedToParse", f"$pop expects 1 or -1, found: {operand!r}")
    if array:
        set_path(doc, path, array[:-1] if operand == 1 else array[1:])


def _rename(doc: Document, path: str, operand: Any) -> None:
    value = _read(doc, path)
    if value is not MISSING:
        _unset(doc, path, None)
        set_path(doc, str(operand), value)


def _current_date(doc: Document, path: str, _operand: Any) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    set_path(doc, path, now.replace(microsecond=now.microsecond // 1000 * 1000))


_UPDATES: Final[dict[str, Callable[[Document, str, Any], None]]] = {
    "$set": set_path,
    "$unset": _unset,
    "$inc": _arithmetic("$inc", lambda a, b: a + b, 0),
    "$mul": _arithmetic("$mul", lambda a, b: a * b, 0),
    "$min": _extreme(greater=False),
    "$max": _extreme(greater=True),
    "$push": _push,
    "$addToSet": _add_to_set,
    "$pull": _pull,
    "$pop": _pop,
    "$rename": _rename,
    "$currentDate": _current_date,
}


def upsert_seed(query: Mapping[str, Any]) -> Document:
    """The fields an upsert starts from: the equality conditions of its query."""
    seed: Document = {}
    for key, value in query.items():
        if key == "$and":
            for part in value:
                seed |= upsert_seed(part)
        elif not key.startswith("$"):
            if not is_operator_object(value):
                set_path(seed, key, value)
            elif "$eq" in value:
                set_path(seed, key, value["$eq"])
    return seed
