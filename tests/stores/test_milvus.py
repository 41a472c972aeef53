"""MilvusLiteStore passes the contract on Milvus Lite, and more that only it promises."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_rag.errors import ConfigurationError, RecordError, StoreLockedError
from agent_rag.filters import F, matches
from agent_rag.stores import MemoryStore
from agent_rag.stores.base import NATIVE, RetrieveRequest, VectorStoreBase
from agent_rag.testing import StoreContract, assert_congruent, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.retrieve import StoreRetrieve
from tests.shared import needs_shared, retrieval_set
from tests.stores.bm25s_agreement import agreement
from tests.stores.races import assert_one_version_is_seen

pytest.importorskip("pymilvus", reason="pip install 'agent-rag-middleware[milvus]' to run this")
pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")

from agent_rag.stores._shared.payload import metadata_payload
from agent_rag.stores.milvus import MilvusLiteStore, writer
from agent_rag.stores.milvus.schema import MilvusDialect, MilvusInfo, chunks_of, with_columns

SERVER = os.environ.get("AGENT_RAG_MILVUS_URL")


class TestMilvusLite(StoreContract):
    """A local file."""

    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: MilvusLiteStore(tmp_path / "store.db")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Milvus server: that of AGENT_RAG_MILVUS_URL, or Milvus Lite in a process of its own."""
    if SERVER:
        yield SERVER
        return
    with _serving(tmp_path_factory.mktemp("milvus"), "-m", "milvus_lite", "server") as address:
        yield address


@contextlib.contextmanager
def _serving(folder: Path, *command: str) -> Iterator[str]:
    """Address of a server in a process of its own."""
    port = _free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--data-dir", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *command, *options], stdout=log, stderr=log)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the Milvus Lite server did not start within 30 s")


class TestMilvusEndpoint(StoreContract):
    """The same calls to a server, which several stores may write to."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, endpoint: str) -> MakeStore:
        return lambda: MilvusLiteStore(endpoint)

    @pytest.fixture
    def unavailable(self) -> MilvusLiteStore:
        return MilvusLiteStore(f"http://127.0.0.1:{_free_port()}", token="user:secret", timeout_s=3)

    async def test_readers_see_one_version_beside_two_writers(self, make_store: MakeStore, collection: str) -> None:
        """Three stores at once: no search and no list mixes versions, finds a part of one, or none."""
        reads = await assert_one_version_is_seen(make_store, collection, replaces=self.race_trials)

        assert reads > 10

    async def test_a_stall_within_a_search_hides_no_document(self, tmp_path: Path, collection: str) -> None:
        """Milvus Lite reads rows first and what was deleted last; a replace that fits in between is noticed."""
        with _serving(tmp_path, "-c", _STALLING_SERVER) as address:
            reads = await assert_one_version_is_seen(lambda: MilvusLiteStore(address), collection, replaces=20)

        assert reads > 0


class TestMilvusLiteWithoutKeyword(StoreCore, StoreRetrieve):
    """``keyword=False`` takes the capability from the object."""

    capabilities = NATIVE - {"keyword"}
    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: MilvusLiteStore(tmp_path / "store.db", keyword=False)


# --- options and opening ---


def test_wrong_options_are_refused() -> None:
    """The message names what is allowed; a password in an address is not shown."""
    with pytest.raises(ConfigurationError, match=r"ends in '\.db'"):
        MilvusLiteStore("./folder")
    with pytest.raises(ConfigurationError, match="COSINE"):
        MilvusLiteStore(metric_type="cosine")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="batch_size=0"):
        MilvusLiteStore(batch_size=0)
    assert "secret" not in repr(MilvusLiteStore("http://user:secret@localhost:19530"))


async def test_a_file_belongs_to_one_store_at_a_time(tmp_path: Path) -> None:
    """The second one says which file and what to do, and the first goes on; after its end the file is free."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as first:
        await first.create_collection("c", 4)

        with pytest.raises(StoreLockedError, match=r"rag\.db is in use.*close it first"):
            await MilvusLiteStore(path).__aenter__()
        await first.insert("c", [record("a")])

        assert await first.count("c") == 1
    async with MilvusLiteStore(path) as second:
        assert await second.count("c") == 1


async def test_another_process_holds_the_file(tmp_path: Path) -> None:
    """The lock is between processes too, and the error is the same."""
    path = tmp_path / "rag.db"
    holder = _start(_HOLD, str(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"

    try:
        with pytest.raises(StoreLockedError, match="in this process or another one"):
            await MilvusLiteStore(path).__aenter__()
    finally:
        holder.kill()
        holder.communicate()

    async with MilvusLiteStore(path) as store:
        assert await store.list_collections() == ["held"]


@pytest.mark.parametrize(
    "name", ["a b", "ключ", "A", "a", "a_b", "a-b", "1", "x" * 300, "x" * 299 + "y", "a__heads", ""]
)
async def test_any_collection_name_works(tmp_path: Path, name: str) -> None:
    """Names that Milvus does not take are encoded, and come back as they were."""
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection(name, 4)
        await store.insert(name, [record("a")])

        assert await store.list_collections() == [name]
        assert await store.count(name) == 1


def test_different_names_are_stored_apart() -> None:
    """No two names share a Milvus collection, also those that look like encodings of others."""
    names = ["a b", "a_20_b", "a_b", "a__b", "ab", "AB", "x" * 300, "x" * 301, "_", "__", "5f"]

    stored = {chunks_of(name) for name in names}

    assert len(stored) == len(names)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,254}", one) for one in stored)


# --- filters as text ---

_values = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())


@given(field=st.text(min_size=1), value=_values, more=st.lists(_values, max_size=20), is_local=st.booleans())
def test_no_value_gets_into_an_expression(field: str, value: object, more: list[object], is_local: bool) -> None:
    """Whatever the caller's field and values are, an expression has field names, hashes, numbers and operators."""
    info = MilvusInfo(name="c", dimensions=4)
    if is_local:
        info = with_columns(info, [metadata_payload({field: item}) for item in (value, *more)])
    dialect = MilvusDialect(scans_text=is_local, numbers=info.number_columns, values=info.value_columns)
    where = (F(field) == value) | ~F(field).in_(more) | F(field).contains(value) | (F(field) >= 1.5)

    expression = dialect.condition(where)

    word = r"x like|array_contains_any|not|and|or|in|[ngxy]|[de][0-7]|id|e[+-]?"
    assert re.fullmatch(
        rf'(?:"%\|[0-9a-f]{{16}}\|%"|"(?:n_)?[0-9a-f]{{16}}"|""|{word}|[-\d.]+|[()\[\],=!<>\s])*', expression
    )


async def test_ranges_over_more_keys_than_there_are_columns(tmp_path: Path) -> None:
    """The first keys have columns of their own, the others do not, and all compare alike, also after reopening."""
    rows = [{f"k{key}": number - key for key in range(number % 13)} for number in range(40)]
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        for number, row in enumerate(rows):
            await store.insert("c", [record(str(number), metadata=row)])

    async with MilvusLiteStore(path) as store:
        for key in range(12):
            for where in (F(f"k{key}") >= 10, ~(F(f"k{key}") < 10), F(f"k{key}").between(0, 20)):
                hits = await store.search("c", [1.0, 0, 0, 0], 100, where)
                expected = [number for number, row in enumerate(rows) if matches(where, row)]
                assert sorted(int(hit.document_id) for hit in hits) == expected


async def test_values_of_more_fields_than_there_are_columns(tmp_path: Path) -> None:
    """The first fields have columns of their own, the others do not, and all compare alike, also after reopening, also
    where a field has lists, long texts, nothing, or a name that looks like another field's value."""
    odd = "k0\x1fis\x1ftext:a"
    kinds: list[object] = ["a", "b", 1, 1.5, True, None, ["a", "b"], "long " * 60]
    rows = [{f"k{key}": kinds[(number + key) % len(kinds)] for key in range(number % 13)} for number in range(40)]
    rows += [{"k0": "a", odd: "a"}, {odd: "b"}, {"k0": "b"}]
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        for number, row in enumerate(rows):
            await store.insert("c", [record(f"{number:02}", metadata=row)])

    async with MilvusLiteStore(path) as store:
        for field in (*(f"k{key}" for key in range(12)), odd):
            for where in (
                *(F(field) == value for value in kinds if not isinstance(value, list)),
                ~(F(field) == "a"),
                F(field).in_(["a", 1, None]),
                F(field).contains("a"),
                (F(field) == "b") | (F("k1") == 1.5),
            ):
                hits = await store.search("c", [1.0, 0, 0, 0], 100, where)
                expected = [number for number, row in enumerate(rows) if matches(where, row)]
                assert sorted(int(hit.document_id) for hit in hits) == expected, where


async def test_too_many_filter_values_are_refused(tmp_path: Path) -> None:
    """A list that does not fit in a field of Milvus raises, with the limit, before anything is written."""
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection("c", 4)

        with pytest.raises(RecordError, match="3,800"):
            await store.insert("c", [record("a"), record("b", metadata={"tags": [str(n) for n in range(5_000)]})])

        assert await store.list_documents("c") == []


# --- metrics ---


@pytest.mark.parametrize(("metric", "distance"), [("COSINE", "Cosine"), ("IP", "Dot"), ("L2", "Euclid")])
async def test_every_metric_answers_as_the_reference(tmp_path: Path, metric, distance) -> None:
    """Scores, order and ties are those of MemoryStore with the same distance."""
    async with (
        MilvusLiteStore(tmp_path / "rag.db", metric_type=metric) as store,
        MemoryStore(distance=distance) as other,
    ):
        await assert_congruent(store, other, seed=5, operations=12, score_tolerance=1e-4)
        await store.create_collection("c", 4)
        info = await store.collection_info("c")

        assert info is not None
        assert info.distance == distance


@pytest.mark.parametrize(("metric", "distance"), [("COSINE", "Cosine"), ("IP", "Dot"), ("L2", "Euclid")])
async def test_many_vectors_are_indexed_and_stay_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric, distance
) -> None:
    """From some number of chunks on faiss compares them: all hits, scores and ties as without, also when more come,
    some go, and the file is opened again."""
    monkeypatch.setattr(writer, "_INDEX_FROM", 100)
    rng = random.Random(4)
    rows = [
        record(f"{n:03}", vector=[rng.choice((-1.0, 1.0)) for _ in range(4)], metadata={"n": n % 7}) for n in range(200)
    ]
    queries = [[1.0, 0, 0, 0], [0.5, -0.25, 1.0, 0.125], [0.0, 0, 0, 0]]

    async def found(store: VectorStoreBase) -> list[list[tuple[str, float]]]:
        return [
            [(hit.document_id, round(hit.score, 4)) for hit in await store.search("c", query, 15, where)]
            for query in queries
            for where in (None, {"n": 3}, F("n") >= 3)
        ]

    async with (
        MemoryStore(distance=distance) as other,
        MilvusLiteStore(tmp_path / "rag.db", metric_type=metric) as store,
    ):
        for one in (other, store):
            await one.create_collection("c", 4)
            await one.insert("c", rows[:150])
            await one.insert("c", rows[150:])
            await one.delete_documents("c", [f"{n:03}" for n in range(0, 200, 9)])
        expected, now = await found(other), await found(store)
    async with MilvusLiteStore(tmp_path / "rag.db", metric_type=metric) as store:
        later = await found(store)

    assert now == expected
    assert later == expected


# --- keyword ---


@pytest.mark.slow
@needs_shared
async def test_keyword_search_agrees_with_bm25s(tmp_path: Path) -> None:
    """The same top 10 as bm25s (method "lucene", same tokens) on at least 99 % of the scifact queries, also after
    deletions and after the average length has moved by far."""
    corpus, queries, _ = retrieval_set("scifact_train")
    texts = dict(sorted(corpus.items(), key=lambda item: len(item[1]))[::3])  # short ones first: the average grows
    asked = list(queries.values())[:150]
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection("c", 0)
        for part in _batched(texts, 250):
            await store.insert("c", [record(name, text=text, vector=()) for name, text in part])

        whole = await agreement(store, "c", texts, asked)
        gone = list(texts)[::7]
        await store.delete_documents("c", gone)
        reduced = await agreement(
            store, "c", {name: text for name, text in texts.items() if name not in set(gone)}, asked
        )

    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        reopened = await agreement(
            store, "c", {name: text for name, text in texts.items() if name not in set(gone)}, asked
        )

    assert min(whole, reduced, reopened) >= 0.99


def _batched(texts: dict[str, str], size: int) -> Iterator[tuple[tuple[str, str], ...]]:
    items = iter(texts.items())
    while part := tuple(itertools.islice(items, size)):
        yield part


async def test_a_collection_without_words_says_so_to_other_stores(tmp_path: Path) -> None:
    """It has no sparse vectors; a store with keyword search writes to it, and says why it cannot search it by words."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path, keyword=False) as store:
        await store.create_collection("c", 4)
        await store.create_collection("none", 0)
        await store.replace("c", [document("a")], [record("a", n, text="pear") for n in range(3)])
        await store.insert("none", [record("a", text="pear", vector=())])

        with pytest.raises(NotImplementedError, match="keyword"):
            await store.retrieve("c", RetrieveRequest(texts=["pear"]))

    async with MilvusLiteStore(path) as store:
        await store.insert("c", [record("a", 2, text="apple"), record("a", 3, text="pear"), record("b", text="pear")])

        with pytest.raises(ConfigurationError, match="'c' was created with keyword=False"):
            await store.retrieve("c", RetrieveRequest(texts=["pear"]))
        found = await store.search("c", [1.0, 0, 0, 0], 10)
        assert [hit.chunk.text for hit in found] == ["pear", "pear", "apple", "pear", "pear"]
        assert await store.count("none") == 1


# --- crashes ---


@pytest.mark.slow
async def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """`kill -9` in the middle of replaces, in a fresh file per trial: every acknowledged version or the next one is
    there, whole, and the file holds nothing else. AGENT_RAG_KILL_TRIALS raises the number of trials."""
    trials = int(os.environ.get("AGENT_RAG_KILL_TRIALS", "4"))
    for trial in range(trials):
        path = tmp_path / f"{trial}.db"
        writer = _start(_REPLACE, str(path))
        assert writer.stdout is not None
        seen = [json.loads(writer.stdout.readline())]
        time.sleep(0.3 + 0.17 * (trial % 7))
        writer.send_signal(signal.SIGKILL)
        output, _ = writer.communicate()
        seen += [json.loads(line) for line in output.splitlines() if line.endswith("]")]
        acknowledged = dict(seen)

        async with MilvusLiteStore(path) as store:
            versions = {}
            for name in acknowledged:
                chunks = await store.list_chunks("c", name, limit=10_000)
                (version,) = {item.chunk.metadata["version"] for item in chunks}
                assert len(chunks) == chunks[0].chunk.total_chunks
                versions[name] = version
            assert all(acknowledged[name] <= version <= acknowledged[name] + 1 for name, version in versions.items())
            assert await store.count("c") == sum(item.chunk_count for item in await store.list_documents("c"))
            assert await store.count("c", F("version") >= 0) == await store.count("c")


async def test_what_a_crash_left_is_removed_at_the_next_opening(tmp_path: Path) -> None:
    """Rows that no head names are invisible, and gone after the next open."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("doc")], [record("doc", n, "pear") for n in range(3)])
        (row,) = store._engine.connection.get(
            chunks_of("c"), [store._engine.connection.query(chunks_of("c"), 'id != ""', ["id"])[0]["id"]], ["*"]
        )
        orphan = {**row, "id": "7:0", "g": 7}
        store._engine.connection.upsert(chunks_of("c"), [orphan])

        visible = [
            await store.search("c", [1.0, 0, 0, 0], 10),
            await store.retrieve("c", RetrieveRequest(texts=["pear"])),
        ]

    async with MilvusLiteStore(path) as store:
        assert await store.count("c") == 3
        rows = store._engine.connection.count(chunks_of("c"))

    assert [len(hits) for hits in visible] == [3, 3]
    assert rows == 3


async def test_rows_that_milvus_lite_holds_twice_are_found_once(tmp_path: Path) -> None:
    """Killed between writing a segment and removing its log, Milvus Lite has all rows from both. (1 of 250 kills.)"""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        records = [record("doc", n, f"pear {n}", metadata={"n": n}) for n in range(30)]
        await store.replace("c", [document("doc")], records)
        logs = {log: log.read_bytes() for log in path.glob("collections/*/wal/wal_data_*")}
        for part in store._engine.connection.names():
            store._engine.connection.call("flush", part)
    for log, content in logs.items():
        log.write_bytes(content)

    async with MilvusLiteStore(path) as store:
        found = await store.search("c", [1.0, 0, 0, 0], 20)
        keyword = await store.retrieve("c", RetrieveRequest(texts=["pear 7"], limit=100))
        counts = [await store.count("c"), await store.count("c", F("n") >= 0)]
        listed = await store.list_documents("c")

    assert len(logs) == 2
    assert [hit.chunk.chunk_index for hit in found] == list(range(20))
    # idf of "pear": ln(1 + .5 / 30.5); of "7": ln(1 + 29.5 / 1.5); tf 1, average length: 1 / (1 + 1.2) = .45455.
    assert keyword[0].score == pytest.approx((0.016260 + 3.028522) / 2.2, rel=1e-4)
    assert counts == [30, 30]
    assert [item.chunk_count for item in listed] == [30]


def _start(script: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


_STALLING_SERVER = """
import random, sys, time
from milvus_lite.cmdline import main
from milvus_lite.storage.memtable import MemTable

deleted = MemTable.delete_index_snapshot
random.seed(1)

def stalling(self):
    if random.random() < 0.25:
        time.sleep(0.2)
    return deleted(self)

MemTable.delete_index_snapshot = stalling
sys.argv[1:1] = ["server"]
main()
"""

_HOLD = """
import asyncio, sys, time
from agent_rag.stores.milvus import MilvusLiteStore

async def main():
    async with MilvusLiteStore(sys.argv[1]) as store:
        await store.create_collection("held", 4)
        print("open", flush=True)
        time.sleep(60)

asyncio.run(main())
"""

_REPLACE = """
import asyncio, itertools, json, sys
from agent_rag.stores.milvus import MilvusLiteStore
from agent_rag.testing.records import document, record

async def main():
    async with MilvusLiteStore(sys.argv[1]) as store:
        await store.create_collection("c", 4)
        for number in itertools.count():
            name, count = f"d{number % 3}", 1 + number * 37 % 400
            version = {"version": number // 3}
            chunks = [record(name, n, f"pear {n}", metadata=version, total=count) for n in range(count)]
            await store.replace("c", [document(name)], chunks)
            print(json.dumps([name, number // 3]), flush=True)

asyncio.run(main())
"""
