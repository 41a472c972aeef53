"""Calls in processes that can be killed: the pool, one process, and its other side."""

from .pool import Isolation, NotPortableError, WorkerPool, is_isolated, mark_as_isolated, run_isolated, shared_pool

__all__ = [
    "Isolation",
    "NotPortableError",
    "WorkerPool",
    "is_isolated",
    "mark_as_isolated",
    "run_isolated",
    "shared_pool",
]
