"""What keeps searches fast after many writes: the vector index, and fresh statistics and visibility maps.

Both wait until no write came for a second, or until the store is closed. An index that grows chunk by chunk takes eight
times as long as one that is built at once; and without a fresh visibility map each posting of a keyword search costs a
look into the table, while autovacuum starts up to a minute late.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from hashlib import blake2b

from ...errors import StoreError
from .connection import Connections, Session
from .schema import Collection, Names, index_ddl, load
from .vectors import MAX_HALF_DIMENSIONS, Extension

logger = logging.getLogger("agent_rag")

_QUIET_S = 1.0
_VACUUM_ABOVE = 2_000
"""Fewer written chunks are left to the server's autovacuum."""
_VACUUM_SHARE = 0.2
_LIMIT_S = 6 * 3_600.0
_MIB = 1 << 20


class Upkeep:
    """Work that is owed to the collections of one store."""

    def __init__(
        self, connections: Connections, names: Names, *, exact_below: int, builds: bool, m: int, ef_construction: int
    ) -> None:
        """
        Args:
            exact_below: A collection with more chunks needs an index.
            builds: Whether it is made as soon as it is needed.
        """
        self._connections = connections
        self._names = names
        self._exact_below = exact_below
        self._builds = builds
        self._m = m
        self._ef_construction = ef_construction
        self._written: Counter[str] = Counter()
        self._stale: set[str] = set()
        """Collections to vacuum."""
        self._unindexed: set[str] = set()
        self._given_up: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._writing = 0
        self._last_write = float("-inf")
        self.extension: Extension | None = None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A write is going on, so nothing is quiet."""
        self._writing += 1
        try:
            yield
        finally:
            self._writing -= 1
            self._last_write = asyncio.get_running_loop().time()

    def note(self, collection: Collection, *, written: int = 0, growth: int = 0) -> None:
        """Remember what a write, or a search, showed to be owed."""
        name, size = collection.info.name, collection.chunks + growth
        if written:
            self._written[name] += written
            if self._written[name] >= _many(size):
                self._stale.add(name)
        if self._needs_index(collection, size):
            self._unindexed.add(name)
        if (self._stale or self._unindexed) and (self._task is None or self._task.done()):
            self._hurry.clear()
            self._task = asyncio.create_task(self._when_quiet())

    def forget(self, name: str) -> None:
        """The name has become another collection's."""
        self._given_up.discard(name)

    async def close(self, *, settle: bool) -> None:
        """Do what is owed (`settle`), or leave it."""
        task, self._task = self._task, None
        if task is None:
            return
        if settle:
            self._hurry.set()
            await asyncio.wait([task])
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def build_index(self, collection: Collection) -> None:
        """Make the vector index; reading and writing go on meanwhile."""
        if collection.engine != "pgvector" or self.extension is None or collection.indexed:
            return
        statement = index_ddl(collection, self.extension, m=self._m, ef_construction=self._ef_construction)
        if statement is None:
            return
        statement = statement.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)
        # The graph is built in memory: the vectors, and about 16 bytes for each of 2 m neighbours.
        needed = collection.chunks * (4 * collection.info.dimensions + 32 * self._m + 200)
        memory = min(max(64, int(1.2 * needed) // _MIB), 2_048)
        logger.info("building the vector index of %r, %d chunks", collection.info.name, collection.chunks)
        async with self._connections.session() as session, _alone(session, collection) as free:
            if not free:
                return  # another process builds it
            await session.execute(f"SET maintenance_work_mem = '{memory}MB'")
            try:
                await self._create(session, collection, statement)
            finally:
                await session.execute("RESET maintenance_work_mem; RESET max_parallel_maintenance_workers")

    async def _create(self, session: Session, collection: Collection, statement: str) -> None:
        # What an interrupted build left is not valid, and is not used.
        drop = f"DROP INDEX IF EXISTS {collection.vector_index}"
        await session.execute(drop)
        try:
            await session.execute(statement, timeout_s=_LIMIT_S)
        except StoreError as error:
            # Workers share the graph in /dev/shm, which containers often keep at 64 MB.
            logger.info("building the vector index again, without parallel workers, since: %s", error)
            await session.execute(drop)
            await session.execute("SET max_parallel_maintenance_workers = 0")
            await session.execute(statement, timeout_s=_LIMIT_S)

    def _needs_index(self, collection: Collection, size: int) -> bool:
        name, dimensions = collection.info.name, collection.info.dimensions
        if size <= self._exact_below or collection.indexed or name in self._given_up or not dimensions:
            return False
        if collection.engine != "pgvector" or self.extension is None:
            why = "there is no pgvector 0.8"
        elif dimensions > MAX_HALF_DIMENSIONS:
            why = f"pgvector indexes up to {MAX_HALF_DIMENSIONS} dimensions, and it has {dimensions}"
        else:
            return self._builds
        self._given_up.add(name)
        logger.warning(
            "collection %r has more than exact_below=%d chunks, and every search compares all vectors, since %s",
            name,
            self._exact_below,
            why,
        )
        return False

    async def _when_quiet(self) -> None:
        while not self._hurry.is_set() and (left := self._until_quiet()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._hurry.wait()
        while names := self._stale | self._unindexed:
            name = names.pop()
            vacuum = name in self._stale
            self._stale.discard(name)
            self._unindexed.discard(name)
            try:
                await self._tend(name, vacuum=vacuum)
            except StoreError as error:
                self._given_up.add(name)
                logger.warning("upkeep of collection %r failed, so that its searches are slower: %s", name, error)

    def _until_quiet(self) -> float:
        if self._writing:
            return _QUIET_S
        return self._last_write + _QUIET_S - asyncio.get_running_loop().time()

    async def _tend(self, name: str, *, vacuum: bool) -> None:
        async def find(session: Session) -> Collection | None:
            return await load(session, self._names, name)

        collection = await self._connections.read(find)
        if collection is None:
            return
        if vacuum:
            self._written.pop(name, None)
            tables = [collection.documents, collection.chunk_table]
            tables += [collection.postings] if collection.keyword else []
            async with self._connections.session() as session:
                await session.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {', '.join(tables)}", timeout_s=_LIMIT_S)
        if self._needs_index(collection, collection.chunks):
            await self.build_index(collection)


def _many(size: int) -> float:
    """So many written chunks of `size` are worth looking after."""
    return max(_VACUUM_ABOVE, _VACUUM_SHARE * size)


@contextlib.asynccontextmanager
async def _alone(session: Session, collection: Collection) -> AsyncIterator[bool]:
    """Whether no other session does the same, which is so until the block ends."""
    key = int.from_bytes(blake2b(collection.vector_index.encode(), digest_size=8).digest(), "big", signed=True)
    row = await session.fetch_one("SELECT pg_try_advisory_lock($1) AS free", key)
    try:
        yield row["free"]
    finally:
        if row["free"]:
            await session.execute("SELECT pg_advisory_unlock($1)", key)
