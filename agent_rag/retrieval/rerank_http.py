"""Reranking services: Cohere, Jina, Voyage, and the servers TEI, Infinity and vLLM."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SecretStr

from .._util.http import AsksByHTTP, HTTPFailure, JSONClient, secret
from ..documents import VectorSearchResult
from ..errors import ConfigurationError, RerankError
from .rerank import Order, RerankerBase

RerankAPI = Literal["cohere", "jina", "voyage", "tei", "infinity", "vllm"]


@dataclass(frozen=True)
class _Shape:
    """What one service expects."""

    path: str
    base_url: str | None = None
    key_variable: str = "RERANK_API_KEY"
    model: str | None = None
    documents: str = "documents"
    top_n: str | None = "top_n"
    extra: tuple[tuple[str, Any], ...] = ()


# As each service documents it: docs.cohere.com/reference/rerank, api.jina.ai/redoc, docs.voyageai.com/reference, the
# OpenAPI pages of text-embeddings-inference, Infinity and vLLM.
_SHAPES: dict[RerankAPI, _Shape] = {
    "cohere": _Shape("/v2/rerank", "https://api.cohere.com", "COHERE_API_KEY", "rerank-v3.5"),
    "jina": _Shape(
        "/v1/rerank",
        "https://api.jina.ai",
        "JINA_API_KEY",
        "jina-reranker-v2-base-multilingual",
        extra=(("return_documents", False),),
    ),
    "voyage": _Shape("/v1/rerank", "https://api.voyageai.com", "VOYAGE_API_KEY", "rerank-2.5", top_n="top_k"),
    "tei": _Shape("/rerank", documents="texts", top_n=None, extra=(("truncate", True),)),
    "infinity": _Shape("/rerank", extra=(("return_documents", False),)),
    "vllm": _Shape("/v1/rerank"),
}


class HTTPReranker(AsksByHTTP, RerankerBase):
    """Asks a reranking service. The query and the candidates' text leave the machine, nothing else."""

    def __init__(
        self,
        api: RerankAPI,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | SecretStr | None = None,
        timeout_s: float = 30.0,
        max_attempts: int = 2,
        max_candidate_characters: int = 4_000,
        client_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            api: The shape of requests and answers.
            model: Default: the service's; TEI, which serves one model, needs none.
            base_url: Needed for tei, infinity and vllm.
            api_key: Default: COHERE_API_KEY, JINA_API_KEY, VOYAGE_API_KEY, else RERANK_API_KEY.
            timeout_s: For the whole call, retries included.
            client_kwargs: Passed to `httpx.AsyncClient`.

        Raises: ConfigurationError: `api` is unknown, or base_url or model is missing.
        """
        shape = _SHAPES.get(api)
        if shape is None:
            raise ConfigurationError(f"rerank api {api!r} is unknown; use one of {', '.join(_SHAPES)}")
        url = base_url or shape.base_url
        if url is None:
            raise ConfigurationError(f"a {api} server has no fixed address; pass base_url=...")
        self._model = model or shape.model
        if self._model is None and api != "tei":
            raise ConfigurationError(f"a {api} server serves several models; pass model=...")
        self.api = api
        self._shape = shape
        self.timeout_s = timeout_s
        self.max_candidate_characters = max_candidate_characters
        self._http = JSONClient(
            url,
            api_key=secret(api_key, shape.key_variable),
            timeout_s=timeout_s,
            max_attempts=max_attempts,
            client_kwargs=client_kwargs,
        )

    def __repr__(self) -> str:
        return f"HTTPReranker({self.api!r}, model={self._model!r}, base_url={self._http.base_url!r})"

    async def order(self, query: str, candidates: Sequence[VectorSearchResult], *, top_n: int) -> Order:
        shape = self._shape
        body: dict[str, Any] = {
            "query": query,
            shape.documents: [self.judged_text(candidate) for candidate in candidates],
            **dict(shape.extra),
        }
        if self._model is not None:
            body["model"] = self._model
        if shape.top_n is not None:
            # All of them: the caller cuts, and what is left out here would lose its score.
            body[shape.top_n] = len(candidates)
        try:
            answer = await self._http.post(shape.path, body)
        except HTTPFailure as failure:
            raise RerankError(str(failure)) from failure
        return _scores(answer)


def _scores(answer: Any) -> list[tuple[int, float]]:
    """(position, score) pairs of any of the services' answers; items without both are left out."""
    items = answer
    if isinstance(answer, Mapping):
        items = next((answer[name] for name in ("results", "data") if isinstance(answer.get(name), list)), None)
    if not isinstance(items, list):
        raise RerankError(f"the rerank service answered no list of results: {str(answer)[:200]}")
    pairs = []
    for item in items:
        index = item.get("index") if isinstance(item, Mapping) else None
        score = item.get("relevance_score", item.get("score")) if isinstance(item, Mapping) else None
        if isinstance(index, int) and isinstance(score, int | float) and math.isfinite(score):
            pairs.append((index, float(score)))
    return pairs
