"""Dot products of many rows with one vector."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from ..engine.records import Matrix, Rows, Vector

_GATHERED_NUMBERS = 128_000
"""So many numbers of rows that are not side by side are copied at once; they stay in the cache of a core."""
_MANY_NUMBERS = 16_000_000
"""From so many on a second thread saves more than it costs."""
_MOST_THREADS = 4


def products(matrix: Matrix, vector: Vector, among: Rows | None = None) -> Vector:
    """Dot product of each row of `matrix`, shape ``(rows, dimensions)``, with `vector`, in 32-bit floats.

    Args:
        among: Numbers of rows, in the order of the answer; None for all.
    """
    if among is not None:
        return _gathered(matrix, vector, among)
    return _side_by_side(matrix, vector) if matrix.size >= _MANY_NUMBERS else np.vecdot(matrix, vector)


def _side_by_side(matrix: Matrix, vector: Vector) -> Vector:
    """`np.vecdot` in a few threads, each with a part of the rows.

    (The threads of numpy's BLAS wait for each other in a loop, which costs a time slice on a machine that is busy.)
    """
    found = np.empty(len(matrix), dtype=np.float32)
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    size = -(-len(matrix) // threads)

    def part(start: int) -> None:
        np.vecdot(matrix[start : start + size], vector, out=found[start : start + size])

    others = [_threads(os.getpid()).submit(part, start) for start in range(size, len(matrix), size)]
    part(0)
    for other in others:
        other.result()
    return found


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Of this process: those of a parent are not in a child."""
    return ThreadPoolExecutor(_MOST_THREADS - 1, thread_name_prefix="agent-rag-products")


def _gathered(matrix: Matrix, vector: Vector, among: Rows) -> Vector:
    found = np.empty(len(among), dtype=np.float32)
    step = max(1, _GATHERED_NUMBERS // max(1, matrix.shape[1]))
    copied = np.empty((min(step, len(among)), matrix.shape[1]), dtype=np.float32)
    for start in range(0, len(among), step):
        some = among[start : start + step]
        rows = np.take(matrix, some, axis=0, out=copied[: len(some)], mode="clip")
        np.vecdot(rows, vector, out=found[start : start + step])
    return found
