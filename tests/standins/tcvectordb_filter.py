"""Filter expressions of Tencent Cloud VectorDB, as far as `TcVectorStore` sends them.

After "Filter expressions" of the vendor's documentation (product 1709, page 112947, August 2025)::

    expression := part ("or" part)*
    part       := condition ("and" condition)*        "and" binds tighter (SDK changelog 1.6.0)
    condition  := "(" expression ")"
                | field ("=" | "!=" | ">" | ">=" | "<" | "<=") value
                | field ["not"] "in" values | field ("include" | "exclude") values
    values     := "(" value ("," value)* ")"
    value      := "text in double quotes" | number

Texts take =, !=, in and not in; unsigned numbers the comparisons; arrays hold texts and take include and exclude; only
fields with a filter index may be named. Not documented: there is no escape inside a text, and a row without the field
meets no condition (a store that relies on either fails here).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Document = dict[str, Any]
Predicate = Callable[[Document], bool]

MAX_EXPRESSION = 65_536
_TOKEN = re.compile(r'\s*("[^"]*"|\d+(?![\w.])|!=|>=|<=|[=<>(),]|[^\W\d]\w*)')
_OPERATORS = {
    "string": ("=", "!=", "in", "not in"),
    "uint64": ("=", "!=", ">", ">=", "<", "<="),
    "array": ("include", "exclude"),
}
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "in": lambda found, values: found in values,
    "not in": lambda found, values: found not in values,
    "include": lambda found, values: not values.isdisjoint(found),
    "exclude": lambda found, values: values.isdisjoint(found),
}


class FilterError(ValueError):
    """No expression, or one that names what may not be named."""


def parse(text: str, types: Mapping[str, str]) -> Predicate:
    """What `text` keeps.

    Args:
        types: Indexed field -> "string", "uint64" or "array".
    """
    if len(text) > MAX_EXPRESSION:
        raise FilterError(f"the expression has {len(text)} characters, more than {MAX_EXPRESSION}")
    return _Parser(text, types).whole()


class _Parser:
    def __init__(self, text: str, types: Mapping[str, str]) -> None:
        self._types = types
        self._tokens: list[str] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise FilterError(f"syntax error at position {place}: {text[place : place + 20]!r}")
            self._tokens.append(found[1])
            place = found.end()
        self._tokens.reverse()

    def whole(self) -> Predicate:
        found = self._either()
        if self._tokens:
            raise FilterError(f"unexpected {self._tokens[-1]!r} after the expression")
        return found

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._accept("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda row: any(part(row) for part in parts)

    def _both(self) -> Predicate:
        parts = [self._condition()]
        while self._accept("and"):
            parts.append(self._condition())
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def _condition(self) -> Predicate:
        if self._accept("("):
            inner = self._either()
            self._expect(")")
            return inner
        field, how = self._next(), self._next()
        if how == "not":
            self._expect("in")
            how = "not in"
        kind = self._types.get(field)
        if how not in _OPERATORS.get(kind or "", ()):
            raise FilterError(f"field {field!r} of type {kind} does not take {how!r}")
        wanted: Any = self._value(kind) if how in ("=", "!=", ">", ">=", "<", "<=") else self._values(kind)
        test = _TESTS[how]
        return lambda row: (found := row.get(field)) is not None and test(found, wanted)

    def _values(self, kind: str | None) -> set[Any]:
        self._expect("(")
        values = {self._value(kind)}
        while self._accept(","):
            values.add(self._value(kind))
        self._expect(")")
        return values

    def _value(self, kind: str | None) -> str | int:
        token = self._next()
        if kind == "uint64" and token.isdecimal():
            return int(token)
        if kind != "uint64" and token.startswith('"'):
            return token[1:-1]
        raise FilterError(f"{token!r} is no value of a field of type {kind}")

    def _next(self) -> str:
        if not self._tokens:
            raise FilterError("the expression ends too early")
        return self._tokens.pop()

    def _accept(self, word: str) -> bool:
        if self._tokens and self._tokens[-1] == word:
            self._tokens.pop()
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise FilterError(f"expected {word!r}, found {self._tokens[-1] if self._tokens else 'the end'!r}")
