"""The server of `QdrantStore(url=)`: collections of a Qdrant server or cluster, through qdrant-client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from packaging.version import InvalidVersion, Version
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from ...errors import CollectionNotFoundError, ConfigurationError, StoreUnavailableError
from ..versions.engine import LAYOUT
from ..versions.groups import side_by_side
from ..versions.stored_info import StoredInfo
from .client import Connection, RemoteOptions, when_ready
from .rows import INDEXES, TERMS, Rows
from .schema import DENSE, SPARSE

T = TypeVar("T")

_OURS = "agent_rag"
_OLDEST = Version("1.19")
"""The first with conditional updates in a batch."""
_AGREED_WITHIN_S, _PAUSE_S = 60.0, 0.05
_AT_ONCE = 16

_QUANTIZATION: dict[str, models.QuantizationConfig] = {
    "scalar": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "product": models.ProductQuantization(
        product=models.ProductQuantizationConfig(compression=models.CompressionRatio.X16, always_ram=True)
    ),
}


class QdrantServer:
    """Collections that carry this package's name in their metadata."""

    def __init__(self, owner: object, options: RemoteOptions) -> None:
        self._connection = Connection(owner, options)
        self._options = options
        self._version = ""

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def open(self) -> None:
        """Raises: StoreUnavailableError. ConfigurationError: the server is too old."""
        self._connection.open()
        try:
            await self.run(self._check_version())
        except BaseException:
            await self._connection.close()
            raise

    async def close(self) -> None:
        await self._connection.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._connection.run(work)

    def errors(self, collection: str) -> contextlib.AbstractContextManager[None]:
        return self._connection.errors(collection)

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        options = self._options
        info = StoredInfo(
            name=name,
            dimensions=dimensions,
            fingerprint=fingerprint,
            distance=options.distance,
            keyword=options.keyword,
            layout=LAYOUT,
        )
        dense = models.VectorParams(
            size=max(dimensions, 1), distance=models.Distance(options.distance), on_disk=options.on_disk
        )
        with self.errors(name), _there_already():
            await self._client.create_collection(
                name,
                vectors_config={DENSE: dense} if dimensions else {},
                sparse_vectors_config={SPARSE: models.SparseVectorParams()} if options.keyword else None,
                shard_number=options.shard_number,
                replication_factor=options.replication_factor,
                write_consistency_factor=options.write_consistency_factor,
                on_disk_payload=options.on_disk,
                quantization_config=_QUANTIZATION[options.quantization] if options.quantization else None,
                metadata=_metadata(info),
            )

    async def complete(self, name: str) -> None:
        described = await when_ready(partial(self._client.get_collection, name))
        sparse = described.config.params.sparse_vectors or {}
        for field, schema in INDEXES.items():
            if field not in described.payload_schema and (field != TERMS or SPARSE in sparse):
                await self._client.create_payload_index(name, field, field_schema=schema, wait=True)

    async def info(self, name: str) -> StoredInfo | None:
        """Raises: CollectionNotFoundError: it belongs to another program."""
        found = await self._stored(name)
        if found is None:
            return None
        if isinstance(found, str):
            raise CollectionNotFoundError(found)
        return found

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        await self._client.update_collection(
            info.name, metadata=_metadata(info.model_copy(update={"fingerprint": fingerprint}))
        )
        # In a cluster the answer can come before the node that is asked has what the others agreed on.
        until = time.monotonic() + _AGREED_WITHIN_S
        while isinstance(stored := await self._stored(info.name), StoredInfo) and stored.fingerprint is None:
            if time.monotonic() > until:
                raise StoreUnavailableError(
                    f"the nodes of this Qdrant cluster have not agreed on the model of collection {info.name!r} within "
                    f"{_AGREED_WITHIN_S:g} s; check the cluster's health, then try again"
                )
            await asyncio.sleep(_PAUSE_S)

    async def drop(self, name: str) -> None:
        if await self.info(name) is not None:
            await self._client.delete_collection(name)

    async def names(self) -> list[str]:
        answer = await self._client.get_collections()
        names = [collection.name for collection in answer.collections]
        found = await side_by_side(map(self._stored, names), _AT_ONCE)
        return [name for name, stored in zip(names, found, strict=True) if isinstance(stored, StoredInfo)]

    def collection(self, info: StoredInfo) -> Rows:
        return Rows(self._client, info)

    async def facts(self) -> dict[str, str]:
        answer = await self._client.info()
        return {"engine": "qdrant", "version": answer.version, "collections": str(len(await self.names()))}

    @property
    def _client(self) -> AsyncQdrantClient:
        return self._connection.client

    async def _check_version(self) -> None:
        with self.errors(""):
            answer = await self._client.info()
        with contextlib.suppress(InvalidVersion):  # a build of its own
            if Version(answer.version) < _OLDEST:
                raise ConfigurationError(
                    f"Qdrant {answer.version} is older than {_OLDEST}, which this store needs; upgrade the server "
                    "(one minor version at a time), or use QdrantStore(path=...)"
                )

    async def _stored(self, name: str) -> StoredInfo | str | None:
        """None: there is no such collection. A text: why it is none of ours."""
        try:
            with self.errors(name):
                answer = await when_ready(partial(self._client.get_collection, name))
        except CollectionNotFoundError:
            return None
        stored = (answer.config.metadata or {}).get(_OURS)
        if stored is None:
            return f"collection {name!r} on this Qdrant server belongs to another program; use another name"
        return StoredInfo.model_validate(stored)


def _metadata(info: StoredInfo) -> dict[str, Any]:
    return {_OURS: info.model_dump(mode="json")}


@contextlib.contextmanager
def _there_already() -> Any:
    """Another process may create the same collection at the same time."""
    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code != 409:
            raise
