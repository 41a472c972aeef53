"""Searching one collection in Elasticsearch while others write to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ...documents import Chunk, ChunkKey, VectorSearchResult
from ...filters import FilterLike
from ...retrieval.lexical import idf
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from ..engine.driver import best, run_steps_async
from ..engine.records import query_vector
from ..engine.words import words_of
from ..versions.exact_scores import bm25
from ..versions.statistics import Statistics
from ..versions.versions import Changed, Versions
from .client import Rows
from .reads import MAX_LIMIT, TEXTS_PER_PAGE, Reader
from .schema import (
    CONTENT,
    DOCUMENT,
    HEAD_ID,
    INDEX,
    IS_CHUNK,
    SCOPE,
    TEXT,
    VECTOR,
    VERSION,
    ZERO,
    Document,
    Stored,
    chunk_doc_id,
    chunk_of,
    condition,
    rough_bm25,
    stored_of,
)

Hit = tuple[ChunkKey, Document]

_ATTEMPTS = 20
_TERMS = 1_000
_KEY_ORDER = (SCOPE, DOCUMENT, INDEX)


async def search(reader: Reader, request: RetrieveRequest) -> list[VectorSearchResult]:
    for vector in request.vectors:
        query_vector(reader.info.name, reader.info.dimensions, vector)
    return await reader.steady(lambda rows: run_steps_async(request, View(reader, rows).answer))


class View:
    """The versions of documents that one search has seen."""

    def __init__(self, reader: Reader, rows: Rows) -> None:
        self._reader = reader
        self._connection = reader.connection
        self._rows = rows
        self._versions: Versions[str, Stored] = Versions(is_shared=rows.point_in_time is None)
        self._head_ids: dict[str, str] = {}
        """Version -> id of its document's head."""

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

    # --- semantic ---

    async def _nearest(self, vector: Sequence[float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        info = self._reader.info
        query = query_vector(info.name, info.dimensions, vector).tolist()
        if not any(query):  # cosine refuses it, and everything scores 0
            return await self._in_order(limit, metadata_filter, IS_CHUNK)

        async def found(count: int) -> list[Hit]:
            return await self._live(lambda without: self._knn(query, count, metadata_filter, without))

        scored = [
            Scored(key, min(1.0, max(-1.0, 2.0 * hit["_score"] - 1.0))) for key, hit in await _with_ties(found, limit)
        ]
        nearest = best(scored, limit)
        if len(nearest) < limit or nearest[-1].score <= 0:
            zeros = await self._in_order(limit, metadata_filter, {"term": {ZERO: True}})
            nearest = best([*scored, *zeros], limit)
        return nearest

    async def _knn(
        self, query: list[float], count: int, metadata_filter: FilterLike | None, without: Sequence[str]
    ) -> list[Document]:
        candidates = max(self._connection.options.num_candidates, 2 * count)
        knn = {
            "field": VECTOR,
            "query_vector": query,
            "k": count,
            "num_candidates": min(candidates, MAX_LIMIT),
            "filter": condition(metadata_filter, IS_CHUNK, without=without),
        }
        return await self._rows.search(knn=knn, size=count, source=[VERSION, HEAD_ID, INDEX])

    async def _in_order(self, limit: int, metadata_filter: FilterLike | None, which: Document) -> list[Scored]:
        """The first `limit` chunks by key, each with score 0."""

        async def search(without: Sequence[str]) -> list[Document]:
            return await self._rows.search(
                query=condition(metadata_filter, which, without=without),
                sort=[{name: "asc"} for name in _KEY_ORDER],
                size=min(limit, MAX_LIMIT),
                source=[VERSION, HEAD_ID, INDEX],
            )

        return [Scored(key, 0.0) for key, _ in await self._live(search)]

    async def _similarities(self, vector: Sequence[float], keys: Sequence[ChunkKey]) -> list[Scored]:
        """Exact cosines of chunks that earlier steps found, so their versions are pinned."""
        info = self._reader.info
        query = query_vector(info.name, info.dimensions, vector).tolist()
        ids = self._ids(keys)
        if not any(query):
            return best([Scored(key, 0.0) for key in ids.values()], len(ids))
        script = {"source": f"cosineSimilarity(params.q, '{VECTOR}') + 1.0", "params": {"q": query}}
        scores: dict[str, float] = {}
        wanted = list(ids)
        for start in range(0, len(wanted), 1_000):
            part = wanted[start : start + 1_000]
            among = {"bool": {"filter": [{"ids": {"values": part}}, {"exists": {"field": VECTOR}}]}}
            scored = {"script_score": {"query": among, "script": script}}
            hits = await self._rows.search(query=scored, size=len(part), source=False)
            scores |= {hit["_id"]: min(1.0, max(-1.0, hit["_score"] - 1.0)) for hit in hits}
        rest = [one for one in wanted if one not in scores]
        zeros = await self._rows.by_ids(rest, source=False) if rest else []
        scores |= {hit["_id"]: 0.0 for hit in zeros}
        if len(scores) < len(ids):
            raise Changed
        return best([Scored(ids[one], score) for one, score in scores.items()], len(ids))

    # --- keyword ---

    async def _keyword(self, text: str, limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        """The server's scores find the candidates. It keeps a length in one byte, has statistics per shard and counts
        what was deleted until it merges, so they are scored anew from their tokens."""
        counted = Counter(words_of(text))
        statistics = await self._reader.statistics() if counted else None
        if statistics is None or not statistics.indexed:
            return []
        weights = await self._weights(counted, statistics)
        if not weights:
            return []

        async def found(count: int) -> list[Hit]:
            return await self._live(lambda without: self._match(weights, counted, count, metadata_filter, without))

        rough = await _with_ties(found, limit, spare=limit + 20)

        def score(hit: Document) -> float:
            words = Counter(hit["_source"][TEXT].split())
            return bm25(words, words.total(), weights, statistics.average_length)

        scored = [Scored(key, score(hit)) for key, hit in rough]
        return best([hit for hit in scored if hit.score > 0], limit)

    async def _weights(self, counted: Counter[str], statistics: Statistics[str]) -> dict[str, float]:
        """Word -> idf times its count in the query, of the words that are in the collection; the rarest 1,000."""
        unknown = [word for word in counted if word not in statistics.frequency]
        for start in range(0, len(unknown), 16):
            part = unknown[start : start + 16]
            where = [condition(None, IS_CHUNK, {"term": {TEXT: word}}) for word in part]
            counts = await asyncio.gather(*(self._connection.count(self._reader.index, query) for query in where))
            statistics.frequency.update(zip(part, counts, strict=True))
        weights = {
            word: count * idf(max(statistics.indexed, frequency), frequency)
            for word, count in counted.items()
            if (frequency := statistics.frequency[word])
        }
        return dict(sorted(weights.items(), key=lambda item: -item[1])[:_TERMS])

    async def _match(
        self,
        weights: Mapping[str, float],
        counted: Mapping[str, int],
        count: int,
        metadata_filter: FilterLike | None,
        without: Sequence[str],
    ) -> list[Document]:
        terms = [{"term": {TEXT: {"value": word, "boost": float(counted[word])}}} for word in weights]
        where = condition(metadata_filter, IS_CHUNK, without=without)
        query = {"bool": {"should": terms, "minimum_should_match": 1, "filter": [where]}}
        source = [VERSION, HEAD_ID, INDEX, TEXT]
        hits = await self._rows.search(query=query, size=count, source=source, search_type="dfs_query_then_fetch")
        return [{**hit, "_score": rough_bm25(hit["_score"])} for hit in hits]

    # --- versions ---

    async def _live(self, search: Callable[[Sequence[str]], Awaitable[list[Document]]]) -> list[Hit]:
        """The hits that count; searches again without what turns out to be stale."""
        versions = self._versions
        for _ in range(_ATTEMPTS):
            hits = await search(sorted(versions.stale))
            sources = [hit["_source"] for hit in hits]
            self._head_ids |= {source[VERSION]: source[HEAD_ID] for source in sources}
            asked = versions.to_ask(source[VERSION] for source in sources)
            ids = sorted({self._head_ids[version] for version in asked})
            answers = await self._rows.heads(ids) if ids else []
            heads = {stored.version: stored for stored in map(stored_of, answers) if stored.version in asked}
            if versions.settle(asked, heads):
                return [
                    (ChunkKey(*versions.known[source[VERSION]].name, source[INDEX]), hit)
                    for source, hit in zip(sources, hits, strict=True)
                    if versions.known[source[VERSION]].head.has(source[INDEX])
                ]
        raise Changed

    async def _chunks(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Chunk]:
        ids = self._ids(keys)
        hits = await self._rows.by_ids(list(ids), page=TEXTS_PER_PAGE, source=[CONTENT])
        if len(hits) < len(ids):
            raise Changed
        return await asyncio.to_thread(lambda: {ids[hit["_id"]]: chunk_of(hit["_source"]) for hit in hits})

    def _ids(self, keys: Sequence[ChunkKey]) -> dict[str, ChunkKey]:
        pinned = {key: self._versions.pinned.get((key.scope, key.document_id)) for key in keys}
        return {chunk_doc_id(version, key.chunk_index): key for key, version in pinned.items() if version is not None}


async def _with_ties(found: Callable[[int], Awaitable[list[Hit]]], limit: int, *, spare: int = 1) -> list[Hit]:
    """At least the best `limit` hits and all that tie with the last one, so that ties are cut by key."""
    count = min(limit + spare, MAX_LIMIT)
    while True:
        hits = await found(count)
        if len(hits) < count or count == MAX_LIMIT or hits[-1][1]["_score"] < hits[limit - 1][1]["_score"]:
            return hits
        count = min(4 * count, MAX_LIMIT)
