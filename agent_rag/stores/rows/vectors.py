"""Vectors in memory, numbered by row and compared exactly: products in 32 bits find the candidates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..engine.records import Matrix, Rows
from .products import products

Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float64]

_COMPACT_ABOVE = 1_000
"""Dead rows that are never worth a compaction."""
_BLOCK = 4_096
"""Rows that are compared at once in 64-bit floats."""
_NEAR = 1e-5
"""Two cosines of 32-bit vectors that are closer may be ordered wrongly, and are computed again in 64 bits."""


class VectorRows:
    """Rows are added at the end, marked dead when removed, and closed up by `compact`. Not safe for threads.

    For cosine a row is held with length 1, beside its size.
    """

    def __init__(self, dimensions: int, distance: str) -> None:
        """
        Args:
            distance: Cosine, Dot, Euclid or Manhattan.
        """
        self._distance = distance
        self._vectors: Matrix = np.empty((0, dimensions), dtype=np.float32)
        self._sizes: Scores = np.empty(0, dtype=np.float64)
        self._alive: Mask = np.empty(0, dtype=np.bool_)
        self._count = 0
        self._dead = 0

    def __len__(self) -> int:
        """Rows, dead ones included: what a search costs."""
        return self._count

    @property
    def alive(self) -> Mask:
        """Which rows are not dead; a view."""
        return self._alive[: self._count]

    @property
    def live_count(self) -> int:
        return self._count - self._dead

    @property
    def is_sparse(self) -> bool:
        """Whether `compact` is worth its time, which is that of writing all rows again."""
        return self._dead > max(_COMPACT_ABOVE, self.live_count)

    def reserve(self, needed: int) -> None:
        """Make room for so many rows."""
        held = len(self._alive)
        if needed <= held:
            return
        size = max(needed, held * 2, 64)
        for name in ("_vectors", "_sizes", "_alive"):
            old = getattr(self, name)
            grown = np.empty((size, *old.shape[1:]), dtype=old.dtype)
            grown[:held] = old
            setattr(self, name, grown)

    def append(self, matrix: Matrix) -> int:
        """Add rows, shape ``(rows, dimensions)``. Returns the first one's number."""
        first, end = self._count, self._count + len(matrix)
        self.reserve(end)
        sizes = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
        held = matrix / np.where(sizes > 0, sizes, 1.0)[:, None] if self._distance == "Cosine" else matrix
        self._vectors[first:end], self._sizes[first:end], self._alive[first:end] = held, sizes, True
        self._count = end  # last, so that what fails has added nothing
        return first

    def remove(self, row: int) -> None:
        """Mark a live row dead."""
        self._alive[row] = False
        self._dead += 1

    def compact(self) -> Rows:
        """Close up the live rows. Returns the new number of each old row, -1 for a dead one."""
        kept = np.flatnonzero(self.alive)
        new_rows = np.full(self._count, -1, dtype=np.intp)
        new_rows[kept] = np.arange(len(kept))
        self._vectors, self._sizes, self._alive = self._vectors[kept], self._sizes[kept], self._alive[kept]
        self._count, self._dead = len(kept), 0
        return new_rows

    def vector(self, row: int) -> list[float]:
        """As it was added, but for rounding."""
        scale = self._sizes[row] if self._distance == "Cosine" else 1.0
        numbers: list[float] = (self._vectors[row] * scale).astype(np.float32).tolist()
        return numbers

    def nearest(self, vector: Matrix, limit: int, among: Rows | None = None) -> tuple[Rows, Scores]:
        """As `nearest`; `among` are live."""
        return nearest(self._vectors[: self._count], self._distance, vector, limit, self.alive, among)


def nearest(
    matrix: Matrix, distance: str, vector: Matrix, limit: int, alive: Mask, among: Rows | None = None
) -> tuple[Rows, Scores]:
    """The best `limit` rows and all that tie with the last of them, in no order, with their scores.

    Args:
        matrix: Shape ``(rows, dimensions)``; for cosine of length 1.
        vector: The query, finite numbers of shape ``(dimensions,)``.
        alive: Which rows count.
        among: Compare these rows, all of them live; None: every live row.

    Returns: Rows, and their cosines, dot products or negated distances, computed in 64 bits.
    """
    query = vector.astype(np.float64)
    if limit <= 0:
        return np.empty(0, dtype=np.intp), np.empty(0)
    if distance == "Cosine":
        query /= np.linalg.norm(query) or 1.0
        rows = _likely(matrix, query, limit, alive, among)
    else:
        rows = np.flatnonzero(alive) if among is None else among
    return first_scores(rows, similarities(matrix, distance, rows, query), limit)


def first_scores(rows: Rows, scores: Scores, limit: int) -> tuple[Rows, Scores]:
    """The rows of the best `limit` scores and all that tie with the last of them; none for a limit of 0 or less."""
    if limit <= 0:
        return rows[:0], scores[:0]
    if len(rows) > limit:
        near = scores >= np.partition(scores, len(rows) - limit)[len(rows) - limit]
        rows, scores = rows[near], scores[near]
    return rows, scores


def _likely(matrix: Matrix, query: npt.NDArray[np.float64], limit: int, alive: Mask, among: Rows | None) -> Rows:
    """Rows that may be among the best `limit`, by cosines in 32-bit floats."""
    size = len(alive) if among is None else len(among)
    if size <= max(limit, _BLOCK // 8):
        return np.flatnonzero(alive) if among is None else among
    query32 = query.astype(np.float32)
    if among is None:
        scores = products(matrix, query32)
        if not alive.all():
            scores[~alive] = -2.0
        return np.flatnonzero((scores >= _cut(scores, limit)) & alive)
    # Reading all vectors in order is faster than gathering most of them.
    few = size < len(matrix) // 2
    scores = products(matrix, query32, among) if few else products(matrix, query32)[among]
    likely: Rows = among[scores >= _cut(scores, limit)]
    return likely


def similarities(matrix: Matrix, distance: str, rows: Rows, query: npt.NDArray[np.float64]) -> Scores:
    """Cosines, dot products or negated distances of some rows, computed in 64 bits."""
    if len(rows) <= _BLOCK:
        return similarity(matrix[rows].astype(np.float64), distance, query)
    starts = range(0, len(rows), _BLOCK)
    return np.concatenate([similarities(matrix, distance, rows[start : start + _BLOCK], query) for start in starts])


def similarity(vectors: npt.NDArray[np.float64], distance: str, query: npt.NDArray[np.float64]) -> Scores:
    """Of each row; for cosine both sides have length 1."""
    match distance:
        case "Euclid":
            scores = -np.sqrt(((vectors - query) ** 2).sum(axis=1))
        case "Manhattan":
            scores = -np.abs(vectors - query).sum(axis=1)
        case "Dot":
            scores = (vectors * query).sum(axis=1)
        case _:
            scores = np.clip((vectors * query).sum(axis=1), -1.0, 1.0)
    result: Scores = scores + 0.0  # no negative zero
    return result


def _cut(scores: npt.NDArray[np.float32], limit: int) -> float:
    """The lowest score of a row that may be among the best `limit`."""
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit]) - _NEAR
