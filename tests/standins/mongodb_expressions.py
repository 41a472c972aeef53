"""The expression half of the MongoDB stand-in: what stands inside `$project`, `$set`, `$group` and `$expr`.

Stands for: "Aggregation Expressions" of the MongoDB 8.0 manual, the part of them that a vector store needs.

Does not do: dates beyond comparison, trigonometry, `$function`, `$accumulator`, window functions, sets beyond
union and intersection. An operator that is not here is the server's own error 168.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from bson import Decimal128, Int64, ObjectId

from .mongodb_query import MISSING, Document, MongoError, bson_type, equal, order_key, truthy, type_rank

Scope = Mapping[str, Any]
"""Variables of an expression: "ROOT", "CURRENT", the names of `$let`; the key "$meta" holds the scores of the
row.
"""

_TYPE_NAMES: Final = {
    1: "double",
    2: "string",
    3: "object",
    4: "array",
    5: "binData",
    7: "objectId",
    8: "bool",
    9: "date",
    10: "null",
    11: "regex",
    16: "int",
    17: "timestamp",
    18: "long",
    19: "decimal",
}


def evaluate(expression: Any, scope: Scope) -> Any:
    """The value of an expression; MISSING for a field that is not there and for `$$REMOVE`."""
    if isinstance(expression, str) and expression.startswith("$"):
        return _reference(expression, scope)
    if isinstance(expression, list):
        return [_or_null(evaluate(element, scope)) for element in expression]
    if not isinstance(expression, Mapping):
        return expression
    if expression and next(iter(expression)).startswith("$"):
        if len(expression) > 1:
            raise MongoError(
                15983,
                "Location15983",
                f"an expression specification must contain exactly one field, the name of the expression. "
                f"Found {len(expression)} fields",
            )
        name, operand = next(iter(expression.items()))
        if name in _LAZY:
            return _LAZY[name](operand, scope)
        if name in _STRICT:
            values = operand if isinstance(operand, list) else [operand]
            return _STRICT[name](name, [evaluate(value, scope) for value in values])
        raise MongoError(168, "InvalidPipelineOperator", f"Unrecognized expression '{name}'")
    computed = {key: evaluate(value, scope) for key, value in expression.items()}
    return {key: value for key, value in computed.items() if value is not MISSING}


def _or_null(value: Any) -> Any:
    return None if value is MISSING else value


def _reference(text: str, scope: Scope) -> Any:
    if not text.startswith("$$"):
        return _walk(scope["CURRENT"], text[1:].split("."))
    name, *rest = text[2:].split(".")
    if name == "REMOVE":
        return MISSING
    if name == "NOW":
        return scope["NOW"]
    if name not in scope or name == "$meta":
        raise MongoError(17276, "Location17276", f"Use of undefined variable: {name}")
    return _walk(scope[name], rest)


def _walk(value: Any, parts: list[str]) -> Any:
    """A field path of an expression: through documents and over arrays, without numeric indexes."""
    if not parts:
        return value
    if isinstance(value, Mapping):
        return _walk(value[parts[0]], parts[1:]) if parts[0] in value else MISSING
    if isinstance(value, list):
        found = [_walk(element, parts) for element in value if isinstance(element, Mapping | list)]
        return [element for element in found if element is not MISSING]
    return MISSING


# --- operators that evaluate their operands themselves -------------------------------------------------


def _meta(operand: Any, scope: Scope) -> Any:
    if operand not in ("vectorSearchScore", "searchScore"):
        raise MongoError(17308, "Location17308", f"Unsupported argument to $meta: {operand}")
    if operand not in scope["$meta"]:
        raise MongoError(
            40218,
            "Location40218",
            f"query requires {operand} metadata, but it is not available at this stage",
        )
    return scope["$meta"][operand]


def _cond(operand: Any, scope: Scope) -> Any:
    if isinstance(operand, Mapping):
        if set(operand) != {"if", "then", "else"}:
            raise MongoError(17083, "Location17083", "$cond needs exactly 'if', 'then' and 'else'")
        operand = [operand["if"], operand["then"], operand["else"]]
    if not isinstance(operand, list) or len(operand) != 3:
        raise MongoError(16020, "Location16020", "Expression $cond takes exactly 3 arguments")
    return evaluate(operand[1] if truthy(evaluate(operand[0], scope)) else operand[2], scope)


def _if_null(operand: Any, scope: Scope) -> Any:
    if not isinstance(operand, list) or len(operand) < 2:
        raise MongoError(1257300, "Location1257300", "$ifNull needs at least two arguments")
    for expression in operand[:-1]:
        value = evaluate(expression, scope)
        if value is not MISSING and value is not None:
            return value
    return evaluate(operand[-1], scope)


def _switch(operand: Any, scope: Scope) -> Any:
    for branch in operand["branches"]:
        if truthy(evaluate(branch["case"], scope)):
            return evaluate(branch["then"], scope)
    if "default" not in operand:
        raise MongoError(40066, "Location40066", "$switch could not find a matching branch and has no default")
    return evaluate(operand["default"], scope)


def _let(operand: Any, scope: Scope) -> Any:
    bound = {name: evaluate(value, scope) for name, value in operand["vars"].items()}
    return evaluate(operand["in"], {**scope, **bound})


def _array_input(name: str, operand: Any, scope: Scope) -> list[Any] | None:
    value = evaluate(operand["input"], scope)
    if value is MISSING or value is None:
        return None
    if not isinstance(value, list):
        raise MongoError(28651, "Location28651", f"input to {name} must be an array not {bson_type(value)}")
    return value


def _map(operand: Any, scope: Scope) -> Any:
    array = _array_input("$map", operand, scope)
    if array is None:
        return None
    name = operand.get("as", "this")
    return [_or_null(evaluate(operand["in"], {**scope, name: element})) for element in array]


def _filter(operand: Any, scope: Scope) -> Any:
    array = _array_input("$filter", operand, scope)
    if array is None:
        return None
    name = operand.get("as", "this")
    return [element for element in array if truthy(evaluate(operand["cond"], {**scope, name: element}))]


def _reduce(operand: Any, scope: Scope) -> Any:
    array = _array_input("$reduce", operand, scope)
    if array is None:
        return None
    value = evaluate(operand["initialValue"], scope)
    for element in array:
        value = evaluate(operand["in"], {**scope, "value": value, "this": element})
    return value


def _get_field(operand: Any, scope: Scope) -> Any:
    field, source = (operand, "$$CURRENT") if not isinstance(operand, Mapping) else (operand["field"], None)
    document = evaluate(source or operand.get("input", "$$CURRENT"), scope)
    if isinstance(field, Mapping):
        field = evaluate(field, scope)
    return document.get(field, MISSING) if isinstance(document, Mapping) else MISSING


_LAZY: Final[dict[str, Callable[[Any, Scope], Any]]] = {
    "$literal": lambda operand, scope: operand,
    "$expr": evaluate,
    "$meta": _meta,
    "$cond": _cond,
    "$ifNull": _if_null,
    "$switch": _switch,
    "$let": _let,
    "$map": _map,
    "$filter": _filter,
    "$reduce": _reduce,
    "$getField": _get_field,
    "$and": lambda operand, scope: all(truthy(evaluate(e, scope)) for e in _listed(operand)),
    "$or": lambda operand, scope: any(truthy(evaluate(e, scope)) for e in _listed(operand)),
}


def _listed(operand: Any) -> list[Any]:
    return operand if isinstance(operand, list) else [operand]


# --- operators over evaluated operands -----------------------------------------------------------------


def _null(*values: Any) -> bool:
    return any(value is MISSING or value is None for value in values)


def _numbers(name: str, values: list[Any]) -> list[Any]:
    for value in values:
        if type_rank(value) != 2:
            raise MongoError(
                14,
                "TypeMismatch",
                f"{name} only supports numeric types, not {_TYPE_NAMES.get(bson_type(value))}",
            )
    return [float(v.to_decimal()) if isinstance(v, Decimal128) else v for v in values]


def _arithmetic(count: int | None, compute: Callable[..., Any]) -> Callable[[str, list[Any]], Any]:
    def apply(name: str, values: list[Any]) -> Any:
        if count is not None and len(values) != count:
            raise MongoError(
                16020,
                "Location16020",
                f"Expression {name} takes exactly {count} arguments. {len(values)} were passed in.",
            )
        return None if _null(*values) else compute(*_numbers(name, values))

    return apply


def _divide(dividend: Any, divisor: Any) -> float:
    if divisor == 0:
        raise MongoError(2, "BadValue", "can't $divide by zero")
    return float(dividend / divisor)


def _logarithm(value: Any, base: float = math.e) -> float:
    if value <= 0:
        raise MongoError(28766, "Location28766", f"$ln's argument must be a positive number, but is {value}")
    return math.log(value) if base == math.e else math.log(value, base)


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[str, list[Any]], bool]:
    def apply(name: str, values: list[Any]) -> bool:
        if len(values) != 2:
            raise MongoError(16020, "Location16020", f"Expression {name} takes exactly 2 arguments.")
        # Unlike queries, expressions compare across types; missing comes before null.
        left, right = ((0,) if v is MISSING else order_key(v) for v in values)
        return test(left, right)

    return apply


def _concat(_name: str, values: list[Any]) -> Any:
    if _null(*values):
        return None
    for value in values:
        if not isinstance(value, str):
            raise MongoError(
                16702,
                "Location16702",
                f"$concat only supports strings, not {_TYPE_NAMES.get(bson_type(value))}",
            )
    return "".join(values)


def _array_elem_at(_name: str, values: list[Any]) -> Any:
    array, index = values
    if _null(array, index):
        return None
    if not isinstance(array, list):
        raise MongoError(28689, "Location28689", "$arrayElemAt's first argument must be an array")
    return array[int(index)] if -len(array) <= index < len(array) else MISSING


def _end(position: int) -> Callable[[str, list[Any]], Any]:
    return lambda name, values: None if _null(values[0]) else (values[0][position] if values[0] else MISSING)


def _size(_name: str, values: list[Any]) -> int:
    if not isinstance(values[0], list):
        raise MongoError(17124, "Location17124", "The argument to $size must be an array")
    return len(values[0])


def _to_string(_name: str, values: list[Any]) -> Any:
    value = values[0]
    if _null(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if isinstance(value, str | int | ObjectId | Decimal128):
        return str(value)
    raise MongoError(
        241, "ConversionFailure", f"Unsupported conversion from {_TYPE_NAMES.get(bson_type(value))} to string"
    )


def _convert(kind: Callable[[Any], Any]) -> Callable[[str, list[Any]], Any]:
    def apply(name: str, values: list[Any]) -> Any:
        if _null(values[0]):
            return None
        try:
            return kind(values[0])
        except (TypeError, ValueError) as error:
            raise MongoError(241, "ConversionFailure", f"Failed to convert {values[0]!r} in {name}") from error

    return apply


def _in(_name: str, values: list[Any]) -> bool:
    if not isinstance(values[1], list):
        raise MongoError(40081, "Location40081", "$in requires an array as a second argument")
    return any(equal(values[0], element) for element in values[1])


def _concat_arrays(_name: str, values: list[Any]) -> Any:
    return None if _null(*values) else [element for array in values for element in array]


def distinct(values: list[Any]) -> list[Any]:
    """The values without repetitions, first ones kept."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(order_key(value), value)
    return list(found.values())


def _set_union(name: str, values: list[Any]) -> Any:
    joined = _concat_arrays(name, values)
    return None if joined is None else distinct(joined)


def _set_intersection(_name: str, values: list[Any]) -> Any:
    if _null(*values):
        return None
    keys = [{order_key(element) for element in array} for array in values[1:]]
    return [v for v in distinct(values[0]) if all(order_key(v) in present for present in keys)]


def _slice(_name: str, values: list[Any]) -> Any:
    if _null(*values):
        return None
    array, first = values[0], values[1]
    if len(values) == 2:
        return array[:first] if first >= 0 else array[first:]
    start = first if first >= 0 else max(len(array) + first, 0)
    return array[start : start + values[2]]


def _merge_objects(_name: str, values: list[Any]) -> Document:
    merged: Document = {}
    for value in values:
        merged |= {} if _null(value) else value
    return merged


def _array_to_object(_name: str, values: list[Any]) -> Any:
    if _null(values[0]):
        return None
    return {e["k"]: e["v"] for e in values[0]} if values[0] and isinstance(values[0][0], Mapping) else dict(values[0])


def _object_to_array(_name: str, values: list[Any]) -> Any:
    return None if _null(values[0]) else [{"k": key, "v": value} for key, value in values[0].items()]


def _text(compute: Callable[..., Any]) -> Callable[[str, list[Any]], Any]:
    return lambda name, values: compute(*("" if _null(v) else v for v in values))


def accumulate(name: str, values: list[Any]) -> Any:
    """The value of `$sum`, `$avg`, `$min` or `$max` over values; what is no number is left out of sums and
    averages.
    """
    numbers = [v for v in values if v is not MISSING and type_rank(v) == 2]
    if name == "$sum":
        return sum(_numbers(name, numbers)) if numbers else 0
    if name == "$avg":
        return sum(_numbers(name, numbers)) / len(numbers) if numbers else None
    present = [v for v in values if not _null(v)]
    if not present:
        return None
    return (max if name == "$max" else min)(present, key=order_key)


def _accumulated(name: str, values: list[Any]) -> Any:
    single = len(values) == 1 and isinstance(values[0], list)
    return accumulate(name, values[0] if single else values)


_STRICT: Final[dict[str, Callable[[str, list[Any]], Any]]] = {
    "$eq": _compare(lambda a, b: a == b),
    "$ne": _compare(lambda a, b: a != b),
    "$gt": _compare(lambda a, b: a > b),
    "$gte": _compare(lambda a, b: a >= b),
    "$lt": _compare(lambda a, b: a < b),
    "$lte": _compare(lambda a, b: a <= b),
    "$not": lambda name, values: not truthy(values[0]),
    "$add": _arithmetic(None, lambda *v: sum(v)),
    "$subtract": _arithmetic(2, lambda a, b: a - b),
    "$multiply": _arithmetic(None, lambda *v: math.prod(v)),
    "$divide": _arithmetic(2, _divide),
    "$mod": _arithmetic(2, math.fmod),
    "$abs": _arithmetic(1, abs),
    "$ceil": _arithmetic(1, math.ceil),
    "$floor": _arithmetic(1, math.floor),
    "$sqrt": _arithmetic(1, math.sqrt),
    "$pow": _arithmetic(2, lambda a, b: a**b),
    "$exp": _arithmetic(1, math.exp),
    "$ln": _arithmetic(1, _logarithm),
    "$log10": _arithmetic(1, lambda a: _logarithm(a, 10)),
    "$log": _arithmetic(2, _logarithm),
    "$sum": _accumulated,
    "$avg": _accumulated,
    "$min": _accumulated,
    "$max": _accumulated,
    "$concat": _concat,
    "$toLower": _text(lambda s: s.lower()),
    "$toUpper": _text(lambda s: s.upper()),
    "$strLenCP": _text(len),
    "$substrCP": _text(lambda s, start, count: s[start : start + count]),
    "$split": lambda name, values: None if _null(*values) else values[0].split(values[1]),
    "$toString": _to_string,
    "$toInt": _convert(int),
    "$toLong": _convert(Int64),
    "$toDouble": _convert(float),
    "$toBool": _convert(bool),
    "$toObjectId": _convert(ObjectId),
    "$type": lambda name, values: "missing" if values[0] is MISSING else _TYPE_NAMES.get(bson_type(values[0])),
    "$isArray": lambda name, values: isinstance(values[0], list),
    "$isNumber": lambda name, values: values[0] is not MISSING and type_rank(values[0]) == 2,
    "$in": _in,
    "$size": _size,
    "$arrayElemAt": _array_elem_at,
    "$first": _end(0),
    "$last": _end(-1),
    "$slice": _slice,
    "$concatArrays": _concat_arrays,
    "$reverseArray": lambda name, values: None if _null(values[0]) else values[0][::-1],
    "$range": lambda name, values: list(range(*values)),
    "$setUnion": _set_union,
    "$setIntersection": _set_intersection,
    "$mergeObjects": _merge_objects,
    "$objectToArray": _object_to_array,
    "$arrayToObject": _array_to_object,
}
