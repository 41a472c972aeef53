"""Two inverted indexes in memory: filter tokens and BM25 postings, both from a key to row numbers.

Rows are only ever added. A deleted row is left out by the caller's mask of live rows, so statistics are live without
bookkeeping, until the table is compacted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ...filters.plan import AllOf, AnyOf, HasAny, IndexedMetadata, InRange, NotOf, Plan
from ...retrieval.lexical import K1, B, idf
from ..engine.records import Rows
from .vectors import Mask, Scores

Value = TypeVar("Value", int, float)
Key = TypeVar("Key", bound=Hashable)
Term = TypeVar("Term", bound=Hashable)

_COMPARE: Mapping[str, Callable[[Scores, float], Mask]] = {
    "gt": np.greater,
    "gte": np.greater_equal,
    "lt": np.less,
    "lte": np.less_equal,
}


class _Column(Generic[Value]):
    """Row numbers, each with a value; grows cheaply and is read as numpy."""

    __slots__ = ("_rows", "_values")

    def __init__(self, typecode: str) -> None:
        self._rows = array("I")
        self._values: array[Value] = array(typecode)

    def append(self, row: int, value: Value) -> None:
        self._rows.append(row)
        self._values.append(value)

    def extend(self, rows: bytes, values: bytes) -> None:
        """Add rows and values as they lie in arrays of their types."""
        self._rows.frombytes(rows)
        self._values.frombytes(values)

    def read(self, alive: Mask) -> tuple[Rows, Scores]:
        """Live rows and their values, as copies."""
        rows = np.array(self._rows, dtype=np.intp)
        live = alive[rows]
        return rows[live], np.array(self._values, dtype=np.float64)[live]

    def all(self) -> tuple[Rows, Scores]:
        """Rows, dead ones included, and their values, as copies."""
        return np.array(self._rows, dtype=np.intp), np.array(self._values, dtype=np.float64)

    def renumbered(self, new_rows: Rows) -> _Column[Value] | None:
        """The live part with new row numbers (-1 is dead); None when nothing is left."""
        rows = new_rows[np.array(self._rows, dtype=np.intp)]
        live = rows >= 0
        if not live.any():
            return None
        column: _Column[Value] = _Column(self._values.typecode)
        column._rows.frombytes(rows[live].astype(np.uint32).tobytes())
        column._values.frombytes(np.array(self._values)[live].tobytes())
        return column


@dataclass(frozen=True)
class FilterColumns:
    """What is indexed of the metadata of some rows, by token and by key instead of by row."""

    tokens: dict[str, list[int]]
    """Token -> places among the rows, from 0, ascending."""
    numbers: dict[str, tuple[list[int], list[float]]]
    """Range key -> places, and the number at each."""

    @classmethod
    def of(cls, metadata: Iterable[IndexedMetadata]) -> FilterColumns:
        tokens: dict[str, list[int]] = {}
        numbers: dict[str, tuple[list[int], list[float]]] = {}
        for place, indexed in enumerate(metadata):
            for token in indexed.tokens:
                tokens.setdefault(token, []).append(place)
            for key, number in indexed.numbers.items():
                places, values = numbers.setdefault(key, ([], []))
                places.append(place)
                values.append(number)
        return cls(tokens, numbers)

    def rows(self, size: int) -> list[IndexedMetadata]:
        """What `of` got, for so many rows."""
        tokens: list[list[str]] = [[] for _ in range(size)]
        numbers: list[dict[str, float]] = [{} for _ in range(size)]
        for token, places in self.tokens.items():
            for place in places:
                tokens[place].append(token)
        for key, (places, values) in self.numbers.items():
            for place, value in zip(places, values, strict=True):
                numbers[place][key] = value
        return [IndexedMetadata(tuple(some), mapped) for some, mapped in zip(tokens, numbers, strict=True)]


class Lookup(Protocol):
    """Rows by filter token and by number; dead rows included, ascending."""

    def having(self, token: str) -> Rows: ...

    def numbers(self, key: str) -> tuple[Rows, Scores]:
        """Rows that have a number of this range key, and the numbers."""


def matching_mask(node: Plan, index: Lookup, size: int) -> Mask:
    """Which of `size` rows match; dead rows may be either."""
    match node:
        case HasAny(tokens):
            found = np.zeros(size, dtype=np.bool_)
            for token in tokens:
                found[index.having(token)] = True
            return found
        case InRange(key, bounds):
            found = np.zeros(size, dtype=np.bool_)
            found[_inside(index, key, dict(bounds))] = True
            return found
        case AllOf(parts):
            found = np.ones(size, dtype=np.bool_)
            for part in parts:
                found &= matching_mask(part, index, size)
            return found
        case AnyOf(parts):
            found = np.zeros(size, dtype=np.bool_)
            for part in parts:
                found |= matching_mask(part, index, size)
            return found
        case NotOf(part):
            return ~matching_mask(part, index, size)


def matching_rows(node: Plan, index: Lookup, alive: Mask) -> Rows:
    """Rows that match and are alive, ascending."""
    match node:
        case HasAny((token,)):
            # Without a mask of all rows, which takes longer than comparing the vectors of 1 %.
            rows = index.having(token)
            return rows[alive[rows]]
        case InRange(key, bounds):
            rows = _inside(index, key, dict(bounds))
            return rows[alive[rows]]
    return np.flatnonzero(matching_mask(node, index, len(alive)) & alive)


def _inside(index: Lookup, key: str, bounds: Mapping[str, float]) -> Rows:
    """Rows whose number is within the bounds, dead ones included."""
    rows, numbers = index.numbers(key)
    inside = np.ones(len(rows), dtype=np.bool_)
    for bound, value in bounds.items():
        inside &= _COMPARE[bound](numbers, value)
    return rows[inside]


class FilterIndex:
    """Filter tokens and numbers of all rows."""

    def __init__(self) -> None:
        self._tokens: dict[str, array[int]] = {}
        """Token -> rows."""
        self._numbers: dict[str, _Column[float]] = {}

    def extend(self, first: int, columns: FilterColumns) -> None:
        """Add rows, from `first` on."""
        for token, places in columns.tokens.items():
            rows = array("I", [first + place for place in places])
            if (known := self._tokens.get(token)) is None:
                self._tokens[token] = rows
            else:
                known.extend(rows)
        for key, (places, numbers) in columns.numbers.items():
            rows = array("I", [first + place for place in places])
            _column(self._numbers, key, "d").extend(rows.tobytes(), array("d", numbers).tobytes())

    def having(self, token: str) -> Rows:
        return np.array(self._tokens.get(token, ()), dtype=np.intp)

    def numbers(self, key: str) -> tuple[Rows, Scores]:
        if (column := self._numbers.get(key)) is None:
            return np.empty(0, np.intp), np.empty(0)
        return column.all()

    def renumber(self, new_rows: Rows) -> None:
        """Give every live row its new number; -1 is dead."""
        tokens = {token: new_rows[np.array(rows, dtype=np.intp)] for token, rows in self._tokens.items()}
        self._tokens = {token: _array(rows[rows >= 0]) for token, rows in tokens.items() if (rows >= 0).any()}
        self._numbers = _renumbered(self._numbers, new_rows)


def bm25(
    found: Iterable[tuple[float, Rows, npt.NDArray[Any]]], lengths: npt.NDArray[Any], counted: int, average: float
) -> Scores:
    """BM25 of every row, 0 where no token of the query is.

    Args:
        found: For each token of the query: its weight there, the live rows that have it, and how often.
        lengths: Tokens per row.
        counted: Number of live rows with tokens; `average`: their mean length.
    """
    scores = np.zeros(len(lengths), dtype=np.float64)
    for weight, rows, frequency in found:
        norm = K1 * (1 - B + B * lengths[rows] / average)
        scores[rows] += weight * idf(counted, len(rows)) * frequency / (frequency + norm)
    return scores


class KeywordIndex(Generic[Term]):
    """BM25 with the statistics of the live rows that have a token."""

    def __init__(self) -> None:
        self._postings: dict[Term, _Column[int]] = {}

    def add(self, row: int, terms: Mapping[Term, int]) -> None:
        for term, frequency in terms.items():
            _column(self._postings, term, "I").append(row, frequency)

    def extend(self, term: Term, rows: npt.NDArray[np.uint32], frequencies: npt.NDArray[np.uint32]) -> None:
        """Add what many rows have of one term."""
        _column(self._postings, term, "I").extend(rows.tobytes(), frequencies.tobytes())

    def scores(self, query: Mapping[Term, float], alive: Mask, lengths: npt.NDArray[np.int64]) -> Scores:
        """BM25 of every row, 0 where no token of `query` is; `lengths` are tokens per row."""
        counted = lengths[alive & (lengths > 0)]
        average = counted.mean() if len(counted) else 1.0
        found = (
            (weight, *column.read(alive))
            for term, weight in query.items()
            if (column := self._postings.get(term)) is not None
        )
        return bm25(found, lengths, len(counted), average)

    def frequencies(self, terms: Iterable[Term], alive: Mask) -> dict[Term, int]:
        """Number of live rows that have each term; those of none left out."""
        columns = {term: column for term in terms if (column := self._postings.get(term)) is not None}
        counted = {term: len(column.read(alive)[0]) for term, column in columns.items()}
        return {term: count for term, count in counted.items() if count}

    def renumber(self, new_rows: Rows) -> None:
        """Give every live row its new number; -1 is dead."""
        self._postings = _renumbered(self._postings, new_rows)


def _array(rows: Rows) -> array[int]:
    return array("I", rows.astype(np.uint32).tobytes())


def _column(columns: dict[Key, _Column[Value]], key: Key, typecode: str) -> _Column[Value]:
    column = columns.get(key)
    if column is None:
        column = columns[key] = _Column(typecode)
    return column


def _renumbered(columns: dict[Key, _Column[Value]], new_rows: Rows) -> dict[Key, _Column[Value]]:
    return {key: left for key, column in columns.items() if (left := column.renumbered(new_rows)) is not None}
