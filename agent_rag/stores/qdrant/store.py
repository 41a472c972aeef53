"""`QdrantStore`: embedded in this process (`path=`, `":memory:"`) or on a Qdrant server (`url=`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, get_args

from pydantic import SecretStr

from ...errors import ConfigurationError, redact
from ..engine.store import ConditionalEngine, ConditionalStore
from .schema import Distance


class QdrantEngine(ConditionalEngine, Protocol):
    """What the two engines do."""

    async def optimize(self, name: str) -> None: ...

    async def compact(self, name: str) -> int: ...


class QdrantStore(ConditionalStore):
    """Qdrant in three deployments, with the same answers.

    Embedded stores hold a lock on their folder: one store object at a time, shared by any number of tasks. A write is
    on disk (in the write-ahead log) when its call returns. Search is exact until `optimize` is called. What
    ``":memory:"`` holds lives as long as the store object: closing keeps it, and entering again shows it.

    Args:
        location: ``":memory:"``, or a URL, as for qdrant-client.
        url: Address of a Qdrant server, 1.19 or later.
        path: Folder of an embedded store; made when it does not exist.
        api_key: Key of the server.
        distance: Metric of collections that this store creates.
        client_kwargs: Further arguments of `qdrant_client.AsyncQdrantClient`; with `url` only.
        keyword: Index words in collections that this store creates. False: the store has no keyword search.
        shard_number: Shards of a new collection, so that several nodes search it at once; with `url` only, as all
            that follow.
        replication_factor: Copies of each shard; with 2, one node may be down.
        write_consistency_factor: Copies that must confirm a write; as many as there are, and no node's loss loses it.
        prefer_grpc: Speak gRPC (port 6334, or `grpc_port` in `client_kwargs`): writes and searches about twice as fast.
        quantization: Compressed vectors in memory; the originals rescore the candidates.
        on_disk: Keep vectors and payloads on disk.
        timeout_s: Time limit of one request.

    Raises: ConfigurationError: not exactly one of location, url and path, or an option that does not fit it.
        MissingExtraError: the package of the chosen engine is not installed.
    """

    _engine: QdrantEngine
    _exchange: Callable[[str, str], Awaitable[None]] | None = None

    def __init__(
        self,
        location: str | None = None,
        url: str | None = None,
        path: str | Path | None = None,
        api_key: str | SecretStr | None = None,
        distance: Distance = "Cosine",
        client_kwargs: Mapping[str, Any] | None = None,
        *,
        keyword: bool = True,
        shard_number: int | None = None,
        replication_factor: int | None = None,
        write_consistency_factor: int | None = None,
        prefer_grpc: bool = False,
        quantization: str | None = None,
        on_disk: bool = False,
        timeout_s: float = 30.0,
    ) -> None:
        if distance not in get_args(Distance):
            raise ConfigurationError(f"distance={distance!r} is none of {', '.join(get_args(Distance))}")
        if sum(given is not None for given in (location, url, path)) != 1:
            raise ConfigurationError(
                "QdrantStore takes exactly one of location=':memory:', url='http://host:6333' and path='folder', "
                f"got location={location!r}, url={redact(url or '')!r}, path={path!r}"
            )
        if location is not None and location != ":memory:":
            if "://" not in location:
                raise ConfigurationError(
                    f"location={redact(location)!r} is neither ':memory:' nor an address such as "
                    "'http://host:6333'; for a folder pass path="
                )
            url = location
        server_options = {
            "api_key": api_key,
            "client_kwargs": client_kwargs,
            "shard_number": shard_number,
            "replication_factor": replication_factor,
            "write_consistency_factor": write_consistency_factor,
            "prefer_grpc": prefer_grpc or None,
            "quantization": quantization,
            "on_disk": on_disk or None,
        }
        if url is not None:
            from ..versions.engine import ExchangingEngine
            from .client import RemoteOptions
            from .server import QdrantServer

            self._where = redact(url)
            options = RemoteOptions.checked(
                url=url, distance=distance, keyword=keyword, timeout_s=timeout_s, **_given(server_options)
            )
            engine = ExchangingEngine(QdrantServer(self, options))
            super().__init__(engine)
            self.can_exchange, self._exchange = True, engine.exchange
        else:
            if misplaced := [name for name, value in server_options.items() if value is not None]:
                raise ConfigurationError(
                    f"{', '.join(misplaced)}: only for a Qdrant server; pass url=, or leave them out"
                )
            from .edge import EdgeEngine

            self._where = ":memory:" if path is None else str(path)
            folder = None if path is None else Path(path)
            super().__init__(EdgeEngine(self, folder, distance, keyword=keyword))
        if not keyword:
            self.keyword_search = False

    def __repr__(self) -> str:
        return f"QdrantStore({self._where!r})"

    async def exchange_collections(self, first: str, second: str) -> None:
        if self._exchange is None:
            await super().exchange_collections(first, second)
        else:
            await self._exchange(first, second)

    async def optimize(self, collection: str) -> None:
        """Build the search graph of a large collection and drop what was deleted.

        Embedded: in a child process, while all other calls on this store wait (25 s for 100k chunks of 256
        dimensions). Search is then about 4 times faster at 100k chunks and approximate (recall@10 about .95); new
        chunks are still searched exactly. A server does this by itself; there this call does nothing.
        """
        await self._engine.optimize(collection)

    async def compact(self, collection: str) -> int:
        """Remove what writers left that died. Returns the number of chunks removed.

        Nothing of it is found or counted meanwhile, and the next write of the document removes it as well. Embedded
        stores do this when they are opened; there the answer is 0.
        """
        return await self._engine.compact(collection)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
