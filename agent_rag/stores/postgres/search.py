"""Searching: answers the steps of `retrieve_steps` inside one transaction, and chooses the path of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...documents import Chunk, ChunkKey, VectorSearchResult
from ...filters import FilterLike
from ...filters.plan import plan
from ...retrieval.coverage import seen_share
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Seen, Step
from ..engine.driver import run_steps_async
from .connection import Session
from .copy import term_key
from .filters import Values, uses_index, where
from .keyword import frequencies, ranking_sql, term_weights
from .reader import each
from .schema import Collection
from .vectors import MAX_INDEXED_DIMENSIONS, Extension, distance_sql, score_of, stored_query
from .writer import document_key

_MAX_EF_SEARCH = 1_000
"""pgvector's own bound."""
_MAX_SCAN = 40_000
"""Vectors that a filtered search of the index looks at before it stops."""
_COLLECTED = 2
"""Of so many times the hits that are wanted, a filtered search of the index takes the nearest."""
_LOOKS = 10
"""Of so many times the hits that are wanted, the best by keyword are looked at one by one for those that match."""


@dataclass(frozen=True)
class Tuning:
    """When a search compares every vector, and how far it looks where it uses the index."""

    exact_below: int
    ef_search: int


class Search:
    """One search in one transaction."""

    def __init__(
        self, request: RetrieveRequest, extension: Extension | None, tuning: Tuning, *, seen: Collection | None
    ) -> None:
        """
        Args:
            seen: The collection as it was last seen; only to guess the best settings.
        """
        self._request = request
        self._extension = extension
        self._tuning = tuning
        self._session: Session
        self._collection: Collection
        self._effort = min(max(tuning.ef_search, 2 * _list_length(request)), _MAX_EF_SEARCH)
        self._unfiltered = plan(request.metadata_filter) is None
        # The planner thinks that comparing tokens row by row costs nothing (160 ms instead of 20 for a filter of 20
        # values at 100k chunks), so it is kept to the indexes where there are any.
        by_index = seen is not None and bool(request.vectors) and self._unfiltered and seen.indexed
        self._without_scans = by_index or uses_index(request.metadata_filter)
        self._scans: bool
        """Whether tables may be scanned, at this point of the transaction."""
        # A plain search needs no rank of ours, so its texts come with the ranking.
        self._with_bodies = request.rank is None and len(request.vectors) + len(request.texts) == 1
        self._bodies: dict[int, str] = {}
        self._ids: dict[ChunkKey, int] = {}

    @property
    def settings(self) -> str:
        """Settings of the transaction, sent with its first message."""
        statements = ["SET LOCAL enable_seqscan = off"] if self._without_scans else []
        if self._request.vectors and self._extension is not None:
            statements.append(f"SET LOCAL hnsw.ef_search = {self._effort}")
            if not self._unfiltered:  # without a filter the first vectors are enough, and found 0.2 ms sooner
                statements.append(
                    f"SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.max_scan_tuples = {_MAX_SCAN}; "
                    "SET LOCAL hnsw.scan_mem_multiplier = 8"
                )
        return "; ".join(statements)

    async def run(self, session: Session, collection: Collection) -> list[VectorSearchResult]:
        """The search, in a transaction with `settings`."""
        self._session, self._collection = session, collection
        self._bodies, self._ids = {}, {}
        self._scans = not self._without_scans
        return await run_steps_async(self._request, self.answer)

    async def answer(self, step: Step) -> Any:
        """Answer of one step of `retrieve_steps`."""
        match step:
            case Nearest(vector, limit, metadata_filter, keys):
                return await self._nearest(vector, limit, metadata_filter, keys)
            case Keyword(_, limit, metadata_filter, tokens):
                return await self._keyword(tokens, limit, metadata_filter)
            case Seen(words):
                return await self._seen(words)
            case Get(keys):
                return await self._get(keys)

    async def _nearest(
        self, vector: Sequence[float], limit: int, metadata_filter: FilterLike | None, keys: Sequence[ChunkKey] | None
    ) -> list[Scored]:
        query = stored_query(self._collection.info, vector)
        if keys is not None:
            return await self._exact(query, limit, metadata_filter, await self._ids_of(keys))
        if await self._is_small(metadata_filter):
            return await self._exact(query, limit, metadata_filter, None)
        found = await self._by_index(query, limit, metadata_filter)
        # The index looks at a bounded number of vectors, so a filter may have left too few.
        return found if len(found) >= limit else await self._exact(query, limit, metadata_filter, None)

    async def _is_small(self, metadata_filter: FilterLike | None) -> bool:
        """Whether every vector that the filter keeps is compared: where there is no index, or they are few."""
        most = self._tuning.exact_below
        if not self._collection.indexed or self._collection.chunks <= most:
            return True
        if self._unfiltered:
            return False
        values = Values()
        row = await self._session.fetch_one(
            f"SELECT count(*) AS kept FROM (SELECT FROM {self._collection.chunk_table} c "
            f"WHERE {where(metadata_filter, 'c', values)} LIMIT {most + 1:d}) AS held",
            *values,
        )
        return int(row["kept"]) <= most

    async def _exact(
        self, query: list[float], limit: int, metadata_filter: FilterLike | None, ids: Sequence[int] | None
    ) -> list[Scored]:
        values = Values()
        distance = self._distance(query, values)
        condition = f"({where(metadata_filter, 'c', values)})"
        if ids is not None:
            condition += f" AND c.id = ANY({values.bind(list(ids), 'int8[]')})"
        # `+ 0` hides the expression from the index, whose order is approximate; named, it is computed once per row.
        near = (
            f"SELECT c.id, c.document, c.chunk_index, {distance} + 0 AS distance "
            f"FROM {self._collection.chunk_table} c WHERE {condition} "
            f"ORDER BY distance FETCH FIRST ({values.bind(limit, 'int8')}) ROWS WITH TIES"
        )
        return await self._ranked(near, "distance", limit, values)

    async def _avoid_scans(self) -> None:
        if self._scans:
            await self._session.execute("SET LOCAL enable_seqscan = off")
            self._scans = False

    async def _by_index(self, query: list[float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        await self._avoid_scans()
        half = self._collection.info.dimensions > MAX_INDEXED_DIMENSIONS
        values = Values()
        order = self._distance(query, values, half=half)
        distance = self._distance(query, values) if half else order
        # `IS TRUE` hides the filter from the index over tokens, which would find all that match.
        condition = f"({where(metadata_filter, 'c', values)}) IS TRUE"
        wanted = limit
        if half or not self._unfiltered:
            # The index gives its first `ef_search` vectors in order, later ones about so.
            wanted = self._effort if half else max(limit, min(_COLLECTED * limit, self._effort))
        near = (
            f"SELECT * FROM (SELECT c.id, c.document, c.chunk_index, {distance} AS distance "
            f"FROM {self._collection.chunk_table} c WHERE {condition} "
            f"ORDER BY {order} LIMIT {wanted:d}) AS found "
            f"ORDER BY distance{' + 0' if wanted > limit else ''} FETCH FIRST ({limit:d}) ROWS WITH TIES"
        )
        return await self._ranked(near, "distance", limit, values)

    async def _keyword(
        self, tokens: Mapping[str, float], limit: int, metadata_filter: FilterLike | None
    ) -> list[Scored]:
        weights = await term_weights(self._session, self._collection, tokens)
        if not weights:
            return []
        if self._unfiltered:
            return await self._best(weights, limit, limit)
        # Of so many of the best, enough may match: a look at each, in place of all that match.
        found = await self._best(weights, limit, _LOOKS * limit, metadata_filter)
        return found if len(found) >= limit else await self._best_matching(weights, limit, metadata_filter)

    async def _seen(self, words: Sequence[str]) -> float:
        terms = set(map(term_key, words))
        found = await frequencies(self._session, self._collection, terms) if terms else {}
        return seen_share(terms, found, self._collection.worded)

    async def _best(
        self, weights: dict[int, float], limit: int, wanted: int, metadata_filter: FilterLike | None = None
    ) -> list[Scored]:
        """The best `limit` that match, of the best `wanted` by BM25."""
        values = Values()
        best = ranking_sql(self._collection, weights, wanted, values)
        near = f"{self._chunks_of(best)} AND ({where(metadata_filter, 'c', values)})"
        return await self._ranked(near, "weight DESC", limit, values)

    async def _best_matching(
        self, weights: dict[int, float], limit: int, metadata_filter: FilterLike | None
    ) -> list[Scored]:
        values = Values()
        best = ranking_sql(self._collection, weights, limit, values, where(metadata_filter, "c", values))
        return await self._ranked(self._chunks_of(best), "weight DESC", limit, values)

    def _chunks_of(self, best: str) -> str:
        return (
            f"SELECT c.id, c.document, c.chunk_index, best.weight FROM ({best}) AS best "
            f"JOIN {self._collection.chunk_table} c ON c.id = best.chunk WHERE best.weight > 0"
        )

    async def _ranked(self, near: str, order: str, limit: int, values: Values) -> list[Scored]:
        """The rows of `near` by score, then by key."""
        column = order.split()[0]
        bodies, body = "", "NULL"
        if self._with_bodies:
            bodies, body = f"JOIN {self._collection.chunk_table} b ON b.id = n.id ", "b.body"
        rows = await self._session.fetch(
            f"WITH near AS MATERIALIZED ({near}) "
            f"SELECT n.id, d.scope, d.document_id, n.chunk_index, n.{column} AS rank, {body} AS body "
            f"FROM near n JOIN {self._collection.documents} d ON d.id = n.document {bodies}"
            f"ORDER BY n.{order}, d.scope, d.document_id, n.chunk_index LIMIT {values.bind(limit, 'int8')}",
            *values,
        )
        metric = self._collection.info.distance
        found = []
        for row in rows:
            key = ChunkKey(row["scope"], row["document_id"], row["chunk_index"])
            self._ids[key] = row["id"]
            score = score_of(row["rank"], metric) if column == "distance" else row["rank"]
            found.append(Scored(key, score))
        if self._with_bodies:
            self._bodies |= {row["id"]: row["body"] for row in rows}
        return found

    async def _get(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Chunk]:
        missing = [number for number in await self._ids_of(keys) if number not in self._bodies]
        if missing:
            rows = await self._session.fetch(
                f"SELECT id, body FROM {self._collection.chunk_table} WHERE id = ANY($1::int8[])", missing
            )
            self._bodies |= {row["id"]: row["body"] for row in rows}
        known = [key for key in keys if self._ids.get(key) in self._bodies]
        return dict(await each(lambda key: (key, Chunk.model_validate_json(self._bodies[self._ids[key]])), known))

    async def _ids_of(self, keys: Sequence[ChunkKey]) -> list[int]:
        unknown = [key for key in keys if key not in self._ids]
        if unknown:
            rows = await self._session.fetch(
                f"SELECT c.id, k.position FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY "
                f"AS k(key, chunk_index, position) JOIN {self._collection.documents} d ON d.key = k.key "
                f"JOIN {self._collection.chunk_table} c ON c.document = d.id AND c.chunk_index = k.chunk_index",
                [document_key(key.scope, key.document_id) for key in unknown],
                [key.chunk_index for key in unknown],
            )
            self._ids |= {unknown[row["position"] - 1]: row["id"] for row in rows}
        return [self._ids[key] for key in keys if key in self._ids]

    def _distance(self, query: Sequence[float], values: Values, *, half: bool = False) -> str:
        return distance_sql(self._collection.info, self._collection.engine, self._extension, query, values, half=half)


def _list_length(request: RetrieveRequest) -> int:
    return request.limit if request.rank is None else request.candidates
