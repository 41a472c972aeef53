"""Calls in processes that can be killed: the pool, one process, and its other side."""

from .isolated import is_isolated, mark_as_isolated
from .pool import Isolation, NotPortableError, WorkerPool, run_isolated, shared_pool

__all__ = [
    "Isolation",
    "NotPortableError",
    "WorkerPool",
    "is_isolated",
    "mark_as_isolated",
    "run_isolated",
    "shared_pool",
]
