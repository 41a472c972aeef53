"""Reranking services over loopback HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from agent_rag.errors import ConfigurationError
from agent_rag.retrieval.rerank_http import HTTPReranker

from ..http_stub import HTTPStub
from .test_rerank import candidates, order

SCORES = [0.1, 0.9, 0.5]
RESULTS = [{"index": index, "relevance_score": score} for index, score in enumerate(SCORES)]
SHAPES: dict[str, tuple[str, str, str | None, Any]] = {
    # api: path, field of the documents, field of the count, answer
    "cohere": ("/v2/rerank", "documents", "top_n", {"id": "x", "results": RESULTS}),
    "jina": ("/v1/rerank", "documents", "top_n", {"model": "m", "results": RESULTS}),
    "voyage": ("/v1/rerank", "documents", "top_k", {"object": "list", "data": RESULTS}),
    "tei": ("/rerank", "texts", None, [{"index": index, "score": score} for index, score in enumerate(SCORES)]),
    "infinity": ("/rerank", "documents", "top_n", {"object": "rerank", "results": RESULTS}),
    "vllm": ("/v1/rerank", "documents", "top_n", {"results": [{**one, "document": {"text": "a"}} for one in RESULTS]}),
}


@pytest.mark.parametrize("api", SHAPES)
async def test_each_service_is_asked_and_read_in_its_shape(api: Any) -> None:
    """Path, field names and answer as the service documents them; the key goes into the header."""
    path, documents, count, answer = SHAPES[api]

    with HTTPStub(lambda path, body: answer) as stub:
        async with HTTPReranker(api, model="m", base_url=stub.url, api_key="secret") as reranker:
            reranked = await reranker.rerank("pumps", candidates("a", "b", "c"), top_n=2)

    ((asked, body, headers),) = stub.requests
    assert asked == path
    assert (body["query"], body[documents], body["model"]) == ("pumps", ["a", "b", "c"], "m")
    assert count is None or body[count] == 3
    assert headers["authorization"] == "Bearer secret"
    assert order(reranked.results) == "2 3"
    assert [result.signals.rerank for result in reranked.results] == [0.9, 0.5]


async def test_blank_documents_and_empty_lists_are_not_sent() -> None:
    """K05: a service that refuses blanks never sees one."""

    def respond(path: str, body: Any) -> Any:
        if not body["texts"] or not all(text.strip() for text in body["texts"]):
            return 400, {"error": "blank"}
        return [{"index": 0, "score": 0.1}, {"index": 1, "score": 0.9}]

    with HTTPStub(respond) as stub:
        async with HTTPReranker("tei", base_url=stub.url) as reranker:
            reranked = await reranker.rerank("q", candidates("a", "", "b"))
            nothing = await reranker.rerank("q", [])

    assert [body["texts"] for body in stub.bodies] == [["a", "b"]]
    assert order(reranked.results) == "3 1 2"
    assert not reranked.degraded
    assert nothing.results == []


@pytest.mark.parametrize(
    "answer",
    [
        (401, {"message": "bad key secret-in-body token=abc"}),
        (500, {"message": "down"}),
        {"unexpected": True},
        [],
        [{"index": 77, "score": 0.5}, {"index": "0", "score": 0.5}, {"index": 0, "score": None}, 7],
    ],
)
async def test_failures_leave_the_order_with_a_flag(answer: Any) -> None:
    """Refused, down, or nonsense; invalid indexes are dropped, not clamped."""
    with HTTPStub(lambda path, body: answer) as stub:
        async with HTTPReranker("tei", base_url=stub.url, max_attempts=1) as reranker:
            reranked = await reranker.rerank("q", candidates("a", "b"))

    assert order(reranked.results) == "1 2"
    assert reranked.degraded
    assert "abc" not in (reranked.reason or "")


async def test_candidates_that_the_answer_leaves_out_follow() -> None:
    """None vanishes."""
    with HTTPStub(lambda path, body: {"results": [{"index": 2, "relevance_score": 0.9}]}) as stub:
        async with HTTPReranker("vllm", model="m", base_url=stub.url) as reranker:
            reranked = await reranker.rerank("q", candidates("a", "b", "c"))

    assert order(reranked.results) == "3 1 2"


async def test_a_busy_service_is_asked_again() -> None:
    """429 with Retry-After."""
    answers = iter([(429, {}, {"retry-after": "0"}), [{"index": 1, "score": 0.9}]])

    with HTTPStub(lambda path, body: next(answers)) as stub:
        async with HTTPReranker("tei", base_url=stub.url) as reranker:
            reranked = await reranker.rerank("q", candidates("a", "b"))

    assert order(reranked.results) == "2 1"
    assert len(stub.requests) == 2


async def test_a_silent_service_costs_the_timeout() -> None:
    """Then the order of the search stays."""
    with HTTPStub(lambda path, body: None, hang=True) as stub:
        async with HTTPReranker("tei", base_url=stub.url, timeout_s=0.2) as reranker:
            reranked = await reranker.rerank("q", candidates("a", "b"))

    assert reranked.degraded


@pytest.mark.parametrize(
    ("api", "missing"), [("tei", "base_url"), ("infinity", "base_url"), ("vllm", "base_url"), ("x", "unknown")]
)
def test_what_is_missing_is_said_at_construction(api: Any, missing: str) -> None:
    """Servers of one's own have no default address."""
    with pytest.raises(ConfigurationError, match=missing):
        HTTPReranker(api)


def test_the_key_is_in_no_repr() -> None:
    """And comes from the environment otherwise."""
    assert "secret" not in repr(HTTPReranker("cohere", api_key="secret"))
