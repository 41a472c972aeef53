"""One collection as a knowledge base sees it: made on the first write, compared with the model on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..documents import DocumentSummary, VectorRecord
from ..errors import CollectionNotFoundError, DimensionMismatchError, ModelMismatchError
from ..stores.base import CollectionInfo
from ..stores.native import NativeStoreBase
from .embedder import Embedder

T = TypeVar("T")


class Collection:
    """A name in a store, and the embedding model that it must have been built with.

    Args:
        owner: Name of the knowledge base, for messages.
    """

    def __init__(self, store: NativeStoreBase, name: str, embedder: Embedder, *, owner: str) -> None:
        self.store = store
        self.name = name
        self._embedder = embedder
        self._owner = owner
        self._info: CollectionInfo | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Create it if needed, and compare it with the model; once."""
        async with self._opening:
            if self._info is None:
                info = await self.store.open_collection(
                    self.name, self._embedder.dimensions, fingerprint=self._embedder.fingerprint
                )
                self._compare(info)
                self._info = info

    async def exists(self) -> bool:
        """Whether there is one; then it has been compared with the model. Reading creates nothing."""
        if self._info is None:
            info = await self.store.collection_info(self.name)
            if info is not None:
                self._compare(info)
            self._info = info
        return self._info is not None

    async def if_there(self, empty: T, operation: Callable[[], Awaitable[T]]) -> T:
        """The answer of `operation`; `empty` while the collection does not exist, or when it was dropped meanwhile."""
        if not await self.exists():
            return empty
        try:
            return await operation()
        except CollectionNotFoundError:
            self._info = None
            return empty

    async def replace(self, documents: list[DocumentSummary], records: list[VectorRecord], scope: str) -> int:
        """As the store's; a collection that was dropped under this handle is made anew."""
        try:
            return await self.store.replace(self.name, documents, records, scope=scope)
        except CollectionNotFoundError:
            self._info = None
            await self.open()
            return await self.store.replace(self.name, documents, records, scope=scope)

    def _compare(self, info: CollectionInfo) -> None:
        cure = "search with the model it was built with, or ingest into a new collection"
        if self._embedder.model is not None and info.dimensions != self._embedder.dimensions:
            raise DimensionMismatchError(
                f"collection {self.name!r} holds {info.dimensions}-dimensional vectors, "
                f"the model of {self._owner!r} makes {self._embedder.dimensions}; {cure}"
            )
        if info.fingerprint and self._embedder.fingerprint and info.fingerprint != self._embedder.fingerprint:
            raise ModelMismatchError(
                f"collection {self.name!r} was built with the embedding model {info.fingerprint!r}, "
                f"not {self._embedder.fingerprint!r}; {cure}"
            )
