"""The engine of `ElasticsearchStore`: collections, and where reads and writes begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from ...documents import VectorRecord, VectorSearchResult
from ...errors import CollectionNotFoundError, ConfigurationError, LimitExceededError
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.records import Checked, existing
from ..engine.store import Answer, settled
from ..versions.heads import Name
from .client import CONFLICT, Action, Connection, ElasticsearchOptions
from .reads import MAX_LIMIT, Reader
from .schema import CONTENT, INFO_ID, KIND, Document, index_name, index_settings, mappings
from .view import search
from .writer import Writer, prepare_documents

T = TypeVar("T")


class ElasticsearchEngine:
    """Collections as indexes, which other processes may change at any time."""

    def __init__(self, owner: object, options: ElasticsearchOptions) -> None:
        self.connection = Connection(owner, options)
        self._readers: dict[str, Reader] = {}

    @property
    def is_open(self) -> bool:
        return self.connection.is_open

    async def open(self) -> None:
        self._readers = {}
        self.connection.open()

    async def close(self) -> None:
        await self.connection.close()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        with self.connection.errors(name):
            while True:
                found = await self._stored_info(name)
                if found is None:
                    await self._create(CollectionInfo(name=name, dimensions=dimensions, fingerprint=fingerprint))
                    continue
                info = _info_of(found)
                if fingerprint is None or info.fingerprint is not None:
                    return info
                info.fingerprint = fingerprint
                action = Action.index_over(
                    INFO_ID, INFO_ID, _info_source(info), found["_seq_no"], found["_primary_term"]
                )
                await self.connection.bulk(self._index(name), [action], refresh=False)  # a conflict is read again

    async def drop(self, name: str) -> None:
        with self.connection.errors(name):
            await self.connection.client.indices.delete(index=self._index(name), ignore_unavailable=True)
        self._readers.pop(name, None)

    async def info(self, name: str) -> CollectionInfo | None:
        with self.connection.errors(name):
            found = await self._stored_info(name)
        return None if found is None else _info_of(found)

    async def names(self) -> list[str]:
        with self.connection.errors():
            pattern = f"{self.connection.options.index_prefix}*"
            indices = list(await self.connection.client.indices.get_mapping(index=pattern))
            found = [await self.connection.get(index, {INFO_ID: INFO_ID}) for index in indices]
        return sorted(_info_of(documents[0]).name for documents in found if documents)

    async def _create(self, info: CollectionInfo) -> None:
        index, options = self._index(info.name), self.connection.options
        client = self.connection.client.options(ignore_status=400)
        answer = await client.indices.create(
            index=index, settings=index_settings(options.index_settings), mappings=mappings(info.dimensions)
        )
        error = answer.get("error")
        if error and error.get("type") != "resource_already_exists_exception":
            raise ConfigurationError(f"Elasticsearch refuses index {index!r}: {error.get('reason')}")
        (status,) = await self.connection.bulk(
            index, [Action.create(INFO_ID, INFO_ID, _info_source(info))], refresh=False
        )
        if status == CONFLICT:  # another process was quicker
            return

    async def _stored_info(self, name: str) -> Document | None:
        try:
            found = await self.connection.get(self._index(name), {INFO_ID: INFO_ID})
        except CollectionNotFoundError:
            return None
        return found[0] if found else None

    def _index(self, name: str) -> str:
        return index_name(self.connection.options.index_prefix, name)

    async def _reader(self, name: str) -> Reader:
        """Raises: CollectionNotFoundError."""
        info, reader = _info_of(existing(await self._stored_info(name), name)), self._readers.get(name)
        if reader is None or reader.info != info:
            reader = self._readers[name] = Reader(self.connection, self._index(name), info)
        return reader

    # --- writing ---

    async def replace(self, name: str, checked: Checked) -> int:
        with self.connection.errors(name):
            reader = await self._reader(name)
            dimensions = reader.info.dimensions
            documents = await asyncio.to_thread(lambda: prepare_documents(*checked(dimensions)))
            return await Writer(reader).replace(documents)

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        with self.connection.errors(name):
            reader = await self._reader(name)
            await reader.catch_up()
            if document_ids is None:
                names = [(item.scope, item.document_id) for item in await reader.summaries(metadata_filter, None)]
            else:
                names = await reader.find(document_ids)
            return await Writer(reader).delete(names, metadata_filter)

    # --- reading ---

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        if max(request.limit, request.candidates) > MAX_LIMIT:
            raise LimitExceededError(
                f"{max(request.limit, request.candidates):,} hits are more than the {MAX_LIMIT:,} that Elasticsearch "
                "gives to one search; ask for fewer, or read everything with iterate"
            )
        return await self.read(name, lambda reader: search(reader, request))

    async def read(self, name: str, job: Callable[[Reader], Answer[T]]) -> T:
        with self.connection.errors(name):
            return await settled(job(await self._reader(name)))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        with self.connection.errors(name):
            reader = await self._reader(name)
            async for batch in reader.iterate(metadata_filter, batch_size):
                for record in batch:
                    yield record

    async def ping(self) -> StoreHealth:
        with self.connection.errors():
            answer = await self.connection.client.info()
        version = answer["version"]["number"]
        return StoreHealth(
            ok=True,
            detail=f"Elasticsearch {version}",
            facts={"engine": "elasticsearch", "hosts": self.connection.options.where, "version": version},
        )


def _info_source(info: CollectionInfo) -> Document:
    return {KIND: "info", CONTENT: info.model_dump_json()}


def _info_of(document: Document) -> CollectionInfo:
    return CollectionInfo.model_validate_json(document["_source"][CONTENT])
