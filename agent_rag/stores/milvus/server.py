"""The server of `MilvusLiteStore`: a local file, or a Milvus server.

Milvus blocks, so in threads: in several for a server, and in one for a local file, which nobody else has open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from ...errors import CollectionNotFoundError, redact
from ..engine.records import closed_store
from ..rows.worker import Closing, Worker
from ..versions.engine import LAYOUT
from ..versions.stored_info import StoredInfo
from .calls import Milvus
from .client import Connection
from .lite import LiteConnection
from .options import DISTANCES, MilvusOptions
from .rows import Rows
from .schema import (
    HEAD,
    HEAD_FIELDS,
    HEAD_INDEXES,
    INFO_ID,
    MilvusInfo,
    chunk_fields,
    chunk_indexes,
    chunks_of,
    heads_beside,
    info_of_row,
    new_mark,
    text_row,
)

T = TypeVar("T")

_THREADS = 8


class MilvusServer:
    """Collections that other processes may write to."""

    def __init__(self, owner: object, options: MilvusOptions) -> None:
        self._owner = owner
        self._options = options
        self.milvus: Milvus = LiteConnection(owner, options) if options.is_local else Connection(owner, options)
        self._threads: _Pool | Worker | None = None
        self._closing = Closing()

    @property
    def is_open(self) -> bool:
        return self._threads is not None

    async def open(self) -> None:
        await self._closing.over()
        self._threads = Worker("agent-rag-milvus") if self._options.is_local else _Pool()
        try:
            await self._call(self.milvus.open)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is queued first."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await self._closing.run(lambda: self._close(threads))

    def _close(self, threads: _Pool | Worker) -> None:
        try:
            threads.stop()
        finally:
            self.milvus.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self.is_open:
            work.close()
            raise closed_store(self._owner)
        return await work

    async def _call(self, job: Callable[[], T], /) -> T:
        if self._threads is None:
            raise closed_store(self._owner)
        return await asyncio.wrap_future(self._threads.read(job))

    def errors(self, collection: str) -> contextlib.AbstractContextManager[None]:
        """The connection has turned them."""
        return contextlib.nullcontext()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        info = MilvusInfo(
            name=name,
            dimensions=dimensions,
            fingerprint=fingerprint,
            distance=DISTANCES[self._options.metric_type],
            keyword=self._options.keyword,
            layout=LAYOUT,
            mark=new_mark(),
        )

        def job() -> None:
            """Who makes the chunks first has made the collection; the heads that others made for it go."""
            with self.milvus.making:
                if self.milvus.fields(info.chunks) is not None:
                    return
                self.milvus.create(info.heads, HEAD_FIELDS)
                self.milvus.load(info.heads, HEAD_INDEXES)
                self._write_info(info)
                if not self.milvus.create(info.chunks, chunk_fields(info)):
                    self.milvus.drop(info.heads)

        await self._call(job)

    async def complete(self, name: str) -> None:
        """`info` did it."""

    async def info(self, name: str) -> MilvusInfo | None:
        def job() -> MilvusInfo | None:
            info = self._read_info(chunks_of(name))
            if info is not None and info.layout == LAYOUT:
                self.milvus.load(info.chunks, chunk_indexes(info, self._options.vector_index), info.heads)
            return info

        return await self._call(job)

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        known = MilvusInfo.model_validate(info.model_copy(update={"fingerprint": fingerprint}).model_dump())
        await self._call(lambda: self._write_info(known))

    async def drop(self, name: str) -> None:
        def job() -> None:
            chunks = chunks_of(name)
            heads = self._heads(chunks)
            if heads is None:
                return
            # The chunks make a collection exist, so a crash in between leaves none.
            for part in (chunks, heads):
                with contextlib.suppress(CollectionNotFoundError):  # another process drops it, too
                    self.milvus.drop(part)

        await self._call(job)

    async def names(self) -> list[str]:
        def job() -> list[str]:
            infos = []
            for chunks in self.milvus.names():
                if chunks.startswith("rag_") and chunks.endswith("_chunks"):
                    with contextlib.suppress(CollectionNotFoundError):
                        infos.append(self._read_info(chunks))
            return [info.name for info in infos if info is not None]

        return await self._call(job)

    def collection(self, info: StoredInfo) -> Rows:
        assert isinstance(info, MilvusInfo)
        return Rows(self.milvus, self._call, info)

    async def facts(self) -> dict[str, str]:
        engine = "Milvus Lite" if self._options.is_local else "Milvus"
        version = await self._call(lambda: self.milvus.version)
        return {"engine": engine, "version": version, "uri": redact(self._options.uri)}

    def _heads(self, chunks: str) -> str | None:
        """The heads of a collection. Raises: CollectionNotFoundError: it is there and belongs to another program."""
        fields = self.milvus.fields(chunks)
        if fields is None:
            return None
        heads = heads_beside(chunks, fields)
        if heads is None:
            raise CollectionNotFoundError(
                f"the Milvus collection {chunks!r} belongs to another program; use another name or another database"
            )
        return heads

    def _read_info(self, chunks: str) -> MilvusInfo | None:
        heads = self._heads(chunks)
        if heads is None:
            return None
        try:
            self.milvus.load(heads)
            rows = self.milvus.get(heads, [INFO_ID], [HEAD])
        except CollectionNotFoundError:  # dropped meanwhile
            return None
        return info_of_row(rows[0]) if rows else None

    def _write_info(self, info: MilvusInfo) -> None:
        self.milvus.upsert(info.heads, [text_row(INFO_ID, info.model_dump_json())])


class _Pool:
    """Threads for calls to a server."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="agent-rag-milvus")

    def read(self, job: Callable[[], T]) -> Future[T]:
        return self._threads.submit(job)

    def stop(self) -> None:
        self._threads.shutdown(wait=True)
