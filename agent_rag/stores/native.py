"""Bases of stores with all capabilities: what follows from the wider methods, and blocks that may be nested."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

from ..documents import DocumentSummary, VectorRecord, VectorSearchResult
from ..filters import FilterLike
from .base import NATIVE, Capability, RetrieveRequest, VectorStoreBase
from .engine.merging import Name, by_name, merged
from .engine.records import existing, prepare_records

_EVERYTHING = 2**31 - 1


class NativeStoreBase(VectorStoreBase):
    """A store with all capabilities.

    Of the seed's seven methods `create_collection`, `has_collection`, `insert`, `delete` and `search` are made of
    `open_collection`, `collection_info`, `replace`, `delete_documents` and `retrieve`.
    """

    capabilities: ClassVar[frozenset[Capability]] = NATIVE

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self.open_collection(name, dimensions)

    async def has_collection(self, name: str) -> bool:
        return await self.collection_info(name) is not None

    async def insert(self, collection: str, records: Sequence[VectorRecord]) -> None:
        """Publish new documents whole, and put chunks into documents that are there, which are read and replaced.

        Of two concurrent inserts into one document the last one wins, without the chunks of the other one.
        """
        info = existing(await self.collection_info(collection), collection)
        prepared = await asyncio.to_thread(prepare_records, collection, info.dimensions, records)
        new = by_name(prepared.records)
        if not new:
            return
        found = await self.list_documents(collection, document_ids=sorted({name[1] for name in new}))
        stored = {(summary.scope, summary.document_id): summary for summary in found}
        for scope in sorted({name[0] for name in new}):
            documents = [
                merged(own, stored.get(name), await self._all_chunks(collection, name) if name in stored else [])
                for name, own in new.items()
                if name[0] == scope
            ]
            chunks = [record for _, own in documents for record in own]
            await self.replace(collection, [summary for summary, _ in documents], chunks, scope=scope)

    async def _all_chunks(self, collection: str, name: Name) -> list[VectorRecord]:
        scope, document_id = name
        found = await self.list_chunks(collection, document_id, limit=_EVERYTHING, with_vectors=True)
        return [record for record in found if record.scope == scope]

    @abstractmethod
    async def list_documents(
        self,
        collection: str,
        metadata_filter: FilterLike | None = None,
        *,
        document_ids: Sequence[str] | None = None,
    ) -> list[DocumentSummary]:
        """Every document, of `document_ids` where given, ordered by (scope, document id)."""

    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> int:
        return await self.delete_documents(collection, [document_id], metadata_filter)

    async def search(
        self, collection: str, query_vector: Sequence[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        request = RetrieveRequest(vectors=[query_vector], limit=top_k, metadata_filter=metadata_filter)
        return await self.retrieve(collection, request)

    def _without(self, *missing: Capability) -> None:
        """Take from this object what its class promises."""
        vars(self)["capabilities"] = self.capabilities - set(missing)


class ConnectedStoreBase(NativeStoreBase):
    """A store that must be opened and closed, by the outermost of the blocks that use it."""

    def __init__(self) -> None:
        self._depth = 0
        """Blocks that were entered and not left."""
        self._opening = asyncio.Lock()

    @property
    @abstractmethod
    def _is_open(self) -> bool: ...

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self, *, failed: bool) -> None:
        """Harmless when closed; `failed`: an exception left the block."""

    async def __aenter__(self) -> Self:
        async with self._opening:
            if not self._is_open:
                await self._open()
                self._depth = 0
            self._depth += 1
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            async with self._opening:
                if self._depth == 0:  # nobody came in meanwhile
                    await self._close(failed=exc_type is not None)
