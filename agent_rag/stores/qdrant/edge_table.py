"""Which documents of an embedded collection count."""

from __future__ import annotations

from ...documents import ChunkKey
from ..versions.heads import INDEX_BITS, MAX_INDEX, Head, Name


def point_id(number: int, index: int) -> int:
    """Of a chunk of the version with this number."""
    return number << INDEX_BITS | index


def point_ids(head: Head) -> list[int]:
    return [point_id(head.number, index) for index in head.indexes()]


class Table:
    """The heads in memory, and their sums."""

    def __init__(self) -> None:
        self.heads: dict[Name, Head] = {}
        self.names: dict[int, Name] = {}
        self.scopes: dict[str, set[str]] = {}
        self.chunks = 0
        self.tokens = 0
        self.indexed = 0
        self.next_number = 1

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

    def key(self, point: int) -> ChunkKey:
        scope, document_id = self.names[point >> INDEX_BITS]
        return ChunkKey(scope, document_id, point & MAX_INDEX)

    def _count(self, head: Head, sign: int) -> None:
        self.chunks += sign * head.count
        self.tokens += sign * head.tokens
        self.indexed += sign * head.indexed
