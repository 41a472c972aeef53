"""What all providers of embeddings share: batches, limits that are learnt, requests in flight, checked answers."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypedDict, Unpack

from pydantic import SecretStr

from .._util.gate import Gate, ServiceRefusesError
from .._util.http import AsksByHTTP, HTTPFailure, JSONClient
from ..content import DataBlock
from ..errors import (
    ConfigurationError,
    EmbeddingAuthError,
    EmbeddingError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
)
from .base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse
from .inputs import texts_of

logger = logging.getLogger("agent_rag")

_KEYWORD_WEIGHT = 0.7  # neural models were best with .6 to .7, on eleven sets

# "batch size is invalid, it should not be larger than 10", "Requested 320064 tokens, max 300000 tokens per request",
# "input array too long", "at most 96 texts", "exceeds the limit", "batch size 64 > maximum allowed batch size 32"
_TOO_LARGE = re.compile(r"batch|too (many|long|large)|max|at most|exceed|limit|per request|larger than", re.IGNORECASE)


class RemoteOptions(TypedDict, total=False):
    """Options of every provider."""

    batch_size: int
    """Inputs a request. A request that is refused for its size is halved, and what passes is remembered."""
    max_concurrency: int
    """Requests in flight of this object (default 4)."""
    timeout_s: float
    """Of each attempt (default 60)."""
    max_attempts: int
    """Including the first (default 4). 429 and 5xx are tried again, respecting Retry-After; other 4xx never."""
    max_query_bytes: int
    """A longer query is cut: UTF-8 bytes bound the tokens of byte-level tokenizers from above (default 8191)."""
    query_prefix: str
    """Put before each query; models such as e5 and bge want it."""
    document_prefix: str
    """Put before each text that is stored."""
    keyword_weight: float
    """Share of the keyword score in hybrid search with this model, in [0, 1] (default 0.7)."""
    client_kwargs: Mapping[str, Any]
    """Passed to `httpx.AsyncClient` (proxy, verify, ...)."""


class Answer(NamedTuple):
    """What a provider answered."""

    vectors: list[list[float]]
    """In the order of the inputs."""
    tokens: int | None = None
    """As the provider counted."""


class _Resplit(Exception):
    """A smaller batch has been learnt while this one waited."""


class _SilentProviderError(EmbeddingUnavailableError, EmbeddingTimeoutError):
    """No request of several was answered in time."""


class RemoteEmbeddingModel(AsksByHTTP, EmbeddingModelBase):
    """Base of the providers: a subclass says what a request is and how its answer reads.

    What is embedded leaves the machine, nothing else does.
    """

    provider: ClassVar[str]
    """First part of the fingerprint, and name in messages."""
    key_variable: ClassVar[str] = ""
    """Environment variable of the key, named where the provider refuses it; empty: there is none."""
    default_batch_size: ClassVar[int] = 64

    def __init__(
        self,
        model: str,
        dimensions: int,
        *,
        base_url: str,
        api_key: SecretStr | None,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        if unknown := options.keys() - RemoteOptions.__annotations__.keys():
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        batch_size = options.get("batch_size", self.default_batch_size)
        max_concurrency = options.get("max_concurrency", 4)
        max_attempts = options.get("max_attempts", 4)
        if min(batch_size, max_concurrency, dimensions) < 1:
            raise ConfigurationError(f"{batch_size=}, {max_concurrency=} and {dimensions=} must be positive")
        self.model = model
        self.dimensions = dimensions
        self.keyword_weight = options.get("keyword_weight", _KEYWORD_WEIGHT)
        self._batch_size = batch_size
        self._max_query_bytes = options.get("max_query_bytes", 8191)
        self._prefixes = {
            "query": options.get("query_prefix", ""),
            "document": options.get("document_prefix", ""),
        }
        self._http = JSONClient(
            base_url,
            api_key=api_key,
            headers=headers,
            timeout_s=options.get("timeout_s", 60.0),
            max_attempts=max_attempts,
            client_kwargs=options.get("client_kwargs"),
        )
        self._gate = Gate(max_concurrency, max_attempts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, dimensions={self.dimensions}, base_url={self._http.base_url!r})"

    @property
    def fingerprint(self) -> str:
        prefixes = "".join(f"|{prefix}" for prefix in self._prefixes.values() if prefix)
        return f"{self.provider}/{self.model}:{self.dimensions}{prefixes}"

    @abstractmethod
    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        """Path and body of a request for a batch; prefixes are there already."""

    @abstractmethod
    def _read(self, answer: Any, count: int) -> Answer:
        """The vectors of an answer.

        Raises: EmbeddingError: it holds no vectors, or not `count`.
        """

    def _adapt(self, message: str) -> bool:
        """Leave out an optional field that the server has just refused. True: ask again."""
        return False

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        items = self._prepared(inputs, mode)
        batches = [items[start : start + self._batch_size] for start in range(0, len(items), self._batch_size)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._embed(batch, mode)) for batch in batches]
        except BaseExceptionGroup as errors:
            # The first failure cancelled the rest; one message is enough. Not `except*`: Python 3.11.2 wraps in a group
            # again what is raised in it.
            raise _first(errors) from None
        answers = [task.result() for task in tasks]
        counted = [answer.tokens for answer in answers if answer.tokens is not None]
        return EmbeddingResponse.model_construct(
            embeddings=[vector for answer in answers for vector in answer.vectors],
            tokens=sum(counted) if counted else None,
        )

    def _prepared(self, inputs: Sequence[EmbeddingInput], mode: EmbeddingMode) -> list[str | DataBlock]:
        """Texts with their prefix, queries cut; images as they are where the model takes them."""
        if isinstance(inputs, str):
            texts_of(inputs)  # says what is wrong
        prepared: list[str | DataBlock] = []
        for position, item in enumerate(inputs):
            if isinstance(item, DataBlock) and self.supports_multimodal:
                prepared.append(item)
            elif isinstance(item, DataBlock):
                raise EmbeddingError(f"{self.model} embeds text only; give it the caption of an image")
            else:
                try:
                    (text,) = texts_of([item])
                except ValueError:
                    raise ValueError(f"embedding input {position} of {len(inputs)} is blank; leave it out") from None
                text = self._prefixes[mode] + text
                prepared.append(_cut(text, self._max_query_bytes) if mode == "query" else text)
        return prepared

    async def _embed(self, batch: list[str | DataBlock], mode: EmbeddingMode) -> Answer:
        path, body = self._request(batch, mode)

        async def post() -> Any:
            if len(batch) > self._batch_size:
                raise _Resplit
            return await self._http.post_once(path, body)

        try:
            answer = await self._gate.run(post)
        except _Resplit:
            return await self._in_parts(batch, self._batch_size, mode)
        except HTTPFailure as failure:
            return await self._recovered(batch, mode, failure)
        read = self._read(answer, len(batch))
        self._check(read.vectors)
        return read

    async def _recovered(self, batch: list[str | DataBlock], mode: EmbeddingMode, failure: HTTPFailure) -> Answer:
        """What another request gives for a batch that was refused as it is."""
        refused = failure.status in (400, 422)
        if refused and self._adapt(str(failure)):
            return await self._embed(batch, mode)
        if len(batch) > 1 and (failure.status == 413 or (refused and _TOO_LARGE.search(str(failure)))):
            return await self._in_parts(batch, len(batch) // 2, mode)
        raise self._error(failure) from failure

    async def _in_parts(self, batch: list[str | DataBlock], size: int, mode: EmbeddingMode) -> Answer:
        """One part after another. Where all of them pass, requests stay that small; where one does not, it is the
        input that is too large, and nothing is learnt of it."""
        answers: list[Answer] = []
        position = 0
        while position < len(batch):
            part = batch[position : position + min(size, self._batch_size)]
            answers.append(await self._embed(part, mode))
            position += len(part)
        if size < self._batch_size:
            logger.warning("%s refuses larger requests; from now on it gets %d inputs at once", self.model, size)
            self._batch_size = size
        tokens = [answer.tokens for answer in answers if answer.tokens is not None]
        return Answer([vector for answer in answers for vector in answer.vectors], sum(tokens) if tokens else None)

    def _error(self, failure: HTTPFailure) -> EmbeddingError:
        if failure.status in (401, 403):
            variable = f" or {self.key_variable}" if self.key_variable else ""
            return EmbeddingAuthError(f"{failure}; check api_key{variable}")
        if isinstance(failure, ServiceRefusesError):
            kind = _SilentProviderError if failure.timed_out else EmbeddingUnavailableError
            return kind(f"{failure}; check the account, base_url and the network, then run again")
        if failure.timed_out:
            return EmbeddingTimeoutError(f"{failure}; raise timeout_s or check base_url")
        return EmbeddingError(str(failure))

    def _check(self, vectors: list[list[float]]) -> None:
        for position, vector in enumerate(vectors):
            if len(vector) != self.dimensions:
                raise EmbeddingError(
                    f"{self.model} answered vectors of {len(vector)} numbers, expected {self.dimensions}; "
                    f"pass dimensions={len(vector)} if that is its size"
                )
            if not all(map(math.isfinite, vector)):
                raise EmbeddingError(f"{self.model} answered a number that is not finite for input {position}")
            if not any(vector):
                raise EmbeddingError(f"{self.model} answered zeros only for input {position} of {len(vectors)}")


def known_dimensions(model: str, given: int | None, known: Mapping[str, int]) -> int:
    """The size of a model's vectors.

    Raises: ConfigurationError: it is not known and not given.
    """
    size = given or known.get(model)
    if size is None:
        raise ConfigurationError(f"the vector size of {model!r} is not known; pass dimensions=...")
    return size


def vectors_by_index(items: Sequence[Any], count: int, *, index: str = "index") -> list[list[float]]:
    """Vectors of items such as ``{"index": 0, "embedding": [...]}``, which may come in any order.

    Raises: EmbeddingError: too few, too many, an index twice, or an index on some of them only.
    """
    if len(items) != count:
        raise EmbeddingError(f"the embedding endpoint answered {len(items)} vectors for {count} texts")
    indexes: list[Any] = [item.get(index) if isinstance(item, dict) else None for item in items]
    if all(number is None for number in indexes):
        return [vector_of(item) for item in items]
    if any(type(number) is not int for number in indexes) or sorted(indexes) != list(range(count)):
        raise EmbeddingError(f"the embedding endpoint answered the indexes {indexes[:20]} for {count} texts")
    by_index = dict(zip(indexes, items, strict=True))
    return [vector_of(by_index[number]) for number in range(count)]


def vector_of(item: Any) -> list[float]:
    """The numbers of ``{"embedding": [...]}``, ``{"values": [...]}`` or a bare list.

    Raises: EmbeddingError: there are none.
    """
    value = item.get("embedding", item.get("values")) if isinstance(item, dict) else item
    if isinstance(value, list) and value and all(isinstance(number, int | float) for number in value):
        return [float(number) for number in value]
    raise EmbeddingError(f"the embedding endpoint answered something that is no vector: {str(value)[:100]}")


def field_of(answer: Any, *path: str) -> Any:
    """``answer[path[0]][path[1]]...``; None where a step is missing."""
    for name in path:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer


def listed(answer: Any, *path: str) -> list[Any]:
    """The list at `path` of an answer.

    Raises: EmbeddingError: there is none.
    """
    value = field_of(answer, *path)
    if not isinstance(value, list):
        raise EmbeddingError(f"the embedding endpoint answered no vectors: {str(answer)[:200]}")
    return value


def counted(answer: Any, *path: str) -> int | None:
    """The number of tokens at `path` of an answer."""
    value = field_of(answer, *path)
    return value if isinstance(value, int) else None


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
