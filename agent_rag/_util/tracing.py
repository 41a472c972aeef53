"""OpenTelemetry spans where its API is installed; counts and durations, never content."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Span(Protocol):
    """What is done with a span."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Add a count that is known only later."""


class _NoSpan:
    def set_attribute(self, key: str, value: Any) -> None:
        pass


@functools.cache
def _tracer() -> Any:
    """None when the API is not installed; without an SDK its spans do nothing."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("agent_rag")


@contextmanager
def span(name: str, **attributes: str | int | float | bool) -> Iterator[Span]:
    """A span around a block, called ``agent_rag.<name>`` with attributes ``agent_rag.<attribute>``.

    An error that leaves the block is recorded by its type only: its message may hold content.
    """
    tracer = _tracer()
    if tracer is None:
        yield _NoSpan()
        return
    named = {f"agent_rag.{key}": value for key, value in attributes.items()}
    with tracer.start_as_current_span(
        f"agent_rag.{name}", attributes=named, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield _Prefixed(current)
        except BaseException as error:
            from opentelemetry.trace import Status, StatusCode

            current.set_status(Status(StatusCode.ERROR))
            current.set_attribute("error.type", type(error).__qualname__)
            raise


class _Prefixed:
    def __init__(self, current: Any) -> None:
        self._current = current

    def set_attribute(self, key: str, value: Any) -> None:
        self._current.set_attribute(f"agent_rag.{key}", value)
