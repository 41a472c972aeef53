"""Reading a collection in MongoDB without its search indexes: every answer is of one state of the collection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from ...documents import ChunkKey, DocumentSummary, VectorRecord
from ...filters import FilterLike, matches
from ..versions.groups import at_most, grouped
from ..versions.heads import Name
from .client import Connection
from .schema import CHUNK, HEAD, LOG, Document, head_id, record_of, summary_of, table_name, where

_HEAD = {"kind": 1, "parts": 1, "scope": 1, "document_id": 1, "chunk_count": 1}
_RECORD = {"kind": 1, "part": 1, "scope": 1, "document_id": 1, "index": 1, "chunk": 1}
_NAMES = 200


class Reader:
    """The reads of one collection."""

    def __init__(self, connection: Connection, collection: str) -> None:
        self._connection = connection
        self._table_name = table_name(collection)

    async def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None
    ) -> list[DocumentSummary]:
        chosen = [] if document_ids is None else [{"document_id": {"$in": list(document_ids)}}]
        fields = {"$project": {"summary": 1, "chunk_count": 1}}
        rows = self._snapshot([{"$match": where(metadata_filter, {"kind": HEAD}, *chosen)}, fields])
        found = [summary_of(row) async for row in rows]
        return sorted(found, key=lambda summary: (summary.scope, summary.document_id))

    async def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        indexes: dict[Name, list[int]] = {}
        for key in keys:
            indexes.setdefault((key.scope, key.document_id), []).append(key.chunk_index)
        found: dict[ChunkKey, VectorRecord] = {}
        names = list(indexes)
        for start in range(0, len(names), _NAMES):
            some = names[start : start + _NAMES]
            chunks = [{**_chunks_of(name), "index": {"$in": indexes[name]}} for name in some]
            records = await self._counting([_heads_of(some), *chunks], with_vectors)
            found |= {item.key: item for item in records if matches(metadata_filter, item.chunk.metadata)}
        return [found[key] for key in keys if key in found]

    async def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        if limit <= 0:
            return []
        page = {"$gte": offset, "$lt": offset + limit}
        queries: list[Document] = [
            {"document_id": document_id, "kind": HEAD},
            {"document_id": document_id, "kind": CHUNK, "index": page},
        ]
        found = await self._counting(queries, with_vectors)
        return sorted(
            (item for item in found if matches(metadata_filter, item.chunk.metadata)), key=lambda item: item.key
        )

    async def count(self, metadata_filter: FilterLike | None) -> int:
        """Chunks that match, without those of logged parts."""
        by_part = {
            "_id": "$part",
            "n": {"$sum": {"$cond": [{"$eq": ["$kind", CHUNK]}, 1, 0]}},
            "logged": {"$max": {"$cond": [{"$eq": ["$kind", LOG]}, 1, 0]}},
        }
        pipeline: list[Document] = [
            {"$match": {"$or": [{"kind": LOG}, where(metadata_filter, {"kind": CHUNK})]}},
            {"$group": by_part},
            {"$match": {"logged": 0}},
            {"$group": {"_id": None, "n": {"$sum": "$n"}}},
        ]
        return sum([row["n"] async for row in self._snapshot(pipeline)])

    async def batches(self, size: int) -> AsyncIterator[list[VectorRecord]]:
        """All chunks with their vectors in order of the keys, a batch at a time."""
        rows = [row async for row in self._snapshot([{"$match": {"kind": HEAD}}, {"$project": _HEAD}])]
        sizes = sorted(((row["scope"], row["document_id"]), int(row["chunk_count"])) for row in rows)
        for names in _groups(sizes, size):
            if len(names) > 1:
                yield await self._window(names, {})
                continue
            start: int | None = 0
            while start is not None:
                start, batch = await self._next_window(names[0], start, size)
                yield batch

    async def _next_window(self, name: Name, start: int, size: int) -> tuple[int | None, list[VectorRecord]]:
        """Chunks of a large document from index `start`, and where to go on."""
        after = {**_chunks_of(name), "index": {"$gte": start}}
        table = self._connection.table(self._table_name)
        cursor = table.find(after, {"index": 1}, sort=[("index", 1)], limit=size)
        indexes = [int(row["index"]) async for row in cursor]
        if not indexes:
            return None, []
        return indexes[-1] + 1, await self._window([name], {"index": {"$gte": start, "$lte": indexes[-1]}})

    async def _window(self, names: Sequence[Name], window: Document) -> list[VectorRecord]:
        queries = [_heads_of(names), *({**_chunks_of(name), **window} for name in names)]
        found = await self._counting(queries, with_vectors=True)
        return sorted(found, key=lambda item: item.key)

    async def _counting(self, queries: Sequence[Document], with_vectors: bool) -> list[VectorRecord]:
        """The chunks that count among what matches one of `queries`, which ask for their heads too."""
        fields = {**_HEAD, **_RECORD, **({"vector": 1} if with_vectors else {})}
        parts: set[str] = set()
        chunks: list[Document] = []
        async for row in self._snapshot([{"$match": {"$or": list(queries)}}, {"$project": fields}]):
            if row["kind"] == HEAD:
                parts.update(row["parts"])
            else:
                chunks.append(row)
        return await asyncio.to_thread(lambda: [record_of(row) for row in chunks if row["part"] in parts])

    def _snapshot(self, pipeline: Sequence[Document]) -> AsyncIterator[Document]:
        return self._connection.snapshot(self._table_name, pipeline)


def _heads_of(names: Sequence[Name]) -> Document:
    return {"_id": {"$in": [head_id(name) for name in names]}}


def _chunks_of(name: Name) -> Document:
    return {"document_id": name[1], "kind": CHUNK, "scope": name[0]}


def _groups(sizes: Sequence[tuple[Name, int]], most: int) -> Iterator[list[Name]]:
    """Documents with at most `most` chunks together; a larger one comes alone."""
    for group in grouped(sizes, at_most(_NAMES), (lambda item: item[1], most)):
        yield [name for name, _ in group]
