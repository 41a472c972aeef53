"""`QdrantStore`: embedded in this process (`path=`, `":memory:"`) or on a Qdrant server (`url=`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, get_args

from pydantic import SecretStr

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import ConfigurationError, RecordError, redact
from ...filters import FilterLike
from .._shared.heads import MAX_INDEX
from .._shared.prepared import PreparedDocument, prepare_documents
from .._shared.records import heads_of, prepare_records, prepare_replace, unique_ids, unknown_collection
from ..base import NATIVE, Capability, CollectionInfo, RetrieveRequest, StoreHealth, VectorStoreBase
from .schema import Distance


class QdrantEngine(Protocol):
    """What the two engines do; arguments are checked and cleaned already."""

    @property
    def is_open(self) -> bool: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo: ...

    async def drop(self, name: str) -> None: ...

    async def info(self, name: str) -> CollectionInfo | None: ...

    async def names(self) -> list[str]: ...

    async def replace(self, name: str, documents: Sequence[PreparedDocument]) -> int: ...

    async def insert(self, name: str, documents: Sequence[PreparedDocument]) -> None: ...

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[tuple[str, str]], int]: ...

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]: ...

    async def fetch(
        self, name: str, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]: ...

    async def list_chunks(
        self,
        name: str,
        document_id: str,
        offset: int,
        limit: int,
        metadata_filter: FilterLike | None,
        with_vectors: bool,
    ) -> list[VectorRecord]: ...

    async def count(self, name: str, metadata_filter: FilterLike | None) -> int: ...

    async def summaries(self, name: str, metadata_filter: FilterLike | None) -> list[DocumentSummary]: ...

    def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]: ...

    async def optimize(self, name: str) -> None: ...

    async def ping(self) -> StoreHealth: ...


class QdrantStore(VectorStoreBase):
    """Qdrant in three deployments, with the same answers.

    Embedded stores hold a lock on their folder: one store object at a time, shared by any number of tasks. A write is
    on disk (in the write-ahead log) when its call returns. Search is exact until `optimize` is called. What
    ``":memory:"`` holds lives as long as the store object: closing keeps it, and entering again shows it.

    Blocks may be nested; the outermost one opens and closes.

    Args:
        location: ``":memory:"``, or a URL, as for qdrant-client.
        url: Address of a Qdrant server, 1.19 or later.
        path: Folder of an embedded store; made when it does not exist.
        api_key: Key of the server.
        distance: Metric of collections that this store creates.
        client_kwargs: Further arguments of `qdrant_client.AsyncQdrantClient`; with `url` only.
        shard_number: Shards of a new collection; with `url` only, as all that follow.
        replication_factor: Copies of each shard.
        write_consistency_factor: Copies that must confirm a write.
        quantization: Compressed vectors in memory; the originals rescore the candidates.
        on_disk: Keep vectors and payloads on disk.
        timeout_s: Time limit of one request.

    Raises: ConfigurationError: not exactly one of location, url and path, or an option that does not fit it.
        MissingExtraError: the package of the chosen engine is not installed.
    """

    capabilities: ClassVar[frozenset[Capability]] = NATIVE

    def __init__(
        self,
        location: str | None = None,
        url: str | None = None,
        path: str | Path | None = None,
        api_key: str | SecretStr | None = None,
        distance: Distance = "Cosine",
        client_kwargs: Mapping[str, Any] | None = None,
        *,
        shard_number: int | None = None,
        replication_factor: int | None = None,
        write_consistency_factor: int | None = None,
        quantization: str | None = None,
        on_disk: bool = False,
        timeout_s: float = 30.0,
    ) -> None:
        if distance not in get_args(Distance):
            raise ConfigurationError(f"distance={distance!r} is none of {', '.join(get_args(Distance))}")
        if sum(given is not None for given in (location, url, path)) != 1:
            raise ConfigurationError(
                "QdrantStore takes exactly one of location=':memory:', url='http://host:6333' and path='folder', "
                f"got location={location!r}, url={redact(url or '')!r}, path={path!r}"
            )
        if location is not None and location != ":memory:":
            url = location
        server_options = {
            "api_key": api_key,
            "client_kwargs": client_kwargs,
            "shard_number": shard_number,
            "replication_factor": replication_factor,
            "write_consistency_factor": write_consistency_factor,
            "quantization": quantization,
            "on_disk": on_disk or None,
        }
        self._opening = asyncio.Lock()
        self._depth = 0
        self._engine: QdrantEngine
        if url is not None:
            from .client import RemoteOptions
            from .remote import RemoteEngine

            self._where = redact(url)
            options = RemoteOptions.checked(url=url, distance=distance, timeout_s=timeout_s, **server_options)
            self._engine = RemoteEngine(self, options)
            return
        if unfit := [name for name, value in server_options.items() if value is not None]:
            raise ConfigurationError(f"{', '.join(unfit)}: only for a Qdrant server; pass url=, or leave them out")
        from .edge import EdgeEngine

        self._where = ":memory:" if path is None else str(path)
        self._engine = EdgeEngine(self, None if path is None else Path(path), distance)

    def __repr__(self) -> str:
        return f"QdrantStore({self._where!r})"

    async def __aenter__(self) -> Self:
        async with self._opening:
            if not self._engine.is_open:
                await self._engine.open()
                self._depth = 0
            self._depth += 1
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth <= 0:
            await self.close()

    async def close(self) -> None:
        """Close at once, also inside nested blocks; harmless when closed. Entering the store again opens it again."""
        await self._engine.close()

    # --- collections ---

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self._engine.create(name, dimensions, None)

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        return await self._engine.create(name, dimensions, fingerprint)

    async def delete_collection(self, name: str) -> None:
        await self._engine.drop(name)

    async def has_collection(self, name: str) -> bool:
        return await self._engine.info(name) is not None

    async def collection_info(self, name: str) -> CollectionInfo | None:
        return await self._engine.info(name)

    async def list_collections(self) -> list[str]:
        return await self._engine.names()

    async def optimize(self, collection: str) -> None:
        """Build the search graph of a large collection and drop what was deleted.

        Embedded: in a child process, while all other calls on this store wait (25 s for 100k chunks of 256
        dimensions). Search is then about 4 times faster at 100k chunks and approximate (recall@10 about .95); new
        chunks are still searched exactly. A server does this by itself; there this call does nothing.
        """
        await self._engine.optimize(collection)

    # --- writing ---

    async def insert(self, collection: str, records: list[VectorRecord]) -> None:
        info = await self._known(collection)

        def prepare() -> list[PreparedDocument]:
            prepared = prepare_records(collection, info.dimensions, records)
            _check_indexes(prepared.records)
            summaries = [summary for _, summary in heads_of(prepared.records).values()]
            return prepare_documents(summaries, prepared, given=False)

        await self._engine.insert(collection, await asyncio.to_thread(prepare))

    async def replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        scope: str = "",
    ) -> int:
        info = await self._known(collection)

        def prepare() -> list[PreparedDocument]:
            summaries, prepared = prepare_replace(collection, info.dimensions, documents, records, scope=scope)
            _check_indexes(prepared.records)
            return prepare_documents(summaries, prepared, given=True)

        return await self._engine.replace(collection, await asyncio.to_thread(prepare))

    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> int:
        _, removed = await self._engine.delete(collection, [document_id], metadata_filter)
        return removed

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        _, removed = await self._engine.delete(collection, unique_ids(document_ids), metadata_filter)
        return removed

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        names, _ = await self._engine.delete(collection, None, metadata_filter)
        return sorted({document_id for _, document_id in names})

    # --- reading ---

    async def search(
        self, collection: str, query_vector: list[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        request = RetrieveRequest(
            vectors=[query_vector], limit=top_k, candidates=top_k, metadata_filter=metadata_filter
        )
        return await self._engine.retrieve(collection, request)

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        return await self._engine.retrieve(collection, request)

    async def list_documents(self, collection: str, metadata_filter: Any = None) -> list[DocumentSummary]:
        return await self._engine.summaries(collection, metadata_filter)

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        return await self._engine.fetch(collection, keys, metadata_filter, with_vectors)

    async def list_chunks(
        self,
        collection: str,
        document_id: str,
        *,
        offset: int = 0,
        limit: int = 30,
        metadata_filter: FilterLike | None = None,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        return await self._engine.list_chunks(collection, document_id, offset, limit, metadata_filter, with_vectors)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        return await self._engine.count(collection, metadata_filter)

    def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        return self._engine.iterate(collection, metadata_filter, batch_size)

    async def ping(self) -> StoreHealth:
        return await self._engine.ping()

    async def _known(self, collection: str) -> CollectionInfo:
        info = await self._engine.info(collection)
        if info is None:
            raise unknown_collection(collection)
        return info


def _check_indexes(records: Sequence[VectorRecord]) -> None:
    for record in records:
        if record.chunk.chunk_index > MAX_INDEX:
            raise RecordError(
                f"chunk_index {record.chunk.chunk_index} of {record.document_id!r} is above {MAX_INDEX:,}; "
                "number the chunks of a document from 0"
            )
