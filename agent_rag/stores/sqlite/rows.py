"""Documents and chunks of one collection in memory, as one state of the file has them; catches up by what changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...documents import ChunkKey
from ...errors import StoreDamagedError
from ..engine.records import Rows
from ..rows.growing import Growing
from ..rows.vectors import Mask
from . import documents
from .checksums import LOG, checksum
from .documents import Document
from .schema import ADDED, REMOVED, Collection, State

_SPARSE = 1_000
"""Dead rows that are never worth loading again."""
_KNOWN = 20_000
"""Documents whose names are kept."""


@dataclass(frozen=True)
class RowState:
    """What one reader sees; rows are chunks, ascending by number."""

    numbers: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]
    """Tokens of each."""
    alive: Mask
    counted: int
    """Live rows with tokens."""
    average: float
    """Their mean length."""

    def rows_of(self, numbers: npt.NDArray[np.int64]) -> Rows:
        """Row of each chunk number; -1 where there is none."""
        places = np.searchsorted(self.numbers, numbers)
        places[places == len(self.numbers)] = 0
        found = self.numbers[places] == numbers if len(self.numbers) else np.zeros(len(numbers), np.bool_)
        return np.where(found, places, -1)


class CollectionRows:
    """For one thread at a time; a `RowState` that was taken does not change."""

    def __init__(self, connection: sqlite3.Connection, collection: Collection, state: State) -> None:
        """
        Raises: StoreDamagedError: a document is damaged or missing.
        """
        self.c = collection.c
        self.seq = state.seq
        self._bases, self._counts = Growing(np.int64), Growing(np.int64)
        self._numbers, self._lengths = Growing(np.int64), Growing(np.uint32)
        self._alive: Mask = np.empty(0, np.bool_)
        self._tokens = self._counted = self._dead = 0
        self._known: dict[int, Document] = {}
        self._numbers.reserve(collection.chunks)
        self._lengths.reserve(collection.chunks)
        self._add(documents.every(connection, collection))
        if (len(self._bases), len(self._numbers)) != (collection.documents, collection.chunks):
            raise documents.totals_differ(collection, len(self._bases), len(self._numbers))

    def __len__(self) -> int:
        """Rows, dead ones included: what a search costs."""
        return len(self._numbers)

    def catch_up(self, connection: sqlite3.Connection, state: State) -> bool:
        """Take over what others have written since; False where the log does not say it any more, or loading again
        is better."""
        if state.seq == self.seq:
            return True
        entries = connection.execute(
            "select seq, c, op, base, count, crc from log where seq > ? order by seq", (self.seq,)
        ).fetchall()
        if len(entries) != state.seq - self.seq:
            return False
        added: dict[int, None] = {}
        removed: list[int] = []
        for *entry, crc in entries:
            if checksum(b"", LOG, *entry) != crc:
                raise StoreDamagedError("the log of changes is damaged")
            _, c, op, base, _ = entry
            if c != self.c:
                continue
            if op == ADDED:
                added[base] = None
            elif op == REMOVED and base in added:
                del added[base]
            elif op == REMOVED:
                removed.append(base)
        if self._dead > max(_SPARSE, len(self._numbers) // 2):
            return False
        if removed:
            self._remove(removed)
        if added:
            self._add(documents.at(connection, list(added)))
        self.seq = state.seq
        return True

    def view(self) -> RowState:
        average = self._tokens / self._counted if self._counted else 1.0
        return RowState(self._numbers.view, self._lengths.view, self._alive, self._counted, average)

    # --- names ---

    def documents_of(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> list[Document]:
        """Document of each chunk number, which is that of a row."""
        wanted = np.fromiter(numbers, np.int64)
        bases = self._bases.view
        found = bases[np.searchsorted(bases, wanted, side="right") - 1].tolist()
        if len(self._known) > _KNOWN:
            self._known = {}
        kept = self._known
        known = {base: kept.get(base) for base in found}
        missing = [base for base, document in known.items() if document is None]
        read = dict(zip(missing, documents.at(connection, missing), strict=True))
        kept |= read
        return [known[base] or read[base] for base in found]

    # --- rows ---

    def _add(self, found: Iterable[Document]) -> None:
        added = list(found)
        if bad := [document.name for document in added if not document.is_whole]:
            raise documents.damaged(bad)
        counts = np.fromiter((document.size for document in added), np.int64, len(added))
        bases = np.fromiter((document.base for document in added), np.int64, len(added))
        lengths = np.frombuffer(b"".join(document.lengths for document in added), "<u4")
        total = int(counts.sum())
        if len(lengths) != total:
            raise StoreDamagedError("documents have other numbers of chunks than were written")
        firsts = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else counts
        self._bases.extend(bases)
        self._counts.extend(counts)
        self._numbers.extend(np.repeat(bases - firsts, counts) + np.arange(total))
        self._lengths.extend(lengths)
        self._alive = np.concatenate((self._alive, np.ones(total, np.bool_)))
        self._tokens += int(lengths.sum(dtype=np.int64))
        self._counted += int(np.count_nonzero(lengths))

    def _remove(self, bases: list[int]) -> None:
        alive = self._alive.copy()  # others may be reading the old one
        numbers = self._numbers.view
        for base in bases:
            place = int(np.searchsorted(self._bases.view, base))
            count = int(self._counts.view[place])
            first = int(np.searchsorted(numbers, base))
            lengths = self._lengths.view[first : first + count]
            alive[first : first + count] = False
            self._tokens -= int(lengths.sum(dtype=np.int64))
            self._counted -= int(np.count_nonzero(lengths))
            self._dead += count
            self._known.pop(base, None)
        self._alive = alive


def key_of(document: Document, number: int) -> ChunkKey:
    return ChunkKey(document.scope, document.id, int(document.chunk_indexes[number - document.base]))
