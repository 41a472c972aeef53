"""The filter language and its reference meaning.

Write filters in Python, ``(F("year") >= 2024) & F("tags").contains("legal")``; as a plain mapping,
``{"year": 2024, "kind": ["manual", "note"]}`` (a scalar is equality, a list or tuple is membership, fields are
ANDed); or as JSON nodes ``{"field": ..., "operator": ..., "value": ...}``, which is what models write.

`matching.matches` is the reference meaning; every store agrees with it:

* `True` is not 1, and "1" is not 1; 1 equals 1.0. Text compares exactly.
* A missing field matches only `is_null`, `exists=False`, `ne` and `not_in`. `eq None` means `is_null`.
* gt, gte, lt, lte and between compare numbers with numbers (as 64-bit floats) and dates with dates; text counts as
  a date when it is a whole ISO 8601 date or datetime; one without a zone is UTC. Everything else never matches.
* contains, contains_any and contains_all look into lists only; eq, ne, in and not_in look at scalars only.
* ``a.b`` names the key "a.b", or "b" inside the dict "a"; the less nested one wins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, get_args

from ..documents import date_text, storable_text
from ..errors import FilterError

Operator = Literal[
    "eq", "ne", "gt", "gte", "lt", "lte", "in", "not_in", "between",
    "contains", "contains_any", "contains_all", "is_null", "exists",
]  # fmt: skip
Scalar = str | int | float | bool | None

OPERATORS: tuple[str, ...] = get_args(Operator)
_LIST_OPERATORS = ("in", "not_in", "contains_any", "contains_all")
_RANGE_OPERATORS = ("gt", "gte", "lt", "lte", "between")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:?\d\d)?)?", re.ASCII)


class Filter:
    """A condition or a combination of conditions; combine with ``&``, ``|`` and ``~``."""

    def __and__(self, other: Filter) -> Filter:
        return And((self, other))

    def __or__(self, other: Filter) -> Filter:
        return Or((self, other))

    def __invert__(self) -> Filter:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a filter has no truth value; combine filters with &, | and ~, not and, or, not")


@dataclass(frozen=True)
class Condition(Filter):
    """``field operator value``. Build it with `F`, which checks the value.

    Raises: FilterError: the operator is unknown, or the value does not fit it.
    """

    field: str
    operator: Operator
    value: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.field, str) or not self.field:
            raise FilterError(f"a filter field is a non-empty string, got {self.field!r}")
        if self.operator not in OPERATORS:
            raise FilterError(f"unknown operator {self.operator!r}; use one of {', '.join(OPERATORS)}")
        object.__setattr__(self, "field", storable_text(self.field))
        object.__setattr__(self, "value", _checked_value(self.field, self.operator, self.value))


@dataclass(frozen=True)
class And(Filter):
    """All of `filters`; none at all is always true."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True)
class Or(Filter):
    """Any of `filters`; none at all is never true."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True)
class Not(Filter):
    """Not `filter`."""

    filter: Filter


class F:
    """A metadata field, to be compared: ``F("year") >= 2024``, ``F("tags").contains("a")``."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, field: str) -> None:
        self.field = field

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]
        return Condition(self.field, "eq", value)

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]
        return Condition(self.field, "ne", value)

    def __gt__(self, value: Any) -> Filter:
        return Condition(self.field, "gt", value)

    def __ge__(self, value: Any) -> Filter:
        return Condition(self.field, "gte", value)

    def __lt__(self, value: Any) -> Filter:
        return Condition(self.field, "lt", value)

    def __le__(self, value: Any) -> Filter:
        return Condition(self.field, "lte", value)

    def between(self, low: Any, high: Any) -> Filter:
        """``low <= field <= high``."""
        return Condition(self.field, "between", (low, high))

    def in_(self, values: Iterable[Any]) -> Filter:
        """Equal to one of `values`; an empty list matches nothing."""
        return Condition(self.field, "in", tuple(values))

    def not_in(self, values: Iterable[Any]) -> Filter:
        """Equal to none of `values`; a missing field matches."""
        return Condition(self.field, "not_in", tuple(values))

    def contains(self, value: Any) -> Filter:
        """The field is a list with `value` in it."""
        return Condition(self.field, "contains", value)

    def contains_any(self, values: Iterable[Any]) -> Filter:
        """The field is a list with one of `values` in it."""
        return Condition(self.field, "contains_any", tuple(values))

    def contains_all(self, values: Iterable[Any]) -> Filter:
        """The field is a list with all of `values` in it."""
        return Condition(self.field, "contains_all", tuple(values))

    def is_null(self, value: bool = True) -> Filter:
        """The field is missing or None (`False`: it is there and not None)."""
        return Condition(self.field, "is_null", value)

    def exists(self, value: bool = True) -> Filter:
        """The field is there, even with None (`False`: it is missing)."""
        return Condition(self.field, "exists", value)


def conditions_of(value: Filter) -> list[Condition]:
    """Every condition in `value`, left to right."""
    match value:
        case Condition():
            return [value]
        case And(filters) | Or(filters):
            return [condition for part in filters for condition in conditions_of(part)]
        case Not(inner):
            return conditions_of(inner)
    raise FilterError(f"unknown filter {value!r}")


def range_value(value: Any) -> tuple[Literal["number", "date"], float] | None:
    """What a range operator compares: a number, or the seconds since 1970 of a date; None for all else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return "number", float(value)
        except OverflowError:
            return "number", math.copysign(1.7976931348623157e308, value)
    if isinstance(value, date):
        value = date_text(value)
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return "date", (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        except (ValueError, OverflowError):
            return None
    return None


def _checked_value(field: str, operator: str, value: Any) -> Any:
    where = f"filter on {field!r}: {operator}"
    if operator in ("is_null", "exists"):
        value = True if value is None else value
        if not isinstance(value, bool):
            raise FilterError(f"{where} takes true or false, got {value!r}")
        return value
    if operator == "between" or operator in _LIST_OPERATORS:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
            raise FilterError(f"{where} takes a list, got {value!r}")
        values = tuple(_checked_scalar(where, item) for item in value)
        if operator == "between":
            kinds = {ordinal and ordinal[0] for ordinal in map(range_value, values)}
            if len(values) != 2 or len(kinds) != 1 or None in kinds:
                raise FilterError(f"{where} takes two numbers or two ISO 8601 dates, got {value!r}")
        return values
    if isinstance(value, list | tuple | set | dict):
        raise FilterError(
            f"{where} takes one value, got {value!r}; use in for membership, "
            "contains_any or contains_all for list fields"
        )
    value = _checked_scalar(where, value)
    if operator in _RANGE_OPERATORS and range_value(value) is None:
        raise FilterError(f"{where} takes a number or an ISO 8601 date, got {value!r}")
    return value


def _checked_scalar(where: str, value: Any) -> Scalar:
    if isinstance(value, date):
        return date_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise FilterError(f"{where}: {value} is not a finite number")
    if isinstance(value, str):
        return storable_text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise FilterError(f"{where}: {value!r} is a {type(value).__name__}; use text, numbers, bools, dates or None")
