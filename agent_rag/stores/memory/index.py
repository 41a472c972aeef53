"""The two inverted indexes of `MemoryStore`: filter tokens and BM25 postings, both from a key to row numbers.

Rows are only ever added. A deleted row is left out by the caller's mask of live rows, so statistics are live without
bookkeeping, until the table is compacted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ...filters.plan import AllOf, AnyOf, HasAny, IndexedMetadata, InRange, NotOf, Plan
from ...retrieval.lexical import K1, B, idf
from .._shared.vector_rows import Mask, Rows, Scores

Value = TypeVar("Value", int, float)


class _Column(Generic[Value]):
    """Row numbers, each with a value; grows cheaply and is read as numpy."""

    __slots__ = ("_rows", "_values")

    def __init__(self, typecode: str) -> None:
        self._rows = array("I")
        self._values: array[Value] = array(typecode)

    def append(self, row: int, value: Value) -> None:
        self._rows.append(row)
        self._values.append(value)

    def read(self, alive: Mask) -> tuple[Rows, Scores]:
        """Live rows and their values, as copies."""
        rows = np.array(self._rows, dtype=np.intp)
        live = alive[rows]
        return rows[live], np.array(self._values, dtype=np.float64)[live]

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


class FilterIndex:
    """Evaluates plans over all rows at once."""

    def __init__(self) -> None:
        self._tokens: dict[str, _Column[int]] = {}
        self._numbers: dict[str, _Column[float]] = {}

    def add(self, row: int, indexed: IndexedMetadata) -> None:
        for token in indexed.tokens:
            _column(self._tokens, token, "B").append(row, 1)
        for key, number in indexed.numbers.items():
            _column(self._numbers, key, "d").append(row, number)

    def mask(self, node: Plan, alive: Mask) -> Mask:
        """Which rows match; dead rows may be either."""
        match node:
            case HasAny(tokens):
                return self._having(tokens, alive)
            case InRange(key, bounds):
                return self._within(key, dict(bounds), alive)
            case AllOf(parts):
                found = np.ones(len(alive), dtype=np.bool_)
                for part in parts:
                    found &= self.mask(part, alive)
                return found
            case AnyOf(parts):
                found = np.zeros(len(alive), dtype=np.bool_)
                for part in parts:
                    found |= self.mask(part, alive)
                return found
            case NotOf(part):
                return ~self.mask(part, alive)

    def renumber(self, new_rows: Rows) -> None:
        """Give every live row its new number; -1 is dead."""
        self._tokens = _renumbered(self._tokens, new_rows)
        self._numbers = _renumbered(self._numbers, new_rows)

    def _having(self, tokens: Iterable[str], alive: Mask) -> Mask:
        found = np.zeros(len(alive), dtype=np.bool_)
        for token in tokens:
            if (column := self._tokens.get(token)) is not None:
                found[column.read(alive)[0]] = True
        return found

    def _within(self, key: str, bounds: Mapping[str, float], alive: Mask) -> Mask:
        found = np.zeros(len(alive), dtype=np.bool_)
        if (column := self._numbers.get(key)) is not None:
            rows, numbers = column.read(alive)
            inside = (numbers > bounds.get("gt", -np.inf)) & (numbers >= bounds.get("gte", -np.inf))
            inside &= (numbers < bounds.get("lt", np.inf)) & (numbers <= bounds.get("lte", np.inf))
            found[rows[inside]] = True
        return found


class KeywordIndex:
    """BM25 with the statistics of the live rows that have a token."""

    def __init__(self) -> None:
        self._postings: dict[str, _Column[int]] = {}

    def add(self, row: int, terms: Mapping[str, int]) -> None:
        for term, frequency in terms.items():
            _column(self._postings, term, "I").append(row, frequency)

    def scores(self, query: Counter[str], alive: Mask, lengths: npt.NDArray[np.int64]) -> Scores:
        """BM25 of every row, 0 where no token of `query` is; `lengths` are tokens per row."""
        scores = np.zeros(len(alive), dtype=np.float64)
        counted = lengths[alive & (lengths > 0)]
        average = counted.mean() if len(counted) else 1.0
        for term, times in query.items():
            if (column := self._postings.get(term)) is None:
                continue
            rows, frequency = column.read(alive)
            norm = K1 * (1 - B + B * lengths[rows] / average)
            scores[rows] += times * idf(len(counted), len(rows)) * frequency / (frequency + norm)
        return scores

    def renumber(self, new_rows: Rows) -> None:
        """Give every live row its new number; -1 is dead."""
        self._postings = _renumbered(self._postings, new_rows)


def _column(columns: dict[str, _Column[Value]], key: str, typecode: str) -> _Column[Value]:
    column = columns.get(key)
    if column is None:
        column = columns[key] = _Column(typecode)
    return column


def _renumbered(columns: dict[str, _Column[Value]], new_rows: Rows) -> dict[str, _Column[Value]]:
    return {key: left for key, column in columns.items() if (left := column.renumbered(new_rows)) is not None}
