"""Bases of stores that do all a KnowledgeBase can use: what follows from the wider methods, and nested blocks."""

from __future__ import annotations

import asyncio
import hashlib
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ..documents import Chunk, ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ..errors import ConfigurationError
from ..filters import FilterLike
from ..retrieval.pattern import TextPattern
from ..retrieval.runs import DocumentText, TextPart
from .base import CollectionInfo, RetrieveRequest, VectorStoreBase
from .engine.merging import by_name, merged
from .engine.records import existing, prepare_records

__all__ = ["ConnectedStoreBase", "NativeStoreBase"]

_EVERYTHING = 2**31 - 1
_SCANNED_AT_ONCE = 100
"""Documents."""


class NativeStoreBase(VectorStoreBase):
    """A store that replaces documents atomically, keeps scopes apart, and takes the whole filter language.

    Of the seven methods `create_collection`, `has_collection`, `insert`, `delete` and `search` are made of
    `open_collection`, `collection_info`, `replace`, `delete_documents` and `retrieve`.
    """

    keyword_search: bool = True
    """Whether `retrieve` takes texts: BM25 over the tokens of `retrieval.lexical`."""

    can_exchange: bool = False
    """Whether `exchange_collections` works."""

    takes_parts: bool = False
    """Whether `replace_parts` works."""

    async def exchange_collections(self, first: str, second: str) -> None:
        """Give each of two collections the other's name, at once: every reader sees both names before or after it.

        Raises: CollectionNotFoundError: one of them is not there. ConfigurationError: this store cannot.
        """
        raise ConfigurationError(f"{type(self).__name__} cannot exchange the names of {first!r} and {second!r}")

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self.open_collection(name, dimensions)

    async def word_counts(self, collection: str, tokens: Sequence[str]) -> dict[str, int] | None:
        """In how many chunks each of some hundred tokens occurs, those of none left out, for the correction of misspelt
        words; None: this store cannot tell quickly, and nothing is corrected."""
        return None

    async def has_collection(self, name: str) -> bool:
        return await self.collection_info(name) is not None

    async def insert(self, collection: str, records: Sequence[VectorRecord]) -> None:
        """Publish new documents whole, and put chunks into documents that are there, which are read and replaced.

        Of two concurrent inserts into one document the last one wins, without the chunks of the other one.
        """
        info = existing(await self.collection_info(collection), collection)
        new = await asyncio.to_thread(lambda: by_name(prepare_records(collection, info.dimensions, records).records))
        if not new:
            return
        found = await self.list_documents(collection, document_ids=sorted({document_id for _, document_id in new}))
        stored = {name: summary for summary in found if (name := (summary.scope, summary.document_id)) in new}
        before = {name: await all_records(self, collection, summary) for name, summary in stored.items()}
        for scope in sorted({scope for scope, _ in new}):
            summaries, chunks = await asyncio.to_thread(merged, scope, new, stored, before)
            await self.replace(collection, summaries, chunks, scope=scope)

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

    # --- what a store answers ---

    @abstractmethod
    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        """Create the collection if it does not exist, and return what it is. `fingerprint` is recorded when new, or
        when the collection has none yet. Comparing is the caller's part."""

    @abstractmethod
    async def collection_info(self, name: str) -> CollectionInfo | None:
        """None when the collection does not exist."""

    @abstractmethod
    async def list_collections(self) -> list[str]:
        """Names, sorted."""

    @abstractmethod
    async def replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        scope: str = "",
    ) -> int:
        """Publish whole documents: what was stored under their ids in `scope` is gone, and `records` are there.

        A reader sees the old version or the new one of a document, never a mixture and never neither; two concurrent
        writers leave exactly one version; a crash leaves one whole version.

        Args:
            documents: One summary per document; `list_documents` gives it back. Its scope is `scope`.
            records: All chunks of these documents. Their scope is `scope`.

        Returns: Number of chunks that were there before.
        Raises: ValueError: a document id occurs twice, or a record belongs to none of `documents`.
        """

    async def document_versions(
        self, collection: str, document_ids: Sequence[str], *, scope: str = ""
    ) -> dict[str, str]:
        """Which version is stored of each of these documents of `scope`; those that are not there are left out.

        A version is a text that is another one after each write of the document; here, after each that changed it.
        """
        found = await self.list_documents(collection, document_ids=document_ids)
        return {
            summary.document_id: _digest(summary, await all_records(self, collection, summary))
            for summary in found
            if summary.scope == scope
        }

    async def replace_unchanged(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        versions: Mapping[str, str],
        scope: str = "",
    ) -> list[str]:
        """`replace` of what was read before, without undoing what somebody wrote or deleted since.

        Args:
            versions: Version of each document, asked for before it was read.

        Returns: The ids of documents that have another version now, sorted: they are left as they are.
        """
        lost: set[str] = set()
        while kept := [document for document in documents if document.document_id not in lost]:
            wanted = {document.document_id: versions[document.document_id] for document in kept}
            of_kept = [record for record in records if record.document_id in wanted]
            changed = await self._replace_where(collection, kept, of_kept, wanted, scope)
            if not changed:
                break
            lost |= changed
        return sorted(lost)

    async def _replace_where(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        versions: Mapping[str, str],
        scope: str,
    ) -> set[str]:
        """Write all documents if each has its version, else none. Returns the ids of those that have another one.

        Here they are compared right before the write; a store that can compares them in the transaction that writes.
        """
        changed = changed_since(versions, await self.document_versions(collection, list(versions), scope=scope))
        if not changed:
            await self.replace(collection, documents, records, scope=scope)
        return changed

    async def replace_parts(
        self,
        collection: str,
        document: DocumentSummary,
        parts: AsyncIterator[Sequence[VectorRecord]],
        *,
        version: str | None = None,
        scope: str = "",
    ) -> int | None:
        """`replace` of one document that is too large for memory. It is published after its last part, whole; when
        `parts` raises, nothing has happened.

        Args:
            document: Its `chunk_count` may be unknown yet.
            parts: Its records, in the order of their chunk indexes, some thousand at a time.
            version: The version that is to be replaced, as `document_versions` gave it; None: whatever is there.

        Returns: Number of chunks that were there before; None: there is another version now, and it stays.
        Raises: ConfigurationError: this store takes documents whole (`takes_parts`). ValueError: the order is wrong.
        """
        raise ConfigurationError(
            f"{type(self).__name__} takes documents whole, not in parts: split {document.document_id!r}, or use a "
            "SQLiteStore"
        )

    @abstractmethod
    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        """Remove whole documents within `metadata_filter`; unknown ids are skipped. Returns the chunks removed."""

    @abstractmethod
    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        """Remove whole documents whose document metadata matches. Returns their ids, sorted."""

    @abstractmethod
    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        """Semantic and keyword search, ranked by `request.rank`, over one state of the collection."""

    @abstractmethod
    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        """Exact chunks, in the order of `keys`; missing ones are left out."""

    @abstractmethod
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
        """Chunks of one document with ``offset <= chunk_index < offset + limit``, by (scope, chunk index)."""

    @abstractmethod
    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        """Number of chunks whose own metadata matches."""

    @abstractmethod
    def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """Every record with its vector, by (scope, document id, chunk index), in bounded memory."""

    async def scan(
        self, collection: str, metadata_filter: FilterLike | None = None, *, pattern: TextPattern | None = None
    ) -> AsyncIterator[list[DocumentText]]:
        """The text of every document, some at a time, each document once: without its chunks that do not match.

        Args:
            pattern: Documents in which it cannot occur may be left out.
        """
        page: list[VectorRecord] = []
        begun = 0
        async for record in self.iterate(collection, metadata_filter):
            if not page or page[-1].key[:2] != record.key[:2]:
                if begun >= _SCANNED_AT_ONCE:
                    yield texts_of(page)
                    page, begun = [], 0
                begun += 1
            page.append(record)
        if page:
            yield texts_of(page)

    async def scan_document(
        self, collection: str, document_id: str, metadata_filter: FilterLike | None = None
    ) -> AsyncIterator[list[DocumentText]]:
        """`scan` of the documents of this id."""
        records = await self.list_chunks(collection, document_id, limit=_EVERYTHING, metadata_filter=metadata_filter)
        yield texts_of(records)

    def _check_keyword_search(self, request: RetrieveRequest) -> None:
        """Raises: ConfigurationError: texts are asked of a store without keyword search."""
        if request.texts and not self.keyword_search:
            raise ConfigurationError(f"{type(self).__name__} was made with keyword=False; it finds by vectors only")


async def all_records(
    store: NativeStoreBase, collection: str, summary: DocumentSummary, *, with_vectors: bool = True
) -> list[VectorRecord]:
    """The chunks of one document."""
    if not summary.chunk_count:
        return []
    found = await store.list_chunks(collection, summary.document_id, limit=_EVERYTHING, with_vectors=with_vectors)
    return [record for record in found if record.scope == summary.scope]


async def first_chunk(store: NativeStoreBase, collection: str) -> Chunk | None:
    """Some chunk of any scope; None for a collection without."""
    async for record in store.iterate(collection, batch_size=1):
        return record.chunk
    return None


def changed_since(versions: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Ids of the documents of `versions` that have another version now, or none."""
    return {document_id for document_id, version in versions.items() if now.get(document_id) != version}


def _digest(summary: DocumentSummary, records: Iterable[VectorRecord]) -> str:
    found = hashlib.sha256(summary.model_dump_json().encode())
    for record in records:
        found.update(record.model_dump_json().encode())
    return found.hexdigest()


def texts_of(records: Iterable[VectorRecord]) -> list[DocumentText]:
    """The text of each document; records in order of their keys."""
    found: list[DocumentText] = []
    for record in records:
        scope, document_id, index = record.key
        if not found or found[-1][:2] != (scope, document_id):
            found.append(DocumentText(scope, document_id, []))
        chunk = record.chunk
        found[-1].parts.append(TextPart(index, chunk.section_index, chunk.span, chunk.text))
    return found


class TransactionalStoreBase(NativeStoreBase):
    """A store that compares versions of documents in the transaction that writes."""

    async def replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        scope: str = "",
    ) -> int:
        before, _ = await self._replace(collection, documents, records, {}, scope)
        return before

    async def _replace_where(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        versions: Mapping[str, str],
        scope: str,
    ) -> set[str]:
        _, changed = await self._replace(collection, documents, records, versions, scope)
        return changed

    @abstractmethod
    async def _replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        versions: Mapping[str, str],
        scope: str,
    ) -> tuple[int, set[str]]:
        """The number of chunks that were there, and the documents with another version: then nothing is written."""


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
