"""Reading points of a Qdrant server: pages, heads, records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from qdrant_client import AsyncQdrantClient, models

from ...documents import ChunkKey, DocumentSummary, VectorRecord
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ..base import CollectionInfo
from ..engine.payload import CHUNK, parse_chunk, range_keys, translate
from ..versions.heads import Name
from .client import any_of
from .layout import (
    DIALECT,
    DOCUMENT,
    GENERATION,
    HEAD_DATA,
    INDEX,
    IS_HEAD,
    IS_LIVE,
    SCOPE,
    ServerHead,
    chunk_id,
    condition,
    head_id,
    head_of_payload,
    key_of,
    name_of,
    summary_of,
)
from .schema import DENSE, SUMMARY

_PAGE = 1_000
_REREADS = 20
_RECORD = [CHUNK, SCOPE, DOCUMENT, INDEX]


class RangeIndexes:
    """The fields of collections that are indexed, those of numbers when a filter compares them for the first time."""

    def __init__(self) -> None:
        self._made: set[tuple[str, str]] = set()

    def note(self, collection: str, fields: Iterable[str]) -> None:
        """These are there."""
        self._made |= {(collection, field) for field in fields}

    def forget(self, collection: str | None) -> None:
        """What is known of a collection; None: of all."""
        self._made = {pair for pair in self._made if collection is not None and pair[0] != collection}

    async def make(self, client: AsyncQdrantClient, collection: str, metadata_filter: FilterLike | None) -> None:
        for field in range_keys(plan(metadata_filter)):
            if (collection, field) not in self._made:
                await client.create_payload_index(
                    collection, field, field_schema=models.PayloadSchemaType.FLOAT, wait=True
                )
                self._made.add((collection, field))


class Reader:
    """Reads of one collection."""

    def __init__(self, client: AsyncQdrantClient, info: CollectionInfo, ranges: RangeIndexes) -> None:
        self._client = client
        self._info = info
        self._collection = info.name
        self._ranges = ranges

    async def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None
    ) -> list[DocumentSummary]:
        must = [] if document_ids is None else [any_of(DOCUMENT, document_ids)]
        payloads = await self.head_payloads(metadata_filter, [SUMMARY, HEAD_DATA], must)
        return sorted(map(summary_of, payloads), key=lambda summary: (summary.scope, summary.document_id))

    async def count(self, metadata_filter: FilterLike | None) -> int:
        """While a document is being replaced, both its versions may count."""
        await self._ranges.make(self._client, self._collection, metadata_filter)
        return (await self._client.count(self._collection, condition(metadata_filter), exact=True)).count

    async def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        names = list({(key.scope, key.document_id) for key in keys})

        async def read(heads: dict[Name, ServerHead]) -> list[VectorRecord]:
            ids = {
                chunk_id(key, heads[key.scope, key.document_id].generation): key
                for key in keys
                if (key.scope, key.document_id) in heads
            }
            found = await self._records(list(ids), with_vectors)
            by_key = {record.key: record for record in found if matches(metadata_filter, record.chunk.metadata)}
            return [by_key[key] for key in keys if key in by_key]

        return await _settled(lambda: heads_by_name(self._client, self._collection, names), read)

    async def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        if limit <= 0:
            return []

        async def read(heads: dict[Name, ServerHead]) -> list[VectorRecord]:
            generations = [head.generation for head in heads.values()]
            found = await self.window(generations, max(offset, 0), offset + limit, with_vectors=with_vectors)
            return [record for record in found if matches(metadata_filter, record.chunk.metadata)]

        return await _settled(lambda: self.heads(must=[any_of(DOCUMENT, [document_id])]), read)

    async def window(
        self, generations: Sequence[str], start: int, stop: int, *, with_vectors: bool
    ) -> list[VectorRecord]:
        """Chunks of these versions with ``start <= index < stop``, by key."""
        window = models.FieldCondition(key=INDEX, range=models.Range(gte=start, lt=stop))
        where = models.Filter(must=[IS_LIVE, any_of(GENERATION, generations), window])
        points = await self._scroll(where, _RECORD, self._vectors(with_vectors))
        return sorted(map(_record, points), key=lambda record: record.key)

    async def head_payloads(
        self, metadata_filter: FilterLike | None, payload: list[str], must: Sequence[Any] = ()
    ) -> list[dict[str, Any]]:
        """Payloads of the heads whose document metadata matches."""
        await self._ranges.make(self._client, self._collection, metadata_filter)
        node = plan(metadata_filter)
        conditions = [IS_HEAD, *must, *([] if node is None else [translate(node, DIALECT)])]
        return [head.payload or {} for head in await self._scroll(models.Filter(must=conditions), payload, False)]

    async def heads(
        self, metadata_filter: FilterLike | None = None, must: Sequence[Any] = ()
    ) -> dict[Name, ServerHead]:
        payloads = await self.head_payloads(metadata_filter, [SCOPE, DOCUMENT, HEAD_DATA], must)
        return {name_of(payload): head_of_payload(payload) for payload in payloads}

    async def _records(self, ids: Sequence[str], with_vectors: bool) -> list[VectorRecord]:
        """The points that are there, in any order."""
        found: list[VectorRecord] = []
        for start in range(0, len(ids), _PAGE):
            points = await self._client.retrieve(
                self._collection,
                list(ids[start : start + _PAGE]),
                with_payload=_RECORD,
                with_vectors=self._vectors(with_vectors),
            )
            found += map(_record, points)
        return found

    def _vectors(self, wanted: bool) -> Any:
        return [DENSE] if wanted and self._info.dimensions else False

    async def _scroll(self, where: models.Filter, payload: list[str], vectors: Any) -> list[Any]:
        found: list[Any] = []
        offset = None
        while True:
            page, offset = await self._client.scroll(
                self._collection, where, limit=_PAGE, offset=offset, with_payload=payload, with_vectors=vectors
            )
            found += page
            if offset is None:
                return found


async def heads_by_name(client: AsyncQdrantClient, collection: str, names: Sequence[Name]) -> dict[Name, ServerHead]:
    """The heads of documents that are there."""
    ids = {head_id(name): name for name in names}
    found = await client.retrieve(collection, list(ids), with_payload=[HEAD_DATA], with_vectors=False)
    return {ids[str(record.id)]: head_of_payload(record.payload or {}) for record in found}


async def _settled(
    heads: Callable[[], Awaitable[dict[Name, ServerHead]]],
    read: Callable[[dict[Name, ServerHead]], Awaitable[list[VectorRecord]]],
) -> list[VectorRecord]:
    """Read between two equal answers of `heads`, so that no version was swapped meanwhile."""
    before = await heads()
    for _ in range(_REREADS):
        found = await read(before)
        after = await heads()
        if after == before:
            break
        before = after
    return found


def _record(point: Any) -> VectorRecord:
    key = key_of(point.payload)
    vector = (point.vector or {}).get(DENSE, [])
    chunk = parse_chunk(point.payload[CHUNK])
    return VectorRecord(vector=vector, document_id=key.document_id, chunk=chunk, scope=key.scope)
