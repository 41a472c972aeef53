"""The embedded deployments of QdrantStore."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_rag import errors
from agent_rag.documents import VectorRecord
from agent_rag.filters import F
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.memory import MemoryStore
from agent_rag.stores.qdrant import QdrantStore, edge
from agent_rag.testing import StoreContract
from agent_rag.testing.records import document, record
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.records import StoreRecords
from agent_rag.testing.store_contract.replace import StoreReplace
from agent_rag.testing.store_contract.retrieve import StoreRetrieve

KILL_TRIALS = int(os.environ.get("AGENT_RAG_KILL_TRIALS", "10"))
EAST = [1.0, 0.0, 0.0, 0.0]


class TestQdrantFolder(StoreContract):
    """QdrantStore(path=...)."""

    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: QdrantStore(path=tmp_path / "store")


class TestQdrantMemory(StoreContract):
    """QdrantStore(":memory:")."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda: QdrantStore(":memory:")


class TestQdrantWithoutKeyword(StoreCore, StoreRecords, StoreRetrieve, StoreReplace):
    """``keyword=False`` takes keyword search from the object."""

    keyword_search = False
    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: QdrantStore(path=tmp_path / "store", keyword=False)


# --- the folder ---


async def test_a_second_store_on_the_folder_is_refused(tmp_path: Path) -> None:
    """The error names the folder and the cure; the first store goes on."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)

        with pytest.raises(errors.StoreLockedError, match="share that object, close it first") as caught:
            async with QdrantStore(path=tmp_path):
                pass

        assert str(tmp_path) in str(caught.value)
        assert await store.list_collections() == ["c"]


async def test_entering_while_the_store_closes_waits_for_it(tmp_path: Path) -> None:
    """Also when whoever closed it was cancelled; the folder is free at the end."""
    store = QdrantStore(path=tmp_path)
    await store.__aenter__()
    await store.create_collection("c", 4)

    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    async with store:
        assert await store.list_collections() == ["c"]
    await asyncio.gather(closing, return_exceptions=True)

    async with QdrantStore(path=tmp_path) as other:
        assert await other.list_collections() == ["c"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_cannot_use_its_parents_store(tmp_path: Path) -> None:
    """Threads do not survive a fork: an error, and not a call that waits for ever."""
    code = (
        "import asyncio, os, sys; from agent_rag.errors import StoreError\n"
        "from agent_rag.stores.qdrant import QdrantStore\n"
        "async def main():\n"
        "    async with QdrantStore(path=sys.argv[1]) as store:\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            try: await store.list_collections()\n"
        "            except StoreError: os._exit(7)\n"
        "            os._exit(1)\n"
        "        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "asyncio.run(main())"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.strip() == "7", done.stderr


async def test_a_store_in_another_process_is_refused(tmp_path: Path) -> None:
    """The lock holds between processes, and ends with its store."""
    code = (
        "import asyncio, sys; from agent_rag.stores.qdrant import QdrantStore\n"
        "async def main():\n"
        "    async with QdrantStore(path=sys.argv[1]) as store: print(await store.list_collections())\n"
        "asyncio.run(main())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]

    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        refused = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    admitted = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)

    assert "StoreLockedError" in refused.stderr
    assert str(tmp_path) in refused.stderr
    assert admitted.stdout.strip() == "['c']"


async def test_an_error_in_the_block_closes_the_store(tmp_path: Path) -> None:
    """The folder is free again."""
    with pytest.raises(ZeroDivisionError):
        async with QdrantStore(path=tmp_path):
            raise ZeroDivisionError

    async with QdrantStore(path=tmp_path) as store:
        assert await store.list_collections() == []


async def test_closing_is_idempotent_and_entering_opens_again(tmp_path: Path) -> None:
    """One object, closed twice and entered again, has its data."""
    store = QdrantStore(path=tmp_path)
    async with store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])

        await store.close()
        await store.close()

        with pytest.raises(errors.StoreClosedError):
            await store.list_collections()
    async with store:
        assert [item.document_id for item in await store.list_documents("c")] == ["a"]


async def test_blocks_may_be_nested() -> None:
    """The inner block, as a KnowledgeBase opens it, does not close the user's store."""
    store = QdrantStore(":memory:")

    async with store:
        async with store:
            await store.create_collection("c", 4)
        assert await store.has_collection("c")


async def test_many_searches_at_once_share_one_store(tmp_path: Path) -> None:
    """Ten tasks that search while an eleventh writes all get answers."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])

        *found, _ = await asyncio.gather(
            *(store.search("c", EAST) for _ in range(10)), store.insert("c", [record("b", n) for n in range(500)])
        )

    assert all(hits[0].document_id == "a" for hits in found)


async def test_a_temporary_store_keeps_its_data_when_closed() -> None:
    """ ":memory:" entered again shows what it held."""
    store = QdrantStore(":memory:")

    async with store:
        await store.create_collection("c", 4)
    async with store:
        assert await store.has_collection("c")


async def test_a_temporary_folder_goes_with_its_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder of ":memory:" is removed once the store object is gone, not only when the process ends."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = QdrantStore(":memory:")
    async with store:
        await store.create_collection("c", 4)
    inside = list(tmp_path.iterdir())

    del store
    for _ in range(100):  # the thread that closed the store may hold it a moment longer
        gc.collect()
        if not list(tmp_path.iterdir()):
            break
        await asyncio.sleep(0.05)

    assert len(inside) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_store_leaves_nothing_behind(tmp_path: Path) -> None:
    """The folder of ":memory:" is gone when the process has ended."""
    code = """
import asyncio, os, tempfile
from agent_rag import QdrantStore
async def main():
    async with QdrantStore(":memory:") as store:
        await store.create_collection("c", 4)
        print(len(os.listdir(tempfile.gettempdir())))
asyncio.run(main())
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "1"
    assert list(tmp_path.iterdir()) == []


async def test_any_collection_name_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """Separators, case, dots, other scripts and 300 characters; none leaves the store's folder."""
    names = ["a/b", "../up", "A", "a", "..", "知识库", "c%2f", "x" * 300, "x" * 301, " ", "CON"]

    async with QdrantStore(path=tmp_path / "store") as store:
        for name in names:
            await store.create_collection(name, 4)
            await store.insert(name, [record(name)])
        found = {name: [item.document_id for item in await store.list_documents(name)] for name in names}

    assert found == {name: [name] for name in names}
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    async with QdrantStore(path=tmp_path / "store") as store:
        assert await store.list_collections() == sorted(names)


def test_without_qdrant_edge_the_error_names_the_cures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constructing says what to install, and what to do where there is no wheel."""
    monkeypatch.setitem(sys.modules, "qdrant_edge", None)

    with pytest.raises(errors.MissingExtraError, match=r"pip install qdrant-edge-py.*QdrantStore\(url=\.\.\.\)"):
        QdrantStore(path="folder")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"location": ":memory:", "path": "folder"},
        {"path": "folder", "shard_number": 2},
        {"path": "folder", "api_key": "sk-secret"},
        {"path": "folder", "distance": "Jaccard"},
        {"url": "http://localhost", "shard_number": 0},
        {"url": "http://localhost", "quantization": "magic"},
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    """Exactly one of location, url and path; options of a server need a server. No secret is in the message."""
    with pytest.raises(errors.ConfigurationError) as caught:
        QdrantStore(**options)

    assert "secret" not in str(caught.value)


# --- other metrics ---


@pytest.mark.parametrize(
    ("distance", "scores"), [("Dot", [4.0, 2.0]), ("Euclid", [0.0, -1.0]), ("Manhattan", [0.0, -1.0])]
)
async def test_a_higher_score_is_better_in_each_metric(distance: Any, scores: list[float]) -> None:
    """The query (2, 0) against (2, 0) and (1, 0): products 4 and 2, distances 0 and 1, negated."""
    async with QdrantStore(":memory:", distance=distance) as store:
        await store.create_collection("c", 2)
        await store.insert("c", [record("near", vector=(2.0, 0.0)), record("far", vector=(1.0, 0.0))])

        hits = await store.search("c", [2.0, 0.0])

    assert [(hit.document_id, hit.score) for hit in hits] == list(zip(["near", "far"], scores, strict=True))


# --- statistics ---


async def test_weights_follow_the_average_length(tmp_path: Path) -> None:
    """When chunks become ten times as long, the stored weights are computed anew, and a reopened store knows."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record(f"s{n}", text="pear plum") for n in range(20)])
        await store.insert("c", [record(f"l{n}", text="fig " * 19 + "pear") for n in range(700)])

        used = store._engine._shards["c"][0].info.weight_average  # type: ignore[attr-defined]

    async with QdrantStore(path=tmp_path) as store:
        request = RetrieveRequest(texts=["pear"], limit=21, candidates=21)
        (first, *_), last = (lambda hits: (hits, hits[-1]))(await store.retrieve("c", request))

    assert used == pytest.approx((20 * 2 + 700 * 20) / 720)
    assert (first.document_id, last.document_id) == ("s0", "l0")


async def test_word_statistics_are_those_of_the_documents_that_count(tmp_path: Path) -> None:
    """The engine counts; what was deleted or replaced is not in its counts, nor what was closed and opened again."""
    request = RetrieveRequest(texts=["pear fig"], limit=20)
    async with QdrantStore(path=tmp_path) as store, MemoryStore() as reference:
        for one in (store, reference):
            await one.create_collection("c", 4)
            await one.insert("c", [record(f"d{n}", text="pear" if n < 3 else "plum fig") for n in range(10)])
        first = [await one.retrieve("c", request) for one in (store, reference)]
        for one in (store, reference):
            await one.delete_documents("c", ["d0", "d7"])
            await one.replace("c", [document("d8")], [record("d8", n, text="fig") for n in range(400)])
        second = [await one.retrieve("c", request) for one in (store, reference)]
    async with QdrantStore(path=tmp_path) as store:
        second.append(await store.retrieve("c", request))

    for found, *others in (first, second):
        for expected in others:
            assert [(hit.key, pytest.approx(hit.score)) for hit in found] == [(hit.key, hit.score) for hit in expected]


# --- atomic replace ---


def version(name: int, count: int) -> list[VectorRecord]:
    return [record("doc", n, f"v{name}", metadata={"v": name}, total=count) for n in range(count)]


@pytest.mark.parametrize(("low", "high", "versions"), [(40, 60, 30), (2_900, 3_100, 3)])
@pytest.mark.slow
async def test_readers_see_one_whole_version(tmp_path: Path, low: int, high: int, versions: int) -> None:
    """While a document of 50 or of 3,000 chunks is replaced, each search gives all chunks of one version."""
    rng = random.Random(1)
    seen: set[int] = set()
    reads = 0
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document()], version(0, high))
        writing = True

        async def read() -> None:
            nonlocal reads
            while writing:
                hits = await store.search("c", EAST, 5_000, F("v").exists())
                names = {hit.chunk.metadata["v"] for hit in hits}
                assert len(names) == 1, f"{len(hits)} chunks of versions {names}"
                assert len(hits) == hits[0].chunk.total_chunks
                assert low <= await store.count("c", F("v").exists()) <= high
                seen.update(names)
                reads += 1

        readers = [asyncio.create_task(read()) for _ in range(2)]
        for number in range(1, versions + 1):
            await store.replace("c", [document()], version(number, rng.randint(low, high)))
        writing = False
        await asyncio.gather(*readers)

    assert reads >= versions
    assert len(seen) > 1


async def test_a_cancelled_replace_ends_whole(tmp_path: Path) -> None:
    """Cancelling the caller leaves the old version or the new one, and the store goes on."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document()], version(0, 10))

        for number in range(1, 6):
            task = asyncio.create_task(store.replace("c", [document()], version(number, 1_500)))
            await asyncio.sleep(0.02 * number)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        for _ in range(100):  # a write that had begun may still end between two reads; each read is whole
            hits = await store.search("c", EAST, 5_000)
            assert len({hit.chunk.metadata["v"] for hit in hits}) == 1
            assert len(hits) == hits[0].chunk.total_chunks
            if len(hits) == await store.count("c"):
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("the number of chunks never came to agree with the search")


async def test_a_failed_piece_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine fails in the third of ten operations: the error comes out, the old version stays, a retry works."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document()], version(0, 5))
        writer = store._engine._shards["c"][1]  # type: ignore[attr-defined]
        upsert, calls = writer._upsert, []

        def failing(points: list[Any]) -> None:
            calls.append(len(points))
            if len(calls) == 3:
                raise OSError("disk full")
            upsert(points)

        with monkeypatch.context() as patch:
            patch.setattr(writer, "_upsert", failing)
            with pytest.raises(OSError, match="disk full"):
                await store.replace("c", [document()], version(1, 3_000))

        assert {hit.chunk.text for hit in await store.search("c", EAST, 5_000)} == {"v0"}
        assert await store.replace("c", [document()], version(2, 3_000)) == 5
        assert len(await store.search("c", EAST, 5_000)) == 3_000


# --- kill -9 ---

_REPLACER = """
import asyncio, os, random, sys
from agent_rag.stores.qdrant import QdrantStore
from agent_rag.testing.records import document, record

async def main(path, first, seed):
    rng = random.Random(seed)
    async with QdrantStore(path=path) as store:
        await store.create_collection("c", 4)
        print("start", flush=True)
        for number in range(int(first), 10**9):
            name = rng.randrange(20)
            count = rng.choice([0, 1, 5, 60, 900]) if name else 900
            records = [record(f"d{name}", n, f"v{number} word{n}", metadata={"v": number}, total=count)
                       for n in range(count)]
            await store.replace("c", [document(f"d{name}", state={"v": str(number), "n": str(count)})], records)
            os.write(1, f"{name} {number}\\n".encode())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
async def test_a_killed_writer_leaves_whole_documents(tmp_path: Path) -> None:
    """After kill -9 at a random moment, each acknowledged version or a later one is there, whole, and nothing else.

    AGENT_RAG_KILL_TRIALS sets the number of trials. The folder is used on from trial to trial.
    """
    rng = random.Random(7)
    acknowledged: dict[str, int] = {}
    operations = 0
    for trial in range(KILL_TRIALS):
        command = [sys.executable, "-c", _REPLACER, str(tmp_path), str(trial * 1_000_000 + 1), str(trial)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "start\n"
            await asyncio.sleep(rng.uniform(0.01, 0.8))
            process.send_signal(signal.SIGKILL)
            for line in process.stdout.read().splitlines():
                name, number = line.split()
                acknowledged[f"d{name}"] = int(number)
                operations += 1

        async with QdrantStore(path=tmp_path) as store:
            documents = {item.document_id: item for item in await store.list_documents("c")}
            hits = await store.search("c", EAST, 100_000)
            words = await store.retrieve("c", RetrieveRequest(texts=["word0"], limit=100, candidates=100))
            total = await store.count("c")
        found: dict[str, list[int]] = {}
        for hit in hits:
            found.setdefault(hit.document_id, []).append(hit.chunk.metadata["v"])
        for name, item in documents.items():
            assert int(item.state["v"]) >= acknowledged.get(name, 0), f"trial {trial}: {name} lost a write"
            assert found.get(name, []) == [int(item.state["v"])] * int(item.state["n"]), f"trial {trial}: {name}"
        assert acknowledged.keys() <= documents.keys()
        assert found.keys() <= documents.keys()
        assert total == len(hits) == sum(item.chunk_count for item in documents.values())
        assert len(words) == len(found)

    assert operations > KILL_TRIALS


# --- optimize ---


async def test_optimizing_keeps_the_answers(tmp_path: Path) -> None:
    """A small collection stays exact; the store goes on with it, and a foreign process did the work."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        rng = random.Random(3)
        records = [record(f"d{n}", text=f"word{n % 7}", vector=[rng.gauss(0, 1) for _ in range(4)]) for n in range(500)]
        await store.insert("c", records)
        await store.delete_documents("c", [f"d{n}" for n in range(0, 500, 3)])
        request = RetrieveRequest(vectors=[EAST], limit=20, candidates=20)
        before = [await store.retrieve("c", request), await store.retrieve("c", RetrieveRequest(texts=["word3"]))]

        await store.optimize("c")

        after = [await store.retrieve("c", request), await store.retrieve("c", RetrieveRequest(texts=["word3"]))]
        await store.insert("c", [record("new", vector=EAST)])
        (first, *_) = await store.search("c", EAST)
    assert [[(hit.key, pytest.approx(hit.score, abs=1e-6)) for hit in hits] for hits in after] == [
        [(hit.key, hit.score) for hit in hits] for hits in before
    ]
    assert first.document_id == "new"


def test_load_edge_gives_the_engine() -> None:
    """The module that the store drives."""
    assert hasattr(edge.load_edge(), "EdgeShard")


async def test_a_collection_of_a_later_version_is_refused(tmp_path: Path) -> None:
    """The message says to upgrade; nothing is read wrongly."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
    meta = next(tmp_path.glob("c-*/collection.json"))
    meta.write_text(meta.read_text().replace('"format_version":1', '"format_version":99'))

    with pytest.raises(errors.StoreError, match="upgrade"):
        async with QdrantStore(path=tmp_path) as store:
            await store.search("c", EAST)


async def test_a_damaged_shard_is_a_store_error(tmp_path: Path) -> None:
    """The engine's own error is named with the collection and the folder."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
    (next(tmp_path.glob("c-*")) / "shard" / "edge_config.json").write_text("{")

    async with QdrantStore(path=tmp_path) as store:
        with pytest.raises(errors.StoreError, match=r"collection 'c'.*qdrant-edge cannot load"):
            await store.search("c", EAST)


# --- without keyword search ---


async def test_a_collection_without_words_has_no_sparse_vectors(tmp_path: Path) -> None:
    """Neither in the shard's configuration nor on a point, also after chunks were overwritten and added."""
    async with QdrantStore(path=tmp_path, keyword=False) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("a")], [record("a", n, text="pear") for n in range(3)])
        await store.insert("c", [record("a", n, text="plum") for n in range(2, 5)])
        found = await store.search("c", EAST, 10)
        engine = store._engine._shards["c"][0].engine  # type: ignore[attr-defined]
        points, _ = engine.scroll(edge.load_edge().ScrollRequest(limit=100, with_vector=True))

    assert sorted(hit.chunk.text for hit in found) == ["pear", "pear", "plum", "plum", "plum"]
    assert {name for point in points for name in point.vector or {}} == {"d"}
    config = json.loads((next(tmp_path.glob("c-*")) / "shard" / "edge_config.json").read_text())
    assert not config.get("sparse_vectors")


async def test_a_collection_without_words_says_so_when_opened_with_them(tmp_path: Path) -> None:
    """It was recorded: a store with keyword search cannot search it by words, and writes to it all the same."""
    async with QdrantStore(path=tmp_path, keyword=False) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a", text="pear")])
        with pytest.raises(errors.ConfigurationError, match="keyword"):
            await store.retrieve("c", RetrieveRequest(texts=["pear"]))
    async with QdrantStore(path=tmp_path) as store:
        await store.insert("c", [record("b", text="pear")])

        with pytest.raises(errors.ConfigurationError, match="'c' was created with keyword=False"):
            await store.retrieve("c", RetrieveRequest(vectors=[EAST], texts=["pear"], rank=lambda *_: []))
        assert len(await store.search("c", EAST)) == 2
        assert store.keyword_search


async def test_a_store_without_keyword_search_keeps_words_of_others_fresh(tmp_path: Path) -> None:
    """A collection that was made with words has those of every chunk, whoever wrote it."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a", text="pear")])
    async with QdrantStore(path=tmp_path, keyword=False) as store:
        await store.insert("c", [record("b", text="pear")])
    async with QdrantStore(path=tmp_path) as store:
        found = await store.retrieve("c", RetrieveRequest(texts=["pear"]))

    assert [hit.document_id for hit in found] == ["a", "b"]


def test_a_folder_is_no_location() -> None:
    """As with qdrant-client, the first argument is ``:memory:`` or an address; the message names `path`."""
    with pytest.raises(errors.ConfigurationError, match="for a folder pass path="):
        QdrantStore(".agent-rag/store")
