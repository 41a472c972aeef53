"""The engine of `MilvusLiteStore` for a local file: its collections, and one thread that reads and writes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ...documents import ChunkKey, VectorRecord, VectorSearchResult
from ...errors import StoreError
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.payload import check_format
from ..engine.records import Checked, closed_store, existing
from ..engine.store import Answer, settled
from ..rows.worker import Closing, Steps, Worker
from ..versions.groups import slices
from ..versions.heads import Name
from ..versions.stored_info import StoredInfo
from .lite_collection import LiteCollection
from .lite_file import ID, TEXT, LiteFile, LiteRows, Row
from .lite_rows import prepare_write
from .lite_writer import LiteWriter
from .options import DISTANCES, MilvusOptions
from .schema import milvus_name

T = TypeVar("T")

_CATALOG = "agent_rag"
"""The Milvus collection that has a row for each of ours: its Milvus name, and what is known of it."""


_log = logging.getLogger(__name__)


class LiteEngine:
    """The file is the log, memory answers; collections are read from the file when they are first used."""

    def __init__(self, owner: object, options: MilvusOptions) -> None:
        self._owner = owner
        self._options = options
        self._file = LiteFile(options.uri, str(options.client_kwargs.get("db_name") or ""))
        self._worker: Worker | None = None
        self._closing = Closing()
        self._catalog: LiteRows
        self._infos: dict[str, StoredInfo] = {}
        self._unknown: set[str] = set()
        """Milvus names of collections that have rows, of which nothing is known."""
        self._collections: dict[str, LiteCollection] = {}

    @property
    def is_open(self) -> bool:
        return self._worker is not None

    async def open(self) -> None:
        """Cancelling it closes the file."""
        await self._closing.over()
        worker = self._worker = Worker("agent-rag-milvus")
        try:
            await asyncio.wrap_future(worker.read(self._open))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is queued first."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._closing.run(lambda: self._close(worker))

    def _open(self) -> None:
        self._file.open()
        self._infos, self._collections, self._unknown = {}, {}, set()
        stored = {one for one in self._file.names() if one.startswith("rag_")}
        for name, row in self._read_catalog(stored).items():
            stored.discard(name)
            if row[TEXT] == _dropped(name):
                self._finish_drop(name)
                continue
            with self._file.errors():
                info = StoredInfo.model_validate_json(row[TEXT] or "")
            self._infos[info.name] = info
            if self._file.folder(name).read_info() is None:
                self._note(info)
        self._adopt(stored)

    def _read_catalog(self, stored: Iterable[str]) -> Mapping[str, Row]:
        if _CATALOG in self._file.names():
            self._catalog = self._file.get(_CATALOG)
            return self._catalog.get(self._catalog.ids(), [TEXT])
        if any(self._file.folder(one).read_info() is None for one in stored):
            raise StoreError(
                f"{self._file.path} has collections of another layout, written by a Milvus server or by an earlier "
                "version of agent-rag-middleware; ingest into a new file, or copy the collections to another store "
                "with what wrote them ('agent-rag copy')"
            )
        self._catalog = self._file.create(_CATALOG)
        return {}

    def _adopt(self, names: Iterable[str]) -> None:
        """Collections that the catalog lacks, since it was damaged, or since a crash left an empty one."""
        for name in sorted(names):
            info = self._file.folder(name).read_info()
            if info is not None and milvus_name(info.name) == name:
                self._infos[info.name] = info
                with self._catalog.tidying():
                    self._save(info)
            elif self._may_have_rows(name):
                self._unknown.add(name)
                _log.warning("%s has rows in %s, and nothing says what they are", self._file.path, name)

    def _may_have_rows(self, name: str) -> bool:
        try:
            return self._file.get(name).count() > 0
        except StoreError:
            return True

    def _close(self, worker: Worker) -> None:
        try:
            worker.stop()
        finally:
            self._infos, self._collections = {}, {}
            self._file.close()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        return await self._write(lambda: self._create(name, dimensions, fingerprint))

    async def drop(self, name: str) -> None:
        await self._write(lambda: self._drop(name))

    async def info(self, name: str) -> CollectionInfo | None:
        info = await self._read(lambda: self._infos.get(name))
        return None if info is None else info.public()

    async def names(self) -> list[str]:
        return await self._read(lambda: sorted(self._infos))

    def _create(self, name: str, dimensions: int, fingerprint: str | None) -> Steps[CollectionInfo]:
        yield from ()
        info = self._infos.get(name)
        if info is None:
            if milvus_name(name) in self._unknown:
                raise StoreError(
                    f"{self._file.path} has rows of a collection {name!r} that its catalog does not know any more; "
                    f"restore the file from a copy, or give the rows up with delete_collection({name!r})"
                )
            info = StoredInfo(
                name=name,
                dimensions=dimensions,
                fingerprint=fingerprint,
                distance=DISTANCES[self._options.metric_type],
                keyword=self._options.keyword,
            )
            # The row in the catalog makes a collection exist, so a crash before it leaves none.
            self._collections[name] = LiteCollection(self._file.create(milvus_name(name)), info)
            self._save(info)
        elif fingerprint is not None and info.fingerprint is None:
            info = info.model_copy(update={"fingerprint": fingerprint})
            self._save(info)
        return info.public()

    def _save(self, info: StoredInfo) -> None:
        self._catalog.insert([{ID: milvus_name(info.name), TEXT: info.model_dump_json()}])
        self._catalog.sync()
        self._infos[info.name] = info
        self._note(info)

    def _note(self, info: StoredInfo) -> None:
        """Beside the rows too, for the case that the catalog is damaged."""
        folder = self._file.folder(milvus_name(info.name))
        try:
            folder.write_info(info)
        except OSError:
            _log.warning("cannot write to %s; the next opening tries again", folder.path, exc_info=True)

    def _drop(self, name: str) -> Steps[None]:
        yield from ()
        stored = milvus_name(name)
        if name in self._infos or stored in self._unknown:
            # A crash from here on must not leave half a collection.
            self._catalog.insert([{ID: stored, TEXT: _dropped(stored)}])
            self._catalog.sync()
            self._infos.pop(name, None)
            self._collections.pop(name, None)
            self._unknown.discard(stored)
            self._finish_drop(stored)

    def _finish_drop(self, stored: str) -> None:
        self._file.drop(stored)
        with self._catalog.tidying():
            self._catalog.delete([stored])

    def _collection(self, name: str) -> LiteCollection:
        """Raises: CollectionNotFoundError."""
        info = existing(self._infos.get(name), name)
        if name not in self._collections:
            check_format(info)
            collection = LiteCollection(self._file.get(milvus_name(name)), info)
            collection.load()
            self._collections[name] = collection
        self._collections[name].refresh()
        return self._collections[name]

    # --- writing ---

    async def replace(self, name: str, checked: Checked) -> int:
        documents = await prepare_write(await self._existing(name), checked)
        return await self._change(name, lambda writer: writer.replace(documents))

    async def _existing(self, name: str) -> StoredInfo:
        return existing(await self._read(lambda: self._infos.get(name)), name)

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        def steps() -> Steps[tuple[list[Name], int]]:
            collection = self._collection(name)
            find = collection.table.find
            among = None if document_ids is None else [found for one in document_ids for found in find(one)]
            names = list(collection.table.matching(metadata_filter, among))
            return names, (yield from LiteWriter(collection).delete(names))

        return await self._write(steps)

    # --- reading ---

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        return await self._look(name, lambda collection: collection.retrieve(request))

    async def read(self, name: str, job: Callable[[LiteCollection], Answer[T]]) -> T:
        return await settled(await self._look(name, job))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        keys = await self._look(name, lambda collection: collection.table.matching_keys(metadata_filter))
        for some in slices(keys, batch_size):
            for record in await self._fetch(name, some, metadata_filter):
                yield record

    async def _fetch(
        self, name: str, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None
    ) -> list[VectorRecord]:
        return await self._look(name, lambda collection: collection.fetch(keys, metadata_filter, True))

    async def ping(self) -> StoreHealth:
        names = await self.names()
        facts = {"engine": "Milvus Lite", "uri": self._options.uri, "collections": str(len(names))}
        return StoreHealth(ok=True, detail="Milvus Lite", facts=facts)

    # --- the thread ---

    async def _look(self, collection: str, job: Callable[[LiteCollection], T]) -> T:
        return await self._read(lambda: job(self._collection(collection)))

    async def _change(self, collection: str, steps: Callable[[LiteWriter], Steps[T]]) -> T:
        def run() -> Steps[T]:
            return (yield from steps(LiteWriter(self._collection(collection))))

        return await self._write(run)

    async def _read(self, job: Callable[[], T]) -> T:
        def run() -> T:
            self._file.check()
            return job()

        return await asyncio.wrap_future(self._running().read(run))

    async def _write(self, steps: Callable[[], Steps[T]]) -> T:
        def run() -> Steps[T]:
            self._file.check()
            return (yield from steps())

        return await asyncio.wrap_future(self._running().write(run()))

    def _running(self) -> Worker:
        if self._worker is None:
            raise closed_store(self._owner)
        return self._worker


def _dropped(stored: str) -> str:
    """Text of the row of a collection that is being removed; no damage makes it out of another one."""
    return f"dropped {stored}"
