"""Transactions on a collection: reading it, and changing it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ...documents import DocumentSummary
from ...errors import DimensionMismatchError, RecordError
from ...filters import FilterLike
from ..engine.records import Prepared, unknown_collection
from ..native import changed_since
from . import writer as writer
from .connection import Connections, RelationGone, Session
from .reader import MAX_INDEX
from .schema import Collection, Names, load
from .upkeep import Upkeep

_RECENT_S = 1.0
T = TypeVar("T")
Changes = tuple[list[DocumentSummary], Prepared]
Prepare = Callable[[int], Changes]
"""Checks the arguments of a write for a collection of so many dimensions."""


class Transactions:
    """Each method is one transaction, and raises CollectionNotFoundError where there is no such collection."""

    def __init__(self, connections: Connections, names: Names, upkeep: Upkeep) -> None:
        self._connections = connections
        self._names = names
        self._upkeep = upkeep
        self._known: dict[str, Collection] = {}
        """As writers last saw them, which saves a round trip; whether one is still there the database decides."""
        self._loaded: dict[str, tuple[float, Collection]] = {}
        """As readers last loaded them, and when."""

    def forget(self, collection: str) -> None:
        """The collection was dropped, or has another name."""
        self._known.pop(collection, None)
        self._loaded.pop(collection, None)

    async def look(self, collection: str) -> Collection | None:
        """The collection as it is, for what is read next, too; None where there is none."""
        found = await self._connections.read(lambda session: load(session, self._names, collection))
        if found is None:
            self.forget(collection)
        else:
            self._loaded[collection] = time.monotonic(), found
        return found

    async def read(
        self,
        collection: str,
        work: Callable[[Session, Collection], Awaitable[T]],
        *,
        settings: str = "",
        recent: bool = False,
    ) -> T:
        """Do `work` with the collection as it is, in one snapshot.

        Args:
            recent: Its counts may be a second old, which saves a round trip. `work` must read a table of the
                collection, since that is what tells whether it is still there.
        """
        loaded, known = self._loaded.get(collection, (0.0, None))
        if not recent or time.monotonic() - loaded > _RECENT_S:
            known = None

        async def inside(session: Session) -> T:
            return await work(session, known or await self._load(session, collection))

        try:
            return await self._connections.read(inside, settings=settings)
        except (RelationGone, DimensionMismatchError) as error:
            if known is not None:  # another store dropped it, and may have made it anew
                self._loaded.pop(collection, None)
                return await self.read(collection, work, settings=settings)
            if isinstance(error, RelationGone):
                raise unknown_collection(collection) from error
            raise

    async def publish(
        self, collection: str, prepare: Prepare, versions: Mapping[str, str] | None = None, scope: str = ""
    ) -> writer.Written:
        """Write what `prepare` gives, if the documents of `versions` still have them."""
        known, (summaries, prepared) = await self._prepared(collection, prepare)
        highest = max((record.chunk.chunk_index for record in prepared.records), default=0)
        if highest > MAX_INDEX:
            raise RecordError(f"chunk_index {highest} is above {MAX_INDEX}; number the chunks of a document from 0")
        if not summaries:
            return writer.Written(0, 0)

        async def work(session: Session) -> tuple[Collection, writer.Written | None]:
            found = await self._locked(session, collection)
            if found.info.dimensions != known.info.dimensions:
                return found, None
            if versions and (changed := await self._changed(session, found, versions, scope)):
                return found, writer.Written(0, 0, changed)
            return found, await writer.publish(session, found, summaries, prepared)

        with self._upkeep.writing():
            found, written = await self._connections.write(work)
        self._known[collection] = found
        if written is None:  # another store made the collection anew meanwhile
            return await self.publish(collection, prepare, versions, scope)
        self._upkeep.note(found, written=written.touched, growth=written.growth)
        return written

    async def remove(
        self, collection: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[writer.Written, list[str]]:
        """Remove whole documents whose metadata match; None for all ids. Returns the ids removed, sorted, too."""

        async def work(session: Session) -> tuple[Collection, writer.Written, list[str]]:
            found = await self._locked(session, collection)
            return found, *await writer.remove(session, found, document_ids, metadata_filter)

        with self._upkeep.writing():
            found, written, names = await self._connections.write(work)
        self._known[collection] = found
        self._upkeep.note(found, written=written.touched, growth=written.growth)
        return written, names

    async def _changed(
        self, session: Session, collection: Collection, versions: Mapping[str, str], scope: str
    ) -> frozenset[str]:
        return frozenset(changed_since(versions, await writer.lock_versions(session, collection, scope, versions)))

    async def _prepared(self, collection: str, prepare: Prepare) -> tuple[Collection, Changes]:
        known = self._known.get(collection)
        if known is not None:
            with contextlib.suppress(DimensionMismatchError):  # another store may have made it anew
                return known, await asyncio.to_thread(prepare, known.info.dimensions)
        known = self._known[collection] = await self.read(collection, itself)
        return known, await asyncio.to_thread(prepare, known.info.dimensions)

    async def _load(self, session: Session, collection: str) -> Collection:
        found = await load(session, self._names, collection)
        if found is None:
            raise unknown_collection(collection)
        self._loaded[collection] = time.monotonic(), found
        return found

    async def _locked(self, session: Session, collection: str) -> Collection:
        """The collection, which cannot be dropped until the transaction ends."""
        for _ in range(2):  # what gets the name while it is waited for, only the next statement sees
            if (found := await load(session, self._names, collection, lock="FOR KEY SHARE")) is not None:
                return found
        raise unknown_collection(collection)


async def itself(_: Session, collection: Collection) -> Collection:
    """For `read`: the collection."""
    return collection
