"""Indexing the words of a collection anew from what is stored, without embedding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby

from pydantic import BaseModel

from ..documents import DocumentSummary, VectorRecord
from ..retrieval.prose import Composition
from ..stores.native import NativeStoreBase
from .updating import batches

_EVERYTHING = 2**31 - 1
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

    async def read(summary: DocumentSummary) -> list[VectorRecord]:
        records = await _records(store, collection, summary, with_vectors=True)
        return [] if all(record.chunk.analysis == analysis for record in records) else records

    for scope, of_scope in groupby(summaries, lambda summary: summary.scope):
        async for batch in batches(list(of_scope), read):
            changed = [(summary, records) for summary, records in batch if records]
            report.unchanged += len(batch) - len(changed)
            written = [_with(record, analysis) for _, records in changed for record in records]
            if changed:
                await store.replace(collection, [summary for summary, _ in changed], written, scope=scope)
            report.documents += len(changed)
            report.chunks += len(written)
            if on_progress is not None:
                on_progress(report.documents + report.unchanged, len(summaries))
    return report


async def _composition(store: NativeStoreBase, collection: str, summaries: Sequence[DocumentSummary]) -> Composition:
    composition = Composition()
    left = _SAMPLE
    for summary in summaries[:: max(1, len(summaries) // _SAMPLE)]:
        if left <= 0:
            break
        records = await _records(store, collection, summary, with_vectors=False)
        sample = [record.chunk.indexed_text for record in records[:: max(1, len(records) * len(summaries) // _SAMPLE)]]
        await asyncio.to_thread(composition.add, sample)
        left -= len(sample)
    return composition


async def _records(
    store: NativeStoreBase, collection: str, summary: DocumentSummary, *, with_vectors: bool
) -> list[VectorRecord]:
    found = await store.list_chunks(collection, summary.document_id, limit=_EVERYTHING, with_vectors=with_vectors)
    return [record for record in found if record.scope == summary.scope]


def _with(record: VectorRecord, analysis: str) -> VectorRecord:
    return record.model_copy(update={"chunk": record.chunk.model_copy(update={"analysis": analysis})})
