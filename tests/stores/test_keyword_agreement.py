"""Keyword search of every engine against bm25s, on English and Chinese text: what the engines' own tests leave out.

Engines in full, with 200 questions of each set; stand-ins, which score in Python, with the first documents and some
questions. `scripts/bench stores --sections keyword --all-queries` compares all questions on the engines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_rag.stores import MemoryStore, QdrantStore
from agent_rag.stores.base import VectorStoreBase
from agent_rag.testing import record
from tests.shared import needs_shared, retrieval_set
from tests.stores.bm25s_agreement import agreement
from tests.stores.servers import elasticsearch, qdrant

Open = Callable[[Path], AbstractAsyncContextManager[VectorStoreBase]]

# pymongo leaves the socket of a monitor open that is cancelled while it connects.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@asynccontextmanager
async def _memory(_: Path) -> AsyncIterator[VectorStoreBase]:
    async with MemoryStore() as store:
        yield store


@asynccontextmanager
async def _qdrant_folder(folder: Path) -> AsyncIterator[VectorStoreBase]:
    async with QdrantStore(path=folder / "store") as store:
        yield store


@asynccontextmanager
async def _qdrant_server(_: Path) -> AsyncIterator[VectorStoreBase]:
    """Three shards."""
    with qdrant() as servers:
        async with QdrantStore(url=servers[0].url, shard_number=3) as store:
            yield store


@asynccontextmanager
async def _postgres_stock(_: Path) -> AsyncIterator[VectorStoreBase]:
    pytest.importorskip("asyncpg", reason="pip install 'agent-rag-middleware[postgres]' to run this")
    from agent_rag.stores import PostgresStore
    from tests.stores.postgres_servers import BINARIES, stock_server

    if not BINARIES:
        pytest.skip("no stock PostgreSQL here; scripts/servers installs it")
    with stock_server() as dsn:
        async with PostgresStore(dsn) as store:
            yield store


@asynccontextmanager
async def _milvus(folder: Path) -> AsyncIterator[VectorStoreBase]:
    pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")
    from agent_rag.stores import MilvusLiteStore

    async with MilvusLiteStore(folder / "store.db") as store:
        yield store


@asynccontextmanager
async def _elasticsearch(_: Path) -> AsyncIterator[VectorStoreBase]:
    pytest.importorskip("elasticsearch", reason="pip install 'agent-rag-middleware[elasticsearch]' to run this")
    from agent_rag.stores import ElasticsearchStore

    with elasticsearch() as servers:
        async with ElasticsearchStore(servers[0].url, index_settings={"number_of_shards": 3}) as store:
            yield store


@asynccontextmanager
async def _mongodb(_: Path) -> AsyncIterator[VectorStoreBase]:
    pytest.importorskip("pymongo", reason="pip install 'agent-rag-middleware[mongodb]' to run this")
    from agent_rag.stores import MongoDBStore
    from tests.standins.mongodb_server import MongoDBServer

    with MongoDBServer(index_build_s=0.02, search_delay_s=0.01) as uri:
        async with MongoDBStore(uri, "agent_rag_test") as store:
            yield store


@asynccontextmanager
async def _tcvector(_: Path) -> AsyncIterator[VectorStoreBase]:
    pytest.importorskip("tcvectordb", reason="pip install 'agent-rag-middleware[tcvector]' to run this")
    from agent_rag.stores import TcVectorStore
    from tests.standins.tcvectordb_server import TcVectorDBServer

    with TcVectorDBServer() as url:
        async with TcVectorStore(url, api_key="standin", database="agent_rag_test") as store:
            yield store


SCIFACT, CMRC = "scifact_train", "cmrc2018_zh"
CASES: list[tuple[Open, str, int | None, int]] = [
    # store, set, documents (None: all), questions
    (_memory, CMRC, None, 200),
    (_qdrant_folder, SCIFACT, None, 200),
    (_qdrant_folder, CMRC, None, 200),
    (_qdrant_server, SCIFACT, 200, 20),
    (_qdrant_server, CMRC, 200, 20),
    (_postgres_stock, SCIFACT, None, 100),
    (_postgres_stock, CMRC, None, 100),
    (_milvus, CMRC, None, 100),
    (_elasticsearch, CMRC, None, 60),
    (_mongodb, CMRC, 150, 25),
    (_tcvector, CMRC, 400, 50),
]


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("opened", "name", "documents", "questions"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
async def test_keyword_search_agrees_with_bm25s(
    tmp_path: Path, opened: Open, name: str, documents: int | None, questions: int
) -> None:
    """The same top 10 as bm25s (method "lucene", same tokens) on at least 99 % of the questions, also after every tenth
    document was deleted."""
    corpus, queries, _ = retrieval_set(name)
    texts: dict[str, str] = dict(list(corpus.items())[:documents])
    asked = list(queries.values())[:: max(1, len(queries) // questions)]
    gone = list(texts)[::10]
    left = {key: text for key, text in texts.items() if key not in set(gone)}
    records: list[Any] = [record(key, text=text, vector=()) for key, text in texts.items()]
    async with opened(tmp_path) as store:
        await store.create_collection("c", 0)
        for start in range(0, len(records), 500):
            await store.insert("c", records[start : start + 500])

        whole = await agreement(store, "c", texts, asked)
        await store.delete_documents("c", gone)
        reduced = await agreement(store, "c", left, asked)

    assert len(asked) >= questions
    assert whole >= 0.99
    assert reduced >= 0.99
