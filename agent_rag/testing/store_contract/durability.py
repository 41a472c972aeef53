"""Core level: data that stay, calls that are large, a loop that goes on."""

from __future__ import annotations

import asyncio

import pytest

from ...documents import VectorRecord
from ...stores.base import VectorStoreBase
from ..loop import longest_block
from ..records import record
from .base import DIMENSIONS, EAST, NORTH, MakeStore, StoreFixtures, ids, when


class StoreDurability(StoreFixtures):
    """Closing and opening, size, pauses."""

    @when("persistent")
    async def test_data_are_there_after_reopening(self, make_store: MakeStore, collection: str) -> None:
        """What was written before a close is read after the next open, and can be changed then."""
        async with make_store() as store:
            await self.fill(store, collection, [record("a", text="kept", metadata={"k": "v"}), record("b")])
            await store.delete(collection, "b")
            await self.settle(store, collection)

        async with make_store() as store:
            hits = await store.search(collection, list(EAST), 5, {"k": "v"})
            await store.insert(collection, [record("c", vector=NORTH)])
            await self.settle(store, collection)
            listed = await store.list_documents(collection)

        assert [(hit.document_id, hit.chunk.text) for hit in hits] == [("a", "kept")]
        assert [summary.document_id for summary in listed] == ["a", "c"]

    @when("persistent")
    async def test_a_store_opens_and_closes_many_times(self, make_store: MakeStore, collection: str) -> None:
        """Each opening sees all that was written; no lock outlives its store."""
        for number in range(5):
            async with make_store() as store:
                await self.fill(store, collection, [record(str(number))])

        async with make_store() as store:
            assert ids(await store.search(collection, list(EAST), 50)) == [f"{n}:0" for n in range(5)]

    @when("shared")
    async def test_two_open_stores_see_each_other(self, make_store: MakeStore, collection: str) -> None:
        """What one store wrote, another open one reads, also the collection it did not create."""
        async with make_store() as writer, make_store() as reader:
            assert not await reader.has_collection(collection)

            await self.fill(writer, collection, [record("a")])

            assert ids(await reader.search(collection, list(EAST), 5)) == ["a:0"]

    async def test_concurrent_inserts_all_arrive(self, store: VectorStoreBase, collection: str) -> None:
        """Ten inserts at once lose nothing; creating the collection at once is harmless too."""
        await asyncio.gather(*(store.create_collection(collection, DIMENSIONS) for _ in range(4)))

        await asyncio.gather(
            *(store.insert(collection, [record(f"d{n}", i, total=20) for i in range(20)]) for n in range(10))
        )
        await self.settle(store, collection)

        listed = await store.list_documents(collection)
        assert [(summary.document_id, summary.chunk_count) for summary in listed] == [(f"d{n}", 20) for n in range(10)]

    @pytest.mark.slow
    async def test_a_call_of_36_megabytes_is_stored(self, store: VectorStoreBase, collection: str) -> None:
        """1,200 chunks of 30,000 characters in one call: more than most engines take in one message."""
        body = "lorem ipsum dolor sit amet " * 1_111
        records = [record("big", n, f"{n} {body}", total=1_200) for n in range(1_200)]

        await self.fill(store, collection, records)

        assert [summary.chunk_count for summary in await store.list_documents(collection)] == [1_200]
        hits = await store.search(collection, list(EAST), 3)
        assert [hit.chunk.text for hit in hits] == [records[n].chunk.text for n in range(3)]

    async def test_the_event_loop_goes_on(self, store: VectorStoreBase, collection: str) -> None:
        """Writing 1,000 chunks of 800 characters and searching them never stops the loop for long.

        The best of three trials counts, less the pauses of an idle process, since a busy machine pauses any process.
        """
        text = "Higher order functions take other functions, or return them. " * 13
        pauses = []
        for trial in range(3):
            name = f"{collection}t{trial}"
            records = [_wide(n, f"{n} {text}") for n in range(1_000)]
            await store.create_collection(name, 256)

            pauses.append(await longest_block(_write_and_search(store, name, records)))
            await store.delete_collection(name)

        assert min(pauses) <= self.max_loop_pause_s, pauses


async def _write_and_search(store: VectorStoreBase, collection: str, records: list[VectorRecord]) -> None:
    await store.insert(collection, records)
    await store.search(collection, records[0].vector, 10)


def _wide(number: int, text: str) -> VectorRecord:
    vector = [1.0 / (1 + (number * 31 + axis) % 97) for axis in range(256)]
    return record(f"d{number // 10:03}", number % 10, text, vector=vector)
