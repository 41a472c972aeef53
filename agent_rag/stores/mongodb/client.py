"""The connection to MongoDB: opening, errors, search indexes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from ..._util.extras import needs
from ...errors import ConfigurationError, RecordError, StoreError, StoreUnavailableError, redact
from ..engine.records import closed_store
from .queries import Document

# Server error codes: not primary, stepping down, shutting down, host down, timed out, pool cleared, snapshot gone.
_UNAVAILABLE = frozenset({6, 7, 89, 91, 189, 246, 262, 9001, 10107, 11600, 11602, 13435, 13436})
_NO_SEARCH = frozenset({31082, 59})
_TOO_LARGE = 10334
_INDEX_EXISTS = 68
_NAMESPACE_EXISTS = 48
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.25


@dataclass(frozen=True)
class MongoDBOptions:
    """What the constructor of the store got."""

    uri: SecretStr
    database: str
    similarity: str
    vector_index: str
    text_index: str
    num_candidates: int
    index_timeout_s: float
    timeout_s: float
    client_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """For messages: hosts, without user and password."""
        address = self.uri.get_secret_value().partition("://")[2].rpartition("@")[2]
        return redact(address.partition("?")[0])


class Connection:
    """An AsyncMongoClient that is open or closed."""

    def __init__(self, owner: object, options: MongoDBOptions) -> None:
        self._owner = owner
        self.options = options
        self.pymongo = needs("mongodb", "pymongo", purpose="MongoDBStore")
        self._errors = needs("mongodb", "pymongo.errors", purpose="MongoDBStore")
        self._client: Any = None

    @property
    def bulk_error(self) -> Any:
        """What a bulk write raises."""
        return self._errors.BulkWriteError

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open(self) -> None:
        milliseconds = int(self.options.timeout_s * 1000)
        arguments: dict[str, Any] = {
            "serverSelectionTimeoutMS": milliseconds,
            "connectTimeoutMS": milliseconds,
            "socketTimeoutMS": milliseconds,
            "appname": "agent_rag",
            **self.options.client_kwargs,
        }
        try:
            self._client = self.pymongo.AsyncMongoClient(self.options.uri.get_secret_value(), **arguments)
        except (self._errors.ConfigurationError, ValueError, TypeError) as error:
            secret = self.options.uri.get_secret_value()
            detail = redact(str(error).replace(secret, "<uri>"))
            raise ConfigurationError(f"MongoDBStore cannot use its uri or client_kwargs: {detail}") from None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def client(self) -> Any:
        if self._client is None:
            raise closed_store(self._owner)
        return self._client

    @property
    def database(self) -> Any:
        return self.client[self.options.database]

    def table(self, name: str) -> Any:
        return self.database[name]

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the client into ours."""
        try:
            yield
        except self._errors.DocumentTooLarge as error:
            raise _too_large(error) from error
        except (self._errors.ConnectionFailure, self._errors.ExecutionTimeout) as error:
            raise self._unavailable(error) from error
        except self._errors.OperationFailure as error:
            raise self._refused(error) from error
        except self._errors.PyMongoError as error:
            raise StoreError(f"MongoDB at {self.options.where}: {redact(str(error))[:500]}") from error

    def _refused(self, error: Any) -> Exception:
        # The text of a bulk error holds whole documents.
        failed = [one for one in (error.details or {}).get("writeErrors", ()) if "errmsg" in one]
        code, text = (failed[0].get("code"), failed[0]["errmsg"]) if failed else (error.code, str(error))
        if code == _TOO_LARGE:
            return _too_large(text)
        if code in _UNAVAILABLE:
            return self._unavailable(error)
        detail = redact(text)[:500]
        if code in _NO_SEARCH:
            return ConfigurationError(
                f"MongoDB at {self.options.where} has no MongoDB Search: {detail}; use Atlas, or a self-managed "
                "replica set with mongot"
            )
        return StoreError(f"MongoDB at {self.options.where} refused a request: {detail}")

    def _unavailable(self, error: BaseException) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"MongoDB at {self.options.where} does not answer: {redact(str(error))[:300]}; "
            "check the address and that the server runs"
        )

    # --- reading and writing ---

    async def rows(self, name: str, pipeline: Sequence[Document]) -> list[Document]:
        """Rows of an aggregation, which may start with a search."""
        cursor = await self.table(name).aggregate(list(pipeline))
        async with cursor:
            return list(await cursor.to_list())

    # --- collections and indexes ---

    async def names(self) -> list[str]:
        return list(await self.database.list_collection_names(filter={"type": "collection"}))

    async def make_collection(self, name: str) -> None:
        try:
            await self.database.create_collection(name)
        except self._errors.CollectionInvalid:
            return
        except self._errors.OperationFailure as error:
            if error.code != _NAMESPACE_EXISTS:
                raise

    async def make_search_index(self, name: str, model: Document) -> None:
        """Nothing happens when the index is there."""
        try:
            await self.table(name).create_search_index(model)
        except self._errors.OperationFailure as error:
            if error.code != _INDEX_EXISTS:
                raise

    async def search_index(self, name: str, index: str) -> Document | None:
        found = await self.rows(name, [{"$listSearchIndexes": {"name": index}}])
        return found[0] if found else None

    async def until_queryable(self, name: str, indexes: Sequence[str]) -> None:
        """Wait for search indexes that were just made.

        Raises: StoreUnavailableError: one failed, or is not ready after `index_timeout_s`.
        """
        for index in indexes:
            state: dict[str, Any] = {}

            async def ready(index: str = index, state: dict[str, Any] = state) -> bool:
                state.update(await self.search_index(name, index) or {})
                if state.get("status") == "FAILED":
                    raise StoreUnavailableError(
                        f"search index {index!r} of {name!r} at {self.options.where} could not be built; look at it "
                        "there, then drop it"
                    )
                return bool(state.get("queryable"))

            if not await self.wait_until(ready):
                raise StoreUnavailableError(
                    f"search index {index!r} of {name!r} at {self.options.where} is {state.get('status', 'missing')} "
                    f"after index_timeout_s={self.options.index_timeout_s:g}; try again, or raise index_timeout_s"
                )

    async def wait_until(self, true: Callable[[], Awaitable[bool]]) -> bool:
        """Ask again and again, for at most `index_timeout_s`; whether it became true."""
        deadline = time.monotonic() + self.options.index_timeout_s
        pause = _FIRST_PAUSE_S
        while not await true():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
        return True


def _too_large(error: object) -> RecordError:
    return RecordError(
        f"a record is too large for MongoDB, which keeps 16 MB in a document: {str(error)[:200]}; use shorter chunks"
    )
