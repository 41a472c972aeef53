"""The engine of `MongoDBStore`: collections, and where reads and writes begin."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from ...documents import VectorRecord, VectorSearchResult
from ...errors import ConfigurationError, StoreUnavailableError
from ...filters import FilterLike, matches
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.payload import check_format
from ..engine.records import Checked, existing, query_vector
from ..engine.store import Answer, settled
from ..versions.heads import Name
from ..versions.statistics import Statistics
from .client import Connection, MongoDBOptions
from .reads import Reader
from .schema import (
    CHUNK,
    HEAD,
    INDEXES,
    INFO,
    INFO_ID,
    LOG,
    info_document,
    info_of,
    new_documents,
    table_name,
    text_index,
    vector_index,
    where,
)
from .view import ask_statistics, search
from .writer import Writer

T = TypeVar("T")

_MAX_DIMENSIONS = 8_192
_DISTANCES = {"cosine": "Cosine", "euclidean": "Euclid", "dotProduct": "Dot"}


class MongoDBEngine:
    """Collections of one database, which other processes may change at any time."""

    def __init__(self, owner: object, options: MongoDBOptions) -> None:
        self._connection = Connection(owner, options)
        self._statistics: dict[str, Statistics[str]] = {}

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def open(self) -> None:
        self._connection.open()

    async def close(self) -> None:
        self._statistics = {}
        await self._connection.close()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        with self._connection.errors():
            info = await self._info(name)
            if info is None:
                await self._create(name, dimensions, fingerprint)
            if fingerprint is not None and (info is None or info.fingerprint is None):
                unknown = {"_id": INFO_ID, "fingerprint": None}
                await self._table(name).update_one(unknown, {"$set": {"fingerprint": fingerprint}})
            return await self._known(name)

    async def drop(self, name: str) -> None:
        with self._connection.errors():
            if await self._info(name) is not None:
                await self._table(name).drop()
        self._statistics.pop(name, None)

    async def info(self, name: str) -> CollectionInfo | None:
        with self._connection.errors():
            return await self._info(name)

    async def names(self) -> list[str]:
        with self._connection.errors():
            names = await self._connection.names()
            found: list[str] = []
            for start in range(0, len(names), 16):
                some = names[start : start + 16]
                query = {"_id": INFO_ID, "kind": INFO}
                infos = await asyncio.gather(*(self._connection.table(one).find_one(query) for one in some))
                found += [
                    info["name"]
                    for one, info in zip(some, infos, strict=True)
                    if info and table_name(info["name"]) == one
                ]
            return sorted(found)

    async def _create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        """The info comes last: a collection without it does not exist, and the next one makes what is missing."""
        options = self._connection.options
        table, connection = table_name(name), self._connection
        if dimensions > _MAX_DIMENSIONS:
            raise ConfigurationError(
                f"collection {name!r} of {dimensions} dimensions: MongoDB indexes at most {_MAX_DIMENSIONS:,}; use a "
                "model with shorter vectors"
            )
        await connection.make_collection(table)
        models = [text_index(options.text_index)]
        if dimensions:
            models.append(vector_index(options.vector_index, dimensions, options.similarity))
        await self._drop_remains(table, dimensions)
        index_model = connection.pymongo.IndexModel
        await connection.table(table).create_indexes([index_model(list(keys)) for keys in INDEXES])
        for model in models:
            await connection.make_search_index(table, model)
        await connection.until_queryable(table, [model["name"] for model in models])
        info = CollectionInfo(
            name=name, dimensions=dimensions, fingerprint=fingerprint, distance=_DISTANCES[options.similarity]
        )
        stored = info_document(info)
        await connection.table(table).update_one({"_id": INFO_ID}, {"$setOnInsert": stored}, upsert=True)

    async def _drop_remains(self, table: str, dimensions: int) -> None:
        """The index that a creation with other dimensions left when it crashed; nothing of other programs."""
        connection, index = self._connection, self._connection.options.vector_index
        foreign = {"kind": {"$nin": [HEAD, CHUNK, LOG]}}
        if await connection.table(table).find_one(foreign, {"_id": 1}) is not None:
            raise ConfigurationError(
                f"collection {table!r} of the database {connection.options.database!r} holds documents of another "
                "program; use another name or another database"
            )
        found = await connection.search_index(table, index)
        fields = (found or {}).get("latestDefinition", {}).get("fields", [])
        held = [(one["numDimensions"], one["similarity"]) for one in fields if one.get("type") == "vector"]
        if held and held != [(dimensions, connection.options.similarity)]:
            await connection.table(table).drop_search_index(index)

            async def is_gone() -> bool:
                return await connection.search_index(table, index) is None

            await connection.wait_until(is_gone)

    async def _info(self, name: str) -> CollectionInfo | None:
        stored = await self._table(name).find_one({"_id": INFO_ID, "kind": INFO, "name": name})
        if stored is None:
            return None
        info = info_of(stored)
        check_format(info)
        return info

    async def _known(self, name: str) -> CollectionInfo:
        return existing(await self._info(name), name)

    def _table(self, name: str) -> Any:
        return self._connection.table(table_name(name))

    # --- writing ---

    async def replace(self, name: str, checked: Checked) -> int:
        with self._changing(name):
            info = await self._known(name)
            documents = await asyncio.to_thread(lambda: new_documents(*checked(info.dimensions)))
            return await Writer(self._connection, info).replace(documents)

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        chosen = [] if document_ids is None else [{"document_id": {"$in": list(document_ids)}}]
        with self._changing(name):
            info = await self._known(name)
            removed = await Writer(self._connection, info).delete(where(metadata_filter, *chosen))
            return [head.name for head in removed], sum(head.chunks for head in removed)

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        try:
            with self._connection.errors():
                yield
        finally:
            self._statistics.pop(name, None)

    # --- reading ---

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        with self._connection.errors():
            info = await self._known(name)
            for vector in request.vectors:
                query_vector(name, info.dimensions, vector)
            statistics = await self._current_statistics(name) if request.texts else None
            return await search(self._connection, info, request, statistics)

    async def _current_statistics(self, name: str) -> Statistics[str]:
        statistics = self._statistics.get(name)
        if statistics is None or not statistics.is_fresh:
            statistics = self._statistics[name] = await ask_statistics(self._connection, name)
        return statistics

    async def read(self, name: str, job: Callable[[Reader], Answer[T]]) -> T:
        with self._connection.errors():
            return await settled(job(await self._reader(name)))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        with self._connection.errors():
            batches = (await self._reader(name)).batches(batch_size)
        while True:
            with self._connection.errors():
                batch = await anext(batches, None)
            if batch is None:
                return
            for record in batch:
                if matches(metadata_filter, record.chunk.metadata):
                    yield record

    async def _reader(self, name: str) -> Reader:
        await self._known(name)
        return Reader(self._connection, name)

    async def ping(self) -> StoreHealth:
        options = self._connection.options
        facts = {"engine": "mongodb", "server": options.where, "database": options.database}
        try:
            with self._connection.errors():
                await self._connection.client.admin.command("ping")
                info = await self._connection.client.server_info()
        except StoreUnavailableError as error:
            return StoreHealth(ok=False, detail=str(error), facts=facts)
        return StoreHealth(ok=True, detail=f"MongoDB {info['version']}", facts=facts)
