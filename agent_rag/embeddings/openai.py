"""Embeddings of OpenAI and of every server that speaks its ``/embeddings``: vLLM, Ollama, TEI, DashScope, LiteLLM."""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import os
import re
import struct
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from pydantic import SecretStr

from .._util.http import HTTPFailure, JSONClient, secret
from ..content import DataBlock
from ..errors import (
    ConfigurationError,
    EmbeddingAuthError,
    EmbeddingError,
    EmbeddingTimeoutError,
)
from .base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse
from .inputs import texts_of

logger = logging.getLogger("agent_rag")

_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_BATCH_LIMIT = re.compile(r"batch|too many|maximum|at most|exceed|limit", re.IGNORECASE)


class OpenAIEmbeddingModel(EmbeddingModelBase):
    """Asks an OpenAI-compatible endpoint. Texts and only texts leave the machine."""

    def __init__(
        self,
        model: str | None = None,
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        batch_size: int = 64,
        max_concurrency: int = 4,
        timeout_s: float = 60.0,
        max_attempts: int = 4,
        max_query_bytes: int = 8191,
        query_prefix: str = "",
        document_prefix: str = "",
        keyword_weight: float = 0.7,
        client_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            model: Default: environment variable OPENAI_EMBEDDING_MODEL, else ``text-embedding-3-small``.
            dimensions: Length of the vectors. Needed for a model that is not OpenAI's; for ``text-embedding-3-*`` it
                is sent, and shortens the vectors.
            api_key: Default: OPENAI_API_KEY. Servers without keys need none.
            base_url: Default: OPENAI_BASE_URL, else OpenAI's.
            batch_size: Texts a request; some providers allow only 10. A request refused for its size is halved.
            max_concurrency: Requests in flight.
            timeout_s: Of each attempt.
            max_attempts: Including the first. 429 and 5xx are retried, respecting Retry-After; other 4xx never.
            max_query_bytes: A longer query is cut (UTF-8 bytes bound the tokens of byte-level tokenizers from above).
            query_prefix, document_prefix: Put before each text; models such as e5 and nomic want them.
            keyword_weight: Share of the keyword score in hybrid search with this model, in [0, 1].
            client_kwargs: Passed to `httpx.AsyncClient` (proxy, verify, ...).

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        self.model = model or os.environ.get("OPENAI_EMBEDDING_MODEL") or "text-embedding-3-small"
        known = dimensions or _DIMENSIONS.get(self.model)
        if known is None:
            raise ConfigurationError(f"the vector size of {self.model!r} is not known; pass dimensions=...")
        if min(batch_size, max_concurrency, known) < 1:
            raise ConfigurationError(f"{batch_size=}, {max_concurrency=} and dimensions={known} must be positive")
        self.dimensions = known
        self.keyword_weight = keyword_weight
        self._sent_dimensions = dimensions if self.model.startswith("text-embedding-3") else None
        self._batch_size = batch_size
        self._max_concurrency = max_concurrency
        self._max_query_bytes = max_query_bytes
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._wants_encoding_format = True
        self._http = JSONClient(
            base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            api_key=secret(api_key, "OPENAI_API_KEY"),
            timeout_s=timeout_s,
            max_attempts=max_attempts,
            client_kwargs=client_kwargs,
        )

    def __repr__(self) -> str:
        return f"OpenAIEmbeddingModel({self.model!r}, dimensions={self.dimensions}, base_url={self._http.base_url!r})"

    @property
    def fingerprint(self) -> str:
        prefixes = "".join(f"|{prefix}" for prefix in self._prefixes.values() if prefix)
        return f"openai/{self.model}:{self.dimensions}{prefixes}"

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        if any(isinstance(item, DataBlock) for item in inputs):
            raise EmbeddingError(f"{self.model} embeds text only; give it the caption of an image")
        texts = [self._prefixes[mode] + text for text in texts_of(inputs)]
        if mode == "query":
            texts = [_cut(text, self._max_query_bytes) for text in texts]
        batches = [texts[start : start + self._batch_size] for start in range(0, len(texts), self._batch_size)]
        answers = await self._all(batches)
        counted = [tokens for _, tokens in answers if tokens is not None]
        return EmbeddingResponse.model_construct(
            embeddings=[vector for vectors, _ in answers for vector in vectors],
            tokens=sum(counted) if counted else None,
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _all(self, batches: list[list[str]]) -> list[tuple[list[list[float]], int | None]]:
        slots = asyncio.Semaphore(self._max_concurrency)

        async def one(batch: list[str]) -> tuple[list[list[float]], int | None]:
            async with slots:
                return await self._embed(batch)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(batch)) for batch in batches]
        except BaseExceptionGroup as errors:
            # The first failure cancelled the rest; one message is enough. Not `except*`: Python 3.11.2 wraps in a group
            # again what is raised in it.
            raise _first(errors) from None
        return [task.result() for task in tasks]

    async def _embed(self, batch: list[str]) -> tuple[list[list[float]], int | None]:
        body: dict[str, Any] = {"model": self.model, "input": batch}
        if self._wants_encoding_format:
            body["encoding_format"] = "float"
        if self._sent_dimensions:
            body["dimensions"] = self._sent_dimensions
        try:
            answer = await self._http.post("/embeddings", body)
        except HTTPFailure as failure:
            return await self._recover(batch, failure)
        vectors = _vectors(answer, len(batch))
        self._check(vectors)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
        return vectors, tokens if isinstance(tokens, int) else None

    async def _recover(self, batch: list[str], failure: HTTPFailure) -> tuple[list[list[float]], int | None]:
        message = str(failure)
        if failure.status in (400, 422) and self._wants_encoding_format and "encoding_format" in message:
            self._wants_encoding_format = False
            return await self._embed(batch)
        too_large = failure.status == 413 or (failure.status in (400, 422) and _BATCH_LIMIT.search(message))
        if too_large and len(batch) > 1:
            logger.warning("%s refused %d texts at once; halving the batch", self.model, len(batch))
            half = len(batch) // 2
            left, right = await self._embed(batch[:half]), await self._embed(batch[half:])
            return left[0] + right[0], None if left[1] is None or right[1] is None else left[1] + right[1]
        raise self._error(failure) from failure

    def _error(self, failure: HTTPFailure) -> EmbeddingError:
        if failure.status in (401, 403):
            return EmbeddingAuthError(f"{failure}; check api_key or OPENAI_API_KEY")
        if failure.timed_out:
            return EmbeddingTimeoutError(f"{failure}; raise timeout_s or check base_url")
        return EmbeddingError(str(failure))

    def _check(self, vectors: list[list[float]]) -> None:
        for vector in vectors:
            if len(vector) != self.dimensions:
                raise EmbeddingError(
                    f"{self.model} answered vectors of {len(vector)} numbers, expected {self.dimensions}; "
                    f"pass dimensions={len(vector)} if that is its size"
                )
            if not all(map(math.isfinite, vector)):
                raise EmbeddingError(f"{self.model} answered a vector with a number that is not finite")


def _vectors(answer: Any, count: int) -> list[list[float]]:
    items = _items(answer)
    if len(items) != count:
        raise EmbeddingError(f"the embedding endpoint answered {len(items)} vectors for {count} texts")
    if not all(isinstance(item, dict) and isinstance(item.get("index"), int) for item in items):
        return [_vector(item) for item in items]
    by_index = {item["index"]: item for item in items}
    if sorted(by_index) != list(range(count)):
        raise EmbeddingError(f"the embedding endpoint answered the indexes {sorted(by_index)} for {count} texts")
    return [_vector(by_index[index]) for index in range(count)]


def _items(answer: Any) -> list[Any]:
    """OpenAI answers `data`; Ollama's own endpoints `embeddings`, or one `embedding`."""
    if isinstance(answer, dict):
        for name in ("data", "embeddings"):
            if isinstance(answer.get(name), list):
                return list(answer[name])
        if isinstance(answer.get("embedding"), list):
            return [answer]
    raise EmbeddingError(f"the embedding endpoint answered no vectors: {str(answer)[:200]}")


def _vector(item: Any) -> list[float]:
    value = item.get("embedding") if isinstance(item, dict) else item
    if isinstance(value, str):
        data = base64.b64decode(value)
        return list(struct.unpack(f"<{len(data) // 4}f", data[: len(data) // 4 * 4]))
    if isinstance(value, list) and value and all(isinstance(number, int | float) for number in value):
        return [float(number) for number in value]
    raise EmbeddingError(f"the embedding endpoint answered something that is no vector: {str(value)[:100]}")


def _cut(text: str, max_bytes: int) -> str:
    data = text.encode("utf-8", "ignore")
    if len(data) <= max_bytes:
        return text
    logger.warning("query of %d bytes cut to max_query_bytes=%d", len(data), max_bytes)
    return data[:max_bytes].decode("utf-8", "ignore")


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
