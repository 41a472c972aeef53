"""Reading one collection in Elasticsearch while others write to it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import StoreError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ...retrieval.lexical import K1, B, idf
from .._shared.driver import run_steps_async
from .._shared.heads import MAX_INDEX, Name
from .._shared.records import query_vector
from .._shared.versions import Changed, Versions
from .._shared.words import words_of
from ..base import CollectionInfo, Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from .client import Connection, Rows
from .schema import (
    CONTENT,
    COUNT,
    DOCUMENT,
    HEAD_ID,
    INDEX,
    INDEXED,
    IS_CHUNK,
    IS_HEAD,
    LENGTH,
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
    head_doc_id,
    rough_bm25,
    stored_of,
    summary_of,
)

T = TypeVar("T")
Hit = tuple[ChunkKey, Document]

MAX_LIMIT = 10_000
_ATTEMPTS = 20
_STATISTICS_S = 30.0
_TERMS = 1_000
# A page of texts is parsed in the event loop.
_TEXTS_PER_PAGE = 100
_NAME = (SCOPE, DOCUMENT)
_KEY_ORDER = (*_NAME, INDEX)


class Statistics:
    """What BM25 needs of a collection: kept until this store writes, at most 30 s."""

    def __init__(self, chunks: int, indexed: int, tokens: int) -> None:
        self.chunks = chunks
        self.indexed = indexed
        """Number of chunks that have tokens."""
        self.average_length = tokens / indexed if indexed else 1.0
        self.frequencies: dict[str, int] = {}
        self._since = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._since < _STATISTICS_S


class Reader:
    """The reads of one collection."""

    def __init__(self, connection: Connection, index: str, info: CollectionInfo) -> None:
        self.connection = connection
        self.index = index
        self.info = info
        self.latest = Rows(connection, index)
        self._statistics: Statistics | None = None

    # --- heads ---

    async def heads(self, names: Sequence[Name]) -> dict[Name, Stored]:
        """As of now, also what no search shows yet."""
        return await _heads(self.latest, names)

    async def find(self, document_ids: Sequence[str]) -> list[Name]:
        """Every document with one of these ids, in order."""
        where = condition(None, IS_HEAD, {"terms": {DOCUMENT: list(document_ids)}})
        hits = self.connection.scan(self.index, where, source=_NAME, sort=_NAME)
        return [(hit["_source"][SCOPE], hit["_source"][DOCUMENT]) async for hit in hits]

    async def catch_up(self) -> None:
        """Before documents are looked up to be deleted: with ``refresh=False`` the latest are in no search yet."""
        if self.connection.options.refresh is False:
            await self.connection.client.indices.refresh(index=self.index)

    async def names(self) -> list[Name]:
        """All documents, in order."""
        hits = self.connection.scan(self.index, condition(None, IS_HEAD), source=_NAME, sort=_NAME)
        return [(hit["_source"][SCOPE], hit["_source"][DOCUMENT]) async for hit in hits]

    async def summaries(self, metadata_filter: FilterLike | None) -> list[DocumentSummary]:
        where = condition(metadata_filter, IS_HEAD)
        hits = self.connection.scan(self.index, where, source=[CONTENT, COUNT], sort=_NAME)
        return [summary_of(hit["_source"]) async for hit in hits]

    # --- statistics ---

    async def statistics(self, *, fresh: bool = False) -> Statistics:
        if fresh or self._statistics is None or not self._statistics.is_fresh:
            sums = {name: {"sum": {"field": name}} for name in (COUNT, INDEXED, LENGTH)}
            answer = await self.connection.client.search(
                index=self.index, query=condition(None, IS_HEAD), size=0, aggs=sums
            )
            found = {name: int(answer["aggregations"][name]["value"]) for name in sums}
            self._statistics = Statistics(found[COUNT], found[INDEXED], found[LENGTH])
        return self._statistics

    def forget_statistics(self) -> None:
        """After a write of this store."""
        self._statistics = None

    async def count(self, metadata_filter: FilterLike | None) -> int:
        stored = (await self.statistics(fresh=True)).chunks
        if plan(metadata_filter) is None:
            return stored
        where = condition(metadata_filter, IS_CHUNK)
        if await self.connection.count(self.index, condition(None, IS_CHUNK)) == stored:
            return await self.connection.count(self.index, where)
        # Some chunks do not count: somebody is writing, or was interrupted.
        counted = 0
        rows: list[Document] = []
        async for hit in self.connection.scan(self.index, where, source=[VERSION, HEAD_ID, INDEX], sort=[VERSION]):
            rows.append(hit["_source"])
            if len(rows) == 1_000:
                counted += await self._count_live(rows)
                rows = []
        return counted + await self._count_live(rows)

    async def _count_live(self, rows: Sequence[Document]) -> int:
        answers = await self.latest.heads(sorted({row[HEAD_ID] for row in rows}))
        live = {stored.version: stored for stored in map(stored_of, answers)}
        return sum(row[VERSION] in live and live[row[VERSION]].head.has(row[INDEX]) for row in rows)

    # --- chunks ---

    async def retrieve(self, request: RetrieveRequest) -> list[VectorSearchResult]:
        for vector in request.vectors:
            query_vector(self.info.name, self.info.dimensions, vector)
        return await self._steady(lambda rows: run_steps_async(request, View(self, rows).answer))

    async def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        async def read(rows: Rows) -> list[VectorRecord]:
            stored = await _heads(rows, list({(key.scope, key.document_id): None for key in keys}))
            ids = {
                chunk_doc_id(stored[name].version, key.chunk_index): key
                for key in keys
                if (name := (key.scope, key.document_id)) in stored and stored[name].head.has(key.chunk_index)
            }
            return await self._records(rows, ids, keys, metadata_filter, with_vectors)

        return await self._steady(read)

    async def list_chunks(
        self,
        document_id: str,
        offset: int,
        limit: int,
        metadata_filter: FilterLike | None,
        with_vectors: bool,
    ) -> list[VectorRecord]:
        async def read(rows: Rows) -> list[VectorRecord]:
            where = condition(None, IS_HEAD, {"term": {DOCUMENT: document_id}})
            found = await rows.search(query=where, size=MAX_LIMIT, source=_NAME)
            names = sorted((hit["_source"][SCOPE], hit["_source"][DOCUMENT]) for hit in found)
            stored = await _heads(rows, names)
            ids = {
                chunk_doc_id(stored[name].version, index): ChunkKey(*name, index)
                for name in names
                if name in stored
                for index in stored[name].head.indexes(offset, min(offset + limit, MAX_INDEX + 1))
            }
            return await self._records(rows, ids, list(ids.values()), metadata_filter, with_vectors)

        return await self._steady(read)

    async def _records(
        self,
        rows: Rows,
        ids: Mapping[str, ChunkKey],
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None,
        with_vectors: bool,
    ) -> list[VectorRecord]:
        vectors = with_vectors and self.info.dimensions > 0
        more = {"fields": [VECTOR]} if vectors else {}  # `_source` leaves vectors out since 9.2
        hits = await rows.by_ids(list(ids), page=_TEXTS_PER_PAGE, source=[CONTENT], **more)
        if len(hits) < len(ids):
            raise Changed
        zeros = [0.0] * self.info.dimensions if vectors else []

        def parse() -> list[VectorRecord]:
            found: dict[ChunkKey, VectorRecord] = {}
            for hit in hits:
                key, chunk = ids[hit["_id"]], chunk_of(hit["_source"])
                if matches(metadata_filter, chunk.metadata):
                    vector = hit.get("fields", {}).get(VECTOR, zeros)
                    found[key] = VectorRecord(
                        vector=list(vector), document_id=key.document_id, chunk=chunk, scope=key.scope
                    )
            return [found[key] for key in keys if key in found]

        return await asyncio.to_thread(parse)

    async def iterate(self, metadata_filter: FilterLike | None, batch_size: int) -> AsyncIterator[list[VectorRecord]]:
        names = await self.names()
        batch: list[ChunkKey] = []
        for start in range(0, len(names), batch_size):
            part = names[start : start + batch_size]
            stored = await self.heads(part)
            for name in part:
                for index in stored[name].head.indexes() if name in stored else ():
                    batch.append(ChunkKey(*name, index))
                    if len(batch) == batch_size:
                        yield await self.fetch(batch, metadata_filter, True)
                        batch = []
        if batch:
            yield await self.fetch(batch, metadata_filter, True)

    async def _steady(self, read: Callable[[Rows], Awaitable[T]]) -> T:
        """Run `read` on the latest state; when a document in it was replaced meanwhile, on a point in time."""
        with contextlib.suppress(Changed):
            return await read(self.latest)
        async with self.connection.snapshot(self.index) as rows:
            try:
                return await read(rows)
            except Changed as error:
                raise StoreError(
                    f"chunks of collection {self.info.name!r} are missing in index {self.index!r}; replace the "
                    "documents that list_documents shows and list_chunks does not"
                ) from error


async def _heads(rows: Rows, names: Sequence[Name]) -> dict[Name, Stored]:
    answers = await rows.heads([head_doc_id(name) for name in names])
    return {stored.name: stored for stored in map(stored_of, answers)}


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
        best = _best(scored, limit)
        if len(best) < limit or best[-1].score <= 0:
            zeros = await self._in_order(limit, metadata_filter, {"term": {ZERO: True}})
            best = _best([*scored, *zeros], limit)
        return best

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
            return _best([Scored(key, 0.0) for key in ids.values()], len(ids))
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
        return _best([Scored(ids[one], score) for one, score in scores.items()], len(ids))

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
        scored = [
            Scored(key, _bm25(weights, hit["_source"][TEXT].split(), statistics.average_length)) for key, hit in rough
        ]
        return _best([hit for hit in scored if hit.score > 0], limit)

    async def _weights(self, counted: Counter[str], statistics: Statistics) -> dict[str, float]:
        """Word -> idf times its count in the query, of the words that are in the collection; the rarest 1,000."""
        unknown = [word for word in counted if word not in statistics.frequencies]
        for start in range(0, len(unknown), 16):
            part = unknown[start : start + 16]
            where = [condition(None, IS_CHUNK, {"term": {TEXT: word}}) for word in part]
            counts = await asyncio.gather(*(self._connection.count(self._reader.index, query) for query in where))
            statistics.frequencies.update(zip(part, counts, strict=True))
        weights = {
            word: count * idf(max(statistics.indexed, frequency), frequency)
            for word, count in counted.items()
            if (frequency := statistics.frequencies[word])
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
        hits = await self._rows.by_ids(list(ids), page=_TEXTS_PER_PAGE, source=[CONTENT])
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


def _bm25(weights: Mapping[str, float], words: Sequence[str], average_length: float) -> float:
    base = K1 * (1 - B + B * len(words) / average_length)
    counted = Counter(word for word in words if word in weights)
    return sum(weights[word] * frequency / (frequency + base) for word, frequency in counted.items())


def _best(scored: Sequence[Scored], limit: int) -> list[Scored]:
    return sorted(scored, key=lambda hit: (-hit.score, hit.key))[:limit]
