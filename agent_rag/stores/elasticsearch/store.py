"""`ElasticsearchStore`: kNN over dense vectors and BM25 in an Elasticsearch index per collection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from pydantic import SecretStr

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import CollectionNotFoundError, ConfigurationError, LimitExceededError, RecordError
from ...filters import FilterLike
from .._shared.heads import MAX_INDEX
from .._shared.records import heads_of, prepare_records, prepare_replace, unique_ids, unknown_collection
from ..base import NATIVE, Capability, CollectionInfo, RetrieveRequest, StoreHealth, VectorStoreBase
from .client import CONFLICT, Action, Connection, ElasticsearchOptions
from .schema import CONTENT, INFO_ID, KIND, Document, index_name, index_settings, mappings
from .view import MAX_LIMIT, Reader
from .writer import PreparedDocument, Writer, prepare_documents

_MAX_CANDIDATES = 10_000


class ElasticsearchStore(VectorStoreBase):
    """Elasticsearch 8.15 or later; each collection is one index.

    Any number of processes may read and write. See docs/stores/elasticsearch.md for what is promised, and what has met
    a real server.

    Args:
        hosts: Address of the server, or several of one cluster.
        num_candidates: Chunks that kNN looks at in each shard, 1 to 10,000; more find more of the true neighbours.
        refresh: When a call returns: ``"wait_for"`` at the next refresh of the index, which is due each second; True
            after a refresh of its own, which is quick but costs the server more; False at once, and listings show the
            write later.
        client_kwargs: Further arguments of `elasticsearch.AsyncElasticsearch`, such as ``basic_auth`` or ``ca_certs``.
        api_key: Key of the server.
        index_prefix: What the names of the indexes begin with; lower case.
        index_settings: Settings of new indexes, such as ``number_of_shards``.
        timeout_s: Time limit of one request.

    Raises: ConfigurationError: an option is out of range. MissingExtraError: elasticsearch is not installed.
    """

    capabilities: ClassVar[frozenset[Capability]] = NATIVE

    def __init__(
        self,
        hosts: str | Sequence[str],
        *,
        num_candidates: int = 100,
        refresh: bool | Literal["wait_for"] = "wait_for",
        client_kwargs: Mapping[str, Any] | None = None,
        api_key: str | SecretStr | None = None,
        index_prefix: str = "agent_rag-",
        index_settings: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        if not 1 <= num_candidates <= _MAX_CANDIDATES:
            raise ConfigurationError(f"num_candidates is {num_candidates}; Elasticsearch takes 1 to 10,000")
        if refresh not in (True, False, "wait_for"):
            raise ConfigurationError(f"refresh is {refresh!r}; use True, False or 'wait_for'")
        if index_prefix != index_prefix.lower() or index_prefix.startswith(("-", "_", "+", ".")):
            raise ConfigurationError(
                f"index_prefix {index_prefix!r}: index names are lower case and do not begin with '-', '_', '+' or '.'"
            )
        self._connection = Connection(
            self,
            ElasticsearchOptions(
                hosts=[hosts] if isinstance(hosts, str) else list(hosts),
                num_candidates=num_candidates,
                refresh=refresh,
                api_key=SecretStr(api_key) if isinstance(api_key, str) else api_key,
                timeout_s=timeout_s,
                index_prefix=index_prefix,
                index_settings=dict(index_settings or {}),
                client_kwargs=dict(client_kwargs or {}),
            ),
        )
        self._readers: dict[str, Reader] = {}
        self._depth = 0

    def __repr__(self) -> str:
        return f"ElasticsearchStore({self._connection.options.where!r})"

    async def __aenter__(self) -> Self:
        if not self._connection.is_open:
            self._readers = {}
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
        """Close at once, also inside nested blocks; harmless when closed."""
        await self._connection.close()

    # --- collections ---

    async def create_collection(self, name: str, dimensions: int) -> None:
        await self.open_collection(name, dimensions)

    async def open_collection(self, name: str, dimensions: int, *, fingerprint: str | None = None) -> CollectionInfo:
        with self._connection.errors(name):
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
                await self._connection.bulk(self._index(name), [action], refresh=False)  # a conflict is read again

    async def delete_collection(self, name: str) -> None:
        with self._connection.errors(name):
            await self._connection.client.indices.delete(index=self._index(name), ignore_unavailable=True)
        self._readers.pop(name, None)

    async def has_collection(self, name: str) -> bool:
        return await self.collection_info(name) is not None

    async def collection_info(self, name: str) -> CollectionInfo | None:
        with self._connection.errors(name):
            found = await self._stored_info(name)
        return None if found is None else _info_of(found)

    async def list_collections(self) -> list[str]:
        with self._connection.errors():
            pattern = f"{self._connection.options.index_prefix}*"
            indices = list(await self._connection.client.indices.get_mapping(index=pattern))
            found = [await self._connection.get(index, {INFO_ID: INFO_ID}) for index in indices]
        return sorted(_info_of(documents[0]).name for documents in found if documents)

    async def _create(self, info: CollectionInfo) -> None:
        index, options = self._index(info.name), self._connection.options
        client = self._connection.client.options(ignore_status=400)
        answer = await client.indices.create(
            index=index, settings=index_settings(options.index_settings), mappings=mappings(info.dimensions)
        )
        error = answer.get("error")
        if error and error.get("type") != "resource_already_exists_exception":
            raise ConfigurationError(f"Elasticsearch refuses index {index!r}: {error.get('reason')}")
        (status,) = await self._connection.bulk(
            index, [Action.create(INFO_ID, INFO_ID, _info_source(info))], refresh=False
        )
        if status == CONFLICT:  # another process was quicker
            return

    async def _stored_info(self, name: str) -> Document | None:
        try:
            found = await self._connection.get(self._index(name), {INFO_ID: INFO_ID})
        except CollectionNotFoundError:
            return None
        return found[0] if found else None

    def _index(self, name: str) -> str:
        return index_name(self._connection.options.index_prefix, name)

    async def _reader(self, name: str) -> Reader:
        """Raises: CollectionNotFoundError."""
        found = await self._stored_info(name)
        if found is None:
            raise unknown_collection(name)
        info, reader = _info_of(found), self._readers.get(name)
        if reader is None or reader.info != info:
            reader = self._readers[name] = Reader(self._connection, self._index(name), info)
        return reader

    # --- writing ---

    async def insert(self, collection: str, records: list[VectorRecord]) -> None:
        with self._connection.errors(collection):
            reader = await self._reader(collection)

            def prepare() -> list[PreparedDocument]:
                prepared = prepare_records(collection, reader.info.dimensions, records)
                _check_indexes(prepared.records)
                summaries = [summary for _, summary in heads_of(prepared.records).values()]
                return prepare_documents(summaries, prepared, given=False)

            await Writer(reader).insert(await asyncio.to_thread(prepare))

    async def replace(
        self,
        collection: str,
        documents: Sequence[DocumentSummary],
        records: Sequence[VectorRecord],
        *,
        scope: str = "",
    ) -> int:
        with self._connection.errors(collection):
            reader = await self._reader(collection)

            def prepare() -> list[PreparedDocument]:
                summaries, prepared = prepare_replace(
                    collection, reader.info.dimensions, documents, records, scope=scope
                )
                _check_indexes(prepared.records)
                return prepare_documents(summaries, prepared, given=True)

            return await Writer(reader).replace(await asyncio.to_thread(prepare))

    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> int:
        return await self.delete_documents(collection, [document_id], metadata_filter)

    async def delete_documents(
        self, collection: str, document_ids: Sequence[str], metadata_filter: FilterLike | None = None
    ) -> int:
        chosen = unique_ids(document_ids)
        with self._connection.errors(collection):
            reader = await self._reader(collection)
            await reader.catch_up()
            names = await reader.find(chosen)
            _, removed = await Writer(reader).delete(names, metadata_filter)
        return removed

    async def delete_by_filter(self, collection: str, metadata_filter: FilterLike) -> list[str]:
        with self._connection.errors(collection):
            reader = await self._reader(collection)
            await reader.catch_up()
            names = [(item.scope, item.document_id) for item in await reader.summaries(metadata_filter)]
            gone, _ = await Writer(reader).delete(names, metadata_filter)
        return sorted({document_id for _, document_id in gone})

    # --- reading ---

    async def search(
        self, collection: str, query_vector: list[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        request = RetrieveRequest(vectors=[query_vector], limit=top_k, metadata_filter=metadata_filter)
        return await self.retrieve(collection, request)

    async def retrieve(self, collection: str, request: RetrieveRequest) -> list[VectorSearchResult]:
        if max(request.limit, request.candidates) > MAX_LIMIT:
            raise LimitExceededError(
                f"{max(request.limit, request.candidates):,} hits are more than the {MAX_LIMIT:,} that Elasticsearch "
                "gives to one search; ask for fewer, or read everything with iterate"
            )
        with self._connection.errors(collection):
            return await (await self._reader(collection)).retrieve(request)

    async def list_documents(self, collection: str, metadata_filter: Any = None) -> list[DocumentSummary]:
        with self._connection.errors(collection):
            return await (await self._reader(collection)).summaries(metadata_filter)

    async def fetch(
        self,
        collection: str,
        keys: Sequence[ChunkKey],
        metadata_filter: FilterLike | None = None,
        *,
        with_vectors: bool = False,
    ) -> list[VectorRecord]:
        with self._connection.errors(collection):
            return await (await self._reader(collection)).fetch(keys, metadata_filter, with_vectors)

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
        with self._connection.errors(collection):
            reader = await self._reader(collection)
            return await reader.list_chunks(document_id, offset, limit, metadata_filter, with_vectors)

    async def count(self, collection: str, metadata_filter: FilterLike | None = None) -> int:
        with self._connection.errors(collection):
            return await (await self._reader(collection)).count(metadata_filter)

    async def iterate(
        self, collection: str, metadata_filter: FilterLike | None = None, *, batch_size: int = 500
    ) -> AsyncIterator[VectorRecord]:
        """In order of the keys; a document that is replaced meanwhile may be missing or new."""
        with self._connection.errors(collection):
            reader = await self._reader(collection)
            async for batch in reader.iterate(metadata_filter, batch_size):
                for record in batch:
                    yield record

    async def ping(self) -> StoreHealth:
        with self._connection.errors():
            answer = await self._connection.client.info()
        version = answer["version"]["number"]
        return StoreHealth(
            ok=True,
            detail=f"Elasticsearch {version}",
            facts={"engine": "elasticsearch", "hosts": self._connection.options.where, "version": version},
        )


def _info_source(info: CollectionInfo) -> Document:
    return {KIND: "info", CONTENT: info.model_dump_json()}


def _info_of(document: Document) -> CollectionInfo:
    return CollectionInfo.model_validate_json(document["_source"][CONTENT])


def _check_indexes(records: Sequence[VectorRecord]) -> None:
    for record in records:
        if record.chunk.chunk_index > MAX_INDEX:
            raise RecordError(
                f"chunk_index {record.chunk.chunk_index} of {record.document_id!r} is above {MAX_INDEX:,}; "
                "number the chunks of a document from 0"
            )
