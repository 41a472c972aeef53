"""The server of `ElasticsearchStore`: each collection is one index, whose `info` document says what it is.

A collection lies in the index of its name. One whose name was exchanged lies in any index, says so
(`StoredInfo.place`), and is reached by an alias of its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Coroutine, Mapping
from itertools import count
from typing import Any, NamedTuple, TypeVar

from pydantic_core import to_json

from ...errors import CollectionNotFoundError, ConfigurationError, LimitExceededError
from ..engine.records import closed_store, existing
from ..versions.engine import LAYOUT
from ..versions.stored_info import StoredInfo
from .client import Action, Connection, Document, ElasticsearchOptions
from .rows import CONTENT, KIND, Rows, mappings

T = TypeVar("T")

_INFO = "info"
_OURS, _NAMES = "agent_rag", "agent_rag_names"
_CLIENT_TOO_NEW = "media_type_header_exception"


class _Described(NamedTuple):
    """What an index says of itself in its mapping."""

    info: StoredInfo
    names: Mapping[str, str]
    """Alias -> name of the collection, of those that it may have."""
    aliases: frozenset[str]

    @property
    def name(self) -> str | None:
        """Of its collection; None: it is being made."""
        aliased = [name for alias, name in self.names.items() if alias in self.aliases]
        return aliased[0] if aliased else None if self.info.place else self.info.name


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
        index = self._index(name)
        for number in count(2):
            await self._create(index, info)
            if await self.info(name) is not None:
                return
            index = f"{self._index(name)}~{number}"  # the index of this name has another one's collection
            info = info.model_copy(update={"place": index})

    async def _create(self, index: str, info: StoredInfo) -> None:
        settings = {
            "similarity": {"agent_rag": {"type": "BM25", "k1": 1.2, "b": 0.75}},
            **self._options.index_settings,
        }
        alias = self._alias(info.name)
        meta = {_OURS: info.model_dump(mode="json"), _NAMES: {alias: info.name}}
        client = self._connection.client.options(ignore_status=400)
        answer = await client.indices.create(
            index=index,
            settings=settings,
            mappings={**mappings(info), "_meta": meta},
            aliases={alias: {}} if info.place else None,
        )
        error = answer.get("error")
        if error and error.get("type") != "resource_already_exists_exception":
            if "maximum normal shards" in str(error.get("reason")):
                raise LimitExceededError(
                    f"Elasticsearch has as many shards as it allows, so there is no room for collection {info.name!r}: "
                    f"{error['reason']}; drop collections, or raise cluster.max_shards_per_node"
                )
            raise ConfigurationError(f"Elasticsearch refuses index {index!r}: {error.get('reason')}")
        await self._complete(index)

    async def complete(self, name: str) -> None:
        """The document that says what the collection is follows its index, which says the same."""
        if await self._document(name) is None:
            await self._complete(self._index(name))

    async def _complete(self, index: str) -> None:
        found = (await self._described(index)).get(index)
        if found is None:
            raise CollectionNotFoundError(
                f"index {index!r} belongs to another program; use another name, or another index_prefix"
            )
        await self._connection.bulk(index, [Action.create(_INFO, _source(found.info))], refresh=False)

    async def info(self, name: str) -> StoredInfo | None:
        found = await self._document(name)
        return None if found is None else _info_of(found, name)

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        found = await self._document(info.name)
        if found is not None and (stored := _info_of(found)).fingerprint is None:
            await self._write_over(found, stored.model_copy(update={"fingerprint": fingerprint}))

    async def _write_over(self, found: Document, info: StoredInfo) -> None:
        guard = found["_seq_no"], found["_primary_term"]
        await self._connection.bulk(found["_index"], [Action.index_over(_INFO, _source(info), guard)])

    async def drop(self, name: str) -> None:
        if (found := await self._document(name)) is not None:
            await self._connection.client.indices.delete(index=found["_index"], ignore_unavailable=True)

    async def names(self) -> list[str]:
        described = await self._described(f"{self._options.index_prefix}*")
        return [name for one in described.values() if (name := one.name) is not None]

    def collection(self, info: StoredInfo) -> Rows:
        return Rows(self._connection, info.place or self._index(info.name), info)

    # --- other names ---

    async def exchange(self, first: str, second: str) -> None:
        """Both are reached by aliases from then on, which one request moves."""
        aliases = self._alias(first), self._alias(second)
        names = dict(zip(aliases, (first, second), strict=True))
        indexes = [await self._behind_its_alias(name, names) for name in (first, second)]
        moves = zip(aliases, indexes, reversed(indexes), strict=True)
        actions = [
            {action: {"index": index, "alias": alias} | ({"must_exist": True} if action == "remove" else {})}
            for alias, before, after in moves
            for action, index in (("remove", before), ("add", after))
        ]
        await self._connection.client.indices.update_aliases(actions=actions)

    async def _behind_its_alias(self, name: str, names: Mapping[str, str]) -> str:
        """The index of a collection, which its alias leads to; it notes the `names` that it may get."""
        while True:
            found = existing(await self._document(name), name)
            index, info = found["_index"], _info_of(found)
            known = (await self._described(index))[index].names
            meta = {_OURS: info.model_dump(mode="json"), _NAMES: {**known, **names}}
            await self._connection.client.indices.put_mapping(index=index, meta=meta)
            if info.place:
                return str(index)
            # The alias first: until the document says so, nobody looks for it.
            add = {"add": {"index": index, "alias": self._alias(name)}}
            await self._connection.client.indices.update_aliases(actions=[add])
            await self._write_over(found, info.model_copy(update={"place": index}))

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
        """What a collection says of itself: in the index of its name, or in the one that its alias leads to."""
        found = await self._said(self._index(name))
        return found if found is not None and not _info_of(found).place else await self._said(self._alias(name))

    async def _said(self, index: str) -> Document | None:
        try:
            found = await self._connection.get(index, [_INFO], [CONTENT])
        except CollectionNotFoundError:
            return None
        return found[0] if found else None

    async def _described(self, pattern: str) -> dict[str, _Described]:
        """Index -> what it says of itself, of those that this package made."""
        answer = await self._connection.client.indices.get(index=pattern, features=["aliases", "mappings"])
        found = {index: one["mappings"].get("_meta", {}) for index, one in answer.items()}
        return {
            index: _Described(
                StoredInfo.model_validate(meta[_OURS]), meta.get(_NAMES, {}), frozenset(answer[index]["aliases"])
            )
            for index, meta in found.items()
            if meta.get(_OURS) is not None
        }

    def _alias(self, name: str) -> str:
        """No index has this name."""
        return f"{self._index(name)}~"

    def _index(self, name: str) -> str:
        """Names of indexes are lower case and short; equal for equal collections only."""
        safe = re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
        if len(safe) > 150:
            safe = f"{safe[:80]}__{hashlib.sha256(name.encode()).hexdigest()}"
        return f"{self._options.index_prefix}{safe}"


def _source(info: StoredInfo) -> bytes:
    return to_json({KIND: "info", CONTENT: info.model_dump_json()})


def _info_of(document: Document, name: str | None = None) -> StoredInfo:
    """With the name that it was asked for by."""
    info = StoredInfo.model_validate_json(document["_source"][CONTENT])
    return info if name is None else info.model_copy(update={"name": name})
