"""The server of `ElasticsearchStore`: each collection is one index, whose `info` document says what it is."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic_core import to_json

from ...errors import CollectionNotFoundError, ConfigurationError, LimitExceededError
from ..engine.records import closed_store
from ..versions.engine import LAYOUT
from ..versions.stored_info import StoredInfo
from .client import Action, Connection, Document, ElasticsearchOptions
from .rows import CONTENT, KIND, Rows, mappings

T = TypeVar("T")

_INFO = "info"
_OURS = "agent_rag"
_CLIENT_TOO_NEW = "media_type_header_exception"


class ElasticsearchServer:
    """Indexes whose names begin with one prefix."""

    def __init__(self, owner: object, options: ElasticsearchOptions) -> None:
        self._owner = owner
        self._options = options
        self._connection = Connection(owner, options)

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def open(self) -> None:
        """Raises: StoreUnavailableError. ConfigurationError: the client is newer than the server."""
        self._connection.open()
        try:
            with self.errors(""):
                await self._check_client()
        except BaseException:
            await self._connection.close()
            raise

    async def close(self) -> None:
        await self._connection.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self.is_open:
            work.close()
            raise closed_store(self._owner)
        return await work

    def errors(self, collection: str) -> contextlib.AbstractContextManager[None]:
        return self._connection.errors(collection)

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        info = StoredInfo(name=name, dimensions=dimensions, fingerprint=fingerprint, layout=LAYOUT)
        settings = {
            "similarity": {"agent_rag": {"type": "BM25", "k1": 1.2, "b": 0.75}},
            **self._options.index_settings,
        }
        described = {**mappings(info), "_meta": {_OURS: info.model_dump(mode="json")}}
        client = self._connection.client.options(ignore_status=400)
        answer = await client.indices.create(index=self._index(name), settings=settings, mappings=described)
        error = answer.get("error")
        if error and error.get("type") != "resource_already_exists_exception":
            if "maximum normal shards" in str(error.get("reason")):
                raise LimitExceededError(
                    f"Elasticsearch has as many shards as it allows, so there is no room for collection {name!r}: "
                    f"{error['reason']}; drop collections, or raise cluster.max_shards_per_node"
                )
            raise ConfigurationError(f"Elasticsearch refuses index {self._index(name)!r}: {error.get('reason')}")
        await self.complete(name)

    async def complete(self, name: str) -> None:
        """The document that says what the collection is follows its index, which says the same."""
        if await self._document(name) is not None:
            return
        index = self._index(name)
        found = (await self._described(index)).get(index)
        if found is None:
            raise CollectionNotFoundError(
                f"index {index!r} belongs to another program; use another name, or another index_prefix"
            )
        await self._connection.bulk(index, [Action.create(_INFO, _source(found))], refresh=False)

    async def info(self, name: str) -> StoredInfo | None:
        found = await self._document(name)
        return None if found is None else _info_of(found)

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        found = await self._document(info.name)
        if found is not None and _info_of(found).fingerprint is None:
            guard = found["_seq_no"], found["_primary_term"]
            source = _source(_info_of(found).model_copy(update={"fingerprint": fingerprint}))
            await self._connection.bulk(self._index(info.name), [Action.index_over(_INFO, source, guard)])

    async def drop(self, name: str) -> None:
        if await self.info(name) is not None:
            await self._connection.client.indices.delete(index=self._index(name), ignore_unavailable=True)

    async def names(self) -> list[str]:
        return [info.name for info in (await self._described(f"{self._options.index_prefix}*")).values()]

    def collection(self, info: StoredInfo) -> Rows:
        return Rows(self._connection, self._index(info.name), info)

    async def facts(self) -> dict[str, str]:
        answer = await self._connection.client.info()
        version = answer["version"]["number"]
        return {"engine": "elasticsearch", "version": version, "hosts": self._options.where}

    async def _check_client(self) -> None:
        """A client whose major version is above the server's is refused by it, in words that name no cure."""
        module = self._connection.module
        try:
            await self._connection.client.info()
        except module.AuthorizationException:  # a key for some indexes may not ask
            return
        except module.ApiError as error:
            if _CLIENT_TOO_NEW not in str(error):
                raise
            major = int(self._connection.version.split(".")[0])
            raise ConfigurationError(
                f"the elasticsearch client {self._connection.version} is newer than the server at "
                f"{self._options.where}, which refuses it; pip install 'elasticsearch<{major}'"
            ) from error

    async def _document(self, name: str) -> Document | None:
        try:
            found = await self._connection.get(self._index(name), [_INFO], [CONTENT])
        except CollectionNotFoundError:
            return None
        return found[0] if found else None

    async def _described(self, pattern: str) -> dict[str, StoredInfo]:
        """Index -> what it says of itself, of those that this package made."""
        answer = await self._connection.client.indices.get_mapping(index=pattern)
        found = {index: one["mappings"].get("_meta", {}).get(_OURS) for index, one in answer.items()}
        return {index: StoredInfo.model_validate(meta) for index, meta in found.items() if meta is not None}

    def _index(self, name: str) -> str:
        """Names of indexes are lower case and short; equal for equal collections only."""
        safe = re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
        if len(safe) > 150:
            safe = f"{safe[:80]}__{hashlib.sha256(name.encode()).hexdigest()}"
        return f"{self._options.index_prefix}{safe}"


def _source(info: StoredInfo) -> bytes:
    return to_json({KIND: "info", CONTENT: info.model_dump_json()})


def _info_of(document: Document) -> StoredInfo:
    return StoredInfo.model_validate_json(document["_source"][CONTENT])
