"""Each provider sends what its documentation shows and reads the documented answer, over real HTTP on loopback.

Bodies follow the vendors' reference pages as read on 2026-11-30: OpenAI and Azure (/embeddings), DashScope (text and
multimodal embedding), Gemini (batchEmbedContents), Ollama (/api/embed), text-embeddings-inference (/embed), Cohere
(/v2/embed), Voyage (/embeddings, /multimodalembeddings), Jina (/v1/embeddings).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_rag import Base64Source, DataBlock
from agent_rag.embeddings import (
    AzureOpenAIEmbeddingModel,
    CohereEmbeddingModel,
    DashScopeEmbeddingModel,
    DashScopeMultimodalEmbeddingModel,
    EmbeddingInput,
    GeminiEmbeddingModel,
    JinaEmbeddingModel,
    OllamaEmbeddingModel,
    OpenAIEmbeddingModel,
    RemoteEmbeddingModel,
    TEIEmbeddingModel,
    VoyageEmbeddingModel,
    embedding_model,
)
from agent_rag.errors import ConfigurationError, EmbeddingError
from tests.http_stub import HTTPStub

KEY = "test-key-1234"
PICTURE = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"))
FIRST, SECOND = [1.0, 0.5], [2.0, 0.5]


def data(*order: int) -> list[dict[str, Any]]:
    vectors = [FIRST, SECOND]
    return [{"object": "embedding", "index": n, "embedding": vectors[n]} for n in order]


# name -> (model of an address, path, body for ["a", "b"] as documents, header, answer, tokens)
Case = tuple[Callable[[str], RemoteEmbeddingModel], str, dict[str, Any], tuple[str, str] | None, Any, int | None]
CASES: dict[str, Case] = {
    "openai": (
        lambda url: OpenAIEmbeddingModel("text-embedding-v4", dimensions=2, base_url=url, api_key=KEY),
        "/embeddings",
        {"model": "text-embedding-v4", "input": ["a", "b"], "encoding_format": "float", "dimensions": 2},
        ("authorization", f"Bearer {KEY}"),
        {"object": "list", "data": data(1, 0), "usage": {"prompt_tokens": 7, "total_tokens": 7}},
        7,
    ),
    "azure": (
        lambda url: AzureOpenAIEmbeddingModel("small", dimensions=2, endpoint=url, api_key=KEY),
        "/openai/deployments/small/embeddings?api-version=2024-10-21",
        {"model": "small", "input": ["a", "b"], "encoding_format": "float", "dimensions": 2},
        ("api-key", KEY),
        {"data": data(0, 1), "usage": {"total_tokens": 7}},
        7,
    ),
    "dashscope": (
        lambda url: DashScopeEmbeddingModel("text-embedding-v4", dimensions=2, base_url=url, api_key=KEY),
        "/services/embeddings/text-embedding/text-embedding",
        {
            "model": "text-embedding-v4",
            "input": {"texts": ["a", "b"]},
            "parameters": {"text_type": "document", "dimension": 2},
        },
        ("authorization", f"Bearer {KEY}"),
        {
            "output": {"embeddings": [{"text_index": 1, "embedding": SECOND}, {"text_index": 0, "embedding": FIRST}]},
            "usage": {"total_tokens": 7},
            "request_id": "r",
        },
        7,
    ),
    "gemini": (
        lambda url: GeminiEmbeddingModel(dimensions=2, base_url=url, api_key=KEY),
        "/models/gemini-embedding-001:batchEmbedContents",
        {
            "requests": [
                {
                    "model": "models/gemini-embedding-001",
                    "taskType": "RETRIEVAL_DOCUMENT",
                    "outputDimensionality": 2,
                    "content": {"parts": [{"text": text}]},
                }
                for text in ("a", "b")
            ]
        },
        ("x-goog-api-key", KEY),
        {"embeddings": [{"values": FIRST}, {"values": SECOND}]},
        None,
    ),
    "ollama": (
        lambda url: OllamaEmbeddingModel("nomic-embed-text:v1.5", dimensions=2, base_url=url),
        "/api/embed",
        {"model": "nomic-embed-text:v1.5", "input": ["a", "b"], "truncate": False},
        None,
        {"model": "nomic-embed-text", "embeddings": [FIRST, SECOND], "prompt_eval_count": 7},
        7,
    ),
    "tei": (
        lambda url: TEIEmbeddingModel("e5", dimensions=2, base_url=url, api_key=KEY, document_prompt="passage"),
        "/embed",
        {"inputs": ["a", "b"], "normalize": True, "truncate": False, "prompt_name": "passage"},
        ("authorization", f"Bearer {KEY}"),
        [FIRST, SECOND],
        None,
    ),
    "cohere": (
        lambda url: CohereEmbeddingModel("embed-multilingual-v3.0", dimensions=2, base_url=url, api_key=KEY),
        "/v2/embed",
        {
            "model": "embed-multilingual-v3.0",
            "input_type": "search_document",
            "embedding_types": ["float"],
            "truncate": "NONE",
            "output_dimension": 2,
            "texts": ["a", "b"],
        },
        ("authorization", f"Bearer {KEY}"),
        {"embeddings": {"float": [FIRST, SECOND]}, "meta": {"billed_units": {"input_tokens": 7}}},
        7,
    ),
    "voyage": (
        lambda url: VoyageEmbeddingModel(dimensions=2, base_url=url, api_key=KEY),
        "/embeddings",
        {
            "model": "voyage-3.5",
            "input_type": "document",
            "truncation": False,
            "output_dimension": 2,
            "input": ["a", "b"],
        },
        ("authorization", f"Bearer {KEY}"),
        {"object": "list", "data": data(0, 1), "usage": {"total_tokens": 7}},
        7,
    ),
    "jina": (
        lambda url: JinaEmbeddingModel(dimensions=2, base_url=url, api_key=KEY),
        "/embeddings",
        {
            "model": "jina-embeddings-v3",
            "input": ["a", "b"],
            "task": "retrieval.passage",
            "embedding_type": "float",
            "dimensions": 2,
        },
        ("authorization", f"Bearer {KEY}"),
        {"data": data(1, 0), "usage": {"total_tokens": 7}},
        7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_provider_speaks_as_documented(name: str) -> None:
    """Path, body and key of a request; vectors in the order of the inputs, and tokens, of the answer."""
    make, path, body, header, answer, tokens = CASES[name]

    with HTTPStub(lambda *_: answer) as stub:
        async with make(stub.url) as model:
            response = await model(["a", "b"])

    ((sent_path, sent_body, headers),) = stub.requests
    assert (sent_path, sent_body) == (path, body)
    assert header is None or headers[header[0]] == header[1]
    assert response.embeddings == [FIRST, SECOND]
    assert response.tokens == tokens


MODES = {
    "dashscope": ("text_type", "query"),
    "gemini": ("taskType", "RETRIEVAL_QUERY"),
    "cohere": ("input_type", "search_query"),
    "voyage": ("input_type", "query"),
    "jina": ("task", "retrieval.query"),
}


@pytest.mark.parametrize("name", MODES)
async def test_a_query_says_that_it_is_one(name: str) -> None:
    """Where the provider tells queries and documents apart."""
    make, _, _, _, answer, _ = CASES[name]

    with HTTPStub(lambda *_: answer) as stub:
        async with make(stub.url) as model:
            await model(["a", "b"], mode="query")

    field, value = MODES[name]
    assert f"'{field}': '{value}'" in str(stub.bodies[0])


IMAGES: dict[str, tuple[Callable[[str], RemoteEmbeddingModel], str, Any, Any]] = {
    "dashscope": (
        lambda url: DashScopeMultimodalEmbeddingModel("m", dimensions=2, base_url=url, api_key=KEY),
        "/services/embeddings/multimodal-embedding/multimodal-embedding",
        {"model": "m", "input": {"contents": [{"text": "a"}, {"image": "data:image/png;base64,AAAA"}]}},
        {"output": {"embeddings": data(0, 1)}, "usage": {"input_tokens": 7}},
    ),
    "cohere": (
        lambda url: CohereEmbeddingModel(base_url=url, dimensions=2, api_key=KEY),
        "/v2/embed",
        {
            "model": "embed-v4.0",
            "input_type": "search_document",
            "embedding_types": ["float"],
            "truncate": "NONE",
            "output_dimension": 2,
            "inputs": [
                {"content": [{"type": "text", "text": "a"}]},
                {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            ],
        },
        {"embeddings": {"float": [FIRST, SECOND]}},
    ),
    "voyage": (
        lambda url: VoyageEmbeddingModel("voyage-multimodal-3", base_url=url, dimensions=2, api_key=KEY),
        "/multimodalembeddings",
        {
            "model": "voyage-multimodal-3",
            "input_type": "document",
            "truncation": False,
            "output_dimension": 2,
            "inputs": [
                {"content": [{"type": "text", "text": "a"}]},
                {"content": [{"type": "image_base64", "image_base64": "data:image/png;base64,AAAA"}]},
            ],
        },
        {"data": data(0, 1)},
    ),
    "jina": (
        lambda url: JinaEmbeddingModel("jina-embeddings-v4", base_url=url, dimensions=2, api_key=KEY),
        "/embeddings",
        {
            "model": "jina-embeddings-v4",
            "input": [{"text": "a"}, {"image": "AAAA"}],
            "task": "retrieval.passage",
            "embedding_type": "float",
            "dimensions": 2,
        },
        {"data": data(0, 1)},
    ),
}


@pytest.mark.parametrize("name", IMAGES)
async def test_a_multimodal_model_takes_images(name: str) -> None:
    """A text and an image in one request, in one space."""
    make, path, body, answer = IMAGES[name]

    with HTTPStub(lambda *_: answer) as stub:
        async with make(stub.url) as model:
            assert model.supports_multimodal
            response = await model(["a", PICTURE])

    assert stub.requests[0][:2] == (path, body)
    assert response.embeddings == [FIRST, SECOND]


@pytest.mark.parametrize("name", CASES)
async def test_a_text_model_refuses_images(name: str) -> None:
    """Before any request."""
    with HTTPStub(lambda *_: {}) as stub:
        async with CASES[name][0](stub.url) as model:
            inputs: list[EmbeddingInput] = ["a", PICTURE]
            with pytest.raises(EmbeddingError, match="text only"):
                await model(inputs)

    assert stub.requests == []


def test_models_have_names() -> None:
    """PROVIDER:MODEL with options, for the configuration; a fingerprint for each; keys in no repr."""
    model = embedding_model("voyage:voyage-code-3", dimensions=512, base_url=None, api_key=KEY)

    assert model is not None
    assert model.fingerprint == "voyage/voyage-code-3:512"
    assert KEY not in repr(model)
    assert embedding_model("none") is None
    with pytest.raises(ConfigurationError, match="use one of azure, cohere"):
        embedding_model("vojage")
    with pytest.raises(ConfigurationError, match="colour"):
        embedding_model("voyage", colour="red")
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
        embedding_model("azure:small", dimensions=2)
