"""Reading points of a Qdrant server: pages, heads, records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from qdrant_client import AsyncQdrantClient, models

from ...documents import VectorRecord
from ...filters import FilterLike
from ...filters.plan import plan
from .._shared.payload import CHUNK, parse_chunk, translate
from .layout import (
    DIALECT,
    DOCUMENT,
    HEAD_DATA,
    INDEX,
    IS_HEAD,
    SCOPE,
    Name,
    ServerHead,
    head_of_payload,
    key_of,
    name_of,
)
from .schema import DENSE

_PAGE = 1_000
_REREADS = 20
_RECORD = [CHUNK, SCOPE, DOCUMENT, INDEX]


class Reader:
    """Reads of one collection."""

    def __init__(self, client: AsyncQdrantClient, collection: str) -> None:
        self._client = client
        self._collection = collection

    async def head_payloads(
        self, metadata_filter: FilterLike | None, payload: list[str], must: Sequence[Any] = ()
    ) -> list[dict[str, Any]]:
        """Payloads of the heads whose document metadata matches."""
        node = plan(metadata_filter)
        conditions = [IS_HEAD, *must, *([] if node is None else [translate(node, DIALECT)])]
        return [head.payload or {} for head in await self._scroll(models.Filter(must=conditions), payload, False)]

    async def heads(
        self, metadata_filter: FilterLike | None = None, must: Sequence[Any] = ()
    ) -> dict[Name, ServerHead]:
        payloads = await self.head_payloads(metadata_filter, [SCOPE, DOCUMENT, HEAD_DATA], must)
        return {name_of(payload): head_of_payload(payload) for payload in payloads}

    async def records_where(self, where: models.Filter, with_vectors: bool) -> list[VectorRecord]:
        """By key."""
        points = await self._scroll(where, _RECORD, [DENSE] if with_vectors else False)
        return sorted(map(_record, points), key=lambda record: record.key)

    async def records(self, ids: Sequence[str], with_vectors: bool) -> list[VectorRecord]:
        """The points that are there, in any order."""
        found: list[VectorRecord] = []
        for start in range(0, len(ids), _PAGE):
            points = await self._client.retrieve(
                self._collection,
                list(ids[start : start + _PAGE]),
                with_payload=_RECORD,
                with_vectors=[DENSE] if with_vectors else False,
            )
            found += map(_record, points)
        return found

    async def _scroll(self, where: models.Filter, payload: list[str], vectors: Any) -> list[Any]:
        found: list[Any] = []
        offset = None
        while True:
            page, offset = await self._client.scroll(
                self._collection, where, limit=_PAGE, offset=offset, with_payload=payload, with_vectors=vectors
            )
            found += page
            if offset is None:
                return found


async def settled(
    heads: Callable[[], Awaitable[dict[Name, ServerHead]]],
    read: Callable[[dict[Name, ServerHead]], Awaitable[list[VectorRecord]]],
) -> list[VectorRecord]:
    """Read between two equal answers of `heads`, so that no version was swapped meanwhile."""
    before = await heads()
    for _ in range(_REREADS):
        found = await read(before)
        after = await heads()
        if after == before:
            break
        before = after
    return found


def _record(point: Any) -> VectorRecord:
    key = key_of(point.payload)
    vector = (point.vector or {}).get(DENSE, [])
    chunk = parse_chunk(point.payload[CHUNK])
    return VectorRecord(vector=vector, document_id=key.document_id, chunk=chunk, scope=key.scope)
