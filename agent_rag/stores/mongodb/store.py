"""`MongoDBStore`: MongoDB with MongoDB Search, on Atlas or self-managed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import SecretStr

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import ConfigurationError, StoreUnavailableError
from ...filters import FilterLike, matches
from .._shared.payload import check_format
from .._shared.records import heads_of, prepare_records, prepare_replace, query_vector, unique_ids, unknown_collection
from ..base import NATIVE, Capability, CollectionInfo, RetrieveRequest, StoreHealth, VectorStoreBase
from .client import Connection, MongoDBOptions
from .reads import Reader
from .schema import (
    CHUNK,
    HEAD,
    INDEXES,
    INFO,
    INFO_ID,
    LOG,
    NewDocument,
    info_document,
    info_of,
    new_documents,
    table_name,
    text_index,
    vector_index,
    where,
)
from .view import Statistics, search
from .writer import Writer

Similarity = Literal["cosine", "euclidean", "dotProduct"]
_MAX_DIMENSIONS = 8_192
_DISTANCES = {"cosine": "Cosine", "euclidean": "Euclid", "dotProduct": "Dot"}


class MongoDBStore(VectorStoreBase):
    """MongoDB with `$vectorSearch` and `$search`: Atlas, or a self-managed replica set with mongot.

    Each collection is one collection of the database. A write returns when both search indexes have it, so it takes as
    long as these lag behind. See docs/stores/mongodb.md for what this store promises.

    Args:
        uri: Connection string, with user and password where there are some.
        database: Name of the database.
        distance: How vectors are compared in new collections; `"euclidean"` scores negated distances, `"cosine"` within
            [-1, 1].
        index_name: Name of the index for vectors.
        text_index_name: Name of the index for words.
        filter_fields: Accepted as AgentScope has it, such as ``["chunk.metadata.tenant_id"]``. Every field can be
            filtered by without being declared.
        num_candidates: Least number of vectors that a search compares, up to 10,000; at least 20 for each hit.
        index_timeout_s: Time limit for new search indexes to be built, and for a write to be found in them.
        timeout_s: Time limit of one call to the server.
        client_kwargs: Further arguments of `pymongo.AsyncMongoClient`.

    Raises: ConfigurationError: an option is out of range. MissingExtraError: pymongo is not installed.
    """

    capabilities: ClassVar[frozenset[Capability]] = NATIVE

    def __init__(
        self,
        uri: str | SecretStr,
        database: str = "agent_rag",
        *,
        distance: Similarity = "cosine",
        index_name: str = "vector_index",
        text_index_name: str = "text_index",
        filter_fields: Sequence[str] | None = None,
        num_candidates: int = 200,
        index_timeout_s: float = 30.0,
        timeout_s: float = 30.0,
        client_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if distance not in get_args(Similarity):
            raise ConfigurationError(f"distance {distance!r} is unknown; use one of {', '.join(get_args(Similarity))}")
        if not 1 <= num_candidates <= 10_000:
            raise ConfigurationError(f"num_candidates is {num_candidates}; MongoDB takes 1 to 10,000")
        if index_timeout_s <= 0 or timeout_s <= 0:
            raise ConfigurationError(
                f"index_timeout_s={index_timeout_s} and timeout_s={timeout_s} must be above 0 seconds"
            )
        if index_name == text_index_name:
            raise ConfigurationError(f"index_name and text_index_name are both {index_name!r}; name two indexes")
        if isinstance(filter_fields, str) or not all(isinstance(path, str) for path in filter_fields or ()):
            raise ConfigurationError(f"filter_fields is {filter_fields!r}; pass a list of dotted paths")
        options = MongoDBOptions(
            uri=uri if isinstance(uri, SecretStr) else SecretStr(uri),
            database=database,
            similarity=distance,
            vector_index=index_name,
            text_index=text_index_name,
            num_candidates=num_candidates,
            index_timeout_s=index_timeout_s,
            timeout_s=timeout_s,
            client_kwargs=dict(client_kwargs or {}),
        )
        self._connection = Connection(self, options)
        self._statistics: dict[str, Statistics] = {}
        self._depth = 0

    def __repr__(self) -> str:
        options = self._connection.options
        return f"MongoDBStore({options.where!r}, database={options.database!r})"

    async def __aenter__(self) -> Self:
        if not self._connection.is_open:
            self._connection.open()
            self._depth = 0
        self._depth += 1
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth <= 0:
            await self.close()

    async def close(self) -> None:
        """Close the client, also inside nested blocks; harmless when closed."""
        self._statistics = {}
        await self._connection.close()

    # --- collections ---

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self.open_collection(name, dimensions)

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        with self._connection.errors():
            info = await self._info(name)
            if info is None:
                await self._create(name, dimensions, fingerprint)
            if fingerprint is not None and (info is None or info.fingerprint is None):
                unknown = {"_id": INFO_ID, "fingerprint": None}
                await self._table(name).update_one(unknown, {"$set": {"fingerprint": fingerprint}})
            return await self._known(name)

    async def delete_collection(self, name: str) -> None:
        with self._connection.errors():
            if await self._info(name) is not None:
                await self._table(name).drop()
        self._statistics.pop(name, None)

    async def has_collection(self, name: str) -> bool:
        return await self.collection_info(name) is not None

    async def collection_info(self, name: str) -> CollectionInfo | None:
        with self._connection.errors():
            return await self._info(name)

    async def list_collections(self) -> list[str]:
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
        info = await self._info(name)
        if info is None:
            raise unknown_collection(name)
        return info

    def _table(self, name: str) -> Any:
        return self._connection.table(table_name(name))

    # --- writing ---

    async def insert(self, collection: str, records: Sequence[VectorRecord]) -> None:
        with self._changing(collection):
            info = await self._known(collection)

            def prepare() -> list[NewDocument]:
                prepared = prepare_records(collection, info.dimensions, records)
                summaries = [summary for _, summary in heads_of(prepared.records).values()]
                return new_documents(summaries, prepared, given=False)

            documents = await asyncio.to_thread(prepare)
            await Writer(self._connection, info).insert(documents)

    async def replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        scope: str = "",
    ) -> int:
        with self._changing(collection):
            info = await self._known(collection)

            def prepare() -> list[NewDocument]:
                summaries, prepared = prepare_replace(collection, info.dimensions, documents, records, scope=scope)
                return new_documents(summaries, prepared, given=True)

            new = await asyncio.to_thread(prepare)
            return await Writer(self._connection, info).replace(new)

    async def delete(self, collection: str, document_id: str, metadata_filter: FilterLike | None = None) -> int:
        return await self.delete_documents(collection, [document_id], metadata_filter)

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        chosen = unique_ids(document_ids)
        with self._changing(collection):
            info = await self._known(collection)
            removed = await Writer(self._connection, info).delete(
                where(metadata_filter, {"document_id": {"$in": chosen}})
            )
            return sum(head.chunks for head in removed)

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        with self._changing(collection):
            info = await self._known(collection)
            removed = await Writer(self._connection, info).delete(where(metadata_filter))
            return sorted({head.name[1] for head in removed})

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        try:
            with self._connection.errors():
                yield
        finally:
            self._statistics.pop(name, None)

    # --- reading ---

    async def search(
        self,
        collection: str,
        query_vector: Sequence[float],
        top_k: int = 5,
        metadata_filter: FilterLike | None = None,
    ) -> list[VectorSearchResult]:
        request = RetrieveRequest(vectors=[query_vector], limit=top_k, metadata_filter=metadata_filter)
        return await self.retrieve(collection, request)

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        with self._connection.errors():
            info = await self._known(collection)
            for vector in request.vectors:
                query_vector(collection, info.dimensions, vector)
            statistics = await self._current_statistics(collection) if request.texts else None
            return await search(self._connection, info, request, statistics)

    async def _current_statistics(self, name: str) -> Statistics:
        statistics = self._statistics.get(name)
        if statistics is None or not statistics.is_fresh:
            statistics = self._statistics[name] = await Statistics.ask(self._connection, name)
        return statistics

    async def list_documents(self, collection: str, metadata_filter: FilterLike | None = None) -> list[DocumentSummary]:
        with self._connection.errors():
            return await (await self._reader(collection)).summaries(metadata_filter)

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        with self._connection.errors():
            return await (await self._reader(collection)).fetch(keys, metadata_filter, with_vectors)

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
        with self._connection.errors():
            reader = await self._reader(collection)
            return await reader.list_chunks(document_id, offset, limit, metadata_filter, with_vectors)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        with self._connection.errors():
            return await (await self._reader(collection)).count(metadata_filter)

    async def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """In order of the keys; a document that is replaced meanwhile may be missing or new."""
        with self._connection.errors():
            batches = (await self._reader(collection)).batches(batch_size)
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
