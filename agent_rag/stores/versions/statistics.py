"""What BM25 needs of a collection that others write to."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

Term = TypeVar("Term", str, int)
_FRESH_S = 30.0


class Statistics(Generic[Term]):
    """Of a moment: kept until this store writes, at most 30 s.

    Args:
        indexed: Number of chunks that have tokens.
        tokens: Number of tokens of all of them.
    """

    def __init__(self, indexed: int, tokens: int) -> None:
        self.indexed = indexed
        self.average_length = tokens / indexed if indexed else 1.0
        self.frequency: dict[Term, int] = {}
        """Number of chunks that have a term, of the terms that were asked for."""
        self._since = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._since < _FRESH_S
