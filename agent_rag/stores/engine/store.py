"""The public methods of a store, over an engine that does the work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Protocol, TypeAlias, TypeVar

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..native import ConnectedStoreBase
from ..versions.heads import Name
from .records import Checked, Prepared, collection_name, prepare_replace, unique_ids

T = TypeVar("T")
Answer: TypeAlias = T | Awaitable[T]
"""An engine whose client blocks answers at once, in a thread; another one is awaited."""


class CollectionReader(Protocol):
    """The plain reads of one collection, as in `VectorStoreBase`."""

    def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None, /
    ) -> Answer[list[DocumentSummary]]: ...

    def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool, /
    ) -> Answer[list[VectorRecord]]: ...

    def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool, /
    ) -> Answer[list[VectorRecord]]: ...

    def count(self, metadata_filter: FilterLike | None, /) -> Answer[int]: ...


class Engine(Protocol):
    """What an engine does. Each raises StoreClosedError when it is not open, and CollectionNotFoundError."""

    @property
    def is_open(self) -> bool: ...

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Harmless when closed."""

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo: ...

    async def drop(self, name: str) -> None: ...

    async def info(self, name: str) -> CollectionInfo | None: ...

    async def names(self) -> list[str]:
        """Sorted."""

    async def replace(self, name: str, checked: Checked) -> int: ...

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        """Remove the documents with these ids, None for all, that match. Returns them and their number of chunks."""

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]: ...

    async def read(self, name: str, job: Callable[[CollectionReader], Answer[T]]) -> T:
        """Run one of the plain reads."""

    def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]: ...

    async def ping(self) -> StoreHealth: ...


async def settled(answer: Answer[T]) -> T:
    """The answer, awaited where it must be."""
    return await answer if isawaitable(answer) else answer


class EngineStore(ConnectedStoreBase):
    """A subclass makes the engine from its options. Blocks may be nested; the outermost one opens and closes."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    @property
    def _is_open(self) -> bool:
        return self._engine.is_open

    async def _open(self) -> None:
        await self._engine.open()

    async def _close(self, *, failed: bool) -> None:
        await self.close()

    async def close(self) -> None:
        """Close at once, also inside nested blocks; harmless when closed. Entering the store again opens it again."""
        await self._engine.close()

    # --- collections ---

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        return await self._engine.create(collection_name(name), dimensions, fingerprint)

    async def delete_collection(self, name: str) -> None:
        await self._engine.drop(name)

    async def collection_info(self, name: str) -> CollectionInfo | None:
        return await self._engine.info(name)

    async def list_collections(self) -> list[str]:
        return await self._engine.names()

    # --- writing ---

    async def replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        scope: str = "",
    ) -> int:
        def checked(dimensions: int) -> tuple[list[DocumentSummary], Prepared]:
            return prepare_replace(collection, dimensions, documents, records, scope=scope)

        return await self._engine.replace(collection, checked)

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        _, removed = await self._engine.delete(collection, unique_ids(document_ids), metadata_filter)
        return removed

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        names, _ = await self._engine.delete(collection, None, metadata_filter)
        return sorted({document_id for _, document_id in names})

    # --- reading ---

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        self._check_keyword_search(request)
        return await self._engine.retrieve(collection, request)

    async def list_documents(
        self,
        collection: str,
        metadata_filter: FilterLike | None = None,
        *,
        document_ids: Sequence[str] | None = None,
    ) -> list[DocumentSummary]:
        return await self._engine.read(collection, lambda reader: reader.summaries(metadata_filter, document_ids))

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        return await self._engine.read(collection, lambda reader: reader.fetch(keys, metadata_filter, with_vectors))

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
        def job(reader: CollectionReader) -> Answer[list[VectorRecord]]:
            return reader.list_chunks(document_id, offset, limit, metadata_filter, with_vectors)

        return await self._engine.read(collection, job)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        return await self._engine.read(collection, lambda reader: reader.count(metadata_filter))

    def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """In order of the keys; a document that is replaced meanwhile may be missing or new."""
        return self._engine.iterate(collection, metadata_filter, batch_size)

    async def ping(self) -> StoreHealth:
        return await self._engine.ping()


class ConditionalEngine(Engine, Protocol):
    """An engine that compares the version of a document in the operation that replaces it."""

    async def versions(self, name: str, documents: Sequence[Name]) -> dict[Name, str]:
        """Of those that are there."""

    async def replace_unchanged(self, name: str, checked: Checked, versions: Mapping[Name, str]) -> list[Name]:
        """As `replace`, of the documents that have these versions. Returns the others."""


class ConditionalStore(EngineStore):
    """A store over an engine that compares versions."""

    _engine: ConditionalEngine

    async def document_versions(
        self, collection: str, document_ids: Sequence[str], *, scope: str = ""
    ) -> dict[str, str]:
        found = await self._engine.versions(collection, [(scope, document_id) for document_id in document_ids])
        return {document_id: version for (_, document_id), version in found.items()}

    async def replace_unchanged(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        versions: Mapping[str, str],
        scope: str = "",
    ) -> list[str]:
        def checked(dimensions: int) -> tuple[list[DocumentSummary], Prepared]:
            return prepare_replace(collection, dimensions, documents, records, scope=scope)

        wanted = {(scope, document.document_id): versions[document.document_id] for document in documents}
        lost = await self._engine.replace_unchanged(collection, checked, wanted)
        return sorted(document_id for _, document_id in lost)
