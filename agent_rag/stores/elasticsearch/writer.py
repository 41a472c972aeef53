"""Writing documents to one index of Elasticsearch; `schema` says how they lie there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence

from ...documents import DocumentSummary
from ...errors import StoreError
from ...filters import FilterLike, matches
from ..engine.prepared import NewDocument, by_document
from ..engine.records import Prepared
from ..versions.groups import at_most, grouped
from ..versions.heads import Head, Name, check_indexes
from .client import CONFLICT, Action
from .reads import Reader
from .schema import (
    HEAD_ID,
    IS_CHUNK,
    WRITTEN,
    ChunkDocument,
    Stored,
    chunk_doc_id,
    condition,
    head_doc_id,
    head_document,
    head_of_chunks,
    new_version,
)

_ATTEMPTS = 50
_GROUP_CHUNKS = 1_000
_GROUP_DOCUMENTS = 200
# A writer at work is younger.
_LEFTOVER_S = 3_600


PreparedDocument = NewDocument[ChunkDocument]


def prepare_documents(summaries: Sequence[DocumentSummary], prepared: Prepared) -> list[PreparedDocument]:
    """Everything that needs no server, for a worker thread.

    Raises: RecordError: a chunk index is too high.
    """
    check_indexes(prepared.records)
    found = by_document(summaries, prepared, lambda record, vector: ChunkDocument.of(record, vector.tolist()))
    return [NewDocument(summary, chunks) for summary, chunks in found]


class Writer:
    """The write operations."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._connection = reader.connection
        self._index = reader.index
        self._refresh = reader.connection.options.refresh

    async def replace(self, documents: Sequence[PreparedDocument]) -> int:
        """Publish whole documents, each at one moment. Returns the number of chunks they had before."""
        before = 0
        for group in _groups(documents):
            before += await self._publish(group)
        return before

    async def delete(self, names: Sequence[Name], metadata_filter: FilterLike | None = None) -> tuple[list[Name], int]:
        """Remove documents that match: first the heads, so that no chunk of them counts. Returns which, and the number
        of their chunks."""
        gone: list[Stored] = []
        pending = list(names)
        for attempt in range(_ATTEMPTS):
            heads = list((await self._reader.heads(pending)).values()) if pending else []
            heads = [head for head in heads if matches(metadata_filter, _metadata(head))]
            actions = [_delete_head(one) for one in heads]
            statuses = await self._connection.bulk(self._index, actions, refresh=self._refresh)
            pending = [one.name for one, status in zip(heads, statuses, strict=True) if status == CONFLICT]
            gone += [one for one, status in zip(heads, statuses, strict=True) if status < 300]
            if not pending:
                break
            await asyncio.sleep(0.002 * attempt)
        else:
            raise self._contended(pending)
        await self._delete_rows(gone)
        return [one.name for one in gone], sum(one.head.count for one in gone)

    # --- publishing ---

    async def _publish(self, group: Sequence[PreparedDocument]) -> int:
        version_of = {document.name: new_version() for document in group}
        try:
            await self._write_rows(group, version_of)
        except BaseException:
            undo = [
                Action.delete(chunk_doc_id(version_of[document.name], chunk.index), head_doc_id(document.name))
                for document in group
                for chunk in document.chunks
            ]
            with contextlib.suppress(Exception):  # the first error says more, and no head names these rows
                await self._connection.bulk(self._index, undo, refresh=False)
            raise
        # An error from here on leaves the rows: a head may name them.
        replaced = await self._swap_heads(group, version_of)
        await self._delete_rows(replaced)
        await self._remove_leftovers([head.name for head in replaced], list(version_of.values()))
        self._reader.forget_statistics()
        return sum(one.head.count for one in replaced)

    async def _write_rows(self, group: Sequence[PreparedDocument], version_of: Mapping[Name, str]) -> None:
        """Chunks are visible before their head names them, whatever `refresh` says."""
        actions = await asyncio.to_thread(
            lambda: [
                Action.index(chunk_doc_id(version, chunk.index), head_doc_id(document.name), chunk.in_version(version))
                for document in group
                for version in [version_of[document.name]]
                for chunk in document.chunks
            ]
        )
        await self._connection.bulk(self._index, actions, refresh=self._refresh or "wait_for")

    async def _swap_heads(self, group: Sequence[PreparedDocument], version_of: Mapping[Name, str]) -> list[Stored]:
        """Make every head name its new version. Returns the heads that were replaced."""
        pending = {document.name: document for document in group}
        replaced: list[Stored] = []
        current = await self._reader.heads(list(pending))
        for attempt in range(_ATTEMPTS):
            actions = await asyncio.to_thread(
                lambda documents, current: [
                    _put_head(
                        document.summary,
                        head_of_chunks(document.chunks),
                        version_of[document.name],
                        current.get(document.name),
                    )
                    for document in documents
                ],
                list(pending.values()),
                current,
            )
            statuses = await self._connection.bulk(self._index, actions, refresh=self._refresh)
            lost = [name for name, status in zip(pending, statuses, strict=True) if status == CONFLICT]
            replaced += [current[name] for name in pending if name not in lost and name in current]
            if not lost:
                return replaced
            after = await self._reader.heads(lost)
            for name in lost:
                # The client sends a request again when the answer got lost, and then meets its own write.
                if name in after and after[name].version == version_of[name]:
                    replaced += [current[name]] if name in current else []
            pending = {
                name: pending[name] for name in lost if name not in after or after[name].version != version_of[name]
            }
            if not pending:
                return replaced
            current = after
            await asyncio.sleep(0.002 * attempt)
        raise self._contended(list(pending))

    async def _delete_rows(self, versions: Sequence[Stored]) -> None:
        actions = await asyncio.to_thread(
            lambda: [
                Action.delete(chunk_doc_id(one.version, index), head_doc_id(one.name))
                for one in versions
                for index in one.head.indexes()
            ]
        )
        await self._connection.bulk(self._index, actions, refresh=self._refresh)
        self._reader.forget_statistics()

    async def _remove_leftovers(self, names: Sequence[Name], mine: Sequence[str]) -> None:
        """Remove what crashed writers left of documents that were just replaced."""
        if not names:
            return
        aged = {"range": {WRITTEN: {"lt": int((time.time() - _LEFTOVER_S) * 1000)}}}
        of_these = {"terms": {HEAD_ID: [head_doc_id(name) for name in names]}}
        where = condition(None, IS_CHUNK, of_these, aged, without=mine)
        await self._connection.client.delete_by_query(
            index=self._index, query=where, conflicts="proceed", refresh=self._refresh is not False
        )

    def _contended(self, names: Sequence[Name]) -> StoreError:
        return StoreError(
            f"documents {sorted(name[1] for name in names)[:5]!r} of index {self._index!r} are written by others all "
            f"the time: {_ATTEMPTS} attempts lost; try again"
        )


def _put_head(summary: DocumentSummary, head: Head, version: str, before: Stored | None) -> Action:
    """Write a head where it still is `before`, or where there is none."""
    head_id, source = head_doc_id((summary.scope, summary.document_id)), head_document(summary, head, version)
    if before is None:
        return Action.create(head_id, head_id, source)
    return Action.index_over(head_id, head_id, source, before.seq_no, before.primary_term)


def _delete_head(stored: Stored) -> Action:
    head_id = head_doc_id(stored.name)
    return Action.delete_over(head_id, head_id, stored.seq_no, stored.primary_term)


def _metadata(head: Stored) -> Mapping[str, object]:
    return DocumentSummary.model_validate_json(head.summary).metadata


def _groups(documents: Sequence[PreparedDocument]) -> Iterator[list[PreparedDocument]]:
    """Documents that are published together."""
    return grouped(documents, at_most(_GROUP_DOCUMENTS), (lambda document: len(document.chunks), _GROUP_CHUNKS))
