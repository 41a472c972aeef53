"""The filter language of the Tencent Cloud VectorDB stand-in: tokens, grammar, type rules, evaluation.

Stands for: "Filter expressions" of the vendor's documentation (product 1709, page 112947, August 2025):

    expression := and_part ("or" and_part)*
    and_part   := not_part ("and" not_part)*            "and" binds tighter than "or" (SDK changelog 1.6.0)
    not_part   := "not" not_part | "(" expression ")" | condition
    condition  := field ("=" | "!=" | ">" | ">=" | "<" | "<=") value
                | field ["not"] "in" "(" value ("," value)* ")"
                | field ("include" | "exclude" | "include all") "(" value ("," value)* ")"
                | field "is" ["not"] "null"
    field      := name ["." key]                        one level into a json field
    value      := "text in double quotes" | number

The rules by type are the documented ones: strings take =, !=, in, not in and stand in double quotes; uint64,
int64 and double take the comparisons, in and not in, and uint64 neither a sign nor a fraction; arrays hold
strings and take include, exclude and include all; a json field takes what the value under its key takes; only
indexed fields may be named.

Not documented, so a choice of this stand-in: there is no escape inside a string (a value with a double quote
cannot be written; `escapes=True` allows \\" and \\\\); keywords in any case; a document without the field
matches `!=`, `not in`, `exclude` and `not`, as the complement of the positive form
(`missing_matches_negation=False` turns that off for the first three).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Value = str | int | float
FieldType = Literal["string", "uint64", "int64", "double", "array", "json", "any"]
"""The type of an indexed field; "any" for a field that full indexing (`filterAll`) covers."""
Document = dict[str, Any]
Predicate = Callable[[Document], bool]

MAX_EXPRESSION: Final = 65_536
_KEYWORDS: Final = ("and", "or", "not", "in", "include", "exclude", "all", "is", "null")
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<string>"[^"]*")
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<operator>!=|>=|<=|=|>|<)
    | (?P<punctuation>[(),])
    | (?P<name>[^\W\d]\w*(?:\.\w+)*)
    )""",
    re.VERBOSE,
)
_ESCAPED_STRING: Final = re.compile(r'\s*(?P<string>"(?:[^"\\]|\\["\\])*")')


class FilterError(ValueError):
    """The expression is not one, or names what may not be named."""


@dataclass(frozen=True)
class Schema:
    """What a filter may name.

    Attributes:
        fields: Indexed field -> type.
        index_all: Every other scalar field is indexed too (`filterAll`), but those in `without_index`.
        without_index: Fields that full indexing leaves out.
        max_length: Strings of such fields are indexed up to this length (`maxStrLen`).
    """

    fields: Mapping[str, FieldType]
    index_all: bool = False
    without_index: frozenset[str] = frozenset()
    max_length: int = 32

    def type_of(self, path: str) -> FieldType:
        name, _, key = path.partition(".")
        kind = self.fields.get(name)
        if kind is None and self.index_all and name not in self.without_index:
            kind = "any"
        if kind is None:
            raise FilterError(f"field '{name}' has no filter index")
        if key and (kind not in ("json", "any") or "." in key):
            raise FilterError(f"'{path}': only one level below a json field can be named")
        if kind == "json" and not key:
            raise FilterError(f"json field '{name}' can only be filtered by a key: {name}.key")
        return "any" if key else kind


class _Tokens:
    def __init__(self, text: str, *, escapes: bool) -> None:
        if len(text) > MAX_EXPRESSION:
            raise FilterError(f"the expression has {len(text)} characters, more than {MAX_EXPRESSION}")
        self.found: list[tuple[str, Any]] = []
        self.at = 0
        position = 0
        end = len(text.rstrip())
        while position < end:
            match = (_ESCAPED_STRING.match(text, position) if escapes else None) or _TOKEN.match(text, position)
            if match is None:
                raise FilterError(f"syntax error at position {position}: {text[position : position + 20]!r}")
            self.found.append(_token(match, escapes))
            position = match.end()
        self.found.append(("end", ""))

    def peek(self, offset: int = 0) -> tuple[str, Any]:
        return self.found[min(self.at + offset, len(self.found) - 1)]

    def next(self) -> tuple[str, Any]:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Take the words when they come next."""
        if all(self.peek(i)[0] in ("keyword", "punctuation") and self.peek(i)[1] == w for i, w in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise FilterError(f"expected '{word}', found {self.peek()[1]!r}")


def _token(match: re.Match[str], escapes: bool) -> tuple[str, Any]:
    kind, text = match.lastgroup or "", match.group(match.lastgroup or 0)
    if kind == "string":
        return kind, re.sub(r"\\(.)", r"\1", text[1:-1]) if escapes else text[1:-1]
    if kind == "number":
        return kind, int(text) if re.fullmatch(r"-?\d+", text) else float(text)
    if kind == "name" and text.lower() in _KEYWORDS:
        return "keyword", text.lower()
    return kind, text


class Filter:
    """A parsed expression.

    Args:
        text: The expression.
        schema: What it may name.
        escapes: Allow \\" and \\\\ inside strings.
        missing_matches_negation: Whether a document without the field matches `!=`, `not in` and `exclude`.

    Raises: FilterError: not an expression, an unindexed field, an operator or a value that does not fit the
    field's type.
    """

    def __init__(
        self, text: str, schema: Schema, *, escapes: bool = False, missing_matches_negation: bool = True
    ) -> None:
        self._schema = schema
        self._missing = missing_matches_negation
        self._tokens = _Tokens(text, escapes=escapes)
        self.matches = self._or()
        if self._tokens.peek()[0] != "end":
            raise FilterError(f"unexpected {self._tokens.peek()[1]!r} after the expression")

    def _or(self) -> Predicate:
        parts = [self._and()]
        while self._tokens.accept("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda doc: any(part(doc) for part in parts)

    def _and(self) -> Predicate:
        parts = [self._not()]
        while self._tokens.accept("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else lambda doc: all(part(doc) for part in parts)

    def _not(self) -> Predicate:
        if self._tokens.accept("not"):
            inner = self._not()
            return lambda doc: not inner(doc)
        if self._tokens.accept("("):
            inner = self._or()
            self._tokens.expect(")")
            return inner
        return self._condition()

    def _condition(self) -> Predicate:
        kind, path = self._tokens.next()
        if kind != "name":
            raise FilterError(f"expected a field name, found {path!r}")
        field_type = self._schema.type_of(path)
        read = self._reader(path)
        if self._tokens.accept("is"):
            negated = self._tokens.accept("not")
            self._tokens.expect("null")
            return lambda doc: (read(doc) is None) != negated
        if self._tokens.peek()[0] == "operator":
            operator = self._tokens.next()[1]
            value = self._value()
            _check_comparison(path, field_type, operator, value)
            return self._comparison(read, operator, value)
        if self._tokens.accept("in") or self._tokens.peek()[1] == "not":
            negated = self._tokens.accept("not", "in")
            values = self._values()
            _check_members(path, field_type, values)
            return self._negatable(read, lambda v: any(_same(v, value) for value in values), negated)
        return self._array_condition(path, field_type, read)

    def _array_condition(self, path: str, field_type: FieldType, read: Callable[[Document], Any]) -> Predicate:
        if self._tokens.accept("include", "all"):
            operator = "include all"
        elif self._tokens.accept("include"):
            operator = "include"
        elif self._tokens.accept("exclude"):
            operator = "exclude"
        else:
            raise FilterError(f"expected an operator after '{path}', found {self._tokens.peek()[1]!r}")
        if field_type not in ("array", "any"):
            raise FilterError(f"'{operator}' needs an array, '{path}' is {field_type}")
        values = self._values()
        if not all(isinstance(value, str) for value in values):
            raise FilterError(f"the elements of array '{path}' are strings in double quotes")
        wanted = set(values)
        if operator == "include all":
            return lambda doc: isinstance(array := read(doc), list) and wanted <= set(_strings(array))
        return self._negatable(
            read, lambda v: isinstance(v, list) and bool(wanted & set(_strings(v))), operator == "exclude"
        )

    def _value(self) -> Value:
        kind, value = self._tokens.next()
        if kind not in ("string", "number"):
            raise FilterError(f"expected a string in double quotes or a number, found {value!r}")
        return value  # type: ignore[no-any-return]

    def _values(self) -> list[Value]:
        self._tokens.expect("(")
        values = [self._value()]
        while self._tokens.accept(","):
            values.append(self._value())
        self._tokens.expect(")")
        return values

    def _reader(self, path: str) -> Callable[[Document], Any]:
        name, _, key = path.partition(".")
        shorten = name not in self._schema.fields

        def read(doc: Document) -> Any:
            value = doc.get(name)
            if key:
                value = value.get(key) if isinstance(value, Mapping) else None
            return value[: self._schema.max_length] if shorten and isinstance(value, str) else value

        return read

    def _comparison(self, read: Callable[[Document], Any], operator: str, value: Value) -> Predicate:
        if operator in ("=", "!="):
            return self._negatable(read, lambda v: _same(v, value), operator == "!=")
        compare = _COMPARISONS[operator]
        return lambda doc: _is_number(found := read(doc)) and compare(found, value)

    def _negatable(self, read: Callable[[Document], Any], test: Callable[[Any], bool], negated: bool) -> Predicate:
        if not negated:
            return lambda doc: test(read(doc))

        def negation(doc: Document) -> bool:
            value = read(doc)
            return self._missing if value is None else not test(value)

        return negation


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(found: Any, value: Value) -> bool:
    if isinstance(value, str):
        return isinstance(found, str) and found == value
    return _is_number(found) and found == value


def _strings(array: list[Any]) -> list[str]:
    return [element for element in array if isinstance(element, str)]


def _check_comparison(path: str, field_type: FieldType, operator: str, value: Value) -> None:
    if field_type == "array":
        raise FilterError(f"array '{path}' takes include, exclude and include all, not '{operator}'")
    if isinstance(value, str) and operator not in ("=", "!="):
        raise FilterError(f"a string takes =, !=, in and not in, not '{operator}' (field '{path}')")
    _check_members(path, field_type, [value])


def _check_members(path: str, field_type: FieldType, values: list[Value]) -> None:
    if field_type == "array":
        raise FilterError(f"array '{path}' takes include, exclude and include all, not in")
    for value in values:
        if field_type == "string" and not isinstance(value, str):
            raise FilterError(f"'{path}' is a string: {value!r} has to stand in double quotes")
        if field_type in ("uint64", "int64", "double") and isinstance(value, str):
            raise FilterError(f"'{path}' is {field_type}, not comparable with the string {value!r}")
        if field_type in ("uint64", "int64") and isinstance(value, float):
            raise FilterError(f"'{path}' is {field_type}: {value!r} is no integer")
        if field_type == "uint64" and not isinstance(value, str) and value < 0:
            raise FilterError(f"'{path}' is uint64: {value!r} is negative")
