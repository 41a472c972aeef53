"""What a store does with its database, in a thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..._util.spool import Spool
from ...documents import DocumentSummary, VectorRecord
from ...errors import StoreError, StoreFullError, StoreLockedError
from ...filters import FilterLike, matches
from ..engine.merging import Name
from ..engine.records import existing
from ..native import changed_since
from . import documents, merging
from .database import Database
from .documents import Document
from .prepare import Batch
from .schema import Collection
from .segments import Block, Segment
from .writer import Transaction

_PAGE_DOCUMENTS, _PAGE_CHUNKS = 200, 2_048


def replace(
    database: Database, collection: str, batch: Batch, versions: Mapping[str, str], scope: str
) -> tuple[int, set[str]]:
    """Publish documents. Returns the chunks that were there, and which of `versions` have changed: then nothing is
    written."""
    with database.writing() as connection:
        transaction = Transaction(connection)
        stored = existing(Collection.load(connection, collection), collection)
        if changed := changed_since(versions, document_versions(connection, stored, scope, versions)):
            return 0, changed
        before = transaction.replace(stored, batch)
        transaction.finish()
    merge_all_due(database, collection)
    return before, set()


def document_versions(
    connection: sqlite3.Connection, stored: Collection, scope: str, ids: Iterable[str]
) -> dict[str, str]:
    """A document's version is its number: a later write takes a higher one."""
    found = documents.with_ids(connection, stored, ids)
    return {document.id: str(document.base) for document in found if document.scope == scope}


def replace_parts(
    database: Database, collection: str, summary: DocumentSummary, parts: Iterable[Batch], version: str | None
) -> int | None:
    """Publish one document whose chunks come in parts, in one transaction, which other writers wait for. Returns the
    chunks that were there; None: it has another version now, and nothing is written."""
    with database.writing() as connection:
        transaction = Transaction(connection)
        stored = existing(Collection.load(connection, collection), collection)
        place = transaction.find(stored, (summary.scope, summary.document_id))
        if version is not None and (place is None or str(place.base) != version):
            return None
        before = transaction.replace_parts(stored, summary, parts)
        transaction.finish()
    merge_all_due(database, collection)
    return before


def merge_all_due(database: Database, name: str) -> None:
    """Merge segments, in transactions of their own after the one that was acknowledged; what fails now, a later write
    does."""
    with suppress(StoreFullError, StoreLockedError):
        while chosen := _due(database, name):
            merge(database, name, chosen)


def _due(database: Database, name: str) -> list[Segment]:
    with database.reading() as connection:
        collection = Collection.load(connection, name)
        return [] if collection is None else merging.due(connection, collection)


def merge(database: Database, name: str, chosen: Sequence[Segment]) -> None:
    """Make one segment of neighbours, unless another process changed them. Others write while it is made."""
    with Spool[Block](database.files.scratch()) as blocks:
        with database.reading() as connection:
            if merging.stand(connection, name, chosen) is None:
                return
            for block in merging.merged(connection, chosen):
                blocks.append(block)
        with database.writing() as connection:
            collection = merging.stand(connection, name, chosen)
            if collection is not None:
                transaction = Transaction(connection)
                merging.put_in_place(transaction, connection, collection, chosen, blocks)
                transaction.finish()


def remove(database: Database, collection: str, names: Iterable[Name]) -> int:
    with database.writing() as connection:
        transaction = Transaction(connection)
        stored = existing(Collection.load(connection, collection), collection)
        removed = 0
        for name in names:
            if (place := transaction.find(stored, name)) is not None:
                transaction.remove(stored, place)
                removed += place.size
        stored.save(connection)
        transaction.finish()
    return removed


def remove_on_a_full_disk(database: Database, collection: str, names: Sequence[Name]) -> int:
    """One document a transaction, so that the WAL grows within the room that is kept for that."""
    database.files.free_spare()
    removed = 0
    for name in names:
        removed += remove(database, collection, [name])
        with suppress(StoreFullError):  # the next one may still find room
            database.settle()
    return removed


def summaries(
    connection: sqlite3.Connection, collection: str, where: FilterLike | None, ids: Sequence[str] | None
) -> Iterator[DocumentSummary]:
    """Of documents, of `ids` where given, whose metadata match, in order."""
    stored = existing(Collection.load(connection, collection), collection)
    if ids is not None:
        found: Iterable[Document] = documents.with_ids(connection, stored, ids)
    else:
        documents.check_totals(connection, stored)
        found = documents.after(connection, stored, None, -1)
    for document in found:
        summary = documents.summary_of(connection, document)
        if where is None or matches(where, summary.metadata):
            yield summary


def records(
    connection: sqlite3.Connection,
    stored: Collection,
    document: Document,
    indexes: Iterable[int],
    *,
    with_vectors: bool,
) -> Iterator[VectorRecord]:
    """Chunks of a document with these indexes, without the missing."""
    numbers = [number for index in indexes if (number := document.number(index)) is not None]
    vectors = documents.vectors_at(connection, document, numbers, stored.dimensions) if with_vectors else None
    for place, number in enumerate(numbers):
        yield VectorRecord.model_construct(
            vector=[] if vectors is None else vectors[place].tolist(),
            document_id=document.id,
            chunk=documents.chunk_of(connection, document, number),
            scope=document.scope,
        )


class Position(NamedTuple):
    """How far a reader of all records is."""

    name: Name
    """Of the last document of which it has chunks."""
    base: int
    done: int
    """Number of the chunks of it that were read; of a document that is done, all."""
    size: int


def page(
    connection: sqlite3.Connection, stored: Collection, position: Position | None, size: int
) -> tuple[list[VectorRecord], Position | None]:
    """The next records, at least `size`, by (scope, document id, chunk index), and where they end; None behind the last
    document. Only a document of more than 2,048 chunks is divided.

    Raises: StoreError: the document that is to be read on was replaced.
    """
    found: list[VectorRecord] = []
    reached: Position | None = None
    for document, start in _documents_from(connection, stored, position):
        stop = min(start + _PAGE_CHUNKS, document.size)
        indexes = document.chunk_indexes[start:stop].tolist()
        found += records(connection, stored, document, indexes, with_vectors=True)
        reached = Position(document.name, document.base, stop, document.size)
        if len(found) >= size or stop < document.size:
            break
    return found, reached


def _documents_from(
    connection: sqlite3.Connection, stored: Collection, position: Position | None
) -> Iterator[tuple[Document, int]]:
    """The next documents, with the number of chunks that were read of each."""
    name = None
    if position is not None:
        name = position.name
        if position.done < position.size:
            document = documents.by_name(connection, stored, name)
            if document is None or document.base != position.base:
                raise StoreError(
                    f"document {name[1]!r} was replaced or deleted while its {position.size:,} chunks were read; "
                    "read again"
                )
            yield document, position.done
    for document in documents.after(connection, stored, name, _PAGE_DOCUMENTS):
        yield document, 0


def keeps(where: FilterLike | None, record: VectorRecord) -> bool:
    """Whether a record matches."""
    return where is None or matches(where, record.chunk.metadata)
