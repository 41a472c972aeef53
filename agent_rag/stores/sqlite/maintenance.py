"""Checking everything that is stored, copying a live store, and giving disk back."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from ...documents import Chunk
from ...errors import ConfigurationError, StoreDamagedError, StoreFullError
from . import documents, merging, schema
from .database import Database
from .documents import Document
from .jobs import merge
from .prepare import index_chunks
from .schema import Collection, check_collections
from .segments import NUMBERS, TOKENS, Kind, Segment, read_keys, segments_of
from .writer import Transaction

T = TypeVar("T")

_REBUILT_CHUNKS = 2_000
"""Chunks whose words are indexed anew in one transaction."""
_CHECKED_CHUNKS = 4_096
"""Whose vectors are read at once."""
_VACUUM_PAGES = 50
"""Freed at once on a full disk: the WAL grows by as much, within the room that is kept for that."""


class CheckReport(BaseModel):
    """What `check` read, and what is wrong."""

    collections: int = 0
    documents: int = 0
    chunks: int = 0
    problems: list[str] = []
    """One line each; empty when all is well."""

    @property
    def ok(self) -> bool:
        return not self.problems


class CompactReport(BaseModel):
    """Bytes of the file."""

    bytes_before: int
    bytes_after: int
    settled: bool
    """False: a reader held an older state, so deleted text may still be in the WAL; it goes with the next write."""


# --- check ---


def check(database: Database) -> CheckReport:
    """Read everything: SQLite's own test, all checksums, all totals."""
    report = CheckReport()
    with database.reading() as connection:
        for (line,) in connection.execute("pragma integrity_check"):
            if line != "ok":
                report.problems.append(f"SQLite: {line}")
        names = _tried(report, lambda: check_collections(connection)) or []
        for name in names:
            collection = _tried(report, lambda name=name: Collection.load(connection, name))  # type: ignore[misc]
            if collection is not None:
                _check_collection(connection, collection, report)
    return report


def _check_collection(connection: sqlite3.Connection, collection: Collection, report: CheckReport) -> None:
    where = f"collection {collection.name!r}"
    report.collections += 1
    _tried(report, lambda: documents.check_totals(connection, collection))
    for document in documents.every(connection, collection):
        report.documents += 1
        _tried(report, lambda document=document: _check_document(connection, collection, document), where)  # type: ignore[misc]
        report.chunks += document.size if document.is_whole else 0
    _tried(report, lambda: _check_segments(connection, collection), where)
    for table, expected in (("heads", collection.documents), ("chunks", collection.chunks)):
        (found,) = connection.execute(
            f"select count(*) from {table} where n >= ? and n < ?", (collection.start, collection.stop)
        ).fetchone()
        if found != expected:
            report.problems.append(f"{where}: {found} rows of {table}, {expected} were written")


def _check_document(connection: sqlite3.Connection, collection: Collection, document: Document) -> None:
    document.checked()
    documents.summary_of(connection, document)
    stop = document.base + document.size
    for first in range(document.base, stop, _CHECKED_CHUNKS):
        numbers = range(first, min(first + _CHECKED_CHUNKS, stop))
        for number in numbers:
            documents.body_of(connection, document, number)
        documents.vectors_at(connection, document, numbers, collection.dimensions)


def _check_segments(connection: sqlite3.Connection, collection: Collection) -> None:
    for segment in segments_of(connection, collection):
        _read_segment(connection, segment)


def _read_segment(connection: sqlite3.Connection, segment: Segment) -> None:
    kinds: tuple[Kind, ...] = (TOKENS, NUMBERS)
    for kind in kinds:
        read_keys(connection, segment, kind)


def _tried(report: CheckReport, work: Callable[[], T], where: str = "") -> T | None:
    try:
        return work()
    except (StoreDamagedError, sqlite3.DatabaseError) as error:
        report.problems.append(f"{where}: {error}" if where else str(error))
        return None


# --- backup ---


def backup(database: Database, path: str | Path) -> None:
    """Copy the state of this moment, also while others write, into a new file without free pages.

    Raises: ConfigurationError: the file is there already.
    """
    target = Path(path).expanduser()
    if target.exists():
        raise ConfigurationError(f"{target} exists already; name a new file for the backup")
    part = target.with_name(f"{target.name}.part{os.getpid()}")
    part.unlink(missing_ok=True)
    try:
        with database.connected() as connection:
            connection.execute("vacuum into ?", (str(part),))
        copy = sqlite3.connect(part, isolation_level=None)
        try:
            copy.execute("pragma synchronous = full")
            schema.new_identity(copy)
        finally:
            copy.close()
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


# --- compact ---


def compact(database: Database) -> CompactReport:
    """Leave dead postings out, mend a damaged index of words, and give free pages back to the disk."""
    before = database.files.bytes()
    with database.reading() as connection:
        names = check_collections(connection)
    try:
        for name in names:
            _compact_segments(database, name)
        with database.exclusively() as connection:
            connection.execute("vacuum")
    except StoreFullError:  # it needs the room of a copy
        database.files.free_spare()
        with database.exclusively() as connection:
            _shrink_in_place(connection)
    settled = database.settle()
    return CompactReport(bytes_before=before, bytes_after=database.files.bytes(), settled=settled)


def _shrink_in_place(connection: sqlite3.Connection) -> None:
    while connection.execute("pragma freelist_count").fetchone()[0]:
        # `execute` would free one page only.
        connection.executescript(f"pragma incremental_vacuum({_VACUUM_PAGES})")
        connection.execute("pragma wal_checkpoint(truncate)")


def _compact_segments(database: Database, name: str) -> None:
    try:
        with database.reading() as connection:
            collection = Collection.load(connection, name)
            if collection is None:
                return
            segments = segments_of(connection, collection)
            for segment in segments:
                _read_segment(connection, segment)
            groups = list(merging.groups(connection, segments))
    except StoreDamagedError:
        reindex(database, name)
        return
    for group in groups:
        merge(database, name, group)


def reindex(database: Database, name: str) -> None:
    """Index the words and filter values of a collection anew from its chunks, in one transaction."""
    with database.writing() as connection:
        transaction = Transaction(connection)
        collection = Collection.load(connection, name)
        if collection is None:
            return
        connection.execute("delete from blocks where seg in (select seg from segments where c = ?)", (collection.c,))
        connection.execute("delete from segments where c = ?", (collection.c,))
        base = collection.start
        for group in _by_size(documents.every(connection, collection)):
            chunks: list[Chunk] = []
            places: list[int] = []
            for document in group:
                numbers = range(document.base, document.base + document.size)
                chunks += [documents.chunk_of(connection, document, number) for number in numbers]
                places += [number - base for number in numbers]
            stop = group[-1].base + group[-1].room
            _, blocks = index_chunks(chunks, places)
            transaction.add_segment(collection.c, 1, base, stop, blocks)
            base = stop
        if base < collection.start + collection.next:
            _, blocks = index_chunks([], [])
            transaction.add_segment(collection.c, 1, base, collection.start + collection.next, blocks)
        transaction.log_segments(collection.c)
        transaction.finish()


def _by_size(found: Iterator[Document]) -> Iterator[list[Document]]:
    group: list[Document] = []
    for document in list(found):
        group.append(document.checked())
        if sum(one.size for one in group) >= _REBUILT_CHUNKS:
            yield group
            group = []
    if group:
        yield group
