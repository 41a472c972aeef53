"""Vectors of an embedded Qdrant store that are held in memory as well."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import numpy as np
import pytest

from agent_rag import errors
from agent_rag.documents import VectorRecord, VectorSearchResult
from agent_rag.stores.qdrant import QdrantStore
from agent_rag.stores.qdrant.shard import Shard
from agent_rag.stores.qdrant.vector_cache import VectorCache
from agent_rag.testing.records import document, record

EAST = [1.0, 0.0, 0.0, 0.0]


def random_vectors(count: int, seed: int) -> list[list[float]]:
    vectors: list[list[float]] = np.random.default_rng(seed).normal(size=(count, 4)).tolist()
    return vectors


def records_of(document_id: str, vectors: list[list[float]]) -> list[VectorRecord]:
    return [record(document_id, index, vector=vector) for index, vector in enumerate(vectors)]


def shown(found: list[VectorSearchResult]) -> list[tuple[str, int, object]]:
    return [(hit.document_id, hit.chunk.chunk_index, pytest.approx(hit.score, abs=1e-6)) for hit in found]


def shard_of(store: QdrantStore) -> Shard:
    shard: Shard = store._engine._shards["c"][0]  # type: ignore[attr-defined]
    return shard


async def filled(store: QdrantStore) -> VectorCache:
    """The cache, once it answers."""
    for _ in range(500):
        cache = shard_of(store).cache
        if cache is not None and cache.is_complete:
            return cache
        await asyncio.sleep(0.01)
    raise AssertionError("the vectors were not read into memory")


# --- the cache itself ---


def test_the_best_points_come_with_all_that_tie() -> None:
    """Three points are asked for; the third and the fourth are equal."""
    cache = VectorCache(2, [])
    cache.put([(1, [1, 0]), (2, [1, 1]), (3, [0, 2]), (4, [0, 1]), (5, [-1, 0])])

    found = cache.nearest(np.array([1, 0], dtype=np.float32), 3)

    assert sorted(found) == [(1, 1.0), (2, pytest.approx(0.5**0.5)), (3, 0.0), (4, 0.0)]


def test_a_point_that_is_put_again_has_its_new_vector() -> None:
    """It is found once."""
    cache = VectorCache(2, [])
    cache.put([(1, [1, 0]), (2, [0, 1])])

    cache.put([(1, [0, -1])])

    assert sorted(cache.nearest(np.array([0, 1], dtype=np.float32), 5)) == [(1, -1.0), (2, 1.0)]


def test_dropped_points_are_never_found_and_give_their_room_back() -> None:
    """5,000 points come and go; ten stay."""
    cache = VectorCache(4, [])
    kept = random_vectors(10, seed=1)
    cache.put(enumerate(kept))

    for start in range(10, 5_010, 100):
        cache.put(zip(range(start, start + 100), random_vectors(100, seed=start), strict=True))
        cache.drop(range(start, start + 100))

    assert {point for point, _ in cache.nearest(np.array(EAST, dtype=np.float32), 50)} == set(range(10))
    assert len(cache) < 3_000


def test_only_the_points_asked_for_are_compared() -> None:
    """Unknown ones are left out."""
    cache = VectorCache(2, [])
    cache.put([(1, [1, 0]), (2, [1, 1]), (3, [0, 2])])

    found = cache.nearest(np.array([1, 0], dtype=np.float32), 5, [3, 2, 9])

    assert sorted(point for point, _ in found) == [2, 3]


# --- in the store ---


async def test_a_new_collection_is_held_from_its_first_write_on(tmp_path: Path) -> None:
    """Inserted, overwritten, replaced and deleted chunks are there as in a store without."""
    plain, cached = QdrantStore(path=tmp_path / "a", vector_cache_mb=0), QdrantStore(path=tmp_path / "b")
    rng = random.Random(3)
    async with plain, cached:
        for store in (plain, cached):
            await store.create_collection("c", 4)
        for turn in range(40):
            name, count = f"d{rng.randrange(8)}", rng.randrange(1, 700 if turn == 20 else 6)
            vectors = random_vectors(count, seed=turn)
            kind = rng.choice(["insert", "replace", "delete"])
            for store in (plain, cached):
                if kind == "insert":
                    await store.insert("c", records_of(name, vectors))
                elif kind == "replace":
                    await store.replace("c", [document(name)], records_of(name, vectors))
                else:
                    await store.delete("c", name)

            (query,) = random_vectors(1, seed=1_000 + turn)
            assert shown(await cached.search("c", query, 20)) == shown(await plain.search("c", query, 20))
        assert shard_of(plain).cache is None
        assert (await filled(cached)) is shard_of(cached).cache


async def test_an_opened_collection_is_read_into_memory_after_some_searches(tmp_path: Path) -> None:
    """What is written meanwhile is there, too; what is deleted meanwhile is not."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        for number in range(30):
            await store.insert("c", records_of(f"d{number}", random_vectors(50, seed=number)))
    async with QdrantStore(path=tmp_path) as store:
        before = await store.search("c", EAST, 20)
        assert shard_of(store).cache is None

        for _ in range(6):
            await store.search("c", EAST, 5)
        await asyncio.gather(
            store.insert("c", records_of("new", [[9.0, 0.0, 0.0, 0.0]])),
            store.delete("c", "d7"),
            store.replace("c", [document("d8")], records_of("d8", [[0.0, 1.0, 0.0, 0.0]])),
        )
        cache = await filled(store)

        after = await store.search("c", EAST, 20)
        assert len(cache) >= await store.count("c") == 30 * 50 + 1 - 50 - 50 + 1
        assert after[0].document_id == "new"
        stayed = [hit for hit in before if hit.document_id not in ("d7", "d8")]
        assert shown(after[1 : 1 + len(stayed)]) == shown(stayed)


async def test_a_collection_above_the_bound_is_searched_by_the_engine(tmp_path: Path) -> None:
    """1 MiB holds 131 vectors of 2,000 numbers."""
    async with QdrantStore(path=tmp_path, vector_cache_mb=1) as store:
        await store.create_collection("c", 2_000)
        await store.insert("c", [record("a", index, vector=[1.0] * 2_000) for index in range(100)])
        assert shard_of(store).cache is not None

        await store.insert("c", [record("b", index, vector=[1.0] * 2_000) for index in range(50)])

        assert shard_of(store).cache is None
        assert len(await store.search("c", [1.0] * 2_000, 150)) == 150


async def test_closing_does_not_wait_for_the_vectors(tmp_path: Path) -> None:
    """And the next opening begins anew."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.insert("c", records_of("d", random_vectors(3_000, seed=1)))
    for _ in range(3):
        async with QdrantStore(path=tmp_path) as store:
            for _ in range(6):
                found = await store.search("c", EAST, 5)
        assert len(found) == 5
    async with QdrantStore(path=tmp_path) as store:
        for _ in range(6):
            await store.search("c", EAST, 5)

        assert len(await filled(store)) == 3_000


def test_the_bound_is_checked() -> None:
    """It is for embedded stores, and not negative."""
    with pytest.raises(errors.ConfigurationError, match="only for an embedded store"):
        QdrantStore(url="http://localhost:6333", vector_cache_mb=5)
    with pytest.raises(errors.ConfigurationError, match="use a number from 0"):
        QdrantStore(":memory:", vector_cache_mb=-1)
