"""A third-party store as the seed shows it: seven methods, equality filters, nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from ..documents import DocumentSummary, VectorRecord, VectorSearchResult
from ..errors import CollectionNotFoundError, DimensionMismatchError, RecordError, StoreClosedError
from ..filters import matches
from ..stores.base import VectorStoreBase
from ..stores.engine.records import clean_record

Key = tuple[str, int]


class SevenMethodStore(VectorStoreBase):
    """What a KnowledgeBase must be able to work with. Any argument beyond the seed's is a TypeError.

    A record is identified by document id and chunk index only: it knows no scopes.
    """

    def __init__(self) -> None:
        self._collections: dict[str, tuple[int, dict[Key, VectorRecord]]] = {}
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._open = False

    async def create_collection(self, name: str, dimensions: int) -> None:
        self._check_open()
        self._collections.setdefault(name, (dimensions, {}))

    async def delete_collection(self, name: str) -> None:
        self._check_open()
        self._collections.pop(name, None)

    async def has_collection(self, name: str) -> bool:
        self._check_open()
        return name in self._collections

    async def insert(self, collection: str, records: list[VectorRecord]) -> None:
        dimensions, held = self._collection(collection)
        for record in records:
            _check_vector(collection, dimensions, record.vector)
        cleaned = [clean_record(record) for record in records]
        held.update({(record.document_id, record.chunk.chunk_index): record for record in cleaned})

    async def delete(self, collection: str, document_id: str) -> None:  # type: ignore[override]  # the seed's
        held = self._collection(collection)[1]
        for key in [key for key in held if key[0] == document_id]:
            del held[key]

    async def search(
        self,
        collection: str,
        query_vector: list[float],
        top_k: int = 5,
        metadata_filter: dict[str, Any] | None = None,
    ) -> list[VectorSearchResult]:
        dimensions, held = self._collection(collection)
        _check_vector(collection, dimensions, query_vector)
        results = [
            VectorSearchResult(
                score=_cosine(query_vector, record.vector),
                document_id=record.document_id,
                chunk=record.chunk.model_copy(deep=True),
            )
            for record in held.values()
            if matches(metadata_filter, record.chunk.metadata)
        ]
        results.sort(key=lambda result: (-result.score, result.document_id, result.chunk.chunk_index))
        return results[: max(top_k, 0)]

    async def list_documents(
        self, collection: str, metadata_filter: dict[str, Any] | None = None
    ) -> list[DocumentSummary]:
        summaries: dict[str, DocumentSummary] = {}
        for _, record in sorted(self._collection(collection)[1].items()):
            if not matches(metadata_filter, record.chunk.metadata):
                continue
            summary = summaries.setdefault(
                record.document_id,
                DocumentSummary(
                    document_id=record.document_id,
                    source=record.chunk.source,
                    chunk_count=0,
                    metadata=record.chunk.model_copy(deep=True).metadata,
                ),
            )
            summary.chunk_count += 1
        return list(summaries.values())

    def _collection(self, name: str) -> tuple[int, dict[Key, VectorRecord]]:
        self._check_open()
        if name not in self._collections:
            raise CollectionNotFoundError(f"collection {name!r} does not exist; create it with create_collection")
        return self._collections[name]

    def _check_open(self) -> None:
        if not self._open:
            raise StoreClosedError("SevenMethodStore is closed; use it inside 'async with store:'")


def _check_vector(collection: str, dimensions: int, vector: Sequence[float]) -> None:
    if len(vector) != dimensions:
        raise DimensionMismatchError(
            f"collection {collection!r} holds {dimensions}-dimensional vectors, got {len(vector)}; "
            "use the model it was built with, or ingest into a new collection"
        )
    if not all(abs(number) <= 3.4e38 for number in vector):
        raise RecordError(f"a vector for collection {collection!r} has a number that is not finite; check the model")


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    size = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return max(-1.0, min(1.0, product / size)) if size else 0.0
