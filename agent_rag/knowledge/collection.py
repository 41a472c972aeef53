"""One collection as a knowledge base sees it: made on the first write, compared with the model on first use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..documents import DocumentSummary, VectorRecord
from ..errors import CollectionNotFoundError, DimensionMismatchError, ModelMismatchError
from ..stores.base import CollectionInfo
from ..stores.native import NativeStoreBase
from .embedder import Embedder

T = TypeVar("T")
FRESH_S = 1.0
"""So long a handle believes what it has seen of a collection, whose model may be changed by `reindex_model`."""


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
        self._since = 0.0
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Create it if needed, and compare it with the model."""
        async with self._opening:
            if not self._is_fresh:
                info = await self.store.open_collection(
                    self.name, self._embedder.dimensions, fingerprint=self._embedder.fingerprint
                )
                self._compare(info)
                self._saw(info)

    async def exists(self) -> bool:
        """Whether there is one; then it has been compared with the model. Reading creates nothing."""
        if not self._is_fresh:
            info = await self.store.collection_info(self.name)
            if info is not None:
                self._compare(info)
            self._saw(info)
        return self._info is not None

    @property
    def _is_fresh(self) -> bool:
        return self._info is not None and time.monotonic() - self._since < FRESH_S

    def _saw(self, info: CollectionInfo | None) -> None:
        self._info, self._since = info, time.monotonic()

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
        cure = (
            "search with the model it was built with, ingest into a new collection, or give this one the vectors of "
            "another model: agent-rag reindex --model NAME"
        )
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
