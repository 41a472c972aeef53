"""Dot products of many rows with one vector."""

from __future__ import annotations

import time
from typing import ClassVar, Literal

import numpy as np

from ..engine.records import Matrix, Rows, Vector

_GATHERED_NUMBERS = 128_000
"""So many numbers of rows that are not side by side are copied at once; they stay in the cache of a core."""
_MANY_NUMBERS = 4_000_000
_TRIED_EVERY = 50

Way = Literal["blas", "vecdot"]


def products(matrix: Matrix, vector: Vector, among: Rows | None = None) -> Vector:
    """Dot product of each row of `matrix`, shape ``(rows, dimensions)``, with `vector`, in 32-bit floats.

    Args:
        among: Numbers of rows, in the order of the answer; None for all.
    """
    if among is not None:
        return _gathered(matrix, vector, among)
    return Pace.shared.products(matrix, vector) if matrix.size >= _MANY_NUMBERS else np.vecdot(matrix, vector)


def _gathered(matrix: Matrix, vector: Vector, among: Rows) -> Vector:
    found = np.empty(len(among), dtype=np.float32)
    step = max(1, _GATHERED_NUMBERS // max(1, matrix.shape[1]))
    copied = np.empty((min(step, len(among)), matrix.shape[1]), dtype=np.float32)
    for start in range(0, len(among), step):
        some = among[start : start + step]
        rows = np.take(matrix, some, axis=0, out=copied[: len(some)], mode="clip")
        np.vecdot(rows, vector, out=found[start : start + step])
    return found


class Pace:
    """Takes the way that was faster lately.

    The threads of numpy's BLAS make a product faster on an idle machine. On a busy one they wait for each other in a
    loop: two cores took 8 ms, a time slice, for 100,000 rows of 256 numbers instead of 2.6, and what came next in the
    process was slowed as well. `vecdot` runs in one thread and takes 3.4 ms on either.
    """

    shared: ClassVar[Pace]

    def __init__(self) -> None:
        self.seconds: dict[Way, float] = {"blas": 0.0, "vecdot": 0.0}
        """Per number; 0 before the first time."""
        self._calls = 0

    def products(self, matrix: Matrix, vector: Vector) -> Vector:
        way = self.next_way()
        started = time.perf_counter()
        found = matrix @ vector if way == "blas" else np.vecdot(matrix, vector)
        self.took(way, (time.perf_counter() - started) / matrix.size)
        return found

    def next_way(self) -> Way:
        """The faster one; now and then the other one."""
        self._calls += 1
        fast, slow = sorted(self.seconds, key=self.seconds.__getitem__)
        return slow if self._calls % _TRIED_EVERY == 0 else fast

    def took(self, way: Way, seconds: float) -> None:
        """A single slow time may be somebody else's fault; a fast one shows what is possible."""
        before = self.seconds[way]
        self.seconds[way] = seconds if seconds < before or not before else (before + seconds) / 2


Pace.shared = Pace()
