"""Level "exchange": two collections get each other's names at one moment."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from ...documents import VectorRecord
from ...errors import CollectionNotFoundError, ConfigurationError
from ...stores.native import NativeStoreBase
from ..records import document, record
from .base import MakeStore, StoreFixtures, when

SHORT, LONG = (1.0, 0.0), (0.0, 0.0, 1.0, 0.0)


def one(text: str, vector: tuple[float, ...], document_id: str = "doc") -> VectorRecord:
    return record(document_id, 0, text, vector=vector, total=1)


class StoreExchange(StoreFixtures):
    """exchange_collections."""

    level: ClassVar[tuple[str, ...]] = ("native",)

    async def pair(self, store: NativeStoreBase, collection: str) -> str:
        """Two collections of different sizes, with a document each. Returns the name of the second."""
        second = f"{collection}__second"
        await store.open_collection(collection, 2, fingerprint="old")
        await store.open_collection(second, 4, fingerprint="new")
        await store.replace(collection, [document()], [one("former words", SHORT)])
        await store.replace(second, [document()], [one("later words", LONG)])
        await self.settle(store, collection)
        await self.settle(store, second)
        return second

    async def test_a_store_says_whether_it_can_exchange(self, store: NativeStoreBase, collection: str) -> None:
        """As the test class does; one that cannot changes nothing."""
        mine = type(self).__name__
        assert store.can_exchange == self.can_exchange, f"set `can_exchange = {store.can_exchange}` in {mine}"
        if store.can_exchange:
            return
        second = await self.pair(store, collection)

        with pytest.raises(ConfigurationError, match=type(store).__name__):
            await store.exchange_collections(collection, second)

        info = await store.collection_info(collection)
        assert info is not None
        assert info.fingerprint == "old"

    @when("can_exchange")
    async def test_exchanged_collections_have_each_others_names(self, store: NativeStoreBase, collection: str) -> None:
        """With sizes, models, documents and words; each is written, exchanged back and dropped like any other."""
        second = await self.pair(store, collection)

        await store.exchange_collections(collection, second)

        infos = [await store.collection_info(name) for name in (collection, second)]
        assert [(info.name, info.dimensions, info.fingerprint) for info in infos if info] == [
            (collection, 4, "new"),
            (second, 2, "old"),
        ]
        assert {collection, second} <= set(await store.list_collections())
        assert [hit.chunk.text for hit in await store.search(collection, list(LONG))] == ["later words"]
        assert [hit.chunk.text for hit in await store.search(second, list(SHORT))] == ["former words"]
        opened = await store.open_collection(collection, 4, fingerprint="new")
        assert (opened.name, opened.dimensions, opened.fingerprint) == (collection, 4, "new")
        await store.replace(collection, [document()], [one("latest words", LONG)])
        await store.delete_documents(second, ["doc"])
        await self.settle(store, collection)
        assert [item.chunk.text for item in await store.list_chunks(collection, "doc")] == ["latest words"]
        assert await store.list_documents(second) == []
        await store.exchange_collections(second, collection)
        assert await store.count(collection) == 0
        await store.delete_collection(collection)
        assert [item.chunk.text for item in await store.list_chunks(second, "doc")] == ["latest words"]
        assert (await store.has_collection(collection), await store.has_collection(second)) == (False, True)
        await store.open_collection(collection, 3, fingerprint="third")
        assert (await store.count(collection), await store.count(second)) == (0, 1)

    @when("can_exchange")
    async def test_a_name_that_is_free_again_can_be_used(self, store: NativeStoreBase, collection: str) -> None:
        """Whoever was made with it is somebody else's now."""
        second = await self.pair(store, collection)
        await store.exchange_collections(collection, second)
        before = set(await store.list_collections())

        for size in (3, 4):
            await store.delete_collection(collection)
            assert set(await store.list_collections()) == before - {collection}
            await store.open_collection(collection, size)
            assert set(await store.list_collections()) == before
            assert await store.count(collection) == 0

        await store.replace(collection, [document("new")], [one("new words", LONG, "new")])
        await self.settle(store, collection)
        await store.exchange_collections(second, collection)
        assert [item.document_id for item in await store.list_documents(second)] == ["new"]
        assert [item.chunk.text for item in await store.list_chunks(collection, "doc")] == ["former words"]
        await store.delete_collection(second)
        assert [hit.chunk.text for hit in await store.search(collection, list(SHORT))] == ["former words"]

    @when("can_exchange")
    async def test_an_exchange_with_nobody_changes_nothing(self, store: NativeStoreBase, collection: str) -> None:
        """The collection that is not there is named."""
        await self.pair(store, collection)

        for names in ((collection, "nobody"), ("nobody", collection)):
            with pytest.raises(CollectionNotFoundError, match="nobody"):
                await store.exchange_collections(*names)

        info = await store.collection_info(collection)
        assert info is not None
        assert (info.dimensions, info.fingerprint) == (2, "old")

    @when("can_exchange", "persistent")
    async def test_an_exchange_survives_reopening(self, make_store: MakeStore, collection: str) -> None:
        """The names are kept with the data."""
        async with make_store() as store:
            second = await self.pair(store, collection)
            await store.exchange_collections(collection, second)

        async with make_store() as store:
            assert [item.chunk.text for item in await store.list_chunks(collection, "doc")] == ["later words"]
            assert [item.chunk.text for item in await store.list_chunks(second, "doc")] == ["former words"]

    @when("can_exchange", "shared")
    async def test_another_open_store_sees_the_exchange(self, make_store: MakeStore, collection: str) -> None:
        """Once it has looked what the collection is."""
        async with make_store() as one_store, make_store() as other:
            second = await self.pair(one_store, collection)
            assert [hit.chunk.text for hit in await other.search(collection, list(SHORT))] == ["former words"]

            await one_store.exchange_collections(collection, second)

            info = await other.collection_info(collection)
            assert (info.dimensions, info.fingerprint) == (4, "new")
            assert [hit.chunk.text for hit in await other.search(collection, list(LONG))] == ["later words"]
            await other.replace(collection, [document()], [one("latest words", LONG)])
            await self.settle(other, collection)
            assert [item.chunk.text for item in await one_store.list_chunks(collection, "doc")] == ["latest words"]

    @when("can_exchange")
    async def test_readers_and_writers_see_one_of_both(self, store: NativeStoreBase, collection: str) -> None:
        """While names go back and forth, a read finds one of the two documents, and a write is in one collection."""
        second = f"{collection}__second"
        for name in (collection, second):
            await store.open_collection(name, 2)
            await store.replace(name, [document()], [one(name, SHORT)])
        await self.settle(store, collection)
        done = asyncio.Event()
        written: list[str] = []

        async def read() -> None:
            while not done.is_set():
                (found,) = await store.list_chunks(collection, "doc")
                assert found.chunk.text in (collection, second)
                assert len(await store.search(collection, list(SHORT), 1)) == 1
                await asyncio.sleep(0)

        async def write() -> None:
            while not done.is_set():
                written.append(f"w{len(written)}")
                await store.replace(collection, [document(written[-1])], [one("w", SHORT, written[-1])])

        async def exchange() -> None:
            try:
                for _ in range(self.race_trials):
                    await store.exchange_collections(collection, second)
            finally:
                done.set()

        await asyncio.gather(exchange(), read(), write())
        await self.settle(store, collection)
        await self.settle(store, second)

        listed = [{item.document_id for item in await store.list_documents(name)} for name in (collection, second)]
        assert listed[0] & listed[1] == {"doc"}
        assert listed[0] | listed[1] == {"doc", *written}
