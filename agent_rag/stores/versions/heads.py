"""Heads, each of which says what a version of a document has, and all of them as an embedded collection keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...documents import VectorRecord
from ...errors import RecordError

INDEX_BITS = 24
MAX_INDEX = 2**INDEX_BITS - 1

Runs = tuple[tuple[int, int], ...]
"""Chunk indexes as ranges ``(start, stop)``, ascending."""


def runs_of(indexes: Iterable[int]) -> Runs:
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and runs[-1][1] == index:
            runs[-1][1] = index + 1
        else:
            runs.append([index, index + 1])
    return tuple((start, stop) for start, stop in runs)


def check_indexes(records: Iterable[VectorRecord]) -> None:
    """Raises: RecordError: a chunk index is above `MAX_INDEX`."""
    for record in records:
        if record.chunk.chunk_index > MAX_INDEX:
            raise RecordError(
                f"chunk_index {record.chunk.chunk_index} of {record.document_id!r} is above {MAX_INDEX:,}; "
                "number the chunks of a document from 0"
            )


@dataclass(frozen=True, slots=True)
class Head:
    """One version of a document: which points it has, and what it adds to the statistics."""

    FIELDS: ClassVar = ("g", "runs", "tokens", "indexed")

    number: int
    runs: Runs
    tokens: int
    """Sum of its chunks' lengths."""
    indexed: int
    """Number of its chunks that have tokens."""

    @property
    def count(self) -> int:
        return sum(stop - start for start, stop in self.runs)

    def indexes(self, start: int = 0, stop: int = MAX_INDEX + 1) -> Iterator[int]:
        """Chunk indexes within ``start <= index < stop``, ascending."""
        for low, high in self.runs:
            yield from range(max(low, start), min(high, stop))

    def has(self, index: int) -> bool:
        return any(start <= index < stop for start, stop in self.runs)

    def payload(self) -> dict[str, Any]:
        return {
            "g": self.number,
            "runs": [list(run) for run in self.runs],
            "tokens": self.tokens,
            "indexed": self.indexed,
        }

    @classmethod
    def of_payload(cls, payload: dict[str, Any]) -> Head:
        runs = tuple((start, stop) for start, stop in payload["runs"])
        return cls(payload["g"], runs, payload["tokens"], payload["indexed"])


Name = tuple[str, str]
"""``(scope, document id)``."""
