"""TcVectorStore passes the contract on the stand-in, or on the instance of AGENT_RAG_TCVECTOR_URL."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_rag.documents import Chunk
from agent_rag.errors import ConfigurationError, LimitExceededError, StoreError, StoreUnavailableError
from agent_rag.filters import F, FilterLike
from agent_rag.knowledge import KnowledgeBase
from agent_rag.stores.base import CollectionInfo, RetrieveRequest, VectorStoreBase
from agent_rag.stores.versions import publisher
from agent_rag.testing import StoreContract, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.filters import random_filter
from tests.shared import needs_shared, retrieval_set
from tests.stores.bm25s_agreement import agreement
from tests.stores.races import assert_one_version_is_seen

pytest.importorskip("tcvectordb", reason="pip install 'agent-rag-middleware[tcvector]' to run this")

from agent_rag.stores.tcvector import TcVectorStore
from agent_rag.stores.tcvector.schema import expression, listed
from tests.standins.tcvectordb_server import TcVectorDBServer

SERVER = os.environ.get("AGENT_RAG_TCVECTOR_URL")
_SERVE = """
import sys
from tests.standins.tcvectordb_server import TcVectorDBServer
with TcVectorDBServer() as url:
    print(url, flush=True)
    sys.stdin.read()
"""


HEADS = "rag_rag_2e_c_heads"
EAST = [1.0, 0.0, 0.0, 0.0]


@contextmanager
def served() -> Iterator[str]:
    """The instance's URL where there is one; else that of a stand-in in another process, as an instance would be."""
    if SERVER:
        yield SERVER
        return
    root = Path(__file__).resolve().parents[2]
    arguments = [sys.executable, "-c", _SERVE]
    with subprocess.Popen(arguments, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served() as url:
        yield url


def a_store(url: str, **options: Any) -> TcVectorStore:
    key = os.environ.get("AGENT_RAG_TCVECTOR_API_KEY", "standin")
    return TcVectorStore(url, api_key=key, database="agent_rag_test", **options)


class TestTcVector(StoreContract):
    """On the stand-in, or with `AGENT_RAG_TCVECTOR_URL=http://...` on a real instance."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, server: str) -> MakeStore:
        return lambda: a_store(server)

    @pytest.fixture
    def unavailable(self) -> VectorStoreBase:
        return a_store("http://127.0.0.1:9", timeout_s=2)

    async def test_readers_see_one_version_beside_two_writers(self, make_store: MakeStore, collection: str) -> None:
        """Three stores at once: no search and no list mixes versions, finds a part of one, or none."""
        reads = await assert_one_version_is_seen(make_store, collection, replaces=self.race_trials)

        assert reads > 10


@pytest.fixture
def standin() -> Iterator[TcVectorDBServer]:
    """A stand-in of the test's own, in this process, to be failed and looked into."""
    server = TcVectorDBServer()
    with server:
        yield server


@pytest.fixture
async def store(standin: TcVectorDBServer) -> AsyncIterator[TcVectorStore]:
    async with TcVectorStore(standin.url, api_key="standin", database="rag") as store:
        await store.create_collection("c", 4)
        yield store


def rows_of(standin: TcVectorDBServer, kind: str) -> int:
    """Rows of the chunks or heads of "c"."""
    return len(standin.databases["rag"][f"rag_rag_2e_c_{kind}"].docs)


# --- options and errors ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distance": "cosine"}, "COSINE, IP, L2"),
        ({"index_type": "IVF"}, "HNSW, FLAT"),
        ({"ef": 0}, "1 to 32,768"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    """A ValueError whose message names the option and what is allowed."""
    with pytest.raises(ValueError, match=message):
        TcVectorStore("http://localhost", api_key="k", **options)


async def test_a_store_without_a_key_says_so() -> None:
    """When it is entered."""
    with pytest.raises(ConfigurationError, match="api_key"):
        async with TcVectorStore("http://localhost"):
            pass


async def test_secrets_are_not_shown(standin: TcVectorDBServer) -> None:
    """Neither in the repr nor in an error of a server that refuses the key or is gone."""
    store = TcVectorStore(standin.url, api_key="very-secret")
    async with store:
        with pytest.raises(StoreError, match="Unauthorized") as refused:
            await store.has_collection("c")
        standin.stop()
        with pytest.raises(StoreUnavailableError) as gone:
            await store.has_collection("c")

    for shown in (repr(store), repr(vars(store)), str(refused.value), str(gone.value)):
        assert "very-secret" not in shown


async def test_a_server_that_hangs_is_unavailable(standin: TcVectorDBServer, store: TcVectorStore) -> None:
    """After the time limit, which the message names; and `ping` says so without raising."""
    async with TcVectorStore(standin.url, api_key="standin", database="rag", timeout_s=0.3) as impatient:
        standin.hang = True
        try:
            with pytest.raises(StoreUnavailableError, match=r"timeout_s=0\.3"):
                await impatient.search("c", EAST)
            health = await impatient.ping()
        finally:
            standin.hang = False

    assert not health.ok


@pytest.mark.parametrize("name", ["A", "a b", "ключ", "x" * 300, ".", "a-b", "1"])
async def test_any_collection_name_works(store: TcVectorStore, name: str) -> None:
    """Names that the database does not take are encoded, and come back as they were."""
    await store.create_collection(name, 4)
    await store.insert(name, [record("a")])

    assert await store.list_collections() == sorted(["c", name])
    assert [await store.count(name), await store.count("c")] == [1, 0]


async def test_two_databases_may_have_the_same_collection(standin: TcVectorDBServer, store: TcVectorStore) -> None:
    """Though names of collections are unique in an instance."""
    async with TcVectorStore(standin.url, api_key="standin", database="other") as other:
        assert await other.list_collections() == []
        await other.create_collection("c", 2)
        await other.insert("c", [record(vector=[1.0, 0.0])])

        assert [await other.count("c"), await store.count("c")] == [1, 0]
        await other.delete_collection("c")
    assert await store.list_collections() == ["c"]


@pytest.mark.parametrize(("distance", "scores"), [("L2", [0.0, -(5**0.5)]), ("IP", [1.0, 0.0])])
async def test_other_distances_have_their_own_scores(
    standin: TcVectorDBServer, distance: Any, scores: list[float]
) -> None:
    """Negated distances, and dot products; (1, 0) to (0, 2) is sqrt(5)."""
    async with TcVectorStore(standin.url, api_key="standin", distance=distance, index_type="FLAT") as store:
        await store.create_collection("d", 4)
        await store.insert("d", [record("far", vector=[0.0, 2.0, 0.0, 0.0]), record("near", vector=EAST)])

        hits = await store.search("d", EAST)

    assert [hit.document_id for hit in hits] == ["near", "far"]
    assert [hit.score for hit in hits] == pytest.approx(scores, abs=1e-6)


async def test_too_many_dimensions_are_refused(store: TcVectorStore) -> None:
    """With the limit, and nothing is made."""
    with pytest.raises(ConfigurationError, match="4,096"):
        await store.create_collection("wide", 4_097)

    assert await store.list_collections() == ["c"]


async def test_more_hits_than_the_database_gives_are_refused(store: TcVectorStore) -> None:
    """Above 16,384, with the limit and what to do."""
    assert await store.search("c", EAST, 16_384) == []
    with pytest.raises(LimitExceededError, match="16,384"):
        await store.search("c", EAST, 16_385)


# --- expressions ---


@given(value=st.text())
def test_only_hashes_can_be_written(value: str) -> None:
    """Whatever else would stand between quotes is refused."""
    if re.fullmatch("[0-9a-z:-]{1,128}", value):
        assert listed([value]) == f'("{value}")'
    else:
        with pytest.raises(ValueError, match="cannot stand"):
            listed([value])


@given(
    seed=st.integers(),
    field=st.text(min_size=1),
    value=st.one_of(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
)
def test_nothing_of_a_caller_stands_in_an_expression(seed: int, field: str, value: str | float) -> None:
    """Names of this package, hashes and words of the language only, whatever is filtered by."""
    where: FilterLike = random_filter(random.Random(seed)) & (F(field) == value)

    written = expression(where) or ""

    condition = r'x (?:include|exclude) \("[0-9a-f]{16}"(?:,"[0-9a-f]{16}")*\)'
    assert re.fullmatch(rf"(?:{condition}|[() ]|and|or)*", written)


async def test_a_filter_that_is_too_long_is_refused(store: TcVectorStore) -> None:
    """With the limit, before anything is asked."""
    with pytest.raises(LimitExceededError, match="65,536"):
        await store.search("c", EAST, 5, F("n").in_(range(5_000)))


# --- versions ---


@pytest.mark.parametrize("path", ["upsert", "query", "update", "delete"])
@pytest.mark.parametrize("failure", ["disconnect", "disconnect_after"])
async def test_a_lost_connection_leaves_one_version(
    standin: TcVectorDBServer, store: TcVectorStore, monkeypatch: pytest.MonkeyPatch, path: str, failure: Any
) -> None:
    """At any request of a replace; the write succeeds, or the old version stays."""
    for lost in range(4):
        await store.replace("c", [document()], [record("doc", n, "old") for n in range(3)])
        requests: list[str] = []

        def fail(asked: str, requests: list[str] = requests, lost: int = lost) -> Any:
            requests.append(asked)
            return failure if asked == f"/document/{path}" and requests.count(asked) == lost + 1 else None

        with monkeypatch.context() as patch, suppress(StoreError):
            patch.setattr(standin, "failure_for", fail)
            await store.replace("c", [document()], [record("doc", n, "new") for n in range(2)])

        hits = await store.search("c", EAST, 10)
        assert [hit.chunk.text for hit in hits] in (["old"] * 3, ["new"] * 2)


async def test_two_writers_of_a_new_document_leave_one(
    standin: TcVectorDBServer, store: TcVectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has no conditional insert: the later one stays whole, and `compact` removes the other's chunks."""
    async with TcVectorStore(standin.url, api_key="standin", database="rag") as other:
        for number in range(10):
            await asyncio.gather(
                store.replace("c", [document(f"d{number}")], [record(f"d{number}", n, "pear a") for n in range(3)]),
                other.replace("c", [document(f"d{number}")], [record(f"d{number}", n, "pear b") for n in range(2)]),
            )
    counted = await store.count("c")
    monkeypatch.setattr(publisher, "LEFTOVER_S", -10.0)  # an hour later
    await store.compact("c")

    listed_documents = await store.list_documents("c")
    for summary in listed_documents:
        texts = {item.chunk.text for item in await store.list_chunks("c", summary.document_id)}
        assert (texts, summary.chunk_count) in (({"pear a"}, 3), ({"pear b"}, 2))
    chunks = sum(summary.chunk_count for summary in listed_documents)
    assert len(listed_documents) == 10
    assert (counted, rows_of(standin, "chunks")) == (chunks, chunks)
    assert len(await store.retrieve("c", RetrieveRequest(texts=["pear"], limit=100))) == chunks


async def test_deleted_documents_leave_nothing(
    standin: TcVectorDBServer, store: TcVectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their chunks go at once, what says that they were deleted with the first `compact` after an hour."""
    await store.insert("c", [record("a"), record("b"), record("kept")])
    await store.delete_documents("c", ["a", "b"])
    left = [rows_of(standin, "chunks"), rows_of(standin, "heads")]
    monkeypatch.setattr(publisher, "LEFTOVER_S", -10.0)
    await store.compact("c")

    assert left == [1, 1 + 3]  # one head says what the collection is
    assert [rows_of(standin, "chunks"), rows_of(standin, "heads")] == [1, 1 + 1]


async def test_a_search_costs_two_requests(standin: TcVectorDBServer, store: TcVectorStore) -> None:
    """Hits with their texts, then their heads; by words too, once it is known how many chunks have them."""
    await store.insert("c", [record(f"d{n}", m, f"w{m}", total=3) for n in range(5) for m in range(3)])
    for row in standin.databases["rag"][HEADS].docs.values():
        row["at"] = 0  # published long ago
    await store.retrieve("c", RetrieveRequest(texts=["w1"]))
    standin.requests.clear()

    await store.search("c", EAST, 5)
    await store.retrieve("c", RetrieveRequest(texts=["w1"]))

    paths = [request.path.rpartition("/")[2] for request in standin.requests]
    assert paths == ["search", "query", "fullTextSearch", "query"]


async def test_a_collection_of_an_earlier_release_is_refused(standin: TcVectorDBServer, store: TcVectorStore) -> None:
    """By its layout, whatever is asked of it, and nothing in it changes; it can be deleted."""
    docs = standin.databases["rag"][HEADS].docs
    docs["info"]["info"] = CollectionInfo(name="c", dimensions=4).model_dump_json()
    before = dict(docs["info"])

    async with TcVectorStore(standin.url, api_key="standin", database="rag") as other:
        for refused in (other.insert("c", [record()]), other.count("c"), other.create_collection("c", 4)):
            with pytest.raises(StoreError, match="written by another release"):
                await refused
        assert (await other.list_collections(), dict(docs["info"])) == (["c"], before)
        await other.delete_collection("c")
        assert await other.list_collections() == []


@pytest.mark.parametrize(("zones", "replicas"), [(1, 0), (2, 1), (3, 2)])
async def test_new_collections_have_the_fewest_replicas(zones: int, replicas: int) -> None:
    """An instance in two zones takes none below 1, in three none below 2."""
    server = TcVectorDBServer(zones=zones)
    with server as url:
        async with TcVectorStore(url, api_key="standin", database="rag") as store:
            await store.create_collection("c", 4)
        with pytest.raises(StoreError, match="replicaNum"):
            async with TcVectorStore(url, api_key="standin", database="rag", replicas=9) as store:
                await store.create_collection("d", 4)

    assert {one.replicas for one in server.databases["rag"].values()} == {replicas}


# --- remote embedding ---


async def test_the_database_can_embed(standin: TcVectorDBServer) -> None:
    """With `embedding` and a KnowledgeBase without a model: texts are found by the database's own similarity."""
    async with TcVectorStore(standin.url, api_key="standin", embedding="bge-base-zh") as store:
        knowledge = KnowledgeBase("handbook", "How pets live", None, store, "handbook")
        texts = ["cats sleep at night", "dogs bark", "the sun rises"]
        for number, text in enumerate(texts):
            await knowledge.insert_document(
                [Chunk(content={"type": "text", "text": text}, source="a.txt", chunk_index=0, total_chunks=1)],
                document_id=f"d{number}",
            )

        hits = await knowledge.search("cats sleep at night", top_k=2)
        await knowledge.delete_document("d0")
        after = await knowledge.search("cats sleep at night", top_k=3)

    assert (hits[0].document_id, hits[0].chunk.text) == ("d0", texts[0])
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert "d0" not in {hit.document_id for hit in after}


async def test_remote_embedding_takes_no_vectors(standin: TcVectorDBServer) -> None:
    """A collection with dimensions of ours is refused, with both cures."""
    async with TcVectorStore(standin.url, api_key="standin", embedding="bge-base-zh") as store:
        with pytest.raises(ConfigurationError, match="embedding_model=None"):
            await store.create_collection("c", 4)


# --- keyword ---


@pytest.mark.slow
@needs_shared
async def test_keyword_search_agrees_with_bm25s() -> None:
    """The same top 10 as bm25s (method "lucene", same tokens) on at least 99 % of the queries, also after deletions."""
    corpus, queries, _ = retrieval_set("scifact_train")
    texts = dict(list(corpus.items())[:400])
    asked = list(queries.values())[:50]
    gone = list(texts)[::7]
    with served() as url:
        async with a_store(url) as store:
            name = f"c{uuid.uuid4().hex[:12]}"
            await store.create_collection(name, 0)
            await store.insert(name, [record(one, text=text, vector=()) for one, text in texts.items()])

            whole = await agreement(store, name, texts, asked)
            await store.delete_documents(name, gone)
            left = {one: text for one, text in texts.items() if one not in set(gone)}
            reduced = await agreement(store, name, left, asked)
            await store.delete_collection(name)

    assert min(whole, reduced) >= 0.99
