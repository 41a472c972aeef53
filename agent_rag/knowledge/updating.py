"""Changing what is stored of documents without their files and without embedding: read, change, replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from ..documents import DocumentSummary, VectorRecord, storable_metadata
from ..errors import ConfigurationError, StoreError
from ..stores.native import NativeStoreBase, all_records
from ..stores.versions.groups import slices
from .document import PART_CHUNKS

BATCH_CHUNKS = 512
BATCH_DOCUMENTS = 64
_ATTEMPTS = 50

StoredDocument = tuple[DocumentSummary, list[VectorRecord]]
Change = Callable[[DocumentSummary, list[VectorRecord]], StoredDocument | None]
"""Gives what to write of a document, of which it may get a part of the records; None leaves it."""


class DocumentChange(BaseModel):
    """What is to be another in a stored document; None leaves it."""

    metadata: dict[str, Any] | None = None
    """Fields to set on the document and on all its chunks; the value None removes a field."""
    uri: str | None = None
    state: dict[str, str] | None = None
    """Instead of the state that is stored."""


def changed(
    summary: DocumentSummary, records: Sequence[VectorRecord], change: DocumentChange
) -> tuple[DocumentSummary, list[VectorRecord]]:
    """Copies of a document and its records with the change."""
    fields = storable_metadata(change.metadata or {})
    update: dict[str, Any] = {"metadata": _merged(summary.metadata, fields)}
    if change.uri is not None:
        update["uri"] = change.uri
    if change.state is not None:
        update["state"] = change.state
    written = []
    for record in records:
        of_chunk: dict[str, Any] = {"metadata": _merged(record.chunk.metadata, fields)}
        if change.uri is not None:
            of_chunk["uri"] = change.uri
        written.append(record.model_copy(update={"chunk": record.chunk.model_copy(update=of_chunk)}))
    return summary.model_copy(update=update), written


def check_change(metadata: Mapping[str, Any], scope: Mapping[str, Any] | None, allowed: Callable[[int], None]) -> None:
    """Raises: ConfigurationError: nothing to change, or a field of the scope. LimitExceededError, by `allowed`."""
    if not metadata:
        raise ConfigurationError("update_documents got no metadata; pass the fields to set, None removes one")
    if fixed := sorted(set(metadata) & set(scope or {})):
        raise ConfigurationError(
            f"{', '.join(fixed)} belongs to the scope of this knowledge base; it tells tenants apart and stays"
        )
    allowed(len(metadata))


class Rewritten(NamedTuple):
    """What one write of `rewrite` did."""

    documents: int
    """That were written."""
    chunks: int
    """Their chunks."""
    unchanged: int
    """Documents that were left as they are."""


async def rewrite(
    store: NativeStoreBase,
    collection: str,
    document_ids: Sequence[str],
    change: Change,
    *,
    scope: str,
) -> AsyncIterator[Rewritten]:
    """Read documents of a scope, change and replace them, some at a time, with the vectors they have.

    One that somebody writes meanwhile is read again, one that is deleted stays so.

    Raises: StoreError: documents are written all the time.
    """
    pending: Sequence[str] = document_ids
    for _ in range(_ATTEMPTS):
        lost: list[str] = []
        for ids in slices(pending, BATCH_DOCUMENTS):
            versions = await store.document_versions(collection, ids, scope=scope)
            found = await store.list_documents(collection, document_ids=list(versions))
            summaries = [one for one in found if one.scope == scope]
            large = [one for one in summaries if store.takes_parts and one.chunk_count > PART_CHUNKS]
            for one in large:
                done = await _rewrite_parts(store, collection, one, change, versions[one.document_id])
                lost += [] if done is not None else [one.document_id]
                yield done or Rewritten(0, 0, 0)
            others = [one for one in summaries if one not in large]
            async for batch in batches(others, lambda one: all_records(store, collection, one)):
                written = [after for before in batch if (after := change(*before)) is not None]
                records = [record for _, of_one in written for record in of_one]
                heads = [summary for summary, _ in written]
                missed = await store.replace_unchanged(collection, heads, records, versions=versions, scope=scope)
                lost += missed
                kept = sum(record.document_id not in missed for record in records)
                yield Rewritten(len(written) - len(missed), kept, len(batch) - len(written))
        if not (pending := lost):
            return
    raise StoreError(
        f"documents {pending[:5]!r} of collection {collection!r} are written all the time: {_ATTEMPTS} attempts lost; "
        "stop who writes, and run this again: what is done is kept"
    )


async def _rewrite_parts(
    store: NativeStoreBase, collection: str, summary: DocumentSummary, change: Change, version: str
) -> Rewritten | None:
    """`rewrite` of one document that is too large for memory; whether it is left is told by its first part. None: it
    was written meanwhile."""

    async def read(offset: int) -> list[VectorRecord]:
        found = await store.list_chunks(
            collection, summary.document_id, offset=offset, limit=PART_CHUNKS, with_vectors=True
        )
        return [record for record in found if record.scope == summary.scope]

    async def parts() -> AsyncIterator[list[VectorRecord]]:
        for offset in range(0, summary.chunk_count, PART_CHUNKS):
            records = await read(offset)
            after = change(summary, records)
            yield records if after is None else after[1]

    after = change(summary, await read(0))
    if after is None:
        return Rewritten(0, 0, 1)
    written = await store.replace_parts(collection, after[0], parts(), version=version, scope=summary.scope)
    return None if written is None else Rewritten(1, summary.chunk_count, 0)


async def batches(
    summaries: Sequence[DocumentSummary], read: Callable[[DocumentSummary], Awaitable[list[VectorRecord]]]
) -> AsyncIterator[list[StoredDocument]]:
    """Documents with their records, as many at a time as one write takes; a document is never cut."""
    batch: list[StoredDocument] = []
    size = 0
    for summary in summaries:
        records = await read(summary)
        if batch and (size + len(records) > BATCH_CHUNKS or len(batch) >= BATCH_DOCUMENTS):
            yield batch
            batch, size = [], 0
        batch.append((summary, records))
        size += len(records)
    if batch:
        yield batch


def _merged(metadata: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**metadata, **fields}.items() if not (name in fields and value is None)}
