"""MilvusLiteStore passes the contract on a local file, and more that only it promises."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_rag.errors import CollectionNotFoundError, ConfigurationError, StoreError, StoreLockedError
from agent_rag.filters import F, matches
from agent_rag.stores import MemoryStore
from agent_rag.stores.base import CollectionInfo, RetrieveRequest
from agent_rag.testing import StoreContract, assert_congruent, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.retrieve import StoreRetrieve
from tests.shared import needs_shared, retrieval_set
from tests.stores.bm25s_agreement import agreement

pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")

import milvus_lite
from milvus_lite import CollectionSchema, DataType, FieldSchema, MilvusLite
from pymilvus import MilvusClient

from agent_rag.stores.milvus import MilvusLiteStore
from agent_rag.stores.milvus.lite import LiteConnection
from tests.stores.milvus_file import start_process


class TestMilvusLite(StoreContract):
    """A local file."""

    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: MilvusLiteStore(tmp_path / "store.db")


class TestMilvusLiteWithoutKeyword(StoreCore, StoreRetrieve):
    """``keyword=False`` takes keyword search from the object."""

    keyword_search = False
    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: MilvusLiteStore(tmp_path / "store.db", keyword=False)


# --- opening ---


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
    holder = start_process(_HOLD, str(path))
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


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Such as one of Milvus Lite 2, which was a database in one file; the message names the path."""
    path = tmp_path / "old.db"
    path.write_bytes(b"SQLite format 3\0")

    with pytest.raises(StoreError, match=r"Milvus Lite failed on .*old\.db"):
        await MilvusLiteStore(path).__aenter__()

    assert path.read_bytes() == b"SQLite format 3\0"


async def test_files_of_an_earlier_layout_are_refused(tmp_path: Path) -> None:
    """They had a list of collections, and rows that Milvus could not search; the file is left as it is."""
    path = tmp_path / "rag.db"
    schema = CollectionSchema(
        fields=[
            FieldSchema("id", DataType.VARCHAR, is_primary=True, max_length=100),
            FieldSchema("v", DataType.FLOAT_VECTOR, dim=2),
        ]
    )
    with MilvusLite(str(path)) as lite:
        lite.create_collection("agent_rag", schema)

    with pytest.raises(StoreError, match=r"earlier version.*ingest into a new file"):
        await MilvusLiteStore(path).__aenter__()

    with MilvusLite(str(path)) as lite:
        assert lite.list_collections() == ["agent_rag"]


async def test_a_collection_of_the_layout_before_is_refused(tmp_path: Path) -> None:
    """Its head rows had fixed places; it stays as it is, can be listed and dropped."""
    path = tmp_path / "rag.db"
    kind, field = DataType.VARCHAR, FieldSchema
    texts = FieldSchema("f", DataType.ARRAY, element_type=kind, max_capacity=9, max_length=999)
    info = CollectionInfo(name="c", dimensions=2).model_dump_json()
    with MilvusLite(str(path)) as lite:
        for name, column in (("rag_c_chunks", field("p", kind, max_length=64)), ("rag_c_heads", texts)):
            key = field("id", kind, is_primary=True, max_length=100)
            lite.create_collection(
                name, CollectionSchema([key, field("v", DataType.FLOAT_VECTOR, dim=2), column])
            ).insert([{"id": "info", "v": [0.0, 0.0], column.name: [info] if column is texts else ""}])

    async with MilvusLiteStore(path) as store:
        listed = await store.list_collections()
        with pytest.raises(StoreError, match=r"written by another release \(layout 1, this one reads 2\)"):
            await store.insert("c", [record("a", vector=(1.0, 0.0))])
        with pytest.raises(StoreError, match="copy it with the release that wrote it"):
            await store.count("c")

    with MilvusLite(str(path)) as lite:
        assert lite.list_collections() == ["rag_c_chunks", "rag_c_heads"]
        assert [lite.get_collection(name).num_entities for name in lite.list_collections()] == [1, 1]
    async with MilvusLiteStore(path) as store:
        await store.delete_collection("c")
        assert (listed, await store.list_collections()) == (["c"], [])


async def test_collections_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    """Also one that is named as ours are; the error says which."""
    path = tmp_path / "rag.db"
    fields = [
        FieldSchema("id", DataType.VARCHAR, is_primary=True, max_length=100),
        FieldSchema("price", DataType.FLOAT_VECTOR, dim=2),
    ]
    with MilvusLite(str(path)) as lite:
        lite.create_collection("rag_c_chunks", CollectionSchema(fields))

    async with MilvusLiteStore(path) as store:
        assert await store.list_collections() == []
        assert await store.collection_info("c") is None
        for call in (store.create_collection("c", 2), store.delete_collection("c")):
            with pytest.raises(CollectionNotFoundError, match="'rag_c_chunks' belongs to another program"):
                await call


async def test_milvus_own_tools_can_search_a_collection(tmp_path: Path) -> None:
    """It is one with a vector column, an index on it, and the texts."""
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("near"), record("far", vector=(0.0, 1.0, 0.0, 0.0))])

    client = MilvusClient(str(tmp_path / "rag.db"))
    client.load_collection("rag_c_chunks")
    (hits,) = client.search("rag_c_chunks", data=[[1.0, 0.1, 0.0, 0.0]], anns_field="v", limit=2, output_fields=["c"])
    client.close()

    assert [json.loads("".join(hit["entity"]["c"]))["content"]["text"] for hit in hits] == ["text", "text"]
    assert [round(hit["distance"], 3) for hit in hits] == [0.995, 0.1]


async def test_a_database_within_the_file_is_opened(tmp_path: Path) -> None:
    """``db_name`` keeps collections apart; one that does not exist is an error that names it."""
    path = tmp_path / "rag.db"
    with MilvusLite(str(path)) as lite:
        lite.create_database("other")
    async with MilvusLiteStore(path, client_kwargs={"db_name": "other"}) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])

    async with MilvusLiteStore(path) as store:
        assert await store.list_collections() == []
    async with MilvusLiteStore(path, client_kwargs={"db_name": "other"}) as store:
        assert await store.count("c") == 1
    with pytest.raises(StoreError, match="nowhere"):
        await MilvusLiteStore(path, client_kwargs={"db_name": "nowhere"}).__aenter__()


@pytest.mark.parametrize(
    "name", ["a b", "ключ", "A", "a", "a_b", "a-b", "1", "x" * 300, "x" * 299 + "y", "a__heads", ""]
)
async def test_any_collection_name_works(tmp_path: Path, name: str) -> None:
    """Names that Milvus does not take are encoded, and come back as they were, also after reopening."""
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection(name, 4)
        await store.insert(name, [record("a")])

        assert await store.list_collections() == [name]

    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        assert await store.list_collections() == [name]
        assert await store.count(name) == 1


def test_a_path_with_a_nul_is_refused(tmp_path: Path) -> None:
    """No disk has such a path."""
    with pytest.raises(ConfigurationError, match="NUL"):
        MilvusLiteStore(f"{tmp_path}/a\0b.db")


async def test_entering_while_the_store_closes_waits_for_it(tmp_path: Path) -> None:
    """Also when whoever closed it was cancelled."""
    path = await _filled(tmp_path / "rag.db")
    store = MilvusLiteStore(path)
    await store.__aenter__()
    await store.count("c")

    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    async with store:
        assert await store.count("c") == 30
    await asyncio.gather(closing, return_exceptions=True)


async def test_cancelling_an_opening_frees_the_file(tmp_path: Path) -> None:
    """Whenever it comes; the same object and others can open the file then."""
    path = await _filled(tmp_path / "rag.db")
    for wait in (0, 0, 0.001, 0.005):
        store = MilvusLiteStore(path)
        opening = asyncio.create_task(store.__aenter__())
        await asyncio.sleep(wait)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await store.close()

        async with MilvusLiteStore(path) as other:
            assert await other.count("c") == 30
        async with store:
            assert await store.count("c") == 30


async def _filled(path: Path) -> Path:
    """A file with 30 chunks."""
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("a")], [record("a", n) for n in range(30)])
    return path


# --- filters and metrics ---


async def test_filters_compare_alike_after_reopening(tmp_path: Path) -> None:
    """Values and ranges of many fields, with lists, long texts, nothing, and a name that looks like another field's
    value."""
    odd = "k0\x1fis\x1ftext:a"
    kinds: list[object] = ["a", "b", 1, 1.5, True, None, ["a", "b"], "long " * 60]
    rows = [{f"k{key}": kinds[(number + key) % len(kinds)] for key in range(number % 13)} for number in range(40)]
    rows += [{"k0": "a", odd: "a"}, {odd: "b"}, {"k0": "b"}, {"tags": [str(n) for n in range(3_000)]}]
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        for number, row in enumerate(rows):
            await store.insert("c", [record(f"{number:02}", metadata=row)])

    async with MilvusLiteStore(path) as store:
        for field in (*(f"k{key}" for key in range(12)), odd, "tags"):
            for where in (
                *(F(field) == value for value in kinds if not isinstance(value, list)),
                ~(F(field) == "a"),
                F(field).in_(["a", 1, None]),
                F(field).contains("a") | F(field).contains("2999"),
                ~(F(field) < 1.25),
                F(field).between(1, 1.5),
                (F(field) == "b") | (F("k1") == 1.5),
            ):
                hits = await store.search("c", [1.0, 0, 0, 0], 100, where)
                expected = [number for number, row in enumerate(rows) if matches(where, row)]
                assert sorted(int(hit.document_id) for hit in hits) == expected, where


@pytest.mark.parametrize(("metric", "distance"), [("COSINE", "Cosine"), ("IP", "Dot"), ("L2", "Euclid")])
async def test_every_metric_answers_as_the_reference(tmp_path: Path, metric, distance) -> None:
    """Scores, order and ties are those of MemoryStore with the same distance, also after reopening."""
    path = tmp_path / "rag.db"
    async with MemoryStore(distance=distance) as other:
        async with MilvusLiteStore(path, metric_type=metric) as store:
            await assert_congruent(store, other, seed=5, operations=12, score_tolerance=1e-4)
            rng = random.Random(4)
            vectors = [[rng.choice((-1.0, 1.0)) for _ in range(4)] for _ in range(60)]
            rows = [record(f"{n:03}", vector=vector) for n, vector in enumerate(vectors)]
            for one in (store, other):
                await one.create_collection("metric", 4)
                await one.insert("metric", rows)
            expected = await other.search("metric", [0.5, -0.25, 1.0, 0.125], 15)
        async with MilvusLiteStore(path) as store:
            info = await store.collection_info("metric")
            found = await store.search("metric", [0.5, -0.25, 1.0, 0.125], 15)

    assert info is not None
    assert info.distance == distance
    assert [(hit.document_id, hit.score) for hit in found] == [
        (hit.document_id, pytest.approx(hit.score, abs=1e-6)) for hit in expected
    ]


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
        left = {name: text for name, text in texts.items() if name not in set(gone)}
        reduced = await agreement(store, "c", left, asked)

    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        reopened = await agreement(store, "c", left, asked)

    assert min(whole, reduced, reopened) >= 0.99


def _batched(texts: dict[str, str], size: int) -> Iterator[tuple[tuple[str, str], ...]]:
    items = iter(texts.items())
    while part := tuple(itertools.islice(items, size)):
        yield part


async def test_a_collection_without_words_says_so_to_other_stores(tmp_path: Path) -> None:
    """A store with keyword search writes to it, and says why it cannot search it by words."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path, keyword=False) as store:
        await store.create_collection("c", 4)
        await store.create_collection("none", 0)
        await store.replace("c", [document("a")], [record("a", n, text="pear") for n in range(3)])
        await store.insert("none", [record("a", text="pear", vector=())])

        with pytest.raises(ConfigurationError, match="keyword"):
            await store.retrieve("c", RetrieveRequest(texts=["pear"]))

    async with MilvusLiteStore(path) as store:
        await store.insert("c", [record("a", 2, text="apple"), record("a", 3, text="pear"), record("b", text="pear")])

        with pytest.raises(ConfigurationError, match="'c' was created with keyword=False"):
            await store.retrieve("c", RetrieveRequest(texts=["pear"]))
        found = await store.search("c", [1.0, 0, 0, 0], 10)
        assert [hit.chunk.text for hit in found] == ["pear", "pear", "apple", "pear", "pear"]
        assert await store.count("none") == 1


# --- what lies in the file ---


async def test_documents_of_many_writes_are_the_same_after_reopening(tmp_path: Path) -> None:
    """Chunks added and written over, replaced documents, an empty one, and one in two scopes."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store, MemoryStore() as other:
        for one in (store, other):
            await one.create_collection("c", 4)
            await one.insert("c", [record("long", n, f"pear {n}", metadata={"n": n}) for n in range(0, 1_400, 2)])
            await one.insert("c", [record("long", n, f"plum {n}", metadata={"n": n}) for n in range(699, 720)])
            await one.insert("c", [record("long", 0, "first", title="First", vector=(0.0, 1.0, 0.0, 0.0))])
            await one.replace("c", [document("none", metadata={"k": [1]})], [])
            for version in range(30):
                await one.replace("c", [document("doc")], [record("doc", n, f"fig {version}") for n in range(60)])
            await one.replace("c", [document("doc")], [record("doc", n, f"fig {n}") for n in range(9)], scope="s")
        expected = await _seen(other)
        now = await _seen(store)

    async with MilvusLiteStore(path) as store:
        later = await _seen(store)
        await store.insert("c", [record("long", 1, "second")])
        await store.replace("c", [document("doc")], [])

        assert await store.count("c") == len(expected[1]) + 1 - 60
    assert now == expected
    assert later == expected


async def _seen(store: MilvusLiteStore | MemoryStore) -> tuple[object, ...]:
    words = await store.retrieve("c", RetrieveRequest(texts=["plum 710 first 7"], limit=30))
    return (
        await store.list_documents("c"),
        [(item.key, item.vector, item.chunk) async for item in store.iterate("c")],
        [(hit.key, round(hit.score, 9)) for hit in words],
        [hit.key for hit in await store.search("c", [0.0, 1.0, 0, 0], 40, F("n") >= 690)],
        [item.key for item in await store.list_chunks("c", "doc", limit=100)],
        await store.count("c", F("n").between(699, 720)),
    )


async def test_large_documents_are_written_in_pieces(tmp_path: Path) -> None:
    """20 MB in one call: readers in between see nothing of it, and it is there whole in the end."""
    text = "pear " * 4_000
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection("c", 4)
        writing = asyncio.create_task(store.replace("c", [document()], [record("doc", n, text) for n in range(1_000)]))
        seen = set()
        while not writing.done():
            seen.add(await store.count("c"))
            await asyncio.sleep(0.001)

        assert await writing == 0
        assert await store.count("c") == 1_000
        assert seen <= {0, 1_000}


async def test_a_search_right_after_a_write_is_one_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server it is two: another program's clock may be late, and its version may have been found in part."""
    asked = []
    search = LiteConnection.search

    def counting(self: LiteConnection, *arguments: object) -> object:
        asked.append(arguments)
        return search(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LiteConnection, "search", counting)
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document()], [record("doc", n) for n in range(3)])
        found = await store.search("c", [1.0, 0, 0, 0], 5)

    assert (len(found), len(asked)) == (3, 1)


async def test_after_a_failed_write_the_store_has_to_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Milvus Lite's memory and its log may differ then, so every call says so; what was acknowledged is there."""
    path = tmp_path / "rag.db"
    store = MilvusLiteStore(path)
    async with store:
        await store.create_collection("c", 4)
        await store.replace("c", [document()], [record("doc", n, "old") for n in range(3)])

        def failing(*_: object, **__: object) -> None:
            raise OSError("disk full")

        with monkeypatch.context() as patch:
            patch.setattr(milvus_lite.Collection, "insert", failing)
            with pytest.raises(StoreError, match=r"rag\.db: disk full"):
                await store.replace("c", [document()], [record("doc", n, "new") for n in range(2)])
        with pytest.raises(StoreError, match=r"earlier write .* failed .*disk full\); close this store"):
            await store.count("c")

    async with store:
        assert [item.chunk.text for item in await store.list_chunks("c", "doc")] == ["old"] * 3


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
