"""Reading documents and chunks without a search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord
from ...filters import FilterLike
from ...filters.plan import plan
from ..versions.groups import grouped
from .connection import Session
from .filters import Values, where
from .schema import Collection
from .writer import document_key, name_key

Read = Callable[[Callable[[Session, Collection], Awaitable[Any]]], Awaitable[Any]]
T = TypeVar("T")
_QUICK_ROWS = 100
MAX_INDEX = 2**31 - 1
"""Largest chunk index that a column of type int4 holds."""


async def summaries(
    session: Session,
    collection: Collection,
    metadata_filter: FilterLike | None,
    document_ids: Sequence[str] | None = None,
) -> list[DocumentSummary]:
    """Documents, of these ids where given, by (scope, id)."""
    values = Values()
    conditions = [where(metadata_filter, "d", values)]
    if document_ids is not None:
        conditions.append(f"d.name = ANY({values.bind([name_key(one) for one in document_ids], 'uuid[]')})")
    rows = await session.fetch(
        f"SELECT d.scope, d.document_id, d.chunk_count, d.body FROM {collection.documents} d "
        f"WHERE {' AND '.join(f'({one})' for one in conditions)} ORDER BY d.scope, d.document_id",
        *values,
    )
    return await each(_summary_of, rows)


async def count(session: Session, collection: Collection, metadata_filter: FilterLike | None) -> int:
    """Number of chunks that match."""
    if plan(metadata_filter) is None:
        return collection.chunks
    values = Values()
    row = await session.fetch_one(
        f"SELECT count(*) AS chunks FROM {collection.chunk_table} c WHERE {where(metadata_filter, 'c', values)}",
        *values,
    )
    chunks: int = row["chunks"]
    return chunks


async def fetch(
    session: Session,
    collection: Collection,
    keys: Sequence[ChunkKey],
    metadata_filter: FilterLike | None,
    *,
    with_vectors: bool,
) -> list[VectorRecord]:
    """Chunks in the order of `keys`."""
    known = [key for key in keys if 0 <= key.chunk_index <= MAX_INDEX]
    values = Values()
    documents = values.bind([document_key(key.scope, key.document_id) for key in known], "uuid[]")
    indexes = values.bind([key.chunk_index for key in known], "int4[]")
    rows = await session.fetch(
        f"SELECT {_columns(collection, with_vectors)} "
        f"FROM unnest({documents}, {indexes}) WITH ORDINALITY AS k(key, chunk_index, position) "
        f"JOIN {collection.documents} d ON d.key = k.key "
        f"JOIN {collection.chunk_table} c ON c.document = d.id AND c.chunk_index = k.chunk_index "
        f"WHERE {where(metadata_filter, 'c', values)} ORDER BY k.position",
        *values,
    )
    return await each(_record_of, rows)


async def chunks_of(
    session: Session,
    collection: Collection,
    document_id: str,
    start: int,
    stop: int,
    metadata_filter: FilterLike | None,
    *,
    with_vectors: bool,
) -> list[VectorRecord]:
    """Chunks of one document id with ``start <= index < stop``, by (scope, index)."""
    values = Values()
    rows = await session.fetch(
        f"SELECT {_columns(collection, with_vectors)} FROM {collection.documents} d "
        f"JOIN {collection.chunk_table} c ON c.document = d.id "
        f"WHERE d.name = {values.bind(name_key(document_id), 'uuid')} "
        f"AND c.chunk_index >= {values.bind(max(0, start), 'int8')} AND c.chunk_index < {values.bind(stop, 'int8')} "
        f"AND ({where(metadata_filter, 'c', values)}) ORDER BY d.scope, c.chunk_index",
        *values,
    )
    return await each(_record_of, rows)


async def everything(read: Read, metadata_filter: FilterLike | None, *, batch_size: int) -> AsyncIterator[VectorRecord]:
    """All records by (scope, document id, index), read in batches.

    Args:
        read: Does something in a transaction of its own.
    """
    order: list[tuple[int, int]] = await read(_document_order)
    for page in _pages(order, batch_size):
        after = -1
        while True:
            found: list[VectorRecord] = await read(partial(_page_of, page, after, batch_size, metadata_filter))
            for record in found:
                yield record
            if len(page) > 1 or len(found) < batch_size:
                break
            after = found[-1].chunk.chunk_index


async def _document_order(session: Session, collection: Collection) -> list[tuple[int, int]]:
    """(row id, number of chunks) of all documents, by (scope, document id)."""
    rows = await session.fetch(
        f"SELECT id, chunk_count FROM {collection.documents} WHERE chunk_count > 0 ORDER BY scope, document_id"
    )
    return [(row["id"], row["chunk_count"]) for row in rows]


def _pages(documents: Sequence[tuple[int, int]], size: int) -> Iterator[list[int]]:
    """Row ids of consecutive documents that have at most `size` chunks together; a larger document is alone."""
    for page in grouped(documents, (lambda document: document[1], size)):
        yield [number for number, _ in page]


async def _page_of(
    documents: Sequence[int],
    after: int,
    limit: int,
    metadata_filter: FilterLike | None,
    session: Session,
    collection: Collection,
) -> list[VectorRecord]:
    """Records of the documents in the given order; of a single one, at most `limit` with an index above `after`."""
    values = Values()
    order = values.bind(list(documents), "int8[]")
    rows = await session.fetch(
        f"SELECT {_columns(collection, True)} FROM unnest({order}) WITH ORDINALITY AS o(id, position) "
        f"JOIN {collection.documents} d ON d.id = o.id JOIN {collection.chunk_table} c ON c.document = d.id "
        f"WHERE c.chunk_index > {values.bind(after, 'int4')} AND ({where(metadata_filter, 'c', values)}) "
        f"ORDER BY o.position, c.chunk_index LIMIT {values.bind(limit if len(documents) == 1 else None, 'int8')}",
        *values,
    )
    return await each(_record_of, rows)


async def each(make: Callable[[Any], T], rows: Sequence[Any]) -> list[T]:
    """`make` of every row, off the event loop when they are many."""
    if len(rows) <= _QUICK_ROWS:
        return [make(row) for row in rows]
    return await asyncio.to_thread(lambda: [make(row) for row in rows])


def _summary_of(row: Any) -> DocumentSummary:
    return DocumentSummary(
        document_id=row["document_id"],
        scope=row["scope"],
        chunk_count=row["chunk_count"],
        **json.loads(row["body"]),
    )


def _record_of(row: Any) -> VectorRecord:
    return VectorRecord.model_construct(
        vector=list(row["vector"]),
        document_id=row["document_id"],
        chunk=Chunk.model_validate_json(row["body"]),
        scope=row["scope"],
    )


def _columns(collection: Collection, with_vectors: bool) -> str:
    vector = "c.embedding::float4[]" if with_vectors and collection.engine != "none" else "'{}'::float4[]"
    return f"d.scope, d.document_id, c.body, {vector} AS vector"
