"""QdrantStore(url=...) on real servers: alone, three nodes, and with the settings of Qdrant Cloud."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, models

from agent_rag import KnowledgeBase, errors
from agent_rag.filters import F
from agent_rag.stores.base import RetrieveRequest, Scored
from agent_rag.stores.native import NativeStoreBase
from agent_rag.stores.qdrant import QdrantStore
from agent_rag.stores.qdrant.server import QdrantServer
from agent_rag.testing import HashEmbedding, StoreContract
from agent_rag.testing.records import document, record
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.retrieve import StoreRetrieve

from .exchanging import assert_the_model_is_exchanged
from .servers import CLOUD, Server, qdrant

EAST = [1.0, 0.0, 0.0, 0.0]
pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")


@pytest.fixture(scope="module")
def alone() -> Iterator[Server]:
    with qdrant() as servers:
        yield servers[0]


@pytest.fixture(scope="module")
def cloud() -> Iterator[Server]:
    with qdrant(*CLOUD) as servers:
        yield servers[0]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Server]]:
    with qdrant(nodes=3) as servers:
        yield servers


class QdrantContract(StoreContract):
    """The whole contract."""

    can_exchange = True
    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def unavailable(self) -> NativeStoreBase:
        return QdrantStore(url="http://127.0.0.1:9", timeout_s=2)


class TestAlone(QdrantContract):
    """One server."""

    @pytest.fixture
    def make_store(self, alone: Server) -> MakeStore:
        return lambda: QdrantStore(url=alone.url, api_key=os.environ.get("AGENT_RAG_QDRANT_API_KEY"))


class TestAloneOverGRPC(StoreCore, StoreRetrieve):
    """One server, spoken to in gRPC."""

    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self, alone: Server) -> MakeStore:
        return lambda: QdrantStore(url=alone.url, prefer_grpc=True, client_kwargs={"grpc_port": alone.port + 1})


class TestWithoutKeyword(StoreCore, StoreRetrieve):
    """``keyword=False`` takes the words from the store."""

    persistent = True
    shared = True
    keyword_search = False

    @pytest.fixture
    def make_store(self, alone: Server) -> MakeStore:
        return lambda: QdrantStore(url=alone.url, keyword=False)


class TestCloud(QdrantContract):
    """One server that refuses filters on what is not indexed, and more than 100 indexes."""

    @pytest.fixture
    def make_store(self, cloud: Server) -> MakeStore:
        return lambda: QdrantStore(url=cloud.url, api_key="write")


class TestNodes(QdrantContract):
    """Three nodes, three shards, two copies of each; every store speaks to another node than the one before."""

    @pytest.fixture
    def make_store(self, nodes: list[Server]) -> MakeStore:
        made: list[Server] = []

        def make() -> QdrantStore:
            made.append(nodes[len(made) % len(nodes)])
            return QdrantStore(
                url=made[-1].url,
                shard_number=3,
                replication_factor=2,
                write_consistency_factor=2,
            )

        return make


# --- other names ---


async def test_another_model_takes_over_the_name(alone: Server) -> None:
    """`reindex_model` switches at once, also where the name is no plain word."""
    async with QdrantStore(url=alone.url) as store:
        await assert_the_model_is_exchanged(store, f"Handbook 2 {uuid.uuid4().hex}")


@pytest.mark.parametrize("requests", range(1, 5))
async def test_an_exchange_that_died_changes_nothing(
    alone: Server, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    """Before its second request, or a later one: names, sizes and documents are as they were, and the next exchange
    goes through."""
    left = requests

    def counted(original: Any) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise RuntimeError("died")
            return await original(*arguments, **options)

        return call

    first, second = (f"{name}{uuid.uuid4().hex}" for name in "ab")
    async with QdrantStore(url=alone.url) as store:
        for name, size in ((first, 2), (second, 4)):
            await store.open_collection(name, size)
            await store.insert(name, [record(name, vector=[1.0] * size)])
        with monkeypatch.context() as patch:
            for method in ("_alias", "_describe"):
                patch.setattr(QdrantServer, method, counted(getattr(QdrantServer, method)))
            with pytest.raises(RuntimeError):
                await store.exchange_collections(first, second)

        async with QdrantStore(url=alone.url) as other:
            assert {first, second} <= set(await other.list_collections())
            infos = [await other.collection_info(name) for name in (first, second)]
            assert [(info.name, info.dimensions) for info in infos if info] == [(first, 2), (second, 4)]
            for name in (first, second):
                assert [one.document_id for one in await other.list_documents(name)] == [name]
        await store.exchange_collections(first, second)

        assert [one.document_id for one in await store.list_documents(first)] == [second]
        for name in (first, second):
            await store.delete_collection(name)
        assert not {first, second} & set(await store.list_collections())


# --- what the server says ---


async def test_a_read_only_key_searches_everything_and_its_error_says_what_it_may(cloud: Server) -> None:
    """Also with filters that compare numbers; writing names the key."""
    async with QdrantStore(url=cloud.url, api_key="write") as writer:
        await writer.create_collection("readable", 4)
        await writer.insert("readable", [record("a", metadata={"year": 2020}), record("b", metadata={"year": 2024})])
    async with QdrantStore(url=cloud.url, api_key="read") as reader:
        found = await reader.search("readable", EAST, 5, F("year") > 2021)
        with pytest.raises(errors.StoreError, match="read-only key searches and lists"):
            await reader.insert("readable", [record("c")])

    assert [hit.document_id for hit in found] == ["b"]


async def test_a_wrong_key_is_named(cloud: Server) -> None:
    """Its value is nowhere to be read."""
    store = QdrantStore(url=cloud.url, api_key="sk-very-secret-123456")
    async with store:
        with pytest.raises(errors.StoreError, match=r"check api_key|may not do this") as caught:
            await store.search("c", EAST)

    assert "very-secret" not in repr(store) + str(caught.value) + repr(caught.value) + repr(vars(store))


async def test_a_server_that_is_too_old_is_refused_in_words(alone: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """At open, with both versions."""

    async def info(_: AsyncQdrantClient) -> models.VersionInfo:
        return models.VersionInfo(title="qdrant", version="1.18.3")

    monkeypatch.setattr(AsyncQdrantClient, "info", info)

    with pytest.raises(errors.ConfigurationError, match=r"Qdrant 1\.18\.3 is older than 1\.19"):
        async with QdrantStore(url=alone.url):
            pass


async def test_a_collection_that_another_process_drops_is_noticed(alone: Server) -> None:
    """CollectionNotFoundError, not an empty answer."""
    async with QdrantStore(url=alone.url) as store, QdrantStore(url=alone.url) as other:
        await store.create_collection("dropped", 4)
        await store.insert("dropped", [record("a")])
        await other.delete_collection("dropped")

        with pytest.raises(errors.CollectionNotFoundError, match="'dropped'"):
            await store.search("dropped", EAST)


# --- collections ---


async def test_options_of_a_cluster_reach_the_server(nodes: list[Server]) -> None:
    """Shards, replicas, consistency, quantisation and disk."""
    options: dict[str, Any] = {"shard_number": 4, "replication_factor": 2, "write_consistency_factor": 2}
    async with QdrantStore(url=nodes[0].url, **options, quantization="scalar", on_disk=True) as store:
        await store.create_collection("options", 4)
    client = AsyncQdrantClient(url=nodes[0].url, check_compatibility=False)

    info = await client.get_collection("options")
    await client.close()

    params = info.config.params
    assert {name: getattr(params, name) for name in options} == options
    assert params.on_disk_payload is True
    assert isinstance(info.config.quantization_config, models.ScalarQuantization)


async def test_a_collection_of_another_program_is_named_and_left_alone(alone: Server) -> None:
    """It is neither listed nor read, written or dropped."""
    client = AsyncQdrantClient(url=alone.url, check_compatibility=False)
    await client.create_collection("theirs", vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    async with QdrantStore(url=alone.url) as store:
        calls = (
            store.insert("theirs", [record("a")]),
            store.search("theirs", EAST),
            store.create_collection("theirs", 4),
            store.delete_collection("theirs"),
        )
        for call in calls:
            with pytest.raises(errors.CollectionNotFoundError, match=r"belongs to another program|does not exist"):
                await call

        assert await store.has_collection("theirs") is False
        assert "theirs" not in await store.list_collections()
    assert await client.collection_exists("theirs")
    await client.close()


async def test_a_collection_whose_maker_died_is_completed_when_it_is_opened(
    alone: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the collection and its indexes; the next one that opens it makes them."""

    async def killed(*_: object) -> None:
        raise ZeroDivisionError

    async with QdrantStore(url=alone.url) as store:
        with monkeypatch.context() as patch:
            patch.setattr(QdrantServer, "complete", killed)
            with pytest.raises(ZeroDivisionError):
                await store.create_collection("half", 4)
        await store.create_collection("half", 4)
        await store.insert("half", [record("a", text="pear", metadata={"year": 2020})])

        request = RetrieveRequest(texts=["pear"], metadata_filter=F("year") > 2000)
        found = await store.retrieve("half", request)

    assert [hit.document_id for hit in found] == ["a"]


async def test_any_number_of_fields_can_be_compared(cloud: Server) -> None:
    """120 of them, where a server allows 100 indexes."""
    metadata = {f"field{n}": n for n in range(120)}
    async with QdrantStore(url=cloud.url, api_key="write") as store:
        await store.create_collection("wide", 4)
        await store.insert("wide", [record("a", metadata=metadata), record("b")])

        counted = [await store.count("wide", F(f"field{n}") >= n) for n in (0, 60, 119)]
        missed = await store.count("wide", F("field119") < 119)

    assert (counted, missed) == ([1, 1, 1], 0)


async def test_a_fresh_collection_of_a_cluster_is_waited_for(nodes: list[Server]) -> None:
    """The first calls after it was made, through every node, answer."""
    async with QdrantStore(url=nodes[0].url, replication_factor=2) as store:
        for number in range(3):
            name = f"fresh{number}"
            await store.create_collection(name, 4)
            await store.insert(name, [record("a")])
            for node in nodes:
                async with QdrantStore(url=node.url) as other:
                    assert await other.count(name) == 1


async def test_what_compacting_removes_is_what_nobody_names(alone: Server) -> None:
    """Rows of a writer that died; what is stored stays."""
    async with QdrantStore(url=alone.url) as store:
        await store.create_collection("left", 4)
        await store.replace("left", [document("a")], [record("a", text="pear")])
        client = AsyncQdrantClient(url=alone.url, check_compatibility=False)
        (point,) = [one for one in (await client.scroll("left", with_vectors=True))[0] if "c" in (one.payload or {})]
        stray = {**(point.payload or {}), "g": f"{(point.payload or {})['g'][:32]}{'0' * 16}"}
        await client.upsert("left", [models.PointStruct(id=1, vector=point.vector, payload=stray)], wait=True)  # type: ignore[arg-type]
        counted = await store.count("left")

        removed = await store.compact("left")

        assert (counted, removed, (await client.count("left")).count) == (1, 1, 2)
        assert [hit.document_id for hit in await store.search("left", EAST)] == ["a"]
        await client.close()


# --- without keyword search ---


async def test_a_collection_without_words_says_so_to_other_stores(alone: Server) -> None:
    """It has no sparse vectors, and a store with keyword search says why it cannot search it by words."""
    async with QdrantStore(url=alone.url, keyword=False) as plain, QdrantStore(url=alone.url) as full:
        await plain.create_collection("plain", 4)
        await plain.replace("plain", [document("a")], [record("a", n, text="pear") for n in range(3)])
        await full.insert("plain", [record("a", 3, text="pear"), record("b", text="pear")])

        with pytest.raises(errors.ConfigurationError, match="keyword=False"):
            await plain.retrieve("plain", RetrieveRequest(texts=["pear"]))
        with pytest.raises(errors.ConfigurationError, match="'plain' was created with keyword=False"):
            await full.retrieve("plain", RetrieveRequest(texts=["pear"]))
        assert len(await full.search("plain", EAST, 10)) == 5


async def test_a_knowledge_base_without_keyword_search_is_semantic(alone: Server) -> None:
    """Its default mode follows the store."""
    async with QdrantStore(url=alone.url, keyword=False) as store:
        knowledge = KnowledgeBase("docs", "Fruit.", HashEmbedding(), store, "semantic")
        await knowledge.insert_document([record(text="pears are fruit").chunk], "a")

        (found,) = await knowledge.search("fruit")

    assert found.signals.semantic is not None
    assert found.signals.keyword is None


# --- requests ---


async def test_a_search_takes_two_rounds_and_a_hybrid_one_three(alone: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the statistics are known: hits with their texts, then heads; or hits, then heads, then texts."""
    requests: list[str] = []
    hybrid = RetrieveRequest(vectors=[EAST], texts=["pear"], limit=5, candidates=20, rank=_union)
    async with QdrantStore(url=alone.url) as store:
        await store.create_collection("few", 4)
        await store.insert("few", [record(f"d{n}", text="pear" + " fruit" * n, vector=_turned(n)) for n in range(60)])
        await asyncio.sleep(10.5)  # what is younger is asked for twice
        await store.retrieve("few", hybrid)
        for method in ("query_batch_points", "retrieve", "facet", "count", "scroll"):
            _watch(monkeypatch, method, requests)
        seen = []
        for request in (RetrieveRequest(vectors=[EAST]), RetrieveRequest(texts=["pear"]), hybrid):
            requests.clear()
            await store.retrieve("few", request)
            seen.append(sorted(requests))

    plain = ["query_batch_points", "retrieve"]
    assert seen == [plain, plain, [*plain, "retrieve"]]


def _turned(number: int) -> list[float]:
    return [1.0, number / 10, 0.0, 0.0]


def _union(semantic: list[list[Scored]], keyword: list[list[Scored]], _: object) -> list[Scored]:
    return [Scored(key, 1.0) for key in sorted({hit.key for ranking in (*semantic, *keyword) for hit in ranking})]


def _watch(monkeypatch: pytest.MonkeyPatch, method: str, rounds: list[str]) -> None:
    original = getattr(AsyncQdrantClient, method)

    async def watched(self: AsyncQdrantClient, *arguments: Any, **named: Any) -> Any:
        rounds.append(method)
        return await original(self, *arguments, **named)

    monkeypatch.setattr(AsyncQdrantClient, method, watched)
