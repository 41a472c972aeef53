"""The query half of the MongoDB stand-in: BSON order, filters, sorts and projections.

Stands for: the matcher and projector of a MongoDB 8.0 server, as its manual describes them ("Query and
Projection Operators", "Comparison/Sort Order", "Query for Null or Missing Fields").

Does not do: `$where`, `$text`, `$jsonSchema`, `$mod`, geo and bitwise operators, collations other than
"simple". Each of these is an error, never a silent success.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeVar

from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

T = TypeVar("T")
Document = dict[str, Any]
Predicate = Callable[[Document], bool]
Evaluate = Callable[[Any, Document], Any]
"""Evaluates an aggregation expression against a document; handed in, so that `$expr` and pipeline updates
work.
"""

MAX_BSON_SIZE: Final = 16 * 1024 * 1024


class MongoError(Exception):
    """A command error as the server reports it: `{ok: 0, code, codeName, errmsg, errorLabels}`."""

    def __init__(
        self,
        code: int,
        name: str,
        message: str,
        *,
        labels: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.message = message
        self.labels = list(labels)
        self.extra = dict(extra or {})

    def reply(self) -> Document:
        reply: Document = {"ok": 0.0, "errmsg": self.message, "code": self.code, "codeName": self.name}
        if self.labels:
            reply["errorLabels"] = self.labels
        return reply | self.extra


def bad_value(message: str) -> MongoError:
    return MongoError(2, "BadValue", message)


class _Missing:
    """The value of a field that is not there."""

    def __repr__(self) -> str:
        return "MISSING"

    def __deepcopy__(self, memo: Any) -> _Missing:
        return self


MISSING: Final = _Missing()

# --- BSON comparison order -----------------------------------------------------------------------------

_TYPE_NAMES: Final[dict[str, int]] = {
    "double": 1,
    "string": 2,
    "object": 3,
    "array": 4,
    "binData": 5,
    "objectId": 7,
    "bool": 8,
    "date": 9,
    "null": 10,
    "regex": 11,
    "int": 16,
    "timestamp": 17,
    "long": 18,
    "decimal": 19,
    "minKey": -1,
    "maxKey": 127,
}
_NUMBER_TYPES: Final = (1, 16, 18, 19)


def bson_type(value: Any) -> int:
    """The BSON type number of a decoded value, as `$type` takes it."""
    match value:
        case None:
            return 10
        case bool():
            return 8
        case Int64():
            return 18
        case int():
            return 16 if -(2**31) <= value < 2**31 else 18
        case float():
            return 1
        case str():
            return 2
        case Mapping():
            return 3
        case list() | tuple():
            return 4
        case bytes() | uuid.UUID():
            return 5
        case ObjectId():
            return 7
        case datetime():
            return 9
        case Regex() | re.Pattern():
            return 11
        case Timestamp():
            return 17
        case Decimal128():
            return 19
        case MinKey():
            return -1
        case MaxKey():
            return 127
    raise bad_value(f"the stand-in does not know the BSON type of {type(value).__name__}")


_RANKS: Final = {
    -1: 0,
    10: 1,
    1: 2,
    16: 2,
    18: 2,
    19: 2,
    2: 3,
    3: 4,
    4: 5,
    5: 6,
    7: 7,
    8: 8,
    9: 9,
    17: 10,
    11: 11,
    127: 12,
}


def type_rank(value: Any) -> int:
    """The place of the value's type in the comparison order; values of one rank are comparable ("type
    bracketing").
    """
    return 1 if value is MISSING else _RANKS[bson_type(value)]


def order_key(value: Any) -> tuple[Any, ...]:
    """A key that sorts, compares and hashes as BSON does: 1 == 1.0 == Int64(1), True != 1, null == missing,
    NaN first.
    """
    if value is MISSING or value is None:
        return (1,)
    rank = type_rank(value)
    if rank == 2:
        number = value.to_decimal() if isinstance(value, Decimal128) else value
        if (isinstance(number, Decimal) and number.is_nan()) or (isinstance(number, float) and math.isnan(number)):
            return (2, 0, 0)
        return (2, 1, number)
    if rank == 4:
        return (4, tuple((order_key(v)[0], k, order_key(v)) for k, v in value.items()))
    if rank == 5:
        return (5, tuple(order_key(v) for v in value))
    if rank == 6:
        data, subtype = _binary(value)
        return (6, len(data), subtype, data)
    if rank == 9:
        return (9, _as_utc(value))
    if rank == 10:
        return (10, value.time, value.inc)
    if rank == 11:
        return (11, value.pattern, value.flags)
    return (rank,) if rank in (0, 12) else (rank, value)


def _binary(value: Any) -> tuple[bytes, int]:
    if isinstance(value, uuid.UUID):
        return value.bytes, 4
    return bytes(value), value.subtype if isinstance(value, Binary) else 0


def _as_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def equal(left: Any, right: Any) -> bool:
    return order_key(left) == order_key(right)


# --- paths ---------------------------------------------------------------------------------------------


def values_at(value: Any, parts: Sequence[str]) -> Iterator[Any]:
    """Every value a dotted path reaches, through arrays as the matcher walks; MISSING where there is none.

    An array in the middle of the path is walked element by element, elements that are no documents are
    skipped, and a numeric part is also tried as an index. The final value is yielded as it is, an array
    unexpanded.
    """
    if not parts:
        yield value
        return
    if isinstance(value, Mapping):
        if parts[0] in value:
            yield from values_at(value[parts[0]], parts[1:])
        else:
            yield MISSING
    elif isinstance(value, list):
        if parts[0].isdigit() and int(parts[0]) < len(value):
            yield from values_at(value[int(parts[0])], parts[1:])
        for element in value:
            if isinstance(element, Mapping):
                yield from values_at(element, parts)
    else:
        yield MISSING


def candidates(doc: Document, parts: Sequence[str]) -> Iterator[Any]:
    """The values a comparison is tried on: each value at the path, and each element of it when it is an
    array.
    """
    for value in values_at(doc, parts):
        yield value
        if isinstance(value, list):
            yield from value


# --- filters -------------------------------------------------------------------------------------------


def compile_filter(spec: Any, evaluate: Evaluate | None = None) -> Predicate:
    """Turn a query document into a predicate; every mistake in it is raised here, not while matching."""
    if not isinstance(spec, Mapping):
        raise bad_value("filter must be an object")
    clauses: list[Predicate] = []
    for key, value in spec.items():
        if key in ("$and", "$or", "$nor"):
            clauses.append(_logical(key, value, evaluate))
        elif key == "$expr":
            if evaluate is None:
                raise bad_value("$expr is not allowed here")
            clauses.append(_expression_clause(value, evaluate))
        elif key == "$comment":
            continue
        elif key.startswith("$"):
            raise bad_value(f"unknown top level operator: {key}")
        else:
            clauses.append(_field_clause(key.split("."), value, evaluate))
    if len(clauses) == 1:
        return clauses[0]
    return lambda doc: all(clause(doc) for clause in clauses)


def _expression_clause(expression: Any, evaluate: Evaluate) -> Predicate:
    return lambda doc: truthy(evaluate(expression, doc))


def truthy(value: Any) -> bool:
    """Whether an expression result counts as true: null, missing, false and zero do not."""
    return value is not MISSING and value is not None and value is not False and not equal(value, 0)


def _logical(operator: str, value: Any, evaluate: Evaluate | None) -> Predicate:
    if not isinstance(value, list):
        raise bad_value(f"{operator} argument must be an array")
    if not value:
        raise bad_value("$and/$or/$nor must be a nonempty array")
    if not all(isinstance(entry, Mapping) for entry in value):
        raise bad_value("$or/$and/$nor entries need to be full objects")
    parts = [compile_filter(entry, evaluate) for entry in value]
    if operator == "$and":
        return lambda doc: all(part(doc) for part in parts)
    if operator == "$or":
        return lambda doc: any(part(doc) for part in parts)
    return lambda doc: not any(part(doc) for part in parts)


def is_operator_object(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and next(iter(value)).startswith("$")


def _field_clause(parts: list[str], condition: Any, evaluate: Evaluate | None) -> Predicate:
    if not is_operator_object(condition):
        return _operator(parts, "$eq", condition, {}, evaluate)
    clauses = [
        _operator(parts, name, operand, condition, evaluate)
        for name, operand in condition.items()
        if name != "$options"
    ]
    return clauses[0] if len(clauses) == 1 else lambda doc: all(clause(doc) for clause in clauses)


def _operator(
    parts: list[str], name: str, operand: Any, siblings: Mapping[str, Any], evaluate: Evaluate | None
) -> Predicate:
    if name in ("$ne", "$nin"):
        if name == "$ne" and isinstance(operand, Regex | re.Pattern):
            raise bad_value("Can't have regex as arg to $ne.")
        positive = _operator(parts, "$eq" if name == "$ne" else "$in", operand, {}, evaluate)
        return lambda doc: not positive(doc)
    if name == "$not":
        if isinstance(operand, Regex | re.Pattern):
            positive = _operator(parts, "$regex", operand, {}, evaluate)
        elif is_operator_object(operand):
            positive = _field_clause(parts, operand, evaluate)
        else:
            raise bad_value("$not needs a regex or a document")
        return lambda doc: not positive(doc)
    if name == "$exists":
        wanted = truthy(operand)
        return lambda doc: any(v is not MISSING for v in values_at(doc, parts)) == wanted
    if name == "$all":
        return _all(parts, operand, evaluate)
    if name in ("$elemMatch", "$size"):
        test = _array_test(name, operand, evaluate)
        return lambda doc: any(isinstance(v, list) and test(v) for v in values_at(doc, parts))
    test = _value_test(name, operand, siblings)
    if name == "$type":
        return lambda doc: any(test(v) for v in candidates(doc, parts) if v is not MISSING)
    return lambda doc: any(test(v) for v in candidates(doc, parts))


def _all(parts: list[str], operand: Any, evaluate: Evaluate | None) -> Predicate:
    if not isinstance(operand, list):
        raise bad_value("$all needs an array")
    if not operand:
        return lambda doc: False
    clauses = [
        _field_clause(parts, entry, evaluate)
        if isinstance(entry, Mapping) and "$elemMatch" in entry
        else _operator(parts, "$eq", entry, {}, evaluate)
        for entry in operand
    ]
    return lambda doc: all(clause(doc) for clause in clauses)


def _array_test(name: str, operand: Any, evaluate: Evaluate | None) -> Callable[[list[Any]], bool]:
    if name == "$size":
        if isinstance(operand, bool) or not isinstance(operand, int | float) or operand != int(operand) or operand < 0:
            raise bad_value(f"Failed to parse $size. Expected a non-negative integer in: $size: {operand!r}")
        return lambda array: len(array) == operand
    if not isinstance(operand, Mapping):
        raise bad_value("$elemMatch needs an Object")
    if is_operator_object(operand) and next(iter(operand)) not in ("$and", "$or", "$nor", "$expr"):
        inner = _field_clause(["value"], operand, evaluate)
        return lambda array: any(inner({"value": element}) for element in array)
    predicate = compile_filter(operand, evaluate)
    return lambda array: any(isinstance(element, Mapping) and predicate(dict(element)) for element in array)


def _value_test(name: str, operand: Any, siblings: Mapping[str, Any]) -> Callable[[Any], bool]:
    if name == "$regex" or (name == "$eq" and isinstance(operand, Regex | re.Pattern)):
        pattern = _pattern(operand, str(siblings.get("$options", "")))
        return lambda v: isinstance(v, str) and pattern.search(v) is not None
    if name == "$eq":
        key, rank = order_key(operand), type_rank(operand)
        return lambda v: type_rank(v) == rank and order_key(v) == key
    if name == "$in":
        return _in_test(operand)
    if name == "$type":
        return _type_test(operand)
    if name in ("$gt", "$gte", "$lt", "$lte"):
        return _range_test(name, operand)
    raise bad_value(f"unknown operator: {name}")


def _in_test(operand: Any) -> Callable[[Any], bool]:
    if not isinstance(operand, list):
        raise bad_value("$in needs an array")
    if any(is_operator_object(entry) for entry in operand):
        raise bad_value("cannot nest $ under $in")
    patterns = [_pattern(entry, "") for entry in operand if isinstance(entry, Regex | re.Pattern)]
    keys = {order_key(entry) for entry in operand if not isinstance(entry, Regex | re.Pattern)}

    def test(value: Any) -> bool:
        if order_key(value) in keys:
            return True
        return isinstance(value, str) and any(p.search(value) for p in patterns)

    return test


def _pattern(operand: Any, options: str) -> re.Pattern[str]:
    if isinstance(operand, Regex):
        return re.compile(str(operand.pattern), operand.flags & ~re.UNICODE)
    if isinstance(operand, re.Pattern):
        return operand
    if not isinstance(operand, str):
        raise bad_value("$regex has to be a string")
    flags = 0
    for option in options:
        if option not in "imsxu":
            raise MongoError(51108, "Location51108", f"invalid flag in regex options: {option}")
        flags |= {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "u": re.U}[option]
    return re.compile(operand, flags)


def _type_test(operand: Any) -> Callable[[Any], bool]:
    wanted: set[int] = set()
    for name in operand if isinstance(operand, list) else [operand]:
        if name == "number":
            wanted.update(_NUMBER_TYPES)
        elif isinstance(name, str):
            if name not in _TYPE_NAMES:
                raise bad_value(f"Unknown type name alias: {name}")
            wanted.add(_TYPE_NAMES[name])
        elif isinstance(name, int | float) and not isinstance(name, bool):
            wanted.add(int(name))
        else:
            raise bad_value("type must be represented as a number or a string")
    return lambda v: v is not MISSING and bson_type(v) in wanted


def _range_test(name: str, operand: Any) -> Callable[[Any], bool]:
    if isinstance(operand, Regex | re.Pattern):
        raise bad_value(f"Can't have RegEx as arg to predicate over field with {name}")
    key, rank, or_equal = order_key(operand), type_rank(operand), name in ("$gte", "$lte")
    if rank == 1 or key[:2] == (2, 0):  # null and NaN order only with themselves
        return lambda v: or_equal and order_key(v) == key
    greater = name.startswith("$gt")

    def test(value: Any) -> bool:
        if type_rank(value) != rank:
            return False
        found = order_key(value)
        if found[:2] == (2, 0):
            return False
        return (found == key and or_equal) or (found > key if greater else found < key)

    return test


def array_member_test(condition: Any) -> Callable[[Any], bool]:
    """A test of single array elements by a value or operator object, as `$pull` applies it."""
    clause = _field_clause(["value"], condition, None)
    return lambda element: clause({"value": element})


# --- sort ----------------------------------------------------------------------------------------------


def sort_value(doc: Document, path: str, descending: bool) -> tuple[Any, ...]:
    """The key a document sorts by: an array stands for its smallest (ascending) or largest element, missing
    for null.
    """
    keys: list[tuple[Any, ...]] = []
    for value in values_at(doc, path.split(".")):
        if isinstance(value, list):
            keys.extend(order_key(v) for v in value) if value else keys.append((0,))
        else:
            keys.append(order_key(value))
    if not keys:
        return (1,)
    return max(keys) if descending else min(keys)


def _swapped(key: Callable[[T, str, bool], tuple[Any, ...]], path: str, descending: bool, row: T) -> tuple[Any, ...]:
    return key(row, path, descending)


def sort_rows(rows: list[T], spec: Mapping[str, Any], key: Callable[[T, str, bool], tuple[Any, ...]]) -> list[T]:
    """Sort rows by a sort document: last key first, each pass keeps the order of the one before."""
    for path, direction in reversed(list(spec.items())):
        if isinstance(direction, Mapping):
            descending = True  # {$meta: ...} sorts best first
        elif isinstance(direction, bool) or direction not in (1, -1):
            raise MongoError(
                15975, "Location15975", "$sort key ordering must be 1 (for ascending) or -1 (for descending)"
            )
        else:
            descending = direction == -1
        rows = sorted(rows, key=partial(_swapped, key, path, descending), reverse=descending)
    return rows


# --- projection ----------------------------------------------------------------------------------------


def project(doc: Document, spec: Mapping[str, Any], evaluate: Evaluate) -> Document:
    """Apply a projection of `find` or `$project`: inclusion, exclusion, computed fields, `$slice`,
    `$elemMatch`, `$meta`.
    """
    inclusive, paths, computed = _split_projection(spec)
    if inclusive:
        result: Document = _include(doc, _tree(paths))
        if truthy(spec.get("_id", 1)) and "_id" in doc:
            result = {"_id": doc["_id"]} | result
    else:
        result = _exclude(doc, _tree(paths))
    for path, expression in computed.items():
        value = _computed(doc, path, expression, evaluate)
        if value is not MISSING:
            result = set_computed(result, path.split("."), value)
        elif inclusive and path == "_id":
            result.pop("_id", None)
    return result


def _split_projection(spec: Mapping[str, Any]) -> tuple[bool, list[str], Document]:
    """(whether only named fields are kept, the paths to keep or to drop, path -> expression)."""
    included: list[str] = []
    excluded: list[str] = []
    computed: Document = {}
    for path, value in flatten_spec(spec):
        if not isinstance(value, bool | int | float):
            computed[path] = value
        elif path != "_id":
            (included if value else excluded).append(path)
    if included and excluded:
        raise MongoError(31254, "Location31254", f"Cannot do exclusion on field {excluded[0]} in inclusion projection")
    slices = [path for path, value in computed.items() if _is_find_slice(value)]
    if excluded and len(slices) < len(computed):
        raise MongoError(31252, "Location31252", "Cannot use an expression in an exclusion projection")
    only_id = "_id" in spec and truthy(spec["_id"]) and not excluded and not computed
    if included or only_id or len(slices) < len(computed):  # a lone $slice keeps the other fields
        return True, included, computed
    return False, excluded + ["_id"] * ("_id" in spec and not truthy(spec["_id"])), computed


def _is_find_slice(value: Any) -> bool:
    """Whether a projected value is `find`'s `$slice: n` or `$slice: [skip, n]`, not the expression of that
    name.
    """
    if not is_operator_object(value) or "$slice" not in value:
        return False
    operand = value["$slice"]
    return isinstance(operand, int) or (isinstance(operand, list) and all(isinstance(n, int) for n in operand))


def flatten_spec(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in spec.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and not is_operator_object(value):
            yield from flatten_spec(value, f"{path}.")
        else:
            yield path, value


def _tree(paths: Sequence[str]) -> Document:
    tree: Document = {}
    for path in paths:
        node = tree
        parts = path.split(".")
        for part in parts[:-1]:
            if node.get(part, 0) is None:
                raise MongoError(31249, "Location31249", f"Path collision at {path}")
            node = node.setdefault(part, {})
        if node.get(parts[-1]):
            raise MongoError(31249, "Location31249", f"Path collision at {path}")
        node[parts[-1]] = None
    return tree


def _include(value: Any, tree: Document) -> Any:
    if isinstance(value, Mapping):
        kept: Document = {}
        for key, child in value.items():
            if key not in tree:
                continue
            if tree[key] is None:
                kept[key] = child
            elif isinstance(child, Mapping | list):
                kept[key] = _include(child, tree[key])
        return kept
    return [_include(element, tree) for element in value if isinstance(element, Mapping | list)]


def _exclude(value: Any, tree: Document) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _exclude(child, tree[key]) if tree.get(key) else child
            for key, child in value.items()
            if key not in tree or tree[key] is not None
        }
    return [_exclude(element, tree) for element in value] if isinstance(value, list) else value


def _computed(doc: Document, path: str, expression: Any, evaluate: Evaluate) -> Any:
    if is_operator_object(expression):
        name, operand = next(iter(expression.items()))
        if _is_find_slice(expression):
            return _find_slice(doc, path, operand)
        if name == "$elemMatch":
            array = next(values_at(doc, path.split(".")), MISSING)
            test = _array_test(name, operand, evaluate)
            found = [e for e in array if test([e])] if isinstance(array, list) else []
            return found[:1] or MISSING
    return evaluate(expression, doc)


def _find_slice(doc: Document, path: str, operand: Any) -> Any:
    array = next(values_at(doc, path.split(".")), MISSING)
    if not isinstance(array, list):
        return array
    if isinstance(operand, list):
        start = operand[0] if operand[0] >= 0 else max(len(array) + operand[0], 0)
        return array[start : start + operand[1]]
    return array[:operand] if operand >= 0 else array[operand:]


def set_computed(value: Any, parts: Sequence[str], new: Any) -> Any:
    """Set a field as `$addFields` does: through arrays element by element, replacing what is no document on
    the way.
    """
    if not parts:
        return new
    if isinstance(value, list):
        return [set_computed(element, parts, new) for element in value]
    result = dict(value) if isinstance(value, Mapping) else {}
    result[parts[0]] = set_computed(result.get(parts[0], {}) if len(parts) > 1 else None, parts[1:], new)
    return result


def remove_path(value: Any, path: str) -> Any:
    """The value without the field at the path, as `$unset` of a pipeline removes it."""
    return _exclude(value, _tree([path]))


def vector_of(value: Any) -> list[float] | None:
    """The numbers of a vector field: an array of numbers or a BSON vector (binary subtype 9, float32 or
    int8); else None.
    """
    if isinstance(value, list):
        if any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
            return None
        return [float(v) for v in value]
    if isinstance(value, Binary) and value.subtype == 9 and len(value) >= 2:
        kind, body = value[0], bytes(value)[2:]
        if kind == 0x27:
            return list(struct.unpack(f"<{len(body) // 4}f", body))
        if kind == 0x03:
            return [float(v) for v in struct.unpack(f"<{len(body)}b", body)]
    return None
