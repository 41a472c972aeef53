"""Opening and changing the schema: the extension, the table of collections, and collections."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from ...documents import storable_text
from ...errors import ConfigurationError, StoreError
from ..base import CollectionInfo
from ..engine.records import existing
from .connection import Connections, Session
from .schema import (
    TABLE_FORMAT,
    Collection,
    Names,
    collection_ddl,
    drop_ddl,
    index_ddl,
    load,
    missing,
    shared_ddl,
)
from .vectors import Extension, VectorChoice, column_type, engine_for, find_extension

logger = logging.getLogger("agent_rag")


@dataclass(frozen=True)
class Options:
    """Constructor arguments of `PostgresStore` that concern the schema."""

    names: Names
    may_change: bool
    """`setup_schema`."""
    distance: str
    vector: VectorChoice
    keyword: bool


class Schema:
    """What exists in the database."""

    def __init__(self, connections: Connections, options: Options) -> None:
        self._connections = connections
        self._options = options
        self.extension: Extension | None = None

    async def open(self) -> None:
        """Create what is missing, or (``setup_schema=False``) only check.

        Raises: ConfigurationError: pgvector is asked for and missing, or an operator's schema lacks something.
        """
        self.extension, reason = await self._connections.read(find_extension)
        if self.extension is None and self._options.vector != "array":
            await self._obtain_extension(reason)
        if self._options.may_change:
            await self._connections.write(self._create_shared)
            return
        gaps = await self._connections.read(lambda session: missing(session, self._options.names))
        if gaps:
            raise ConfigurationError(
                f"setup_schema=False, and the schema lacks {', '.join(gaps)}; make them with the statements of "
                "PostgresStore.schema_sql(), or open the store once with setup_schema=True"
            )

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> Collection:
        """The collection called `name`, made if it does not exist; a fingerprint is recorded where there is none."""

        async def work(session: Session) -> Collection:
            found = await self._with_fingerprint(session, name, fingerprint)
            if found is None:
                await self._insert(session, name, dimensions, fingerprint)
                found = await self._with_fingerprint(session, name, fingerprint)
            if found is None:
                raise StoreError(f"collection {name!r} was dropped while it was being created; try again")
            return found

        return await self._connections.write(work)

    async def drop(self, name: str) -> None:
        """Remove a collection with its tables; nothing happens when there is none.

        Raises: ConfigurationError: an operator manages the schema.
        """

        async def work(session: Session) -> None:
            collection = await load(session, self._options.names, name, lock="FOR UPDATE")
            if collection is None:
                return
            self.check_may_change(f"collection {name!r} cannot be dropped")
            await session.execute(drop_ddl(self._options.names, collection.id))
            await session.execute(f"DELETE FROM {self._options.names.collections} WHERE id = $1", collection.id)

        await self._connections.write(work)

    async def exchange(self, first: str, second: str) -> None:
        """Give each of two collections the other's name, after the writes to them that are going on.

        Raises: CollectionNotFoundError: one of them is not there.
        """
        table = self._options.names.collections

        async def work(session: Session) -> None:
            rows = await session.fetch(
                f"SELECT id, name FROM {table} WHERE name = ANY($1::text[]) ORDER BY id FOR UPDATE", [first, second]
            )
            ids = {row["name"]: row["id"] for row in rows}
            here, there = (existing(ids.get(name), name) for name in (first, second))
            # Names are unique after each statement, so one of them has a third name meanwhile.
            for collection, name in ((here, uuid.uuid4().hex), (there, first), (here, second)):
                await session.execute(f"UPDATE {table} SET name = $2 WHERE id = $1", collection, name)

        await self._connections.write(work)

    async def _obtain_extension(self, reason: str) -> None:
        if not reason and self._options.may_change:
            try:
                await self._connections.write(self._create_extension)
                self.extension, reason = await self._connections.read(find_extension)
            except StoreError as error:
                reason = str(error)
        if self.extension is not None:
            return
        reason = reason or "it is not created in this database"
        if self._options.vector == "pgvector":
            raise ConfigurationError(
                f"vector='pgvector' needs the extension pgvector 0.8 or later, but {reason}; install it and run "
                "CREATE EXTENSION vector, or pass vector='array'"
            )
        logger.info("PostgresStore compares vectors without pgvector, since %s", reason)

    async def _create_extension(self, session: Session) -> None:
        await self._lock(session)
        await session.execute("CREATE EXTENSION IF NOT EXISTS vector")

    async def _create_shared(self, session: Session) -> None:
        await self._lock(session)
        await session.execute("SET LOCAL client_min_messages = warning; " + shared_ddl(self._options.names))

    async def _lock(self, session: Session) -> None:
        # Two sessions that create the same thing at once fail, in spite of IF NOT EXISTS.
        key = blake2b(f"agent_rag:{self._options.names.prefix}".encode(), digest_size=8).digest()
        await session.execute("SELECT pg_advisory_xact_lock($1)", int.from_bytes(key, "big", signed=True))

    async def _with_fingerprint(self, session: Session, name: str, fingerprint: str | None) -> Collection | None:
        if fingerprint is not None:
            await session.execute(
                f"UPDATE {self._options.names.collections} SET fingerprint = $2 "
                "WHERE name = $1 AND fingerprint IS NULL",
                name,
                fingerprint,
            )
        return await load(session, self._options.names, name)

    async def _insert(self, session: Session, name: str, dimensions: int, fingerprint: str | None) -> None:
        self.check_may_change(f"collection {name!r} does not exist and cannot be created")
        extension = None if self._options.vector == "array" else self.extension
        engine = engine_for(dimensions, extension)
        row = await session.fetch_one(
            f"INSERT INTO {self._options.names.collections} "
            "(name, dimensions, fingerprint, distance, format_version, engine, keyword) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING RETURNING id",
            name,
            dimensions,
            fingerprint,
            self._options.distance,
            TABLE_FORMAT,
            engine,
            self._options.keyword,
        )
        if row is not None:
            await session.execute(
                collection_ddl(
                    self._options.names,
                    row["id"],
                    dimensions,
                    keyword=self._options.keyword,
                    vector=column_type(dimensions, engine, extension),
                )
            )

    def check_may_change(self, what: str) -> None:
        """Raises: ConfigurationError: an operator manages the schema."""
        if not self._options.may_change:
            raise ConfigurationError(
                f"{what}, since setup_schema=False leaves the schema to an operator; "
                "run the statements of PostgresStore.schema_sql(), or pass setup_schema=True"
            )


def schema_script(names: Names, collections: Mapping[str, int], *, distance: str, pgvector: bool, keyword: bool) -> str:
    """Statements that make all tables, for an operator."""
    extension = Extension("", "") if pgvector else None
    parts = ["CREATE EXTENSION IF NOT EXISTS vector;\n" if pgvector else "", shared_ddl(names)]
    for number, (name, dimensions) in enumerate(collections.items(), 1):
        engine = engine_for(dimensions, extension)
        info = CollectionInfo(name=name, dimensions=dimensions, distance=distance)
        made = Collection(number, info, engine, keyword, chunks=0, worded=0, words=0, indexed=False, names=names)
        quoted = storable_text(name).replace("'", "''")
        row = f"{number}, '{quoted}', {dimensions:d}, '{distance}', {TABLE_FORMAT}, '{engine}', {keyword}"
        parts.append(
            f"INSERT INTO {names.collections} (id, name, dimensions, distance, format_version, engine, keyword) "
            f"VALUES ({row});\n"
        )
        kind = column_type(dimensions, engine, extension)
        parts.append(collection_ddl(names, number, dimensions, keyword=keyword, vector=kind))
        index = index_ddl(made, extension) if engine == "pgvector" and extension is not None else None
        parts.append(f"{index};\n" if index else "")
    parts.append(f"SELECT setval(pg_get_serial_sequence('{names.collections}', 'id'), {max(1, len(collections))});\n")
    return "BEGIN;\n" + "".join(parts) + "COMMIT;\n"
