"""Without pgvector a large collection is searched by codes: candidates by bits, ranked by exact comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from agent_rag import LocalEmbeddingModel
from agent_rag.filters import F, FilterLike
from agent_rag.stores import MemoryStore, PostgresStore
from agent_rag.stores.postgres.codes import Candidates, codes
from agent_rag.testing import record
from agent_rag.testing.records import document
from tests.shared import needs_shared, retrieval_set

from .postgres_servers import BINARIES, stock_server
from .postgres_vectors import Vectors, clustered, recall

asyncpg = pytest.importorskip("asyncpg", reason="pip install 'agent-rag-middleware[postgres]' to run this")
EAST, NORTH = (1.0, 0.0), (0.0, 1.0)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    if not BINARIES:
        pytest.skip("run scripts/servers (apt-get install postgresql) to run this")
    with stock_server() as address:
        yield address


def differing(one: Vectors, other: Vectors) -> Any:
    """Number of bits that differ, row by row."""
    return np.unpackbits(codes(one) ^ codes(other), axis=1).sum(axis=1)


# --- codes ---


@pytest.mark.parametrize("dimensions", [2, 48, 256, 1_024, 1_536])
def test_the_share_of_differing_bits_is_the_angle(dimensions: int) -> None:
    """Of 1,024 bits: none at 0 degrees, a sixth at 30, a half at 90, all at 180; within four standard deviations of
    independent bits, and on average over 200 pairs within one percent of all bits."""
    rng = np.random.default_rng(3)
    drawn = rng.normal(size=(2, 200, dimensions))
    first = drawn[0] / np.linalg.norm(drawn[0], axis=1)[:, None]
    across = drawn[1] - (drawn[1] * first).sum(axis=1)[:, None] * first
    across /= np.linalg.norm(across, axis=1)[:, None]

    for degrees in (0, 30, 90, 180):
        angle, share = math.radians(degrees), degrees / 180
        second = math.cos(angle) * first + math.sin(angle) * across
        found = differing(first.astype(np.float32), second.astype(np.float32))
        assert abs(found - 1_024 * share).max() <= 4 * math.sqrt(1_024 * share * (1 - share)) + 1
        assert found.mean() == pytest.approx(1_024 * share, abs=10.24)


def test_codes_never_change() -> None:
    """What is stored was made by an earlier version. The first unit vector of 1,024 is turned to a row of signs, whose
    bits here come from SHAKE-128 and Sylvester's matrix, built by doubling."""
    import hashlib

    drawn = np.unpackbits(np.frombuffer(hashlib.shake_128(b"agent_rag").digest(384), np.uint8)).reshape(3, 1_024)
    hadamard = np.ones((1, 1))
    while len(hadamard) < 1_024:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    vectors = np.random.default_rng(4).normal(size=(3, 1_024)).astype(np.float32)
    turned = vectors.astype(np.float64)
    for signs in drawn.astype(np.float64) * 2 - 1:
        turned = (turned * signs) @ hadamard

    assert (codes(vectors) == np.packbits(turned > 0, axis=1)).all()


@pytest.mark.parametrize(
    ("effort", "limit", "size", "expected"),
    [
        (400, 10, 100_000, 400),
        (400, 5, 1_000, 160),  # 400 x .01^.3 = 100, but at least .4 of 400
        (400, 10, 10_000_000, 1_592),  # 400 x 100^.3
        (400, 1_000, 100_000, 4_000),  # 400 x sqrt(100)
        (1, 10, 100_000, 10),  # what is wanted at least
    ],
)
def test_candidates_grow_slowly(effort: int, limit: int, size: int, expected: int) -> None:
    """Doubling with ten times the size, threefold with ten times the hits."""
    assert Candidates("t", [1.0], effort, limit).number(size) == expected


# --- searches ---


@pytest.mark.slow
async def test_codes_find_what_exact_comparison_finds(dsn: str, table: str) -> None:
    """For the ten nearest of 6,000, 64 candidates give a recall of at least .95: plain, and where a filter keeps few,
    many, and nearly all, by equality, range, membership and exclusion. Twice as many, 129, give .99."""
    held = clustered(6_040, 256)  # questions are of the same clusters
    vectors, queries = held[:6_000], held[6_000:]
    number = np.arange(6_000) % 100
    cases: list[tuple[FilterLike | None, Any]] = [
        (None, number >= 0),
        ({"n": 7}, number == 7),
        (F("n").in_(range(10)), number < 10),
        (F("n") < 10, number < 10),
        ({"half": True}, number % 2 == 0),
        (F("n") >= 50, number >= 50),
        (F("n") != 3, number != 3),
        ((F("half") == True) & (F("n") >= 20), (number % 2 == 0) & (number >= 20)),  # noqa: E712
    ]
    records = [
        record(f"d{n:04}", vector=row.tolist(), metadata={"n": n % 100, "half": n % 2 == 0})
        for n, row in enumerate(vectors)
    ]
    async with PostgresStore(dsn, table=table, keyword=False) as store:
        await store.create_collection("c", 256)
        await store.insert("c", records)
    for effort, least in ((150, 0.95), (300, 0.99)):
        async with PostgresStore(dsn, table=table, keyword=False, exact_below=50, ef_search=effort) as store:
            for where, mask in cases:
                assert await recall(store, vectors, queries, where, mask) >= least, (effort, where)


@pytest.mark.slow
@needs_shared
async def test_codes_find_the_nearest_abstracts(dsn: str, table: str) -> None:
    """5,000 abstracts of SciFact, 100 claims, the default number of candidates: recall at 10 is at least .98, at 100 at
    least .95."""
    texts, questions, _ = retrieval_set("scifact_train")
    model = LocalEmbeddingModel()
    vectors = np.array((await model(list(texts.values())[:5_000])).embeddings, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    queries = np.array((await model(list(questions.values())[:100])).embeddings, dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1)[:, None]
    everything = np.ones(len(vectors), dtype=bool)
    async with PostgresStore(dsn, table=table, keyword=False, exact_below=0) as store:
        await store.create_collection("c", vectors.shape[1])
        await store.insert("c", [record(f"d{n:04}", vector=row.tolist()) for n, row in enumerate(vectors)])

        assert await recall(store, vectors, queries, None, everything) >= 0.98
        assert await recall(store, vectors, queries, None, everything, 100) >= 0.95


async def test_a_filter_that_keeps_nothing_near_the_query_loses_nothing(dsn: str, table: str) -> None:
    """Half of 3,000 chunks are of the other language, whose vectors are apart: none of the 360 nearest matches."""
    german = np.arange(3_000) % 2 == 0
    held = clustered(3_000, 64)
    held[:, 0] = np.where(german, -1.0, 1.0)
    vectors = held / np.linalg.norm(held, axis=1)[:, None]
    queries = vectors[1:60:2]
    assert all(not german[np.argsort(-(vectors @ query))[:360]].any() for query in queries)
    records = [
        record(f"d{n:04}", vector=row.tolist(), metadata={"language": "de" if german[n] else "en"})
        for n, row in enumerate(vectors)
    ]
    async with PostgresStore(dsn, table=table, keyword=False) as store:
        await store.create_collection("c", 64)
        await store.insert("c", records)
    async with PostgresStore(dsn, table=table, keyword=False, exact_below=0) as store:
        assert await recall(store, vectors, queries, {"language": "de"}, german) >= 0.95


async def test_small_collections_are_compared_exactly(dsn: str, table: str) -> None:
    """One candidate would not do for the second nearest; `exact_below` decides by the number of chunks."""
    vectors = clustered(300, 16)
    records = [record(f"d{n:03}", vector=row.tolist()) for n, row in enumerate(vectors)]
    for exact_below, least in ((300, 1.0), (299, 0.0)):
        async with PostgresStore(dsn, table=table, exact_below=exact_below, ef_search=1) as store:
            await store.create_collection("c", 16)
            await store.replace("c", [document(one.document_id) for one in records], records)
            found = await recall(store, vectors, vectors[:50], None, np.ones(300, dtype=bool), 2)
            assert found == 1.0 if least else found < 1.0


async def test_codes_follow_replacing_and_deleting(dsn: str, table: str) -> None:
    """The nearest is what the documents hold now, as in MemoryStore."""
    turned = [record(f"d{n}", vector=(math.cos(n), math.sin(n))) for n in range(40)]
    async with PostgresStore(dsn, table=table, exact_below=0) as store, MemoryStore() as reference:
        for one in (store, reference):
            await one.create_collection("c", 2)
            await one.insert("c", turned)
            await one.replace("c", [document("d0")], [record("d0", vector=NORTH)])
            await one.delete("c", "d1")

        for query in (EAST, NORTH, (-1.0, 0.5)):
            actual, expected = await store.search("c", query, 40), await reference.search("c", query, 40)
            assert [hit.document_id for hit in actual] == [hit.document_id for hit in expected]
            assert [hit.score for hit in actual] == pytest.approx([hit.score for hit in expected], abs=1e-6)


# --- schema ---


@pytest.mark.parametrize(
    ("distance", "engine"), [("Cosine", "coded"), ("Dot", "array"), ("Euclid", "array"), ("Manhattan", "array")]
)
async def test_only_angles_have_codes(dsn: str, table: str, admin: Any, distance: Any, engine: str) -> None:
    """Other metrics also depend on lengths, which bits do not tell, and stay exact."""
    async with PostgresStore(dsn, table=table, distance=distance, exact_below=0, ef_search=1) as store:
        await store.create_collection("c", 2)
        await store.insert("c", [record("near", vector=(3.0, 0.1)), record("far", vector=(-3.0, 0.0))])

        hits = await store.search("c", EAST, 2)

    assert [hit.document_id for hit in hits] == ["near", "far"]
    assert await admin.fetchval(f"SELECT engine FROM {table}_collections") == engine


async def test_a_collection_of_an_earlier_version_stays_exact(dsn: str, table: str, admin: Any) -> None:
    """It has no codes; all else works, also with an operator's schema."""
    async with PostgresStore(dsn, table=table) as store:
        await store.create_collection("c", 2)
        await store.insert("c", [record("a", vector=EAST)])
    await admin.execute(
        f"ALTER TABLE {table}_1_chunks DROP COLUMN code; ALTER TABLE {table}_1_chunks ADD PRIMARY KEY (id); "
        f"UPDATE {table}_collections SET engine = 'array'"
    )

    async with PostgresStore(dsn, table=table, exact_below=0, ef_search=1, setup_schema=False) as store:
        await store.insert("c", [record("b", vector=NORTH)])
        await store.replace("c", [document("a")], [record("a", vector=(0.6, 0.8))])

        hits = await store.search("c", NORTH, 2)

    assert [(hit.document_id, round(hit.score, 6)) for hit in hits] == [("b", 1.0), ("a", 0.8)]
