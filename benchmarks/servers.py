"""Qdrant and Elasticsearch servers: ours beside the vendor's client and LangChain's integration, in turns.

Chunks of 800 characters and 384 numbers. Every figure is a median of turns in which all ways run one after the other
on the same server, so that what else the machine does meets all of them. `beside 60 inserts` is one search while 60
inserts of 10 chunks run.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
from _common import write_result

from agent_rag.content import TextBlock
from agent_rag.documents import Chunk, DocumentSummary, VectorRecord
from agent_rag.stores.base import RetrieveRequest, Scored
from agent_rag.stores.native import NativeStoreBase
from tests.stores.servers import elasticsearch, qdrant

DIMENSIONS, CHARACTERS, BATCH, CHUNKS_PER_DOCUMENT = 384, 800, 1_000, 20
PACKAGES = ("qdrant-client", "elasticsearch", "langchain-qdrant", "langchain-elasticsearch")
WORDS = [f"w{number:x}" for number in range(20_000)]
Way = Callable[[], Awaitable[Any]]


class Data:
    def __init__(self, count: int) -> None:
        generator = np.random.default_rng(7)
        self.vectors = generator.normal(size=(count, DIMENSIONS)).astype(np.float32)
        picks = generator.zipf(1.3, size=(count, 160)) % len(WORDS)
        self.texts = [" ".join(WORDS[pick] for pick in row)[:CHARACTERS] for row in picks]
        self.queries = generator.normal(size=(64, DIMENSIONS)).astype(np.float32)
        self.asked = [" ".join(WORDS[pick] for pick in row) for row in generator.integers(0, 400, size=(64, 4))]

    def records(self, start: int, stop: int) -> list[VectorRecord]:
        return [
            VectorRecord(
                vector=self.vectors[at].tolist(),
                document_id=f"d{at // CHUNKS_PER_DOCUMENT}",
                chunk=_chunk(self.texts[at], at % CHUNKS_PER_DOCUMENT),
            )
            for at in range(start, stop)
        ]


def _chunk(text: str, index: int) -> Chunk:
    return Chunk(content=TextBlock(text=text), source="s", chunk_index=index, total_chunks=CHUNKS_PER_DOCUMENT)


async def timed(work: Way) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def in_turns(ways: dict[str, Callable[[int], Awaitable[Any]]], turns: int) -> dict[str, float]:
    """Median ms of each way; the first three turns are not counted."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns + 3):
        for name, way in ways.items():
            took = await timed(lambda way=way, turn=turn: way(turn))  # type: ignore[misc]
            if turn >= 3:
                found[name].append(1000 * took)
    return {name: round(statistics.median(times), 2) for name, times in found.items()}


def rank(semantic: list[list[Scored]], keyword: list[list[Scored]], signals: Any) -> list[Scored]:
    best: dict[Any, float] = {}
    for ranking in (*semantic, *keyword):
        for place, hit in enumerate(ranking):
            best[hit.key] = best.get(hit.key, 0.0) + 1 / (60 + place)
    return [Scored(key, score) for key, score in sorted(best.items(), key=lambda item: (-item[1], item[0]))]


async def measured(data: Data, stores: dict[str, NativeStoreBase], plain: Any, turns: int) -> dict[str, Any]:
    """Write everything, each way a batch in turn, then search."""
    name = f"b{uuid.uuid4().hex[:8]}"
    full = stores["ours"]
    for store in stores.values():
        await store.create_collection(name if store is full else f"{name}p", DIMENSIONS)
    await plain.create()
    rates: dict[str, list[float]] = {}
    for start in range(0, len(data.texts), BATCH):
        stop = min(start + BATCH, len(data.texts))
        records = data.records(start, stop)
        for label, store in stores.items():
            target = name if store is full else f"{name}p"
            took = await timed(partial(store.insert, target, records))
            rates.setdefault(label, []).append((stop - start) / took)
        for label, way in plain.writers(start, stop).items():
            rates.setdefault(label, []).append((stop - start) / await timed(way))
    write = {label: round(statistics.median(seen)) for label, seen in rates.items()}
    await asyncio.sleep(12)  # documents younger than 10 s are looked at twice

    def ours(**options: Any) -> Callable[[int], Awaitable[Any]]:
        async def search(turn: int) -> Any:
            asked: dict[str, Any] = {"limit": 10}
            if "semantic" in options:
                asked["vectors"] = [data.queries[turn % 64].tolist()]
            if "keyword" in options:
                asked["texts"] = [data.asked[turn % 64]]
            if len(options) == 2:
                asked |= {"rank": rank, "candidates": 100}
            return await full.retrieve(name, RetrieveRequest(**asked))

        return search

    search = await in_turns(
        {
            **plain.searchers(),
            "ours semantic": ours(semantic=True),
            "ours keyword": ours(keyword=True),
            "ours hybrid": ours(semantic=True, keyword=True),
        },
        turns,
    )
    one = data.records(0, CHUNKS_PER_DOCUMENT)

    async def replace(_: int) -> Any:
        summary = DocumentSummary(document_id="d0", source="s", chunk_count=CHUNKS_PER_DOCUMENT)
        return await full.replace(name, [summary], one)

    replaced = await in_turns({**plain.replacers(), "ours replace": replace}, max(turns // 3, 5))
    quiet = search["ours semantic"]
    inserts = [
        asyncio.create_task(full.insert(name, _renamed(data.records(n * 10, n * 10 + 10), n))) for n in range(60)
    ]
    busy = []
    while not all(task.done() for task in inserts):
        busy.append(1000 * await timed(lambda: ours(semantic=True)(1)))
    await asyncio.gather(*inserts)
    for store in stores.values():
        await store.delete_collection(name if store is full else f"{name}p")
    beside = {"median ms": round(statistics.median(busy), 1), "times quiet": round(statistics.median(busy) / quiet, 1)}
    return {"write per s": write, "search ms": search, "replace 20 chunks ms": replaced, "beside 60 inserts": beside}


def _renamed(records: list[VectorRecord], number: int) -> list[VectorRecord]:
    return [record.model_copy(update={"document_id": f"x{number}"}) for record in records]


class PlainQdrant:
    """qdrant-client itself, and langchain-qdrant where it is installed."""

    def __init__(self, url: str, data: Data) -> None:
        from qdrant_client import AsyncQdrantClient, QdrantClient

        self._client = AsyncQdrantClient(url=url, check_compatibility=False)
        self._sync = QdrantClient(url=url, check_compatibility=False)
        self._data = data
        self._langchain: Any = None

    async def create(self) -> None:
        from qdrant_client import models

        for name in ("plain", "langchain"):
            vectors = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
            await self._client.delete_collection(name)
            await self._client.create_collection(name, vectors_config=vectors)
        if importlib.util.find_spec("langchain_qdrant"):
            from langchain_qdrant import QdrantVectorStore

            self._langchain = QdrantVectorStore(
                self._sync, "langchain", embedding=Known(self._data), validate_collection_config=False
            )

    def writers(self, start: int, stop: int) -> dict[str, Way]:
        from qdrant_client import models

        async def plain() -> None:
            for low in range(start, stop, 64):
                points = [
                    models.PointStruct(
                        id=at, vector=self._data.vectors[at].tolist(), payload={"text": self._data.texts[at]}
                    )
                    for at in range(low, min(low + 64, stop))
                ]
                await self._client.upsert("plain", points, wait=True)

        ways: dict[str, Way] = {"plain client": plain}
        if self._langchain is not None:
            ways["langchain"] = lambda: _langchain_add(self._langchain, self._data, start, stop)
        return ways

    def searchers(self) -> dict[str, Callable[[int], Awaitable[Any]]]:
        async def plain(turn: int) -> Any:
            query = self._data.queries[turn % 64].tolist()
            return await self._client.query_points("plain", query, limit=10, with_payload=True)

        return {"plain client semantic": plain, **_langchain_search(self._langchain, self._data)}

    def replacers(self) -> dict[str, Callable[[int], Awaitable[Any]]]:
        return _langchain_replace(self._langchain, self._data)


class PlainElasticsearch:
    """elasticsearch-py itself, and langchain-elasticsearch where it is installed."""

    def __init__(self, url: str, data: Data) -> None:
        from elasticsearch import AsyncElasticsearch

        self._client = AsyncElasticsearch(url, node_class="httpxasync", request_timeout=120)
        self._url = url
        self._data = data
        self._langchain: Any = None

    async def create(self) -> None:
        await self._client.indices.delete(index="plain,langchain", ignore_unavailable=True)
        vector = {"type": "dense_vector", "dims": DIMENSIONS, "index": True, "similarity": "cosine"}
        vector["index_options"] = {"type": "hnsw", "m": 16, "ef_construction": 200}
        await self._client.indices.create(
            index="plain", mappings={"properties": {"v": vector, "text": {"type": "text"}}}
        )
        if importlib.util.find_spec("langchain_elasticsearch"):
            from langchain_elasticsearch import ElasticsearchStore

            self._langchain = ElasticsearchStore("langchain", embedding=Known(self._data), es_url=self._url)

    def writers(self, start: int, stop: int) -> dict[str, Way]:
        async def plain() -> None:
            operations: list[Any] = []
            for at in range(start, stop):
                operations += [
                    {"index": {"_id": str(at)}},
                    {"v": self._data.vectors[at].tolist(), "text": self._data.texts[at]},
                ]
            await self._client.bulk(index="plain", operations=operations, refresh=True)

        ways: dict[str, Way] = {"plain client": plain}
        if self._langchain is not None:
            ways["langchain"] = lambda: _langchain_add(self._langchain, self._data, start, stop)
        return ways

    def searchers(self) -> dict[str, Callable[[int], Awaitable[Any]]]:
        async def semantic(turn: int) -> Any:
            query = self._data.queries[turn % 64].tolist()
            knn = {"field": "v", "query_vector": query, "k": 10, "num_candidates": 100}
            return await self._client.search(index="plain", knn=knn, size=10, source=["text"])

        async def keyword(turn: int) -> Any:
            query = {"match": {"text": self._data.asked[turn % 64]}}
            return await self._client.search(index="plain", query=query, size=10, source=["text"])

        return {
            "plain client semantic": semantic,
            "plain client keyword": keyword,
            **_langchain_search(self._langchain, self._data),
        }

    def replacers(self) -> dict[str, Callable[[int], Awaitable[Any]]]:
        return _langchain_replace(self._langchain, self._data)


class Known:
    """LangChain's embedding interface over vectors that are there."""

    def __init__(self, data: Data) -> None:
        self._of = dict(zip(data.texts, data.vectors, strict=True))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._of[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return next(iter(self._of.values())).tolist()


async def _langchain_add(store: Any, data: Data, start: int, stop: int) -> None:
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(at))) for at in range(start, stop)]
    await asyncio.to_thread(store.add_texts, data.texts[start:stop], ids=ids)


def _langchain_search(store: Any, data: Data) -> dict[str, Callable[[int], Awaitable[Any]]]:
    if store is None:
        return {}
    elastic = hasattr(store, "similarity_search_by_vector_with_relevance_scores")
    by_vector = (
        store.similarity_search_by_vector_with_relevance_scores if elastic else store.similarity_search_by_vector
    )
    return {"langchain semantic": lambda turn: asyncio.to_thread(by_vector, data.queries[turn % 64].tolist(), k=10)}


def _langchain_replace(store: Any, data: Data) -> dict[str, Callable[[int], Awaitable[Any]]]:
    if store is None:
        return {}
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(at))) for at in range(CHUNKS_PER_DOCUMENT)]

    async def replace(_: int) -> None:
        await asyncio.to_thread(store.delete, ids)
        await _langchain_add(store, data, 0, CHUNKS_PER_DOCUMENT)

    return {"langchain delete and add": replace}


async def run_qdrant(data: Data, turns: int) -> dict[str, Any]:
    from agent_rag.stores import QdrantStore

    with qdrant() as (server,):
        ours, without = QdrantStore(url=server.url), QdrantStore(url=server.url, keyword=False)
        stores = {"ours": ours, "ours without keyword": without}
        async with ours, without:
            http = await measured(data, stores, PlainQdrant(server.url, data), turns)
        port = {"grpc_port": server.port + 1}
        ours = QdrantStore(url=server.url, prefer_grpc=True, client_kwargs=port)
        without = QdrantStore(url=server.url, keyword=False, prefer_grpc=True, client_kwargs=port)
        async with ours, without:
            stores = {"ours": ours, "ours without keyword": without}
            return {"http": http, "grpc": await measured(data, stores, PlainQdrant(server.url, data), turns)}


async def run_elasticsearch(data: Data, turns: int) -> dict[str, Any]:
    from agent_rag.stores import ElasticsearchStore

    with elasticsearch() as (server,):
        async with ElasticsearchStore(server.url) as ours:
            return await measured(data, {"ours": ours}, PlainElasticsearch(server.url, data), turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--engines", nargs="*", default=["qdrant", "elasticsearch"])
    options = parser.parse_args()
    data = Data(options.chunks)
    runs = {"qdrant": run_qdrant, "elasticsearch": run_elasticsearch}
    results = {engine: asyncio.run(runs[engine](data, options.turns)) for engine in options.engines}
    for engine, result in results.items():
        print(engine, result)
    measured_on = {"chunks": options.chunks, "dimensions": DIMENSIONS, "turns": options.turns}
    write_result("servers", {"data": measured_on, **results}, packages=PACKAGES)


if __name__ == "__main__":
    main()
