"""The embedded engine of `QdrantStore`: qdrant-edge in this process, one folder per store.

::

    <path>/lock                        held while the store is open
    <path>/<collection>/collection.json
    <path>/<collection>/shard/         points and write-ahead log
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from ...documents import ChunkKey, VectorRecord, VectorSearchResult
from ...errors import MissingExtraError, StoreError, StoreLockedError
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.prepared import PreparedDocument, prepare_write
from ..engine.records import Checked, closed_store, existing
from ..engine.store import Answer, settled
from ..rows.worker import Busy, Closing, Steps, Worker, run_out
from ..versions.heads import Name
from .edge_schema import CollectionFile
from .folder_lock import FolderLock
from .shard import Shard
from .writer import ShardWriter

T = TypeVar("T")

logger = logging.getLogger("agent_rag")
_OPTIMIZE = "import sys, qdrant_edge as e; s = e.EdgeShard.load(sys.argv[1]); s.optimize(); s.close()"


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

    def __init__(self, owner: object, path: Path | None, distance: str, *, keyword: bool, cache_bytes: int) -> None:
        self._owner = owner
        self._edge = load_edge()
        self._path = path
        self._distance = distance
        self._keyword = keyword
        self._cache_bytes = cache_bytes
        self._folder = Path()
        self._temporary: Path | None = None
        self._lock: FolderLock | None = None
        self._worker: Worker | None = None
        self._closing = Closing()
        self._shards: dict[str, tuple[Shard, ShardWriter]] = {}
        self._filling: set[str] = set()
        """Collections whose vectors are being read into memory."""

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
            await self._read(self._remove_unfinished)
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
            for shard, _ in self._shards.values():
                shard.close()
        finally:
            self._shards = {}
            if self._lock is not None:
                self._lock.release()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        return await self._write(lambda: self._create(name, dimensions, fingerprint))

    async def drop(self, name: str) -> None:
        await self._write(lambda: self._drop(name))

    async def info(self, name: str) -> CollectionInfo | None:
        info = await self._read(lambda: self._info(name))
        return None if info is None else info.public()

    async def names(self) -> list[str]:
        return await self._read(lambda: sorted(info.name for _, info in self._stored()))

    async def compact(self, name: str) -> int:
        """Opening did it."""
        return 0

    async def optimize(self, name: str) -> None:
        """Merge segments and build the graph of large collections, in a child process; all other calls wait."""
        await self._write(lambda: self._optimize(name))

    def _create(self, name: str, dimensions: int, fingerprint: str | None) -> Steps[CollectionInfo]:
        folder = self._folder / folder_name(name)
        info = self._info(name)
        if info is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            info = CollectionFile(
                name=name,
                dimensions=dimensions,
                fingerprint=fingerprint,
                distance=self._distance,
                keyword=self._keyword,
            )
            Shard.create(self._edge, folder, info)
            yield
            self._opened(name)
        elif fingerprint and info.fingerprint is None:
            info.fingerprint = fingerprint
            info.save(folder)
        return info.public()

    def _drop(self, name: str) -> Steps[None]:
        yield from ()
        if self._info(name) is None:
            return
        shard = self._shards.pop(name, None)
        if shard is not None:
            shard[0].close()
        folder = self._folder / folder_name(name)
        # Renamed first: a crash in between leaves the whole collection or none.
        trash = folder.with_name(f"dropped-{uuid.uuid4().hex}")
        folder.rename(trash)
        shutil.rmtree(trash)

    def _optimize(self, name: str) -> Steps[None]:
        yield from ()
        shard, _ = self._opened(name)
        shard.engine.close()
        try:
            done = subprocess.run(
                [sys.executable, "-c", _OPTIMIZE, str(shard.folder / "shard")], capture_output=True, text=True
            )
        finally:
            shard.reopen()
        if done.returncode:
            raise StoreError(f"optimizing collection {name!r} failed: {done.stderr.strip()[-500:]}")

    def _info(self, name: str) -> CollectionFile | None:
        if name in self._shards:
            return self._shards[name][0].info
        return CollectionFile.load(self._folder / folder_name(name))

    def _stored(self) -> Iterator[tuple[Path, CollectionFile]]:
        for folder in self._folder.iterdir():
            if folder.is_dir() and (info := CollectionFile.load(folder)) is not None:
                yield folder, info

    def _remove_unfinished(self) -> None:
        kept = {folder for folder, _ in self._stored()}
        for folder in self._folder.iterdir():
            unfinished = folder.name.startswith("c-") and folder not in kept and (folder / "shard").is_dir()
            if unfinished or folder.name.startswith("dropped-"):
                shutil.rmtree(folder)

    def _opened(self, name: str) -> tuple[Shard, ShardWriter]:
        opened = self._shards.get(name)
        if opened is None:
            info = existing(self._info(name), name)
            shard = Shard(self._edge, self._folder / folder_name(name), info, cache_bytes=self._cache_bytes)
            opened = self._shards[name] = shard, ShardWriter(shard)
        return opened

    # --- records ---

    async def replace(self, name: str, checked: Checked) -> int:
        documents = await self._prepared(name, checked)
        return await self._change(name, lambda _, writer: writer.replace(documents))

    async def _prepared(self, name: str, checked: Checked) -> list[PreparedDocument]:
        info = existing(await self._read(lambda: self._info(name)), name)
        return await prepare_write(info, checked, keyword=info.keyword)

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

        opened = self._shards.get(name)
        if opened is not None and document_ids is not None and opened[0].deletes_fast(document_ids):
            with contextlib.suppress(Busy), self._errors():
                done = self._running().now(lambda: run_out(steps(*self._opened(name))))
                await asyncio.sleep(0)
                return done
        return await self._change(name, steps)

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        """A fast search runs in the calling thread where nothing else is running or queued.

        The engine holds the interpreter lock while it searches, so the loop would stand still all the same.
        """
        opened = self._shards.get(name)
        if opened is not None and opened[0].answers_fast(request):
            with contextlib.suppress(Busy), self._errors():
                found = self._running().now(lambda: self._opened(name)[0].retrieve(request))
                self._fill_cache(name)
                await asyncio.sleep(0)
                return found
        found = await self.read(name, lambda shard: shard.retrieve(request))
        self._fill_cache(name)
        return found

    def _fill_cache(self, name: str) -> None:
        """Where it pays, begin to read the vectors into memory: a page at a time, between other calls."""
        if name in self._filling or not (name in self._shards and self._shards[name][0].wants_cache):
            return
        self._filling.add(name)

        def page() -> Steps[None]:
            yield from ()
            shard = self._shards.get(name)
            worker = self._worker
            if worker is None or shard is None or not shard[0].wants_cache:
                self._filling.discard(name)
                return
            try:
                shard[0].fill_cache()
            except Exception:  # searches go on without it, and meet the same error where it matters
                logger.warning("cannot read the vectors of collection %r into memory", name, exc_info=True)
                return
            worker.write(page())

        self._running().write(page())

    async def read(self, name: str, job: Callable[[Shard], Answer[T]]) -> T:
        return await settled(await self._read(lambda: job(self._opened(name)[0])))

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

        return await self._write(run)

    async def _read(self, job: Callable[[], T]) -> T:
        with self._errors():
            return await asyncio.wrap_future(self._running().read(job))

    async def _write(self, steps: Callable[[], Steps[T]]) -> T:
        with self._errors():
            return await asyncio.wrap_future(self._running().write(steps()))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """The engine raises plain Exceptions."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:
                raise
            if "WouldBlock" in str(error):
                raise StoreLockedError(
                    f"a collection in {self._folder} is in use by another program; close it"
                ) from error
            raise StoreError(f"qdrant-edge failed in {self._folder}: {error}") from error

    def _running(self) -> Worker:
        if self._worker is None:
            raise closed_store(self._owner)
        return self._worker


def folder_name(name: str) -> str:
    """A folder name for any collection name, equal for equal names only, also where case does not count."""
    safe = re.sub(r"[^a-z0-9_.-]", lambda found: f"%{ord(found[0]):x}.", name)
    if len(safe) > 150:
        safe = f"{safe[:100]}%{hashlib.sha256(name.encode()).hexdigest()}"
    return f"c-{safe}"
