"""HTTP for the providers and the web: timeouts, retries that respect Retry-After, typed errors, no secrets in them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
from pydantic import SecretStr
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from ..errors import AgentRAGError, ConfigurationError, redact
from .closing import AsyncClosing

logger = logging.getLogger("agent_rag")

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
MAX_RETRY_AFTER_S = 60.0
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing|arrearage|credit balance", re.I)
_backoff = wait_random_exponential(multiplier=0.25, max=8.0)

T = TypeVar("T")


class HTTPFailure(AgentRAGError):
    """A request that failed; whoever made it turns it into an error of its own."""

    def __init__(self, message: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(redact(message))
        self.status = status
        """HTTP status; None when no answer came."""
        self.retry_after_s = retry_after_s
        self.timed_out = False

    @property
    def transient(self) -> bool:
        """A later request may get through."""
        return self.status is None or self.status in _RETRIED

    @property
    def lasting(self) -> bool:
        """The service says that waiting does not help: the quota is used up, or free again after a long time only."""
        late = self.retry_after_s is not None and self.retry_after_s > MAX_RETRY_AFTER_S
        return late or (self.status == 429 and _QUOTA.search(str(self)) is not None)


class JSONClient(AsyncClosing):
    """POSTs JSON to one service. Holds one connection pool per event loop; `aclose` closes the current loop's."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: SecretStr | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        max_attempts: int = 4,
        client_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            base_url: Without a trailing path, for example ``https://host/v1``.
            timeout_s: For connecting and for each wait on the socket.
            max_attempts: Including the first; 1 never retries.
            client_kwargs: Passed to `httpx.AsyncClient`: proxy, verify, transport. Proxies of the environment are used.
        """
        if max_attempts < 1 or timeout_s <= 0:
            raise ConfigurationError(f"max_attempts={max_attempts} and timeout_s={timeout_s} must be positive")
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._max_attempts = max_attempts
        self._client_kwargs = dict(client_kwargs or {})
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST `body` and return the decoded answer.

        Raises: HTTPFailure: after the last attempt, or at once for an answer that a retry cannot change.
        """
        return await retried(lambda: self.post_once(path, body), max_attempts=self._max_attempts)

    async def open_lines(self, path: str, body: Mapping[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """POST `body`, and give the lines of the answer as they come. Retried until the answer begins, as `post`.

        Raises: HTTPFailure: as `post`; also from the iterator, where the answer breaks off.
        """
        answer = await retried(lambda: self._open_once(path, body), max_attempts=self._max_attempts)
        return self._lines(answer)

    async def _open_once(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        url = f"{self.base_url}{path}"
        with request_failures(url, self._timeout_s):
            client = self._client()
            answer = await client.send(client.build_request("POST", url, json=body), stream=True)
            if answer.is_error:
                await answer.aread()
        if answer.is_error:
            raise refusal(url, answer, f": {answer.text[:500]}")
        return answer

    @asynccontextmanager
    async def _lines(self, answer: httpx.Response) -> AsyncIterator[AsyncIterator[str]]:
        async def lines() -> AsyncIterator[str]:
            with request_failures(str(answer.url), self._timeout_s):
                async for line in answer.aiter_lines():
                    yield line

        try:
            yield lines()
        finally:
            await answer.aclose()

    async def aclose(self) -> None:
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def post_once(self, path: str, body: Mapping[str, Any]) -> Any:
        """As `post`, with one attempt."""
        url = f"{self.base_url}{path}"
        with request_failures(url, self._timeout_s):
            answer = await self._client().post(url, json=body)
        if answer.is_error:
            raise refusal(url, answer, f": {answer.text[:500]}")
        try:
            return answer.json()
        except ValueError as error:
            raise HTTPFailure(f"{url} answered no JSON: {answer.text[:200]!r}", status=answer.status_code) from error

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            headers = dict(self._headers)
            if self._api_key is not None:
                headers.setdefault("Authorization", f"Bearer {self._api_key.get_secret_value()}")
            client = httpx.AsyncClient(headers=headers, timeout=self._timeout_s, **self._client_kwargs)
            self._clients[loop] = client
        return client


async def retried(call: Callable[[], Awaitable[T]], *, max_attempts: int) -> T:
    """What `call` gives, called again after an `HTTPFailure` that may pass, as late as its Retry-After asks.

    Raises: HTTPFailure: after the last attempt, or at once where another one cannot help.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, HTTPFailure) and error.transient),
        stop=stop_after_attempt(max_attempts),
        wait=_wait,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            return await call()
    raise AssertionError("unreachable: tenacity re-raises")


@contextmanager
def request_failures(url: str, timeout_s: float) -> Iterator[None]:
    """Turn what httpx raises into an `HTTPFailure` that names `url`, chained to the original."""
    try:
        yield
    except httpx.TimeoutException as error:
        failure = HTTPFailure(f"{url} did not answer within {timeout_s:g} s")
        failure.timed_out = True
        raise failure from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise HTTPFailure(f"{url}: {type(error).__name__}: {error}") from error


class AsksByHTTP(AsyncClosing):
    """A part that asks one service."""

    _http: JSONClient

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._http.aclose()


def refusal(url: str, answer: httpx.Response, detail: str = "") -> HTTPFailure:
    """The failure that an answer with an unwanted status is."""
    return HTTPFailure(
        f"{url} answered {answer.status_code}{detail}",
        status=answer.status_code,
        retry_after_s=_retry_after(answer.headers.get("retry-after")),
    )


def secret(value: str | SecretStr | None, variable: str) -> SecretStr | None:
    """`value`, else the environment variable; None when neither is set."""
    if isinstance(value, SecretStr):
        return value
    text = value or os.environ.get(variable)
    return SecretStr(text) if text else None


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, HTTPFailure) and error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    return _backoff(state)


def _retry_after(header: str | None) -> float | None:
    if not header:
        return None
    if header.strip().replace(".", "", 1).isdecimal():
        return float(header)
    try:
        return max((parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
