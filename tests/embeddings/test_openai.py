"""OpenAIEmbeddingModel over real HTTP on loopback."""

import asyncio
import base64
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_rag import OpenAIEmbeddingModel, TextBlock
from agent_rag.errors import ConfigurationError, EmbeddingAuthError, EmbeddingError, EmbeddingTimeoutError
from tests.http_stub import HTTPStub


def vectors(inputs: list[str], size: int = 3) -> dict[str, Any]:
    """What an OpenAI-compatible endpoint answers: the position in the batch as the first number."""
    return {
        "data": [{"index": i, "embedding": [float(i), *[0.0] * (size - 2), 1.0]} for i in range(len(inputs))],
        "usage": {"total_tokens": len(inputs)},
    }


@asynccontextmanager
async def serving(
    respond: Callable[[str, Any], Any], *, hang: bool = False, **options: Any
) -> AsyncIterator[tuple[OpenAIEmbeddingModel, HTTPStub]]:
    with HTTPStub(respond, hang=hang) as stub:
        options = {"dimensions": 3, "api_key": "sk-test-key-1234", **options}
        async with OpenAIEmbeddingModel("some-model", base_url=f"{stub.url}/v1", **options) as model:
            yield model, stub


async def test_sends_batches_in_order_and_counts_tokens() -> None:
    """23 texts with a batch size of 10 go out as 10, 10 and 3, and come back in order. (E01)"""
    async with serving(lambda path, body: vectors(body["input"]), batch_size=10, max_concurrency=1) as (model, stub):
        answer = await model([f"text {i}" for i in range(23)])

    assert [len(body["input"]) for body in stub.bodies] == [10, 10, 3]
    assert [vector[0] for vector in answer.embeddings] == [*range(10), *range(10), *range(3)]
    assert answer.tokens == 23
    assert stub.requests[0][0] == "/v1/embeddings"
    assert stub.requests[0][2]["authorization"] == "Bearer sk-test-key-1234"
    assert stub.bodies[0]["encoding_format"] == "float"


async def test_halves_a_batch_that_names_its_limit() -> None:
    """A 400 that names a batch limit, and a 413, halve the batch until it passes. (E01, E09)"""

    def respond(path: str, body: Any) -> Any:
        if len(body["input"]) > 4:
            return 413, {"error": "too large"}
        return vectors(body["input"])

    async with serving(respond) as (model, stub):
        answer = await model([str(i) for i in range(8)])

    assert [len(body["input"]) for body in stub.bodies] == [8, 4, 4]
    assert len(answer.embeddings) == 8


async def test_matches_vectors_by_index() -> None:
    """Vectors answered in reverse with the right indexes land on their texts. (E03)"""

    def respond(path: str, body: Any) -> Any:
        answer = vectors(body["input"])
        answer["data"].reverse()
        return answer

    async with serving(respond) as (model, _):
        answer = await model(["a", "b", "c"])

    assert [vector[0] for vector in answer.embeddings] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("style", ["floats", "base64", "refuses"])
async def test_reads_floats_and_base64(style: str) -> None:
    """A server may ignore encoding_format, answer base64 anyway, or refuse the field. (E05)"""
    numbers = [0.5, *[0.25] * 767]

    def respond(path: str, body: Any) -> Any:
        if style == "refuses" and "encoding_format" in body:
            return 400, {"error": "unknown field encoding_format"}
        packed = base64.b64encode(struct.pack("<768f", *numbers)).decode()
        return {"data": [{"index": 0, "embedding": packed if style == "base64" else numbers}]}

    async with serving(respond, dimensions=768) as (model, _):
        answer = await model(["a"])

    assert answer.embeddings == [numbers]


async def test_names_the_sizes_when_a_vector_has_another_length() -> None:
    """A vector of the wrong length is an error that says got and expected. (E05)"""
    async with serving(lambda path, body: vectors(body["input"], size=5)) as (model, _):
        with pytest.raises(EmbeddingError, match="vectors of 5 numbers, expected 3"):
            await model(["a"])


@pytest.mark.parametrize(
    "answer",
    [
        {"data": [{"index": 0, "embedding": [1, 2, 3]}]},
        {"data": [{"index": 0, "embedding": [1, 2, 3]}, {"index": 0, "embedding": [1, 2, 3]}]},
        {"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": [1, 2, 3]}]},
        {"data": "nonsense"},
        b'{"data": [{"index": 0, "embedding": [NaN, 1, 2]}, {"index": 1, "embedding": [1, 2, 3]}]}',
    ],
)
async def test_rejects_an_answer_that_does_not_fit(answer: Any) -> None:
    """A wrong count, a repeated index, an empty vector or NaN is an error, never a shifted pairing."""
    async with serving(lambda path, body: answer) as (model, _):
        with pytest.raises(EmbeddingError):
            await model(["a", "b"])


@pytest.mark.parametrize("blank", ["", " \n", TextBlock(text="\t")])
async def test_refuses_blanks_before_any_request(blank: Any) -> None:
    """A blank input is a ValueError and the server sees nothing. (E07)"""
    async with serving(lambda path, body: vectors(body["input"])) as (model, stub):
        with pytest.raises(ValueError, match="input 1 of 3 is blank"):
            await model(["a", blank, "b"])

    assert stub.requests == []


async def test_asks_once_when_the_key_is_wrong() -> None:
    """401 is not retried, and the message does not show the key. (E09)"""
    async with serving(lambda path, body: (401, {"error": "bad key sk-test-key-1234"})) as (model, stub):
        with pytest.raises(EmbeddingAuthError) as caught:
            await model([str(i) for i in range(3)])

    assert len(stub.requests) == 1
    assert "sk-test-key-1234" not in str(caught.value)
    assert "sk-test-key-1234" not in repr(model)


async def test_retries_503_and_respects_retry_after() -> None:
    """Two 503 with Retry-After, then an answer: success after that wait. (E09)"""
    answers = iter([(503, {}, {"Retry-After": "0.2"}), (503, {}, {"Retry-After": "0.2"})])

    async with serving(lambda path, body: next(answers, vectors(body["input"]))) as (model, stub):
        started = time.monotonic()
        answer = await model(["a"])
        waited = time.monotonic() - started

    assert len(answer.embeddings) == 1
    assert len(stub.requests) == 3
    assert waited >= 0.4


async def test_gives_up_on_a_silent_server() -> None:
    """A server that accepts and never answers ends in a timeout error. (E13)"""
    async with serving(lambda path, body: {}, hang=True, timeout_s=0.5, max_attempts=2) as (model, stub):
        async with asyncio.timeout(25):  # the server holds a request for 30 s
            with pytest.raises(EmbeddingTimeoutError):
                await model(["a"])

    assert len(stub.requests) == 2


@pytest.mark.parametrize("answer", [{"embeddings": [[1.0, 2.0, 3.0]]}, {"embedding": [1.0, 2.0, 3.0]}])
async def test_reads_the_answers_of_ollama(answer: Any) -> None:
    """Both of Ollama's own shapes are read. (E15)"""
    async with serving(lambda path, body: answer) as (model, _):
        response = await model(["a"])

    assert response.embeddings == [[1.0, 2.0, 3.0]]


async def test_cuts_a_pasted_page_used_as_a_query() -> None:
    """A query over the limit is cut to its bytes; a document is sent whole. (R11)"""
    page = "word " * 50_000

    async with serving(lambda path, body: vectors(body["input"])) as (model, stub):
        await model([page], mode="query")
        await model([page], mode="document")

    assert len(stub.bodies[0]["input"][0]) == 8191
    assert len(stub.bodies[1]["input"][0]) == len(page)


async def test_bounds_requests_in_flight() -> None:
    """No more than max_concurrency requests are open at a time."""
    open_now, most = 0, 0

    def respond(path: str, body: Any) -> Any:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        time.sleep(0.02)
        open_now -= 1
        return vectors(body["input"])

    async with serving(respond, batch_size=1, max_concurrency=3) as (model, _):
        await model([str(i) for i in range(20)])

    assert most <= 3


def test_needs_the_size_of_an_unknown_model() -> None:
    """A model whose vector size nobody knows is a configuration error that says what to pass."""
    with pytest.raises(ConfigurationError, match="pass dimensions="):
        OpenAIEmbeddingModel("nomic-embed-text")


def test_prefixes_change_the_fingerprint() -> None:
    """Two prefixes are two vector spaces."""
    plain = OpenAIEmbeddingModel("m", dimensions=3)
    prefixed = OpenAIEmbeddingModel("m", dimensions=3, query_prefix="query: ")

    assert plain.fingerprint != prefixed.fingerprint
