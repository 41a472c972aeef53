"""`MilvusLiteStore`: a local Milvus Lite file, or a Milvus server."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import SecretStr

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import CollectionNotFoundError, ConfigurationError, RecordError, redact
from ...filters import FilterLike
from .._shared.heads import MAX_INDEX, Name
from .._shared.prepared import PreparedDocument, prepare_documents
from .._shared.records import closed_store, prepare_records, prepare_replace, unique_ids, unknown_collection
from .._shared.records import heads_of as summaries_of
from .._shared.worker import Steps, Worker
from ..base import NATIVE, Capability, CollectionInfo, RetrieveRequest, StoreHealth, VectorStoreBase
from .client import Connection, MilvusOptions
from .heads import LocalHeads, RemoteHeads
from .schema import HEAD, INFO_ID, MilvusInfo, chunks_of, heads_of, info_row
from .view import Reader
from .writer import Writer

T = TypeVar("T")
MetricType = Literal["COSINE", "IP", "L2"]

_DISTANCES = {"COSINE": "Cosine", "IP": "Dot", "L2": "Euclid"}
_THREADS = 8
# Milvus has no conditional write, so writers of one process take turns; see `writer` for those of several.
_turns: dict[tuple[str, str], threading.RLock] = defaultdict(threading.RLock)


class MilvusLiteStore(VectorStoreBase):
    """Milvus, in this process (Milvus Lite) or on a server.

    A local file belongs to one store object at a time, shared by any number of tasks; its searches are exact, and read
    all rows. See docs/stores/milvus.md for what each deployment promises.

    Args:
        uri: File of Milvus Lite, ending in ``.db``, made when it does not exist; or ``http://host:19530``.
        metric_type: How vectors are compared; L2 scores negated distances, COSINE within [-1, 1].
        index_type: Index of the vectors in new collections; ``"AUTOINDEX"`` is exact in a local file.
        client_kwargs: Further arguments of `pymilvus.MilvusClient`, such as ``db_name``.
        batch_size: Most rows in one message.
        token: ``"user:password"`` or API key of a server.
        timeout_s: Time limit of one call.

    Raises: ConfigurationError: a local path does not end in ``.db``, or an option is out of range.
        MissingExtraError: pymilvus or milvus-lite is not installed.
    """

    capabilities: ClassVar[frozenset[Capability]] = NATIVE

    def __init__(
        self,
        uri: str | os.PathLike[str] = "./agent_rag_milvus_lite.db",
        *,
        metric_type: MetricType = "COSINE",
        index_type: str = "AUTOINDEX",
        client_kwargs: Mapping[str, Any] | None = None,
        batch_size: int = 256,
        token: str | SecretStr | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        place = os.fspath(uri)
        if "://" not in place and not place.endswith(".db"):
            raise ConfigurationError(
                f"MilvusLiteStore(uri={place!r}): a Milvus Lite file ends in '.db', a server's address is like "
                "'http://host:19530'"
            )
        if metric_type not in get_args(MetricType):
            raise ConfigurationError(f"metric_type {metric_type!r} is none of {', '.join(get_args(MetricType))}")
        if batch_size < 1 or timeout_s <= 0:
            raise ConfigurationError(f"batch_size={batch_size} and timeout_s={timeout_s} must be above 0")
        self._options = MilvusOptions(
            uri=place,
            metric_type=metric_type,
            index_type=index_type,
            batch_size=batch_size,
            timeout_s=timeout_s,
            token=SecretStr(token) if isinstance(token, str) else token,
            client_kwargs=dict(client_kwargs or {}),
        )
        self._connection = Connection(self, self._options)
        self._runner: Worker | _Pool | None = None
        self._readers: dict[str, Reader] = {}
        self._opening = asyncio.Lock()
        self._depth = 0

    def __repr__(self) -> str:
        return f"MilvusLiteStore({redact(self._options.uri)!r})"

    async def __aenter__(self) -> Self:
        async with self._opening:
            if self._runner is None:
                self._readers = {}
                await asyncio.to_thread(self._connection.open)
                self._runner = Worker("agent-rag-milvus") if self._options.is_local else _Pool()
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
        """Finish what is queued and close, also inside nested blocks; harmless when closed."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.shield(asyncio.to_thread(self._close, runner))

    def _close(self, runner: Worker | _Pool) -> None:
        try:
            runner.stop()
        finally:
            self._connection.close()

    # --- collections ---

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self.open_collection(name, dimensions)

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        return await self._write(name, lambda: self._create(name, dimensions, fingerprint))

    async def delete_collection(self, name: str) -> None:
        await self._write(name, lambda: self._drop(name))

    async def has_collection(self, name: str) -> bool:
        return await self.collection_info(name) is not None

    async def collection_info(self, name: str) -> CollectionInfo | None:
        info = await self._read(lambda: self._info(name))
        return None if info is None else _public(info)

    async def list_collections(self) -> list[str]:
        return await self._read(self._names)

    def _create(self, name: str, dimensions: int, fingerprint: str | None) -> Steps[CollectionInfo]:
        yield from ()
        info = self._info(name)
        if info is None:
            info = MilvusInfo(
                name=name,
                dimensions=dimensions,
                fingerprint=fingerprint,
                distance=_DISTANCES[self._options.metric_type],
            )
            if self._connection.has(heads_of(name)):  # left by a crash
                self._connection.drop(heads_of(name))
            self._connection.create_heads(heads_of(name))
            self._connection.upsert(heads_of(name), [info_row(info)])
            self._connection.create_chunks(chunks_of(name), dimensions)
        elif fingerprint is not None and info.fingerprint is None:
            info.fingerprint = fingerprint
            self._connection.upsert(heads_of(name), [info_row(info)])
        return _public(info)

    def _drop(self, name: str) -> Steps[None]:
        yield from ()
        self._readers.pop(name, None)
        # The chunks make a collection exist, so a crash in between leaves none.
        for part in (chunks_of(name), heads_of(name)):
            if self._connection.has(part):
                self._connection.drop(part)

    def _info(self, name: str) -> MilvusInfo | None:
        if self._options.is_local and name in self._readers:
            return self._readers[name].info
        if not self._connection.has(chunks_of(name)):
            return None
        return self._stored_info(heads_of(name))

    def _stored_info(self, heads: str) -> MilvusInfo | None:
        try:
            self._connection.load(heads)
            rows = self._connection.get(heads, [INFO_ID], [HEAD])
        except CollectionNotFoundError:  # dropped meanwhile
            return None
        return MilvusInfo.model_validate_json("".join(rows[0][HEAD])) if rows else None

    def _names(self) -> list[str]:
        stored = set(self._connection.names())
        ours = [one for one in stored if one.startswith("rag_") and one.endswith("_heads")]
        infos = [self._stored_info(one) for one in ours if f"{one.removesuffix('heads')}chunks" in stored]
        return sorted(info.name for info in infos if info is not None)

    def _reader(self, name: str) -> Reader:
        """Raises: CollectionNotFoundError."""
        reader = self._readers.get(name)
        if reader is not None and self._options.is_local:
            return reader
        info = self._info(name)
        if info is None:
            raise unknown_collection(name)
        self._connection.load(chunks_of(name))
        if reader is None:
            heads = LocalHeads if self._options.is_local else RemoteHeads
            turn = nullcontext() if self._options.is_local else _turns[self._options.uri, name]
            reader = Reader(self._connection, info, heads(self._connection, name), turn)
            if self._options.is_local:
                Writer(reader).repair()
            self._readers[name] = reader
        reader.info = info
        return reader

    # --- writing ---

    async def insert(self, collection: str, records: list[VectorRecord]) -> None:
        info = await self._known(collection)

        def prepare() -> list[PreparedDocument]:
            prepared = prepare_records(collection, info.dimensions, records)
            _check_indexes(prepared.records)
            summaries = [summary for _, summary in summaries_of(prepared.records).values()]
            return prepare_documents(summaries, prepared, given=False)

        documents = await asyncio.to_thread(prepare)
        await self._change(collection, lambda writer: writer.insert(documents))

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

        prepared = await asyncio.to_thread(prepare)
        return await self._change(collection, lambda writer: writer.replace(prepared))

    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> int:
        return await self.delete_documents(collection, [document_id], metadata_filter)

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        chosen = unique_ids(document_ids)

        def names_in(reader: Reader) -> list[Name]:
            found = [name for document_id in chosen for name in reader.heads.find(document_id)]
            if metadata_filter is None:
                return found
            return [(item.scope, item.document_id) for item in reader.heads.summaries(metadata_filter, found)]

        _, removed = await self._delete(collection, names_in)
        return removed

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        def names_in(reader: Reader) -> list[Name]:
            return [(item.scope, item.document_id) for item in reader.heads.summaries(metadata_filter)]

        names, _ = await self._delete(collection, names_in)
        return sorted({document_id for _, document_id in names})

    async def _delete(self, collection: str, names_in: Callable[[Reader], list[Name]]) -> tuple[list[Name], int]:
        def steps() -> Steps[tuple[list[Name], int]]:
            reader = self._reader(collection)
            names = names_in(reader)
            return names, (yield from Writer(reader).delete(names))

        return await self._write(collection, steps)

    # --- reading ---

    async def search(
        self, collection: str, query_vector: list[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        request = RetrieveRequest(vectors=[query_vector], limit=top_k, metadata_filter=metadata_filter)
        return await self.retrieve(collection, request)

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        return await self._look(collection, lambda reader: reader.retrieve(request))

    async def list_documents(self, collection: str, metadata_filter: Any = None) -> list[DocumentSummary]:
        return await self._look(collection, lambda reader: reader.heads.summaries(metadata_filter))

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        return await self._look(collection, lambda reader: reader.fetch(keys, metadata_filter, with_vectors))

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
        def look(reader: Reader) -> list[VectorRecord]:
            return reader.list_chunks(document_id, offset, limit, metadata_filter, with_vectors)

        return await self._look(collection, look)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        return await self._look(collection, lambda reader: reader.count(metadata_filter))

    async def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """In order of the keys; a document that is replaced meanwhile may be missing or new."""
        batches = await self._look(collection, lambda reader: reader.batches(batch_size))
        while keys := await self._read(lambda: next(batches, None)):
            for record in await self.fetch(collection, keys, metadata_filter, with_vectors=True):
                yield record

    async def ping(self) -> StoreHealth:
        names = await self.list_collections()
        engine = "Milvus Lite" if self._options.is_local else "Milvus"
        facts = {"engine": engine, "uri": redact(self._options.uri), "collections": str(len(names))}
        return StoreHealth(ok=True, detail=engine, facts=facts)

    # --- threads ---

    async def _known(self, collection: str) -> CollectionInfo:
        info = await self.collection_info(collection)
        if info is None:
            raise unknown_collection(collection)
        return info

    async def _look(self, collection: str, job: Callable[[Reader], T]) -> T:
        return await self._read(lambda: job(self._reader(collection)))

    async def _change(self, collection: str, steps: Callable[[Writer], Steps[T]]) -> T:
        def run() -> Steps[T]:
            return (yield from steps(Writer(self._reader(collection))))

        return await self._write(collection, run)

    async def _read(self, job: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._running().read(job))

    async def _write(self, collection: str, steps: Callable[[], Steps[T]]) -> T:
        runner = self._running()
        if isinstance(runner, Worker):
            return await asyncio.wrap_future(runner.write(steps()))

        def run() -> T:
            with _turns[self._options.uri, collection]:
                return _drained(steps())

        return await asyncio.wrap_future(runner.read(run))

    def _running(self) -> Worker | _Pool:
        if self._runner is None:
            raise closed_store(self)
        return self._runner


class _Pool:
    """Threads for calls to a server."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agent-rag-milvus")

    def read(self, job: Callable[[], T]) -> Any:
        return self._threads.submit(job)

    def stop(self) -> None:
        self._threads.shutdown(wait=True)


def _drained(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def _public(info: MilvusInfo) -> CollectionInfo:
    return CollectionInfo.model_validate(info.model_dump(exclude={"weight_average", "number_columns"}))


def _check_indexes(records: Sequence[VectorRecord]) -> None:
    for record in records:
        if record.chunk.chunk_index > MAX_INDEX:
            raise RecordError(
                f"chunk_index {record.chunk.chunk_index} of {record.document_id!r} is above {MAX_INDEX:,}; "
                "number the chunks of a document from 0"
            )
