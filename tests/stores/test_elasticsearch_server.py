"""ElasticsearchStore on real servers: one and three shards, three nodes, and without expensive queries."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from elasticsearch._async.client.indices import IndicesClient

from agent_rag import errors
from agent_rag.filters import F
from agent_rag.stores.elasticsearch import ElasticsearchStore
from agent_rag.stores.elasticsearch.server import ElasticsearchServer
from agent_rag.stores.native import NativeStoreBase
from agent_rag.testing import StoreContract
from agent_rag.testing.records import document, record
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.keyword import StoreKeyword
from agent_rag.testing.store_contract.replace import StoreReplace

from .exchanging import assert_the_model_is_exchanged
from .servers import Server, elasticsearch

EAST = [1.0, 0.0, 0.0, 0.0]
SHARDS = {"number_of_shards": 3, "number_of_replicas": 0}


@pytest.fixture(scope="module")
def alone() -> Iterator[Server]:
    with elasticsearch() as servers:
        yield servers[0]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Server]]:
    with elasticsearch(nodes=3) as servers:
        yield servers


class ElasticsearchContract(StoreContract):
    """The whole contract."""

    can_exchange = True
    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def unavailable(self) -> NativeStoreBase:
        return ElasticsearchStore("http://127.0.0.1:9", timeout_s=2)


class TestAlone(ElasticsearchContract):
    """One server, one shard."""

    @pytest.fixture
    def make_store(self, alone: Server) -> MakeStore:
        return lambda: ElasticsearchStore(alone.url)


class TestThreeShards(ElasticsearchContract):
    """One server, three shards, without the queries that an operator may forbid."""

    @pytest.fixture
    def make_store(self, alone: Server) -> Iterator[MakeStore]:
        ask(alone, "PUT", "/_cluster/settings", {"persistent": {"search.allow_expensive_queries": False}})
        yield lambda: ElasticsearchStore(alone.url, index_settings=SHARDS)
        ask(alone, "PUT", "/_cluster/settings", {"persistent": {"search.allow_expensive_queries": None}})


class TestNodes(StoreCore, StoreReplace, StoreKeyword):
    """Three nodes, three shards, two copies of each; every store speaks to another node than the one before."""

    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self, nodes: list[Server]) -> MakeStore:
        made: list[Server] = []

        def make() -> ElasticsearchStore:
            made.append(nodes[len(made) % len(nodes)])
            return ElasticsearchStore(made[-1].url, index_settings={"number_of_shards": 3, "number_of_replicas": 1})

        return make


def ask(server: Server, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """One request of our own."""
    request = urllib.request.Request(
        f"{server.url}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


# --- options ---


def test_the_seeds_constructor_works() -> None:
    """One address, without a keyword."""
    assert repr(ElasticsearchStore(hosts="http://localhost:9200")) == "ElasticsearchStore('http://localhost:9200')"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_candidates": 0}, "num_candidates is 0"),
        ({"num_candidates": 10_001}, "1 to 10,000"),
        ({"refresh": "now"}, "True or False"),
        ({"index_prefix": "RAG-"}, "lower case"),
        ({"index_prefix": "_rag"}, "do not begin"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    """A ValueError whose message names the option and what is allowed."""
    with pytest.raises(ValueError, match=message):
        ElasticsearchStore("http://localhost:9200", **options)


def test_secrets_are_not_shown() -> None:
    """Neither a password in the address nor the key."""
    shown = repr(ElasticsearchStore("https://elastic:secret@localhost:9200", api_key="key-secret"))

    assert "secret" not in shown


@pytest.mark.parametrize("name", ["A", "a", "a b", "ключ", "x" * 300, "..", "a,b", "a*", "#"])
async def test_any_collection_name_works(alone: Server, name: str) -> None:
    """Names that no index can have are encoded, and come back as they were."""
    async with ElasticsearchStore(alone.url, index_prefix="names-") as store:
        await store.create_collection(name, 4)
        await store.insert(name, [record("a")])

        assert name in await store.list_collections()
        assert await store.count(name) == 1


@pytest.mark.parametrize("name", ["Handbook 2", "x" * 200])
async def test_another_model_takes_over_the_name(alone: Server, name: str) -> None:
    """`reindex_model` switches at once, also where the name of an index is not that of its collection."""
    async with ElasticsearchStore(alone.url, index_prefix=f"p{uuid.uuid4().hex[:8]}-") as store:
        await assert_the_model_is_exchanged(store, name)


@pytest.mark.parametrize("requests", range(1, 6))
async def test_an_exchange_that_died_changes_nothing(
    alone: Server, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    """Before its second request, or a later one: names, sizes and documents are as they were, and the next exchange
    goes through."""
    prefix = f"p{uuid.uuid4().hex[:8]}-"
    left = requests

    def counted(original: Any) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise RuntimeError("died")
            return await original(*arguments, **options)

        return call

    async with ElasticsearchStore(alone.url, index_prefix=prefix) as store:
        for name, size in (("a", 2), ("b", 4)):
            await store.open_collection(name, size)
            await store.insert(name, [record(name, vector=[1.0] * size)])
        with monkeypatch.context() as patch:
            for method in ("put_mapping", "update_aliases"):
                patch.setattr(IndicesClient, method, counted(getattr(IndicesClient, method)))
            patch.setattr(ElasticsearchServer, "_write_over", counted(ElasticsearchServer._write_over))
            with pytest.raises(RuntimeError):
                await store.exchange_collections("a", "b")

        async with ElasticsearchStore(alone.url, index_prefix=prefix) as other:
            assert await other.list_collections() == ["a", "b"]
            infos = [await other.collection_info(name) for name in ("a", "b")]
            assert [(info.name, info.dimensions) for info in infos if info] == [("a", 2), ("b", 4)]
            for name in ("a", "b"):
                assert [one.document_id for one in await other.list_documents(name)] == [name]
        await store.exchange_collections("a", "b")

        assert [one.document_id for one in await store.list_documents("a")] == ["b"]


async def test_metadata_keys_do_not_grow_the_mapping(alone: Server) -> None:
    """Thousands of different keys use the same fields, and each can be filtered by."""
    keys = [{f"key {n}.{m}": n for m in range(100)} for n in range(30)]
    async with ElasticsearchStore(alone.url) as store:
        await store.create_collection("keys", 4)
        before = ask(alone, "GET", "/agent_rag-keys/_mapping")

        await store.insert("keys", [record(str(n), metadata=metadata) for n, metadata in enumerate(keys)])

        assert ask(alone, "GET", "/agent_rag-keys/_mapping") == before
        assert [hit.document_id for hit in await store.search("keys", EAST, 10, F("key 7.99") >= 7)] == ["7"]


async def test_a_client_that_is_newer_than_its_server_is_refused_in_words(
    alone: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own words name a media type; ours name what to install."""
    module = pytest.importorskip("elasticsearch", reason="pip install 'agent-rag-middleware[elasticsearch]'")
    meta = type("Meta", (), {"status": 400})()

    async def refused(*_: object, **__: object) -> None:
        raise module.BadRequestError("media_type_header_exception", meta, {})

    monkeypatch.setattr(module.AsyncElasticsearch, "info", refused)

    with pytest.raises(errors.ConfigurationError, match=r"newer than the server .* pip install 'elasticsearch<"):
        async with ElasticsearchStore(alone.url):
            pass


# --- what the server refuses ---


async def test_vectors_of_any_length_are_found(alone: Server) -> None:
    """The server itself refuses those whose length it cannot compute."""
    vectors = {"tiny": [1e-30, 0.0, 0.0, 0.0], "huge": [3e38, 3e38, 0.0, 0.0], "zero": [0.0] * 4}
    async with ElasticsearchStore(alone.url) as store:
        await store.create_collection("lengths", 4)
        await store.insert("lengths", [record(name, vector=vector) for name, vector in vectors.items()])

        hits = await store.search("lengths", [1e-30, 0.0, 0.0, 0.0])

    assert [hit.document_id for hit in hits] == ["tiny", "huge", "zero"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 2**-0.5, 0.0], abs=1e-6)


async def test_long_ids_and_many_values_are_taken(alone: Server) -> None:
    """An id above 32,766 bytes, and more values than one terms query has."""
    name = "x" * 40_000
    async with ElasticsearchStore(alone.url) as store:
        await store.create_collection("long", 4)
        await store.insert("long", [record(name, metadata={"n": 7}), record("b", metadata={"n": 70_000})])

        listed = await store.list_chunks("long", name)
        found = await store.search("long", EAST, 5, F("n").in_(list(range(70_000))))

    assert [item.document_id for item in listed] == [name]
    assert [hit.document_id for hit in found] == [name]


async def test_more_hits_than_the_server_gives_are_refused_before(alone: Server) -> None:
    """10,000 is its limit."""
    async with ElasticsearchStore(alone.url) as store:
        await store.create_collection("limit", 4)

        with pytest.raises(errors.LimitExceededError, match="10,001 hits"):
            await store.search("limit", EAST, 10_001)


async def test_a_closed_index_is_unavailable_not_missing(alone: Server) -> None:
    """And works again when it is opened."""
    async with ElasticsearchStore(alone.url) as store:
        await store.create_collection("closed", 4)
        await store.insert("closed", [record("a")])
        ask(alone, "POST", "/agent_rag-closed/_close")

        for call in (store.count("closed"), store.has_collection("closed"), store.search("closed", EAST)):
            with pytest.raises(errors.StoreUnavailableError):
                await call

        ask(alone, "POST", "/agent_rag-closed/_open")
        ask(alone, "GET", "/_cluster/health/agent_rag-closed?wait_for_status=yellow")
        assert await store.count("closed") == 1


async def test_a_blocked_index_is_unavailable(alone: Server) -> None:
    """As one is when the disk is full."""
    async with ElasticsearchStore(alone.url) as store:
        await store.create_collection("blocked", 4)
        ask(alone, "PUT", "/agent_rag-blocked/_settings", {"index.blocks.write": True})

        with pytest.raises(errors.StoreUnavailableError):
            await store.insert("blocked", [record("a")])


async def test_an_index_of_another_program_is_named_and_left_alone(alone: Server) -> None:
    """It is neither listed nor taken over nor dropped."""
    name = f"theirs{uuid.uuid4().hex}"
    ask(alone, "PUT", f"/agent_rag-{name}", {})
    async with ElasticsearchStore(alone.url) as store:
        with pytest.raises(errors.CollectionNotFoundError, match="belongs to another program"):
            await store.create_collection(name, 4)
        await store.delete_collection(name)

        assert name not in await store.list_collections()
    assert f"agent_rag-{name}" in ask(alone, "GET", f"/agent_rag-{name}")


async def test_a_collection_whose_maker_died_is_completed_when_it_is_opened(
    alone: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the index and the document that says what it is; it keeps its own dimensions."""

    async def killed(*_: object) -> None:
        raise ZeroDivisionError

    async with ElasticsearchStore(alone.url) as store:
        with monkeypatch.context() as patch:
            patch.setattr(ElasticsearchServer, "complete", killed)
            with pytest.raises(ZeroDivisionError):
                await store.create_collection("half", 4)
        info = await store.open_collection("half", 8)

    assert info.dimensions == 4


# --- what a write costs ---


async def test_replacing_takes_two_refreshes(alone: Server) -> None:
    """The server counts them."""
    async with ElasticsearchStore(alone.url, index_settings={"refresh_interval": -1}) as store:
        await store.create_collection("refreshes", 4)
        await store.replace("refreshes", [document("a")], [record("a", n) for n in range(20)])
        before = _refreshes(alone)

        await store.replace("refreshes", [document("a")], [record("a", n) for n in range(20)])

        assert _refreshes(alone) - before <= 2
        assert await store.count("refreshes") == 20


def _refreshes(server: Server) -> int:
    found = ask(server, "GET", "/agent_rag-refreshes/_stats/refresh")
    return int(found["_all"]["primaries"]["refresh"]["external_total"])


async def test_what_compacting_removes_is_what_nobody_names(alone: Server) -> None:
    """Rows of a writer that died; what is stored stays."""
    async with ElasticsearchStore(alone.url) as store:
        await store.create_collection("left", 4)
        await store.replace("left", [document("a")], [record("a", text="pear")])
        (hit,) = ask(alone, "POST", "/agent_rag-left/_search", {"query": {"term": {"k": "chunk"}}})["hits"]["hits"]
        version = f"{hit['_source']['g'][:32]}{'0' * 16}"
        ask(alone, "PUT", f"/agent_rag-left/_doc/{version}:0?refresh=true", {**hit["_source"], "g": version, "v": EAST})
        seen = [await store.count("left"), len(await store.search("left", EAST, 5))]

        removed = await store.compact("left")

        assert (seen, removed) == ([1, 1], 1)
