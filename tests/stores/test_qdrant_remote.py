"""QdrantStore(url=...), against the loopback stand-in, and a real server where AGENT_RAG_QDRANT_URL names one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, models

from agent_rag import KnowledgeBase, errors
from agent_rag.documents import VectorRecord
from agent_rag.stores.base import RetrieveRequest, Scored, VectorStoreBase
from agent_rag.stores.qdrant import QdrantStore
from agent_rag.stores.qdrant.publisher import Publisher
from agent_rag.stores.qdrant.view import View
from agent_rag.testing import HashEmbedding, StoreContract
from agent_rag.testing.records import document, record
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.retrieve import StoreRetrieve

from ..standins.qdrant_server import QdrantServer

EAST = [1.0, 0.0, 0.0, 0.0]
SERVER_URL = os.environ.get("AGENT_RAG_QDRANT_URL")
_SERVE = """
import sys
from tests.standins.qdrant_server import QdrantServer
with QdrantServer() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """The real server's URL where there is one; else that of a stand-in in another process, as a server would be."""
    if SERVER_URL:
        yield SERVER_URL
        return
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


class TestQdrantServer(StoreContract):
    """The contract over HTTP; `AGENT_RAG_QDRANT_URL=http://localhost:6333` runs it on a real server."""

    persistent = True
    shared = True
    has_unavailable = True
    # A search takes several requests, and the stand-in's filters run in Python: 10 s per seed.
    congruence_seeds = (1,) if "AGENT_RAG_SOAK" not in os.environ else (1, 2, 3)

    @pytest.fixture
    def make_store(self, server_url: str) -> MakeStore:
        key = os.environ.get("AGENT_RAG_QDRANT_API_KEY")
        return lambda: QdrantStore(url=server_url, api_key=key)

    @pytest.fixture
    def unavailable(self) -> VectorStoreBase:
        server = QdrantServer()
        url = server.start()
        server.stop()
        return QdrantStore(url=url)


class TestQdrantServerWithoutKeyword(StoreCore, StoreRetrieve):
    """``keyword=False`` takes keyword search from the object."""

    keyword_search = False
    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self, server_url: str) -> MakeStore:
        key = os.environ.get("AGENT_RAG_QDRANT_API_KEY")
        return lambda: QdrantStore(url=server_url, api_key=key, keyword=False)


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    """A stand-in of the test's own, in this process, to be failed and looked into."""
    with QdrantServer() as server:
        yield server


# --- failures ---


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_failing_server_is_unavailable(server: QdrantServer, status: int) -> None:
    """The error says which status, and the next call works."""
    async with QdrantStore(url=server.url) as store:
        await store.create_collection("c", 4)
        server.fail_next(1, status)

        with pytest.raises(errors.StoreUnavailableError, match=str(status)):
            await store.search("c", EAST)

        assert await store.search("c", EAST) == []


async def test_a_server_that_hangs_is_unavailable(server: QdrantServer) -> None:
    """After the time limit, which the message names."""
    async with QdrantStore(url=server.url, timeout_s=1) as store:
        await store.create_collection("c", 4)
        server.hang = True

        with pytest.raises(errors.StoreUnavailableError, match="timeout_s=1"):
            await store.search("c", EAST)
        health = await store.ping()

    assert not health.ok


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_the_key_is_nowhere_to_be_read(server: QdrantServer) -> None:
    """Not in the repr, not in an error, also where it was given in the URL."""
    store = QdrantStore(url=server.url, api_key="sk-very-secret-123456")
    async with store:
        server.stop()
        with pytest.raises(errors.StoreUnavailableError) as caught:
            await store.list_collections()

    assert "very-secret" not in repr(store) + str(caught.value) + repr(caught.value) + repr(vars(store))


async def test_a_server_that_loses_the_collection_is_noticed(server: QdrantServer) -> None:
    """Another process drops it: CollectionNotFoundError, not an empty answer."""
    async with QdrantStore(url=server.url) as store, QdrantStore(url=server.url) as other:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])
        await other.delete_collection("c")

        with pytest.raises(errors.CollectionNotFoundError, match="'c'"):
            await store.search("c", EAST)


# --- options ---


async def test_options_of_a_cluster_reach_the_server(server: QdrantServer) -> None:
    """Shards, replicas, consistency, quantisation, disk, and the tenant index."""
    options: dict[str, Any] = {"shard_number": 3, "replication_factor": 2, "write_consistency_factor": 2}

    async with QdrantStore(url=server.url, **options, quantization="scalar", on_disk=True) as store:
        await store.create_collection("c", 4)
    client = AsyncQdrantClient(url=server.url, check_compatibility=False)
    info = await client.get_collection("c")
    await client.close()

    params = info.config.params
    assert {name: getattr(params, name) for name in options} == options
    assert params.on_disk_payload is True
    assert isinstance(info.config.quantization_config, models.ScalarQuantization)
    tenant = info.payload_schema["s"].params
    assert isinstance(tenant, models.KeywordIndexParams)
    assert tenant.is_tenant is True


async def test_a_collection_of_another_program_is_left_alone(server: QdrantServer) -> None:
    """It does not count as ours, so nothing is read from it or written to it."""
    client = AsyncQdrantClient(url=server.url, check_compatibility=False)
    await client.create_collection("theirs", vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    async with QdrantStore(url=server.url) as store:
        with pytest.raises(errors.CollectionNotFoundError):
            await store.insert("theirs", [record("a")])
        found = await store.collection_info("theirs")
    await client.close()

    assert found is None


# --- versions ---


def version(name: str, count: int) -> list[VectorRecord]:
    return [record("doc", n, f"{name} word", metadata={"v": name}, total=count) for n in range(count)]


async def written_but_not_swapped(store: QdrantStore, collection: str, records: list[VectorRecord]) -> None:
    """Leave the server as a writer does that is killed between steps 2 and 3 of the protocol."""

    async def killed(*_: Any) -> Any:
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Publisher, "_swap_heads", killed)
        with pytest.raises(ZeroDivisionError):
            await store.replace(collection, [document()], records)


async def test_what_a_killed_writer_left_is_not_read(server: QdrantServer) -> None:
    """Its chunks are on the server and live, yet no read returns one, and no list is shorter for it."""
    async with QdrantStore(url=server.url) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document()], version("old", 5))
        await written_but_not_swapped(store, "c", version("new", 7))

        hits = await store.search("c", EAST, 5)
        words = await store.retrieve("c", RetrieveRequest(texts=["word new"], limit=5, candidates=5))
        both = await store.retrieve("c", RetrieveRequest(vectors=[EAST], texts=["word"], limit=5, rank=rank_all))
        listed = await store.list_chunks("c", "doc")

    for found in (hits, words, both, listed):
        assert [item.chunk.text for item in found] == ["old word"] * 5


async def test_the_next_replace_clears_what_a_killed_writer_left(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is old enough not to be another writer's work."""
    async with QdrantStore(url=server.url) as store:
        await store.create_collection("c", 4)
        await written_but_not_swapped(store, "c", version("lost", 7))
        await store.replace("c", [document()], version("one", 2))
        young = await points(server)
        monkeypatch.setattr("agent_rag.stores.qdrant.publisher.LEFTOVER_S", -1.0)
        await store.replace("c", [document()], version("two", 2))
        cleared = await points(server)

    assert (young, cleared) == (1 + 2 + 7, 1 + 2)


async def test_a_search_between_the_steps_of_a_replace_sees_one_version(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each request of a writer, another store's hybrid search gives one whole version."""
    seen: list[str] = []
    async with QdrantStore(url=server.url) as reader, QdrantStore(url=server.url) as writer:
        await reader.create_collection("c", 4)
        await reader.replace("c", [document()], version("v0", 4))

        async def look() -> None:
            request = RetrieveRequest(vectors=[EAST], texts=["word"], limit=50, rank=rank_all)
            for found in (await reader.search("c", EAST, 50), await reader.retrieve("c", request)):
                names = {hit.chunk.metadata["v"] for hit in found}
                assert len(names) == 1
                assert len(found) == found[0].chunk.total_chunks
                seen.extend(names)

        for method in ("upsert", "set_payload", "batch_update_points"):
            watch(monkeypatch, method, look)
        for number in range(1, 4):
            await writer.replace("c", [document()], version(f"v{number}", 3 + number % 2 * 5))

    assert list(dict.fromkeys(seen)) == ["v0", "v1", "v2", "v3"]
    assert len(seen) >= 3 * 4 * 4


def watch(monkeypatch: pytest.MonkeyPatch, method: str, look: Any) -> None:
    """Call `look` before and after each call of the client's `method`."""
    original = getattr(AsyncQdrantClient, method)

    async def watched(self: AsyncQdrantClient, *arguments: Any, **named: Any) -> Any:
        await look()
        answer = await original(self, *arguments, **named)
        await look()
        return answer

    monkeypatch.setattr(AsyncQdrantClient, method, watched)


def rank_all(semantic: Any, keyword: Any, _: Any) -> list[Scored]:
    return list({hit.key: hit for hit in (*semantic[0], *keyword[0])}.values())


async def points(server: QdrantServer) -> int:
    client = AsyncQdrantClient(url=server.url, check_compatibility=False)
    counted = await client.count("c", exact=True)
    await client.close()
    return counted.count


# --- without keyword search ---


async def test_a_collection_without_words_says_so_to_other_stores(server: QdrantServer) -> None:
    """It has no sparse vectors, and a store with keyword search says why it cannot search it by words."""
    client = AsyncQdrantClient(url=server.url, check_compatibility=False)
    async with QdrantStore(url=server.url, keyword=False) as plain, QdrantStore(url=server.url) as full:
        await plain.create_collection("c", 4)
        await plain.replace("c", [document("a")], [record("a", n, text="pear") for n in range(3)])
        await full.insert("c", [record("a", 3, text="pear"), record("b", text="pear")])
        made = await client.get_collection("c")
        stored, _ = await client.scroll("c", with_vectors=True)

        with pytest.raises(errors.ConfigurationError, match="keyword"):
            await plain.retrieve("c", RetrieveRequest(texts=["pear"]))
        with pytest.raises(errors.ConfigurationError, match="'c' was created with keyword=False"):
            await full.retrieve("c", RetrieveRequest(texts=["pear"]))
        assert len(await full.search("c", EAST, 10)) == 5
        assert not made.config.params.sparse_vectors
        assert {name for point in stored for name in point.vector or {}} == {"d"}
    await client.close()


async def test_a_store_without_keyword_search_keeps_words_of_others_fresh(server: QdrantServer) -> None:
    """A collection that was made with words has those of every chunk, whoever wrote it."""
    async with QdrantStore(url=server.url) as full, QdrantStore(url=server.url, keyword=False) as plain:
        await full.create_collection("c", 4)
        await plain.insert("c", [record("a", text="pear")])

        found = await full.retrieve("c", RetrieveRequest(texts=["pear"]))

    assert [hit.document_id for hit in found] == ["a"]


async def test_a_knowledge_base_without_keyword_search_is_semantic(server: QdrantServer) -> None:
    """Its default mode follows what the store can."""
    async with QdrantStore(url=server.url, keyword=False) as store:
        knowledge = KnowledgeBase("docs", "Fruit.", HashEmbedding(), store, "c")
        await knowledge.insert_document([record(text="pears are fruit").chunk], "a")

        (found,) = await knowledge.search("fruit")

    assert found.signals.semantic is not None
    assert found.signals.keyword is None


async def test_a_search_that_never_meets_a_whole_version_says_so(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty answer would say that the document is not there."""

    async def always_replaced(*_: Any) -> set[str]:
        return {"another version"}

    async with QdrantStore(url=server.url) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document()], version("one", 2))
        monkeypatch.setattr(View, "_wrong", always_replaced)

        with pytest.raises(errors.StoreError, match="'c' are replaced all the time"):
            await store.search("c", EAST, 5)
