"""The vectors of an embedded collection in memory.

The engine compares vectors one after the other while it holds the interpreter lock: 8 ms for 100k of 256 dimensions.
A matrix product does it in 2 ms, and other threads run meanwhile.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..engine.records import Vector
from ..rows.vectors import VectorRows

_PAGE = 500


class VectorCache:
    """Cosine vectors by point. It answers once `is_complete`. Not safe for threads.

    Args:
        missing: Points that are in the engine by now; they are read page by page, see `fill`.
    """

    def __init__(self, dimensions: int, missing: Sequence[int]) -> None:
        self._rows = VectorRows(dimensions, "Cosine")
        self._rows.reserve(len(missing))
        self._points = array("q")
        """By row."""
        self._row_of: dict[int, int] = {}
        self._missing = list(missing)

    def __len__(self) -> int:
        """Rows held."""
        return len(self._rows)

    @property
    def is_complete(self) -> bool:
        return not self._missing

    def fill(self, read: Callable[[list[int]], Iterable[tuple[int, Sequence[float]]]]) -> None:
        """Add some of the points that have to be read yet.

        Args:
            read: Gives those of some points that are still there, with their vectors.
        """
        page = [point for point in self._missing[-_PAGE:] if point not in self._row_of]
        self.put(read(page))
        del self._missing[-_PAGE:]

    def put(self, vectors: Iterable[tuple[int, Sequence[float]]]) -> None:
        """Add points, or give them new vectors."""
        pairs = list(vectors)
        if not pairs:
            return
        points = [point for point, _ in pairs]
        self.drop(points)
        first = self._rows.append(np.array([vector for _, vector in pairs], dtype=np.float32))
        self._points.extend(points)
        self._row_of.update(zip(points, range(first, first + len(points)), strict=True))
        if self._rows.is_sparse:
            self._compact()

    def drop(self, points: Iterable[int]) -> None:
        """Forget points; those that are not here do not matter."""
        for point in points:
            if (row := self._row_of.pop(point, None)) is not None:
                self._rows.remove(row)

    def nearest(self, query: Vector, limit: int, points: Iterable[int] | None = None) -> list[tuple[int, float]]:
        """The best `limit` points, of all or of `points`, and all that tie with the last; in no order, with cosines."""
        rows = None
        if points is not None:
            held = (self._row_of.get(point) for point in points)
            rows = np.array([row for row in held if row is not None], dtype=np.intp)
        found, scores = self._rows.nearest(query, limit, rows)
        return [(self._points[row], score) for row, score in zip(found.tolist(), scores.tolist(), strict=True)]

    def _compact(self) -> None:
        kept = np.flatnonzero(self._rows.compact() >= 0)
        self._points = array("q", np.array(self._points)[kept].tolist())
        self._row_of = {point: row for row, point in enumerate(self._points)}
