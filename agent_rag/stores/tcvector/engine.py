"""The engine of `TcVectorStore`: collections, and where reads and writes begin. The client blocks, so in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from ...documents import ChunkKey, VectorRecord, VectorSearchResult
from ...errors import CollectionNotFoundError, ConfigurationError, StoreUnavailableError, redact
from ...filters import FilterLike
from ..base import CollectionInfo, RetrieveRequest, StoreHealth
from ..engine.payload import check_format
from ..engine.records import Checked, closed_store, existing
from ..engine.store import Answer, settled
from ..versions.heads import Name
from ..versions.statistics import Statistics
from .client import Connection, TcVectorOptions
from .reads import Reader
from .schema import INFO, INFO_ID, chunks_of, heads_of, info_row, new_documents
from .view import search
from .writer import Writer

T = TypeVar("T")

_MAX_DIMENSIONS = 4_096
_DISTANCES = {"COSINE": "Cosine", "IP": "Dot", "L2": "Euclid"}


class TcVectorEngine:
    """Collections of one database, which other processes may change at any time."""

    def __init__(self, owner: object, options: TcVectorOptions) -> None:
        self._owner = owner
        self._connection = Connection(owner, options)
        self._statistics: dict[str, Statistics[int]] = {}

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def open(self) -> None:
        if self._connection.options.api_key is None:
            raise ConfigurationError("TcVectorStore needs an api_key; see the console of the instance")
        self._connection.open()

    async def close(self) -> None:
        self._statistics = {}
        self._connection.close()

    # --- collections ---

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        return await self._run(name, lambda: self._create(name, dimensions, fingerprint))

    async def drop(self, name: str) -> None:
        await self._run(name, lambda: self._drop(name))

    async def info(self, name: str) -> CollectionInfo | None:
        return await self._run(name, lambda: self._info(name))

    async def names(self) -> list[str]:
        return await self._run("", self._names)

    def _create(self, name: str, dimensions: int, fingerprint: str | None) -> CollectionInfo:
        """The chunks come last: without them a collection does not exist, and the next one makes what is missing."""
        info = self._info(name)
        heads, chunks = self._tables(name)
        if info is None:
            options = self._connection.options
            if options.embedding and dimensions:
                raise ConfigurationError(
                    f"collection {name!r} of {dimensions} dimensions, in a store whose database embeds texts with "
                    f"{options.embedding!r}; use a KnowledgeBase with embedding_model=None, or leave out embedding"
                )
            if dimensions > _MAX_DIMENSIONS:
                raise ConfigurationError(
                    f"collection {name!r} of {dimensions} dimensions: VectorDB takes at most {_MAX_DIMENSIONS:,}; use "
                    "a model with shorter vectors"
                )
            info = CollectionInfo(
                name=name, dimensions=dimensions, fingerprint=fingerprint, distance=_DISTANCES[options.metric]
            )
            self._connection.make_database()
            self._connection.make_heads(heads)
            self._connection.upsert(heads, [info_row(info.model_dump_json())])
            self._connection.make_chunks(chunks, dimensions)
        elif fingerprint is not None and info.fingerprint is None:
            info.fingerprint = fingerprint
            self._connection.upsert(heads, [info_row(info.model_dump_json())])
        return info

    def _drop(self, name: str) -> None:
        heads, chunks = self._tables(name)
        self._connection.drop(chunks)
        self._connection.drop(heads)
        self._statistics.pop(name, None)

    def _info(self, name: str) -> CollectionInfo | None:
        heads, chunks = self._tables(name)
        if not self._connection.has(chunks):
            return None
        return self._stored_info(heads)

    def _stored_info(self, heads: str) -> CollectionInfo | None:
        try:
            with self._connection.errors(heads):
                rows = self._connection.get(heads, [INFO_ID], [INFO])
        except CollectionNotFoundError:  # dropped meanwhile
            return None
        if not rows:
            return None
        info = CollectionInfo.model_validate_json(rows[0][INFO])
        check_format(info)
        return info

    def _names(self) -> list[str]:
        stored = set(self._connection.names())
        ours = [one for one in stored if one.startswith("rag_") and one.endswith("_heads")]
        infos = [self._stored_info(one) for one in ours if f"{one.removesuffix('heads')}chunks" in stored]
        return sorted(info.name for info in infos if info is not None)

    def _tables(self, name: str) -> tuple[str, str]:
        """Names of the heads and of the chunks."""
        database = self._connection.options.database
        return heads_of(database, name), chunks_of(database, name)

    # --- writing ---

    async def replace(self, name: str, checked: Checked) -> int:
        def job(reader: Reader) -> int:
            documents = new_documents(*checked(reader.info.dimensions))
            return self._writer(reader).replace(documents)

        return await self._change(name, job)

    async def delete(
        self, name: str, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None
    ) -> tuple[list[Name], int]:
        removed = await self._change(name, lambda reader: Writer(reader).delete(document_ids, metadata_filter))
        return [stored.name for stored in removed], sum(stored.head.count for stored in removed)

    def _writer(self, reader: Reader) -> Writer:
        statistics = self._current_statistics(reader)
        return Writer(reader, statistics.average_length if statistics.indexed else None)

    # --- reading ---

    async def retrieve(self, name: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        def job(reader: Reader) -> list[VectorSearchResult]:
            by_words = request.texts and not self._connection.options.embedding
            return search(reader, request, self._current_statistics(reader) if by_words else None)

        return await self.read(name, job)

    async def read(self, name: str, job: Callable[[Reader], Answer[T]]) -> T:
        return await settled(await self._look(name, job))

    async def iterate(
        self, name: str, metadata_filter: FilterLike | None, batch_size: int
    ) -> AsyncIterator[VectorRecord]:
        batches = await self._look(name, lambda reader: reader.batches(batch_size))
        while keys := await self._run(name, lambda: next(batches, None)):
            for record in await self._fetch(name, keys, metadata_filter):
                yield record

    async def _fetch(
        self, name: str, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None
    ) -> list[VectorRecord]:
        return await self._look(name, lambda reader: reader.fetch(keys, metadata_filter, True))

    async def ping(self) -> StoreHealth:
        facts = {"engine": "tcvector", "url": redact(self._connection.options.url)}
        try:
            names = await self.names()
        except StoreUnavailableError as error:
            return StoreHealth(ok=False, detail=str(error), facts=facts)
        return StoreHealth(ok=True, detail="VectorDB", facts={**facts, "collections": str(len(names))})

    def _current_statistics(self, reader: Reader) -> Statistics[int]:
        name = reader.info.name
        statistics = self._statistics.get(name)
        if statistics is None or not statistics.is_fresh:
            heads = [stored.head for stored in reader.all_heads()]
            indexed, tokens = sum(head.indexed for head in heads), sum(head.tokens for head in heads)
            statistics = self._statistics[name] = Statistics(indexed, tokens)
        return statistics

    # --- threads ---

    async def _look(self, collection: str, job: Callable[[Reader], T]) -> T:
        return await self._run(collection, lambda: job(self._reader(collection)))

    async def _change(self, collection: str, job: Callable[[Reader], T]) -> T:
        try:
            return await self._look(collection, job)
        finally:
            self._statistics.pop(collection, None)

    def _reader(self, collection: str) -> Reader:
        return Reader(self._connection, existing(self._info(collection), collection))

    async def _run(self, collection: str, job: Callable[[], T]) -> T:
        """A thread's job: the client blocks."""
        if not self._connection.is_open:
            raise closed_store(self._owner)

        def run() -> T:
            with self._connection.errors(collection):
                return job()

        return await asyncio.to_thread(run)
