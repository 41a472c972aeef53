"""HTTP for the providers: what is tried again, how long is waited, what a failure says."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic import SecretStr

from agent_rag._util.http import HTTPFailure, JSONClient, retried, secret
from tests.http_stub import HTTPStub


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, None])
def test_a_refusal_that_may_pass_is_tried_again(status: int | None) -> None:
    """Overload, conflict, a server's own error, or no answer."""
    assert HTTPFailure("x", status=status).transient


@pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 410, 413, 422, 501, 505, 530])
async def test_a_refusal_that_stays_is_not(status: int) -> None:
    """One request, and the failure has the status."""
    with HTTPStub(lambda *_: (status, {"error": "no"})) as stub:
        async with JSONClient(stub.url) as client:
            if status == 200 or status == 301:
                assert await client.post("/a", {}) == {"error": "no"}
            else:
                with pytest.raises(HTTPFailure) as caught:
                    await client.post("/a", {})
                assert caught.value.status == status

    assert len(stub.requests) == 1


async def test_a_lost_connection_is_a_failure_that_names_the_address() -> None:
    """Not httpx's own error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    async with JSONClient(url, max_attempts=1) as client:
        with pytest.raises(HTTPFailure, match=f"{url}/a: ConnectError"):
            await client.post("/a", {})


async def waits(monkeypatch: pytest.MonkeyPatch, failures: list[HTTPFailure]) -> list[float]:
    """The pauses between attempts, of which the last one succeeds."""
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float, *arguments: Any) -> None:
        slept.append(seconds)
        await real(0)

    async def call() -> str:
        if failures:
            raise failures.pop(0)
        return "done"

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert await retried(call, max_attempts=10) == "done"
    return slept


async def test_retry_after_is_respected_up_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly as asked, and 60 s at most."""
    asked = [HTTPFailure("x", status=429, retry_after_s=seconds) for seconds in (0.0, 7.5, 60.0, 61.0, 3_600.0)]

    assert await waits(monkeypatch, asked) == [0.0, 7.5, 60.0, 60.0, 60.0]


async def test_without_retry_after_the_pause_grows_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random up to .25 s, doubled each time, 8 s at most."""
    slept = await waits(monkeypatch, [HTTPFailure("x", status=503) for _ in range(9)])

    assert all(pause <= min(8.0, 0.25 * 2**number) for number, pause in enumerate(slept))
    assert len(slept) == 9


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), (" 1.5 ", 1.5), ("1.2.3", None), ("soon", None), ("-1", None), ("", None)],
)
async def test_retry_after_in_seconds_is_read(header: str, seconds: float | None) -> None:
    """What is no number is no wish."""
    with HTTPStub(lambda *_: (503, {}, {"Retry-After": header})) as stub:
        async with JSONClient(stub.url, max_attempts=1) as client:
            with pytest.raises(HTTPFailure) as caught:
                await client.post("/a", {})

    assert caught.value.retry_after_s == seconds


async def test_retry_after_as_a_date_is_read() -> None:
    """A moment ahead is that far away, one that is over is now."""
    for offset in (100, -100):
        header = format_datetime(datetime.now(UTC) + timedelta(seconds=offset), usegmt=True)
        with HTTPStub(lambda *_, header=header: (503, {}, {"Retry-After": header})) as stub:
            async with JSONClient(stub.url, max_attempts=1) as client:
                with pytest.raises(HTTPFailure) as caught:
                    await client.post("/a", {})

        assert caught.value.retry_after_s is not None
        assert 0 <= caught.value.retry_after_s <= max(0, offset)
        assert (caught.value.retry_after_s > 50) == (offset > 0)


@pytest.mark.parametrize(("attempts", "timeout"), [(0, 1.0), (1, 0.0), (1, -1.0)])
def test_numbers_that_cannot_work_are_refused(attempts: int, timeout: float) -> None:
    """At least one attempt, and some time for it."""
    with pytest.raises(ValueError, match="must be positive"):
        JSONClient("http://127.0.0.1", max_attempts=attempts, timeout_s=timeout)


@pytest.mark.parametrize(
    ("status", "text", "retry_after_s", "lasting"),
    [
        (429, "insufficient_quota", None, True),
        (400, "insufficient_quota", None, False),
        (429, "slow down", None, False),
        (429, "slow down", 60.0, False),
        (429, "slow down", 60.1, True),
        (503, "busy", 3_600.0, True),
    ],
)
def test_a_refusal_that_lasts(status: int, text: str, retry_after_s: float | None, lasting: bool) -> None:
    """The quota is used up, or the service asks for more than a minute."""
    assert HTTPFailure(text, status=status, retry_after_s=retry_after_s).lasting is lasting


def test_a_key_that_is_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the variable, which stands in where none is given; neither is no key."""
    monkeypatch.setenv("SOME_KEY", "of the environment")
    monkeypatch.delenv("NO_KEY", raising=False)

    given = [secret("mine", "SOME_KEY"), secret(SecretStr("mine"), "SOME_KEY"), secret(None, "SOME_KEY")]

    assert [key and key.get_secret_value() for key in given] == ["mine", "mine", "of the environment"]
    assert secret(None, "NO_KEY") is None
    assert secret("", "NO_KEY") is None
