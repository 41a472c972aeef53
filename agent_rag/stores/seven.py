"""A third-party store with the seven methods only, as a KnowledgeBase uses it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NoReturn

from ..documents import ChunkKey, DocumentSummary, Signals, VectorRecord, VectorSearchResult
from ..errors import ConfigurationError, StoreError
from ..filters import And, Condition, Filter, FilterLike, as_filter, matches
from .base import CollectionInfo, RetrieveRequest, Scored, VectorStoreBase
from .native import NativeStoreBase

_SCOPED = re.compile(r"scope:([0-9a-f]{16}):", re.ASCII)
_STATE = "_agent_rag"
_BATCH = 500
_OVER_FETCH = 10


class SevenMethodAdapter(NativeStoreBase):
    """Calls the wrapped store with the arguments of the seven methods only.

    Scopes are kept apart by the document id that is stored; replacing is delete, then insert, and so not atomic; the
    part of a filter that is not equality is applied to what the store returned.
    """

    keyword_search = False

    def __init__(self, store: VectorStoreBase, dimensions: int) -> None:
        self._store = store
        self._dimensions = dimensions

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self._store.create_collection(name, dimensions)

    async def delete_collection(self, name: str) -> None:
        await self._store.delete_collection(name)

    async def has_collection(self, name: str) -> bool:
        return await self._store.has_collection(name)

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        if not await self._store.has_collection(name):
            await self._store.create_collection(name, dimensions)
        return CollectionInfo(name=name, dimensions=dimensions)

    async def collection_info(self, name: str) -> CollectionInfo | None:
        # Such a store cannot tell its size; a wrong one fails in the store.
        return CollectionInfo(name=name, dimensions=self._dimensions) if await self.has_collection(name) else None

    async def insert(self, collection: str, records: Sequence[VectorRecord]) -> None:
        stored = [
            record.model_copy(update={"document_id": _encode(record.scope, record.document_id)}) for record in records
        ]
        for start in range(0, len(stored), _BATCH):
            await self._store.insert(collection, stored[start : start + _BATCH])

    async def replace(
        self, collection: str, documents: Sequence[DocumentSummary], records: Sequence[VectorRecord], *, scope: str = ""
    ) -> int:
        removed = await self._remove(collection, [_encode(scope, document.document_id) for document in documents])
        states = {document.document_id: document.state for document in documents}
        await self.insert(collection, [_with_state(record, states.get(record.document_id)) for record in records])
        return removed

    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> int:
        return await self.delete_documents(collection, [document_id], metadata_filter)

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        wanted = set(document_ids)
        stored = [
            _encode(summary.scope, summary.document_id, encoded_scope=True)
            for summary in await self.list_documents(collection, metadata_filter)
            if summary.document_id in wanted
        ]
        return await self._remove(collection, stored)

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        found = sorted({summary.document_id for summary in await self.list_documents(collection, metadata_filter)})
        await self.delete_documents(collection, found, metadata_filter)
        return found

    async def search(
        self, collection: str, query_vector: Sequence[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        equalities, rest = _split(as_filter(metadata_filter))
        wanted = top_k if rest is None else top_k * _OVER_FETCH
        answered = await self._store.search(collection, list(query_vector), top_k=wanted, metadata_filter=equalities)
        kept = [_decode_result(result) for result in answered if rest is None or matches(rest, result.chunk.metadata)]
        return kept[:top_k]

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        found: dict[ChunkKey, VectorSearchResult] = {}
        rankings = []
        for vector in request.vectors:
            hits = await self.search(collection, vector, request.candidates, request.metadata_filter)
            rankings.append([Scored(hit.key, hit.score) for hit in hits])
            for hit in hits:
                if hit.key not in found or hit.score > found[hit.key].score:
                    found[hit.key] = hit
        signals = {key: Signals(semantic=hit.score) for key, hit in found.items()}
        ranked = request.rank(rankings, [], signals) if request.rank else next(iter(rankings), [])
        return [
            found[key].model_copy(update={"score": score, "signals": signals[key]})
            for key, score in ranked[: request.limit]
        ]

    async def list_documents(
        self,
        collection: str,
        metadata_filter: FilterLike | None = None,
        *,
        document_ids: Sequence[str] | None = None,
    ) -> list[DocumentSummary]:
        parsed = as_filter(metadata_filter)
        listed = await self._store.list_documents(collection, metadata_filter=_split(parsed)[0])
        summaries = [_decode_summary(summary) for summary in listed]
        wanted = None if document_ids is None else set(document_ids)
        kept = [
            summary
            for summary in summaries
            if (wanted is None or summary.document_id in wanted)
            and (parsed is None or matches(parsed, summary.metadata))
        ]
        return sorted(kept, key=lambda summary: (summary.scope, summary.document_id))

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        return sum(summary.chunk_count for summary in await self.list_documents(collection, metadata_filter))

    async def list_collections(self) -> list[str]:
        self._refuse("list its collections")

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        self._refuse("give chunks by their id")

    async def list_chunks(
        self,
        collection: str,
        document_id: str,
        *,
        offset: int = 0,
        limit: int = 30,
        metadata_filter: FilterLike | None = None,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        self._refuse("list the chunks of a document")

    def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        self._refuse("give all its records")

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigurationError(
            f"{type(self._store).__name__} has the seven methods of VectorStoreBase only, so it cannot {what}; "
            "a subclass of NativeStoreBase can"
        )

    async def _remove(self, collection: str, stored_ids: Sequence[str]) -> int:
        counts = {
            summary.document_id: summary.chunk_count
            for summary in await self._store.list_documents(collection, metadata_filter=None)
        }
        present = [stored_id for stored_id in stored_ids if stored_id in counts]
        for stored_id in present:
            await self._store.delete(collection, stored_id)
        return sum(counts[stored_id] for stored_id in present)


def _encode(scope: str, document_id: str, *, encoded_scope: bool = False) -> str:
    if not scope:
        return document_id
    digest = scope if encoded_scope else hashlib.sha256(scope.encode()).hexdigest()[:16]
    return f"scope:{digest}:{document_id}"


def _decode(stored_id: str) -> tuple[str, str]:
    found = _SCOPED.match(stored_id)
    return (found[1], stored_id[found.end() :]) if found else ("", stored_id)


def _decode_result(result: VectorSearchResult) -> VectorSearchResult:
    if not isinstance(result, VectorSearchResult):
        raise StoreError(f"the store's search returned a {type(result).__name__}, not a VectorSearchResult")
    scope, document_id = _decode(result.document_id)
    metadata = {key: value for key, value in result.chunk.metadata.items() if key != _STATE}
    chunk = result.chunk.model_copy(update={"metadata": metadata})
    return result.model_copy(update={"scope": scope, "document_id": document_id, "chunk": chunk})


def _decode_summary(summary: DocumentSummary) -> DocumentSummary:
    scope, document_id = _decode(summary.document_id)
    metadata = dict(summary.metadata)
    state = json.loads(metadata.pop(_STATE, "{}"))
    uri = state.pop("uri", None)
    update = {"scope": scope, "document_id": document_id, "metadata": metadata, "state": state, "uri": uri}
    return summary.model_copy(update=update)


def _with_state(record: VectorRecord, state: Mapping[str, str] | None) -> VectorRecord:
    if not state:
        return record
    text = json.dumps({**state, **({"uri": record.chunk.uri} if record.chunk.uri else {})})
    chunk = record.chunk.model_copy(update={"metadata": {**record.chunk.metadata, _STATE: text}})
    return record.model_copy(update={"chunk": chunk})


def _split(value: Filter | None) -> tuple[dict[str, Any] | None, Filter | None]:
    """The equalities that the seed's filter can say, and what is left."""
    parts = value.filters if isinstance(value, And) else (value,) if value is not None else ()
    equalities: dict[str, Any] = {}
    rest: list[Filter] = []
    for part in parts:
        inner, left = _split(part) if isinstance(part, And) else (None, part)
        if isinstance(part, Condition) and part.operator == "eq" and part.value is not None:
            inner, left = {part.field: part.value}, None
        if inner and not any(equalities.get(field, item) != item for field, item in inner.items()):
            equalities.update(inner)
        elif inner:
            left = part
        if left is not None:
            rest.append(left)
    return equalities or None, None if not rest else And(tuple(rest))
