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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ...documents import DocumentSummary, VectorRecord
from ...filters import FilterLike
from ...filters.plan import IndexedMetadata, index_metadata
from ...retrieval.lexical import counts, tokenize
from ..engine.records import Prepared
from . import copy as copy
from .codes import codes
from .connection import Session
from .filters import Values, where
from .schema import NUMBER_COLUMNS, POSTING_COLUMNS, Collection, chunk_columns
from .vectors import stored_matrix

_PIECE = 1_000
"""Chunks that are encoded at once, about 3 MB."""


@dataclass(frozen=True)
class Written:
    """What a write changed."""

    before: int
    """Chunks that were there and are gone."""
    added: int
    litter: int = 0
    """`Collection.litter` after it; 0 where nothing was removed."""

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
    removed: int = 0

    def add(self, length: int, times: int) -> None:
        """Count a chunk of `length` tokens."""
        self.chunks += times
        self.worded += times if length else 0
        self.words += times * length
        self.removed += max(0, -times)


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
    numbers: list[dict[str, float]]


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
    await _remove_chunks(session, collection, change, "document = ANY($1::int4[])", replaced)
    before = -change.chunks
    for start in range(0, len(prepared.records), _PIECE):
        piece = await asyncio.to_thread(_encode, collection, prepared, start)
        await _copy(session, collection, documents, piece)
        for length in piece.lengths:
            change.add(length, 1)
    return Written(before, len(prepared.records), await _count(session, collection, change))


async def sweep(session: Session, collection: Collection, *, timeout_s: float) -> bool:
    """Remove the numbers of chunks that are gone, unless another session does so already. Returns whether it did."""
    # The count is read first: chunks that are removed meanwhile stay counted, and their numbers may stay.
    row = await session.fetch_one(
        f"SELECT litter FROM {collection.names.collections} "
        "WHERE id = $1 AND pg_try_advisory_xact_lock(hashtextextended($2, 0))",
        collection.id,
        collection.numbers,
    )
    if row is None:
        return False
    await session.execute(
        f"DELETE FROM {collection.numbers} n "
        f"WHERE NOT EXISTS (SELECT FROM {collection.chunk_table} c WHERE c.id = n.chunk)",
        timeout_s=timeout_s,
    )
    await session.execute(
        f"UPDATE {collection.names.collections} SET litter = greatest(0, litter - $2) WHERE id = $1",
        collection.id,
        row["litter"],
    )
    return True


async def remove(
    session: Session,
    collection: Collection,
    document_ids: Sequence[str] | None,
    metadata_filter: FilterLike | None,
    *,
    at_once: bool = False,
) -> tuple[Written, list[str]]:
    """Remove whole documents whose metadata match; None for all ids. Returns the ids removed, sorted, too.

    Args:
        at_once: In one statement, which fails where it waited for a writer that added chunks.
    """
    values = Values()
    conditions = [where(metadata_filter, "d", values)]
    if document_ids is not None:
        conditions.append(f"d.name = ANY({values.bind([name_key(name) for name in document_ids], 'uuid[]')})")
    row = await session.fetch_one(
        _removal(collection, " AND ".join(f"({c})" for c in conditions), values, at_once), *values
    )
    change = _Counts()
    if row["chunks"] != row["expected"]:
        # A writer that was waited for added chunks, which the statement, begun before, does not see.
        await _remove_chunks(session, collection, change, "document = ANY($1::int4[])", row["ids"])
    litter = await _count(session, collection, change) or row["litter"] or 0
    return Written(row["chunks"] - change.chunks, 0, litter), sorted(set(row["names"]))


def _removal(collection: Collection, condition: str, values: Values, at_once: bool) -> str:
    """The statement that removes documents, the alias ``d``, with the chunks that they have when it begins.

    It returns one row: the number of these chunks, the number that the documents had at the end (`expected`), the ids
    of their rows, their names, and the collection's litter.

    Args:
        at_once: Fail, by a division by zero, where the two numbers differ.
    """
    documents = "ARRAY(SELECT id FROM held)"
    return (
        f"WITH held AS MATERIALIZED (SELECT d.id, d.document_id, d.chunk_count FROM {collection.documents} d "
        f"WHERE {condition} ORDER BY d.key FOR UPDATE), {_gone(collection, f'document = ANY({documents})')}, "
        f"heads AS (DELETE FROM {collection.documents} WHERE id = ANY({documents})), "
        "counted AS (SELECT count(*) AS chunks, count(*) FILTER (WHERE length > 0) AS worded, "
        "coalesce(sum(length), 0) AS words FROM gone), "
        f"kept AS (UPDATE {collection.names.collections} c SET chunks = c.chunks - counted.chunks, "
        "worded = c.worded - counted.worded, words = c.words - counted.words, litter = c.litter + counted.chunks "
        f"FROM counted WHERE c.id = {values.bind(collection.id, 'int4')} AND counted.chunks > 0 RETURNING c.litter) "
        f"SELECT counted.chunks, expected, {documents} AS ids, ARRAY(SELECT document_id FROM held) AS names, "
        "(SELECT litter FROM kept) AS litter "
        f"{', 1 / CASE WHEN chunks = expected THEN 1 ELSE 0 END' if at_once else ''} "
        "FROM counted, (SELECT coalesce(sum(chunk_count), 0) AS expected FROM held) AS held_before"
    )


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
        if collection.engine == "coded":
            vectors = [copy.bits(code.tobytes()) + vector for code, vector in zip(codes(matrix), vectors, strict=True)]
    terms: list[Counter[str]] = [
        counts(tokenize(record.chunk.indexed_text)) if collection.keyword else Counter() for record in records
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
        numbers=[metadata.numbers for metadata in indexed],
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
        "SELECT nextval($1::regclass)::int4 AS id FROM generate_series(1, $2::int4)",
        collection.chunk_ids,
        len(piece.keys),
    )
    ids = [row["id"] for row in reserved]
    columns = chunk_columns(collection.engine)
    head = len(columns).to_bytes(2, "big")
    rows = [
        head + copy.integer(number) + copy.integer(documents[key].id) + row
        for number, key, row in zip(ids, piece.keys, piece.rows, strict=True)
    ]
    names = collection.names
    await session.copy(names.plain(collection.id, "chunks"), columns, copy.stream(rows))
    numbers = copy.numbers(piece.numbers, ids)
    if numbers:
        await session.copy(names.plain(collection.id, "numbers"), NUMBER_COLUMNS, copy.stream(numbers))
    if collection.keyword:
        postings = await asyncio.to_thread(copy.postings, piece.terms, ids)
        await session.copy(names.plain(collection.id, "postings"), POSTING_COLUMNS, copy.cut(postings))


async def _remove_chunks(
    session: Session, collection: Collection, change: _Counts, condition: str, *values: Sequence[int]
) -> list[Any]:
    if not values[0]:
        return []
    gone = await session.fetch(f"WITH {_gone(collection, condition)} SELECT document, length FROM gone", *values)
    for row in gone:
        change.add(row["length"], -1)
    return gone


def _gone(collection: Collection, condition: str) -> str:
    """Parts of a statement that remove chunks, as `gone`, with their postings; their numbers are left to `sweep`."""
    parts = [f"gone AS (DELETE FROM {collection.chunk_table} WHERE {condition} RETURNING id, document, length)"]
    if collection.keyword:
        parts.append(f"words AS (DELETE FROM {collection.postings} WHERE chunk = ANY(ARRAY(SELECT id FROM gone)))")
    return ", ".join(parts)


async def _count(session: Session, collection: Collection, change: _Counts) -> int:
    """Add to the collection's counts. Returns its litter; 0 where nothing was removed."""
    if change == _Counts():
        return 0
    row = await session.fetch_one(
        f"UPDATE {collection.names.collections} SET chunks = chunks + $2, worded = worded + $3, words = words + $4, "
        "litter = litter + $5 WHERE id = $1 RETURNING litter",
        collection.id,
        change.chunks,
        change.worded,
        change.words,
        change.removed,
    )
    litter: int = row["litter"]
    return litter if change.removed else 0


def _hashed(name: str) -> uuid.UUID:
    return uuid.UUID(bytes=blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest())
