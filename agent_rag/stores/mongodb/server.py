"""The server of `MongoDBStore`: each collection is one collection of a database."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Coroutine
from typing import Any, TypeVar

from ...errors import CollectionNotFoundError, ConfigurationError
from ..engine.records import closed_store
from ..versions.engine import LAYOUT
from ..versions.groups import side_by_side
from ..versions.stored_info import StoredInfo
from .client import Connection, MongoDBOptions
from .queries import Document, text_index, vector_index
from .rows import Rows

T = TypeVar("T")

_INFO = "info"
_KINDS = ["head", "gone", "chunk"]
_MAX_DIMENSIONS = 8_192
_DISTANCES = {"cosine": "Cosine", "euclidean": "Euclid", "dotProduct": "Dot"}
_INDEXES = ((("kind", 1), ("document_id", 1)), (("head", 1),), (("version", 1),), (("words", 1),), (("tokens", 1),))


class MongoDBServer:
    """Collections of one database, each with a document that says what it is."""

    def __init__(self, owner: object, options: MongoDBOptions) -> None:
        self._owner = owner
        self._options = options
        self._connection = Connection(owner, options)

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def open(self) -> None:
        self._connection.open()

    async def close(self) -> None:
        await self._connection.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self.is_open:
            work.close()
            raise closed_store(self._owner)
        return await work

    def errors(self, collection: str) -> contextlib.AbstractContextManager[None]:
        return self._connection.errors()

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        """The info comes last: a collection without it does not exist, and the next one makes what is missing."""
        options, table, connection = self._options, _table_name(name), self._connection
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
        await connection.table(table).create_indexes([index_model(list(keys)) for keys in _INDEXES])
        for model in models:
            await connection.make_search_index(table, model)
        await connection.until_queryable(table, [model["name"] for model in models])
        distance = _DISTANCES[options.similarity]
        info = StoredInfo(name=name, dimensions=dimensions, fingerprint=fingerprint, distance=distance, layout=LAYOUT)
        stored = {"_id": _INFO, "kind": _INFO, **info.model_dump(mode="json")}
        await connection.table(table).update_one({"_id": _INFO}, {"$setOnInsert": stored}, upsert=True)

    async def complete(self, name: str) -> None:
        """`create` did it."""

    async def info(self, name: str) -> StoredInfo | None:
        table = _table_name(name)
        stored = await self._connection.table(table).find_one({"_id": _INFO, "kind": _INFO, "name": name})
        return None if stored is None else _info_of(stored)

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        unknown = {"_id": _INFO, "fingerprint": None}
        await self._connection.table(_table_name(info.name)).update_one(unknown, {"$set": {"fingerprint": fingerprint}})

    async def drop(self, name: str) -> None:
        if await self.info(name) is not None:
            await self._connection.table(_table_name(name)).drop()

    async def names(self) -> list[str]:
        tables = await self._connection.names()
        query = {"_id": _INFO, "kind": _INFO}
        infos = await side_by_side((self._connection.table(one).find_one(query) for one in tables), 16)
        return [
            info["name"]
            for table, info in zip(tables, infos, strict=True)
            if info and _table_name(info["name"]) == table
        ]

    def collection(self, info: StoredInfo) -> Rows:
        return Rows(self._connection, _table_name(info.name), info)

    async def facts(self) -> dict[str, str]:
        await self._connection.client.admin.command("ping")
        version = (await self._connection.client.server_info())["version"]
        return {
            "engine": "mongodb",
            "version": version,
            "server": self._options.where,
            "database": self._options.database,
        }

    async def _drop_remains(self, table: str, dimensions: int) -> None:
        """The index that a creation with other dimensions left when it crashed; nothing of other programs."""
        connection, index = self._connection, self._options.vector_index
        foreign = {"kind": {"$nin": [_INFO, *_KINDS]}}
        if await connection.table(table).find_one(foreign, {"_id": 1}) is not None:
            raise CollectionNotFoundError(
                f"collection {table!r} of the database {self._options.database!r} belongs to another program; use "
                "another name or another database"
            )
        found = await connection.search_index(table, index)
        fields = (found or {}).get("latestDefinition", {}).get("fields", [])
        held = [(one["numDimensions"], one["similarity"]) for one in fields if one.get("type") == "vector"]
        if held and held != [(dimensions, self._options.similarity)]:
            await connection.table(table).drop_search_index(index)

            async def is_gone() -> bool:
                return await connection.search_index(table, index) is None

            await connection.wait_until(is_gone)


def _info_of(stored: Document) -> StoredInfo:
    return StoredInfo.model_validate({name: stored[name] for name in StoredInfo.model_fields if name in stored})


def _table_name(name: str) -> str:
    """The name itself where MongoDB takes it; equal for equal names only."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name) and not name.startswith("system."):
        return name
    return f"~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
