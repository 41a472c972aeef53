"""Reading one collection in Elasticsearch while others write to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ...documents import ChunkKey, DocumentSummary, VectorRecord
from ...errors import StoreError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ..base import CollectionInfo
from ..versions.heads import MAX_INDEX, Name
from ..versions.statistics import Statistics
from ..versions.versions import Changed
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
    VECTOR,
    VERSION,
    Document,
    Stored,
    chunk_doc_id,
    chunk_of,
    condition,
    head_doc_id,
    stored_of,
    summary_of,
)

T = TypeVar("T")

MAX_LIMIT = 10_000
# A page of texts is parsed in the event loop.
TEXTS_PER_PAGE = 100
_NAME = (SCOPE, DOCUMENT)


class IndexStatistics(Statistics[str]):
    def __init__(self, chunks: int, indexed: int, tokens: int) -> None:
        super().__init__(indexed, tokens)
        self.chunks = chunks


class Reader:
    """The reads of one collection."""

    def __init__(self, connection: Connection, index: str, info: CollectionInfo) -> None:
        self.connection = connection
        self.index = index
        self.info = info
        self.latest = Rows(connection, index)
        self._statistics: IndexStatistics | None = None

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
        """Before documents are looked up to be changed: with ``refresh=False`` the latest are in no search yet."""
        if self.connection.options.refresh is False:
            await self.connection.client.indices.refresh(index=self.index)

    async def names(self) -> list[Name]:
        """All documents, in order."""
        hits = self.connection.scan(self.index, condition(None, IS_HEAD), source=_NAME, sort=_NAME)
        return [(hit["_source"][SCOPE], hit["_source"][DOCUMENT]) async for hit in hits]

    async def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None
    ) -> list[DocumentSummary]:
        more = []
        if document_ids is not None:
            await self.catch_up()
            more.append({"terms": {DOCUMENT: list(document_ids)}})
        where = condition(metadata_filter, IS_HEAD, *more)
        hits = self.connection.scan(self.index, where, source=[CONTENT, COUNT], sort=_NAME)
        return [summary_of(hit["_source"]) async for hit in hits]

    # --- statistics ---

    async def statistics(self, *, fresh: bool = False) -> IndexStatistics:
        if fresh or self._statistics is None or not self._statistics.is_fresh:
            sums = {name: {"sum": {"field": name}} for name in (COUNT, INDEXED, LENGTH)}
            answer = await self.connection.client.search(
                index=self.index, query=condition(None, IS_HEAD), size=0, aggs=sums
            )
            found = {name: int(answer["aggregations"][name]["value"]) for name in sums}
            self._statistics = IndexStatistics(found[COUNT], found[INDEXED], found[LENGTH])
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

        return await self.steady(read)

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

        return await self.steady(read)

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
        hits = await rows.by_ids(list(ids), page=TEXTS_PER_PAGE, source=[CONTENT], **more)
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

    async def steady(self, read: Callable[[Rows], Awaitable[T]]) -> T:
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
