"""Changing what is stored of documents without their files and without embedding: read, change, replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from ..documents import DocumentSummary, VectorRecord, storable_metadata
from ..errors import ConfigurationError

BATCH_CHUNKS = 512
BATCH_DOCUMENTS = 64


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


async def batches(
    summaries: Sequence[DocumentSummary], read: Callable[[DocumentSummary], Any]
) -> AsyncIterator[list[tuple[DocumentSummary, list[VectorRecord]]]]:
    """Documents with their records, as many at a time as one write takes; a document is never cut."""
    batch: list[tuple[DocumentSummary, list[VectorRecord]]] = []
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
