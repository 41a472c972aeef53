"""The engine of `MilvusLiteStore`: collections, and where reads and writes begin.

Milvus blocks, so in threads: in several for a server, and in one for a local file, which nobody else has open.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ...documents import ChunkKey, VectorRecord, VectorSearchResult
from ...errors import CollectionNotFoundError, redact
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.prepared import PreparedDocument, prepare_write
from ..engine.records import Checked, closed_store, existing
from ..engine.store import Answer, settled
from ..rows.worker import Closing, Steps, Worker, run_out
from ..versions.heads import Name
from .client import Connection, Rows
from .heads import Heads, LiteHeads
from .lite import LiteConnection
from .options import DISTANCES, MilvusOptions
from .schema import HEAD, INFO_ID, MilvusInfo, chunks_of, heads_of, info_row
from .view import Reader
from .writer import Writer

T = TypeVar("T")

_THREADS = 8
# Milvus has no conditional write, so writers of one process take turns; see `writer` for those of several.
_turns: dict[tuple[str, str], threading.RLock] = defaultdict(threading.RLock)


class MilvusEngine:
    """Collections that other processes may write to; threads read and write them."""

    def __init__(self, owner: object, options: MilvusOptions) -> None:
        self._owner = owner
        self._options = options
        self.connection: Rows = LiteConnection(owner, options) if options.is_local else Connection(owner, options)
        self._runner: _Pool | Worker | None = None
        self._closing = Closing()
        self._readers: dict[str, Reader] = {}

    @property
    def is_open(self) -> bool:
        return self._runner is not None

    async def open(self) -> None:
        self._readers = {}
        await self._closing.over()
        runner = self._runner = Worker("agent-rag-milvus") if self._options.is_local else _Pool()
        try:
            await asyncio.wrap_future(runner.read(self.connection.open))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is queued first."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await self._closing.run(lambda: self._close(runner))

    def _close(self, runner: _Pool | Worker) -> None:
        try:
            runner.stop()
        finally:
            self.connection.close()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        return await self._write(name, lambda: self._create(name, dimensions, fingerprint))

    async def drop(self, name: str) -> None:
        await self._write(name, lambda: self._drop(name))

    async def info(self, name: str) -> CollectionInfo | None:
        info = await self._read(lambda: self._info(name))
        return None if info is None else info.public()

    async def names(self) -> list[str]:
        return await self._read(self._names)

    def _create(self, name: str, dimensions: int, fingerprint: str | None) -> Steps[CollectionInfo]:
        yield from ()
        info = self._info(name)
        if info is None:
            info = MilvusInfo(
                name=name,
                dimensions=dimensions,
                fingerprint=fingerprint,
                distance=DISTANCES[self._options.metric_type],
                keyword=self._options.keyword,
            )
            if self.connection.has(heads_of(name)):  # left by a crash
                self.connection.drop(heads_of(name))
            self.connection.create_heads(heads_of(name))
            self.connection.upsert(heads_of(name), [info_row(info)])
            self.connection.create_chunks(chunks_of(name), info)
        elif fingerprint is not None and info.fingerprint is None:
            info.fingerprint = fingerprint
            self.connection.upsert(heads_of(name), [info_row(info)])
        return info.public()

    def _drop(self, name: str) -> Steps[None]:
        yield from ()
        self._readers.pop(name, None)
        # The chunks make a collection exist, so a crash in between leaves none.
        for part in (chunks_of(name), heads_of(name)):
            if self.connection.has(part):
                self.connection.drop(part)

    def _info(self, name: str) -> MilvusInfo | None:
        if not self.connection.has(chunks_of(name)):
            return None
        return self._stored_info(heads_of(name))

    def _stored_info(self, heads: str) -> MilvusInfo | None:
        try:
            self.connection.load(heads)
            rows = self.connection.get(heads, [INFO_ID], [HEAD])
        except CollectionNotFoundError:  # dropped meanwhile
            return None
        return MilvusInfo.model_validate_json("".join(rows[0][HEAD])) if rows else None

    def _names(self) -> list[str]:
        stored = set(self.connection.names())
        ours = [one for one in stored if one.startswith("rag_") and one.endswith("_heads")]
        infos = [self._stored_info(one) for one in ours if f"{one.removesuffix('heads')}chunks" in stored]
        return sorted(info.name for info in infos if info is not None)

    def _reader(self, name: str) -> Reader:
        """Raises: CollectionNotFoundError."""
        info = existing(self._info(name), name)
        self.connection.load(chunks_of(name))
        reader = self._readers.get(name)
        if reader is None:
            turn = _turns[self._options.uri, name]
            heads = LiteHeads if self._options.is_local else Heads
            reader = self._readers[name] = Reader(self.connection, info, heads(self.connection, name), turn)
        reader.take(info)
        return reader

    # --- writing ---

    async def replace(self, name: str, checked: Checked) -> int:
        documents = await self._prepared(name, checked)
        return await self._change(name, lambda writer: writer.replace(documents))

    async def _prepared(self, name: str, checked: Checked) -> list[PreparedDocument]:
        info = existing(await self._read(lambda: self._info(name)), name)
        return await prepare_write(info, checked, keyword=info.keyword)

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        def steps() -> Steps[tuple[list[Name], int]]:
            reader = self._reader(name)
            names = _names_matching(reader, document_ids, metadata_filter)
            return names, (yield from Writer(reader).delete(names))

        return await self._write(name, steps)

    # --- reading ---

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        return await self._look(name, lambda reader: reader.retrieve(request))

    async def read(self, name: str, job: Callable[[Reader], Answer[T]]) -> T:
        return await settled(await self._look(name, job))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        batches = await self._look(name, lambda reader: reader.batches(batch_size))
        while keys := await self._read(lambda: next(batches, None)):
            for record in await self._fetch(name, keys, metadata_filter):
                yield record

    async def _fetch(
        self, name: str, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None
    ) -> list[VectorRecord]:
        return await self._look(name, lambda reader: reader.fetch(keys, metadata_filter, True))

    async def ping(self) -> StoreHealth:
        names = await self.names()
        engine = "Milvus Lite" if self._options.is_local else "Milvus"
        facts = {"engine": engine, "uri": redact(self._options.uri), "collections": str(len(names))}
        return StoreHealth(ok=True, detail=engine, facts=facts)

    # --- threads ---

    async def _look(self, collection: str, job: Callable[[Reader], T]) -> T:
        return await self._read(lambda: job(self._reader(collection)))

    async def _change(self, collection: str, steps: Callable[[Writer], Steps[T]]) -> T:
        def run() -> Steps[T]:
            return (yield from steps(Writer(self._reader(collection))))

        return await self._write(collection, run)

    async def _read(self, job: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._running().read(job))

    async def _write(self, collection: str, steps: Callable[[], Steps[T]]) -> T:
        def run() -> Steps[T]:
            with _turns[self._options.uri, collection]:
                return (yield from steps())

        return await asyncio.wrap_future(self._running().write(run()))

    def _running(self) -> _Pool | Worker:
        if self._runner is None:
            raise closed_store(self._owner)
        return self._runner


class _Pool:
    """Threads for calls to a server."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agent-rag-milvus")

    def read(self, job: Callable[[], T]) -> Future[T]:
        return self._threads.submit(job)

    def write(self, steps: Steps[T]) -> Future[T]:
        return self._threads.submit(run_out, steps)

    def stop(self) -> None:
        self._threads.shutdown(wait=True)


def _names_matching(
    reader: Reader, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
) -> list[Name]:
    among = None if document_ids is None else [name for one in document_ids for name in reader.heads.find(one)]
    if among is not None and metadata_filter is None:
        return among
    return [(item.scope, item.document_id) for item in reader.heads.summaries(metadata_filter, among)]
