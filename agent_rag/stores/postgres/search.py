"""Searching: answers the steps of `retrieve_steps` inside one transaction, and chooses the path of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...documents import Chunk, ChunkKey, VectorSearchResult
from ...filters import FilterLike
from ...filters.plan import plan
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from ..engine.driver import run_steps_async
from .codes import Candidates
from .connection import Session
from .filters import Values, ranges_of, uses_index, where
from .keyword import ranking_sql, term_weights
from .reader import each
from .schema import Collection
from .selection import FrequencyCache, Selection
from .vectors import MAX_INDEXED_DIMENSIONS, Extension, distance_sql, score_of, stored_query
from .writer import document_key

_MAX_EF_SEARCH = 1_000
"""pgvector's own bound."""
_MAX_SCAN = 40_000
"""Vectors that a filtered search of the index looks at before it stops."""
_ROW_BYTES, _CACHED_BYTES = 400, 1 << 30
"""About the size of a chunk without vector and text; a table that is smaller than this is taken to be in memory."""
_COLLECTED = 2
"""Of so many times the hits that are wanted, a filtered search of the index takes the nearest."""
_MANY = 0.4
"""From this share on, the codes of all chunks are read rather than the rows of those that match."""
_MAX_LOOKS = 10_000
"""Of the best chunks by keyword, so many are looked at one by one for those that match a filter."""


@dataclass(frozen=True)
class Tuning:
    """When a search compares every vector, and how far it looks where it uses the index."""

    exact_below: int
    ef_search: int


class Search:
    """One search in one transaction."""

    def __init__(
        self,
        request: RetrieveRequest,
        extension: Extension | None,
        tuning: Tuning,
        frequencies: FrequencyCache,
        *,
        seen: Collection | None,
    ) -> None:
        """
        Args:
            seen: The collection as it was last seen; only to guess the best settings.
        """
        self._request = request
        self._extension = extension
        self._tuning = tuning
        self._frequencies = frequencies
        self._session: Session
        self._collection: Collection
        self._selection: Selection
        self._effort = min(max(tuning.ef_search, 2 * _list_length(request)), _MAX_EF_SEARCH)
        self._unfiltered = plan(request.metadata_filter) is None
        # The planner thinks that comparing tokens row by row costs nothing (160 ms instead of 20 for a filter of 20
        # values at 100k chunks), so it is kept to the indexes where there are any.
        by_index = (
            seen is not None
            and bool(request.vectors)
            and (self._has_codes(seen) or (self._unfiltered and seen.indexed))
        )
        self._without_scans = by_index or uses_index(request.metadata_filter)
        # Planning takes 0.2 ms, and 0.8 without pgvector; such a search has one plan whatever the vector.
        self._generic = by_index and not request.texts
        self._is_cached = seen is not None and seen.chunks * (4 * seen.info.dimensions + _ROW_BYTES) < _CACHED_BYTES
        # A plain search needs no rank of ours, so its texts come with the ranking.
        self._with_bodies = request.rank is None and len(request.vectors) + len(request.texts) == 1
        self._scans: bool
        """Whether tables may be scanned, at this point of the transaction."""
        self._plans: bool
        """Whether each statement is planned for its values."""
        self._bodies: dict[int, str] = {}
        self._ids: dict[ChunkKey, int] = {}

    @property
    def settings(self) -> str:
        """Settings of the transaction, sent with its first message."""
        statements = []
        if self._without_scans:
            statements.append("SET LOCAL enable_seqscan = off")
        if self._generic:
            statements.append("SET LOCAL plan_cache_mode = force_generic_plan")
        if self._is_cached:
            # PostgreSQL 18 reads ahead through other processes: 2.1 ms instead of 1.0 for 270 blocks in memory.
            statements.append("SET LOCAL effective_io_concurrency = 0")
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
        self._scans, self._plans = not self._without_scans, not self._generic
        self._selection = Selection(
            session, collection, self._request.metadata_filter, self._frequencies, few=self._few
        )
        return await run_steps_async(self._request, self.answer)

    async def answer(self, step: Step) -> Any:
        """Answer of one step of `retrieve_steps`."""
        match step:
            case Nearest(vector, limit, metadata_filter, keys):
                return await self._nearest(vector, limit, metadata_filter, keys)
            case Keyword(text, limit, metadata_filter):
                return await self._keyword(text, limit, metadata_filter)
            case Get(keys):
                return await self._get(keys)

    async def _nearest(
        self, vector: Sequence[float], limit: int, metadata_filter: FilterLike | None, keys: Sequence[ChunkKey] | None
    ) -> list[Scored]:
        query = stored_query(self._collection.info, vector)
        if keys is not None:
            return await self._exact(query, limit, metadata_filter, await self._ids_of(keys))
        if self._has_codes(self._collection):
            return await self._by_codes(query, limit, metadata_filter)
        if self._may_be_narrow and (found := await self._exact_in_range(query, limit)):
            return found
        if await self._is_small():
            return await self._exact(query, limit, metadata_filter, None)
        found = await self._by_index(query, limit, metadata_filter)
        # The index looks at a bounded number of vectors, so a filter may have left too few.
        return found if len(found) >= limit else await self._exact(query, limit, metadata_filter, None)

    def _has_codes(self, collection: Collection) -> bool:
        return collection.engine == "coded" and collection.chunks > self._tuning.exact_below

    @property
    def _may_be_narrow(self) -> bool:
        """Whether the vector index could be used, and a range of numbers tells whether it is the better path."""
        value = self._request.metadata_filter
        large = self._collection.indexed and self._collection.chunks > self._tuning.exact_below
        return large and not uses_index(value) and bool(ranges_of(value))

    async def _is_small(self) -> bool:
        """Whether comparing every vector that the filter keeps is the better path.

        Comparing costs about 1 us for each vector that the filter keeps, walking the graph about 2 us for each of the
        `ef_search` / share vectors visited: equal at a number of vectors that grows with the root of the size. (The
        factor is on the side of comparing, which misses nothing.)
        """
        if self._collection.chunks <= self._tuning.exact_below:
            return True
        if self._selection.keeps_all:
            return not self._collection.indexed
        return await self._selection.matches() <= self._few or not self._collection.indexed

    @property
    def _few(self) -> int:
        return max(self._tuning.exact_below, int(55 * math.sqrt(self._collection.chunks)))

    async def _exact(
        self, query: list[float], limit: int, metadata_filter: FilterLike | None, ids: Sequence[int] | None
    ) -> list[Scored]:
        if not self._plans:
            # A plan for any vector casts the one at hand once for each row.
            await self._session.execute("SET LOCAL plan_cache_mode = force_custom_plan")
            self._plans = True
        values = Values()
        distance = self._distance(query, values)
        if ids is None:
            condition = self._selection.condition(values)
        else:
            condition = f"({where(metadata_filter, 'c', values)}) AND c.id = ANY({values.bind(list(ids), 'int4[]')})"
        return await self._nearest_of(condition, distance, limit, values)

    async def _exact_in_range(self, query: list[float], limit: int) -> list[Scored]:
        """The nearest in a narrow range, without counting it first; nothing where it is not narrow."""
        values = Values()
        distance = self._distance(query, values)
        return await self._nearest_of(self._selection.condition(values, at_most=self._few), distance, limit, values)

    async def _nearest_of(self, condition: str, distance: str, limit: int, values: Values) -> list[Scored]:
        """The nearest of the chunks, the alias ``c``, that meet a condition."""
        # `+ 0` hides the expression from the index, whose order is approximate; named, it is computed once per row.
        near = (
            f"SELECT c.id, c.document, c.chunk_index, {distance} + 0 AS distance "
            f"FROM {self._collection.chunk_table} c WHERE {condition} "
            f"ORDER BY distance FETCH FIRST ({values.bind(limit, 'int8')}) ROWS WITH TIES"
        )
        return await self._ranked(near, "distance", limit, values)

    async def _by_codes(self, query: list[float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        await self._avoid_scans()
        candidates = Candidates(self._collection.chunk_table, query, self._tuning.ef_search, limit)
        values = Values()
        distance = self._distance(query, values)
        if self._unfiltered:
            found = f"c.id = ANY(ARRAY({candidates.of_all(self._collection.chunks, values)}))"
        elif ids := await self._among_nearest(candidates, metadata_filter):
            found = f"c.id = ANY({values.bind(ids, 'int4[]')})"
        else:
            # Rows that are read anyway are found again by their places.
            column = "ctid" if uses_index(metadata_filter) else "id"
            kept = candidates.of_few(column, self._selection.condition(values), values)
            found = f"c.{column} = ANY(ARRAY({kept}))"
        return await self._nearest_of(found, distance, limit, values)

    async def _among_nearest(self, candidates: Candidates, metadata_filter: FilterLike | None) -> list[int]:
        """Candidates that match a filter among the nearest of all; none where too few chunks match, or too few of those
        near the query."""
        share = await self._selection.share()
        if share is None or share < _MANY:
            return []
        size, values = share * self._collection.chunks, Values()
        nearest = candidates.of_many(size, share, where(metadata_filter, "c", values), values)
        ids = [row["id"] for row in await self._session.fetch(nearest, *values)]
        return ids if 2 * len(ids) >= candidates.number(size) else []

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

    async def _keyword(self, text: str, limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        weights = await term_weights(self._session, self._collection, text)
        if not weights:
            return []
        if self._selection.keeps_all:
            return await self._best(weights, limit, limit)
        share = await self._selection.matches() / max(1, self._collection.chunks)
        # Of so many of the best, enough match: a look at each, in place of a list of all that match.
        wanted = int(2 * limit / max(share, 1e-9))
        if wanted <= _MAX_LOOKS:
            found = await self._best(weights, limit, wanted, metadata_filter)
            if len(found) >= limit:
                return found
        return await self._best(weights, limit, limit, among=await self._matching())

    async def _best(
        self,
        weights: dict[int, float],
        limit: int,
        wanted: int,
        metadata_filter: FilterLike | None = None,
        among: Sequence[int] | None = None,
    ) -> list[Scored]:
        """The best `limit` of the best `wanted` by BM25."""
        values = Values()
        best = ranking_sql(self._collection, weights, wanted, values, among)
        near = (
            f"SELECT c.id, c.document, c.chunk_index, best.weight FROM ({best}) AS best "
            f"JOIN {self._collection.chunk_table} c ON c.id = best.chunk "
            f"WHERE best.weight > 0 AND ({where(metadata_filter, 'c', values)})"
        )
        return await self._ranked(near, "weight DESC", limit, values)

    async def _matching(self) -> list[int]:
        values = Values()
        rows = await self._session.fetch(
            f"SELECT c.id FROM {self._collection.chunk_table} c WHERE {self._selection.condition(values)}", *values
        )
        return [row["id"] for row in rows]

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
                f"SELECT id, body FROM {self._collection.chunk_table} WHERE id = ANY($1::int4[])", missing
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
