"""Dot products of many rows with one vector.

``matrix @ vector`` is faster on an idle machine only. The threads of numpy's BLAS wait for each other in a loop: on a
busy machine of two cores 10,000 rows of 256 numbers took 4 to 8 ms, a time slice, instead of 0.1, and what came next in
the process was slowed as well. Here threads take the next block when they are free, and nobody waits for one that
was not given a core.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from .records import Matrix, Vector

_BLOCK_NUMBERS = 1_000_000
"""What a thread takes at once: 0.1 ms."""
_SHARED_NUMBERS = 4_000_000
"""Below, another thread costs more than it saves."""
_MAX_THREADS = 4


def products(matrix: Matrix, vector: Vector) -> Vector:
    """Dot product of each row of `matrix`, shape ``(rows, dimensions)``, with `vector`, in 32-bit floats."""
    found = np.empty(len(matrix), dtype=np.float32)
    if matrix.size < _SHARED_NUMBERS or (helpers := _threads() - 1) < 1:
        return np.vecdot(matrix, vector, out=found)
    step = max(1, _BLOCK_NUMBERS // matrix.shape[1])
    starts = iter(range(0, len(matrix), step))  # each is given out once: the interpreter lock guards it

    def work() -> None:
        for start in starts:
            np.vecdot(matrix[start : start + step], vector, out=found[start : start + step])

    begun = [_pool().submit(work) for _ in range(helpers)]
    work()
    for one in begun:
        if not one.cancel():  # else it never began, and there is nothing left for it
            one.result()
    return found


def _threads() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MAX_THREADS, available)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MAX_THREADS - 1, thread_name_prefix="agent-rag-products")
