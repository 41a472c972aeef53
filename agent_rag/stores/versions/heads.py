"""Heads, each of which says what a version of a document has, and all of them as an embedded collection keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...documents import ChunkKey, VectorRecord
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


def point_id(number: int, index: int) -> int:
    return number << INDEX_BITS | index


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

    def point_ids(self) -> list[int]:
        return [point_id(self.number, index) for index in self.indexes()]

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


class Table:
    """The documents that count. `frequencies` is None until the first keyword search needs it."""

    def __init__(self) -> None:
        self.heads: dict[Name, Head] = {}
        self.names: dict[int, Name] = {}
        self.scopes: dict[str, set[str]] = {}
        self.chunks = 0
        self.tokens = 0
        self.indexed = 0
        self.next_number = 1
        self.frequencies: Counter[int] | None = None

    @property
    def average_length(self) -> float:
        """Average number of tokens of the chunks that have some."""
        return self.tokens / self.indexed if self.indexed else 1.0

    def new_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def put(self, name: Name, head: Head) -> None:
        self.drop(name)
        self.heads[name] = head
        self.names[head.number] = name
        self.scopes.setdefault(name[1], set()).add(name[0])
        self.next_number = max(self.next_number, head.number + 1)
        self._count(head, 1)

    def drop(self, name: Name) -> None:
        head = self.heads.pop(name, None)
        if head is None:
            return
        del self.names[head.number]
        self.scopes[name[1]].discard(name[0])
        if not self.scopes[name[1]]:
            del self.scopes[name[1]]
        self._count(head, -1)

    def find(self, document_id: str) -> list[Name]:
        """Every document with this id, by scope."""
        return [(scope, document_id) for scope in sorted(self.scopes.get(document_id, ()))]

    def point_id(self, key: ChunkKey) -> int | None:
        """None for a chunk that is not there."""
        head = self.heads.get((key.scope, key.document_id))
        return point_id(head.number, key.chunk_index) if head is not None and head.has(key.chunk_index) else None

    def has(self, point: int) -> bool:
        """Whether a point counts."""
        name = self.names.get(point >> INDEX_BITS)
        return name is not None and self.heads[name].has(point & MAX_INDEX)

    def key(self, point: int) -> ChunkKey:
        scope, document_id = self.names[point >> INDEX_BITS]
        return ChunkKey(scope, document_id, point & MAX_INDEX)

    def count_terms(self, terms: dict[int, int], sign: int) -> None:
        """Add or take away ``term -> number of chunks``."""
        if self.frequencies is None:
            return
        for term, count in terms.items():
            left = self.frequencies[term] + sign * count
            if left > 0:
                self.frequencies[term] = left
            else:
                del self.frequencies[term]

    def _count(self, head: Head, sign: int) -> None:
        self.chunks += sign * head.count
        self.tokens += sign * head.tokens
        self.indexed += sign * head.indexed
