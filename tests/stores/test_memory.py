"""MemoryStore passes the whole contract, and more that only it promises."""

import asyncio
import json
import threading
from pathlib import Path

import numpy as np
import pytest

from agent_rag.documents import ChunkKey, VectorRecord
from agent_rag.errors import ConfigurationError, LimitExceededError
from agent_rag.filters import F
from agent_rag.stores import MemoryStore
from agent_rag.stores.base import RetrieveRequest, Scored
from agent_rag.testing import StoreContract, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract.keyword import naive_bm25
from tests.stores.bm25s_agreement import agreement

SCIFACT = Path(__file__).resolve().parents[2] / "../shared/ir/scifact_train"


class TestMemoryStore(StoreContract):
    """Closing keeps the data of the object, so reopening is tested too."""

    can_exchange = True
    persistent = True

    @pytest.fixture
    def make_store(self):
        store = MemoryStore()
        return lambda: store


@pytest.fixture
async def store():
    async with MemoryStore() as store:
        yield store


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        # Unit vectors at 0, 60, 90 and 180 degrees: chords are 2 sin(angle / 2); Manhattan is |1 - cos| + sin.
        ("Cosine", [1.0, 0.5, 0.0, -1.0]),
        ("Dot", [1.0, 0.5, 0.0, -1.0]),
        ("Euclid", [0.0, -1.0, -1.41421356, -2.0]),
        ("Manhattan", [0.0, -1.36602540, -2.0, -2.0]),
    ],
)
async def test_a_nearer_vector_scores_higher_in_every_metric(distance, expected) -> None:
    """Distances are negated, so order and thresholds mean the same for all of them."""
    angles = (0, 60, 90, 180)
    vectors = [(np.cos(np.radians(angle)), np.sin(np.radians(angle))) for angle in angles]
    async with MemoryStore(distance=distance) as store:
        await store.create_collection("c", 2)
        await store.insert("c", [record(f"{n}", vector=vector) for n, vector in enumerate(vectors)])

        hits = await store.search("c", [1.0, 0.0], 10)

        assert [hit.document_id for hit in hits] == ["0", "1", "2", "3"]
        assert [hit.score for hit in hits] == pytest.approx(expected, abs=1e-6)
        info = await store.collection_info("c")
        assert info is not None
        assert info.distance == distance


async def test_dot_products_grow_with_length() -> None:
    """Vectors are not scaled where the metric looks at their length."""
    async with MemoryStore(distance="Dot") as store:
        await store.create_collection("c", 2)
        await store.insert("c", [record("short", vector=(1.0, 0.0)), record("long", vector=(3.0, 4.0))])

        hits = await store.search("c", [2.0, 1.0], 5)

        assert [(hit.document_id, hit.score) for hit in hits] == [("long", 10.0), ("short", 2.0)]


def test_wrong_options_are_refused() -> None:
    """The message names what is allowed."""
    with pytest.raises(ConfigurationError, match="Manhattan"):
        MemoryStore(distance="cosine")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="max_chunks is 0"):
        MemoryStore(max_chunks=0)


async def test_max_chunks_bounds_all_collections_together() -> None:
    """A write over the bound changes nothing and names the option; replacing chunk by chunk stays possible."""
    async with MemoryStore(max_chunks=5) as store:
        await store.create_collection("a", 4)
        await store.create_collection("b", 4)
        await store.insert("a", [record("doc", n) for n in range(3)])

        with pytest.raises(LimitExceededError, match="max_chunks=5"):
            await store.insert("b", [record("doc", n) for n in range(3)])
        await store.insert("b", [record("doc", n) for n in range(2)])
        await store.insert("a", [record("doc", n, "new") for n in range(3)])
        with pytest.raises(LimitExceededError, match="max_chunks=5"):
            await store.replace("a", [document("doc")], [record("doc", n) for n in range(4)])
        before = await store.replace("a", [document("doc")], [record("doc", n, "newer") for n in range(3)])

        assert before == 3
        assert (await store.count("a"), await store.count("b")) == (3, 2)


async def test_vectors_come_back_as_they_were(store) -> None:
    """Not only their direction; rounded to 32 bits."""
    vector = [3.0, -4.0, 0.5, 1e-3]
    await store.create_collection("c", 4)
    await store.insert("c", [record("a", vector=vector), record("zero", vector=[0.0] * 4)])

    found = await store.fetch("c", [ChunkKey("", "a", 0), ChunkKey("", "zero", 0)], with_vectors=True)

    assert found[0].vector == pytest.approx(vector, rel=1e-6)
    assert found[1].vector == [0.0] * 4


async def test_large_collections_are_searched_exactly(store) -> None:
    """The best 10 of 20,000 vectors are those of 64-bit arithmetic, with and without a filter, also with many
    duplicates; rows beyond any internal block count too."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(20_000, 32)).astype(np.float32)
    vectors[5_000:6_000] = vectors[17]
    await store.create_collection("c", 32)
    records = [record(f"d{n:05}", vector=row.tolist(), metadata={"n": n % 100}) for n, row in enumerate(vectors)]
    await store.insert("c", records)
    await store.delete_documents("c", [f"d{n:05}" for n in range(0, 20_000, 7)])

    unit = vectors.astype(np.float64) / np.linalg.norm(vectors.astype(np.float64), axis=1)[:, None]
    alive = np.arange(20_000) % 7 != 0
    for query in (*rng.normal(size=(10, 32)), vectors[17].astype(np.float64)):
        for where, mask in ((None, alive), ({"n": 3}, alive & (np.arange(20_000) % 100 == 3))):
            scores = np.where(mask, unit @ (query / np.linalg.norm(query)), -9.0)
            expected = sorted(np.flatnonzero(mask), key=lambda n: (-round(scores[n], 7), n))[:10]
            hits = await store.search("c", query.tolist(), 10, where)
            assert [int(hit.document_id[1:]) for hit in hits] == [int(n) for n in expected]
            assert [hit.score for hit in hits] == pytest.approx([scores[n] for n in expected], abs=1e-6)


async def test_deleted_rows_are_given_back(store) -> None:
    """Replacing one document a hundred times does not hold a hundred versions, and what is left is found."""
    await store.create_collection("c", 4)
    await store.insert("c", [record("first", text="fig " * 9)])
    await store.insert("c", [record("keep", text="plum", vector=(0.0, 1.0, 0.0, 0.0), metadata={"k": 1, "l": ["x"]})])
    await store.delete("c", "first")

    for number in range(100):
        records = [record("doc", n, f"pear {number} " * n, metadata={"v": number}) for n in range(50)]
        await store.replace("c", [document("doc")], records)

    table = store._tables["c"]
    assert len(table) == 51
    assert table.row_count <= 51 + 1_001 + 50
    found = await store.retrieve("c", RetrieveRequest(texts=["plum 99"], limit=100))
    live = {item.key: item.chunk.text async for item in store.iterate("c")}
    assert [(hit.key, hit.score) for hit in found] == [
        (key, pytest.approx(score)) for key, score in naive_bm25(live, "plum 99")
    ]
    assert [hit.chunk_id for hit in await store.search("c", [0.0, 1.0, 0.0, 0.0], 1)] == ["keep:0"]
    assert await store.count("c", F("v") >= 99) == 50
    assert await store.count("c", F("v") < 99) == 0
    assert await store.count("c", F("l").contains("x")) == 1
    assert [item.chunk.text for item in await store.list_chunks("c", "doc", offset=49)] == ["pear 99 " * 49]


async def test_a_search_sees_one_state_while_others_write(store) -> None:
    """Both lists that rank gets, and the chunks that are fetched after it, come from one version."""
    texts = {version: [f"{version} pear {n}" for n in range(30)] for version in ("one", "two")}
    await store.create_collection("c", 4)
    await store.replace("c", [document("doc")], [record("doc", n, t) for n, t in enumerate(texts["one"])])
    done = asyncio.Event()
    mixtures: list[set[str]] = []

    def rank(semantic, keyword, signals) -> list[Scored]:
        assert {hit.key for hit in semantic[0]} == {hit.key for hit in keyword[0]} == set(signals)
        return semantic[0]

    async def read() -> None:
        while not done.is_set():
            request = RetrieveRequest(vectors=[[1.0, 0, 0, 0]], texts=["pear"], limit=100, rank=rank)
            hits = await store.retrieve("c", request)
            mixtures.append({hit.chunk.text[:3] for hit in hits})
            assert len(hits) in (30, 17)
            await asyncio.sleep(0)

    async def write() -> None:
        for number in range(60):
            version = "two" if number % 2 == 0 else "one"
            kept = texts[version][: 17 if version == "two" else 30]
            await store.replace("c", [document("doc")], [record("doc", n, text) for n, text in enumerate(kept)])
        done.set()

    await asyncio.gather(write(), read(), read())

    assert {frozenset(names) for names in mixtures} == {frozenset({"one"}), frozenset({"two"})}


async def test_large_searches_leave_the_event_loop(store) -> None:
    """A search over a few numbers is done where it is asked for; one over millions goes to a thread."""
    threads: list[int] = []

    def rank(semantic, keyword, signals) -> list[Scored]:
        threads.append(threading.get_ident())
        return semantic[0]

    for name, count in (("small", 100), ("large", 9_000)):
        await store.create_collection(name, 512)
        await store.insert(name, [record(str(n), vector=[1.0] * 512) for n in range(count)])
        await store.retrieve(name, RetrieveRequest(vectors=[[1.0] * 512], rank=rank))

    assert threads[0] == threading.get_ident() != threads[1]


def test_event_loops_in_several_threads_share_a_store() -> None:
    """Writes from four loops at once all arrive."""
    store = MemoryStore()

    async def write(name: str) -> None:
        for n in range(25):
            await store.insert("c", [record(f"{name}{n}", i) for i in range(4)])

    async def prepare() -> None:
        await store.__aenter__()
        await store.create_collection("c", 4)

    asyncio.run(prepare())
    threads = [threading.Thread(target=lambda name=name: asyncio.run(write(name))) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert asyncio.run(store.count("c")) == 400
    assert len(asyncio.run(store.list_documents("c"))) == 100


def _rows(name: str) -> list[dict[str, str]]:
    with (SCIFACT / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.skipif(not SCIFACT.is_dir(), reason="needs the retrieval set ../shared/ir/scifact_train")
async def test_keyword_search_agrees_with_bm25s(store) -> None:
    """The same top 10 as bm25s (method "lucene", same tokens) on at least 99 % of the scifact queries, also after
    every tenth document was deleted."""
    texts = {row["_id"]: f"{row['title']}\n{row['text']}" for row in _rows("corpus.jsonl")}
    queries = [row["text"] for row in _rows("queries.jsonl")]
    await store.create_collection("c", 0)
    await store.insert("c", [record(name, text=text, vector=()) for name, text in texts.items()])

    whole = await agreement(store, "c", texts, queries)
    gone = list(texts)[::10]
    await store.delete_documents("c", gone)
    left = {name: text for name, text in texts.items() if name not in set(gone)}
    reduced = await agreement(store, "c", left, queries)

    assert len(queries) == 809
    assert whole >= 0.99
    assert reduced >= 0.99


async def test_records_need_not_be_a_list(store) -> None:
    """Any sequence of records and of vector numbers is taken."""
    await store.create_collection("c", 4)

    await store.insert("c", tuple(record(str(n)) for n in range(3)))

    assert len(await store.search("c", np.array([1.0, 0, 0, 0]), 5)) == 3
    assert all(isinstance(item, VectorRecord) for item in [r async for r in store.iterate("c")])
