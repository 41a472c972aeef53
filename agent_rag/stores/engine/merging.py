"""What a plain `insert` makes of a document: its records, or those that are there with the new ones among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    scope: str,
    new: Mapping[Name, Sequence[VectorRecord]],
    stored: Mapping[Name, DocumentSummary],
    before: Mapping[Name, Sequence[VectorRecord]],
) -> tuple[list[DocumentSummary], list[VectorRecord]]:
    """The documents of one scope after an insert.

    Args:
        new: What is inserted into each document, each chunk once.
        stored: Summaries of those that are there.
        before: Their records, with vectors.

    Returns: Their summaries and all their records; of two with one chunk index the inserted one.
    """
    documents = [
        _merged(records, stored.get(name), before.get(name, ())) for name, records in new.items() if name[0] == scope
    ]
    return [summary for summary, _ in documents], [record for _, records in documents for record in records]


def _merged(
    records: Sequence[VectorRecord], stored: DocumentSummary | None, before: Sequence[VectorRecord]
) -> tuple[DocumentSummary, list[VectorRecord]]:
    """A document that was only inserted is described by its chunk with the lowest index. A summary that says something
    else came with `replace`, and stays."""
    chunks = {record.chunk.chunk_index: record for record in (*before, *records)}
    summary = _described([*chunks.values()])
    if stored is not None and (not before or _facts(stored) != _facts(_described(before))):
        summary = stored
    return summary, list(chunks.values())


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
