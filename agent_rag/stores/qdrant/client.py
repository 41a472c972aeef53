"""The connection to a Qdrant server: options, one client on a loop of its own, errors, conditions."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from ...errors import ConfigurationError, StoreError, StoreUnavailableError, redact
from ..engine.payload import TOKENS
from ..engine.records import closed_store, unknown_collection

P = ParamSpec("P")
T = TypeVar("T")


class RemoteOptions(BaseModel):
    """Options of `QdrantStore` that matter with `url=`."""

    model_config = ConfigDict(frozen=True)

    url: str
    distance: str
    keyword: bool
    timeout_s: float = Field(gt=0)
    api_key: SecretStr | None = None
    client_kwargs: Mapping[str, Any] | None = None
    shard_number: int | None = Field(default=None, ge=1)
    replication_factor: int | None = Field(default=None, ge=1)
    write_consistency_factor: int | None = Field(default=None, ge=1)
    quantization: Literal["scalar", "binary", "product"] | None = None
    on_disk: bool | None = None

    @classmethod
    def checked(cls, **options: Any) -> RemoteOptions:
        """Raises: ConfigurationError: an option is out of range; the message holds no value."""
        try:
            return cls(**options)
        except ValueError as error:
            details = error.errors() if hasattr(error, "errors") else []
            reasons = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in details]
            raise ConfigurationError(f"QdrantStore(url=...): {'; '.join(reasons)}") from None


class Connection:
    """An `AsyncQdrantClient` on a loop in a thread of its own.

    The client builds and parses its bodies on its loop, 20 ms and more for 300 points, and belongs to one loop; so the
    caller's loop goes on, and the store can be used from several loops.
    """

    def __init__(self, owner: object, options: RemoteOptions) -> None:
        self._owner = owner
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: AsyncQdrantClient | None = None

    @property
    def client(self) -> AsyncQdrantClient:
        if self._client is None:
            raise closed_store(self._owner)
        return self._client

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open(self) -> None:
        key = self._options.api_key
        self._client = AsyncQdrantClient(
            **{
                "url": self._options.url,
                "api_key": key.get_secret_value() if key else None,
                "timeout": math.ceil(self._options.timeout_s),
                # It would ask the server for its version from the caller's thread.
                "check_compatibility": False,
                **(self._options.client_kwargs or {}),
            }
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="agent-rag-qdrant", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        client, loop = self._client, self._loop
        self._client = self._loop = None
        if client is None or loop is None:
            return
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(client.close(), loop))
        finally:
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(self._thread.join)

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await `coroutine` on the connection's loop; cancelling reaches it."""
        if self._loop is None:
            coroutine.close()
            raise closed_store(self._owner)
        if asyncio.get_running_loop() is self._loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    @contextlib.contextmanager
    def errors(self, collection: str = "") -> Iterator[None]:
        """Turn the client's errors into ours."""
        try:
            yield
        except ResponseHandlingException as error:
            reason = redact(str(error.source) or type(error.source).__name__)
            raise StoreUnavailableError(
                f"Qdrant at {redact(self._options.url)} does not answer ({reason}); check that it runs and can be "
                f"reached, or raise timeout_s={self._options.timeout_s:g}"
            ) from error
        except UnexpectedResponse as error:
            body = redact(error.content.decode("utf-8", "replace")[:500])
            where = f"Qdrant at {redact(self._options.url)} answered {error.status_code}"
            if error.status_code == 404 and "doesn't exist" in body:
                raise unknown_collection(collection) from error
            if error.status_code in (408, 429) or (error.status_code or 0) >= 500:
                raise StoreUnavailableError(f"{where}: {body}; try again later") from error
            if error.status_code in (401, 403):
                raise StoreError(f"{where}: it refuses the key; check api_key") from error
            raise StoreError(f"{where} for collection {collection!r}: {body}") from error
        except ApiException as error:
            raise StoreError(f"Qdrant at {redact(self._options.url)}: {redact(str(error))}") from error


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


class OnConnection:
    """Base of classes whose public methods run on the connection's loop."""

    connection: Connection


Owner = TypeVar("Owner", bound=OnConnection)


def on_connection(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Owner, P], Coroutine[Any, Any, T]]:
    """Run an async method on the loop of its object's connection."""

    @functools.wraps(method)
    async def run(self: Owner, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.connection.run(method(self, *args, **kwargs))

    return cast(Callable[Concatenate[Owner, P], Coroutine[Any, Any, T]], run)


class ServerDialect:
    """Conditions of qdrant-client."""

    def any_token(self, tokens: Sequence[str]) -> models.Condition:
        return any_of(TOKENS, tokens)

    def in_range(self, field: str, bounds: Mapping[str, float]) -> models.Condition:
        return models.FieldCondition(key=field, range=models.Range(**bounds))

    def combine(
        self,
        must: Sequence[models.Condition] = (),
        should: Sequence[models.Condition] = (),
        must_not: Sequence[models.Condition] = (),
    ) -> models.Filter:
        return models.Filter(must=list(must) or None, should=list(should) or None, must_not=list(must_not) or None)


def any_of(field: str, values: Sequence[str]) -> models.Condition:
    """`field` is one of `values`, or a list with one of them; never true for no values."""
    if not values:
        return models.HasIdCondition(has_id=[])
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))


def equals(field: str, value: str | bool) -> models.Condition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))
