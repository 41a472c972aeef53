"""The core level: the seven methods, called with their own arguments only."""

from __future__ import annotations

import asyncio
import math

import pytest

from ...documents import VectorSearchResult
from ...errors import CollectionNotFoundError, DimensionMismatchError, StoreClosedError, StoreUnavailableError
from ...stores.base import VectorStoreBase
from ..records import record
from .base import DIMENSIONS, EAST, NORTH, UP, WEST, MakeStore, StoreFixtures, ids, when


class StoreCore(StoreFixtures):
    """Collections, scores, order, errors."""

    async def test_the_test_class_says_what_the_store_is(self, make_store: MakeStore) -> None:
        """`native` and `keyword_search` of the test class are those of the store."""
        assert (fault := self.misdeclared(make_store())) is None, fault

    async def test_a_collection_exists_from_creation_to_deletion(self, store: VectorStoreBase, collection: str) -> None:
        """Creating twice and deleting twice are harmless; positions and names of arguments are the seed's."""
        assert not await store.has_collection(collection)

        await store.create_collection(collection, DIMENSIONS)
        await store.create_collection(name=collection, dimensions=DIMENSIONS)
        assert await store.has_collection(name=collection) is True

        await store.delete_collection(collection)
        await store.delete_collection(name=collection)
        assert await store.has_collection(collection) is False

    async def test_creating_again_keeps_the_records(self, store: VectorStoreBase, collection: str) -> None:
        """create_collection on an existing collection changes nothing, whatever the dimensions."""
        await self.fill(store, collection, [record("a")])

        await store.create_collection(collection, DIMENSIONS + 1)

        assert ids(await store.search(collection, list(EAST), 5)) == ["a:0"]

    async def test_a_deleted_collection_can_have_other_dimensions(
        self, store: VectorStoreBase, collection: str
    ) -> None:
        """Nothing of a dropped collection is left in its successor of the same name."""
        await self.fill(store, collection, [record("old")])

        await store.delete_collection(collection)
        await self.fill(store, collection, [record("new", vector=(1.0, 0.0))], dimensions=2)

        assert ids(await store.search(collection, [1.0, 0.0], 5)) == ["new:0"]
        assert [summary.document_id for summary in await store.list_documents(collection)] == ["new"]

    async def test_collections_are_apart(self, store: VectorStoreBase, collection: str) -> None:
        """The same document in two collections is two documents."""
        other = f"{collection}b"
        await self.fill(store, collection, [record("doc", text="here")])
        await self.fill(store, other, [record("doc", text="there")])

        await store.delete(other, "doc")
        await self.settle(store, other)

        assert [hit.chunk.text for hit in await store.search(collection, list(EAST), 5)] == ["here"]
        assert await store.search(other, list(EAST), 5) == []
        await store.delete_collection(other)

    async def test_seed_arguments_work_by_name(self, store: VectorStoreBase, collection: str) -> None:
        """Every argument of the seven methods has the seed's name."""
        await store.create_collection(name=collection, dimensions=DIMENSIONS)
        await store.insert(collection=collection, records=[record("a", metadata={"kind": "note"})])
        await self.settle(store, collection)

        hits = await store.search(
            collection=collection, query_vector=list(EAST), top_k=1, metadata_filter={"kind": "note"}
        )
        listed = await store.list_documents(collection=collection, metadata_filter={"kind": "note"})
        await store.delete(collection=collection, document_id="a")
        await self.settle(store, collection)

        assert ids(hits) == ["a:0"]
        assert [summary.document_id for summary in listed] == ["a"]
        assert await store.list_documents(collection) == []

    async def test_scores_are_cosines(self, store: VectorStoreBase, collection: str) -> None:
        """Vectors at 0, 60, 90 and 180 degrees to the query score 1, .5, 0 and -1, whatever their length."""
        sixty = (math.cos(math.radians(60)) * 3, math.sin(math.radians(60)) * 3, 0.0, 0.0)
        records = [
            record("same", vector=(2.0, 0.0, 0.0, 0.0)),
            record("sixty", vector=sixty),
            record("right", vector=NORTH),
            record("opposite", vector=WEST),
        ]
        await self.fill(store, collection, records)

        hits = await store.search(collection, list(EAST), 10)

        assert ids(hits) == ["same:0", "sixty:0", "right:0", "opposite:0"]
        assert [hit.score for hit in hits] == pytest.approx([1.0, 0.5, 0.0, -1.0], abs=self.score_tolerance)
        assert all(isinstance(hit, VectorSearchResult) and type(hit.score) is float for hit in hits)

    async def test_equal_scores_are_ordered_by_document_and_index(
        self, store: VectorStoreBase, collection: str
    ) -> None:
        """Ties go by (document id, chunk index), index 10 after index 2, and ids by code point, not by locale."""
        order = [("B", 0), ("a", 2), ("a", 10), ("b", 0), ("é", 0), ("文", 0)]
        await self.fill(store, collection, [record(name, index) for name, index in reversed(order)])

        hits = await store.search(collection, list(EAST), 10)

        assert [(hit.document_id, hit.chunk.chunk_index) for hit in hits] == order

    async def test_ties_at_the_cut_go_by_document(self, store: VectorStoreBase, collection: str) -> None:
        """With more equal scores than `top_k`, the first ids in order are kept."""
        await self.fill(store, collection, [record(f"d{number:02}") for number in reversed(range(40))])

        hits = await store.search(collection, list(EAST), 3)

        assert ids(hits) == ["d00:0", "d01:0", "d02:0"]

    async def test_top_k_bounds_the_hits(self, store: VectorStoreBase, collection: str) -> None:
        """At most `top_k` hits, 5 by default; none for 0 and below; all when there are fewer."""
        await self.fill(store, collection, [record(f"d{number}") for number in range(7)])

        found = {top_k: len(await store.search(collection, list(EAST), top_k)) for top_k in (-1, 0, 1, 7, 500)}

        assert found == {-1: 0, 0: 0, 1: 1, 7: 7, 500: 7}
        assert len(await store.search(collection, list(EAST))) == 5

    async def test_an_empty_collection_answers(self, store: VectorStoreBase, collection: str) -> None:
        """Search and list give nothing, deleting does nothing, inserting nothing does nothing."""
        await self.fill(store, collection, [])

        await store.insert(collection, [])
        await store.delete(collection, "unknown")

        assert await store.search(collection, list(EAST), 5) == []
        assert await store.list_documents(collection) == []

    async def test_an_unknown_collection_is_named(self, store: VectorStoreBase, collection: str) -> None:
        """Each operation on a collection that does not exist raises CollectionNotFoundError with its name."""
        for call in (
            store.insert(collection, [record()]),
            store.search(collection, list(EAST), 5),
            store.delete(collection, "doc"),
            store.list_documents(collection),
        ):
            with pytest.raises(CollectionNotFoundError, match=collection):
                await call

        assert not await store.has_collection(collection)

    async def test_a_wrong_dimension_is_refused_before_any_write(self, store: VectorStoreBase, collection: str) -> None:
        """One vector of another size refuses the whole call, and the message has both sizes and the collection."""
        await self.fill(store, collection, [])

        with pytest.raises(DimensionMismatchError) as caught:
            await store.insert(collection, [record("good"), record("bad", vector=(1.0, 2.0, 3.0))])
        await self.settle(store, collection)

        assert all(part in str(caught.value) for part in (collection, "4", "3"))
        assert await store.list_documents(collection) == []

    async def test_a_query_of_the_wrong_dimension_is_refused(self, store: VectorStoreBase, collection: str) -> None:
        """A query vector of another size raises DimensionMismatchError with both sizes and the collection."""
        await self.fill(store, collection, [record()])

        with pytest.raises(DimensionMismatchError) as caught:
            await store.search(collection, [1.0, 0.0], 5)

        assert all(part in str(caught.value) for part in (collection, "4", "2"))

    async def test_a_query_that_is_not_finite_is_refused(self, store: VectorStoreBase, collection: str) -> None:
        """NaN and infinity in a query vector raise a ValueError, as does an integer that is no float."""
        await self.fill(store, collection, [record()])

        for number in (math.nan, math.inf, 10**400):
            with pytest.raises(ValueError):
                await store.search(collection, [number, 0.0, 0.0, 0.0], 5)

    async def test_a_closed_store_says_so(self, make_store: MakeStore, collection: str) -> None:
        """Before it is entered and after it is left, every operation raises StoreClosedError."""
        store = make_store()
        with pytest.raises(StoreClosedError):
            await store.create_collection(collection, DIMENSIONS)

        async with store:
            await store.create_collection(collection, DIMENSIONS)

        for call in (
            store.create_collection(collection, DIMENSIONS),
            store.has_collection(collection),
            store.insert(collection, [record()]),
            store.search(collection, list(EAST), 5),
            store.delete(collection, "doc"),
            store.list_documents(collection),
            store.delete_collection(collection),
        ):
            with pytest.raises(StoreClosedError):
                await call

    async def test_an_error_in_the_block_closes_the_store(self, make_store: MakeStore, collection: str) -> None:
        """An exception inside ``async with`` goes through, the store is closed, and closing again is harmless."""
        store = make_store()

        with pytest.raises(ZeroDivisionError):
            async with store:
                raise ZeroDivisionError

        with pytest.raises(StoreClosedError):
            await store.has_collection(collection)
        await store.__aexit__(None, None, None)

    async def test_many_searches_at_once_all_answer(self, store: VectorStoreBase, collection: str) -> None:
        """Concurrent searches do not disturb each other."""
        vectors = (EAST, NORTH, UP)
        await self.fill(store, collection, [record(str(n), vector=vector) for n, vector in enumerate(vectors)])

        found = await asyncio.gather(*(store.search(collection, list(vectors[n % 3]), 1) for n in range(12)))

        assert [hits[0].document_id for hits in found] == [str(n % 3) for n in range(12)]

    async def test_equality_filters_narrow_search_and_listing(self, store: VectorStoreBase, collection: str) -> None:
        """A mapping keeps what equals all its values, before `top_k` is counted: 100 nearer chunks of another
        tenant do not hide five of this one."""
        near = [record(f"a{n}", metadata={"tenant": "a", "year": 2024}) for n in range(100)]
        far = [record(f"b{n}", vector=NORTH, metadata={"tenant": "b", "year": 2020 + n}) for n in range(5)]
        await self.fill(store, collection, [*near, *far])

        hits = await store.search(collection, list(EAST), 5, {"tenant": "b"})
        one = await store.search(collection, list(EAST), 5, {"tenant": "b", "year": 2022})
        listed = await store.list_documents(collection, {"tenant": "b", "year": 2023})

        assert ids(hits) == [f"b{n}:0" for n in range(5)]
        assert ids(one) == ["b2:0"]
        assert [summary.document_id for summary in listed] == ["b3"]
        assert await store.search(collection, list(EAST), 5, {"tenant": "c"}) == []
        assert len(await store.search(collection, list(EAST), 200, {})) == 105

    @when("has_unavailable")
    async def test_a_server_that_is_gone_is_unavailable(self, unavailable: VectorStoreBase, collection: str) -> None:
        """Entering or the first call raises StoreUnavailableError within seconds, without secrets in its text."""
        with pytest.raises(StoreUnavailableError):
            async with asyncio.timeout(30), unavailable as store:
                await store.search(collection, list(EAST), 5)
