"""Writing documents to a Qdrant server; `layout` explains the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Mapping, Sequence

from qdrant_client import AsyncQdrantClient, models

from ...errors import StoreError
from ..engine.prepared import PreparedDocument
from ..versions.heads import Name
from .client import any_of
from .layout import (
    DOCUMENT,
    GENERATION,
    LEFTOVER_S,
    LIVE,
    SCOPE,
    WRITTEN,
    ServerHead,
    chunk_points,
    first_head,
    head_id,
    head_point,
    pieces,
)
from .reads import heads_by_name

_STRONG = models.WriteOrdering.STRONG
_ATTEMPTS = 50


class Publisher:
    """Writes to one collection."""

    def __init__(self, client: AsyncQdrantClient, collection: str, average: float) -> None:
        self._client = client
        self._collection = collection
        self._average = average

    async def replace(self, documents: Sequence[PreparedDocument]) -> int:
        """Publish whole documents, each at one moment. Returns the number of chunks they had before."""
        if not documents:
            return 0
        generation_of = {document.name: uuid.uuid4().hex for document in documents}
        points = [
            point
            for document in documents
            for point in chunk_points(
                document.name, document.chunks, generation_of[document.name], self._average, live=False
            )
        ]
        mine = list(generation_of.values())
        try:
            for piece in pieces(points):
                await self._client.upsert(self._collection, piece, wait=True)
            await self._client.set_payload(
                self._collection,
                {LIVE: True},
                models.Filter(must=[any_of(GENERATION, mine)]),
                wait=True,
                ordering=_STRONG,
            )
        except BaseException:
            with contextlib.suppress(Exception):  # the first error says more
                await self._delete_in_order([models.Filter(must=[any_of(GENERATION, mine)])])
            raise
        # An error from here on leaves the chunks: the heads may have been swapped.
        replaced = await self._swap_heads(documents, generation_of)
        await self._remove_old(documents, mine, [head.generation for head in replaced])
        return sum(head.count for head in replaced)

    async def delete(self, heads: Mapping[Name, ServerHead]) -> None:
        """Remove documents, as long as they still are the versions in `heads`: first the heads, so that none counts."""
        generations = [head.generation for head in heads.values()]
        same = any_of(GENERATION, generations)
        ids = models.HasIdCondition(has_id=[head_id(name) for name in heads])
        await self._delete_in_order([models.Filter(must=[ids, same]), models.Filter(must=[same])])

    async def heads(self, names: Sequence[Name]) -> dict[Name, ServerHead]:
        return await heads_by_name(self._client, self._collection, names)

    async def _swap_heads(
        self, documents: Sequence[PreparedDocument], generation_of: Mapping[Name, str]
    ) -> list[ServerHead]:
        """Make every head name its new generation. Returns the heads that were replaced."""
        pending = {document.name: document for document in documents}
        current = await self.heads(list(pending))
        replaced: list[ServerHead] = []
        for attempt in range(_ATTEMPTS):
            new: list[models.PointStruct] = []
            known: list[models.PointStruct] = []
            for name, document in pending.items():
                before = current.get(name)
                point = head_point(document.summary, first_head(document, generation_of[name], before))
                (new if before is None else known).append(point)
            expected = [current[name].generation for name in pending if name in current]
            await self._put_heads(known, expected=expected)
            await self._put_heads(new, expected=None)
            after = await self.heads(list(pending))
            for name in list(pending):
                head, mine = after.get(name), generation_of[name]
                if head is not None and mine in (head.generation, *head.history):
                    del pending[name]
                    if name in current:
                        replaced.append(current[name])
            if not pending:
                return replaced
            current = {name: after[name] for name in pending if name in after}
            await asyncio.sleep(0.002 * attempt)
        raise StoreError(
            f"documents {sorted(name[1] for name in pending)[:5]!r} of collection {self._collection!r} are replaced "
            f"by others all the time: {_ATTEMPTS} attempts lost; try again"
        )

    async def _put_heads(self, points: list[models.PointStruct], *, expected: Sequence[str] | None) -> None:
        """Write heads where they still name one of `expected` (each names one of its own), or where there is none."""
        if not points:
            return
        await self._client.upsert(
            self._collection,
            points,
            wait=True,
            ordering=_STRONG,
            update_filter=None if expected is None else models.Filter(must=[any_of(GENERATION, expected)]),
            update_mode=models.UpdateMode.INSERT_ONLY if expected is None else models.UpdateMode.UPDATE_ONLY,
        )

    async def _remove_old(self, documents: Sequence[PreparedDocument], mine: Sequence[str], old: Sequence[str]) -> None:
        """Remove what was replaced, and what crashed writers left of these documents; writers at work are younger."""
        ids_of: dict[str, list[str]] = {}
        for document in documents:
            ids_of.setdefault(document.name[0], []).append(document.name[1])
        aged = models.FieldCondition(key=WRITTEN, range=models.Range(lt=time.time() - LEFTOVER_S))
        filters = [
            models.Filter(
                must=[any_of(SCOPE, [scope]), any_of(DOCUMENT, ids), aged], must_not=[any_of(GENERATION, mine)]
            )
            for scope, ids in ids_of.items()
        ]
        await self._delete_in_order([models.Filter(must=[any_of(GENERATION, old)]), *filters])

    async def _delete_in_order(self, filters: Sequence[models.Filter]) -> None:
        operations = [models.DeleteOperation(delete=models.FilterSelector(filter=where)) for where in filters]
        await self._client.batch_update_points(self._collection, operations, wait=True, ordering=_STRONG)
