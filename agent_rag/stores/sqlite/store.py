"""SQLiteStore: one file, any number of processes; a transaction is the publication."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar, get_args

from ..._util.spool import Spool
from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import ConfigurationError, StoreFullError
from ...filters import FilterLike, as_filter, matches
from ...retrieval.pattern import TextPattern
from ...retrieval.runs import DocumentText
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.candidates import Candidates
from ..engine.driver import run_steps
from ..engine.merging import Name
from ..engine.records import clean_summary, closed_store, collection_name, existing, prepare_replace, unique_ids
from ..native import TransactionalStoreBase
from . import documents, jobs, maintenance, scanning
from .database import Database
from .errors import translated
from .maintenance import CheckReport, CompactReport
from .prepare import Batch, as_stored, prepare_batch, prepare_part
from .reader import Reader
from .schema import Collection, check_collections
from .writer import Transaction

Distance = Literal["Cosine", "Dot", "Euclid", "Manhattan"]
T = TypeVar("T")

_DELETED_AT_ONCE = 500
"""Documents that one transaction removes; of more, the WAL would take half as much room again."""
_QUICK_NUMBERS, _QUICK_CHUNKS = 4_000_000, 32
"""Compared, and read or written, within a few milliseconds."""
_GAP_S = 0.002
"""Between two writes of one store, for writers in other processes (without it one waited 184 ms, p95, beside an
ingest; with it 4 ms)."""


class SQLiteStore(TransactionalStoreBase):
    """Every capability in one file beside which lie a few small ones.

    Any number of processes, threads and event loops may use one file at once, each with stores of its own or a shared
    one. A reader sees every write that was acknowledged before its call began, and no part of another. A write is
    acknowledged when it is synced to the disk.
    """

    can_exchange = True
    takes_parts = True

    def __init__(
        self,
        path: str | Path,
        *,
        distance: Distance = "Cosine",
        memory_mb: int = 512,
        synced: bool = True,
        wait_s: float = 30.0,
    ) -> None:
        """
        Args:
            path: The file; made with its folder when it is not there. Do not open it yourself while a store of this
                process has it open: closing that handle drops SQLite's locks. Copy it with `backup`.
            distance: How vectors are compared in collections made from now on; Euclid and Manhattan score negated
                distances.
            memory_mb: Bound on the vectors in memory. Above it 8-bit codes, a quarter of that, find candidates, and
                the vectors in the file decide.
            synced: Sync each write before it is acknowledged. Without, a power cut may take the last writes, whole; a
                crash of the process takes none; and that changes are missing is not always noticed.
            wait_s: How long a write waits for writers in other processes.

        Raises: ConfigurationError: an option is out of range.
        """
        if distance not in get_args(Distance):
            raise ConfigurationError(f"distance {distance!r} is unknown; use one of {', '.join(get_args(Distance))}")
        if memory_mb < 0 or wait_s < 0:
            raise ConfigurationError(f"memory_mb is {memory_mb} and wait_s {wait_s}; use numbers from 0")
        self.path = Path(path).expanduser()
        self._distance, self._synced, self._wait_s = distance, synced, wait_s
        self._memory_bytes = memory_mb * 1_000_000
        self._depth = 0
        self._users = 0
        self._opening = threading.Lock()
        self._changed = threading.Condition()
        self._database: Database | None = None
        self._reader = Reader(self._memory_bytes)
        self._writer: ThreadPoolExecutor | None = None
        self._preparer: ThreadPoolExecutor | None = None
        """One thread, since the memory that a batch took stays with its thread: 30 MB, and asyncio has many."""
        self._written = 0.0

    # --- opening and closing ---

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._enter)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self._leave))

    def _enter(self) -> None:
        with self._opening:
            if self._depth == 0:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._database = Database(self.path, synced=self._synced, wait_s=self._wait_s)
                self._writer = ThreadPoolExecutor(1, "agent-rag-sqlite")
                self._preparer = ThreadPoolExecutor(1, "agent-rag-sqlite-prepare")
            self._depth += 1

    def _leave(self) -> None:
        with self._opening:
            if self._depth == 0:
                return
            self._depth -= 1
            if self._depth:
                return
            database, writer, preparer = self._database, self._writer, self._preparer
            self._database = self._writer = self._preparer = None
            assert database is not None
            assert preparer is not None
            preparer.shutdown()
            assert writer is not None
            writer.shutdown()
            with self._changed:
                self._changed.wait_for(lambda: not self._users)
            database.close()
            self._reader = Reader(self._memory_bytes)

    # --- collections ---

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        checked = collection_name(name)
        info = await self.collection_info(checked)
        if info is not None and (info.fingerprint is not None or fingerprint is None):
            return info

        def write(database: Database) -> CollectionInfo:
            with database.writing() as connection:
                transaction = Transaction(connection)
                collection = Collection.load(connection, checked)
                if collection is None:
                    collection = transaction.create_collection(checked, dimensions, self._distance, fingerprint)
                elif collection.fingerprint is None and fingerprint is not None:
                    collection.fingerprint = fingerprint
                    collection.save(connection)
                transaction.finish()
                return collection.info()

        return await self._write(write)

    async def delete_collection(self, name: str) -> None:
        def write(database: Database) -> None:
            with database.writing() as connection:
                transaction = Transaction(connection)
                transaction.drop_collection(name)
                transaction.finish()

        await self._write(write)

    async def collection_info(self, name: str) -> CollectionInfo | None:
        def read(database: Database) -> CollectionInfo | None:
            with database.reading() as connection:
                found = Collection.load(connection, name)
            return None if found is None else found.info()

        return await self._read(read, quick=True)

    async def list_collections(self) -> list[str]:
        def read(database: Database) -> list[str]:
            with database.reading() as connection:
                return check_collections(connection)

        return await self._read(read)

    async def exchange_collections(self, first: str, second: str) -> None:
        def write(database: Database) -> None:
            with database.writing() as connection:
                transaction = Transaction(connection)
                transaction.exchange(
                    existing(Collection.load(connection, first), first),
                    existing(Collection.load(connection, second), second),
                )
                transaction.finish()

        await self._write(write)

    # --- writing ---

    async def _replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        versions: Mapping[str, str],
        scope: str,
    ) -> tuple[int, set[str]]:
        def prepare(database: Database) -> Batch:
            with database.reading() as connection:
                stored = existing(Collection.load(connection, collection), collection)
            summaries, prepared = prepare_replace(collection, stored.dimensions, documents, records, scope=scope)
            return prepare_batch(summaries, prepared.records, as_stored(prepared.matrix, stored.distance))

        batch: Batch | None = None
        if len(records) > _QUICK_CHUNKS:
            batch = await self._prepare(prepare)
        return await self._write(
            lambda database: jobs.replace(
                database, collection, prepare(database) if batch is None else batch, versions, scope
            )
        )

    async def document_versions(
        self, collection: str, document_ids: Sequence[str], *, scope: str = ""
    ) -> dict[str, str]:
        def read(database: Database) -> dict[str, str]:
            with database.reading() as connection:
                stored = existing(Collection.load(connection, collection), collection)
                return jobs.document_versions(connection, stored, scope, document_ids)

        return await self._read(read)

    async def replace_parts(
        self,
        collection: str,
        document: DocumentSummary,
        parts: AsyncIterator[Sequence[VectorRecord]],
        *,
        version: str | None = None,
        scope: str = "",
    ) -> int | None:
        """As `NativeStoreBase`. Parts wait in a file without a name beside the store, ready to be written, so that
        other writers wait only while the document is copied: about a second for each 100 MB of it."""

        def read(database: Database) -> Collection:
            with database.reading() as connection:
                return existing(Collection.load(connection, collection), collection)

        def add(database: Database, records: Sequence[VectorRecord], after: int) -> list[int]:
            batch = prepare_part(stored, document, records, scope=scope, after=after)
            with translated(self.path):
                spool.append(batch)
            return batch.documents[0].indexes

        stored = await self._read(read)
        async with aclosing(Spool[Batch](self._open_database().files.scratch())) as spool:
            count, last = 0, -1
            async for records in parts:
                if records:
                    added = await self._prepare(partial(add, records=records, after=last))
                    count, last = count + len(added), added[-1]
            summary = clean_summary(document, scope=scope).model_copy(update={"chunk_count": count})
            if count:
                return await self._write(
                    lambda database: jobs.replace_parts(database, collection, summary, spool, version)
                )
        versions = {} if version is None else {summary.document_id: version}
        before, changed = await self._replace(collection, [summary], [], versions, scope)
        return None if changed else before

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        ids = unique_ids(document_ids)
        as_filter(metadata_filter)

        def choose(database: Database) -> list[Name]:
            with database.reading() as connection:
                stored = existing(Collection.load(connection, collection), collection)
                found = documents.with_ids(connection, stored, ids)
                return [
                    document.name
                    for document in found
                    if metadata_filter is None
                    or matches(metadata_filter, documents.summary_of(connection, document).metadata)
                ]

        return await self._delete(collection, choose)

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        chosen: list[Name] = []

        def choose(database: Database) -> list[Name]:
            with database.reading() as connection:
                chosen[:] = [
                    (summary.scope, summary.document_id)
                    for summary in jobs.summaries(connection, collection, metadata_filter, None)
                ]
            return chosen

        await self._delete(collection, choose)
        return sorted({document_id for _, document_id in chosen})

    async def _delete(self, collection: str, choose: Callable[[Database], list[Name]]) -> int:
        """Remove documents; on a full disk a few at a time, in the room that is kept for that."""

        def write(database: Database) -> int:
            names = choose(database)
            try:
                return sum(
                    jobs.remove(database, collection, names[start : start + _DELETED_AT_ONCE])
                    for start in range(0, len(names), _DELETED_AT_ONCE)
                )
            except StoreFullError:
                return jobs.remove_on_a_full_disk(database, collection, names)

        return await self._write(write)

    # --- reading ---

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        def read(database: Database) -> list[VectorSearchResult]:
            with database.reading() as connection:
                snapshot = self._reader.snapshot(connection, collection, semantic=bool(request.vectors))
                return run_steps(request, existing(snapshot, collection).answer)

        numbers = self._reader.cost(collection, request)
        return await self._read(read, quick=numbers is not None and numbers <= _QUICK_NUMBERS)

    async def word_counts(self, collection: str, tokens: Sequence[str]) -> dict[str, int]:
        def read(database: Database) -> dict[str, int]:
            with database.reading() as connection:
                snapshot = self._reader.snapshot(connection, collection, semantic=False)
                return existing(snapshot, collection).word_counts(tokens)

        return await self._read(read)

    async def list_documents(
        self,
        collection: str,
        metadata_filter: FilterLike | None = None,
        *,
        document_ids: Sequence[str] | None = None,
    ) -> list[DocumentSummary]:
        def read(database: Database) -> list[DocumentSummary]:
            with database.reading() as connection:
                return list(jobs.summaries(connection, collection, metadata_filter, document_ids))

        return await self._read(read)

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        def read(database: Database) -> list[VectorRecord]:
            with database.reading() as connection:
                stored = existing(Collection.load(connection, collection), collection)
                names = dict.fromkeys((key.scope, key.document_id) for key in keys)
                found = {name: documents.by_name(connection, stored, name) for name in names}
                if absent := {name for name, document in found.items() if document is None}:
                    documents.check_totals(connection, stored, absent.__contains__)
                wanted: dict[Name, list[int]] = {}
                for key in keys:
                    wanted.setdefault((key.scope, key.document_id), []).append(key.chunk_index)
                records = {
                    record.key: record
                    for name, document in found.items()
                    if document is not None
                    for record in jobs.records(connection, stored, document, wanted[name], with_vectors=with_vectors)
                }
            chosen = [records[key] for key in keys if key in records]
            return [record for record in chosen if jobs.keeps(metadata_filter, record)]

        return await self._read(read, quick=len(keys) <= _QUICK_CHUNKS)

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
        def read(database: Database) -> list[VectorRecord]:
            with database.reading() as connection:
                stored = existing(Collection.load(connection, collection), collection)
                found = documents.with_ids(connection, stored, [document_id])
                records = [
                    record
                    for document in found
                    for record in jobs.records(
                        connection,
                        stored,
                        document,
                        [index for index in document.chunk_indexes.tolist() if offset <= index < offset + limit],
                        with_vectors=with_vectors,
                    )
                ]
            return [record for record in records if jobs.keeps(metadata_filter, record)]

        return await self._read(read, quick=limit <= _QUICK_CHUNKS)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        def read(database: Database) -> int:
            with database.reading() as connection:
                if metadata_filter is None or as_filter(metadata_filter) is None:
                    return existing(Collection.load(connection, collection), collection).chunks
                snapshot = self._reader.snapshot(connection, collection, semantic=False)
                return existing(snapshot, collection).count(metadata_filter)

        return await self._read(read, quick=metadata_filter is None)

    async def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """Page by page, each of one state: what a concurrent write removes before its turn is left out.

        Raises: StoreError: a document of several pages was replaced before its last one.
        """
        position: jobs.Position | None = None

        def read(database: Database) -> tuple[list[VectorRecord], jobs.Position | None]:
            with database.reading() as connection:
                stored = existing(Collection.load(connection, collection), collection)
                if position is None:
                    documents.check_totals(connection, stored)
                return jobs.page(connection, stored, position, batch_size)

        while True:
            page, position = await self._read(read)
            for record in page:
                if jobs.keeps(metadata_filter, record):
                    yield record
            if position is None:
                return

    async def scan(
        self, collection: str, metadata_filter: FilterLike | None = None, *, pattern: TextPattern | None = None
    ) -> AsyncIterator[list[DocumentText]]:
        """Page by page, each of one state; only documents in which the pattern may occur leave the file."""
        start: int | None = 0
        seen: set[Name] = set()
        candidates = None if pattern is None else Candidates(pattern, scanning.TEXT_BEGINS)

        def read(begin: int, database: Database) -> scanning.Page:
            with database.reading() as connection:
                return scanning.pages(connection, self._reader, collection, metadata_filter, candidates, begin)

        while start is not None:
            found, start = await self._read(partial(read, start))
            # One that is replaced meanwhile gets a higher number, and would come a second time.
            fresh = [document for document in found if (document.scope, document.document_id) not in seen]
            seen.update((document.scope, document.document_id) for document in fresh)
            if fresh:
                yield fresh

    async def ping(self) -> StoreHealth:
        def read(database: Database) -> str:
            with database.reading() as connection:
                names = check_collections(connection)
            return f"{len(names)} collections" + (f", read-only: {database.read_only}" if database.read_only else "")

        return StoreHealth(ok=True, detail=await self._read(read), facts={"sqlite": sqlite3.sqlite_version})

    # --- maintenance ---

    async def check(self) -> CheckReport:
        """Read everything: SQLite's own test, checksums of all rows, totals. Others go on reading and writing."""
        return await self._read(maintenance.check)

    async def backup(self, path: str | Path) -> None:
        """Copy the store as it is at this moment into one new file, also while others write.

        Raises: ConfigurationError: the file is there already.
        """
        await self._read(lambda database: maintenance.backup(database, path))

    async def compact(self) -> CompactReport:
        """Give the room of what was deleted back to the disk. Writers wait meanwhile; a few seconds a gigabyte."""
        return await self._write(maintenance.compact)

    # --- running ---

    async def _read(self, job: Callable[[Database], T], *, quick: bool = False) -> T:
        """In a thread; what is quick, here, unless memory is catching up: a thread costs .1 ms, and on a busy machine
        more than the search."""
        database = self._open_database()
        if quick and database.is_local and not self._reader.lock.locked():
            await asyncio.sleep(0)  # else one quick call after another would keep the loop
            return self._used(job, self._open_database())
        return await asyncio.to_thread(self._used, job, database)

    async def _prepare(self, job: Callable[[Database], T]) -> T:
        """In the one thread of this store that prepares writes."""
        return await asyncio.get_running_loop().run_in_executor(self._preparer, self._used, job, self._open_database())

    async def _write(self, job: Callable[[Database], T]) -> T:
        """In the one thread of this store that writes, after the writes before it."""
        database, writer = self._open_database(), self._writer
        assert writer is not None

        def run() -> T:
            time.sleep(max(0.0, min(_GAP_S, self._written + _GAP_S - time.monotonic())))
            try:
                return job(database)
            finally:
                self._written = time.monotonic()

        return await asyncio.get_running_loop().run_in_executor(writer, run)

    def _used(self, job: Callable[[Database], T], database: Database) -> T:
        with self._changed:
            self._users += 1
        try:
            return job(database)
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def _open_database(self) -> Database:
        if self._database is None:
            raise closed_store(self)
        self._database.check_process()
        return self._database
