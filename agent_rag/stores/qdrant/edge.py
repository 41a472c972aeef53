"""The embedded engine of `QdrantStore`: qdrant-edge in this process, one folder per store.

::

    <path>/lock                        held while the store is open
    <path>/<collection>/collection.json
    <path>/<collection>/shard/         points and write-ahead log
    <path>/making-..., dropped-...     a collection that is being made or removed
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import tempfile
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from ...documents import ChunkKey, VectorRecord, VectorSearchResult
from ...errors import MissingExtraError, StoreDamagedError, StoreError, StoreLockedError
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.prepared import prepare_write
from ..engine.records import Checked, closed_store, existing
from ..engine.store import Answer, settled
from ..rows.worker import Closing, Steps, Worker
from ..versions.heads import Name
from .edge_schema import CollectionFile, folder_name
from .folder_lock import FolderLock
from .optimizer import optimize
from .room import check_room
from .shard import Shard
from .writer import ShardWriter

T = TypeVar("T")

logger = logging.getLogger("agent_rag")
_UNFINISHED = re.compile(r"(making|dropped)-[0-9a-f]{32}")


def load_edge() -> ModuleType:
    """Raises: MissingExtraError: there is no qdrant-edge here."""
    try:
        return import_module("qdrant_edge")
    except ImportError as error:
        raise MissingExtraError(
            "QdrantStore(path=...) and QdrantStore(location=':memory:') need the package qdrant-edge-py: "
            "pip install qdrant-edge-py; where it has no wheel for this platform, run a Qdrant server and use "
            f"QdrantStore(url=...) (import failed with: {error})"
        ) from error


class EdgeEngine:
    """Collections in a folder, or in a temporary one that lives as long as this object."""

    def __init__(self, owner: object, path: Path | None, distance: str, *, keyword: bool) -> None:
        self._owner = owner
        self._edge = load_edge()
        self._path = path
        self._distance = distance
        self._keyword = keyword
        self._folder = Path()
        self._temporary: Path | None = None
        self._lock: FolderLock | None = None
        self._worker: Worker | None = None
        self._closing = Closing()
        self._shards: dict[str, tuple[Shard, ShardWriter]] = {}

    @property
    def is_open(self) -> bool:
        return self._worker is not None

    async def open(self) -> None:
        """Raises: StoreLockedError: another store holds the folder."""
        if self._path is None:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="agent_rag_"))
                weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
            self._folder = self._temporary
        else:
            self._folder = self._path.absolute()
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot make the store's folder {self._folder}: {error}; choose another") from error
        await self._closing.over()
        lock = FolderLock(self._folder)
        lock.acquire()
        self._lock = lock
        self._worker = Worker("agent-rag-qdrant-edge")
        try:
            await self._read(None, self._remove_unfinished)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is queued, write everything down, release the folder."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        await self._closing.run(lambda: self._close(worker))

    def _close(self, worker: Worker) -> None:
        worker.stop()
        try:
            with contextlib.ExitStack() as closing:
                for name, (shard, _) in self._shards.items():
                    closing.callback(self._close_shard, name, shard)
        finally:
            self._shards = {}
            if self._lock is not None:
                self._lock.release()

    def _close_shard(self, name: str, shard: Shard) -> None:
        with self._errors(name):
            shard.close()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        return await self._write(name, lambda: self._create(name, dimensions, fingerprint))

    async def drop(self, name: str) -> None:
        await self._write(name, lambda: self._drop(name))

    async def info(self, name: str) -> CollectionInfo | None:
        info = await self._read(name, lambda: self._info(name))
        return None if info is None else info.public()

    async def names(self) -> list[str]:
        return await self._read(None, lambda: sorted(self._stored_names()))

    async def compact(self, name: str) -> int:
        """Opening did it."""
        return 0

    async def optimize(self, name: str) -> None:
        """Merge segments and build the graph of large collections, in a child process; all other calls wait."""
        await self._write(name, lambda: self._optimize(name))

    def _create(self, name: str, dimensions: int, fingerprint: str | None) -> Steps[CollectionInfo]:
        folder = self._folder / folder_name(name)
        info = self._info(name)
        if info is None:
            info = CollectionFile(
                name=name,
                dimensions=dimensions,
                fingerprint=fingerprint,
                distance=self._distance,
                keyword=self._keyword,
                chunk_count=0,
                has_idf=True,
            )
            check_room(self._folder)
            new = self._folder / f"making-{uuid.uuid4().hex}"
            new.mkdir()
            Shard.create(self._edge, new, info)
            new.rename(folder)
            yield
            self._opened(name)
        elif fingerprint and info.fingerprint is None:
            info.fingerprint = fingerprint
            info.save(folder)
        return info.public()

    def _drop(self, name: str) -> Steps[None]:
        """Also a collection that is damaged."""
        yield from ()
        folder = self._folder / folder_name(name)
        if not folder.is_dir():
            return
        shard = self._shards.pop(name, None)
        if shard is not None:
            shard[0].engine.close()
        # Renamed first: a crash in between leaves the whole collection or none.
        trash = folder.with_name(f"dropped-{uuid.uuid4().hex}")
        folder.rename(trash)
        shutil.rmtree(trash)

    def _optimize(self, name: str) -> Steps[None]:
        yield from ()
        shard, _ = self._opened(name)
        shard.close()
        try:
            failed = optimize(shard.folder / "shard", self._lock.descriptor if self._lock is not None else None)
        finally:
            shard.reopen()
        if failed:
            raise StoreError(f"optimizing collection {name!r} failed: {failed}")

    def _info(self, name: str) -> CollectionFile | None:
        """Raises: StoreDamagedError: what is stored of it cannot be read."""
        if name in self._shards:
            return self._shards[name][0].info
        return CollectionFile.load(self._folder / folder_name(name))

    def _stored_names(self) -> Iterator[str]:
        for folder in self._folder.glob("c-*"):
            try:
                info = CollectionFile.load(folder)
            except StoreDamagedError as error:
                logger.warning("a collection is left out: %s", error)
            else:
                if info is not None:
                    yield info.name

    def _remove_unfinished(self) -> None:
        """What `_create` and `_drop` left when they were killed."""
        for folder in self._folder.iterdir():
            if _UNFINISHED.fullmatch(folder.name):
                shutil.rmtree(folder)

    def _opened(self, name: str) -> tuple[Shard, ShardWriter]:
        opened = self._shards.get(name)
        if opened is None:
            info = existing(self._info(name), name)
            shard = Shard(self._edge, self._folder / folder_name(name), info)
            opened = self._shards[name] = shard, ShardWriter(shard)
        return opened

    # --- records ---

    async def replace(self, name: str, checked: Checked) -> int:
        info = existing(await self._read(name, lambda: self._info(name)), name)
        documents = await prepare_write(info, checked, keyword=info.keyword)
        return await self._change(name, lambda _, writer: writer.replace(documents))

    async def versions(self, name: str, documents: Sequence[Name]) -> dict[Name, str]:
        return await self.read(name, lambda shard: _versions(shard, documents))

    async def replace_unchanged(self, name: str, checked: Checked, versions: Mapping[Name, str]) -> list[Name]:
        info = existing(await self._read(name, lambda: self._info(name)), name)
        documents = await prepare_write(info, checked, keyword=info.keyword)

        def steps(shard: Shard, writer: ShardWriter) -> Steps[list[Name]]:
            now = _versions(shard, list(versions))
            kept = [document for document in documents if now.get(document.name) == versions[document.name]]
            yield from writer.replace(kept)
            return [name for name, version in versions.items() if now.get(name) != version]

        return await self._change(name, steps)

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        def steps(shard: Shard, writer: ShardWriter) -> Steps[tuple[list[Name], int]]:
            if document_ids is None:
                names = [(item.scope, item.document_id) for item in shard.summaries(metadata_filter)]
            else:
                found = [found for document_id in document_ids for found in shard.table.find(document_id)]
                names = shard.names_matching(found, metadata_filter)
            return names, (yield from writer.delete(names))

        return await self._change(name, steps)

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        return await self.read(name, lambda shard: shard.retrieve(request))

    async def read(self, name: str, job: Callable[[Shard], Answer[T]]) -> T:
        return await settled(await self._read(name, lambda: job(self._opened(name)[0])))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        names = await self.read(name, lambda shard: sorted(shard.table.heads))
        position, index = 0, 0

        def batch(shard: Shard) -> list[VectorRecord]:
            nonlocal position, index
            keys: list[ChunkKey] = []
            while position < len(names) and len(keys) < batch_size:
                head = shard.table.heads.get(names[position])
                for at in head.indexes(index) if head is not None else ():
                    if len(keys) == batch_size:
                        index = at
                        break
                    keys.append(ChunkKey(*names[position], at))
                else:
                    position, index = position + 1, 0
            return shard.fetch(keys, metadata_filter, with_vectors=True)

        while position < len(names):
            for record in await self.read(name, batch):
                yield record

    async def ping(self) -> StoreHealth:
        facts = {"engine": "qdrant-edge", "folder": str(self._folder), "collections": str(len(await self.names()))}
        return StoreHealth(ok=True, detail="embedded", facts=facts)

    # --- the worker ---

    async def _change(self, name: str, steps: Callable[[Shard, ShardWriter], Steps[T]]) -> T:
        def run() -> Steps[T]:
            return (yield from steps(*self._opened(name)))

        return await self._write(name, run)

    async def _read(self, name: str | None, job: Callable[[], T]) -> T:
        def run() -> T:
            with self._errors(name):
                return job()

        return await asyncio.wrap_future(self._running().read(run))

    async def _write(self, name: str, steps: Callable[[], Steps[T]]) -> T:
        def run() -> Steps[T]:
            with self._errors(name):
                return (yield from steps())

        return await asyncio.wrap_future(self._running().write(run()))

    @contextlib.contextmanager
    def _errors(self, name: str | None) -> Iterator[None]:
        """The engine raises plain Exceptions, and what Rust calls a panic, which is no Exception."""
        try:
            yield
        except BaseException as error:
            where = f"collection {name!r} in {self._folder}"
            if type(error).__name__ == "PanicException":
                self._shards.pop(name or "", None)  # loaded anew by the next call
                raise StoreDamagedError(
                    f"qdrant-edge gave up on {where}: {error}. If that comes again, restore the folder from a copy, "
                    "or delete the collection and ingest it again; the other collections can be used"
                ) from error
            if type(error) is not Exception:
                raise
            if "WouldBlock" in str(error):
                raise StoreLockedError(f"{where} is in use by another program; close it") from error
            raise StoreError(f"qdrant-edge failed in {where}: {error}") from error

    def _running(self) -> Worker:
        if self._worker is None:
            raise closed_store(self._owner)
        return self._worker


def _versions(shard: Shard, documents: Sequence[Name]) -> dict[Name, str]:
    """A document's version is the number of its head."""
    found = {name: shard.table.heads.get(name) for name in documents}
    return {name: str(head.number) for name, head in found.items() if head is not None}
