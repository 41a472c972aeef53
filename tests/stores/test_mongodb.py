"""MongoDBStore passes the contract on the stand-in, or on the server of AGENT_RAG_MONGODB_URL."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_rag.errors import CollectionNotFoundError, ConfigurationError, RecordError, StoreError, StoreUnavailableError
from agent_rag.filters import F
from agent_rag.stores.base import RetrieveRequest, VectorStoreBase
from agent_rag.testing import StoreContract, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.replace import StoreReplace
from tests.shared import needs_shared, retrieval_set
from tests.stores.bm25s_agreement import agreement
from tests.stores.races import assert_one_version_is_seen

pytest.importorskip("pymongo", reason="pip install 'agent-rag-middleware[mongodb]' to run this")

import pymongo

from agent_rag.stores.mongodb import MongoDBStore
from tests.standins.mongodb_server import MongoDBServer, MongoError

# pymongo leaves the socket of a monitor open that is cancelled while it connects.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)

SERVER = os.environ.get("AGENT_RAG_MONGODB_URL")
EAST, NORTH = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
_SERVE = """
import sys
from tests.standins.mongodb_server import MongoDBServer
with MongoDBServer(index_build_s=0.02, search_delay_s=0.01, **eval(sys.argv[1])) as uri:
    print(uri, flush=True)
    sys.stdin.read()
"""


@contextmanager
def served(**options: Any) -> Iterator[str]:
    """The real server's URI where there is one; else that of a stand-in in another process, as a server would be."""
    if SERVER:
        yield SERVER
        return
    root = Path(__file__).resolve().parents[2]
    arguments = [sys.executable, "-c", _SERVE, repr(options)]
    with subprocess.Popen(arguments, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served() as uri:
        yield uri


@pytest.fixture(scope="module")
def slow_server() -> Iterator[str]:
    """Refuses to search an index that is being built, and shows a transaction to search one document after another."""
    with served(building="error", search_spread_s=0.001) as uri:
        yield uri


class TestMongoDB(StoreContract):
    """On the stand-in, or with `AGENT_RAG_MONGODB_URL=mongodb://...` on a real server."""

    persistent = True
    shared = True
    has_unavailable = True
    # A write waits for the search indexes: 5 s for each seed.
    congruence_seeds = (1,) if "AGENT_RAG_SOAK" not in os.environ else (1, 2, 3)

    @pytest.fixture
    def make_store(self, server: str) -> MakeStore:
        return lambda: MongoDBStore(uri=server, database="agent_rag_test")

    @pytest.fixture
    def unavailable(self) -> VectorStoreBase:
        return MongoDBStore(uri="mongodb://root:secret@127.0.0.1:9", timeout_s=1)

    async def test_readers_see_one_version_beside_two_writers(self, make_store: MakeStore, collection: str) -> None:
        """Three stores at once: no search and no list mixes versions, finds a part of one, or none."""
        reads = await assert_one_version_is_seen(make_store, collection, replaces=self.race_trials)

        assert reads > 10


class TestMongoDBSlowSearch(StoreCore, StoreReplace):
    """Where search sees one document of a write after the other."""

    persistent = True
    shared = True
    race_trials = 10

    @pytest.fixture
    def make_store(self, slow_server: str) -> MakeStore:
        return lambda: MongoDBStore(uri=slow_server, database="agent_rag_test")

    async def test_readers_see_one_version_beside_two_writers(self, make_store: MakeStore, collection: str) -> None:
        """As above."""
        reads = await assert_one_version_is_seen(make_store, collection, replaces=self.race_trials)

        assert reads > 10


@pytest.fixture
def standin() -> Iterator[MongoDBServer]:
    """A stand-in of the test's own, in this process, to be failed and looked into."""
    with_server = MongoDBServer(index_build_s=0.02, search_delay_s=0.02)
    with with_server:
        yield with_server


@pytest.fixture
async def store(standin: MongoDBServer) -> AsyncIterator[MongoDBStore]:
    async with MongoDBStore(standin.uri, "rag") as store:
        await store.create_collection("c", 4)
        yield store


def documents_of(standin: MongoDBServer, collection: str = "c") -> Mapping[Any, Any]:
    return standin.storage.collections[("rag", collection)].docs


# --- options and errors ---


def test_the_seeds_constructor_works() -> None:
    """With an address of Atlas, which is not asked for before the store is entered."""
    store = MongoDBStore(
        uri="mongodb+srv://user:pass@cluster.mongodb.net",
        database="agentscope_rag",
        filter_fields=["chunk.metadata.tenant_id"],
    )

    assert repr(store) == "MongoDBStore('cluster.mongodb.net', database='agentscope_rag')"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distance": "l2"}, "cosine, euclidean, dotProduct"),
        ({"num_candidates": 10_001}, "1 to 10,000"),
        ({"index_timeout_s": 0}, "index_timeout_s"),
        ({"filter_fields": "chunk.metadata.tenant_id"}, "list of dotted paths"),
        ({"text_index_name": "vector_index"}, "two indexes"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    """A ValueError whose message names the option and what is allowed."""
    with pytest.raises(ValueError, match=message):
        MongoDBStore("mongodb://localhost", **options)


async def test_secrets_are_not_shown() -> None:
    """Neither in the repr nor in an error, also where the address makes no sense."""
    store = MongoDBStore("mongodb://root:very-secret@127.0.0.1:9/?appName=x", timeout_s=0.2)
    with pytest.raises(StoreUnavailableError) as caught:
        async with store:
            await store.list_collections()
    with pytest.raises(ConfigurationError) as refused:
        async with MongoDBStore("mongodb://root:very-secret@[bad"):
            pass

    for shown in (repr(store), repr(vars(store)), str(caught.value), str(refused.value)):
        assert "very-secret" not in shown


async def test_a_server_that_hangs_is_unavailable(standin: MongoDBServer, store: MongoDBStore) -> None:
    """After the time limit, with the address; and `ping` says so without raising."""
    async with MongoDBStore(standin.uri, "rag", timeout_s=0.3) as impatient:
        await impatient.has_collection("c")
        standin.hang = True
        try:
            with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1.*does not answer"):
                await impatient.search("c", EAST)
            health = await impatient.ping()
        finally:
            standin.hang = False

    assert not health.ok


@pytest.mark.parametrize(
    ("code", "command", "message"),
    [(31082, "createSearchIndexes", "no MongoDB Search")],
)
async def test_a_server_without_search_is_named(
    standin: MongoDBServer, store: MongoDBStore, code: int, command: str, message: str
) -> None:
    """A ConfigurationError that says what to run."""
    standin.fail_next(1, MongoError(code, "Refused", "not here"), commands=[command])

    with pytest.raises(ConfigurationError, match=message):
        await store.create_collection("other", 4)


async def test_a_record_above_16_megabytes_is_refused(store: MongoDBStore) -> None:
    """RecordError with the limit; nothing is left."""
    with pytest.raises(RecordError, match="16 MB"):
        await store.insert("c", [record(text="x" * 17_000_000)])

    assert await store.count("c") == 0


@pytest.mark.parametrize("name", ["A", "a b", "ключ", "x" * 300, "system.x", "$", ".", "a.b-c"])
async def test_any_collection_name_works(store: MongoDBStore, name: str) -> None:
    """Names that MongoDB does not take are encoded, and come back as they were."""
    await store.create_collection(name, 4)
    await store.insert(name, [record("a")])

    assert await store.list_collections() == sorted(["c", name])
    assert [await store.count(name), await store.count("c")] == [1, 0]


async def test_collections_of_others_are_not_ours(standin: MongoDBServer, store: MongoDBStore) -> None:
    """A collection that this package did not make does not exist for it, is not touched, and not taken over."""
    client: Any = pymongo.AsyncMongoClient(standin.uri)
    await client["rag"]["theirs"].insert_one({"x": 1})
    await client.close()

    await store.delete_collection("theirs")
    with pytest.raises(CollectionNotFoundError, match=r"'theirs'.*another program"):
        await store.create_collection("theirs", 4)

    assert await store.list_collections() == ["c"]
    assert len(documents_of(standin, "theirs")) == 1


async def test_too_many_dimensions_are_refused(store: MongoDBStore) -> None:
    """With the limit, and nothing is made."""
    with pytest.raises(ConfigurationError, match="8,192"):
        await store.create_collection("wide", 8_193)

    assert await store.list_collections() == ["c"]


@pytest.mark.parametrize(("distance", "scores"), [("euclidean", [0.0, -(5**0.5)]), ("dotProduct", [1.0, 0.0])])
async def test_other_distances_have_their_own_scores(
    standin: MongoDBServer, distance: Any, scores: list[float]
) -> None:
    """Negated distances, and dot products, whatever the index makes of them; (1, 0) to (0, 2) is sqrt(5)."""
    async with MongoDBStore(standin.uri, "rag", distance=distance) as store:
        await store.create_collection("d", 4)
        await store.insert("d", [record("far", vector=[0.0, 2.0, 0.0, 0.0]), record("near", vector=EAST)])

        hits = await store.search("d", EAST)

    assert [hit.document_id for hit in hits] == ["near", "far"]
    assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-6)


# --- search indexes ---


@pytest.mark.parametrize("building", ["empty", "error"])
async def test_a_new_collection_answers_at_once(building: Any) -> None:
    """Creating waits until the indexes can be asked, and the filter comes before top_k (case S21)."""
    with MongoDBServer(index_build_s=0.4, building=building) as uri:
        async with MongoDBStore(uri, "rag", filter_fields=["chunk.metadata.user"]) as store:
            await store.create_collection("c", 4)
            await store.insert("c", [record(f"a{n}", metadata={"user": "a"}) for n in range(100)])
            await store.insert("c", [record(f"b{n}", vector=NORTH, metadata={"user": "b"}) for n in range(5)])

            hits = await store.search("c", EAST, 5, {"user": "b"})
            undeclared = await store.search("c", EAST, 5, F("other").exists(False) & (F("user") != "a"))

    assert [hit.document_id for hit in hits] == [f"b{n}" for n in range(5)]
    assert [hit.document_id for hit in undeclared] == [f"b{n}" for n in range(5)]


async def test_an_index_that_takes_too_long_is_unavailable() -> None:
    """Creating raises after `index_timeout_s`, which the message names; the collection does not exist until then."""
    with MongoDBServer(index_build_s=1.0) as uri:
        async with MongoDBStore(uri, "rag", index_timeout_s=0.1) as store:
            with pytest.raises(StoreUnavailableError, match=r"PENDING after index_timeout_s=0\.1"):
                await store.create_collection("c", 4)

            assert not await store.has_collection("c")
            await asyncio.sleep(1.0)
            await store.create_collection("c", 4)
            assert await store.has_collection("c")


async def test_a_collection_that_was_made_in_part_can_be_made_otherwise() -> None:
    """After a creation that failed, another number of dimensions works."""
    with MongoDBServer(index_build_s=0.3) as uri:
        async with MongoDBStore(uri, "rag", index_timeout_s=0.05) as store:
            with pytest.raises(StoreUnavailableError):
                await store.create_collection("c", 4)
        async with MongoDBStore(uri, "rag") as store:
            await store.create_collection("c", 2)
            await store.insert("c", [record(vector=[1.0, 0.0])])

            assert len(await store.search("c", [1.0, 0.0])) == 1


async def test_a_write_that_search_never_finds_changes_nothing(standin: MongoDBServer, store: MongoDBStore) -> None:
    """StoreUnavailableError after `index_timeout_s`; the old version stays, and nothing of the new one."""
    await store.replace("c", [document()], [record(text="old")])
    left = len(documents_of(standin))
    standin.storage.search_delay_s = 60.0

    async with MongoDBStore(standin.uri, "rag", index_timeout_s=0.2) as impatient:
        with pytest.raises(StoreUnavailableError, match="nothing was changed"):
            await impatient.replace("c", [document()], [record(text="new")])
        hits = await impatient.search("c", EAST)

    assert [hit.chunk.text for hit in hits] == ["old"]
    assert len(documents_of(standin)) == left


async def test_searching_does_not_ask_for_the_state_of_indexes(standin: MongoDBServer, store: MongoDBStore) -> None:
    """Neither by a command nor by a stage."""
    await store.insert("c", [record(str(n)) for n in range(10)])
    standin.requests.clear()

    await store.search("c", EAST, 3)
    await store.retrieve("c", RetrieveRequest(texts=["text"]))

    assert "listSearchIndexes" not in repr([request.body for request in standin.requests])


async def test_deleted_chunks_do_not_take_places_while_search_lags(standin: MongoDBServer, store: MongoDBStore) -> None:
    """The index still has 50 nearer vectors whose documents are gone: the next ones are found all the same."""
    await store.insert("c", [record(f"near{n}") for n in range(50)])
    await store.insert("c", [record(f"far{n}", vector=NORTH) for n in range(5)])
    standin.storage.search_delay_s = 60.0

    await store.delete_documents("c", [f"near{n}" for n in range(50)])

    found = [
        await store.search("c", EAST, 3),
        await store.retrieve("c", RetrieveRequest(texts=["text"], limit=3)),
    ]
    assert [[hit.document_id for hit in hits] for hits in found] == [["far0", "far1", "far2"]] * 2


async def test_what_was_written_is_found_however_slow_search_is() -> None:
    """A write returns when search has it; so the next search has the new version, and its keywords too."""
    with MongoDBServer(index_build_s=0.02, search_delay_s=0.4, search_spread_s=0.02) as uri:
        async with MongoDBStore(uri, "rag") as store, MongoDBStore(uri, "rag") as other:
            await store.create_collection("c", 4)
            for number in range(2):
                await store.replace("c", [document()], [record("doc", n, f"pear v{number}") for n in range(4)])

                hits = await other.search("c", EAST, 10)
                words = await other.retrieve("c", RetrieveRequest(texts=[f"v{number}"], limit=10))

                assert [hit.chunk.text for hit in hits] == [f"pear v{number}"] * 4
                assert len(words) == 4


# --- versions ---


@pytest.mark.parametrize("command", ["insert", "delete", "update", "aggregate"])
@pytest.mark.parametrize("failure", ["disconnect", "disconnect_after"])
async def test_a_lost_connection_leaves_one_version(
    standin: MongoDBServer, store: MongoDBStore, command: str, failure: Any
) -> None:
    """At any command of a replace; the write succeeds, or the old version stays."""
    await store.replace("c", [document()], [record("doc", n, "old") for n in range(3)])
    for number in range(4):
        standin.fail_next(1, failure, commands=[command])
        try:
            await store.replace("c", [document()], [record("doc", n, f"new {number}") for n in range(2)])
        except StoreError:
            pass
        standin._failures.clear()

        hits = await store.search("c", EAST, 10)
        assert len({hit.chunk.text for hit in hits}) == 1
        assert len(hits) == (3 if hits[0].chunk.text == "old" else 2)


# --- keyword ---


@pytest.mark.slow
@needs_shared
async def test_keyword_search_agrees_with_bm25s() -> None:
    """The same top 10 as bm25s (method "lucene", same tokens) on at least 99 % of the queries, also after deletions."""
    corpus, queries, _ = retrieval_set("scifact_train")
    texts = dict(list(corpus.items())[:250])
    asked = list(queries.values())[:40]
    gone = list(texts)[::7]
    with served() as uri:
        async with MongoDBStore(uri, "agent_rag_test") as store:
            name = f"c{uuid.uuid4().hex[:12]}"
            await store.create_collection(name, 0)
            await store.insert(name, [record(one, text=text, vector=()) for one, text in texts.items()])

            whole = await agreement(store, name, texts, asked)
            await store.delete_documents(name, gone)
            left = {one: text for one, text in texts.items() if one not in set(gone)}
            reduced = await agreement(store, name, left, asked)
            await store.delete_collection(name)

    assert min(whole, reduced) >= 0.99


async def test_iterating_goes_by_windows(store: MongoDBStore) -> None:
    """A large document with gaps in its indexes comes a window at a time, small ones together, all in order."""
    await store.insert("c", [record("large", n * 3) for n in range(450)])
    await store.insert("c", [record(f"s{n:03}") for n in range(150)])

    found = [item.key async for item in store.iterate("c", batch_size=100)]

    assert len(found) == 600
    assert found == sorted(found)
