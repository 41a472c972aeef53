"""Indexing the words of a collection anew from what is stored, without embedding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby

from pydantic import BaseModel

from ..documents import DocumentSummary, VectorRecord
from ..retrieval.prose import Composition
from ..stores.native import NativeStoreBase, all_records
from .updating import StoredDocument, rewrite

_SAMPLE = 2_000
"""Chunks, spread over the collection, that tell what it holds."""


class KeywordReindex(BaseModel):
    """What `reindex_keywords` did."""

    fields: str | None = None
    """What each chunk's keyword index has now (`Chunk.analysis`); None for a collection without chunks."""
    documents: int = 0
    """Documents that were written again."""
    chunks: int = 0
    """Their chunks."""
    unchanged: int = 0
    """Documents that had these fields already."""


async def reindex_keywords(
    store: NativeStoreBase, collection: str, *, grams: bool | None, on_progress: Callable[[int, int], None] | None
) -> KeywordReindex:
    """Give all chunks of a collection the same fields; a document is replaced as a whole, with the vectors it has."""
    summaries = [summary for summary in await store.list_documents(collection) if summary.chunk_count]
    if not summaries:
        return KeywordReindex()
    analysis = (await _composition(store, collection, summaries)).fields(grams=grams)
    report = KeywordReindex(fields=analysis)

    def change(summary: DocumentSummary, records: list[VectorRecord]) -> StoredDocument | None:
        if all(record.chunk.analysis == analysis for record in records):
            return None
        return summary, [_with(record, analysis) for record in records]

    for scope, of_scope in groupby(summaries, lambda summary: summary.scope):
        ids = [summary.document_id for summary in of_scope]
        async for done in rewrite(store, collection, ids, change, scope=scope):
            report.documents += done.documents
            report.chunks += done.chunks
            report.unchanged += done.unchanged
            if on_progress is not None:
                on_progress(report.documents + report.unchanged, len(summaries))
    return report


async def _composition(store: NativeStoreBase, collection: str, summaries: Sequence[DocumentSummary]) -> Composition:
    composition = Composition()
    left = _SAMPLE
    for summary in summaries[:: max(1, len(summaries) // _SAMPLE)]:
        if left <= 0:
            break
        records = await all_records(store, collection, summary, with_vectors=False)
        sample = [record.chunk.indexed_text for record in records[:: max(1, len(records) * len(summaries) // _SAMPLE)]]
        await asyncio.to_thread(composition.add, sample)
        left -= len(sample)
    return composition


def _with(record: VectorRecord, analysis: str) -> VectorRecord:
    return record.model_copy(update={"chunk": record.chunk.model_copy(update={"analysis": analysis})})
