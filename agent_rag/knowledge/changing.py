"""The writes of a knowledge base."""

from __future__ import annotations

import asyncio
import os
import unicodedata
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from .._util.spool import in_threads
from .._util.tracing import span
from ..documents import (
    Chunk,
    DocumentSummary,
    VectorRecord,
    scope_key,
    storable_metadata,
)
from ..errors import ConfigurationError, redact
from ..events import (
    DocumentsDeleted,
    DocumentsRefused,
    DocumentsReplaced,
    MetadataUpdated,
    Trigger,
    emit,
)
from ..filters import FilterLike, all_of, as_filter
from .document import Document, WriteReport
from .reading import Reading, check_list
from .tables import with_tables_of
from .updating import DocumentChange, StoredDocument, changed, check_change, rewrite
from .writing import (
    check_chunks,
    check_documents,
    indexable,
    overview_of,
    prepare,
    prepared_chunks,
    records_of,
    reject_duplicates,
    summary_of,
)


class Changing(Reading):
    """Insert, replace, delete and update whole documents, within the scope, and tell who listens."""

    async def insert_document(
        self,
        chunks: Sequence[Chunk],
        document_id: str | None = None,
        document_metadata: Mapping[str, Any] | None = None,
        *,
        title: str | None = None,
        uri: str | None = None,
        trigger: Trigger = "user",
    ) -> str:
        """Write `chunks` as one document; a known `document_id` is replaced whole.

        Everything is embedded before anything is written, so a failure leaves what was there. Metadata of the scope
        wins over the chunk's, the chunk's over `document_metadata`. No chunks: nothing happens.

        Returns: The document id, new when None was given.
        Raises: EmbeddingError, StoreError, RecordError, LimitExceededError; DimensionMismatchError and
            ModelMismatchError when the collection belongs to another model.
        """
        check_chunks(chunks)
        document_id = document_id or uuid.uuid4().hex
        if chunks:
            document = Document(
                document_id=document_id,
                chunks=list(chunks),
                metadata=dict(document_metadata or {}),
                title=title,
                uri=uri,
            )
            await self.replace_documents([document], trigger=trigger)
        return document_id

    async def replace_documents(
        self,
        documents: Sequence[Document],
        *,
        trigger: Trigger = "user",
        known_vectors: Mapping[str, Sequence[float]] | None = None,
        tell_refused: bool = True,
    ) -> WriteReport:
        """Write whole documents, each replacing what was stored under its id in this scope.

        One without a chunk that can be indexed is removed; if its state has a status, that is remembered.

        Args:
            documents: With different ids.
            trigger: Who asked for it, for the audit event.
            known_vectors: Vectors of this model by what is embedded, as `known_vectors` gives them.
            tell_refused: Emit `DocumentsRefused` on failure; a caller that tries smaller parts next does not want it.

        Raises: ValueError: an id occurs twice. Otherwise as `insert_document`.
        """
        ids = [document.document_id for document in documents]
        return await self._told(self._replace(documents, known_vectors), ids, trigger, tell_refused=tell_refused)

    async def replace_in_parts(
        self,
        document: Document,
        parts: Iterable[Sequence[Chunk]],
        *,
        known_vectors: Callable[[Sequence[Chunk]], Awaitable[Mapping[str, Sequence[float]]]] | None = None,
        trigger: Trigger = "user",
    ) -> WriteReport:
        """`replace_documents` of one document that is too large for memory; where `takes_parts`.

        A part at a time is embedded and given to the store, which publishes the document whole after the last one. When
        that fails, what was there stays.

        Args:
            document: Without chunks.
            parts: Its chunks in order, some thousand at a time; gone through twice, in threads.
            known_vectors: Asked for each part, whose chunks are as they will be stored; default: all are embedded.

        Raises: As `replace_documents`; ConfigurationError: the store takes documents whole.
        """
        replaced = self._replace_in_parts(document, parts, known_vectors)
        return await self._told(replaced, [document.document_id], trigger)

    async def _told(
        self,
        write: Coroutine[Any, Any, tuple[WriteReport, tuple[str, ...], dict[str, int]]],
        ids: Sequence[str],
        trigger: Trigger,
        *,
        tell_refused: bool = True,
    ) -> WriteReport:
        """Do it, and tell who listens."""
        try:
            with span("replace", documents=len(ids)) as told:
                report, written, gone = await write
                told.set_attribute("chunks", report.chunk_count)
        except Exception as error:
            if tell_refused:
                await self._refused(ids, error, trigger)
            raise
        if written:
            event = DocumentsReplaced(
                knowledge_base=self.name, document_ids=written, chunk_count=report.chunk_count, trigger=trigger
            )
            await emit(self._on_event, event)
        await self._deleted(list(gone), trigger=trigger, chunk_count=sum(gone.values()))
        return report

    async def _replace(
        self, documents: Sequence[Document], known_vectors: Mapping[str, Sequence[float]] | None
    ) -> tuple[WriteReport, tuple[str, ...], dict[str, int]]:
        """The report, the ids that were written, and the chunks of each document that is gone for being empty."""
        scope = self.metadata_filter
        check_documents(documents, self.limits, self.name)
        report = WriteReport()
        prepared = [prepare(document, scope, self._embedder, self.limits, report) for document in documents]
        await self._stored.open()
        chunks = [chunk for document in prepared for chunk in document.chunks]
        analysis = await self._keyword_fields.of(chunks)
        for chunk in chunks:
            chunk.analysis = analysis
        vectors = await self._embedder.vectors(chunks, known_vectors, report)
        key = scope_key(scope)
        replaced: list[DocumentSummary] = []
        if self._tables is not None:
            replaced = await self._summaries([document.document_id for document in prepared])
            prepared = await self._tables.kept(prepared, key)
        given = iter(vectors if self.atomic else map(list, vectors))
        records: list[VectorRecord] = []
        for document in prepared:
            own = list(islice(given, len(document.chunks)))
            records += records_of(document.document_id, document.chunks, own, key)
        kept = [summary_of(document, key) for document in prepared if document.chunks or "status" in document.state]
        empty = [document.document_id for document in prepared if not document.chunks]
        gone = await self.chunk_counts(empty) if empty else {}
        if kept:
            report.replaced_chunks += await self._stored.replace(kept, records, key)
        if removed := sorted(set(empty) - {summary.document_id for summary in kept}):
            report.replaced_chunks += await self._store.delete_documents(self.collection, removed, as_filter(scope))
        if self._tables is not None:
            await self._tables.forget(replaced)
        report.chunk_count = len(records)
        written = tuple(document.document_id for document in prepared if document.chunks)
        return report, written, gone

    async def _replace_in_parts(
        self,
        document: Document,
        parts: Iterable[Sequence[Chunk]],
        known_vectors: Callable[[Sequence[Chunk]], Awaitable[Mapping[str, Sequence[float]]]] | None,
    ) -> tuple[WriteReport, tuple[str, ...], dict[str, int]]:
        """As `_replace`."""
        scope = self.metadata_filter
        check_documents([document], self.limits, self.name)
        report = WriteReport()
        overview = await asyncio.to_thread(overview_of, parts, self._embedder, report)
        if overview.first is None:
            return await self._replace([document], None)
        self.limits.check("chunks_per_document", overview.chunks, f"chunks of document {document.document_id[:80]!r}")
        await self._stored.open()

        async def records() -> AsyncIterator[list[VectorRecord]]:
            async for part in in_threads(parts):
                kept = indexable(part, self._embedder, WriteReport())
                chunks = await asyncio.to_thread(
                    prepared_chunks, document, kept, scope, self.limits, first=report.chunk_count, total=overview.chunks
                )
                analysis = await self._keyword_fields.of(chunks)
                for chunk in chunks:
                    chunk.analysis = analysis
                known = None if known_vectors is None else await known_vectors(chunks)
                vectors = await self._embedder.vectors(chunks, known, report)
                report.chunk_count += len(chunks)
                yield await asyncio.to_thread(records_of, document.document_id, chunks, vectors, key)

        key = scope_key(scope)
        metadata = storable_metadata({**document.metadata, **overview.common, **(scope or {})})
        head = document.model_copy(update={"metadata": metadata, "chunks": [overview.first]})
        replaced: list[DocumentSummary] = []
        if self._tables is not None:
            replaced = await self._summaries([document.document_id])
            (head,) = await self._tables.kept([head], key)
        before = await self._store.replace_parts(self.collection, summary_of(head, key), records(), scope=key)
        report.replaced_chunks = before or 0
        if self._tables is not None:
            await self._tables.forget(replaced)
        return report, (document.document_id,), {}

    async def delete_document(self, document_id: str, *, trigger: Trigger = "user") -> int:
        """Remove a document: by its id, also with ``./`` before it or in another Unicode form, or by the absolute path
        of its file. Relative paths are none of its names; the command line knows the working directory.

        Returns: The number of chunks removed; 0 for an unknown id, and nothing happens.
        """
        removed = await self.delete_documents([document_id], trigger=trigger)
        if removed == 0 and (other := await self._other_name(document_id)) is not None:
            removed = await self.delete_documents([other], trigger=trigger)
        return removed

    async def delete_documents(self, document_ids: Sequence[str], *, trigger: Trigger = "user") -> int:
        """Remove documents; unknown ids are skipped. Returns the number of chunks removed.

        Raises: ValueError: an id occurs twice.
        """
        check_list("document_ids", document_ids)
        reject_duplicates(document_ids)
        scope = as_filter(self.metadata_filter)
        listed = await self._summaries(document_ids)
        try:
            removed = await self._stored.if_there(
                0, lambda: self._store.delete_documents(self.collection, document_ids, scope)
            )
        except Exception as error:
            await self._refused(document_ids, error, trigger)
            raise
        if self._tables is not None:
            await self._tables.forget(listed)
        there = [summary.document_id for summary in listed if summary.chunk_count]
        await self._deleted(there, chunk_count=removed, trigger=trigger)
        return removed

    async def delete_by_filter(self, filter: FilterLike, *, trigger: Trigger = "user") -> list[str]:
        """Remove the documents whose metadata matches `filter`. Returns their ids, sorted."""
        scoped = all_of(self.metadata_filter, filter)
        if scoped is None:
            raise ConfigurationError("delete_by_filter needs a filter; to remove everything, drop the collection")
        listed: list[DocumentSummary] = await self._stored.if_there(
            [], lambda: self._store.list_documents(self.collection, scoped)
        )
        document_ids: list[str] = await self._stored.if_there(
            [], lambda: self._store.delete_by_filter(self.collection, scoped)
        )
        gone = set(document_ids)
        if self._tables is not None:
            await self._tables.forget([item for item in listed if item.document_id in gone])
        count = sum(item.chunk_count for item in listed if item.document_id in gone)
        await self._deleted(document_ids, chunk_count=count, trigger=trigger)
        return document_ids

    async def update_documents(
        self, filter: FilterLike, *, metadata: Mapping[str, Any], trigger: Trigger = "user"
    ) -> list[str]:
        """Set metadata of the documents that match, and of all their chunks; nothing is parsed or embedded.

        Each document changes at once: a reader sees it as it was or as it is. A later ingestion of a changed file
        writes the metadata of its source again; give what shall last to the source.

        Args:
            filter: On the document's metadata; ``None`` is refused, an empty mapping is every document.
            metadata: Fields to set; the value None removes a field.

        Returns: The ids of the documents that were changed, sorted.
        Raises: ConfigurationError: a field belongs to the scope. LimitExceededError, FilterError, StoreError.
        """
        if filter is None:
            raise ConfigurationError("update_documents needs a filter; an empty mapping {} means every document")
        check_change(
            metadata, self.metadata_filter, lambda count: self.limits.check("metadata_fields", count, "metadata")
        )
        listed = await self.list_documents(filter=filter or None)
        change = DocumentChange(metadata=dict(metadata))
        await self.change_documents({summary.document_id: change for summary in listed})
        changed_ids = tuple(sorted(summary.document_id for summary in listed))
        if changed_ids:
            event = MetadataUpdated(
                knowledge_base=self.name, document_ids=changed_ids, fields=tuple(sorted(metadata)), trigger=trigger
            )
            await emit(self._on_event, event)
        return list(changed_ids)

    async def change_documents(self, changes: Mapping[str, DocumentChange]) -> None:
        """Write documents again with another metadata, uri or state, and with the vectors they have.

        Args:
            changes: Document id -> change; one that is not there is skipped.
        """

        def change(summary: DocumentSummary, records: list[VectorRecord]) -> StoredDocument:
            wanted = _with_its_tables(changes[summary.document_id], summary)
            return changed(summary, records, wanted)

        async def write() -> None:
            async for _ in rewrite(self._store, self.collection, list(changes), change, scope=key):
                pass

        key = scope_key(self.metadata_filter)
        await self._stored.if_there(None, write)

    async def _other_name(self, name: str) -> str | None:
        spelled = unicodedata.normalize("NFC", name.removeprefix("./"))
        if not os.path.isabs(name):
            return spelled if spelled not in ("", name) else None
        uri = Path(name).as_uri()
        return next((one.document_id for one in await self.list_documents() if one.uri == uri), None)

    async def _deleted(self, document_ids: Sequence[str], *, chunk_count: int, trigger: Trigger) -> None:
        if document_ids:
            event = DocumentsDeleted(
                knowledge_base=self.name, document_ids=tuple(document_ids), chunk_count=chunk_count, trigger=trigger
            )
            await emit(self._on_event, event)

    async def _refused(self, document_ids: Sequence[str], error: Exception, trigger: Trigger) -> None:
        event = DocumentsRefused(
            knowledge_base=self.name,
            document_ids=tuple(document_ids),
            reason=redact(str(error) or type(error).__name__),
            trigger=trigger,
        )
        await emit(self._on_event, event)


def _with_its_tables(change: DocumentChange, summary: DocumentSummary) -> DocumentChange:
    if change.state is None:
        return change
    return change.model_copy(update={"state": with_tables_of(change.state, summary.state)})
