"""The server of `QdrantStore(url=)`: collections of a Qdrant server or cluster, through qdrant-client.

A collection has its own name on the server. One whose name was exchanged has any, says so (`StoredInfo.place`), and is
reached by an alias of its name.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

from packaging.version import InvalidVersion, Version
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from ...errors import CollectionNotFoundError, ConfigurationError, StoreUnavailableError
from ..engine.records import existing
from ..versions.engine import LAYOUT
from ..versions.groups import side_by_side
from ..versions.stored_info import StoredInfo
from .client import Connection, RemoteOptions, when_ready
from .rows import INDEXES, TERMS, Rows
from .schema import DENSE, SPARSE

T = TypeVar("T")

_OURS = "agent_rag"
_ALIAS = "~agent_rag"
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
        for number in count(2):
            await self._create(info)
            if await self.info(name) is not None:
                return
            # What has this name on the server is another one's collection.
            info = info.model_copy(update={"place": f"{name}~{number}"})

    async def _create(self, info: StoredInfo) -> None:
        options, place = self._options, _place(info)
        dense = models.VectorParams(
            size=max(info.dimensions, 1), distance=models.Distance(options.distance), on_disk=options.on_disk
        )
        with self.errors(info.name), _there_already():
            await self._client.create_collection(
                place,
                vectors_config={DENSE: dense} if info.dimensions else {},
                sparse_vectors_config={SPARSE: models.SparseVectorParams()} if options.keyword else None,
                shard_number=options.shard_number,
                replication_factor=options.replication_factor,
                write_consistency_factor=options.write_consistency_factor,
                on_disk_payload=options.on_disk,
                quantization_config=_QUANTIZATION[options.quantization] if options.quantization else None,
                metadata=_metadata(info),
            )
        if info.place and not (await self._client.get_collection_aliases(place)).aliases:
            await self._alias([_leads(info.name, place)])

    async def complete(self, name: str) -> None:
        place = _place(existing(await self.info(name), name))
        described = await when_ready(partial(self._client.get_collection, place))
        sparse = described.config.params.sparse_vectors or {}
        for field, schema in INDEXES.items():
            if field not in described.payload_schema and (field != TERMS or SPARSE in sparse):
                await self._client.create_payload_index(place, field, field_schema=schema, wait=True)

    async def info(self, name: str) -> StoredInfo | None:
        """Raises: CollectionNotFoundError: it belongs to another program."""
        found = await self._stored(name)
        if found is None or (isinstance(found, StoredInfo) and found.place):
            found = await self._stored(_alias_of(name))
        if isinstance(found, str):
            raise CollectionNotFoundError(found)
        return None if found is None else found.model_copy(update={"name": name})

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        await self._describe(info.model_copy(update={"fingerprint": fingerprint}))

    async def _describe(self, info: StoredInfo, place: str = "") -> None:
        """Change what the collection, which lies at `place`, says of itself."""
        place = place or _place(info)
        await self._client.update_collection(place, metadata=_metadata(info))

        async def is_said() -> bool:
            stored = await self._stored(place)
            return isinstance(stored, StoredInfo) and (stored.fingerprint, stored.place) == (
                info.fingerprint,
                info.place,
            )

        await self._agreed(is_said, f"what collection {info.name!r} is")

    async def _agreed(self, is_so: Callable[[], Awaitable[bool]], what: str) -> None:
        """In a cluster the answer can come before the node that is asked has what the others agreed on."""
        until = time.monotonic() + _AGREED_WITHIN_S
        while not await is_so():
            if time.monotonic() > until:
                raise StoreUnavailableError(
                    f"the nodes of this Qdrant cluster have not agreed on {what} within {_AGREED_WITHIN_S:g} s; check "
                    "the cluster's health, then try again"
                )
            await asyncio.sleep(_PAUSE_S)

    async def drop(self, name: str) -> None:
        if (info := await self.info(name)) is not None:
            await self._client.delete_collection(_place(info))

    async def names(self) -> list[str]:
        answer = await self._client.get_collections()
        places = [collection.name for collection in answer.collections]
        found = await side_by_side(map(self._stored, places), _AT_ONCE)
        aliased: dict[str, str] = {}
        if any(isinstance(stored, StoredInfo) and stored.place for stored in found):
            for alias in (await self._client.get_aliases()).aliases:
                if alias.alias_name.endswith(_ALIAS):
                    aliased[alias.collection_name] = alias.alias_name.removesuffix(_ALIAS)
        named = [
            (aliased.get(place) if stored.place else place)
            for place, stored in zip(places, found, strict=True)
            if isinstance(stored, StoredInfo)
        ]
        return [name for name in named if name is not None]

    def collection(self, info: StoredInfo) -> Rows:
        return Rows(self._client, info, _place(info))

    # --- other names ---

    async def exchange(self, first: str, second: str) -> None:
        """Both are reached by aliases from then on, which one request moves."""
        infos = [existing(await self.info(name), name) for name in (first, second)]
        places = [_place(info) for info in infos]
        for info, place in zip(infos, places, strict=True):
            if not info.place:
                # The alias first: until the collection says so, nobody looks for it.
                await self._alias([_leads(info.name, place)])
                await self._describe(info.model_copy(update={"place": place}), place)
        moves = list(zip((first, second), reversed(places), strict=True))
        leaving: list[models.AliasOperations] = [
            models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=_alias_of(name)))
            for name, _ in moves
        ]
        await self._alias([*leaving, *(_leads(name, place) for name, place in moves)])

        async def is_seen() -> bool:
            now = [await self.info(name) for name, _ in moves]
            return all(info is not None and info.place == place for info, (_, place) in zip(now, moves, strict=True))

        await self._agreed(is_seen, f"the names of collections {first!r} and {second!r}")

    async def _alias(self, operations: Sequence[models.AliasOperations]) -> None:
        await self._client.update_collection_aliases(list(operations))

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


def _place(info: StoredInfo) -> str:
    """What the collection is called on the server."""
    return info.place or info.name


def _alias_of(name: str) -> str:
    return f"{name}{_ALIAS}"


def _leads(name: str, place: str) -> models.AliasOperations:
    """The operation that makes the alias of a name."""
    return models.CreateAliasOperation(
        create_alias=models.CreateAlias(collection_name=place, alias_name=_alias_of(name))
    )


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
