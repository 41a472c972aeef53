"""The server engine of `QdrantStore`: a Qdrant server or cluster through qdrant-client.

Needs a server of version 1.19 or later (conditional updates, IDF over a filter). `layout` says how several
processes write and read at once, `view` how BM25 is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from ...documents import VectorRecord, VectorSearchResult
from ...errors import StoreUnavailableError
from ...filters import FilterLike, matches
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.payload import check_format
from ..engine.prepared import PreparedDocument, prepare_write
from ..engine.records import Checked, existing, query_vector, without_keyword
from ..engine.store import Answer, settled
from ..versions.groups import grouped
from ..versions.heads import Name
from ..versions.stored_info import StoredInfo
from .client import Connection, OnConnection, RemoteOptions, any_of, on_connection
from .layout import DOCUMENT, INDEXES, ServerHead
from .publisher import Publisher
from .reads import RangeIndexes, Reader
from .schema import DENSE, SPARSE
from .view import ServerStatistics, search

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
        self._infos: dict[str, StoredInfo] = {}
        self._statistics: dict[str, ServerStatistics] = {}
        self._ranges = RangeIndexes()

    @property
    def is_open(self) -> bool:
        return self.connection.is_open

    async def open(self) -> None:
        self.connection.open()

    async def close(self) -> None:
        self._forget()
        await self.connection.close()

    # --- collections ---

    @on_connection
    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        with self.connection.errors(name):
            info = await self._info(name, fresh=True)
            if info is None:
                with _already_there():
                    await self._create(name, dimensions, fingerprint)
                info = existing(await self._info(name, fresh=True), name)
            if fingerprint and info.fingerprint is None:
                info = info.model_copy(update={"fingerprint": fingerprint})
                await self.connection.client.update_collection(name, metadata={_OURS: info.model_dump(mode="json")})
                self._infos[name] = info
            return info.public()

    @on_connection
    async def drop(self, name: str) -> None:
        with self.connection.errors(name):
            await self.connection.client.delete_collection(name)
        self._forget(name)

    @on_connection
    async def info(self, name: str) -> CollectionInfo | None:
        with self.connection.errors(name):
            info = await self._info(name, fresh=True)
            return None if info is None else info.public()

    @on_connection
    async def names(self) -> list[str]:
        with self.connection.errors():
            answer = await self.connection.client.get_collections()
            return sorted(collection.name for collection in answer.collections)

    async def optimize(self, name: str) -> None:
        """A server does it by itself."""

    async def _create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        options = self._options
        info = StoredInfo(
            name=name,
            dimensions=dimensions,
            fingerprint=fingerprint,
            distance=options.distance,
            keyword=options.keyword,
        )
        dense = models.VectorParams(
            size=max(dimensions, 1), distance=models.Distance(options.distance), on_disk=options.on_disk
        )
        sparse = models.SparseVectorParams(modifier=models.Modifier.IDF)
        client = self.connection.client
        await client.create_collection(
            name,
            vectors_config={DENSE: dense} if dimensions else {},
            sparse_vectors_config={SPARSE: sparse} if options.keyword else None,
            shard_number=options.shard_number,
            replication_factor=options.replication_factor,
            write_consistency_factor=options.write_consistency_factor,
            on_disk_payload=options.on_disk,
            quantization_config=_QUANTIZATION[options.quantization] if options.quantization else None,
            metadata={_OURS: info.model_dump(mode="json")},
        )
        for field, schema in INDEXES.items():
            await client.create_payload_index(name, field, field_schema=schema, wait=True)

    async def _info(self, name: str, *, fresh: bool = False) -> StoredInfo | None:
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
        self._ranges.note(name, answer.payload_schema)
        info = self._infos[name] = StoredInfo.model_validate(stored)
        check_format(info)
        return info

    async def _known(self, name: str, *, fresh: bool = False) -> StoredInfo:
        return existing(await self._info(name, fresh=fresh), name)

    def _forget(self, name: str | None = None) -> None:
        for cache in (self._infos, self._statistics):
            if name is None:
                cache.clear()
            else:
                cache.pop(name, None)
        self._ranges.forget(name)

    # --- writing ---

    async def replace(self, name: str, checked: Checked) -> int:
        return await self._replace(name, await self._prepared(name, checked))

    async def _prepared(self, name: str, checked: Checked) -> list[PreparedDocument]:
        info = await self._current(name)
        return await prepare_write(info, checked, keyword=info.keyword)

    @on_connection
    async def _current(self, name: str) -> StoredInfo:
        with self.connection.errors(name):
            return await self._known(name, fresh=True)

    @on_connection
    async def _replace(self, name: str, documents: Sequence[PreparedDocument]) -> int:
        with self._changing(name):
            publisher = await self._publisher(await self._known(name), documents)
            return sum([await publisher.replace(group) for group in _groups(documents)])

    @on_connection
    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        with self._changing(name):
            info = await self._known(name)
            must = [] if document_ids is None else [any_of(DOCUMENT, document_ids)]
            heads = await self._reader(info).heads(metadata_filter, must)
            if heads:
                await Publisher(self.connection.client, name, 1.0).delete(heads)
            return list(heads), sum(head.count for head in heads.values())

    async def _publisher(self, info: StoredInfo, documents: Sequence[PreparedDocument]) -> Publisher:
        average = await self._average_length(info.name, documents) if info.keyword else 1.0
        return Publisher(self.connection.client, info.name, average)

    async def _average_length(self, name: str, documents: Sequence[PreparedDocument]) -> float:
        statistics = await self._current_statistics(name)
        lengths = [chunk.terms.length for document in documents for chunk in document.chunks if chunk.terms.length]
        own = sum(lengths) / max(len(lengths), 1)
        return max(statistics.average_length if statistics.indexed else own, 1.0)

    async def _current_statistics(self, name: str) -> ServerStatistics:
        statistics = self._statistics.get(name)
        if statistics is None or not statistics.is_fresh:
            statistics = self._statistics[name] = await ServerStatistics.ask(self.connection.client, name)
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
            if request.texts and not info.keyword:
                raise without_keyword(name)
            for vector in request.vectors:
                query_vector(name, info.dimensions, vector)
            await self._ranges.make(self.connection.client, name, request.metadata_filter)
            statistics = await self._current_statistics(name) if request.texts else None
            return await search(self.connection.client, name, info.distance, request, statistics)

    @on_connection
    async def read(self, name: str, job: Callable[[Reader], Answer[T]]) -> T:
        with self.connection.errors(name):
            return await settled(job(self._reader(await self._known(name))))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        heads = await self._sorted_heads(name)
        for group in grouped(heads, (lambda item: item[1].count, batch_size)):
            top = max(head.top for _, head in group)
            step = batch_size if len(group) == 1 else max(top, 1)
            for start in range(0, top, step):
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
            return sorted((await self._reader(await self._known(name)).heads()).items())

    @on_connection
    async def _batch(self, name: str, generations: Sequence[str], start: int, stop: int) -> list[VectorRecord]:
        with self.connection.errors(name):
            reader = self._reader(await self._known(name))
            return await reader.window(generations, start, stop, with_vectors=True)

    def _reader(self, info: CollectionInfo) -> Reader:
        return Reader(self.connection.client, info, self._ranges)


def _groups(documents: Sequence[PreparedDocument]) -> Iterator[list[PreparedDocument]]:
    """Documents that are published together."""
    return grouped(documents, (lambda document: len(document.chunks) + 1, _GROUP_POINTS))


@contextlib.contextmanager
def _already_there() -> Any:
    """Another process may create the same collection at the same time."""
    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code != 409:
            raise
