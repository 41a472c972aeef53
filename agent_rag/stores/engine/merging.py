"""What a plain `insert` makes of a document: its records, or those that are there with the new ones among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...documents import DocumentSummary, VectorRecord

Name = tuple[str, str]
"""``(scope, document id)``."""


def by_name(records: Iterable[VectorRecord]) -> dict[Name, list[VectorRecord]]:
    """Records by the document that they belong to."""
    found: dict[Name, list[VectorRecord]] = {}
    for record in records:
        found.setdefault((record.scope, record.document_id), []).append(record)
    return found


def merged(
    records: Sequence[VectorRecord], stored: DocumentSummary | None, before: Sequence[VectorRecord]
) -> tuple[DocumentSummary, list[VectorRecord]]:
    """A document after an insert.

    A document that was only inserted is described by its chunk with the lowest index. A summary that says something
    else came with `replace`, and stays.

    Args:
        records: What is inserted into one document, each chunk once.
        stored: Its summary; None for a new document.
        before: Its records, with their vectors.

    Returns: Its summary and all its records; of two with one chunk index the inserted one.
    """
    chunks = {record.chunk.chunk_index: record for record in (*before, *records)}
    summary = _described([*chunks.values()])
    if stored is not None and (not before or _facts(stored) != _facts(_described(before))):
        summary = stored
    return summary.model_copy(update={"chunk_count": len(chunks)}), list(chunks.values())


def _described(records: Sequence[VectorRecord]) -> DocumentSummary:
    first = min(records, key=lambda record: record.chunk.chunk_index)
    chunk = first.chunk
    return DocumentSummary(
        document_id=first.document_id,
        source=chunk.source,
        chunk_count=len(records),
        metadata=chunk.metadata,
        title=chunk.title,
        uri=chunk.uri,
        scope=first.scope,
    )


def _facts(summary: DocumentSummary) -> dict[str, Any]:
    return summary.model_dump(exclude={"chunk_count"})
