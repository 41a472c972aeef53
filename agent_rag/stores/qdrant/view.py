"""Searching a Qdrant server while others write to it: one view of the documents per search, and exact BM25."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client import AsyncQdrantClient, models

from ...documents import Chunk, ChunkKey, VectorSearchResult
from ...errors import StoreError
from ...filters import FilterLike
from ...retrieval.lexical import term_id, tokenize
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from ..engine.driver import best, run_steps_async
from ..engine.payload import CHUNK, parse_chunk
from ..engine.sparse import decode
from ..versions.heads import Name
from ..versions.statistics import Statistics
from ..versions.versions import Changed
from .layout import (
    DOCUMENT,
    GENERATION,
    INDEX,
    IS_LIVE,
    LENGTH,
    SCOPE,
    chunk_id,
    condition,
    head_id,
    key_of,
    name_of,
)
from .schema import DENSE, SPARSE, score_of

_PAYLOAD = [SCOPE, DOCUMENT, INDEX, GENERATION]
_ATTEMPTS = 10
_LENGTHS = 100_000


class ServerStatistics(Statistics[int]):
    def __init__(self, indexed: int, tokens: int) -> None:
        super().__init__(indexed, tokens)
        self.idf: dict[int, float] = {}

    @classmethod
    async def ask(cls, client: AsyncQdrantClient, collection: str) -> ServerStatistics:
        """One facet over the chunks' lengths counts chunks and tokens, whoever wrote them."""
        answer = await client.facet(
            collection, LENGTH, facet_filter=models.Filter(must=[IS_LIVE]), limit=_LENGTHS, exact=True
        )
        lengths = {int(hit.value): hit.count for hit in answer.hits if int(hit.value) > 0}
        return cls(sum(lengths.values()), sum(length * count for length, count in lengths.items()))


async def search(
    client: AsyncQdrantClient,
    collection: str,
    distance: str,
    request: RetrieveRequest,
    statistics: ServerStatistics | None,
) -> list[VectorSearchResult]:
    """Run `request`, again from the start when a document in it was replaced meanwhile.

    Raises: StoreError: documents are replaced faster than they are read.
    """
    for attempt in range(_ATTEMPTS):
        view = View(client, collection, distance, statistics, patient=attempt + 1 < _ATTEMPTS)
        try:
            return await run_steps_async(request, view.answer)
        except Changed:
            await asyncio.sleep(0.002 * attempt)
    raise StoreError(
        f"documents of collection {collection!r} are replaced all the time: {_ATTEMPTS} searches found a version that "
        "was gone at the end; try again"
    )


class View:
    """The versions of documents that one search has seen."""

    def __init__(
        self,
        client: AsyncQdrantClient,
        collection: str,
        distance: str,
        statistics: ServerStatistics | None,
        *,
        patient: bool,
    ) -> None:
        self._client = client
        self._collection = collection
        self._distance = distance
        self._statistics = statistics
        self._patient = patient
        self._pinned: dict[Name, str] = {}
        self._stale: set[str] = set()

    async def answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, metadata_filter, None):
                return await self._nearest(vector, limit, metadata_filter)
            case Nearest(vector, limit, _, keys):
                return await self._similarity(vector, limit, keys or ())
            case Keyword(text, limit, metadata_filter):
                return await self._keyword(text, limit, metadata_filter)
            case Get(keys):
                return await self._chunks(keys)

    async def _nearest(self, vector: Sequence[float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        count = limit + 1
        while True:
            (hits,) = await self._query(
                metadata_filter, lambda where, count=count: [self._request(list(vector), DENSE, count, where)]
            )
            scored = [Scored(key_of(hit.payload), score_of(hit.score, self._distance)) for hit in hits]
            if len(hits) < count or scored[-1].score < scored[limit - 1].score:
                return best(scored, limit)
            count *= 4

    async def _similarity(self, vector: Sequence[float], limit: int, keys: Sequence[ChunkKey]) -> list[Scored]:
        """Among chunks that earlier steps found, so their versions are pinned."""
        where = models.Filter(must=[models.HasIdCondition(has_id=list(self._ids(keys)))])
        answer = await self._client.query_batch_points(
            self._collection, [self._request(list(vector), DENSE, max(limit, 1), where)]
        )
        hits = answer[0].points
        return best([Scored(key_of(hit.payload or {}), score_of(hit.score, self._distance)) for hit in hits], limit)

    async def _keyword(self, text: str, limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        counted = Counter(map(term_id, tokenize(text)))
        statistics = self._statistics
        if not counted or statistics is None or not statistics.indexed:
            return []
        query = models.SparseVector(indices=list(counted), values=[float(count) for count in counted.values()])
        unknown = [term for term in counted if term not in statistics.idf]
        count = 2 * limit + 50
        while True:

            def requests(where: models.Filter, count: int = count) -> list[models.QueryRequest]:
                # A chunk that has the term tells its idf: the score of the term alone over its weight.
                alone = [models.SparseVector(indices=[term], values=[1.0]) for term in unknown]
                live = models.Filter(must=[IS_LIVE])
                return [
                    self._request(query, SPARSE, count, where),
                    *(self._request(term, SPARSE, 1, live) for term in alone),
                ]

            hits, *alone = await self._query(metadata_filter, requests)
            for term, found in zip(unknown, alone, strict=True):
                statistics.idf[term] = _idf_from(term, found)
            if len(hits) < count or hits[-1].score < hits[limit - 1].score:
                break
            count *= 4
        weights = {term: times * statistics.idf[term] for term, times in counted.items() if statistics.idf[term]}
        if not weights:
            return []
        scores = decode(map(_sparse, hits)).bm25(weights, statistics.average_length)
        exact = [Scored(key_of(hit.payload), score) for hit, score in zip(hits, scores, strict=True) if score > 0]
        return best(exact, limit)

    async def _chunks(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Chunk]:
        ids = self._ids(keys)
        records = await self._client.retrieve(self._collection, list(ids), with_payload=[CHUNK], with_vectors=False)
        found = {ids[str(record.id)]: parse_chunk((record.payload or {})[CHUNK]) for record in records}
        if len(found) < len(ids) and self._patient:
            raise Changed
        return found

    def _ids(self, keys: Sequence[ChunkKey]) -> dict[str, ChunkKey]:
        pinned = ((key, self._pinned.get((key.scope, key.document_id))) for key in keys)
        return {chunk_id(key, generation): key for key, generation in pinned if generation is not None}

    # --- versions ---

    async def _query(self, metadata_filter: FilterLike | None, requests: Any) -> list[list[Any]]:
        """Run a batch until each hit of its first query is of the version that its document's head names.

        Raises: Changed: it never was.
        """
        for _ in range(_ATTEMPTS):
            answers = await self._client.query_batch_points(
                self._collection, requests(condition(metadata_filter, self._stale))
            )
            first, *others = (list[Any](answer.points) for answer in answers)
            wrong = await self._wrong(first)
            if not wrong:
                return [first, *others]
            self._stale |= wrong
        raise Changed

    async def _wrong(self, hits: Sequence[Any]) -> set[str]:
        """Generations among `hits` that do not count; documents without any are pinned to theirs."""
        seen: dict[Name, set[str]] = {}
        for hit in hits:
            seen.setdefault(name_of(hit.payload), set()).add(hit.payload[GENERATION])
        unknown = [name for name in seen if name not in self._pinned]
        current = dict(self._pinned)
        if unknown:
            current.update(await generations(self._client, self._collection, unknown))
        wrong = {generation for name, found in seen.items() for generation in found if current.get(name) != generation}
        self._stale -= set(current.values())
        for name, found in seen.items():
            if not found & wrong:
                self._pinned[name] = current[name]
            elif name in self._pinned and self._patient:
                raise Changed
        return wrong

    def _request(self, query: Any, using: str, count: int, where: models.Filter) -> models.QueryRequest:
        sparse = using == SPARSE
        params = models.SearchParams(idf=models.IdfCorpusParams(corpus=models.Filter(must=[IS_LIVE])))
        return models.QueryRequest(
            query=query,
            using=using,
            limit=count,
            filter=where,
            params=params if sparse else None,
            with_payload=_PAYLOAD,
            with_vector=[SPARSE] if sparse else False,
        )


async def generations(client: AsyncQdrantClient, collection: str, names: Sequence[Name]) -> dict[Name, str]:
    """The generation that each document's head names; documents without a head are left out."""
    ids = {head_id(name): name for name in names}
    heads = await client.retrieve(collection, list(ids), with_payload=[GENERATION], with_vectors=False)
    return {ids[str(head.id)]: (head.payload or {})[GENERATION] for head in heads}


def _sparse(hit: Any) -> tuple[Sequence[int], Sequence[float]]:
    vector: Mapping[str, Any] = hit.vector or {}
    return (vector[SPARSE].indices, vector[SPARSE].values) if SPARSE in vector else ((), ())


def _idf_from(term: int, found: Sequence[Any]) -> float:
    if not found:
        return 0.0
    indices, values = _sparse(found[0])
    return float(found[0].score / values[list(indices).index(term)])
