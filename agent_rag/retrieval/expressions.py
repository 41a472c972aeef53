"""Regular expressions of strangers: run in a worker process, with a bound on their computing time."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .pattern import Span, spans_of


class TooSlowError(Exception):
    """The expression computes for too long."""


def find_in(
    expression: str, flags: int, ignore_accents: bool, texts: Sequence[str], limit: int, cpu_s: float
) -> list[tuple[int, list[Span]]] | str:
    """Of each text the number of occurrences and the first of them; or what is wrong with the expression.

    Args:
        limit: Occurrences of a text that are given.
        cpu_s: Computing time; what the machine does meanwhile does not count. Only in the main thread of a process, and
            where there are timers (not on Windows): elsewhere the caller bounds the time.

    Raises: TooSlowError: `cpu_s` is over.
    """
    with _bounded(cpu_s):
        try:
            compiled = re.compile(expression, flags)
        except (re.error, RecursionError, OverflowError) as error:
            return str(error) or type(error).__name__
        found = []
        for text in texts:
            spans = spans_of(compiled, text, ignore_accents=ignore_accents)
            found.append((len(spans), spans[:limit]))
        return found


def can_bound() -> bool:
    """Whether computing time can be bounded on this system."""
    return hasattr(signal, "setitimer")


@contextmanager
def _bounded(cpu_s: float) -> Iterator[None]:
    if not can_bound():
        yield
        return

    def over(number: int, frame: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, over)  # `re` looks for signals while it matches
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
