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

from .records import Matrix, Rows, Vector

_BLOCK_NUMBERS = 1_000_000
"""What a thread takes at once: 0.1 ms."""
_GATHERED_NUMBERS = 128_000
"""The same of rows that are not side by side: so many are copied at once, which stay in the cache of a core."""
_SHARED_NUMBERS = 4_000_000
"""Below, another thread costs more than it saves."""
_MAX_THREADS = 4


def products(matrix: Matrix, vector: Vector, among: Rows | None = None) -> Vector:
    """Dot product of each row of `matrix`, shape ``(rows, dimensions)``, with `vector`, in 32-bit floats.

    Args:
        among: Numbers of rows, in the order of the answer; None for all.
    """
    dimensions = max(1, matrix.shape[1])
    count = len(matrix) if among is None else len(among)
    found = np.empty(count, dtype=np.float32)
    step = max(1, (_BLOCK_NUMBERS if among is None else _GATHERED_NUMBERS) // dimensions)
    starts = iter(range(0, count, step))  # each is given out once: the interpreter lock guards it

    def work() -> None:
        copied = np.empty((0 if among is None else min(step, count), dimensions), dtype=np.float32)
        for start in starts:
            if among is None:
                rows = matrix[start : start + step]
            else:
                some = among[start : start + step]
                rows = np.take(matrix, some, axis=0, out=copied[: len(some)], mode="clip")
            np.vecdot(rows, vector, out=found[start : start + step])

    helpers = _threads() - 1 if count * dimensions >= _SHARED_NUMBERS else 0
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
