"""ElasticsearchStore passes the contract on the stand-in, or on the server of AGENT_RAG_ELASTICSEARCH_URL."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_rag.errors import ConfigurationError, LimitExceededError, StoreError, StoreUnavailableError
from agent_rag.filters import F
from agent_rag.stores.base import RetrieveRequest
from agent_rag.testing import StoreContract, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract import MakeStore
from tests.shared import ROOT, needs_shared, retrieval_set
from tests.standins.elasticsearch_server import ElasticsearchServer
from tests.stores.bm25s_agreement import agreement
from tests.stores.races import assert_one_version_is_seen

pytest.importorskip("elasticsearch", reason="pip install 'agent-rag-middleware[elasticsearch]' to run this")

from agent_rag.stores.elasticsearch import ElasticsearchStore
from agent_rag.stores.elasticsearch import writer as writer_module
from agent_rag.stores.elasticsearch.writer import Writer
from agent_rag.stores.engine.filter_tokens import sortable

SERVER = os.environ.get("AGENT_RAG_ELASTICSEARCH_URL")
# A client of version 9 does not talk to a server of version 8.
VERSION = "8.19.0" if version("elasticsearch").startswith("8.") else "9.2.0"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Address of a server: that of AGENT_RAG_ELASTICSEARCH_URL, or the stand-in."""
    if SERVER:
        yield SERVER
        return
    # In a process of its own, so that the event loop of the store does not wait for the stand-in's work.
    command = [sys.executable, "-c", _STANDIN, VERSION]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()  # it ends when its input does


_STANDIN = """
import sys
from tests.standins.elasticsearch_server import ElasticsearchServer

with ElasticsearchServer(version=sys.argv[1]) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


class TestElasticsearch(StoreContract):
    """On the stand-in, or on a real server."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, server: str) -> MakeStore:
        prefix = f"agent_rag_test_{uuid.uuid4().hex[:8]}-"
        return lambda: ElasticsearchStore(server, index_prefix=prefix, refresh=True)

    @pytest.fixture
    def unavailable(self) -> ElasticsearchStore:
        return ElasticsearchStore("http://elastic:secret@127.0.0.1:9", timeout_s=3)

    async def test_readers_see_one_version_beside_two_writers(self, make_store: MakeStore, collection: str) -> None:
        """Three stores at once: no search and no list mixes versions, finds a part of one, or none."""
        reads = await assert_one_version_is_seen(make_store, collection, replaces=self.race_trials)

        assert reads > 10


@pytest.fixture
def standin() -> Iterator[ElasticsearchServer]:
    with ElasticsearchServer(version=VERSION) as server:
        yield server


@pytest.fixture
async def store(standin: ElasticsearchServer) -> AsyncIterator[ElasticsearchStore]:
    async with ElasticsearchStore(standin.url, refresh=True) as store:
        await store.create_collection("c", 4)
        yield store


# --- options and errors ---


def test_the_seeds_constructor_works() -> None:
    """One address, without a keyword."""
    assert repr(ElasticsearchStore(hosts="http://localhost:9200")) == "ElasticsearchStore('http://localhost:9200')"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_candidates": 0}, "num_candidates is 0"),
        ({"num_candidates": 10_001}, "1 to 10,000"),
        ({"refresh": "now"}, "wait_for"),
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


async def test_a_server_that_hangs_is_unavailable(standin: ElasticsearchServer) -> None:
    """After the time limit, with the address and without waiting for more."""
    async with ElasticsearchStore(standin.url, timeout_s=0.3, client_kwargs={"max_retries": 0}) as store:
        await store.create_collection("c", 4)
        standin.hang = True
        try:
            with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1.*does not answer"):
                await store.search("c", [1.0, 0, 0, 0])
        finally:
            standin.hang = False


async def test_a_busy_server_is_unavailable(standin: ElasticsearchServer, store: ElasticsearchStore) -> None:
    """429 and 503 are answers of a server that cannot serve now; short failures are tried again by the client."""
    standin.fail_next(2, 503)
    await store.count("c")
    standin.fail_next(20, 503)

    with pytest.raises(StoreUnavailableError):
        await store.count("c")

    standin.fail_next(0, 503)


async def test_a_refused_request_says_why(store: ElasticsearchStore) -> None:
    """An index that the server does not make is a ConfigurationError with the server's reason."""
    with pytest.raises(ConfigurationError, match="4096"):
        await store.create_collection("wide", 5_000)

    assert not await store.has_collection("wide")


async def test_more_hits_than_the_server_gives_are_refused(store: ElasticsearchStore) -> None:
    """Above 10,000, with the limit and what to do."""
    with pytest.raises(LimitExceededError, match="10,000"):
        await store.search("c", [1.0, 0, 0, 0], 10_001)


@pytest.mark.parametrize("name", ["A", "a", "a b", "ключ", "x" * 300, "..", "a,b", "a*", "#"])
async def test_any_collection_name_works(store: ElasticsearchStore, name: str) -> None:
    """Names that no index can have are encoded, and come back as they were."""
    await store.create_collection(name, 4)
    await store.insert(name, [record("a")])

    assert await store.list_collections() == sorted(["c", name])
    assert await store.count(name) == 1
    assert await store.count("c") == 0


# --- filters ---


@given(numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2))
def test_range_texts_sort_as_numbers(numbers: list[float]) -> None:
    """Negative, tiny, huge and equal numbers, and both zeros."""
    ordered = sorted(numbers, key=sortable)

    assert ordered == sorted(numbers)
    assert len({sortable(number) for number in numbers}) == len(set(numbers))


async def test_metadata_keys_do_not_grow_the_mapping(standin: ElasticsearchServer, store: ElasticsearchStore) -> None:
    """Thousands of different keys use the same fields, and each can be filtered by."""
    (index,) = standin.indices.values()
    fields = len(index.mapping.fields)
    keys = [{f"key {n}.{m}": n for m in range(100)} for n in range(30)]

    await store.insert("c", [record(str(n), metadata=metadata) for n, metadata in enumerate(keys)])

    assert len(index.mapping.fields) == fields
    hits = await store.search("c", [1.0, 0, 0, 0], 10, F("key 7.99") >= 7)
    assert [hit.document_id for hit in hits] == ["7"]


# --- versions ---


async def test_an_interrupted_replace_changes_nothing(
    standin: ElasticsearchServer, store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of a version that was never published are in no answer, and are removed once they are old."""
    await store.replace("c", [document()], [record("doc", n, f"pear old {n}") for n in range(3)])

    async def crash(*_: object) -> list[Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "_swap_heads", crash)
        with pytest.raises(KeyboardInterrupt):
            await store.replace("c", [document()], [record("doc", n, f"pear new {n}") for n in range(5)])
    (index,) = standin.indices.values()
    left = len(index.docs)
    found = [
        await store.search("c", [1.0, 0, 0, 0], 10),
        await store.retrieve("c", RetrieveRequest(texts=["pear"], limit=10)),
    ]
    counts = [await store.count("c"), await store.count("c", F("x").exists(False))]
    monkeypatch.setattr(writer_module, "_LEFTOVER_S", -60)
    await store.replace("c", [document()], [record("doc", 0, "pear newest")])

    assert left == 1 + 1 + 3 + 5
    assert [[hit.chunk.text for hit in hits] for hits in found] == [[f"pear old {n}" for n in range(3)]] * 2
    assert counts == [3, 3]
    assert len(index.docs) == 1 + 1 + 1


async def test_a_failed_write_leaves_the_old_version(standin: ElasticsearchServer, store: ElasticsearchStore) -> None:
    """An error of the server goes through, and the next call works."""
    await store.replace("c", [document()], [record("doc", text="old")])

    for skipped in range(4):
        standin.fail_next(skipped, 503)  # tried again by the client
        standin.fail_next(1, 500)
        with contextlib.suppress(StoreError):
            await store.replace("c", [document()], [record("doc", text=f"new {skipped}")])
        standin.fail_next(0, 500)
        assert len(await store.search("c", [1.0, 0, 0, 0], 10)) == 1

    await store.replace("c", [document()], [record("doc", text="last")])
    assert [hit.chunk.text for hit in await store.search("c", [1.0, 0, 0, 0], 10)] == ["last"]


async def test_without_refresh_a_search_still_sees_whole_versions(standin: ElasticsearchServer) -> None:
    """`refresh=False` delays listings, never makes a document vanish from search, and delete finds what was written."""
    async with ElasticsearchStore(standin.url, refresh=False) as store:
        await store.create_collection("c", 4)
        texts = []
        for number in range(3):
            await store.replace("c", [document()], [record("doc", text=f"v{number}")])
            texts += [hit.chunk.text for hit in await store.search("c", [1.0, 0, 0, 0], 10)]
        removed = await store.delete("c", "doc")

        assert texts == ["v0", "v1", "v2"]
        assert removed == 1
        assert await store.search("c", [1.0, 0, 0, 0], 10) == []


# --- keyword ---


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("lossy", [False, True])
async def test_keyword_search_agrees_with_bm25s(lossy: bool) -> None:
    """The same top 10 as bm25s (method "lucene", same tokens) on at least 99 % of the queries, also after deletions,
    and where the server keeps lengths in one byte as Lucene does."""
    corpus, queries, _ = retrieval_set("scifact_train")
    texts = dict(list(corpus.items())[:1_200])
    asked = list(queries.values())[:80]
    gone = list(texts)[::7]
    with ElasticsearchServer(version=VERSION, lossy_lengths=lossy) as server:
        async with ElasticsearchStore(server.url, refresh=True) as store:
            await store.create_collection("c", 0)
            await store.insert("c", [record(name, text=text, vector=()) for name, text in texts.items()])

            whole = await agreement(store, "c", texts, asked)
            await store.delete_documents("c", gone)
            left = {name: text for name, text in texts.items() if name not in set(gone)}
            reduced = await agreement(store, "c", left, asked)

    assert min(whole, reduced) >= 0.99
