"""Reading one collection in Milvus while it changes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import StoreError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ...retrieval.coverage import seen_share
from ...retrieval.lexical import idf, term_id
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Seen, Step
from ..engine.driver import best, cut_ties, run_steps
from ..engine.records import query_vector, without_keyword
from ..engine.sparse import by_term_id, decode
from ..versions.exact_scores import similarities
from ..versions.heads import MAX_INDEX
from ..versions.versions import Changed, Versions
from .client import Rows
from .heads import Heads
from .schema import (
    CONTENT,
    DENSE,
    HEAD_OF,
    ID,
    NUMBER,
    SPARSE,
    MilvusInfo,
    Stored,
    among,
    chunk_of_row,
    chunk_row_id,
    chunks_of,
    heads_of,
    parse_row_id,
    sparse_of_row,
    sparse_row,
)

T = TypeVar("T")

_ATTEMPTS = 20
_FREE_ATTEMPTS = 3
_SPARE = 20
_MAX_SPARE = 1_000
_CARRIED = 40


class Reader:
    """The reads of one collection.

    Args:
        turn: Held by whoever writes to the collection in this process, where it may be written to during a read.
    """

    def __init__(
        self, connection: Rows, info: MilvusInfo, heads: Heads, turn: contextlib.AbstractContextManager[Any]
    ) -> None:
        self._turn = turn
        self.connection = connection
        self.heads = heads
        self.chunks_name, self.heads_name = chunks_of(info.name), heads_of(info.name)
        self.take(info)

    def take(self, info: MilvusInfo) -> None:
        """Use what the collection says of itself by now."""
        self.info = info

    def retrieve(self, request: RetrieveRequest) -> list[VectorSearchResult]:
        for vector in request.vectors:
            query_vector(self.info.name, self.info.dimensions, vector)
        if request.texts and not self.info.keyword:
            raise without_keyword(self.info.name)

        def read() -> list[VectorSearchResult]:
            before = self.heads.removals()
            found = run_steps(request, View(self).answer)
            if self.heads.removals() != before:
                raise Changed
            return found

        return self._steady(read)

    def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None
    ) -> list[DocumentSummary]:
        names = None if document_ids is None else [name for one in document_ids for name in self.heads.find(one)]
        return self.heads.summaries(metadata_filter, names)

    def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        def read() -> list[VectorRecord]:
            stored = self.heads.by_name(list({(key.scope, key.document_id): None for key in keys}))
            ids = {
                chunk_row_id(stored[name].head.number, key.chunk_index): key
                for key in keys
                if (name := (key.scope, key.document_id)) in stored and stored[name].head.has(key.chunk_index)
            }
            return self._records(ids, keys, metadata_filter, with_vectors)

        return self._steady(read)

    def list_chunks(
        self,
        document_id: str,
        offset: int,
        limit: int,
        metadata_filter: FilterLike | None,
        with_vectors: bool,
    ) -> list[VectorRecord]:
        def read() -> list[VectorRecord]:
            names = self.heads.find(document_id)
            stored = self.heads.by_name(names)
            ids = {
                chunk_row_id(stored[name].head.number, index): ChunkKey(*name, index)
                for name in names
                if name in stored
                for index in stored[name].head.indexes(offset, min(offset + limit, MAX_INDEX + 1))
            }
            return self._records(ids, list(ids.values()), metadata_filter, with_vectors)

        return self._steady(read)

    def _records(
        self,
        ids: dict[str, ChunkKey],
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None,
        with_vectors: bool,
    ) -> list[VectorRecord]:
        vectors = with_vectors and self.info.dimensions > 0
        rows = self.connection.get(self.chunks_name, list(ids), [CONTENT, *([DENSE] if vectors else [])])
        if len(rows) < len(ids):
            raise Changed
        found: dict[ChunkKey, VectorRecord] = {}
        for row in rows:
            key, chunk = ids[row[ID]], chunk_of_row(row)
            if matches(metadata_filter, chunk.metadata):
                vector = [float(number) for number in row[DENSE]] if vectors else []
                found[key] = VectorRecord(vector=vector, document_id=key.document_id, chunk=chunk, scope=key.scope)
        return [found[key] for key in keys if key in found]

    def count(self, metadata_filter: FilterLike | None) -> int:
        if plan(metadata_filter) is None:
            return self.heads.chunks
        condition = self.connection.dialect.condition(metadata_filter)
        if self.connection.count(self.chunks_name) == self.heads.chunks:
            return self.connection.count(self.chunks_name, condition)
        found = self.connection.scan(self.chunks_name, condition, [ID, HEAD_OF])
        rows = [(*parse_row_id(row[ID]), row[HEAD_OF]) for row in found]
        live = self.heads.by_number({number: head for number, _, head in rows})
        return sum(number in live and live[number].head.has(index) for number, index, _ in rows)

    def batches(self, batch_size: int) -> Iterator[list[ChunkKey]]:
        """Keys of all chunks in order, a batch at a time; the heads of a batch are read when its turn comes."""
        batch: list[ChunkKey] = []
        names = self.heads.names()
        for start in range(0, len(names), batch_size):
            part = names[start : start + batch_size]
            stored = self.heads.by_name(part)
            for name in part:
                for index in stored[name].head.indexes() if name in stored else ():
                    batch.append(ChunkKey(*name, index))
                    if len(batch) == batch_size:
                        yield batch
                        batch = []
        if batch:
            yield batch

    def _steady(self, read: Callable[[], T]) -> T:
        """Run `read`, again from the start when a document in it was replaced meanwhile; at last between two writes of
        this process."""
        for _ in range(_FREE_ATTEMPTS):
            with contextlib.suppress(Changed):
                return read()
        for attempt in range(_ATTEMPTS):
            with contextlib.suppress(Changed), self._turn:
                return read()
            time.sleep(0.005 * attempt)
        raise StoreError(
            f"documents of collection {self.info.name!r} are replaced all the time: {_ATTEMPTS} reads found a version "
            "that was gone at the end; try again"
        )


class View:
    """The versions of documents that one search has seen."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._versions: Versions[int, Stored] = Versions(is_shared=reader.connection.is_shared)
        self._head_of: dict[int, str] = {}
        """Number of a version -> id of its document's head row."""
        self._carried: dict[str, dict[str, Any]] = {}
        """Rows with their contents that came with a search for a few; a request of its own takes 3 ms."""

    def answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, metadata_filter, None):
                return self._nearest(vector, limit, metadata_filter)
            case Nearest(vector, limit, _, keys):
                return self._similarities(vector, keys or ())[:limit]
            case Keyword(_, limit, metadata_filter, weights):
                return self._keyword(weights, limit, metadata_filter)
            case Seen(words):
                terms, heads = set(map(term_id, words)), self._reader.heads
                return seen_share(terms, heads.frequencies(terms), heads.indexed)
            case Get(keys):
                return self._chunks(keys)

    def _nearest(self, vector: Sequence[float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        info = self._reader.info
        query = query_vector(info.name, info.dimensions, vector).tolist()
        exact = info.distance == "Euclid"  # Milvus squares it, Milvus Lite does not

        def found(count: int) -> list[tuple[ChunkKey, float]]:
            rows = self._live(DENSE, query, count, metadata_filter, [DENSE] if exact else [])
            if exact:
                scores = self._compare(query, [row[DENSE] for _, row in rows])
            else:
                scores = [self._score(row["distance"]) for _, row in rows]
            return [(key, score) for (key, _), score in zip(rows, scores, strict=True)]

        return _best(cut_ties(found, limit, limit + 1), limit)

    def _score(self, raw: float) -> float:
        if self._reader.info.distance != "Cosine":
            return raw
        return min(1.0, max(-1.0, raw)) if raw == raw else 0.0  # a server may give NaN for a vector of zeros

    def _similarities(self, vector: Sequence[float], keys: Sequence[ChunkKey]) -> list[Scored]:
        """Of chunks that earlier steps found, so their versions are pinned."""
        ids = self._ids(keys)
        rows = self._reader.connection.get(self._reader.chunks_name, list(ids), [DENSE])
        if len(rows) < len(ids):
            raise Changed
        scores = self._compare(vector, [row[DENSE] for row in rows])
        return _best([(ids[row[ID]], score) for row, score in zip(rows, scores, strict=True)], len(rows))

    def _compare(self, vector: Sequence[float], others: Sequence[Sequence[float]]) -> list[float]:
        query, matrix = (np.asarray(numbers, dtype=np.float32) for numbers in (vector, others))
        found: list[float] = similarities(self._reader.info.distance, query, matrix).tolist()
        return found

    def _keyword(self, weights: Mapping[str, float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        heads = self._reader.heads
        asked = by_term_id(weights)
        frequencies = heads.frequencies(asked) if asked else {}
        indexed, average = heads.indexed, heads.average_length
        query = {
            term: weight * idf(max(indexed, frequencies[term]), frequencies[term])
            for term, weight in asked.items()
            if frequencies[term]
        }
        if not query:
            return []
        sparse = sparse_row(list(query), list(query.values()))

        def found(count: int) -> list[tuple[tuple[ChunkKey, dict[str, Any]], float]]:
            rows = self._live(SPARSE, sparse, count, metadata_filter, [SPARSE])
            return [(hit, hit[1]["distance"]) for hit in rows]

        # The stored weights are those of an earlier average length: they find the candidates, which are scored anew.
        drift = abs(float(np.log(average / self._reader.info.weight_average)))
        spare = _SPARE + min(_MAX_SPARE, int(5 * drift * limit))
        rough = [hit for hit, _ in cut_ties(found, limit, limit + spare)]
        scores = decode(sparse_of_row(row) for _, row in rough).bm25(query, average)
        exact = [(key, score) for (key, _), score in zip(rough, scores, strict=True) if score > 0]
        return _best(exact, limit)

    def _chunks(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Chunk]:
        ids = self._ids(keys)
        rows = [self._carried[one] for one in ids if one in self._carried]
        missing = [one for one in ids if one not in self._carried]
        if missing:
            rows += self._reader.connection.get(self._reader.chunks_name, missing, [CONTENT])
        if len(rows) < len(ids):
            raise Changed
        return {ids[row[ID]]: chunk_of_row(row) for row in rows}

    def _ids(self, keys: Sequence[ChunkKey]) -> dict[str, ChunkKey]:
        pinned = {key: self._versions.pinned.get((key.scope, key.document_id)) for key in keys}
        return {chunk_row_id(number, key.chunk_index): key for key, number in pinned.items() if number is not None}

    def _live(
        self, field: str, query: Any, count: int, metadata_filter: FilterLike | None, fields: Sequence[str]
    ) -> list[tuple[ChunkKey, dict[str, Any]]]:
        """The best rows that count; searches again without what turns out to be stale."""
        reader, versions = self._reader, self._versions
        fields = [HEAD_OF, *fields, *([CONTENT] if count <= _CARRIED else [])]
        for _ in range(_ATTEMPTS):
            more = [among(NUMBER, sorted(versions.stale), negate=True)] if versions.stale else []
            condition = reader.connection.dialect.condition(metadata_filter, *more)
            rows = reader.connection.search(reader.chunks_name, field, query, count, condition, fields)
            placed = [(*parse_row_id(row[ID]), row) for row in rows]
            self._head_of |= {number: row[HEAD_OF] for number, _, row in placed}
            asked = versions.to_ask(number for number, _, _ in placed)
            if versions.settle(asked, reader.heads.by_number({number: self._head_of[number] for number in asked})):
                self._carried |= {row[ID]: row for _, _, row in placed if CONTENT in row}
                return [
                    (ChunkKey(*versions.known[number].name, index), row)
                    for number, index, row in placed
                    if versions.known[number].head.has(index)
                ]
        raise Changed


def _best(hits: Iterable[tuple[ChunkKey, float]], limit: int) -> list[Scored]:
    return best((Scored(key, float(score)) for key, score in hits), limit)
