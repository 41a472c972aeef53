"""Reading one collection in Tencent Cloud VectorDB while it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ...documents import ChunkKey, DocumentSummary, VectorRecord
from ...errors import StoreError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ..base import CollectionInfo
from ..versions.groups import slices
from ..versions.heads import MAX_INDEX, Name
from ..versions.versions import Changed
from .client import Connection
from .schema import (
    CONTENT,
    DOCUMENT,
    HEAD,
    ID,
    INDEX,
    KIND,
    REVISION,
    SUMMARY,
    VECTOR,
    VERSION,
    WRITTEN,
    Row,
    Stored,
    chunk_of,
    chunk_row_id,
    chunks_of,
    document_hash,
    expression,
    head_row_id,
    heads_of,
    is_in,
    parse_row_id,
    stored_of,
    summary_of,
)

T = TypeVar("T")

_ATTEMPTS = 30
_VERSIONS_PER_QUERY = 500
_PAGE = 500
IS_HEAD, IS_LOG = f'{KIND} = "head"', f'{KIND} = "log"'
STORED = (HEAD, VERSION, REVISION, WRITTEN)


class Reader:
    """The reads of one collection."""

    def __init__(self, connection: Connection, info: CollectionInfo) -> None:
        self.connection = connection
        self.info = info
        database = connection.options.database
        self.chunks_name, self.heads_name = chunks_of(database, info.name), heads_of(database, info.name)

    # --- heads ---

    def by_name(self, names: Sequence[Name]) -> dict[Name, Stored]:
        if len(names) > 100:
            wanted = set(names)
            ids = list(dict.fromkeys(document_id for _, document_id in names))
            return {one.name: one for one in self.heads_matching(None, ids) if one.name in wanted}
        rows = self.connection.get(self.heads_name, [head_row_id(name) for name in names], STORED)
        return {stored.name: stored for stored in map(stored_of, rows)}

    def by_version(self, versions: Iterable[str]) -> dict[str, Stored]:
        """The documents that name one of `versions`; a version that is not there does not count any more."""
        wanted = sorted(set(versions))
        found: dict[str, Stored] = {}
        for start in range(0, len(wanted), _VERSIONS_PER_QUERY):
            part = wanted[start : start + _VERSIONS_PER_QUERY]
            condition = f"{IS_HEAD} and {is_in(VERSION, part)}"
            found |= {row[VERSION]: stored_of(row) for row in self.connection.query(self.heads_name, condition, STORED)}
        return found

    def all_heads(self) -> Iterator[Stored]:
        return map(stored_of, self.connection.scan(self.heads_name, IS_HEAD, STORED))

    def heads_matching(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Stored]:
        return [stored_of(row) for row in self._head_rows(metadata_filter, document_ids, STORED)]

    def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None
    ) -> list[DocumentSummary]:
        rows = self._head_rows(metadata_filter, document_ids, (*STORED, SUMMARY))
        return sorted(map(summary_of, rows), key=lambda summary: (summary.scope, summary.document_id))

    def _head_rows(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None, fields: Sequence[str]
    ) -> Iterator[Row]:
        """Rows of heads, of these ids where given, whose metadata match."""
        for some in [None] if document_ids is None else slices(document_ids, _VERSIONS_PER_QUERY):
            more = [] if some is None else [is_in(DOCUMENT, map(document_hash, some))]
            condition = expression(metadata_filter, IS_HEAD, *more) or IS_HEAD
            yield from self.connection.scan(self.heads_name, condition, fields)

    # --- chunks ---

    def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        def read() -> list[VectorRecord]:
            heads = self.by_name(list({(key.scope, key.document_id): None for key in keys}))
            ids = {
                chunk_row_id(heads[name].version, key.chunk_index): key
                for key in keys
                if (name := (key.scope, key.document_id)) in heads and heads[name].head.has(key.chunk_index)
            }
            found = self._records(ids, metadata_filter, with_vectors)
            return [found[key] for key in keys if key in found]

        return self.steady(read)

    def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        def read() -> list[VectorRecord]:
            condition = f"{IS_HEAD} and {is_in(DOCUMENT, [document_hash(document_id)])}"
            rows = self.connection.scan(self.heads_name, condition, STORED)
            ids = {
                chunk_row_id(stored.version, index): ChunkKey(*stored.name, index)
                for stored in map(stored_of, rows)
                for index in stored.head.indexes(offset, min(offset + limit, MAX_INDEX + 1))
            }
            found = self._records(ids, metadata_filter, with_vectors)
            return [found[key] for key in sorted(found)]

        return self.steady(read)

    def _records(
        self, ids: dict[str, ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> dict[ChunkKey, VectorRecord]:
        vectors = with_vectors and self.info.dimensions > 0
        rows = self.rows(list(ids), [CONTENT], vectors=vectors)
        found: dict[ChunkKey, VectorRecord] = {}
        for row in rows:
            key, chunk = ids[row[ID]], chunk_of(row)
            if matches(metadata_filter, chunk.metadata):
                vector = [float(number) for number in row[VECTOR]] if vectors else []
                found[key] = VectorRecord(vector=vector, document_id=key.document_id, chunk=chunk, scope=key.scope)
        return found

    def rows(self, ids: Sequence[str], fields: Sequence[str], *, vectors: bool = False) -> list[Row]:
        """Rows by id; many of one version in one request.

        Raises: Changed: one is gone.
        """
        by_version: dict[str, list[int]] = {}
        for version, index in map(parse_row_id, ids):
            by_version.setdefault(version, []).append(index)
        found: list[Row] = []
        single: list[str] = []
        for version, indexes in by_version.items():
            span = max(indexes) - min(indexes) + 1
            if len(indexes) > 20 and span <= 2 * len(indexes):
                for start in range(min(indexes), max(indexes) + 1, _PAGE):
                    stop = min(start + _PAGE, max(indexes) + 1)
                    condition = f"{is_in(VERSION, [version])} and {INDEX} >= {start} and {INDEX} < {stop}"
                    found += self.connection.query(self.chunks_name, condition, fields, vectors=vectors)
            else:
                single += [chunk_row_id(version, index) for index in indexes]
        found += self.connection.get(self.chunks_name, single, fields, vectors=vectors)
        wanted = set(ids)
        found = [row for row in found if row[ID] in wanted]
        if len(found) < len(wanted):
            raise Changed
        return found

    def count(self, metadata_filter: FilterLike | None) -> int:
        heads = list(self.all_heads())
        chunks = sum(stored.head.count for stored in heads)
        if plan(metadata_filter) is None:
            return chunks
        condition = expression(metadata_filter)
        if self.connection.count(self.chunks_name) == chunks:
            return self.connection.count(self.chunks_name, condition)
        live = {stored.version: stored.head for stored in heads}
        total = 0
        names = sorted(live)
        for start in range(0, len(names), _VERSIONS_PER_QUERY):
            some = names[start : start + _VERSIONS_PER_QUERY]
            total += self.connection.count(self.chunks_name, expression(metadata_filter, is_in(VERSION, some)))
        return total

    def batches(self, size: int) -> Iterator[list[ChunkKey]]:
        """Keys of all chunks in order, a batch at a time; the heads of a batch are read when its turn comes."""
        batch: list[ChunkKey] = []
        names = sorted(stored.name for stored in self.all_heads())
        for start in range(0, len(names), size):
            part = names[start : start + size]
            heads = self.by_name(part)
            for name in part:
                for index in heads[name].head.indexes() if name in heads else ():
                    batch.append(ChunkKey(*name, index))
                    if len(batch) == size:
                        yield batch
                        batch = []
        if batch:
            yield batch

    def steady(self, read: Callable[[], T]) -> T:
        """Run `read`, again from the start when a document in it was replaced meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                return read()
            except Changed:
                time.sleep(0.002 * attempt)
        raise StoreError(
            f"documents of collection {self.info.name!r} are replaced all the time: {_ATTEMPTS} reads found a version "
            "that was gone at the end; try again"
        )
