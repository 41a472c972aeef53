"""The server engine of `QdrantStore`: a Qdrant server or cluster through qdrant-client.

Needs a server of version 1.19 or later (conditional updates, IDF over a filter). `layout` says how several
processes write and read at once, `view` how BM25 is computed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import StoreUnavailableError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from .._shared.payload import check_format, range_keys
from .._shared.prepared import PreparedDocument
from .._shared.records import query_vector, unknown_collection
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from .client import Connection, OnConnection, RemoteOptions, any_of, on_connection
from .layout import DOCUMENT, GENERATION, HEAD_DATA, INDEX, INDEXES, IS_LIVE, Name, ServerHead, chunk_id, summary_of
from .publisher import Publisher
from .reads import Reader, settled
from .schema import DENSE, SPARSE, SUMMARY
from .view import Statistics, condition, search

T = TypeVar("T")

_OURS = "agent_rag"
_GROUP_POINTS = 1_000

_QUANTIZATION: dict[str, models.QuantizationConfig] = {
    "scalar": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "product": models.ProductQuantization(
        product=models.ProductQuantizationConfig(compression=models.CompressionRatio.X16, always_ram=True)
    ),
}


class RemoteEngine(OnConnection):
    """Collections on a server, which other processes may change at any time."""

    def __init__(self, owner: object, options: RemoteOptions) -> None:
        self.connection = Connection(owner, options)
        self._options = options
        self._infos: dict[str, CollectionInfo] = {}
        self._statistics: dict[str, Statistics] = {}
        self._range_fields: set[tuple[str, str]] = set()
        self._adding = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self.connection.is_open

    async def open(self) -> None:
        self.connection.open()

    async def close(self) -> None:
        self._forget()
        self._adding = asyncio.Lock()
        await self.connection.close()

    # --- collections ---

    @on_connection
    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        with self.connection.errors(name):
            info = await self._info(name, fresh=True)
            if info is None:
                with _already_there():
                    await self._create(name, dimensions, fingerprint)
                info = await self._info(name, fresh=True)
            if info is None:
                raise unknown_collection(name)
            if fingerprint and info.fingerprint is None:
                info = info.model_copy(update={"fingerprint": fingerprint})
                await self.connection.client.update_collection(name, metadata={_OURS: info.model_dump(mode="json")})
                self._infos[name] = info
            return info.model_copy()

    @on_connection
    async def drop(self, name: str) -> None:
        with self.connection.errors(name):
            await self.connection.client.delete_collection(name)
        self._forget(name)

    @on_connection
    async def info(self, name: str) -> CollectionInfo | None:
        with self.connection.errors(name):
            info = await self._info(name, fresh=True)
            return None if info is None else info.model_copy()

    @on_connection
    async def names(self) -> list[str]:
        with self.connection.errors():
            answer = await self.connection.client.get_collections()
            return sorted(collection.name for collection in answer.collections)

    async def optimize(self, name: str) -> None:
        """A server does it by itself."""

    async def _create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        options = self._options
        info = CollectionInfo(name=name, dimensions=dimensions, fingerprint=fingerprint, distance=options.distance)
        dense = models.VectorParams(
            size=max(dimensions, 1), distance=models.Distance(options.distance), on_disk=options.on_disk
        )
        client = self.connection.client
        await client.create_collection(
            name,
            vectors_config={DENSE: dense} if dimensions else {},
            sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            shard_number=options.shard_number,
            replication_factor=options.replication_factor,
            write_consistency_factor=options.write_consistency_factor,
            on_disk_payload=options.on_disk,
            quantization_config=_QUANTIZATION[options.quantization] if options.quantization else None,
            metadata={_OURS: info.model_dump(mode="json")},
        )
        for field, schema in INDEXES.items():
            await client.create_payload_index(name, field, field_schema=schema, wait=True)

    async def _info(self, name: str, *, fresh: bool = False) -> CollectionInfo | None:
        if not fresh and name in self._infos:
            return self._infos[name]
        try:
            answer = await self.connection.client.get_collection(name)
        except UnexpectedResponse as error:
            if error.status_code == 404:
                self._forget(name)
                return None
            raise
        stored = (answer.config.metadata or {}).get(_OURS)
        if stored is None:
            # Of another program: searching it would find nothing that this package could read.
            return None
        self._range_fields |= {(name, field) for field in answer.payload_schema}
        info = self._infos[name] = CollectionInfo.model_validate(stored)
        check_format(info)
        return info

    async def _known(self, name: str) -> CollectionInfo:
        info = await self._info(name)
        if info is None:
            raise unknown_collection(name)
        return info

    def _forget(self, name: str | None = None) -> None:
        for cache in (self._infos, self._statistics):
            if name is None:
                cache.clear()
            else:
                cache.pop(name, None)
        self._range_fields = {pair for pair in self._range_fields if name is not None and pair[0] != name}

    # --- writing ---

    @on_connection
    async def replace(self, name: str, documents: Sequence[PreparedDocument]) -> int:
        with self._changing(name):
            await self._known(name)
            publisher = await self._publisher(name, documents)
            return sum([await publisher.replace(group) for group in _groups(documents)])

    @on_connection
    async def insert(self, name: str, documents: Sequence[PreparedDocument]) -> None:
        """Chunks of new documents are published as `replace` does it; others join the current version."""
        with self._changing(name):
            await self._known(name)
            publisher = await self._publisher(name, documents)
            async with self._adding:  # the counts of heads are read and written back
                for group in _groups(documents):
                    heads = await publisher.heads([document.name for document in group])
                    await publisher.replace([document for document in group if document.name not in heads])
                    for document in group:
                        if document.name in heads:
                            await publisher.add(document, heads[document.name])

    @on_connection
    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        with self._changing(name):
            await self._known(name)
            must = [] if document_ids is None else [any_of(DOCUMENT, document_ids)]
            await self._index_ranges(name, metadata_filter)
            heads = await self._reader(name).heads(metadata_filter, must)
            if heads:
                await Publisher(self.connection.client, name, 1.0).delete(heads)
            return list(heads), sum(head.count for head in heads.values())

    async def _publisher(self, name: str, documents: Sequence[PreparedDocument]) -> Publisher:
        statistics = await self._current_statistics(name)
        lengths = [chunk.terms.length for document in documents for chunk in document.chunks if chunk.terms.length]
        own = sum(lengths) / max(len(lengths), 1)
        return Publisher(
            self.connection.client, name, max(statistics.average_length if statistics.indexed else own, 1.0)
        )

    async def _current_statistics(self, name: str) -> Statistics:
        statistics = self._statistics.get(name)
        if statistics is None or not statistics.is_fresh:
            statistics = self._statistics[name] = await Statistics.ask(self.connection.client, name)
        return statistics

    @contextlib.contextmanager
    def _changing(self, name: str) -> Any:
        try:
            with self.connection.errors(name):
                yield
        finally:
            self._statistics.pop(name, None)

    # --- reading ---

    @on_connection
    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        with self.connection.errors(name):
            info = await self._known(name)
            for vector in request.vectors:
                query_vector(name, info.dimensions, vector)
            await self._index_ranges(name, request.metadata_filter)
            statistics = await self._current_statistics(name) if request.texts else None
            return await search(self.connection.client, name, info.distance, request, statistics)

    @on_connection
    async def fetch(
        self, name: str, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        with self.connection.errors(name):
            info = await self._known(name)
            publisher, reader = Publisher(self.connection.client, name, 1.0), self._reader(name)
            names = list({(key.scope, key.document_id) for key in keys})

            async def read(heads: dict[Name, ServerHead]) -> list[VectorRecord]:
                ids = {
                    chunk_id(key, heads[key.scope, key.document_id].generation): key
                    for key in keys
                    if (key.scope, key.document_id) in heads
                }
                found = await reader.records(list(ids), info.dimensions > 0 and with_vectors)
                by_key = {record.key: record for record in found if matches(metadata_filter, record.chunk.metadata)}
                return [by_key[key] for key in keys if key in by_key]

            return await settled(lambda: publisher.heads(names), read)

    @on_connection
    async def list_chunks(
        self,
        name: str,
        document_id: str,
        offset: int,
        limit: int,
        metadata_filter: FilterLike | None,
        with_vectors: bool,
    ) -> list[VectorRecord]:
        with self.connection.errors(name):
            info = await self._known(name)

            reader = self._reader(name)

            async def read(current: dict[Name, ServerHead]) -> list[VectorRecord]:
                window = models.FieldCondition(key=INDEX, range=models.Range(gte=max(offset, 0), lt=offset + limit))
                wanted = any_of(GENERATION, [head.generation for head in current.values()])
                where = models.Filter(must=[IS_LIVE, wanted, window])
                found = await reader.records_where(where, info.dimensions > 0 and with_vectors)
                return [record for record in found if matches(metadata_filter, record.chunk.metadata)]

            if limit <= 0:
                return []
            return await settled(lambda: reader.heads(must=[any_of(DOCUMENT, [document_id])]), read)

    @on_connection
    async def count(self, name: str, metadata_filter: FilterLike | None) -> int:
        """While a document is being replaced, both its versions may count."""
        with self.connection.errors(name):
            await self._known(name)
            await self._index_ranges(name, metadata_filter)
            answer = await self.connection.client.count(name, condition(metadata_filter), exact=True)
            return answer.count

    @on_connection
    async def summaries(self, name: str, metadata_filter: FilterLike | None) -> list[DocumentSummary]:
        with self.connection.errors(name):
            await self._known(name)
            await self._index_ranges(name, metadata_filter)
            payloads = await self._reader(name).head_payloads(metadata_filter, [SUMMARY, HEAD_DATA])
            return sorted(map(summary_of, payloads), key=lambda summary: (summary.scope, summary.document_id))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        """In order of the keys; a document that is replaced meanwhile may be missing or new."""
        heads = await self._sorted_heads(name)
        position = 0
        while position < len(heads):
            group = [heads[position]]
            while (
                position + len(group) < len(heads)
                and sum(head.count for _, head in group) + heads[position + len(group)][1].count <= batch_size
            ):
                group.append(heads[position + len(group)])
            position += len(group)
            step = batch_size if len(group) == 1 else max(head.top for _, head in group)
            for start in range(0, max(head.top for _, head in group), max(step, 1)):
                for record in await self._batch(name, [head.generation for _, head in group], start, start + step):
                    if matches(metadata_filter, record.chunk.metadata):
                        yield record

    async def ping(self) -> StoreHealth:
        try:
            names = await self.names()
        except StoreUnavailableError as error:
            return StoreHealth(ok=False, detail=str(error))
        return StoreHealth(ok=True, detail="server", facts={"engine": "qdrant", "collections": str(len(names))})

    @on_connection
    async def _sorted_heads(self, name: str) -> list[tuple[Name, ServerHead]]:
        with self.connection.errors(name):
            await self._known(name)
            return sorted((await self._reader(name).heads()).items())

    @on_connection
    async def _batch(self, name: str, generations: Sequence[str], start: int, stop: int) -> list[VectorRecord]:
        with self.connection.errors(name):
            info = await self._known(name)
            window = models.FieldCondition(key=INDEX, range=models.Range(gte=start, lt=stop))
            where = models.Filter(must=[IS_LIVE, any_of(GENERATION, generations), window])
            return await self._reader(name).records_where(where, info.dimensions > 0)

    def _reader(self, name: str) -> Reader:
        return Reader(self.connection.client, name)

    async def _index_ranges(self, name: str, metadata_filter: FilterLike | None) -> None:
        """Index the numbers that a filter compares, at the first time."""
        for field in range_keys(plan(metadata_filter)):
            if (name, field) not in self._range_fields:
                await self.connection.client.create_payload_index(
                    name, field, field_schema=models.PayloadSchemaType.FLOAT, wait=True
                )
                self._range_fields.add((name, field))


def _groups(documents: Sequence[PreparedDocument]) -> list[list[PreparedDocument]]:
    """Documents that are published together, at most 1,000 chunks unless one alone has more."""
    groups: list[list[PreparedDocument]] = []
    points = 0
    for document in documents:
        points += len(document.chunks) + 1
        if not groups or points > _GROUP_POINTS:
            groups.append([])
            points = len(document.chunks) + 1
        groups[-1].append(document)
    return groups


@contextlib.contextmanager
def _already_there() -> Any:
    """Another process may create the same collection at the same time."""
    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code != 409:
            raise
