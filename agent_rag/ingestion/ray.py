"""The stages of an ingestion on a Ray cluster: parsing, chunking and embedding there, writing from here.

`ingest` and `sync` work as always: `RayPool` stands for their pool of worker processes, `RayEmbeddingModel` for the
embedding model. So there is one flow, with its identity, changes, report and atomic writes; a worker that is lost
costs the calls that it was at, which Ray makes again elsewhere. Nothing is written by a worker, so nothing is written
twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from .._util.extras import needs
from ..documents import Section
from ..embeddings.base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse
from ..errors import ConfigurationError, EmbeddingUnavailableError, ParserCrashedError
from ..parsers import ParserBase, ParserPool
from ..workers import NotPortableError, WorkerPool

T = TypeVar("T")
_Answer = tuple[Literal["result", "error", "not portable"], Any]

_MADE_AGAIN = 3
"""Times that a call is made again whose worker was lost."""


class RayPool(ParserPool):
    """Parses and chunks on the nodes of a Ray cluster, each file in a process that can be killed.

    The file's bytes travel, so that no node needs the folder. On a node it works as `ParserPool` does: a file that
    hangs, eats memory or aborts its process costs that file.

    Args:
        workers: Files at work at a time on the whole cluster; None: one per CPU that the cluster has.
        timeout_s: Time one file may take.
        memory_mb: Memory one file may take in its worker, in MiB.
        address: Of the cluster, as for `ray.init`; None: the one this process is connected to, else that of the
            environment (RAY_ADDRESS), else one on this machine.

    Raises: MissingExtraError: ray is not installed. ConfigurationError: a number is out of range.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        timeout_s: float = 60.0,
        memory_mb: int = 1024,
        address: str | None = None,
    ) -> None:
        self._ray = connected(address)
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        super().__init__(workers if workers is not None else max(1, cpus), timeout_s=timeout_s, memory_mb=memory_mb)
        self._call = self._ray.remote(max_retries=_MADE_AGAIN, num_cpus=1)(_on_node)

    shares_disk = False

    async def parse(self, parser: ParserBase, file: bytes | str | Path, filename: str) -> list[Section]:
        """See `ParserPool.parse`."""
        return await super().parse(parser, await _content(file), filename)

    async def parse_then(
        self,
        parser: ParserBase,
        file: bytes | str | Path,
        filename: str,
        then: Callable[[list[Section]], Awaitable[T]],
    ) -> T:
        """See `ParserPool.parse_then`."""
        return await super().parse_then(parser, await _content(file), filename, then)

    async def run(
        self, function: Callable[..., Any], *arguments: Any, filename: str, timeout_s: float | None = None
    ) -> Any:
        """Call a module-level function on a node. See `WorkerPool.run`."""
        limit = self.timeout_s if timeout_s is None else timeout_s
        call = self._call.remote(function, arguments, filename, limit, self.memory_mb)
        try:
            return await _answer(self._ray, call)
        except self._ray.exceptions.RayError as error:
            raise ParserCrashedError(f"{filename}: {_lost(error)}") from error


class RayEmbeddingModel(EmbeddingModelBase):
    """An embedding model whose requests are made on the nodes of a Ray cluster: for models that compute there.

    A provider at an address does not need it: its requests wait for the provider wherever they start.

    Args:
        model: Must survive pickling; each node loads it once for each process.
        num_cpus, num_gpus: What one request takes of a node.
        address: As for `RayPool`.
    """

    def __init__(
        self, model: EmbeddingModelBase, *, num_cpus: float = 1, num_gpus: float = 0, address: str | None = None
    ) -> None:
        if num_cpus < 0 or num_gpus < 0:
            raise ConfigurationError(f"num_cpus={num_cpus} and num_gpus={num_gpus} must not be below 0")
        self._ray = connected(address)
        self._model = model
        self._shared = self._ray.put(model)
        options = {"max_retries": _MADE_AGAIN, "num_cpus": num_cpus, "num_gpus": num_gpus}
        self._call = self._ray.remote(**options)(_embed_on_node)
        self.dimensions = model.dimensions
        self.supports_multimodal = model.supports_multimodal
        self.keyword_weight = model.keyword_weight
        self.coverage_weighting = model.coverage_weighting

    @property
    def fingerprint(self) -> str:
        """That of the model: where it computes changes no vector."""
        return self._model.fingerprint

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        """A query is embedded here, where nobody waits for a node. See `EmbeddingModelBase`."""
        if mode == "query":
            return await self._model(inputs, mode=mode)
        call = self._call.remote(self._shared, list(inputs), mode)
        try:
            response: EmbeddingResponse = await _answer(self._ray, call)
        except self._ray.exceptions.RayError as error:
            raise EmbeddingUnavailableError(f"an embedding request: {_lost(error)}") from error
        return response


def connected(address: str | None = None) -> Any:
    """The module `ray`, connected to a cluster. Raises: MissingExtraError; ConfigurationError: there is no cluster."""
    ray = needs("ray", "ray", purpose="Ingestion on a Ray cluster")
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError) as error:
            raise ConfigurationError(f"no Ray cluster at {address!r}: {error}; see `ray status`") from error
    return ray


async def _answer(ray: Any, call: Any) -> Any:
    """What a call on a node gave; cancelling ends it there. Raises: what it raised; RayError: its node was lost."""
    try:
        kind, value = await call
    except asyncio.CancelledError:
        ray.cancel(call, force=True)
        raise
    if kind == "not portable":
        raise NotPortableError(value)
    if kind == "error":
        raise value
    return value


def _lost(error: Exception) -> str:
    reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return f"lost {_MADE_AGAIN + 1} times on the Ray cluster ({reason}); look at the cluster, then go on"


async def _content(file: bytes | str | Path) -> bytes:
    return file if isinstance(file, bytes) else await asyncio.to_thread(Path(file).read_bytes)


# --- on a node ---


@cache
def _pool(memory_mb: int) -> WorkerPool:
    """One process beside each of Ray's, for what may have to be killed."""
    return WorkerPool(1, memory_mb=memory_mb)


def _on_node(
    function: Callable[..., Any], arguments: Sequence[Any], filename: str, timeout_s: float, memory_mb: int
) -> _Answer:
    call = _pool(memory_mb).run(function, *arguments, filename=filename, timeout_s=timeout_s)
    try:
        return "result", asyncio.run(call)
    except NotPortableError as reason:
        return "not portable", str(reason)
    except Exception as error:
        return "error", error


def _embed_on_node(model: EmbeddingModelBase, inputs: list[EmbeddingInput], mode: EmbeddingMode) -> _Answer:
    async def embed() -> EmbeddingResponse:
        return await model(inputs, mode=mode)

    try:
        return "result", asyncio.run(embed())
    except Exception as error:
        return "error", error
