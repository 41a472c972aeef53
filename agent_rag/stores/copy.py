"""Moving a collection from one store to another, vectors included."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pydantic import BaseModel, Field

from ..documents import Chunk, DocumentSummary, VectorRecord
from ..errors import CollectionNotFoundError, ConfigurationError, DimensionMismatchError, ModelMismatchError
from ..retrieval.analysis import WORDS
from .base import VectorStoreBase
from .native import NativeStoreBase, first_chunk

__all__ = ["CopyReport", "copy_collection"]

_BATCH_CHUNKS = 1_000


class CopyReport(BaseModel):
    """What was copied."""

    documents: int = 0
    chunks: int = 0
    seconds: float = 0.0
    notes: list[str] = Field(default_factory=list)
    """What became another than it was, one sentence each."""


async def copy_collection(
    source: VectorStoreBase,
    collection: str,
    target: VectorStoreBase,
    target_collection: str | None = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> CopyReport:
    """Copy every document of a collection with its vectors, in bounded memory; nothing is embedded again.

    Documents of the same scope and id in the target are replaced, so a copy that was interrupted can be run again.
    Words are indexed with the fields that the target's chunks have, since those of a collection are indexed alike.

    Args:
        source, target: Entered stores.
        on_progress: Called with (chunks done, chunks in all).

    Raises: CollectionNotFoundError: no such collection. DimensionMismatchError, ModelMismatchError: the target
        collection belongs to another model. ConfigurationError: a store has the seven methods only.
    """
    source, target = _native(source), _native(target)
    started = time.monotonic()
    info = await source.collection_info(collection)
    if info is None:
        raise CollectionNotFoundError(f"there is no collection {collection!r}; the store has others, or none")
    name = target_collection or collection
    opened = await target.open_collection(name, info.dimensions, fingerprint=info.fingerprint)
    if opened.dimensions != info.dimensions:
        raise DimensionMismatchError(
            f"target collection {name!r} holds {opened.dimensions}-dimensional vectors, {collection!r} "
            f"{info.dimensions}; copy to another name with #COLLECTION"
        )
    if opened.fingerprint and info.fingerprint and opened.fingerprint != info.fingerprint:
        raise ModelMismatchError(
            f"target collection {name!r} was built with {opened.fingerprint!r}, {collection!r} with "
            f"{info.fingerprint!r}; copy to another name with #COLLECTION"
        )
    summaries = {(summary.scope, summary.document_id): summary for summary in await source.list_documents(collection)}
    total = sum(summary.chunk_count for summary in summaries.values())
    report = CopyReport()
    fields = await _Fields.of(target, name)
    batch: list[list[VectorRecord]] = []
    size = 0
    async for record in source.iterate(collection):
        if not batch or _document(batch[-1][0]) != _document(record):
            if size >= _BATCH_CHUNKS:
                await _write(target, name, batch, summaries, report)
                batch, size = [], 0
                if on_progress is not None:
                    on_progress(report.chunks, total)
            batch.append([])
        batch[-1].append(fields.given(record))
        size += 1
    await _write(target, name, batch, summaries, report)
    if on_progress is not None:
        on_progress(report.chunks, total)
    report.notes = fields.notes(name, collection)
    report.seconds = time.monotonic() - started
    return report


class _Fields:
    """The fields of the target's keyword index (`Chunk.analysis`), where it has chunks."""

    def __init__(self, first: Chunk | None) -> None:
        self._first = first
        self._others: set[str] = set()

    @classmethod
    async def of(cls, target: NativeStoreBase, collection: str) -> _Fields:
        return cls(await first_chunk(target, collection) if target.keyword_search else None)

    def given(self, record: VectorRecord) -> VectorRecord:
        """A record with these fields."""
        if self._first is None or record.chunk.analysis == self._first.analysis:
            return record
        self._others.add(record.chunk.analysis or WORDS)
        chunk = record.chunk.model_copy(update={"analysis": self._first.analysis})
        return record.model_copy(update={"chunk": chunk})

    def notes(self, target: str, source: str) -> list[str]:
        if self._first is None or not self._others:
            return []
        return [
            f"target collection {target!r} has the keyword fields {self._first.analysis or WORDS}, {source!r} has "
            f"{', '.join(sorted(self._others))}; what was copied is indexed with those of the target "
            "(`agent-rag reindex --keywords` changes them)"
        ]


def _document(record: VectorRecord) -> tuple[str, str]:
    return record.scope, record.document_id


async def _write(
    target: NativeStoreBase,
    collection: str,
    batch: Sequence[list[VectorRecord]],
    summaries: dict[tuple[str, str], DocumentSummary],
    report: CopyReport,
) -> None:
    by_scope: dict[str, list[list[VectorRecord]]] = {}
    for records in batch:
        by_scope.setdefault(records[0].scope, []).append(records)
    for scope, documents in by_scope.items():
        heads = [summaries[_document(records[0])] for records in documents]
        flat = [record for records in documents for record in records]
        await target.replace(collection, heads, flat, scope=scope)
        report.documents += len(heads)
        report.chunks += len(flat)


def _native(store: VectorStoreBase) -> NativeStoreBase:
    if not isinstance(store, NativeStoreBase):
        raise ConfigurationError(
            f"{type(store).__name__} has the seven methods of VectorStoreBase only; copying needs a NativeStoreBase"
        )
    return store
