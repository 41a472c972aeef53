"""`TcVectorStore`: Tencent Cloud VectorDB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import ClassVar, Literal, Self, TypeVar, get_args

from pydantic import SecretStr

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import CollectionNotFoundError, ConfigurationError, StoreUnavailableError, redact
from ...filters import FilterLike
from .._shared.payload import check_format
from .._shared.records import closed_store, prepare_records, prepare_replace, unique_ids, unknown_collection
from .._shared.records import heads_of as summaries_of
from ..base import NATIVE, Capability, CollectionInfo, RetrieveRequest, StoreHealth, VectorStoreBase
from .client import Connection, TcVectorOptions
from .schema import INFO, INFO_ID, chunks_of, heads_of, info_row, new_documents
from .view import Reader, Statistics
from .writer import Writer

T = TypeVar("T")
Metric = Literal["COSINE", "IP", "L2"]
IndexType = Literal["HNSW", "FLAT"]

_MAX_DIMENSIONS = 4_096
_DISTANCES = {"COSINE": "Cosine", "IP": "Dot", "L2": "Euclid"}


class TcVectorStore(VectorStoreBase):
    """Tencent Cloud VectorDB over HTTP, with strongly consistent reads.

    See docs/stores/tcvector.md for what this store promises, and for remote embedding.

    Args:
        url: Address of the instance, such as ``http://10.0.0.1:80``.
        username: Account.
        api_key: Its key.
        database: Made when it does not exist.
        distance: How vectors are compared in new collections; ``"L2"`` scores negated distances.
        index_type: ``"HNSW"``, or ``"FLAT"``, which is exact and reads all vectors.
        ef: Least number of vectors that a search in an HNSW index looks at.
        embedding: Model of the database that embeds texts and queries, such as ``"bge-base-zh"``; collections are then
            made without vectors of ours (0 dimensions), and texts are searched by meaning instead of by BM25.
        shards: Number of shards of new collections.
        replicas: Number of replicas of new collections.
        timeout_s: Time limit of one request.

    Raises: ConfigurationError: an option is out of range. MissingExtraError: tcvectordb is not installed.
    """

    capabilities: ClassVar[frozenset[Capability]] = NATIVE

    def __init__(
        self,
        url: str,
        username: str = "root",
        api_key: str | SecretStr | None = None,
        *,
        database: str = "agent_rag",
        distance: Metric = "COSINE",
        index_type: IndexType = "HNSW",
        ef: int = 200,
        embedding: str | None = None,
        shards: int = 1,
        replicas: int = 0,
        timeout_s: float = 30.0,
    ) -> None:
        if distance not in get_args(Metric):
            raise ConfigurationError(f"distance {distance!r} is unknown; use one of {', '.join(get_args(Metric))}")
        if index_type not in get_args(IndexType):
            raise ConfigurationError(
                f"index_type {index_type!r} is unknown; use one of {', '.join(get_args(IndexType))}"
            )
        if not 1 <= ef <= 32_768:
            raise ConfigurationError(f"ef is {ef}; VectorDB takes 1 to 32,768")
        if timeout_s <= 0 or shards < 1 or replicas < 0:
            raise ConfigurationError(f"timeout_s={timeout_s}, shards={shards} and replicas={replicas} are out of range")
        self._connection = Connection(
            self,
            TcVectorOptions(
                url=url.rstrip("/"),
                username=username,
                api_key=SecretStr(api_key) if isinstance(api_key, str) else api_key,
                database=database,
                metric=distance,
                index_type=index_type,
                ef=ef,
                embedding=embedding,
                shards=shards,
                replicas=replicas,
                timeout_s=timeout_s,
            ),
        )
        self._statistics: dict[str, Statistics] = {}
        self._depth = 0

    def __repr__(self) -> str:
        options = self._connection.options
        return f"TcVectorStore({redact(options.url)!r}, database={options.database!r})"

    async def __aenter__(self) -> Self:
        if not self._connection.is_open:
            if self._connection.options.api_key is None:
                raise ConfigurationError("TcVectorStore needs an api_key; see the console of the instance")
            self._connection.open()
            self._depth = 0
        self._depth += 1
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth <= 0:
            await self.close()

    async def close(self) -> None:
        """Close the client, also inside nested blocks; harmless when closed."""
        self._statistics = {}
        self._connection.close()

    # --- collections ---

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self.open_collection(name, dimensions)

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        return await self._run(name, lambda: self._create(name, dimensions, fingerprint))

    async def delete_collection(self, name: str) -> None:
        await self._run(name, lambda: self._drop(name))

    async def has_collection(self, name: str) -> bool:
        return await self.collection_info(name) is not None

    async def collection_info(self, name: str) -> CollectionInfo | None:
        return await self._run(name, lambda: self._info(name))

    async def list_collections(self) -> list[str]:
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

    async def insert(self, collection: str, records: Sequence[VectorRecord]) -> None:
        def job(reader: Reader) -> None:
            prepared = prepare_records(collection, reader.info.dimensions, records)
            summaries = [summary for _, summary in summaries_of(prepared.records).values()]
            documents = new_documents(summaries, prepared, given=False)
            self._writer(reader).insert(documents)

        await self._change(collection, job)

    async def replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        scope: str = "",
    ) -> int:
        def job(reader: Reader) -> int:
            summaries, prepared = prepare_replace(collection, reader.info.dimensions, documents, records, scope=scope)
            return self._writer(reader).replace(new_documents(summaries, prepared, given=True))

        return await self._change(collection, job)

    async def delete(self, collection: str, document_id: str, metadata_filter: FilterLike | None = None) -> int:
        return await self.delete_documents(collection, [document_id], metadata_filter)

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        chosen = unique_ids(document_ids)
        removed = await self._change(collection, lambda reader: Writer(reader).delete(chosen, metadata_filter))
        return sum(stored.head.count for stored in removed)

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        removed = await self._change(collection, lambda reader: Writer(reader).delete(None, metadata_filter))
        return sorted({stored.name[1] for stored in removed})

    def _writer(self, reader: Reader) -> Writer:
        statistics = self._current_statistics(reader)
        return Writer(reader, statistics.average_length if statistics.indexed else None)

    # --- reading ---

    async def search(
        self,
        collection: str,
        query_vector: Sequence[float],
        top_k: int = 5,
        metadata_filter: FilterLike | None = None,
    ) -> list[VectorSearchResult]:
        request = RetrieveRequest(vectors=[query_vector], limit=top_k, metadata_filter=metadata_filter)
        return await self.retrieve(collection, request)

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        def job(reader: Reader) -> list[VectorSearchResult]:
            by_words = request.texts and not self._connection.options.embedding
            return reader.retrieve(request, self._current_statistics(reader) if by_words else None)

        return await self._look(collection, job)

    async def list_documents(self, collection: str, metadata_filter: FilterLike | None = None) -> list[DocumentSummary]:
        return await self._look(collection, lambda reader: reader.summaries(metadata_filter))

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        return await self._look(collection, lambda reader: reader.fetch(keys, metadata_filter, with_vectors))

    async def list_chunks(
        self,
        collection: str,
        document_id: str,
        *,
        offset: int = 0,
        limit: int = 30,
        metadata_filter: FilterLike | None = None,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        def job(reader: Reader) -> list[VectorRecord]:
            return reader.list_chunks(document_id, offset, limit, metadata_filter, with_vectors)

        return await self._look(collection, job)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        return await self._look(collection, lambda reader: reader.count(metadata_filter))

    async def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """In order of the keys; a document that is replaced meanwhile may be missing or new."""
        batches = await self._look(collection, lambda reader: reader.batches(batch_size))
        while keys := await self._run(collection, lambda: next(batches, None)):
            for record in await self.fetch(collection, keys, metadata_filter, with_vectors=True):
                yield record

    async def ping(self) -> StoreHealth:
        facts = {"engine": "tcvector", "url": redact(self._connection.options.url)}
        try:
            names = await self.list_collections()
        except StoreUnavailableError as error:
            return StoreHealth(ok=False, detail=str(error), facts=facts)
        return StoreHealth(ok=True, detail="VectorDB", facts={**facts, "collections": str(len(names))})

    def _current_statistics(self, reader: Reader) -> Statistics:
        name = reader.info.name
        statistics = self._statistics.get(name)
        if statistics is None or not statistics.is_fresh:
            statistics = self._statistics[name] = Statistics(reader.all_heads())
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
        info = self._info(collection)
        if info is None:
            raise unknown_collection(collection)
        return Reader(self._connection, info)

    async def _run(self, collection: str, job: Callable[[], T]) -> T:
        """A thread's job: the client blocks."""
        if not self._connection.is_open:
            raise closed_store(self)

        def run() -> T:
            with self._connection.errors(collection):
                return job()

        return await asyncio.to_thread(run)
