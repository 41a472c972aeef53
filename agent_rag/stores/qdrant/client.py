"""The connection to a Qdrant server: options, one client on a loop of its own, errors, conditions."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import grpc
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from ...errors import ConfigurationError, StoreError, StoreUnavailableError, redact
from ..engine.payload import TOKENS
from ..engine.records import closed_store, unknown_collection

T = TypeVar("T")

_NOT_READY = b"0 of 0 read operations failed"
_READY_ATTEMPTS, _READY_PAUSE_S = 50, 0.2

NUMBERS = "m"
"""The numbers that filters compare, as pairs ``{"k": field, "v": number}``."""


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
    prefer_grpc: bool = False

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
                "prefer_grpc": self._options.prefer_grpc,
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
            body = error.content.decode("utf-8", "replace")
            raise self._refused(collection, error.status_code or 0, body) from error
        except grpc.RpcError as error:
            code, detail = error.code(), str(error.details())
            raise self._refused(collection, _STATUS.get(code.name, 400), f"{code.name}: {detail}") from error
        except ApiException as error:
            raise StoreError(f"Qdrant at {redact(self._options.url)}: {redact(str(error))}") from error

    def _refused(self, collection: str, status: int, answer: str) -> StoreError:
        """Our error for an answer that is none of success."""
        body = redact(answer[:500])
        where = f"Qdrant at {redact(self._options.url)} answered {status}"
        if status == 404 and "doesn't exist" in body:
            return unknown_collection(collection)
        if status in (408, 429) or status >= 500:
            return StoreUnavailableError(f"{where}: {body}; try again later")
        if status == 403 and self._options.api_key is not None:
            return StoreError(
                f"{where}: {body}; the key may not do this: a read-only key searches and lists, for writing pass one "
                "that may write, or a key of this collection"
            )
        if status in (401, 403):
            return StoreError(f"{where}: it refuses the key; check api_key")
        return StoreError(f"{where} for collection {collection!r}: {body}")


_STATUS = {
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 408,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "NOT_FOUND": 404,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
}
"""Code of gRPC -> status of HTTP."""


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def when_ready(read: Callable[[], Awaitable[T]]) -> T:
    """Run a read, again for some seconds while the shards of a new collection of a cluster are not there yet."""
    for _ in range(_READY_ATTEMPTS):
        try:
            return await read()
        except UnexpectedResponse as error:
            if _NOT_READY not in error.content:
                raise
        except grpc.RpcError as error:
            if _NOT_READY.decode() not in str(error.details()):
                raise
        await asyncio.sleep(_READY_PAUSE_S)
    return await read()


class ServerDialect:
    """Conditions of qdrant-client."""

    def any_token(self, tokens: Sequence[str]) -> models.Condition:
        return any_of(TOKENS, tokens)

    def in_range(self, field: str, bounds: Mapping[str, float]) -> models.Condition:
        """All numbers are pairs in one nested field, so that two indexes serve whatever fields there are."""
        pair = [equals("k", field), models.FieldCondition(key="v", range=models.Range(**bounds))]
        return models.NestedCondition(nested=models.Nested(key=NUMBERS, filter=models.Filter(must=pair)))

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


def equals(field: str, value: str | int) -> models.Condition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))
