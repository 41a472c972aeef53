"""Providers that limit, refuse, lie or are away: what one run sends, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from agent_rag import KnowledgeBase, MemoryStore, OpenAIEmbeddingModel, ingest
from agent_rag.errors import EmbeddingAuthError, EmbeddingError, EmbeddingUnavailableError, ModelMismatchError
from tests.http_stub import HTTPStub


def vectors(inputs: list[str]) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": [float(len(text)), 1.0]} for i, text in enumerate(inputs)]}


def model_at(url: str, **options: Any) -> OpenAIEmbeddingModel:
    return OpenAIEmbeddingModel("m", dimensions=2, base_url=url, api_key="k", **options)


def files(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / f"{number}.txt").write_text(f"Document number {number} is about pumps.")
    return folder


async def run(url: str, folder: Path, **options: Any) -> None:
    async with MemoryStore() as store, model_at(url, **options) as model:
        await ingest(KnowledgeBase("k", "d", model, store, "k"), folder)


QUOTA = {"error": {"message": "You exceeded your current quota, please check your plan", "code": "insufficient_quota"}}


@pytest.mark.parametrize(
    "answer", [(429, QUOTA, {"Retry-After": "1"}), (429, {"error": "slow down"}, {"Retry-After": "0"})]
)
async def test_a_limit_for_ever_ends_the_run_after_a_few_requests(answer: Any, tmp_path: Path) -> None:
    """EM01: twelve files, at most five requests, one error that names the cause."""
    with HTTPStub(lambda *_: answer) as stub, pytest.raises(EmbeddingUnavailableError, match="429"):
        await run(stub.url, files(tmp_path, 12))

    assert len(stub.requests) <= 5


async def test_a_provider_that_is_away_ends_the_run_with_one_message(tmp_path: Path) -> None:
    """EM08: seventeen files, nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(EmbeddingUnavailableError, match="check the account, base_url and the network"):
        await run(url, files(tmp_path, 17))


async def test_a_wrong_key_ends_the_run(tmp_path: Path) -> None:
    """One request, whatever the number of files."""
    with HTTPStub(lambda *_: (401, {"error": "bad key"})) as stub, pytest.raises(EmbeddingAuthError):
        await run(stub.url, files(tmp_path, 12))

    assert len(stub.requests) == 1


async def test_what_is_refused_is_refused_for_a_while_without_asking() -> None:
    """A second call fails at once with the same reason."""
    with HTTPStub(lambda *_: (429, QUOTA)) as stub:
        async with model_at(stub.url) as model:
            for _ in range(3):
                with pytest.raises(EmbeddingUnavailableError, match="quota"):
                    await model(["a"])

    assert len(stub.requests) == 1


async def test_the_token_cap_of_openai_halves_and_is_remembered() -> None:
    """EM02: 64 texts of 5,000 tokens against 300,000 a request."""

    def respond(path: str, body: Any) -> Any:
        tokens = 5_000 * len(body["input"])
        if tokens > 300_000:
            message = f"Requested {tokens} tokens, max 300000 tokens per request"
            return 400, {"error": {"message": message, "type": "max_tokens_per_request"}}
        return vectors(body["input"])

    texts = [f"{'x' * number}y" for number in range(64)]
    with HTTPStub(respond) as stub:
        async with model_at(stub.url) as model:
            first = await model(texts)
            await model(texts)

    assert [vector[0] for vector in first.embeddings] == [float(len(text)) for text in texts]
    assert sum(len(body["input"]) == 64 for body in stub.bodies) == 1


async def test_a_refused_batch_size_is_learnt_once() -> None:
    """EM03: a server that takes ten inputs, 640 texts: at most seven refusals."""
    refused = []

    def respond(path: str, body: Any) -> Any:
        if len(body["input"]) > 10:
            refused.append(len(body["input"]))
            return 400, {"message": "batch size is invalid, it should not be larger than 10"}
        return vectors(body["input"])

    texts = [f"{'x' * (number % 50)}y" for number in range(640)]
    with HTTPStub(respond) as stub:
        async with model_at(stub.url) as model:
            answer = await model(texts)

    assert [vector[0] for vector in answer.embeddings] == [float(len(text)) for text in texts]
    assert len(refused) <= 7


async def test_one_text_that_is_too_long_teaches_nothing() -> None:
    """It fails by itself, and the next call still sends 64 at once."""

    def respond(path: str, body: Any) -> Any:
        if any(len(text) > 1_000 for text in body["input"]):
            return 400, {"error": "This model's maximum context length is 8192 tokens"}
        return vectors(body["input"])

    with HTTPStub(respond) as stub:
        async with model_at(stub.url) as model:
            with pytest.raises(EmbeddingError, match="maximum context length"):
                await model(["a"] * 63 + ["b" * 2_000])
            await model(["a"] * 64)

    assert len(stub.bodies[-1]["input"]) == 64


@pytest.mark.parametrize(
    "items",
    [
        [{"index": 2, "embedding": [3.0, 1.0]}, {"embedding": [2.0, 1.0]}, {"index": 0, "embedding": [1.0, 1.0]}],
        [
            {"index": 0, "embedding": [3.0, 1.0]},
            {"index": 0, "embedding": [2.0, 1.0]},
            {"index": 1, "embedding": [1.0, 1.0]},
        ],
        [
            {"index": "0", "embedding": [3.0, 1.0]},
            {"index": "1", "embedding": [2.0, 1.0]},
            {"index": "2", "embedding": [1, 1]},
        ],
        [{"embedding": [3.0, 1.0]}, {"embedding": [2.0, 1.0]}],
    ],
)
async def test_an_answer_that_cannot_be_matched_is_refused(items: Any) -> None:
    """EM04: an index missing on one, twice, as text, or a vector too few."""
    with HTTPStub(lambda *_: {"data": items}) as stub:
        async with model_at(stub.url) as model:
            with pytest.raises(EmbeddingError, match=r"indexes|2 vectors for 3"):
                await model(["a", "b", "c"])


async def test_vectors_of_zeros_are_refused() -> None:
    """EM05: of a provider, which is told the input, and of a model of one's own; nothing is stored."""

    class Zeros:
        dimensions = 2

        async def __call__(self, inputs: list[str]) -> Any:
            return type("Answer", (), {"embeddings": [[0.0, 0.0] for _ in inputs]})()

    with HTTPStub(lambda *_: {"data": [{"index": 0, "embedding": [1, 1]}, {"index": 1, "embedding": [0, 0]}]}) as stub:
        async with model_at(stub.url) as model:
            with pytest.raises(EmbeddingError, match="input 1 of 2"):
                await model(["a", "b"])
    async with MemoryStore() as store:
        kb = KnowledgeBase("k", "d", Zeros(), store, "k")
        with pytest.raises(EmbeddingError, match="zeros"):
            await kb.search("a") if await store.has_collection("k") else await _insert(kb)

        assert await kb.list_documents() == []


async def _insert(kb: KnowledgeBase) -> None:
    from agent_rag import RecursiveChunker, parse_text

    await kb.insert_document(await RecursiveChunker().chunk(await parse_text("a pump", "a.txt")), "a")


async def test_another_model_of_the_same_size_is_noticed_by_its_name() -> None:
    """EM06: a class of one's own with a name and no fingerprint."""

    class HF:
        dimensions = 2

        def __init__(self, name: str) -> None:
            self.name = name

        async def __call__(self, inputs: list[str]) -> Any:
            return type("Answer", (), {"embeddings": [[1.0, float(len(text))] for text in inputs]})()

    async with MemoryStore() as store:
        await _insert(KnowledgeBase("k", "d", HF("bge"), store, "k"))

        assert await KnowledgeBase("k", "d", HF("bge"), store, "k").search("pump")
        with pytest.raises(ModelMismatchError):
            await KnowledgeBase("k", "d", HF("e5"), store, "k").search("pump")


async def test_a_field_that_the_server_refuses_is_left_out() -> None:
    """``dimensions`` is sent when asked for, and not again after a server has refused it."""

    def respond(path: str, body: Any) -> Any:
        if "dimensions" in body:
            return 400, {"error": "model does not support matryoshka representation, changing dimensions is refused"}
        return vectors(body["input"])

    with HTTPStub(respond) as stub:
        async with model_at(stub.url) as model:
            await model(["a"])
            await model(["b"])

    assert ["dimensions" in body for body in stub.bodies] == [True, False, False]


async def test_requests_run_side_by_side_up_to_the_limit() -> None:
    """200 texts of one request each at 8 in flight: more than 4 at once, never more than 8, one alone at first."""
    running, most, first = [0], [0], [0]

    def respond(path: str, body: Any) -> Any:
        running[0] += 1
        most[0] = max(most[0], running[0])
        first[0] = first[0] or running[0]
        time.sleep(0.05)
        running[0] -= 1
        return vectors(body["input"])

    with HTTPStub(respond) as stub:
        async with model_at(stub.url, batch_size=1, max_concurrency=8) as model:
            await asyncio.gather(model([f"t{n}" for n in range(60)]), model([f"u{n}" for n in range(60)]))

    assert len(stub.requests) == 120
    assert first == [1]
    assert 4 < most[0] <= 8
