"""MemoryStore: numpy in this process; the reference that every other store is compared with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, get_args

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import ConfigurationError, LimitExceededError
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.driver import run_steps
from ..engine.records import closed_store, collection_name, existing, prepare_replace, unique_ids
from ..native import TransactionalStoreBase, changed_since
from .table import Batch, Table

Distance = Literal["Cosine", "Dot", "Euclid", "Manhattan"]
T = TypeVar("T")

# Work below these sizes takes less than a few milliseconds and is done in the event loop; a thread costs about .1 ms.
_QUICK_NUMBERS = 4_000_000
_QUICK_DOCUMENTS = 300
_QUICK_CHUNKS = 16
_QUICK_CHARACTERS = 30_000


class MemoryStore(TransactionalStoreBase):
    """Exact search over vectors in memory, BM25 with live statistics. Lost at exit.

    Closing keeps the data, and entering again shows them; blocks may be nested. Safe for concurrent tasks and threads:
    a reader sees the state before or after a write.
    """

    can_exchange = True

    def __init__(self, *, distance: Distance = "Cosine", max_chunks: int | None = None) -> None:
        """
        Args:
            distance: How vectors are compared; Euclid and Manhattan score negated distances.
            max_chunks: Bound on the chunks of all collections together; None for none.

        Raises: ConfigurationError: `distance` is unknown, or `max_chunks` is below 1.
        """
        if distance not in get_args(Distance):
            raise ConfigurationError(f"distance {distance!r} is unknown; use one of {', '.join(get_args(Distance))}")
        if max_chunks is not None and max_chunks < 1:
            raise ConfigurationError(f"max_chunks is {max_chunks}; use a number from 1, or None for no bound")
        self._distance: Distance = distance
        self._max_chunks = max_chunks
        self._tables: dict[str, Table] = {}
        self._lock = threading.Lock()
        self._depth = 0

    async def __aenter__(self) -> Self:
        self._depth += 1
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._depth -= 1

    # --- collections ---

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        self._check_open()
        checked = collection_name(name)
        fresh = CollectionInfo(name=checked, dimensions=dimensions, fingerprint=fingerprint, distance=self._distance)
        table = self._tables.setdefault(name, Table(fresh))
        if table.info.fingerprint is None and fingerprint is not None:
            table.info = table.info.model_copy(update={"fingerprint": fingerprint})
        return table.info.model_copy()

    async def delete_collection(self, name: str) -> None:
        self._check_open()
        self._tables.pop(name, None)

    async def collection_info(self, name: str) -> CollectionInfo | None:
        self._check_open()
        table = self._tables.get(name)
        return None if table is None else table.info.model_copy()

    async def list_collections(self) -> list[str]:
        self._check_open()
        return sorted(self._tables)

    async def exchange_collections(self, first: str, second: str) -> None:
        one, other = self._table(first), self._table(second)
        one.info = one.info.model_copy(update={"name": second})
        other.info = other.info.model_copy(update={"name": first})
        self._tables[first], self._tables[second] = other, one

    # --- writing ---

    async def _replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        versions: Mapping[str, str],
        scope: str,
    ) -> tuple[int, set[str]]:
        table = self._table(collection)

        def prepare() -> tuple[list[DocumentSummary], Batch]:
            summaries, prepared = prepare_replace(collection, table.info.dimensions, documents, records, scope=scope)
            return summaries, Batch.of(prepared)

        def write(prepared: tuple[list[DocumentSummary], Batch]) -> tuple[int, set[str]]:
            if changed := changed_since(versions, table.versions(scope, versions)):
                return 0, changed
            summaries, batch = prepared
            self._check_room(table.new_chunks(batch, [(scope, summary.document_id) for summary in summaries]))
            return table.replace(summaries, batch), set()

        return await self._write(table, prepare, write, quick=_is_small(records))

    async def document_versions(
        self, collection: str, document_ids: Sequence[str], *, scope: str = ""
    ) -> dict[str, str]:
        table = self._table(collection)
        return await self._run(lambda: table.versions(scope, document_ids), quick=len(document_ids) <= _QUICK_DOCUMENTS)

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        table = self._table(collection)
        return await self._write(
            table,
            lambda: unique_ids(document_ids),
            lambda chosen: table.delete(chosen, metadata_filter),
            quick=len(document_ids) <= _QUICK_CHUNKS,
        )

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        table = self._table(collection)
        return await self._write(
            table,
            lambda: metadata_filter,
            table.delete_by_filter,
            quick=table.document_count <= _QUICK_DOCUMENTS,
        )

    # --- reading ---

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        table = self._table(collection)
        numbers = table.row_count * (len(request.vectors) * table.info.dimensions + len(request.texts) * 64)
        quick = numbers <= _QUICK_NUMBERS and request.limit <= _QUICK_DOCUMENTS
        return await self._run(lambda: run_steps(request, table.answer), quick=quick)

    async def word_counts(self, collection: str, tokens: Sequence[str]) -> dict[str, int]:
        table = self._table(collection)
        return await self._run(lambda: table.word_counts(tokens), quick=table.row_count <= _QUICK_NUMBERS // 64)

    async def list_documents(
        self,
        collection: str,
        metadata_filter: FilterLike | None = None,
        *,
        document_ids: Sequence[str] | None = None,
    ) -> list[DocumentSummary]:
        table = self._table(collection)
        quick = (table.document_count if document_ids is None else len(document_ids)) <= _QUICK_DOCUMENTS
        return await self._run(lambda: table.documents(metadata_filter, document_ids), quick=quick)

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        table = self._table(collection)
        return await self._run(
            lambda: table.fetch(keys, metadata_filter, with_vectors=with_vectors), quick=len(keys) <= _QUICK_DOCUMENTS
        )

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
        table = self._table(collection)

        def read() -> list[VectorRecord]:
            keys = table.chunk_keys(document_id, offset, offset + limit)
            return table.fetch(keys, metadata_filter, with_vectors=with_vectors)

        return await self._run(read, quick=limit <= _QUICK_DOCUMENTS)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        table = self._table(collection)
        return await self._run(lambda: table.count(metadata_filter), quick=table.row_count <= _QUICK_NUMBERS // 64)

    async def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """Records that a concurrent write removes before their turn are left out."""
        table = self._table(collection)
        keys = await self._run(lambda: table.matching_keys(metadata_filter), quick=False)
        for start in range(0, len(keys), batch_size):
            for record in await self.fetch(collection, keys[start : start + batch_size], with_vectors=True):
                yield record

    async def ping(self) -> StoreHealth:
        self._check_open()
        return StoreHealth(ok=True, detail=f"{sum(map(len, self._tables.values()))} chunks in memory")

    # --- running ---

    async def _write(self, table: Table, prepare: Callable[[], Any], write: Callable[[Any], T], *, quick: bool) -> T:
        """Prepare outside the lock, write inside it, and close up dead rows when they outnumber the live ones."""
        prepared = prepare() if quick else await asyncio.to_thread(prepare)
        result = await self._run(lambda: write(prepared), quick=quick)
        if table.is_sparse:
            await self._run(table.compact, quick=False)
        return result

    async def _run(self, work: Callable[[], T], *, quick: bool) -> T:
        """Work under the lock: here when it is quick and nobody holds the lock, else in a thread."""
        if quick:
            # Else a caller that awaits one quick call after another would keep the loop to itself.
            await asyncio.sleep(0)
        if quick and self._lock.acquire(blocking=False):
            try:
                return work()
            finally:
                self._lock.release()
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()

    def _table(self, collection: str) -> Table:
        self._check_open()
        return existing(self._tables.get(collection), collection)

    def _check_open(self) -> None:
        if self._depth <= 0:
            raise closed_store(self)

    def _check_room(self, growth: int) -> None:
        if self._max_chunks is None:
            return
        total = sum(map(len, self._tables.values())) + growth
        if total > self._max_chunks:
            raise LimitExceededError(
                f"MemoryStore would hold {total:,} chunks, over max_chunks={self._max_chunks:,}; "
                "delete documents, raise max_chunks, or use a store on disk"
            )


def _is_small(records: Sequence[VectorRecord]) -> bool:
    return (
        len(records) <= _QUICK_CHUNKS and sum(len(record.chunk.indexed_text) for record in records) <= _QUICK_CHARACTERS
    )
