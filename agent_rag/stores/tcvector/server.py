"""The server of `TcVectorStore`: each collection is two tables of a database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from ...errors import CollectionNotFoundError, ConfigurationError
from ..engine.records import closed_store
from ..versions.engine import LAYOUT
from ..versions.groups import side_by_side
from ..versions.stored_info import StoredInfo
from .client import Connection, TcVectorOptions
from .rows import Rows
from .schema import INFO, INFO_ID, NONE, REVISION, Document, info_row, is_in, tables_of

T = TypeVar("T")

_MAX_DIMENSIONS = 4_096
_DISTANCES = {"COSINE": "Cosine", "IP": "Dot", "L2": "Euclid"}
_AT_ONCE = 8


class TcVectorServer:
    """Collections of one database, whose tables have names that nobody else gives."""

    def __init__(self, owner: object, options: TcVectorOptions) -> None:
        self._owner = owner
        self._options = options
        self._connection = Connection(owner, options)

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def open(self) -> None:
        if self._options.api_key is None:
            raise ConfigurationError("TcVectorStore needs an api_key; see the console of the instance")
        self._connection.open()

    async def close(self) -> None:
        self._connection.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self.is_open:
            work.close()
            raise closed_store(self._owner)
        return await work

    def errors(self, collection: str) -> contextlib.AbstractContextManager[None]:
        return self._connection.errors(collection)

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        """The chunks come last: without them a collection does not exist, and the next one makes what is missing."""
        options = self._options
        if options.embedding and dimensions:
            raise ConfigurationError(
                f"collection {name!r} of {dimensions} dimensions, in a store whose database embeds texts with "
                f"{options.embedding!r}; use a KnowledgeBase with embedding_model=None, or leave out embedding"
            )
        if dimensions > _MAX_DIMENSIONS:
            raise ConfigurationError(
                f"collection {name!r} of {dimensions} dimensions: VectorDB takes at most {_MAX_DIMENSIONS:,}; use "
                "a model with shorter vectors"
            )
        info = StoredInfo(
            name=name,
            dimensions=dimensions,
            fingerprint=fingerprint,
            distance=_DISTANCES[options.metric],
            embedding=options.embedding,
            layout=LAYOUT,
        )
        await asyncio.to_thread(self._make, info)

    def _make(self, info: StoredInfo) -> None:
        chunks, heads = self._tables(info.name)
        self._connection.make_database()
        self._connection.make_heads(heads)
        self._connection.upsert(heads, [info_row(info)])
        self._connection.make_chunks(chunks, info.dimensions)

    async def complete(self, name: str) -> None:
        """`create` did it."""

    async def info(self, name: str) -> StoredInfo | None:
        chunks, heads = self._tables(name)
        if not await asyncio.to_thread(self._connection.has, chunks):
            return None
        return await self._stored(heads)

    async def _stored(self, heads: str) -> StoredInfo | None:
        try:
            with self.errors(heads):
                rows = await asyncio.to_thread(self._connection.get, heads, [INFO_ID], [INFO])
        except CollectionNotFoundError:  # dropped meanwhile
            return None
        return StoredInfo.model_validate_json(rows[0][INFO]) if rows else None

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        _, heads = self._tables(info.name)
        row = info_row(info.model_copy(update={"fingerprint": fingerprint}))
        changes: Document = {INFO: row[INFO], REVISION: row[REVISION]}
        await asyncio.to_thread(self._connection.update_if, heads, INFO_ID, is_in(REVISION, [NONE]), changes)

    async def drop(self, name: str) -> None:
        await asyncio.to_thread(self._drop, *self._tables(name))

    def _drop(self, chunks: str, heads: str) -> None:
        """Heads are emptied first, so that none of them comes back when this dies and the collection is made anew."""
        self._connection.empty(heads)
        self._connection.drop(chunks)
        self._connection.drop(heads)

    async def names(self) -> list[str]:
        stored = set(await asyncio.to_thread(self._connection.names))
        ours = [one for one in stored if one.startswith("rag_") and one.endswith("_heads")]
        whole = [one for one in ours if f"{one.removesuffix('heads')}chunks" in stored]
        infos = await side_by_side(map(self._stored, whole), _AT_ONCE)
        return [info.name for info in infos if info is not None]

    def collection(self, info: StoredInfo) -> Rows:
        return Rows(self._connection, info)

    async def facts(self) -> dict[str, str]:
        return {"engine": "tcvector", "url": self._options.where, "collections": str(len(await self.names()))}

    def _tables(self, name: str) -> tuple[str, str]:
        return tables_of(self._options.database, name)
