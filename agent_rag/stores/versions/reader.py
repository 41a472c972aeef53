"""The plain reads of a collection while others write to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ...documents import ChunkKey, DocumentSummary, VectorRecord
from ...errors import StoreError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ..engine.payload import parse_chunk
from .protocol import Head, Primitives, Row, RowId, head_id, head_of
from .settled import Changed, Settled

T = TypeVar("T")
_ATTEMPTS = 20
_PAGE = 500


class Reader:
    """Reads of one collection; each document is seen in one version."""

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives

    async def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None
    ) -> list[DocumentSummary]:
        heads = await self._primitives.heads_where(metadata_filter, document_ids)
        return [head.summary for head in sorted(heads, key=lambda head: head.name) if head.summary is not None]

    async def count(self, metadata_filter: FilterLike | None) -> int:
        if plan(metadata_filter) is None:
            over_heads, _ = await self._primitives.totals()
            return over_heads.chunks
        return await self._again(lambda: self._count(metadata_filter))

    async def _count(self, metadata_filter: FilterLike | None) -> int:
        """Rows by version, then the heads; documents that changed in between are counted again."""
        settled = Settled(self._primitives)
        counted = await self._primitives.tally(metadata_filter)
        while not await settled.check(counted.keys()):
            unsteady = {head_of(version) for version in counted}
            counted = {version: count for version, count in counted.items() if head_of(version) not in unsteady}
            counted |= await self._primitives.tally(metadata_filter, unsteady)
        return sum(count for version, count in counted.items() if version in settled.current)

    async def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        async def read() -> list[VectorRecord]:
            heads = await self._primitives.get_heads({head_id((key.scope, key.document_id)) for key in keys})
            rows = {key: self._row(key, heads) for key in keys}
            return await self._records({key: row for key, row in rows.items() if row is not None}, keys, with_vectors)

        found = await self._again(read)
        return [record for record in found if matches(metadata_filter, record.chunk.metadata)]

    async def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        if limit <= 0:
            return []

        async def read() -> list[VectorRecord]:
            heads = await self._primitives.heads_where(None, [document_id])
            rows = _keyed(sorted(heads, key=lambda head: head.name), max(offset, 0), offset + limit)
            return await self._records(rows, list(rows), with_vectors)

        found = await self._again(read)
        return [record for record in found if matches(metadata_filter, record.chunk.metadata)]

    async def iterate(self, metadata_filter: FilterLike | None, batch_size: int) -> AsyncIterator[list[VectorRecord]]:
        """Batches in order of the keys; a document that is replaced meanwhile may be missing or new."""
        heads = sorted(await self._primitives.heads_where(None), key=lambda head: head.name)
        batch: list[ChunkKey] = []
        for head in heads:
            for row in head.rows():
                batch.append(ChunkKey(*head.name, row.index))
                if len(batch) == batch_size:
                    yield await self.fetch(batch, metadata_filter, True)
                    batch = []
        if batch:
            yield await self.fetch(batch, metadata_filter, True)

    async def _records(
        self, rows: Mapping[ChunkKey, RowId], keys: Sequence[ChunkKey], with_vectors: bool
    ) -> list[VectorRecord]:
        """In the order of `keys`. Raises: Changed: a row is gone."""
        wanted = list(rows.values())
        found: dict[RowId, Row] = {}
        for start in range(0, len(wanted), _PAGE):
            found |= await self._primitives.get_rows(wanted[start : start + _PAGE], vectors=with_vectors)
        if len(found) < len(set(wanted)):
            raise Changed

        def parse() -> list[VectorRecord]:
            return [
                VectorRecord(
                    vector=found[rows[key]].vector,
                    document_id=key.document_id,
                    chunk=parse_chunk(found[rows[key]].chunk),
                    scope=key.scope,
                )
                for key in keys
                if key in rows
            ]

        return await asyncio.to_thread(parse)

    def _row(self, key: ChunkKey, heads: Mapping[str, Head]) -> RowId | None:
        head = heads.get(head_id((key.scope, key.document_id)))
        if head is None or not any(start <= key.chunk_index < stop for start, stop in head.runs):
            return None
        return RowId(head.version, key.chunk_index)

    async def _again(self, read: Callable[[], Awaitable[T]]) -> T:
        """Run `read`, again where a document in it was replaced meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                return await read()
            except Changed:
                await asyncio.sleep(0.005 * attempt)
        raise StoreError(
            f"chunks that heads of collection {self._primitives.info.name!r} name are missing, after {_ATTEMPTS} "
            "reads; replace the documents that list_documents shows and list_chunks does not"
        )


def _keyed(heads: Iterable[Head], start: int, stop: int) -> dict[ChunkKey, RowId]:
    return {ChunkKey(*head.name, row.index): row for head in heads for row in head.rows(start, stop)}
