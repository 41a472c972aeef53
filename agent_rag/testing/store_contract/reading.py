"""Levels "fetch" and "iterate": exact reading, counting, collections, and everything in order."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ...documents import ChunkKey, VectorRecord
from ...errors import CollectionNotFoundError, DimensionMismatchError, StoreClosedError
from ...filters import F
from ...stores.base import RetrieveRequest
from ...stores.native import NativeStoreBase
from ..records import record
from .base import DIMENSIONS, EAST, NORTH, MakeStore, StoreFixtures, ids, keys, same_direction, when


class StoreReading(StoreFixtures):
    """fetch, list_chunks, count, collection_info, iterate, ping."""

    level: ClassVar[tuple[str, ...]] = ("native",)

    async def test_fetch_keeps_the_order_of_the_keys(self, store: NativeStoreBase, collection: str) -> None:
        """Chunks come in the order asked for; missing ones are left out."""
        await self.fill(store, collection, [record(name, n) for name in ("a", "b") for n in range(3)])
        wanted = [("b", 2), ("a", 0), ("missing", 0), ("b", 0), ("a", 9), ("a", 2)]

        found = await store.fetch(collection, [ChunkKey("", *key) for key in wanted])

        assert ids(found) == ["b:2", "a:0", "b:0", "a:2"]
        assert all(type(item) is VectorRecord for item in found)
        assert await store.fetch(collection, []) == []

    async def test_fetch_obeys_its_filter(self, store: NativeStoreBase, collection: str) -> None:
        """A chunk that does not match the filter is as good as missing."""
        await self.fill(store, collection, [record(name, metadata={"tenant": name}) for name in ("a", "b")])
        both = [ChunkKey("", "b", 0), ChunkKey("", "a", 0)]

        assert ids(await store.fetch(collection, both, {"tenant": "a"})) == ["a:0"]
        assert await store.fetch(collection, both, {"tenant": "c"}) == []

    async def test_vectors_come_only_when_asked_for(self, store: NativeStoreBase, collection: str) -> None:
        """fetch and list_chunks give empty vectors, or with `with_vectors` those that were stored."""
        await self.fill(store, collection, [record("a", vector=(1.0, 2.0, -3.0, 0.5))])
        key = ChunkKey("", "a", 0)

        plain = [*await store.fetch(collection, [key]), *await store.list_chunks(collection, "a")]
        full = [
            *await store.fetch(collection, [key], with_vectors=True),
            *await store.list_chunks(collection, "a", with_vectors=True),
        ]

        assert [item.vector for item in plain] == [[], []]
        assert len(full) == 2
        assert all(same_direction(item.vector, (1.0, 2.0, -3.0, 0.5)) for item in full)

    async def test_an_insert_leaves_the_other_chunks(self, store: NativeStoreBase, collection: str) -> None:
        """A document that gets a chunk and another text for one keeps the rest, with its vectors; so do others."""
        await self.fill(store, collection, [record(name, n, f"{name}{n}") for name in ("a", "b") for n in range(3)])

        await store.insert(collection, [record("a", 1, "new", vector=NORTH), record("a", 7, "more", vector=NORTH)])
        await self.settle(store, collection)

        found = [
            *await store.list_chunks(collection, "a", with_vectors=True),
            *await store.list_chunks(collection, "b", with_vectors=True),
        ]
        assert [(item.key.chunk_id, item.chunk.text) for item in found] == [
            ("a:0", "a0"), ("a:1", "new"), ("a:2", "a2"), ("a:7", "more"), ("b:0", "b0"), ("b:1", "b1"), ("b:2", "b2"),
        ]  # fmt: skip
        expected = [EAST, NORTH, EAST, NORTH, EAST, EAST, EAST]
        assert all(map(same_direction, (item.vector for item in found), expected))
        assert ids(await store.search(collection, list(NORTH), 2)) == ["a:1", "a:7"]

    async def test_list_chunks_pages_by_index(self, store: NativeStoreBase, collection: str) -> None:
        """A page is a range of chunk indexes, not of ranks: a gap makes it shorter."""
        await self.fill(store, collection, [record("a", n) for n in (11, 0, 1, 3, 10, 4)] + [record("b")])

        pages = {
            (offset, limit): [
                item.chunk.chunk_index for item in await store.list_chunks(collection, "a", offset=offset, limit=limit)
            ]
            for offset, limit in ((0, 3), (3, 3), (3, 8), (9, 100), (12, 5), (0, 0))
        }

        assert pages == {
            (0, 3): [0, 1],
            (3, 3): [3, 4],
            (3, 8): [3, 4, 10],
            (9, 100): [10, 11],
            (12, 5): [],
            (0, 0): [],
        }
        assert [item.chunk.chunk_index for item in await store.list_chunks(collection, "a")] == [0, 1, 3, 4, 10, 11]

    async def test_list_chunks_gives_30_by_default(self, store: NativeStoreBase, collection: str) -> None:
        """The seed's page size; walking the pages gives each chunk once."""
        await self.fill(store, collection, [record("a", n, total=70) for n in range(70)])

        first = await store.list_chunks(collection, "a")
        walked = [
            item.chunk.chunk_index
            for offset in range(0, 90, 30)
            for item in await store.list_chunks(collection, "a", offset=offset)
        ]

        assert [item.chunk.chunk_index for item in first] == list(range(30))
        assert walked == list(range(70))
        assert await store.list_chunks(collection, "unknown") == []

    async def test_list_chunks_obeys_its_filter(self, store: NativeStoreBase, collection: str) -> None:
        """Only chunks whose own metadata match."""
        await self.fill(store, collection, [record("a", n, metadata={"page": n // 2}) for n in range(6)])

        pages = await store.list_chunks(collection, "a", metadata_filter=F("page") >= 1)

        assert [item.chunk.chunk_index for item in pages] == [2, 3, 4, 5]

    async def test_count_counts_chunks(self, store: NativeStoreBase, collection: str) -> None:
        """Of the whole collection, or those that match; as an integer, right after writes and deletes."""
        await self.fill(store, collection, [record(name, n, metadata={"n": n}) for name in "ab" for n in range(3)])

        counts = [await store.count(collection), await store.count(collection, F("n") > 0)]
        await store.delete(collection, "a")
        await self.settle(store, collection)

        assert [*counts, await store.count(collection), await store.count(collection, {"n": 7})] == [6, 4, 3, 0]

    async def test_a_collection_remembers_what_it_is(self, store: NativeStoreBase, collection: str) -> None:
        """Name, dimensions and fingerprint; the fingerprint is recorded when new or when there was none."""
        assert await store.collection_info(collection) is None

        await store.create_collection(collection, DIMENSIONS)
        plain = await store.collection_info(collection)
        opened = await store.open_collection(collection, DIMENSIONS, fingerprint="model-a")
        again = await store.open_collection(collection, DIMENSIONS + 1, fingerprint="model-b")

        assert plain is not None
        assert (plain.name, plain.dimensions, plain.fingerprint) == (collection, DIMENSIONS, None)
        assert (opened.dimensions, opened.fingerprint) == (DIMENSIONS, "model-a")
        assert again == opened == await store.collection_info(collection)

    async def test_open_collection_creates(self, store: NativeStoreBase, collection: str) -> None:
        """A collection that does not exist is made, with its fingerprint, and listed among the others."""
        info = await store.open_collection(collection, DIMENSIONS, fingerprint="model-a")
        await store.create_collection(f"{collection}b", DIMENSIONS)

        names = await store.list_collections()

        assert (info.name, info.dimensions, info.fingerprint) == (collection, DIMENSIONS, "model-a")
        assert names == sorted(names)
        assert {collection, f"{collection}b"} <= set(names)
        await store.delete_collection(f"{collection}b")
        assert f"{collection}b" not in await store.list_collections()

    async def test_a_successor_has_its_own_fingerprint(self, store: NativeStoreBase, collection: str) -> None:
        """Dropping a collection drops what was recorded about it."""
        await store.open_collection(collection, DIMENSIONS, fingerprint="model-a")
        await store.delete_collection(collection)

        info = await store.open_collection(collection, 2, fingerprint="model-b")

        assert (info.dimensions, info.fingerprint) == (2, "model-b")

    @when("persistent")
    async def test_a_fingerprint_survives_reopening(self, make_store: MakeStore, collection: str) -> None:
        """What a collection is, is stored with it."""
        async with make_store() as store:
            before = await store.open_collection(collection, DIMENSIONS, fingerprint="model-a")

        async with make_store() as store:
            assert await store.collection_info(collection) == before

    async def test_reading_an_unknown_collection_names_it(self, store: NativeStoreBase, collection: str) -> None:
        """Each reading operation raises CollectionNotFoundError."""
        for call in (
            store.fetch(collection, [ChunkKey("", "a", 0)]),
            store.list_chunks(collection, "a"),
            store.count(collection),
            store.delete_by_filter(collection, {"a": 1}),
            store.retrieve(collection, RetrieveRequest(vectors=[EAST])),
        ):
            with pytest.raises(CollectionNotFoundError, match=collection):
                await call

    async def test_reading_a_closed_store_says_so(self, make_store: MakeStore, collection: str) -> None:
        """Each reading operation of a store that is not open raises StoreClosedError."""
        store = make_store()

        for call in (
            store.fetch(collection, [ChunkKey("", "a", 0)]),
            store.list_chunks(collection, "a"),
            store.count(collection),
            store.retrieve(collection, RetrieveRequest(vectors=[EAST])),
            store.collection_info(collection),
            store.open_collection(collection, DIMENSIONS),
            store.list_collections(),
        ):
            with pytest.raises(StoreClosedError):
                await call

    async def test_a_collection_without_vectors_works(self, store: NativeStoreBase, collection: str) -> None:
        """With 0 dimensions records have empty vectors; everything but semantic search works."""
        records = [record("a", n, vector=(), metadata={"n": n}) for n in range(3)]
        await self.fill(store, collection, records, dimensions=0)

        info = await store.collection_info(collection)
        with pytest.raises(DimensionMismatchError, match=collection):
            await store.insert(collection, [record("b", vector=EAST)])
        with pytest.raises(DimensionMismatchError, match=collection):
            await store.search(collection, list(EAST), 5)

        assert info is not None
        assert info.dimensions == 0
        assert ids(await store.list_chunks(collection, "a", metadata_filter=F("n") > 0)) == ["a:1", "a:2"]
        assert [item.chunk_count for item in await store.list_documents(collection)] == [3]
        await store.delete(collection, "a")
        await self.settle(store, collection)
        assert await store.count(collection) == 0

    async def test_an_empty_vector_is_refused_where_there_are_vectors(
        self, store: NativeStoreBase, collection: str
    ) -> None:
        """Only a collection of 0 dimensions takes records without a vector."""
        await self.fill(store, collection, [])

        with pytest.raises(DimensionMismatchError, match=collection):
            await store.insert(collection, [record("a", vector=())])

    async def test_an_open_store_answers_a_ping(self, store: NativeStoreBase) -> None:
        """`ping` of a store that works is ok."""
        health = await store.ping()

        assert health.ok, health.detail

    async def test_iterating_gives_everything_in_order(self, store: NativeStoreBase, collection: str) -> None:
        """Every record with its vector, by (scope, document id, chunk index), over batch borders."""
        records = [
            record(
                f"d{n % 7}", n // 7, f"text {n}", vector=(n + 1.0, 1.0, 0.0, -n), scope=f"s{n % 2}", metadata={"n": n}
            )
            for n in range(60)
        ]
        await self.fill(store, collection, records)

        found = [item async for item in store.iterate(collection, batch_size=7)]

        expected = sorted(records, key=lambda item: item.key)
        assert keys(found) == keys(expected)
        assert [item.chunk for item in found] == [item.chunk for item in expected]
        assert all(same_direction(a.vector, b.vector) for a, b in zip(found, expected, strict=True))

    async def test_iterating_obeys_its_filter(self, store: NativeStoreBase, collection: str) -> None:
        """Only matching records; nothing for an empty collection; an unknown one is named."""
        await self.fill(store, collection, [record("a", n, metadata={"n": n}) for n in range(9)])

        some = [item async for item in store.iterate(collection, F("n") >= 5, batch_size=2)]
        await store.delete(collection, "a")
        await self.settle(store, collection)
        none = [item async for item in store.iterate(collection)]

        assert ids(some) == ["a:5", "a:6", "a:7", "a:8"]
        assert none == []
        with pytest.raises(CollectionNotFoundError):
            await anext(aiter(store.iterate(f"{collection}x")))

    async def test_a_copy_answers_as_the_original(self, store: NativeStoreBase, collection: str) -> None:
        """Records from `iterate` can be inserted elsewhere and are then found with the same scores."""
        vectors = (EAST, NORTH, (3.0, 4.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
        await self.fill(store, collection, [record(str(n), vector=vector) for n, vector in enumerate(vectors)])
        copy = f"{collection}b"

        await self.fill(store, copy, [item async for item in store.iterate(collection)])

        original = await store.search(collection, list(EAST), 5)
        copied = await store.search(copy, list(EAST), 5)
        await store.delete_collection(copy)
        assert ids(copied) == ids(original)
        assert [hit.score for hit in copied] == pytest.approx([hit.score for hit in original], abs=self.score_tolerance)
