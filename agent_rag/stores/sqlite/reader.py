"""What is kept in memory of each collection, and searches over one state of it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...documents import Chunk, ChunkKey
from ...filters import FilterLike
from ...filters.plan import plan
from ...retrieval.coverage import seen_share
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Seen, Step
from ..engine.driver import best
from ..engine.records import Rows, query_vector
from ..rows.inverted import bm25, matching_mask, matching_rows
from ..rows.vectors import Scores, first_scores
from . import documents, vectors
from .documents import Document
from .postings import KeptPostings, Lookup
from .rows import CollectionRows, RowState, key_of
from .schema import Collection, State
from .segments import segments_of
from .vectors import VectorBlock


class _Kept(NamedTuple):
    """One collection in memory; row numbers mean the same in all three."""

    name: str
    dimensions: int
    rows: CollectionRows
    postings: KeptPostings
    vectors: list[VectorBlock]
    """None or one: loaded when the first semantic search needs it."""


class Reader:
    """For any number of threads, each with a connection of its own within a transaction."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._kept: dict[int, _Kept] = {}
        self.lock = threading.Lock()
        """Held while memory catches up."""

    def cost(self, name: str, request: RetrieveRequest) -> int | None:
        """Numbers that a search goes through; None where memory has first to be filled."""
        kept = next((kept for kept in self._kept.values() if kept.name == name), None)
        if kept is None or (request.vectors and not kept.vectors):
            return None
        return len(kept.rows) * (len(request.vectors) * kept.dimensions + 64 * len(request.texts))

    def snapshot(self, connection: sqlite3.Connection, name: str, *, semantic: bool) -> Snapshot | None:
        """One state of a collection; None where there is none of this name.

        Args:
            semantic: Vectors are needed.
        """
        # The first statement fixes what this reader sees, so memory is never ahead of it.
        with self.lock:
            collection = Collection.load(connection, name)
            if collection is None:
                return None
            state = State.load(connection)
            kept = self._kept.get(collection.c)
            if kept is None or not kept.rows.catch_up(connection, state):
                self._kept.pop(collection.c, None)
                kept = _Kept(
                    name, collection.dimensions, CollectionRows(connection, collection, state), KeptPostings(), []
                )
                self._kept[collection.c] = kept
            view = kept.rows.view()
            block = self._block(connection, collection, kept, view) if semantic else None
        return Snapshot(connection, collection, kept, view, block)

    def _block(
        self, connection: sqlite3.Connection, collection: Collection, kept: _Kept, view: RowState
    ) -> VectorBlock:
        others = sum(
            len(block) * collection.dimensions * 4
            for c, other in self._kept.items()
            if c != collection.c
            for block in other.vectors
        )
        fresh = vectors.new_block(collection, len(view.numbers), self._memory_bytes - others)
        if not kept.vectors or type(kept.vectors[0]) is not type(fresh):
            kept.vectors[:] = [fresh]
        block = kept.vectors[0]
        try:
            vectors.load(connection, collection, view, block)
        except BaseException:
            kept.vectors.clear()
            raise
        return block


class Snapshot:
    """Answers the steps of one search."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        collection: Collection,
        kept: _Kept,
        state: RowState,
        block: VectorBlock | None,
    ) -> None:
        self._connection, self._collection, self._state, self._block = connection, collection, state, block
        self._rows = kept.rows
        self._postings = kept.postings
        self._index: Lookup | None = None
        self._found: dict[ChunkKey, int] = {}
        """Row of each key that was ranked."""

    def answer(self, step: Step) -> Any:
        """Answer of one step of `retrieve_steps`."""
        match step:
            case Nearest(vector, limit, where, keys):
                return self._nearest(vector, limit, where, keys)
            case Keyword(_, limit, where, weights):
                return self._by_keyword(weights, limit, where)
            case Seen(words):
                frequencies = {word: len(self._lookup.occurrences(word)[0]) for word in words}
                return seen_share(words, frequencies, self._state.counted)
            case Get(keys):
                return self._chunks(keys)

    def count(self, where: FilterLike) -> int:
        """Number of matching chunks."""
        return len(self._matching(where))

    def matching_numbers(self, where: FilterLike | None, first: int, stop: int) -> set[int]:
        """Numbers of matching chunks from `first` to below `stop`."""
        numbers = self._state.numbers[self._matching(where)]
        return set(numbers[(numbers >= first) & (numbers < stop)].tolist())

    def word_counts(self, words: Iterable[str]) -> dict[str, int]:
        """Number of chunks that have each word; those of none left out."""
        counted = {word: len(self._lookup.occurrences(word)[0]) for word in words}
        return {word: count for word, count in counted.items() if count}

    # --- steps ---

    def _nearest(
        self, vector: Sequence[float], limit: int, where: FilterLike | None, keys: Sequence[ChunkKey] | None
    ) -> list[Scored]:
        query = query_vector(self._collection.name, self._collection.dimensions, vector)
        block = self._block
        assert block is not None
        among: Rows | None = None
        if keys is not None:
            among = np.array(sorted({row for key in keys if (row := self._row(key)) is not None}), np.intp)
        elif plan(where) is not None:
            among = self._matching(where)
        return self._best(*block.nearest(query, limit, self._state.alive, among, self._read), limit)

    def _by_keyword(self, weights: Mapping[str, float], limit: int, where: FilterLike | None) -> list[Scored]:
        state = self._state
        found = ((weight, *self._lookup.occurrences(word)) for word, weight in weights.items())
        scores = bm25(found, state.lengths, state.counted, state.average)
        if (node := plan(where)) is not None:
            scores[~matching_mask(node, self._lookup, len(scores))] = 0.0
        rows = np.flatnonzero(scores > 0)
        return self._best(rows, scores[rows], limit)

    def _chunks(self, keys: Iterable[ChunkKey]) -> dict[ChunkKey, Chunk]:
        rows = {key: row for key in keys if (row := self._row(key)) is not None}
        numbers = [int(self._state.numbers[row]) for row in rows.values()]
        found = self._documents(list(rows.values()))
        return {
            key: documents.chunk_of(self._connection, document, number)
            for key, document, number in zip(rows, found, numbers, strict=True)
        }

    # --- rows ---

    @property
    def _lookup(self) -> Lookup:
        if self._index is None:
            segments = segments_of(self._connection, self._collection)
            self._index = Lookup(self._postings, self._connection, segments, self._state)
        return self._index

    def _matching(self, where: FilterLike | None) -> Rows:
        node, alive = plan(where), self._state.alive
        return np.flatnonzero(alive) if node is None else matching_rows(node, self._lookup, alive)

    def _read(self, rows: Rows) -> Any:
        found = self._documents(rows.tolist())
        return vectors.read_rows(self._connection, self._state, found, rows, self._collection.dimensions)

    def _documents(self, rows: Sequence[int]) -> list[Document]:
        return self._rows.documents_of(self._connection, [int(self._state.numbers[row]) for row in rows])

    def _row(self, key: ChunkKey) -> int | None:
        if (row := self._found.get(key)) is not None:
            return row
        document = documents.by_name(self._connection, self._collection, (key.scope, key.document_id))
        number = None if document is None else document.number(key.chunk_index)
        if number is None:
            return None
        return int(np.searchsorted(self._state.numbers, number))

    def _best(self, rows: Rows, scores: Scores, limit: int) -> list[Scored]:
        rows, scores = first_scores(rows, scores, limit)
        numbers = self._state.numbers[rows].tolist()
        found = self._documents(rows.tolist())
        keys = [key_of(document, number) for document, number in zip(found, numbers, strict=True)]
        self._found |= zip(keys, rows.tolist(), strict=True)
        return best((Scored(key, score) for key, score in zip(keys, scores.tolist(), strict=True)), limit)
