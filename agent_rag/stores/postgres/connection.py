"""Connections of `PostgresStore`: the pool, transactions, and the errors of the driver in our words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from pydantic import SecretStr
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random

from ..._util.extras import needs
from ...errors import ConfigurationError, StoreError, StoreUnavailableError, redact

logger = logging.getLogger("agent_rag")
T = TypeVar("T")

# Settings go with the first message of a transaction, so that none outlives it (also behind pgbouncer). A generic plan
# does not see the bound vector and casts it once for each row (27 ms instead of 1.5 at 1,000 rows).
READ = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off; "
    "SET LOCAL plan_cache_mode = force_custom_plan"
)
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL jit = off"
_ATTEMPTS = 8
_DRIVER_IN_URL = re.compile(r"^postgres(?:ql)?\+\w+://")


class _Conflict(Exception):
    """Another transaction was in the way; doing the same again may work."""


class _Disconnected(Exception):
    """The connection is gone; a new one may work."""


class RelationGone(StoreError):
    """A table is missing that was there when the transaction began: the collection was dropped."""


class Session:
    """One connection inside a transaction."""

    def __init__(self, connection: Any, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s

    async def fetch(self, sql: str, *values: Any) -> list[Any]:
        """Rows of a statement."""
        with _translated(self._timeout_s):
            rows: list[Any] = await self._connection.fetch(sql, *values, timeout=self._timeout_s)
            return rows

    async def fetch_one(self, sql: str, *values: Any) -> Any:
        """The first row, or None."""
        with _translated(self._timeout_s):
            return await self._connection.fetchrow(sql, *values, timeout=self._timeout_s)

    async def fetch_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[Any]:
        """The row that each execution returns, in order; sent without waiting for each."""
        with _translated(self._timeout_s):
            answers: list[Any] = await self._connection.fetchmany(sql, rows, timeout=self._timeout_s)
            return answers

    async def execute(self, sql: str, *values: Any, timeout_s: float | None = None) -> None:
        """Run a statement; without `values`, several ones divided by ``;``."""
        with _translated(self._timeout_s):
            await self._connection.execute(sql, *values, timeout=timeout_s or self._timeout_s)

    async def copy(self, table: str, columns: Sequence[str], source: AsyncIterable[bytes]) -> None:
        """Send rows in PostgreSQL's binary COPY format."""
        with _translated(self._timeout_s):
            await self._connection.copy_to_table(
                table, source=source, columns=columns, format="binary", timeout=self._timeout_s
            )

    async def rollback(self) -> None:
        """End a transaction that failed, or only read; a connection that cannot is closed."""
        try:
            if not self._connection.is_closed():
                await self._connection.execute("ROLLBACK", timeout=5.0)
        except Exception as error:
            _abandon(self._connection, error)


class Connections:
    """A pool that is borrowed (never closed here) or owned."""

    def __init__(
        self,
        dsn: SecretStr | None,
        pool: Any,
        pool_options: Mapping[str, Any],
        *,
        timeout_s: float,
    ) -> None:
        self._dsn = dsn
        self._borrowed = pool
        self._options = dict(pool_options)
        self._timeout_s = timeout_s
        self._pool: Any = None
        self._ending: set[asyncio.Task[None]] = set()
        """Ends of read-only transactions whose answer was given already."""

    @property
    def is_open(self) -> bool:
        return self._pool is not None

    async def open(self, dsn: str | None = None) -> None:
        """Connect, where the pool is ours.

        Args:
            dsn: Instead of the configured one.

        Raises: StoreUnavailableError: nobody answers. ConfigurationError: the DSN, user or database is wrong.
        """
        if self._borrowed is not None:
            self._pool = self._borrowed
            return
        asyncpg = needs("postgres", "asyncpg")
        address = dsn or (self._dsn.get_secret_value() if self._dsn is not None else None)
        options = {"min_size": 1, "max_size": 10, "timeout": self._timeout_s, "reset": _keep} | self._options
        try:
            with _translated(self._timeout_s):
                self._pool = await asyncpg.create_pool(
                    _DRIVER_IN_URL.sub("postgresql://", address) if address else None, **options
                )
        except _Disconnected as error:
            _give_up(error)

    async def close(self) -> None:
        """Close an owned pool; running operations are waited for, for a while."""
        if self._ending:
            await asyncio.wait(self._ending)
        pool, self._pool = self._pool, None
        if pool is None or pool is self._borrowed:
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await pool.close()
        except TimeoutError:
            logger.warning("closing PostgreSQL connections that were busy for %s s", self._timeout_s)
            pool.terminate()

    async def read(self, work: Callable[[Session], Awaitable[T]], *, settings: str = "") -> T:
        """Run `work` in one read-only transaction, which sees one state; again if the connection was lost.

        The answer does not wait for the end of the transaction, which is a round trip.

        Args:
            settings: Further ``SET LOCAL`` statements for it.
        """
        return await self._run(lambda: self._snapshot(work, f"{READ}; {settings}"), (_Conflict, _Disconnected))

    async def write(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run `work` in one transaction; again if another one was in the way."""
        return await self._run(lambda: self._transaction(work), (_Conflict,))

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A connection outside of a transaction."""
        try:
            async with self._acquired() as session:
                yield session
        except (_Conflict, _Disconnected) as error:
            _give_up(error)

    async def _run(self, work: Callable[[], Awaitable[T]], again: tuple[type[Exception], ...]) -> T:
        async def attempt_once() -> T:
            try:
                return await work()
            except _Disconnected:
                if self._pool is not None:
                    await self._pool.expire_connections()  # the others are lost, too, where the server was restarted
                raise

        try:
            with contextlib.suppress(*again):  # nearly always that is all, and the rest takes 50 us to set up
                return await attempt_once()
            retrying = AsyncRetrying(
                stop=_stop,
                wait=wait_random(0.005, 0.1),
                retry=retry_if_exception_type(again),
                reraise=True,
            )
            async for attempt in retrying:
                with attempt:
                    return await attempt_once()
        except (_Conflict, _Disconnected) as error:
            _give_up(error)
        raise AssertionError("tenacity ends with a result or an error")

    async def _snapshot(self, work: Callable[[Session], Awaitable[T]], opening: str) -> T:
        async with contextlib.AsyncExitStack() as stack:
            session = await stack.enter_async_context(self._acquired())
            stack.push_async_callback(session.rollback)
            await session.execute(opening)
            result = await work(session)
            ending = asyncio.create_task(stack.pop_all().aclose())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return result

    async def _transaction(self, work: Callable[[Session], Awaitable[T]]) -> T:
        async with self._acquired() as session:
            try:
                await session.execute(WRITE)
                result = await work(session)
                await session.execute("COMMIT")
                return result
            except BaseException:
                await session.rollback()
                raise

    @contextlib.asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Session]:
        with _translated(self._timeout_s):
            connection = await self._pool.acquire(timeout=self._timeout_s)
        pool = self._pool
        try:
            yield Session(connection, self._timeout_s)
        finally:
            await _release(pool, connection)


def _stop(state: RetryCallState) -> bool:
    """After the first attempt a lost connection is tried once more; a conflict several times."""
    error = state.outcome.exception() if state.outcome is not None else None
    attempts = 2 if isinstance(error, _Disconnected) else _ATTEMPTS
    return stop_after_attempt(attempts - 1)(state)


async def _keep(_: Any) -> None:
    """Instead of asyncpg's reset of a connection, which is a round trip: nothing outlives our transactions."""


async def _release(pool: Any, connection: Any) -> None:
    if pool is None:
        return
    try:
        await pool.release(connection)
    except Exception as error:
        # The answer is there already.
        _abandon(connection, error)


def _abandon(connection: Any, error: Exception) -> None:
    """Close a connection that is of no further use; the pool may have let go of a lost one already."""
    logger.debug("dropping a PostgreSQL connection: %s", redact(str(error)))
    with contextlib.suppress(Exception):
        connection.terminate()


@contextlib.contextmanager
def _translated(timeout_s: float) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _raise_translated(error, timeout_s)


def _raise_translated(error: Exception, timeout_s: float) -> NoReturn:
    import asyncpg

    # Only the first line of a server's error: the details may quote what is stored.
    text = redact(str(error.args[0] if isinstance(error, asyncpg.PostgresError) and error.args else error))
    match error:
        case TimeoutError():
            raise StoreUnavailableError(
                f"PostgreSQL did not answer within timeout_s={timeout_s:g}; check the server, or raise timeout_s"
            ) from error
        case asyncpg.DeadlockDetectedError() | asyncpg.SerializationError() | asyncpg.InvalidCachedStatementError():
            raise _Conflict(text) from error
        case asyncpg.UndefinedTableError():
            raise RelationGone(text) from error
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.InvalidCatalogNameError():
            raise ConfigurationError(f"PostgreSQL refused the connection: {text}; check the DSN") from error
        case asyncpg.InsufficientPrivilegeError():
            raise StoreError(
                f"PostgreSQL refused a statement: {text}; grant the right, or let an operator make the tables and "
                "pass setup_schema=False"
            ) from error
        case (
            asyncpg.CannotConnectNowError()
            | asyncpg.TooManyConnectionsError()
            | asyncpg.OperatorInterventionError()
            | asyncpg.PostgresConnectionError()
            | asyncpg.InternalClientError()  # its protocol is out of step, as after the server ended the session
            | OSError()
        ):
            raise _Disconnected(text) from error
        case asyncpg.InterfaceError() if "clos" in text or "released" in text:
            raise _Disconnected(text) from error
        case asyncpg.InterfaceError() | ValueError():
            raise ConfigurationError(f"PostgreSQL's driver refused the call: {text}; check dsn and pool_options") from (
                error
            )
        case asyncpg.PostgresError():
            raise StoreError(f"PostgreSQL refused a statement: {text} (SQLSTATE {error.sqlstate})") from error
    raise error


def _give_up(error: _Conflict | _Disconnected) -> NoReturn:
    if isinstance(error, _Disconnected):
        raise StoreUnavailableError(
            f"PostgreSQL does not answer: {error}; check that it runs at the given address"
        ) from (error.__cause__)
    raise StoreError(f"PostgreSQL gave up after {_ATTEMPTS} attempts: {error}; write less at once") from error.__cause__
