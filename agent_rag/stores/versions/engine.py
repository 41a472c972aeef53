"""The engine of every store whose server keeps documents as versions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ...documents import VectorRecord, VectorSearchResult
from ...errors import CollectionNotFoundError, StoreError, StoreUnavailableError
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.payload import check_format
from ..engine.records import Checked, existing, query_vector, without_keyword
from ..engine.store import Answer, ConditionalStore, settled
from .heads import Name
from .protocol import NewRow, Primitives, head_id
from .publisher import Draft, Publisher, drafts_of
from .reader import Reader
from .search import search
from .stored_info import StoredInfo
from .weights import Weights

T = TypeVar("T")
LAYOUT = 2
"""Of collections in versions; 1 was that of releases before."""


class Server(Protocol):
    """What an engine answers beside the primitives of a collection."""

    @property
    def is_open(self) -> bool: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` where the client lives. Raises StoreClosedError."""

    def errors(self, collection: str) -> contextlib.AbstractContextManager[None]:
        """Turns the client's errors into ours."""

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        """Make the collection; harmless when another process is quicker."""

    async def complete(self, name: str) -> None:
        """Add what a collection lacks whose maker died."""

    async def info(self, name: str) -> StoredInfo | None:
        """Raises: CollectionNotFoundError: it is there and belongs to another program."""

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        """Where it has none yet."""

    async def drop(self, name: str) -> None: ...

    async def names(self) -> list[str]:
        """Of collections that this package made, in any order."""

    def collection(self, info: StoredInfo) -> Primitives: ...

    async def facts(self) -> dict[str, str]:
        """For `ping`; fails when the server does not answer."""


class VersionsEngine:
    """Collections on a server, which other processes may change at any time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._collections: dict[str, _Collection] = {}

    @property
    def is_open(self) -> bool:
        return self._server.is_open

    async def open(self) -> None:
        self._collections = {}
        await self._server.open()

    async def close(self) -> None:
        self._collections = {}
        await self._server.close()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        async def work() -> CollectionInfo:
            info = await self._server.info(name)
            if info is None:
                await self._server.create(name, dimensions, fingerprint)
                info = existing(await self._server.info(name), name)
            _check_layout(info)
            await self._server.complete(name)
            if fingerprint and info.fingerprint is None:
                await self._server.set_fingerprint(info, fingerprint)
                info = existing(await self._server.info(name), name)
            return info.public()

        return await self._run(name, work())

    async def drop(self, name: str) -> None:
        self._collections.pop(name, None)
        await self._run(name, self._server.drop(name))

    async def info(self, name: str) -> CollectionInfo | None:
        try:
            found = await self._run(name, self._server.info(name))
        except CollectionNotFoundError:
            return None
        if (known := self._collections.get(name)) is not None and known.info != found:
            del self._collections[name]  # what is read next is read of this one
        return None if found is None else found.public()

    async def names(self) -> list[str]:
        return sorted(await self._run("", self._server.names()))

    async def optimize(self, name: str) -> None:
        """A server does it by itself."""

    async def compact(self, name: str) -> int:
        """Remove what dead writers left. Returns the number of chunks removed."""
        return await self._writing(name, lambda collection: collection.publisher.compact())

    # --- writing ---

    async def replace(self, name: str, checked: Checked) -> int:
        async def work(collection: _Collection) -> int:
            return await collection.publisher.replace(await collection.drafts(checked))

        return await self._writing(name, work)

    async def versions(self, name: str, documents: Sequence[Name]) -> dict[Name, str]:
        async def run() -> dict[Name, str]:
            primitives = (await self._known(name)).primitives
            found = await primitives.get_heads({head_id(document) for document in documents})
            return {head.name: head.version for head in found.values() if head.version}

        return await self._run(name, run())

    async def replace_unchanged(self, name: str, checked: Checked, versions: Mapping[Name, str]) -> list[Name]:
        async def work(collection: _Collection) -> list[Name]:
            drafts = await collection.drafts(checked)
            return await collection.publisher.replace_unchanged(drafts, versions)

        return await self._writing(name, work)

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        async def work(collection: _Collection) -> tuple[list[Name], int]:
            heads = await collection.primitives.heads_where(metadata_filter, document_ids)
            gone = await collection.publisher.delete([head.name for head in heads], metadata_filter)
            return [head.name for head in gone], sum(head.count for head in gone)

        return await self._writing(name, work)

    async def _writing(self, name: str, work: Callable[[_Collection], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            collection = await self._known(name, fresh=True)
            try:
                return await work(collection)
            finally:
                collection.weights.forget()

        return await self._run(name, run())

    # --- reading ---

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        async def run() -> list[VectorSearchResult]:
            collection = await self._known(name)
            if request.texts and not collection.info.keyword:
                raise without_keyword(name)
            for vector in request.vectors:
                query_vector(name, collection.info.dimensions, vector)
            return await search(collection.primitives, collection.weights, request)

        return await self._run(name, run())

    async def read(self, name: str, job: Callable[[Reader], Answer[T]]) -> T:
        async def run() -> T:
            return await settled(job(Reader((await self._known(name)).primitives)))

        return await self._run(name, run())

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        collection = await self._run(name, self._known(name))
        batches = Reader(collection.primitives).iterate(metadata_filter, batch_size)
        while (batch := await self._run(name, _next(batches))) is not None:
            for record in batch:
                yield record

    async def ping(self) -> StoreHealth:
        try:
            facts = await self._run("", self._server.facts())
        except StoreUnavailableError as error:
            return StoreHealth(ok=False, detail=str(error))
        return StoreHealth(ok=True, detail=" ".join(("server", facts.get("version", ""))).strip(), facts=facts)

    # --- both ---

    async def _run(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        async def run() -> T:
            with self._server.errors(name):
                return await work

        try:
            return await self._server.run(run())
        except StoreError:
            self._collections.pop(name, None)  # it may have been dropped, or made anew
            raise
        finally:
            work.close()  # where it never began

    async def _known(self, name: str, *, fresh: bool = False) -> _Collection:
        """Raises: CollectionNotFoundError. StoreError: a release wrote it that keeps documents in another way."""
        known = self._collections.get(name)
        if known is not None and not fresh:
            return known
        info = existing(await self._server.info(name), name)
        _check_layout(info)
        if known is None or known.info != info:
            known = self._collections[name] = _Collection(self._server.collection(info))
        return known


class ExchangingServer(Server, Protocol):
    """A server that gives collections other names."""

    async def exchange(self, first: str, second: str) -> None:
        """Give each of two collections the other's name at one moment; a crash before it changes nothing that is seen.

        Raises: CollectionNotFoundError: one of them is not there.
        """


class ExchangingEngine(VersionsEngine):
    """Collections on a server that gives them other names."""

    _server: ExchangingServer

    def __init__(self, server: ExchangingServer) -> None:
        super().__init__(server)

    async def exchange(self, first: str, second: str) -> None:
        """Give each of two collections the other's name; a write that is going on is in the one where it began."""
        await self._run(first, self._server.exchange(first, second))
        for name in (first, second):
            self._collections.pop(name, None)


class _Collection:
    """What this store keeps of a collection."""

    def __init__(self, primitives: Primitives) -> None:
        self.primitives = primitives
        self.info = primitives.info
        self.weights = Weights(primitives)
        self.publisher = Publisher(primitives, self._average_length)

    async def drafts(self, checked: Checked) -> list[Draft]:
        return await asyncio.to_thread(lambda: drafts_of(self.primitives, *checked(self.info.dimensions)))

    async def _average_length(self, rows: Sequence[NewRow]) -> float:
        """Of the collection, or of what is written to an empty one."""
        if not self.info.keyword:
            return 1.0
        lengths = [len(row.terms) for row in rows if row.terms]
        return await self.weights.rough_average() or sum(lengths) / max(len(lengths), 1) or 1.0


def _check_layout(info: StoredInfo) -> None:
    """Raises: StoreError: another release wrote it."""
    check_format(info)
    if info.layout != LAYOUT:
        raise StoreError(
            f"collection {info.name!r} was written by another release (layout {info.layout}, this one reads {LAYOUT}); "
            "ingest into a new collection, or copy it with the release that wrote it"
        )


async def _next(batches: AsyncIterator[T]) -> T | None:
    return await anext(batches, None)


class VersionsStore(ConditionalStore):
    """A store on a server that keeps documents as versions."""

    _engine: VersionsEngine

    async def compact(self, collection: str) -> int:
        """Remove what writers left that died. Returns the number of chunks removed.

        Nothing of it is found or counted meanwhile, and the next write of the document removes it as well.
        """
        return await self._engine.compact(collection)
