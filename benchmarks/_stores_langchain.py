"""Our stores and LangChain's integrations of the same engines, in turns in one process, without keyword indexes.

LangChain runs as it is fastest: async where it has no threads of its own to wait for (PostgreSQL), synchronous in this
process otherwise, vectors given, 1,000 chunks to a call, PostgreSQL with a column per filtered field.
"""

from __future__ import annotations

import json
import statistics
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import asyncpg
from _stores_child import BATCH, COLLECTION, SINGLE, WARM, is_enough, quantiles, say, timed
from _stores_data import DIMENSIONS, FILTERS, PER_DOCUMENT, TOP_K, Corpus, Truth, index_of
from _stores_places import Place
from langchain_core.embeddings import Embeddings

from agent_rag.stores.base import VectorStoreBase

KINDS = ("plain", *FILTERS)
MEASURED, MEASURED_ON_DISK = 5_000, 1_000
"""Chunks whose insertion is measured; the rest are put in by the quickest way."""
EXTRA = 10**9
"""First chunk number of documents inserted one by one."""
_COLUMNS = {"customer": "TEXT", "region": "TEXT", "language": "TEXT", "day": "INTEGER"}
_FILL = f"""
INSERT INTO "{COLLECTION}" (langchain_id, content, embedding, customer, region, language, day, langchain_metadata)
SELECT id, content, vector::vector, m->>'customer', m->>'region', m->>'language', (m->>'day')::int,
       (m - '{{customer,region,language,day}}'::text[])::json
FROM (SELECT id, content, vector, metadata::jsonb AS m
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS rows (id, content, vector, metadata)) AS rows
"""


class System(Protocol):
    """One side of the comparison."""

    searches: Sequence[str]
    """Names of its ways to search; the first one is compared."""
    measured: int
    """Chunks of the load whose insertion is measured."""

    def batch(self, start: int, stop: int, extra: int | None = None) -> Any:
        """What `insert` takes, made outside the measured time; `extra` numbers a document that is new."""

    async def insert(self, batch: Any) -> None: ...

    async def fill(self, batch: Any) -> None:
        """As `insert`, by the quickest way; not measured."""

    async def settle(self) -> None:
        """Whatever the engine needs once after a load: index, statistics."""

    async def search(self, way: str, kind: str, query: int) -> Sequence[int]: ...

    async def delete(self, document: int) -> None: ...

    async def close(self) -> None: ...


class Ours:
    searches = ("agent_rag",)
    measured = MEASURED

    def __init__(self, place: Place, corpus: Corpus) -> None:
        self._place, self._corpus = place, corpus
        self._store: VectorStoreBase = place.store()

    async def open(self) -> None:
        await self._store.__aenter__()
        await self._store.create_collection(COLLECTION, DIMENSIONS)

    def batch(self, start: int, stop: int, extra: int | None = None) -> Any:
        return self._corpus.records(start, stop, "" if extra is None else f"doc-9{extra:06}")

    async def insert(self, batch: Any) -> None:
        await self._store.insert(COLLECTION, batch)

    async def fill(self, batch: Any) -> None:
        await self.insert(batch)

    async def settle(self) -> None:
        await self._store.__aexit__(None, None, None)
        self._store = self._place.store()
        await self._store.__aenter__()

    async def search(self, way: str, kind: str, query: int) -> Sequence[int]:
        where = None if kind == "plain" else self._corpus.condition(kind, query)
        hits = await self._store.search(COLLECTION, self._corpus.asked[query].tolist(), TOP_K, where)
        return [index_of(hit.document_id, hit.chunk.chunk_index) for hit in hits]

    async def delete(self, document: int) -> None:
        removed = await self._store.delete(COLLECTION, self._corpus.document_id(document))
        assert removed == PER_DOCUMENT

    async def close(self) -> None:
        await self._store.__aexit__(None, None, None)


class _Given(Embeddings):
    """Answers with the vectors of the batch at hand."""

    vectors: Sequence[Sequence[float]] = ()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        given = [list(vector) for vector in self.vectors] or [[0.0] * DIMENSIONS]
        return given[: len(texts)]

    def embed_query(self, text: str) -> list[float]:
        return [0.0] * DIMENSIONS


class _LangChain:
    """What the three integrations have in common; a batch is (texts, vectors, metadata, ids)."""

    searches: Sequence[str] = ("langchain",)
    measured = MEASURED

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._given = _Given()

    def batch(self, start: int, stop: int, extra: int | None = None) -> Any:
        corpus = self._corpus
        numbers = range(start, stop) if extra is None else range(EXTRA + start, EXTRA + stop)
        metadata = [
            corpus.metadata[index // PER_DOCUMENT]
            | {"page": index % PER_DOCUMENT, "document_id": corpus.document_id(index // PER_DOCUMENT)}
            for index in range(start, stop)
        ]
        vectors = [corpus.vectors[index].tolist() for index in range(start, stop)]
        ids = [self.name(number + (extra or 0) * PER_DOCUMENT) for number in numbers]
        return list(corpus.texts[start:stop]), vectors, metadata, ids

    def name(self, number: int) -> str:
        return str(uuid.UUID(int=number + 1))

    def names(self, document: int) -> list[str]:
        return [self.name(document * PER_DOCUMENT + n) for n in range(PER_DOCUMENT)]

    async def insert(self, batch: Any) -> None:
        raise NotImplementedError

    async def fill(self, batch: Any) -> None:
        await self.insert(batch)

    async def settle(self) -> None: ...

    async def close(self) -> None: ...


class LangChainQdrant(_LangChain):
    """QdrantVectorStore on qdrant-client's local mode, the only engine in process that it drives.

    With a folder, which is what ours is compared with in writing, it commits each chunk to SQLite (some hundred a
    second), so it holds the measured chunks only; its searches are those of ``":memory:"``.
    """

    def __init__(self, corpus: Corpus, folder: Path | None) -> None:
        from langchain_qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient, models

        super().__init__(corpus)
        self._models = models
        self._on_disk = folder is not None
        if folder is not None:
            self.searches, self.measured = (), MEASURED_ON_DISK
        self._client = QdrantClient(path=str(folder)) if folder else QdrantClient(":memory:")
        self._client.create_collection(
            COLLECTION, models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
        )
        self._store = QdrantVectorStore(self._client, COLLECTION, self._given)

    async def fill(self, batch: Any) -> None:
        if not self._on_disk:
            await self.insert(batch)

    async def insert(self, batch: Any) -> None:
        texts, self._given.vectors, metadata, ids = batch
        self._store.add_texts(texts, metadata, ids, batch_size=BATCH)

    async def search(self, way: str, kind: str, query: int) -> Sequence[int]:
        found = self._store.similarity_search_with_score_by_vector(
            self._corpus.asked[query].tolist(), TOP_K, self._filter(kind, query)
        )
        return [uuid.UUID(document.metadata["_id"]).int - 1 for document, _ in found]

    def _filter(self, kind: str, query: int) -> Any:
        models = self._models
        if kind == "plain":
            return None
        if kind == "1 % range":
            low = 10 * (query % 100)
            condition = models.FieldCondition(key="metadata.day", range=models.Range(gte=low, lte=low + 9))
        else:
            ((field, value),) = self._corpus.condition(kind, query).items()
            condition = models.FieldCondition(key=f"metadata.{field}", match=models.MatchValue(value=value))
        return models.Filter(must=[condition])

    async def delete(self, document: int) -> None:
        self._store.delete(self.names(document))

    async def close(self) -> None:
        self._client.close()


class LangChainPostgres(_LangChain):
    """AsyncPGVectorStore. Above 10,000 chunks with an HNSW index like ours, searched at our `ef_search` and at its own
    default, which finds fewer neighbours."""

    def __init__(self, corpus: Corpus, dsn: str) -> None:
        super().__init__(corpus)
        self._dsn = dsn
        self._indexed = corpus.size > 10_000
        self.searches = ("langchain", "langchain ef_search 40") if self._indexed else ("langchain",)

    async def open(self) -> None:
        from langchain_postgres import Column, PGEngine
        from langchain_postgres.v2.async_vectorstore import AsyncPGVectorStore
        from langchain_postgres.v2.indexes import HNSWQueryOptions
        from sqlalchemy.ext.asyncio import create_async_engine

        host = self._dsn.partition("host=")[2]
        self._pool = create_async_engine(f"postgresql+asyncpg://postgres@/postgres?host={host}")
        self._engine = PGEngine.from_engine(self._pool)
        await self._engine.ainit_vectorstore_table(
            COLLECTION, DIMENSIONS, metadata_columns=[Column(name, kind) for name, kind in _COLUMNS.items()]
        )
        self._stores = {
            way: await AsyncPGVectorStore.create(
                self._engine,
                self._given,
                COLLECTION,
                metadata_columns=list(_COLUMNS),
                index_query_options=HNSWQueryOptions(ef_search=ef_search) if self._indexed else None,
            )
            for way, ef_search in (("langchain", 300), ("langchain ef_search 40", 40))
        }
        self._store = self._stores["langchain"]

    async def insert(self, batch: Any) -> None:
        texts, vectors, metadata, ids = batch
        await self._store.aadd_embeddings(texts, vectors, metadata, ids)

    async def fill(self, batch: Any) -> None:
        """The same rows in one statement, since `insert` commits each chunk."""
        texts, vectors, metadata, ids = batch
        connection = await asyncpg.connect(self._dsn)
        await connection.execute(
            _FILL, ids, texts, [str(one) for one in vectors], [json.dumps(one) for one in metadata]
        )
        await connection.close()

    async def settle(self) -> None:
        from langchain_postgres.v2.indexes import HNSWIndex

        if self._indexed:
            await self._store.aapply_vector_index(HNSWIndex(name="bench_hnsw", m=16, ef_construction=64))
        connection = await asyncpg.connect(self._dsn)
        await connection.execute(f'VACUUM ANALYZE "{COLLECTION}"')
        await connection.close()

    async def search(self, way: str, kind: str, query: int) -> Sequence[int]:
        where: Any = None
        if kind == "1 % range":
            where = {"day": {"$between": [10 * (query % 100), 10 * (query % 100) + 9]}}
        elif kind != "plain":
            where = self._corpus.condition(kind, query)
        found = await self._stores[way].asimilarity_search_with_score_by_vector(
            self._corpus.asked[query].tolist(), TOP_K, where
        )
        return [uuid.UUID(document.id).int - 1 for document, _ in found]

    async def delete(self, document: int) -> None:
        await self._store.adelete(self.names(document))

    async def close(self) -> None:
        await self._pool.dispose()


class LangChainMilvus(_LangChain):
    """Milvus on a Milvus Lite file of its own, cosine like ours.

    Compared with an exact index as ours is; beside it stands its default AUTOINDEX, which Milvus Lite makes an
    approximate one.
    """

    def __init__(self, corpus: Corpus, folder: Path, index: str) -> None:
        from langchain_milvus import Milvus

        super().__init__(corpus)
        if index != "FLAT":
            self.searches = (f"langchain {index}",)
        self._path = str(folder / f"langchain_{index}.db")
        self._store = Milvus(
            self._given,
            COLLECTION,
            connection_args={"uri": self._path},
            index_params={"metric_type": "COSINE", "index_type": index, "params": {}},
        )

    def name(self, number: int) -> str:
        return f"{number:012}"

    async def insert(self, batch: Any) -> None:
        texts, vectors, metadata, ids = batch
        self._store.add_embeddings(texts, vectors, metadata, ids=ids)

    async def settle(self) -> None:
        # LangChain never flushes, and Milvus Lite searches rows that are not flushed ten times slower.
        self._store.client.flush(COLLECTION)

    async def search(self, way: str, kind: str, query: int) -> Sequence[int]:
        expression = None
        if kind == "1 % range":
            expression = f"day >= {10 * (query % 100)} and day <= {10 * (query % 100) + 9}"
        elif kind != "plain":
            ((field, value),) = self._corpus.condition(kind, query).items()
            expression = f'{field} == "{value}"'
        found = self._store.similarity_search_with_score_by_vector(
            self._corpus.asked[query].tolist(), TOP_K, expr=expression
        )
        return [int(document.metadata["pk"]) for document, _ in found]

    async def delete(self, document: int) -> None:
        assert self._store.delete(self.names(document))

    async def close(self) -> None:
        from milvus_lite.server_manager import server_manager_instance

        self._store.client.close()
        server_manager_instance.release_server(self._path)  # else it writes at the end of the process


async def compare(engine: str, place: Place, corpus: Corpus, queries: int) -> dict[str, Any]:
    """Insert, search, insert and delete one document; the systems take turns, and turns change their order."""
    warnings.filterwarnings("ignore")
    ours = Ours(place, corpus)
    await ours.open()
    systems: dict[str, System] = {"agent_rag": ours, **(await _theirs(engine, place, corpus))}
    result: dict[str, Any] = {"our_keyword_index": place.keyword}
    result["insert_per_s"] = await _load(systems, corpus)
    say("progress", text=f"inserted {result['insert_per_s']}")
    result["settle_s"] = {name: round((await timed(one.settle()))[0] / 1_000, 2) for name, one in systems.items()}
    result |= await _searches(systems, corpus, queries)
    say("progress", text=f"plain { {way: row['p50_ms'] for way, row in result['plain'].items()} }")
    result |= await _writes(systems, corpus)
    for one in systems.values():
        await one.close()
    return result


async def _theirs(engine: str, place: Place, corpus: Corpus) -> dict[str, System]:
    if engine == "qdrant":
        return {
            "langchain": LangChainQdrant(corpus, None),
            "langchain path=": LangChainQdrant(corpus, place.folder / "langchain"),
        }
    if engine == "milvus":
        return {
            "langchain": LangChainMilvus(corpus, place.folder, "FLAT"),
            "langchain AUTOINDEX": LangChainMilvus(corpus, place.folder, "AUTOINDEX"),
        }
    store = LangChainPostgres(corpus, place.dsn or "")
    await store.open()
    return {"langchain": store}


async def _load(systems: dict[str, System], corpus: Corpus) -> dict[str, int]:
    spent = dict.fromkeys(systems, 0.0)
    for turn, start in enumerate(range(0, corpus.size, BATCH)):
        for name, system in _turn(systems, turn):
            batch = system.batch(start, min(start + BATCH, corpus.size))
            if start < system.measured:
                spent[name] += (await timed(system.insert(batch)))[0]
            else:
                await system.fill(batch)
        if start and start % 25_000 == 0:
            say("progress", text=f"{start:,} inserted")
    return {
        name: round(1_000 * min(corpus.size, systems[name].measured) / milliseconds)
        for name, milliseconds in spent.items()
    }


async def _searches(systems: dict[str, System], corpus: Corpus, queries: int) -> dict[str, Any]:
    truth = Truth(corpus, queries)
    spent: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    recall: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}
    for turn, query in enumerate((*range(len(corpus.asked) - WARM, len(corpus.asked)), *range(queries))):
        for kind in KINDS:
            if any(map(is_enough, spent[kind].values())):
                continue  # for all alike
            for _, system in _turn(systems, turn):
                for way in system.searches:
                    taken, found = await timed(system.search(way, kind, query))
                    if turn >= WARM:
                        spent[kind].setdefault(way, []).append(taken)
                        recall[kind].setdefault(way, []).append(truth.recall(kind, query, found))
    return {
        kind: {
            way: quantiles(values) | {"recall": round(statistics.mean(recall[kind][way]), 4)}
            for way, values in spent[kind].items()
        }
        for kind in KINDS
    }


async def _writes(systems: dict[str, System], corpus: Corpus) -> dict[str, Any]:
    inserted: dict[str, list[float]] = {name: [] for name in systems}
    deleted: dict[str, list[float]] = {name: [] for name in systems}
    documents = MEASURED_ON_DISK // PER_DOCUMENT  # the first ones, which all systems hold
    assert documents >= 2 * SINGLE
    for turn in range(2 * SINGLE):
        for name, system in _turn(systems, turn):
            batch = system.batch(0, PER_DOCUMENT, turn)
            inserted[name].append((await timed(system.insert(batch)))[0])
    for turn in range(2 * SINGLE):
        for name, system in _turn(systems, turn):
            deleted[name].append((await timed(system.delete(turn)))[0])
    return {
        "insert document": {name: quantiles(values) for name, values in inserted.items()},
        "delete document": {name: quantiles(values) for name, values in deleted.items()},
    }


def _turn(systems: dict[str, System], turn: int) -> list[tuple[str, System]]:
    ordered = list(systems.items())
    return ordered if turn % 2 == 0 else ordered[::-1]
