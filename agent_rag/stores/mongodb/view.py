"""Searching a collection in MongoDB while others write to it, and exact BM25.

Search indexes lag behind, and their rows are looked up in the documents of now. A version is published only when search
finds all of it, and its chunks are never changed. So a search without the parts that are in the log when it begins is
right, unless one of them was published meanwhile in place of an older version, or a hit is in the log at the end: then
it is made again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...documents import Chunk, ChunkKey, VectorSearchResult
from ...errors import StoreError
from ...filters import FilterLike
from ...retrieval.lexical import idf
from ..base import CollectionInfo, Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from ..engine.driver import best, run_steps_async
from ..engine.records import Vector, query_vector
from ..engine.words import words_of
from ..versions.exact_scores import bm25, similarities
from ..versions.statistics import Statistics
from ..versions.versions import Changed
from .client import Connection
from .schema import (
    CHUNK,
    HEAD,
    LOG,
    Document,
    binary_vector,
    chunk_of,
    key_of,
    matrix_of,
    part_of,
    search_clauses,
    table_name,
    where,
)

_PATIENCE_S = 10.0
_MAX_CANDIDATES = 10_000
_MAX_WORDS = 500
_PAGE = 1_000
# Most chunks that are compared one by one where the index gives fewer rows than there should be.
_MAX_SCAN = 10_000
# Scores of the text index are off by some percent (lengths in one byte, deleted documents).
_ROUGHLY = 0.9
_KEY = {"scope": 1, "document_id": 1, "index": 1}


async def ask_statistics(connection: Connection, name: str) -> Statistics[str]:
    total = {"$group": {"_id": None, "indexed": {"$sum": "$indexed"}, "tokens": {"$sum": "$tokens_total"}}}
    rows = await connection.rows(table_name(name), [{"$match": {"kind": HEAD}}, total])
    return Statistics(rows[0]["indexed"], rows[0]["tokens"]) if rows else Statistics(0, 0)


async def search(
    connection: Connection, info: CollectionInfo, request: RetrieveRequest, statistics: Statistics[str] | None
) -> list[VectorSearchResult]:
    """Run `request`, again from the start when what it found does not count any more.

    Raises: StoreError: the documents change too fast for a search.
    """
    deadline = time.monotonic() + _PATIENCE_S
    attempt = 0
    while True:
        view = View(connection, info, statistics)
        try:
            await view.begin()
            found = await run_steps_async(request, view.answer)
            await view.verify()
        except Changed:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"documents of collection {info.name!r} are replaced all the time: searches of {_PATIENCE_S:g} s "
                    "found versions that were gone at the end; try again"
                ) from None
            attempt += 1
            await asyncio.sleep(min(0.002 * attempt, 0.05))
        else:
            return found


class View:
    """One attempt at a search, without the parts that are in the log at its beginning."""

    def __init__(self, connection: Connection, info: CollectionInfo, statistics: Statistics[str] | None) -> None:
        self._connection = connection
        self._info = info
        self._table = connection.table(table_name(info.name))
        self._statistics = statistics
        self._log: set[str] = set()
        self._pending: dict[str, str] = {}
        self._ids: dict[ChunkKey, str] = {}
        self._seen: dict[str, None] = {}

    async def begin(self) -> None:
        async for row in self._table.find({"kind": LOG}, {"part": 1, "dead": 1, "head": 1}):
            self._log.add(row["part"])
            if not row["dead"]:
                self._pending[row["part"]] = row["head"]

    async def answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, metadata_filter, None):
                return await self._nearest(vector, limit, metadata_filter)
            case Nearest(vector, limit, _, keys):
                return (await self._similarities(vector, keys or ()))[:limit]
            case Keyword(text, limit, metadata_filter):
                return await self._keyword(text, limit, metadata_filter)
            case Get(keys):
                return await self._chunks(keys)

    async def verify(self) -> None:
        """Raises: Changed: a hit does not count, or a version that was left out counts by now, instead of another."""
        ids = list(self._seen)
        dead: dict[str, bool] = {}
        present = 0
        for start in range(0, max(len(ids), 1), _PAGE):
            wanted = {"$or": [{"kind": LOG}, {"_id": {"$in": ids[start : start + _PAGE]}}]}
            query: list[Document] = [{"$match": wanted}, {"$project": {"kind": 1, "part": 1, "dead": 1}}]
            async for row in self._connection.snapshot(table_name(self._info.name), query):
                if row["kind"] == LOG:
                    dead[row["part"]] = row["dead"]
                else:
                    present += 1
        if (
            present < len(ids)
            or not dead.keys().isdisjoint(map(part_of, ids))
            or await self._has_replaced([part for part in self._pending if dead.get(part, True)])
        ):
            raise Changed

    async def _has_replaced(self, parts: Sequence[str]) -> bool:
        """Whether one of `parts`, which were pending, may have taken the place of others."""
        for start in range(0, len(parts), _PAGE):
            some = parts[start : start + _PAGE]
            wanted = {"_id": {"$in": list({self._pending[part] for part in some})}, "first": True}
            named: set[str] = set()
            async for row in self._table.find(wanted, {"parts": 1}):
                named.update(row["parts"])
            if not named.issuperset(some):
                return True
        return False

    # --- vectors ---

    async def _nearest(self, vector: Sequence[float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        query = query_vector(self._info.name, self._info.dimensions, vector)
        cosine = self._info.distance == "Cosine"
        if cosine and not query.any():
            return await self._zeros(limit, metadata_filter, any_vector=True)
        count = limit + 1
        while True:
            rows = await self._vector_rows(query, count, metadata_filter)
            whole = len(rows) < count
            missing = await self._missing(len(rows), metadata_filter, {"zero": False} if cosine else {}) if whole else 0
            if missing:
                scored = await self._compared(query, metadata_filter)
                break
            scored = self._scored(query, rows)
            if whole or scored[-1].score < scored[limit - 1].score:
                break
            count *= 4
        if cosine and not missing and (len(scored) < limit or scored[limit - 1].score <= 0):
            scored += await self._zeros(limit, metadata_filter)
        return best(scored, limit)

    async def _vector_rows(self, query: Vector, count: int, metadata_filter: FilterLike | None) -> list[Document]:
        candidates = max(count, min(_MAX_CANDIDATES, max(self._connection.options.num_candidates, 20 * count)))
        by_score = self._info.distance == "Cosine"
        stage: Document = {
            "index": self._connection.options.vector_index,
            "path": "vector",
            "queryVector": binary_vector(query),
            "limit": count,
            "filter": where(metadata_filter, without=self._log),
            **({"numCandidates": candidates} if candidates <= _MAX_CANDIDATES else {"exact": True}),
        }
        value = {"score": {"$meta": "vectorSearchScore"}} if by_score else {"vector": 1}
        return await self._connection.rows(
            table_name(self._info.name), [{"$vectorSearch": stage}, {"$project": {**_KEY, **value}}]
        )

    def _scored(self, query: Vector, rows: Sequence[Document]) -> list[Scored]:
        """Cosines from the index's ``(1 + cosine) / 2``; the others, whose scores the index bends, computed anew."""
        self._remember(rows)
        if self._info.distance == "Cosine":
            return [Scored(key_of(row), min(1.0, max(-1.0, 2 * row["score"] - 1))) for row in rows]
        scores = similarities(self._info.distance, query, matrix_of([row["vector"] for row in rows]))
        found = [Scored(key_of(row), float(score)) for row, score in zip(rows, scores, strict=True)]
        return sorted(found, key=lambda hit: -hit.score)

    async def _missing(self, rows: int, metadata_filter: FilterLike | None, more: Document) -> int:
        """How many chunks that match did not come: the index lags, or lost its rows to deletions."""
        query = where(metadata_filter, {"kind": CHUNK, **more}, without=self._log)
        missing: int = await self._table.count_documents(query) - rows
        if missing > _MAX_SCAN:
            await self._connection.until_queryable(table_name(self._info.name), [self._connection.options.vector_index])
            return 0
        return max(missing, 0)

    async def _compared(self, query: Vector, metadata_filter: FilterLike | None) -> list[Scored]:
        """All chunks that match, without the index."""
        wanted = where(metadata_filter, {"kind": CHUNK}, without=self._log)
        rows = [row async for row in self._table.find(wanted, {**_KEY, "vector": 1}).limit(2 * _MAX_SCAN)]
        self._remember(rows)
        vectors = [row["vector"] for row in rows]
        scores = await asyncio.to_thread(lambda: similarities(self._info.distance, query, matrix_of(vectors)))
        return [Scored(key_of(row), float(score)) for row, score in zip(rows, scores, strict=True)]

    async def _zeros(self, limit: int, metadata_filter: FilterLike | None, *, any_vector: bool = False) -> list[Scored]:
        """Chunks without a direction, which a cosine index does not have: they score 0."""
        wanted = where(metadata_filter, {"kind": CHUNK, **({} if any_vector else {"zero": True})}, without=self._log)
        order = [("scope", 1), ("document_id", 1), ("index", 1)]
        rows = [row async for row in self._table.find(wanted, _KEY, sort=order, limit=limit)]
        self._remember(rows)
        return [Scored(key_of(row), 0.0) for row in rows]

    async def _similarities(self, vector: Sequence[float], keys: Sequence[ChunkKey]) -> list[Scored]:
        rows = await self._by_key(keys, "vector")
        query = query_vector(self._info.name, self._info.dimensions, vector)
        scores = similarities(self._info.distance, query, matrix_of([row["vector"] for row in rows]))
        return best([Scored(key_of(row), float(score)) for row, score in zip(rows, scores, strict=True)], len(rows))

    # --- words ---

    async def _keyword(self, text: str, limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        weights = await self._weights(Counter(words_of(text)))
        if not weights or self._statistics is None:
            return []
        rows = await self._text_rows(weights, limit, metadata_filter)
        self._remember(rows)
        average = self._statistics.average_length

        def score(row: Document) -> float:
            counted = Counter(row["text"].split())
            return bm25(counted, counted.total(), weights, average)

        scored = await asyncio.to_thread(lambda: [Scored(key_of(row), score(row)) for row in rows])
        return best([hit for hit in scored if hit.score > 0], limit)

    async def _weights(self, counted: Counter[str]) -> dict[str, float]:
        """Query frequency times idf; the rarest words where there are too many."""
        statistics = self._statistics
        if statistics is None or not statistics.indexed:
            return {}
        unknown = [word for word in counted if word not in statistics.frequency]
        for start in range(0, len(unknown), 8):
            part = unknown[start : start + 8]
            for word, count in zip(part, await asyncio.gather(*map(self._frequency, part)), strict=True):
                statistics.frequency[word] = count
        weights = {
            word: count * idf(max(statistics.indexed, found), found)
            for word, count in counted.items()
            if (found := statistics.frequency[word])
        }
        if len(weights) > _MAX_WORDS:
            rarest = sorted(weights, key=lambda word: (statistics.frequency[word], word))[:_MAX_WORDS]
            return {word: weights[word] for word in rarest}
        return weights

    async def _frequency(self, word: str) -> int:
        """Number of chunks that have `word`."""
        count: int = await self._table.count_documents({"words": word})
        if self._log:
            count -= await self._table.count_documents({"words": word, "part": {"$in": list(self._log)}})
        return max(count, 0)

    async def _text_rows(
        self, weights: dict[str, float], limit: int, metadata_filter: FilterLike | None
    ) -> list[Document]:
        """Candidates, with their texts: the index's own scores only choose them."""
        words = [{"text": {"query": word, "path": "text"}} for word in weights]
        compound: Document = {"should": words, "minimumShouldMatch": 1}
        if clauses := search_clauses(metadata_filter, without=self._log):
            compound["filter"] = clauses
        count = 2 * limit + 50
        while True:
            rows = await self._connection.rows(
                table_name(self._info.name),
                [
                    {"$search": {"index": self._connection.options.text_index, "compound": compound}},
                    {"$limit": count},
                    {"$project": {**_KEY, "text": 1, "score": {"$meta": "searchScore"}}},
                ],
            )
            if len(rows) < count:
                more = {"words": {"$in": list(weights)}}
                if not await self._missing(len(rows), metadata_filter, more):
                    return rows
                wanted = where(metadata_filter, {"kind": CHUNK, **more}, without=self._log)
                return [row async for row in self._table.find(wanted, {**_KEY, "text": 1})]
            if rows[-1]["score"] < _ROUGHLY * rows[limit - 1]["score"] or count >= _MAX_CANDIDATES:
                return rows
            count *= 4

    # --- chunks ---

    async def _chunks(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Chunk]:
        rows = await self._by_key(keys, "chunk")
        if len(rows) > 200:
            return await asyncio.to_thread(lambda: {key_of(row): chunk_of(row) for row in rows})
        return {key_of(row): chunk_of(row) for row in rows}

    async def _by_key(self, keys: Iterable[ChunkKey], field: str) -> list[Document]:
        """Chunks that earlier steps found."""
        ids = [self._ids[key] for key in keys if key in self._ids]
        rows: list[Document] = []
        for start in range(0, len(ids), _PAGE):
            query = {"_id": {"$in": ids[start : start + _PAGE]}}
            rows += [row async for row in self._table.find(query, {**_KEY, field: 1})]
        if len(rows) < len(ids):
            raise Changed
        return rows

    def _remember(self, rows: Iterable[Document]) -> None:
        """Of a chunk that was found in two versions, both; `verify` tells which one does not count."""
        for row in rows:
            self._ids[key_of(row)] = row["_id"]
            self._seen[row["_id"]] = None
