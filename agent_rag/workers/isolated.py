"""Whether work is where it can be killed already."""

from __future__ import annotations

from contextvars import ContextVar

_isolated: ContextVar[bool] = ContextVar("agent_rag_isolated", default=False)


def mark_as_isolated() -> None:
    """From now on isolated work runs where it is: in a worker process, or a thread that stands in for one."""
    _isolated.set(True)


def is_isolated() -> bool:
    """Whether no further isolation is needed here."""
    return _isolated.get()
