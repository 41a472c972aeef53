"""Requests to one service: how many are in flight, and what all of them do when it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from .http import MAX_RETRY_AFTER_S, HTTPFailure

_BACKOFF_S = 0.25
_MAX_BACKOFF_S = 8.0
_REST_S = 5.0
"""For so long a service that has refused everything is not asked again."""
_WRONG_KEY = 401

T = TypeVar("T")


class ServiceRefusesError(HTTPFailure):
    """The service is away, or refuses every request; what waits for it is not sent."""


@dataclass
class _State:
    """Of one event loop, whose tasks change it between awaits only."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0
    allowed: int = 1
    refused: int = 0
    """Requests refused one after another, without an answer between."""
    wait_until: float = 0.0
    broken: HTTPFailure | None = None
    broken_until: float = 0.0

    def wake(self) -> None:
        """Let all that wait look again."""
        self.changed.set()
        self.changed = asyncio.Event()


class Gate:
    """Lets requests through: one at first, more with each answer, one again after a refusal that may pass.

    Retry-After and the back-off count for all that wait, so a limit is met once and not by every request anew. When
    `max_attempts` requests in a row are refused, the key is wrong, or the service says that a refusal lasts, all that
    wait fail with one error, and later ones at once for a few seconds.
    """

    def __init__(self, max_concurrency: int, max_attempts: int) -> None:
        self._max_concurrency = max_concurrency
        self._max_attempts = max_attempts
        self._states: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _State] = weakref.WeakKeyDictionary()

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` gives; it is called again after an `HTTPFailure` that may pass.

        Raises: ServiceRefusesError: no request gets through. HTTPFailure: this one does not.
        """
        state = self._states.setdefault(asyncio.get_running_loop(), _State())
        attempts = 0
        while True:
            await self._enter(state)
            attempts += 1
            try:
                answer = await call()
            except HTTPFailure as failure:
                if failure.transient and (broken := self._refused(state, failure)) is not None:
                    raise broken from failure
                if failure.status == _WRONG_KEY:
                    state.broken, state.broken_until = failure, time.monotonic() + _REST_S
                if not failure.transient or attempts >= self._max_attempts:
                    raise
            else:
                state.refused = 0
                state.allowed = min(self._max_concurrency, 2 * state.allowed)
                return answer
            finally:
                state.in_flight -= 1
                state.wake()

    async def _enter(self, state: _State) -> None:
        while True:
            now = time.monotonic()
            if state.broken is not None and now < state.broken_until:
                raise state.broken
            pause = state.wait_until - now
            if state.in_flight < state.allowed and pause <= 0:
                state.broken = None
                state.in_flight += 1
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if state.in_flight < state.allowed else None):
                    await state.changed.wait()

    def _refused(self, state: _State, failure: HTTPFailure) -> ServiceRefusesError | None:
        """Slow all down; the error that ends them, when it is time."""
        state.refused += 1
        state.allowed = 1
        pause = failure.retry_after_s
        if pause is None:
            pause = min(_MAX_BACKOFF_S, _BACKOFF_S * 2**state.refused) * random.uniform(0.5, 1.0)
        state.wait_until = max(state.wait_until, time.monotonic() + min(pause, MAX_RETRY_AFTER_S))
        if not failure.lasting and state.refused < self._max_attempts:
            return None
        reason = "refuses for long" if failure.lasting else f"has refused {state.refused} requests in a row"
        broken = ServiceRefusesError(f"{failure}; the service {reason}", status=failure.status)
        broken.timed_out = failure.timed_out
        state.broken, state.broken_until = broken, time.monotonic() + _REST_S
        state.refused, state.wait_until = 0, 0.0
        return broken
