"""Embedding for many documents at once: requests are full whatever the size of the documents, several in flight."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..embeddings.base import EmbeddingInput
from ..errors import EmbeddingError

logger = logging.getLogger("agent_rag")

Vector = Sequence[float]
Embed = Callable[[list[EmbeddingInput]], Awaitable[Sequence[Vector]]]

_LINGER_S = 0.05
_FAILURES_IN_A_ROW = 5


@dataclass(eq=False)
class _Order:
    """What one document wants embedded."""

    inputs: list[EmbeddingInput]
    vectors: list[Vector | None]
    missing: int
    done: asyncio.Future[None]


@dataclass
class _Part:
    """Some inputs of one order, in one request."""

    order: _Order
    positions: list[int] = field(default_factory=list)

    @property
    def inputs(self) -> list[EmbeddingInput]:
        return [self.order.inputs[position] for position in self.positions]

    def fill(self, vectors: Sequence[Vector]) -> None:
        for position, vector in zip(self.positions, vectors, strict=True):
            # 4 bytes a number; a list of floats takes 32.
            self.order.vectors[position] = array("f", vector)
        self.order.missing -= len(self.positions)
        if self.order.missing == 0 and not self.order.done.done():
            self.order.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        if not self.order.done.done():
            self.order.done.set_exception(error)


class BatchEmbedder:
    """Collects what documents want embedded into requests of up to `batch_size`, `max_concurrency` of them at a time.

    A request that is not full waits up to 50 ms for more, while more may come. One that fails is tried again for each
    document of it, so that a document which cannot be embedded costs only itself.

    Args:
        embed: One request.
        more_may_come: Whether documents are still being read.
        is_fatal: Whether an error would be met by every further request; it then goes to every document.
        on_request: Called after each request.
    """

    def __init__(
        self,
        embed: Embed,
        *,
        batch_size: int,
        max_concurrency: int,
        more_may_come: Callable[[], bool],
        is_fatal: Callable[[BaseException], bool],
        on_request: Callable[[], Awaitable[None]],
    ) -> None:
        self._embed = embed
        self._batch_size = batch_size
        self._max_concurrency = max_concurrency
        self._more_may_come = more_may_come
        self._is_fatal = is_fatal
        self._on_request = on_request
        self._waiting: deque[tuple[_Order, int]] = deque()
        self._requests: set[asyncio.Task[None]] = set()
        self._linger: asyncio.TimerHandle | None = None
        self._fatal: BaseException | None = None
        self._failures = 0
        self.embedded = 0
        """Vectors computed."""

    @property
    def in_flight(self) -> int:
        """Requests under way."""
        return len(self._requests)

    @property
    def waiting(self) -> int:
        """Inputs that are in no request yet."""
        return len(self._waiting)

    async def vectors(self, wanted: Mapping[str, EmbeddingInput]) -> dict[str, Vector]:
        """A vector for each of `wanted`, under its key.

        Raises: EmbeddingError, ...: of the request that had it, or what ends the run.
        """
        if not wanted:
            return {}
        if self._fatal is not None:
            raise self._fatal
        inputs = list(wanted.values())
        order = _Order(inputs, [None] * len(inputs), len(inputs), asyncio.get_running_loop().create_future())
        self._waiting.extend((order, position) for position in range(len(inputs)))
        self._send()
        await order.done
        return {key: vector for key, vector in zip(wanted, order.vectors, strict=True) if vector is not None}

    async def aclose(self) -> None:
        """Give up what is under way."""
        if self._linger is not None:
            self._linger.cancel()
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    def flush(self) -> None:
        """Wait for nothing more."""
        self._send(now=True)

    def _send(self, *, now: bool = False) -> None:
        """Start as many requests as may be."""
        while self._waiting and self.in_flight < self._max_concurrency:
            if len(self._waiting) < self._batch_size and self._more_may_come() and not now:
                if self._linger is None:
                    self._linger = asyncio.get_running_loop().call_later(_LINGER_S, self._lingered)
                return
            parts: dict[int, _Part] = {}
            for _ in range(min(self._batch_size, len(self._waiting))):
                order, position = self._waiting.popleft()
                if not order.done.done():
                    parts.setdefault(id(order), _Part(order)).positions.append(position)
            if parts:
                request = asyncio.create_task(self._request(list(parts.values())))
                self._requests.add(request)
                request.add_done_callback(self._ended)

    def _lingered(self) -> None:
        self._linger = None
        self._send(now=True)

    def _ended(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        self._send()

    async def _request(self, parts: list[_Part]) -> None:
        try:
            await self._try(parts)
        except asyncio.CancelledError:
            for part in parts:
                part.order.done.cancel()
            raise
        await self._on_request()

    async def _try(self, parts: list[_Part]) -> None:
        if self._fatal is not None:
            for part in parts:
                part.fail(self._fatal)
            return
        try:
            vectors = await self._embed([one for part in parts for one in part.inputs])
        except Exception as error:
            await self._failed(parts, error)
            return
        self._failures = 0
        start = 0
        for part in parts:
            part.fill(vectors[start : start + len(part.positions)])
            start += len(part.positions)
        self.embedded += start

    async def _failed(self, parts: list[_Part], error: Exception) -> None:
        self._failures += 1
        if self._failures >= _FAILURES_IN_A_ROW and isinstance(error, EmbeddingError) and not self.embedded:
            logger.error("%d embedding requests in a row failed and none succeeded; giving up", self._failures)
            self._fatal = error
        if self._is_fatal(error):
            self._fatal = error
        if len(parts) == 1 or self._fatal is not None:
            for part in parts:
                part.fail(error)
            return
        for part in parts:
            await self._try([part])

    @property
    def fatal(self) -> BaseException | None:
        """What ends the run, once it was met."""
        return self._fatal


class Budget:
    """How much may be between reading and writing at a time, so that memory has a bound.

    Something larger than the whole bound waits until it is alone.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._freed = asyncio.Condition()

    async def take(self, amount: int) -> None:
        """Wait until there is room."""
        async with self._freed:
            await self._freed.wait_for(lambda: self._used == 0 or self._used + amount <= self._limit)
            self._used += amount

    async def give_back(self, amount: int) -> None:
        """Make room."""
        async with self._freed:
            self._used -= amount
            self._freed.notify_all()
