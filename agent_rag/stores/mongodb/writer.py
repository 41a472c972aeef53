"""Writing to one collection in MongoDB; `schema` explains the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import CollectionNotFoundError, StoreError, StoreUnavailableError
from ..base import CollectionInfo
from ..versions.groups import at_most, grouped, slices
from .client import Connection
from .schema import (
    CHUNK,
    HEAD,
    HEAD_FIELDS,
    INFO_ID,
    LOG,
    PART_CHUNKS,
    Document,
    HeadDocument,
    NewDocument,
    binary_vector,
    head_document,
    head_id,
    log_entry,
    log_id,
    table_name,
)

# Small enough that encoding one stops the event loop for a few milliseconds only; a message holds 48 MB.
_PIECE_BYTES = 1_000_000
_PIECE_DOCUMENTS = 250
_HEADS = 500
_PARTS = 1_000
# How long a writer may take from its first chunk to its publication, clocks of several machines included.
_ABANDONED_S = 3_600.0
_DEAD_S = 60.0


class Writer:
    """Writes to one collection."""

    def __init__(self, connection: Connection, info: CollectionInfo) -> None:
        self._connection = connection
        self._info = info
        self._table = connection.table(table_name(info.name))

    async def replace(self, documents: Sequence[NewDocument]) -> int:
        """Publish whole documents, up to 500 at one moment. Returns the number of chunks they had before."""
        before = 0
        async with self._staged(documents):
            for group in slices(documents, _HEADS):
                before += await self._publish(group)
        return before

    async def delete(self, query: Document) -> list[HeadDocument]:
        """Remove the documents whose heads match `query`. Returns them as they were."""
        await self._sweep()
        ids = [row["_id"] async for row in self._table.find({"kind": HEAD, **query}, {"_id": 1})]
        removed: list[HeadDocument] = []
        for group in slices(ids, _HEADS):

            async def work(session: Any, group: Sequence[str] = group) -> list[HeadDocument]:
                found = await self._heads({"_id": {"$in": list(group)}, **query}, session)
                if found:
                    gone = [head_id(head.name) for head in found]
                    await self._table.delete_many({"_id": {"$in": gone}}, session=session)
                    await self._log_dead(found, session)
                return found

            found = await self._connection.in_transaction(work)
            removed += found
            await self._purge([part for head in found for part in head.parts])
        return removed

    # --- before the heads ---

    @contextlib.asynccontextmanager
    async def _staged(self, documents: Sequence[NewDocument]) -> Any:
        """Write all chunks and wait until search finds them."""
        await self._sweep()
        parts = {part: chunks for document in documents for part, chunks in document.parts.items()}
        entries = [log_entry(part, document.name, dead=False) for document in documents for part in document.parts]
        try:
            for group in slices(entries, _PARTS):
                await self._table.insert_many(list(group), ordered=False)
            for piece in _pieces(documents):
                await self._table.insert_many(piece, ordered=False)
            await self._until_found({part: len(chunks) for part, chunks in parts.items()}, documents)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error says more, and no head names these parts
                await asyncio.shield(self._purge(list(parts)))
            raise
        # An error from here on leaves log entries and chunks: the heads may have been written.
        yield

    async def _until_found(self, sizes: Mapping[str, int], documents: Sequence[NewDocument]) -> None:
        """Raises: StoreUnavailableError: search does not find all chunks after `index_timeout_s`."""
        zero = {
            part: sum(bool(chunk.fields["zero"]) for chunk in chunks)
            for document in documents
            for part, chunks in document.parts.items()
        }
        skips_zero = self._info.distance == "Cosine"
        for parts in _groups_of_parts(sizes):
            vectors = sum(sizes[part] - (zero[part] if skips_zero else 0) for part in parts)
            texts = sum(sizes[part] for part in parts)

            async def found(parts: list[str] = parts, vectors: int = vectors, texts: int = texts) -> bool:
                return (
                    not self._info.dimensions
                    or not vectors
                    or await self._count(self._vector_stage(parts, vectors), vectors) == vectors
                ) and await self._count(self._text_stage(parts), texts) == texts

            if not await self._connection.wait_until(found):
                options = self._connection.options
                raise StoreUnavailableError(
                    f"the search indexes of collection {self._info.name!r} in MongoDB at {options.where} do not have "
                    f"what was written after index_timeout_s={options.index_timeout_s:g}, so nothing was changed; "
                    "look at the state of the indexes, or raise index_timeout_s"
                )

    async def _count(self, stage: Document, limit: int) -> int:
        pipeline = [stage, {"$limit": limit}, {"$group": {"_id": None, "n": {"$sum": 1}}}]
        rows = await self._connection.rows(table_name(self._info.name), pipeline)
        return int(rows[0]["n"]) if rows else 0

    def _vector_stage(self, parts: list[str], limit: int) -> Document:
        anything = np.zeros(self._info.dimensions, dtype=np.float32)
        anything[0] = 1.0
        return {
            "$vectorSearch": {
                "index": self._connection.options.vector_index,
                "path": "vector",
                "queryVector": binary_vector(anything),
                "exact": True,
                "limit": limit,
                "filter": {"part": {"$in": parts}},
            }
        }

    def _text_stage(self, parts: list[str]) -> Document:
        index = self._connection.options.text_index
        return {"$search": {"index": index, "in": {"path": "part", "value": parts}}}

    # --- publishing ---

    async def _publish(self, documents: Sequence[NewDocument]) -> int:
        """One transaction: heads name the new parts, log entries change sides."""
        by_id = {head_id(document.name): document for document in documents}
        mine = [log_id(part) for document in documents for part in document.parts]

        async def work(session: Any) -> list[HeadDocument]:
            if await self._table.find_one({"_id": INFO_ID}, {"_id": 1}, session=session) is None:
                raise CollectionNotFoundError(f"collection {self._info.name!r} was dropped during a write to it")
            found = await self._heads({"_id": {"$in": list(by_id)}}, session)
            if mine:
                gone = await self._table.delete_many({"_id": {"$in": mine}, "dead": False}, session=session)
                if gone.deleted_count != len(mine):
                    raise StoreError(
                        f"a write to collection {self._info.name!r} took longer than {_ABANDONED_S:g} s and was "
                        "cleared away; write less in one call"
                    )
            await self._log_dead(found, session)
            before = {head_id(head.name) for head in found}
            heads = [head_document(document, first=one not in before) for one, document in by_id.items()]
            await self._put_heads(heads, session)
            return found

        found: list[HeadDocument] = await self._connection.in_transaction(work)
        await self._purge([part for head in found for part in head.parts])
        return sum(head.chunks for head in found)

    async def _put_heads(self, heads: Sequence[Document], session: Any) -> None:
        pymongo = self._connection.pymongo
        if heads:
            writes = [pymongo.ReplaceOne({"_id": head["_id"]}, head, upsert=True) for head in heads]
            await self._table.bulk_write(writes, session=session)

    async def _heads(self, query: Document, session: Any) -> list[HeadDocument]:
        cursor = self._table.find(query, dict.fromkeys(HEAD_FIELDS, 1), session=session)
        return [HeadDocument.of(row) async for row in cursor]

    async def _log_dead(self, heads: Sequence[HeadDocument], session: Any) -> None:
        entries = [log_entry(part, head.name, dead=True) for head in heads for part in head.parts]
        if entries:
            await self._table.insert_many(entries, session=session)

    # --- afterwards ---

    async def _purge(self, parts: Sequence[str]) -> None:
        """Remove the chunks of parts that no head names, then their log entries."""
        for group in slices(parts, _PARTS):
            await self._table.delete_many({"part": {"$in": list(group)}, "kind": CHUNK})
            await self._table.delete_many({"_id": {"$in": [log_id(part) for part in group]}})

    async def _sweep(self) -> None:
        """Clear up after writers that crashed."""
        now = time.time()
        old = {
            "$or": [{"dead": True, "written_at": {"$lt": now - _DEAD_S}}, {"written_at": {"$lt": now - _ABANDONED_S}}]
        }
        parts = [row["part"] async for row in self._table.find({"kind": LOG, **old}, {"part": 1})]
        if parts:
            # A writer that is alive after all finds its entries changed, and gives up.
            await self._table.update_many({"_id": {"$in": [log_id(part) for part in parts]}}, {"$set": {"dead": True}})
            still = {"_id": {"$in": [log_id(part) for part in parts]}, "dead": True}
            await self._purge([row["part"] async for row in self._table.find(still, {"part": 1})])


def _groups_of_parts(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Parts with at most 1,000 chunks together."""
    return grouped(sizes, (lambda part: sizes[part], PART_CHUNKS))


def _pieces(documents: Iterable[NewDocument]) -> Iterator[list[Document]]:
    chunks = ((part, chunk) for document in documents for part, chunks in document.parts.items() for chunk in chunks)
    for piece in grouped(chunks, at_most(_PIECE_DOCUMENTS), (lambda item: item[1].size, _PIECE_BYTES)):
        yield [chunk.in_part(part) for part, chunk in piece]
