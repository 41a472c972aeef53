"""What rows of a collection have of a key: read from the segments when asked for, kept, and read on from there."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..engine.records import Rows
from ..rows.vectors import Scores
from .rows import RowState
from .segments import NUMBERS, TOKENS, Kind, Segment, key_of, read_key

_KEPT_POSTINGS = 8_000_000


class _Found(NamedTuple):
    """Postings of one key, of the chunks below `stop`."""

    stop: int
    rows: Rows
    values: npt.NDArray[Any]


class KeptPostings:
    """Of the keys that were asked for lately. Rows are those of one `CollectionRows`; any thread may ask."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Kind, int], _Found] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(
        self, connection: sqlite3.Connection, segments: Sequence[Segment], state: RowState, kind: Kind, key: int
    ) -> tuple[Rows, npt.NDArray[Any]]:
        """Rows that have `key`, ascending, dead ones included, and their values."""
        with self._lock:
            found = self._kept.get((kind, key))
        stop = segments[-1].stop if segments else 0
        if found is None or found.stop < stop:
            found = self._read_on(connection, segments, state, kind, key, found)
            self._keep((kind, key), found)
        rows, values = found.rows, found.values
        if len(rows) and rows[-1] >= len(state.alive):  # another thread has seen more
            rows = rows[: int(np.searchsorted(rows, len(state.alive)))]
        return rows, values[: len(rows)]

    def _read_on(
        self,
        connection: sqlite3.Connection,
        segments: Sequence[Segment],
        state: RowState,
        kind: Kind,
        key: int,
        known: _Found | None,
    ) -> _Found:
        start = 0 if known is None else known.stop
        parts = [read_key(connection, segment, kind, key) for segment in segments if segment.stop > start]
        chunks = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, np.int64)
        values = np.concatenate([part[1] for part in parts]) if parts else np.empty(0, np.uint8)
        rows = state.rows_of(chunks)
        # A chunk without a row was removed before the rows were loaded; a merged segment begins before `start`.
        new = (rows >= 0) & (chunks >= start)
        rows, values = rows[new], values[new]
        if known is not None:
            rows, values = np.concatenate((known.rows, rows)), np.concatenate((known.values, values))
        return _Found(segments[-1].stop if segments else 0, rows, values)

    def _keep(self, key: tuple[Kind, int], found: _Found) -> None:
        with self._lock:
            old = self._kept.pop(key, None)
            self._size += len(found.rows) - (len(old.rows) if old is not None else 0)
            self._kept[key] = found
            while self._size > _KEPT_POSTINGS and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1].rows)


class Lookup:
    """One reader's view of the postings (`rows.inverted.Lookup`)."""

    def __init__(
        self, kept: KeptPostings, connection: sqlite3.Connection, segments: Sequence[Segment], state: RowState
    ) -> None:
        self._kept, self._connection, self._segments, self._state = kept, connection, segments, state

    def having(self, token: str) -> Rows:
        return self._get(TOKENS, token)[0]

    def numbers(self, key: str) -> tuple[Rows, Scores]:
        return self._get(NUMBERS, key)

    def occurrences(self, word: str) -> tuple[Rows, npt.NDArray[Any]]:
        """Live rows that have the word, and how often."""
        rows, frequencies = self._get(TOKENS, word)
        live = self._state.alive[rows]
        return rows[live], frequencies[live]

    def _get(self, kind: Kind, key: str) -> tuple[Rows, npt.NDArray[Any]]:
        return self._kept.get(self._connection, self._segments, self._state, kind, key_of(key))
