"""Writing: whole documents or single chunks, in one transaction each.

The row of a document is also its lock: each writer first inserts or updates the rows of its documents, in the order of
their keys, and so waits for every other writer of one of them. All else of a transaction needs no lock, up to the
counts of the collection, which come last.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ...documents import DocumentSummary, VectorRecord
from ...filters import FilterLike
from ...filters.plan import IndexedMetadata, index_metadata
from ...retrieval.analysis import index_tokens
from ...retrieval.lexical import counts
from ..engine.records import Prepared
from . import copy as copy
from .connection import Session
from .filters import Values, where
from .schema import POSTING_COLUMNS, Collection, chunk_columns
from .vectors import stored_matrix

_PIECE = 1_000
"""Chunks that are encoded at once, about 3 MB."""


@dataclass(frozen=True)
class Written:
    """What a write changed."""

    before: int
    """Chunks that were there and are gone."""
    added: int
    changed: frozenset[str] = frozenset()
    """Documents that have another version than was expected; then nothing was written."""

    @property
    def touched(self) -> int:
        return self.before + self.added

    @property
    def growth(self) -> int:
        return self.added - self.before


@dataclass
class _Counts:
    """Change of a collection's counts."""

    chunks: int = 0
    worded: int = 0
    words: int = 0

    def add(self, length: int, times: int) -> None:
        """Count a chunk of `length` tokens."""
        self.chunks += times
        self.worded += times if length else 0
        self.words += times * length


@dataclass(frozen=True)
class _Encoded:
    """A piece of a write, encoded but for the ids that the database gives."""

    keys: list[uuid.UUID]
    """Document of each chunk."""
    indexes: list[int]
    lengths: list[int]
    rows: list[bytes]
    """Fields of each chunk after its id and document."""
    terms: list[Counter[str]]


def document_key(scope: str, document_id: str) -> uuid.UUID:
    """Key of a document in its collection, whatever the length of its names."""
    return _hashed(json.dumps([scope, document_id]))


def name_key(document_id: str) -> uuid.UUID:
    """Key that the documents of one id in all scopes share."""
    return _hashed(document_id)


async def publish(
    session: Session,
    collection: Collection,
    summaries: Sequence[DocumentSummary],
    prepared: Prepared,
) -> Written:
    """Write documents with their chunks; whatever they had is removed."""
    documents = await _put_heads(session, collection, summaries)
    replaced = [document.id for document in documents.values() if not document.fresh]
    change = _Counts()
    await _remove_chunks(session, collection, change, replaced)
    before = -change.chunks
    for start in range(0, len(prepared.records), _PIECE):
        piece = await asyncio.to_thread(_encode, collection, prepared, start)
        await _copy(session, collection, documents, piece)
        for length in piece.lengths:
            change.add(length, 1)
    await _count(session, collection, change)
    return Written(before, len(prepared.records))


async def lock_versions(
    session: Session, collection: Collection, scope: str, document_ids: Iterable[str], *, lock: str = "FOR UPDATE"
) -> dict[str, str]:
    """Document id -> the transaction that wrote its row, which every write of the document does."""
    rows = await session.fetch(
        f"SELECT d.document_id, d.id || '.' || d.xmin::text AS version FROM {collection.documents} d "
        f"WHERE d.key = ANY($1::uuid[]) ORDER BY d.key {lock}",
        [document_key(scope, document_id) for document_id in document_ids],
    )
    return {row["document_id"]: row["version"] for row in rows}


async def remove(
    session: Session, collection: Collection, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
) -> tuple[Written, list[str]]:
    """Remove whole documents whose metadata match; None for all ids. Returns the ids removed, sorted, too."""
    values = Values()
    conditions = [where(metadata_filter, "d", values)]
    if document_ids is not None:
        conditions.append(f"d.name = ANY({values.bind([name_key(name) for name in document_ids], 'uuid[]')})")
    rows = await session.fetch(
        f"SELECT d.id, d.document_id FROM {collection.documents} d "
        f"WHERE {' AND '.join(f'({one})' for one in conditions)} ORDER BY d.key FOR UPDATE",
        *values,
    )
    ids = [row["id"] for row in rows]
    change = _Counts()
    # After the lock, so that it sees what a writer that was waited for added.
    await _remove_chunks(session, collection, change, ids)
    if ids:
        await session.execute(f"DELETE FROM {collection.documents} WHERE id = ANY($1::int8[])", ids)
    await _count(session, collection, change)
    return Written(-change.chunks, 0), sorted({row["document_id"] for row in rows})


@dataclass(frozen=True)
class _Document:
    id: int
    fresh: bool
    """Whether this transaction made its row."""


async def _put_heads(
    session: Session, collection: Collection, summaries: Sequence[DocumentSummary]
) -> dict[uuid.UUID, _Document]:
    rows = await asyncio.to_thread(lambda: sorted(_head_rows(summaries), key=lambda row: row[0]))
    if not rows:
        return {}
    columns = ("chunk_count", "body", "tokens", "number_keys", "number_values")
    answers = await session.fetch_many(
        f"INSERT INTO {collection.documents} AS d "
        "(key, name, scope, document_id, chunk_count, body, tokens, number_keys, number_values) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (key) DO UPDATE SET "
        + ", ".join(f"{column} = excluded.{column}" for column in columns)
        + " RETURNING id, xmax = 0 AS fresh",
        rows,
    )
    return {row[0]: _Document(answer["id"], fresh=answer["fresh"]) for row, answer in zip(rows, answers, strict=True)}


def _head_rows(summaries: Sequence[DocumentSummary]) -> Iterator[tuple[Any, ...]]:
    for summary in summaries:
        indexed = index_metadata(summary.metadata)
        yield (
            document_key(summary.scope, summary.document_id),
            name_key(summary.document_id),
            summary.scope,
            summary.document_id,
            summary.chunk_count,
            summary.model_dump_json(include={"source", "metadata", "title", "uri", "state"}),
            list(indexed.tokens),
            list(indexed.numbers),
            list(indexed.numbers.values()),
        )


def _encode(collection: Collection, prepared: Prepared, start: int) -> _Encoded:
    records = prepared.records[start : start + _PIECE]
    vectors = [b""] * len(records)
    if collection.engine != "none":
        matrix = stored_matrix(prepared.matrix[start : start + _PIECE], collection.info.distance)
        vectors = copy.vectors(matrix, collection.engine)
    terms: list[Counter[str]] = [
        counts(index_tokens(record.chunk)) if collection.keyword else Counter() for record in records
    ]
    lengths = [counted.total() for counted in terms]
    indexed = [index_metadata(record.chunk.metadata) for record in records]
    return _Encoded(
        keys=[document_key(record.scope, record.document_id) for record in records],
        indexes=[record.chunk.chunk_index for record in records],
        lengths=lengths,
        rows=[
            _chunk_fields(record, length, vector, metadata)
            for record, length, vector, metadata in zip(records, lengths, vectors, indexed, strict=True)
        ],
        terms=terms,
    )


def _chunk_fields(record: VectorRecord, length: int, vector: bytes, indexed: IndexedMetadata) -> bytes:
    return b"".join(
        (
            copy.integer(record.chunk.chunk_index),
            copy.integer(length),
            vector,
            copy.text_array(indexed.tokens),
            copy.text_array(list(indexed.numbers)),
            copy.double_array(list(indexed.numbers.values())),
            copy.text(record.chunk.model_dump_json()),
        )
    )


async def _copy(
    session: Session, collection: Collection, documents: dict[uuid.UUID, _Document], piece: _Encoded
) -> None:
    reserved = await session.fetch(
        "SELECT nextval($1::regclass) AS id FROM generate_series(1, $2::int4)",
        collection.chunk_ids,
        len(piece.keys),
    )
    ids = [row["id"] for row in reserved]
    columns = chunk_columns(collection.engine)
    head = len(columns).to_bytes(2, "big")
    rows = [
        head + copy.big_integer(number) + copy.big_integer(documents[key].id) + row
        for number, key, row in zip(ids, piece.keys, piece.rows, strict=True)
    ]
    names = collection.names
    await session.copy(names.plain(collection.id, "chunks"), columns, copy.stream(rows))
    if collection.keyword:
        postings = await asyncio.to_thread(copy.postings, piece.terms, ids)
        await session.copy(names.plain(collection.id, "postings"), POSTING_COLUMNS, copy.cut(postings))


async def _remove_chunks(session: Session, collection: Collection, change: _Counts, documents: Sequence[int]) -> None:
    """Remove the chunks of some documents with their postings."""
    if not documents:
        return
    parts = [
        f"gone AS (DELETE FROM {collection.chunk_table} WHERE document = ANY($1::int8[]) RETURNING id, length)",
        *(
            [f"words AS (DELETE FROM {collection.postings} WHERE chunk = ANY(ARRAY(SELECT id FROM gone)))"]
            if collection.keyword
            else []
        ),
    ]
    for row in await session.fetch(f"WITH {', '.join(parts)} SELECT length FROM gone", documents):
        change.add(row["length"], -1)


async def _count(session: Session, collection: Collection, change: _Counts) -> None:
    """Add to the collection's counts."""
    if change != _Counts():
        await session.execute(
            f"UPDATE {collection.names.collections} SET chunks = chunks + $2, worded = worded + $3, "
            "words = words + $4 WHERE id = $1",
            collection.id,
            change.chunks,
            change.worded,
            change.words,
        )


def _hashed(name: str) -> uuid.UUID:
    return uuid.UUID(bytes=blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest())
