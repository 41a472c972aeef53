"""Giving a collection the vectors of another embedding model, while it is searched with those it has.

The new vectors grow in a second collection, document by document, so a run that was killed goes on where it was. What
is written meanwhile is caught up. Then the two collections exchange their names, and the former one is dropped.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby

from pydantic import BaseModel

from ..documents import DocumentSummary, VectorRecord
from ..errors import ConfigurationError, StoreError
from ..stores.native import NativeStoreBase, all_records
from .collection import FRESH_S
from .document import WriteReport
from .embedder import Embedder
from .updating import batches

logger = logging.getLogger("agent_rag")

_PASSES = 100
"""A pass takes what was written during the one before, so each is shorter."""

Key = tuple[str, str]


class ModelReindex(BaseModel):
    """What `reindex_model` did."""

    collection: str
    """Where the new vectors are."""
    switched: bool
    """Whether the knowledge base has them; else its store cannot exchange names, and its users name the collection."""
    documents: int = 0
    """Documents that were embedded."""
    chunks: int = 0
    """Their chunks."""
    unchanged: int = 0
    """Documents that an earlier run had embedded."""


def second_name(collection: str, embedder: Embedder) -> str:
    """Name of the collection in which the vectors of a model grow: the same for the next run."""
    return f"{collection}__reindex_{hashlib.sha256(str(embedder.fingerprint).encode()).hexdigest()[:8]}"


class Reembedding:
    """One run.

    Args:
        on_progress: Called with (documents done, documents) after each batch.
    """

    def __init__(
        self,
        store: NativeStoreBase,
        collection: str,
        embedder: Embedder,
        *,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._store = store
        self._collection = collection
        self._second = second_name(collection, embedder)
        self._embedder = embedder
        self._on_progress = on_progress
        self._done: dict[Key, bytes] = {}
        """Digest of each document that has new vectors."""
        self._report = ModelReindex(collection=self._second, switched=False)

    async def run(self, on_switch: Callable[[], Awaitable[None]]) -> ModelReindex:
        """Embed, catch up, and switch where the store can; `on_switch` is awaited right after that.

        Raises: StoreError: documents are written faster than they are embedded. EmbeddingError, ConfigurationError: a
            chunk cannot be embedded by this model. What is done is kept.
        """
        info = await self._store.collection_info(self._collection)
        if info is None or info.fingerprint == self._embedder.fingerprint:
            await self._store.delete_collection(self._second)  # a run that was killed after it had switched
            return ModelReindex(collection=self._collection, switched=info is not None)
        if not self._store.can_exchange:
            logger.warning(
                "%s cannot exchange the names of collections: the new vectors will be in %r, for a knowledge base that "
                "names it",
                type(self._store).__name__,
                self._second,
            )
        await self._store.open_collection(
            self._second, self._embedder.dimensions, fingerprint=self._embedder.fingerprint
        )
        first = await self._pass(self._collection, self._second)
        self._report.unchanged = len(self._done) - first
        passes = 1
        while await self._pass(self._collection, self._second):
            passes += 1
            if passes == _PASSES:
                raise StoreError(
                    f"documents of {self._collection!r} are written faster than they are embedded; stop who writes, "
                    "and run this again: what is done is kept"
                )
        if self._store.can_exchange:
            await self._store.exchange_collections(self._collection, self._second)
            await on_switch()
            await self._take_in_stragglers()
            await self._store.delete_collection(self._second)
            self._report.collection, self._report.switched = self._collection, True
        return self._report

    async def _pass(self, source: str, target: str) -> int:
        """Give each document of `source` that `target` has not its vectors there. Returns how many were written."""
        there = await self._summaries(source)
        known = await self._summaries(target)
        missing = [key for key in known if key not in there]
        if missing:
            await self._store.delete_documents(target, sorted({document_id for _, document_id in missing}))
            for key in [one for one in self._done if one[1] in {document_id for _, document_id in missing}]:
                del self._done[key]
        changed: list[DocumentSummary] = []
        for key, summary in there.items():
            current = digest(summary, await self._records(source, summary))
            if self._done.get(key) != current and key in known:
                self._done[key] = digest(known[key], await self._records(target, known[key]))
            if self._done.get(key) != current:
                changed.append(summary)
        await self._embed(source, target, changed)
        return len(changed) + len(missing)

    async def _embed(self, source: str, target: str, summaries: Sequence[DocumentSummary]) -> None:
        done = 0

        async def read(summary: DocumentSummary) -> list[VectorRecord]:
            return await self._records(source, summary)

        for scope, group in groupby(summaries, lambda summary: summary.scope):
            of_scope = list(group)
            ids = [summary.document_id for summary in of_scope]
            is_used = target == self._collection
            versions = await self._store.document_versions(target, ids, scope=scope) if is_used else {}
            async for batch in batches(of_scope, read):
                records = [record for _, of_one in batch for record in of_one]
                self._check(records)
                vectors = await self._embedder.vectors([record.chunk for record in records], None, WriteReport())
                written = [
                    record.model_copy(update={"vector": list(vector)})
                    for record, vector in zip(records, vectors, strict=True)
                ]
                heads = [_with_model(summary, str(self._embedder.fingerprint)) for summary, _ in batch]
                await self._write(target, heads, written, scope, versions)
                self._done |= {(scope, summary.document_id): digest(summary, of_one) for summary, of_one in batch}
                self._report.documents += len(batch)
                self._report.chunks += len(written)
                done += len(batch)
                if self._on_progress is not None:
                    self._on_progress(done, len(summaries))

    async def _write(
        self,
        target: str,
        summaries: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        scope: str,
        versions: Mapping[str, str],
    ) -> None:
        """Write documents, but for those that have another version than the one they had in a collection in use."""
        known = [summary for summary in summaries if summary.document_id in versions]
        if known:
            of_known = [record for record in records if record.document_id in versions]
            await self._store.replace_unchanged(target, known, of_known, versions=versions, scope=scope)
        if new := [summary for summary in summaries if summary.document_id not in versions]:
            of_new = [record for record in records if record.document_id not in versions]
            await self._store.replace(target, new, of_new, scope=scope)

    async def _take_in_stragglers(self) -> None:
        """What was written around the switch, by who had not seen it: to the former collection, or with former vectors.

        A document that was written to both is the later one's, which is in the collection that is used.
        """
        await asyncio.sleep(FRESH_S)  # by then everybody has seen it
        now = await self._summaries(self._collection)
        late = [summary for key, summary in now.items() if await self._differs(self._collection, key, summary)]
        taken = {(summary.scope, summary.document_id) for summary in late}
        before = await self._summaries(self._second)
        late_before = [
            summary
            for key, summary in before.items()
            if key not in taken and await self._differs(self._second, key, summary)
        ]
        gone = sorted({key[1] for key in self._done if key not in before and key in now and key not in taken})
        if gone:
            await self._store.delete_documents(self._collection, gone)
        await self._embed(self._second, self._collection, late_before)
        await self._embed(self._collection, self._collection, late)

    async def _differs(self, collection: str, key: Key, summary: DocumentSummary) -> bool:
        return self._done.get(key) != digest(summary, await self._records(collection, summary))

    async def _summaries(self, collection: str) -> dict[Key, DocumentSummary]:
        return {
            (summary.scope, summary.document_id): summary for summary in await self._store.list_documents(collection)
        }

    async def _records(self, collection: str, summary: DocumentSummary) -> list[VectorRecord]:
        return await all_records(self._store, collection, summary, with_vectors=False)

    def _check(self, records: Iterable[VectorRecord]) -> None:
        for record in records:
            if not self._embedder.can_index(record.chunk):
                raise ConfigurationError(
                    f"chunk {record.document_id}:{record.chunk.chunk_index} is an image without text, which the new "
                    "model cannot embed; choose a model for images, or ingest into a new collection"
                )


def digest(summary: DocumentSummary, records: Iterable[VectorRecord]) -> bytes:
    """Equal for equal documents, whatever their vectors."""
    found = hashlib.sha256(_with_model(summary, "").model_dump_json().encode("utf-8", "surrogatepass"))
    for record in records:
        found.update(record.chunk.model_dump_json().encode("utf-8", "surrogatepass"))
    return found.digest()


def _with_model(summary: DocumentSummary, fingerprint: str) -> DocumentSummary:
    """With the model in what ingestion remembers (`Pipeline`), so that it sees no change of its files."""
    try:
        pipeline = json.loads(summary.state.get("pipeline", ""))
    except ValueError:
        return summary
    if not isinstance(pipeline, dict) or "model" not in pipeline:
        return summary
    pipeline["model"] = fingerprint
    text = json.dumps(pipeline, ensure_ascii=False, separators=(",", ":"))
    return summary.model_copy(update={"state": {**summary.state, "pipeline": text}})
