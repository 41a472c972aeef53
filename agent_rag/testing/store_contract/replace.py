"""Level "replace": a document is written whole, and a reader sees one version of it."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from ...documents import VectorRecord, storable_metadata
from ...errors import CollectionNotFoundError, ConfigurationError, DimensionMismatchError, RecordError
from ...stores.native import NativeStoreBase
from ..records import document, record
from .base import EAST, NORTH, MakeStore, StoreFixtures, ids, same_json, when
from .records import METADATA


def version(name: str, count: int, document_id: str = "doc") -> list[VectorRecord]:
    """`count` chunks that say which version they belong to, and of how many."""
    return [record(document_id, n, f"{name} {n}", metadata={"version": name}, total=count) for n in range(count)]


class StoreReplace(StoreFixtures):
    """replace and delete_documents."""

    level: ClassVar[tuple[str, ...]] = ("native",)

    async def texts(self, store: NativeStoreBase, collection: str) -> list[str]:
        """Texts of all chunks, by key."""
        hits = await store.search(collection, list(EAST), 1_000)
        return [hit.chunk.text for hit in sorted(hits, key=lambda hit: hit.key)]

    async def test_nothing_of_the_old_version_is_left(self, store: NativeStoreBase, collection: str) -> None:
        """With fewer, more and equally many chunks; the number of chunks that were there is returned."""
        await store.create_collection(collection, 4)
        before = []
        for number, count in enumerate((3, 1, 5, 5)):
            before.append(await store.replace(collection, [document()], version(f"v{number}", count)))
            await self.settle(store, collection)

            assert await self.texts(store, collection) == [f"v{number} {n}" for n in range(count)]
            assert [item.chunk_count for item in await store.list_documents(collection)] == [count]

        assert before == [0, 3, 1, 5]

    async def test_replacing_takes_over_what_was_inserted(self, store: NativeStoreBase, collection: str) -> None:
        """A document that came by `insert`, with gaps in its indexes, is replaced as any other."""
        await self.fill(store, collection, [record("doc", n, f"old {n}") for n in (0, 1, 7)] + [record("other")])

        before = await store.replace(collection, [document()], version("new", 2))
        await self.settle(store, collection)

        assert before == 3
        assert await self.texts(store, collection) == ["new 0", "new 1", "text"]

    async def test_several_documents_in_one_call(self, store: NativeStoreBase, collection: str) -> None:
        """Each of the named documents is replaced, also one that gets no chunks; others stay."""
        await self.fill(store, collection, [*version("old", 2, "a"), *version("old", 2, "b"), *version("old", 2, "c")])

        before = await store.replace(
            collection,
            [document("b"), document("a"), document("new")],
            [*version("new", 1, "new"), *version("new", 3, "a")],
        )
        await self.settle(store, collection)

        listed = await store.list_documents(collection)
        assert before == 4
        assert [(item.document_id, item.chunk_count) for item in listed] == [("a", 3), ("b", 0), ("c", 2), ("new", 1)]
        assert await self.texts(store, collection) == ["new 0", "new 1", "new 2", "old 0", "old 1", "new 0"]

    async def test_a_document_without_chunks_is_still_listed(self, store: NativeStoreBase, collection: str) -> None:
        """Its state is kept, so that a sync knows it; deleting removes 0 chunks and the document."""
        await store.create_collection(collection, 4)

        await store.replace(collection, [document("empty", state={"digest": "d"}, metadata={"k": "v"})], [])
        await self.settle(store, collection)

        (summary,) = await store.list_documents(collection, {"k": "v"})
        assert (summary.chunk_count, summary.state) == (0, {"digest": "d"})
        assert await store.delete(collection, "empty") == 0
        await self.settle(store, collection)
        assert await store.list_documents(collection) == []

    async def test_a_summary_comes_back(self, store: NativeStoreBase, collection: str) -> None:
        """Source, title, uri, metadata and state of the document are kept beside those of its chunks."""
        await store.create_collection(collection, 4)
        about = document(
            source="dir/naïve.md",
            title="A title",
            uri="https://example.org/?a=b",
            metadata=METADATA,
            state={"digest": "abc", "ключ": "值", "": ""},
            chunk_count=2,
        )
        before = about.model_copy(deep=True)

        await store.replace(collection, [about], version("v", 2))
        await self.settle(store, collection)

        (summary,) = await store.list_documents(collection)
        assert summary == about.model_copy(update={"metadata": summary.metadata})
        assert same_json(summary.metadata, storable_metadata(METADATA))
        assert about == before

    async def test_the_listing_filters_by_the_document(self, store: NativeStoreBase, collection: str) -> None:
        """`list_documents` looks at the document's metadata, search at the chunk's."""
        await store.create_collection(collection, 4)
        await store.replace(
            collection,
            [document("a", metadata={"kind": "book"}), document("b", metadata={"kind": "note"})],
            [*version("v", 1, "a"), *version("v", 1, "b")],
        )
        await self.settle(store, collection)

        assert [item.document_id for item in await store.list_documents(collection, {"kind": "note"})] == ["b"]
        assert await store.list_documents(collection, {"version": "v"}) == []
        assert ids(await store.search(collection, list(EAST), 5, {"version": "v"})) == ["a:0", "b:0"]
        assert await store.search(collection, list(EAST), 5, {"kind": "note"}) == []

    async def test_a_replaced_summary_survives_an_insert(self, store: NativeStoreBase, collection: str) -> None:
        """Chunks inserted later change the count, not the summary."""
        await store.create_collection(collection, 4)
        await store.replace(collection, [document(title="T", state={"digest": "d"})], version("v", 2))

        await store.insert(collection, [record("doc", 0, "changed"), record("doc", 2, "added")])
        await self.settle(store, collection)

        (summary,) = await store.list_documents(collection)
        assert (summary.title, summary.state, summary.metadata, summary.chunk_count) == ("T", {"digest": "d"}, {}, 3)
        assert await self.texts(store, collection) == ["changed", "v 1", "added"]

    async def test_a_replaced_document_has_no_old_state(self, store: NativeStoreBase, collection: str) -> None:
        """State, title and metadata of the former version are gone, also when it is inserted anew after a delete."""
        await store.create_collection(collection, 4)
        await store.replace(collection, [document(title="T", state={"a": "1"}, metadata={"m": 1})], version("v", 2))
        await store.replace(collection, [document(state={"b": "2"})], version("w", 1))
        await self.settle(store, collection)
        (replaced,) = await store.list_documents(collection)

        await store.delete(collection, "doc")
        await store.insert(collection, [record("doc")])
        await self.settle(store, collection)

        (inserted,) = await store.list_documents(collection)
        assert (replaced.title, replaced.state, replaced.metadata) == (None, {"b": "2"}, {})
        assert (inserted.title, inserted.state, inserted.metadata) == (None, {}, {})

    async def test_the_last_of_equal_records_wins(self, store: NativeStoreBase, collection: str) -> None:
        """As in insert."""
        await store.create_collection(collection, 4)

        await store.replace(collection, [document()], [record("doc", text="alpha"), record("doc", text="beta")])
        await self.settle(store, collection)

        assert await self.texts(store, collection) == ["beta"]
        assert [item.chunk_count for item in await store.list_documents(collection)] == [1]

    async def test_a_wrong_call_changes_nothing(self, store: NativeStoreBase, collection: str) -> None:
        """A document twice, a record of another document, a wrong vector and bad metadata are refused."""
        await self.fill(store, collection, version("old", 2))
        good = version("new", 1)

        for error, documents, records in (
            (ValueError, [document(), document()], good),
            (ValueError, [document()], [*good, record("foreign")]),
            (DimensionMismatchError, [document()], [*good, record("doc", 1, vector=(1.0,))]),
            (RecordError, [document()], [*good, record("doc", 1, metadata={"x": object()})]),
            (RecordError, [document(metadata={"x": object()})], good),
            (RecordError, [document("")], []),
        ):
            with pytest.raises(error):
                await store.replace(collection, documents, records)
        await self.settle(store, collection)

        assert await self.texts(store, collection) == ["old 0", "old 1"]

    async def test_replacing_in_an_unknown_collection_names_it(self, store: NativeStoreBase, collection: str) -> None:
        """CollectionNotFoundError, and no collection appears."""
        with pytest.raises(CollectionNotFoundError, match=collection):
            await store.replace(collection, [document()], version("v", 1))

        assert not await store.has_collection(collection)

    async def test_a_name_that_cannot_be_stored_is_refused(self, store: NativeStoreBase) -> None:
        """NUL and lone surrogates are in no collection's name."""
        for name in ("a\x00b", "a\ud800"):
            with pytest.raises(ConfigurationError, match="use another name"):
                await store.create_collection(name, 4)

    async def test_delete_returns_the_number_of_chunks(self, store: NativeStoreBase, collection: str) -> None:
        """0 for an unknown document, and for one outside the filter."""
        await self.fill(store, collection, version("v", 3))

        removed = [
            await store.delete(collection, "unknown"),
            await store.delete(collection, "doc", {"version": "w"}),
            await store.delete(collection, "doc", {"version": "v"}),
        ]
        await self.settle(store, collection)

        assert [*removed, await store.delete(collection, "doc")] == [0, 0, 3, 0]

    async def test_many_documents_are_deleted_at_once(self, store: NativeStoreBase, collection: str) -> None:
        """Unknown ids are skipped, the filter binds, the number of chunks is returned; an id twice is refused."""
        await self.fill(
            store, collection, [*version("x", 2, "a"), *version("y", 3, "b"), *version("x", 4, "c"), record("d")]
        )

        with pytest.raises(ValueError):
            await store.delete_documents(collection, ["a", "b", "a"])
        removed = await store.delete_documents(collection, ["a", "unknown", "b", "c"], {"version": "x"})
        await self.settle(store, collection)

        assert removed == 6
        assert [item.document_id for item in await store.list_documents(collection)] == ["b", "d"]
        assert await store.delete_documents(collection, []) == 0

    async def test_what_others_wrote_since_is_not_undone(self, store: NativeStoreBase, collection: str) -> None:
        """`replace_unchanged` leaves a document that was replaced or deleted since its version was asked for, and
        writes the others, in its scope."""
        await store.create_collection(collection, 4)
        names = ["kept", "replaced", "deleted"]
        for scope in ("", "t=1"):
            records = [one for name in names for one in version("v0", 2, name)]
            await store.replace(collection, [document(name) for name in names], records, scope=scope)
        before = await store.document_versions(collection, [*names, "unknown"])
        await store.replace(collection, [document("replaced")], version("other", 3, "replaced"))
        await store.delete_documents(collection, ["deleted"], None)
        await self.settle(store, collection)
        after = await store.document_versions(collection, names)

        lost = await store.replace_unchanged(
            collection,
            [document(name) for name in names],
            [one for name in names for one in version("mine", 1, name)],
            versions=before,
        )
        await self.settle(store, collection)

        assert set(before) == set(names)
        assert (after["kept"], set(after)) == (before["kept"], {"kept", "replaced"})
        assert lost == ["deleted", "replaced"]
        found = {
            name: [one.chunk.text for one in await store.list_chunks(collection, name) if not one.scope]
            for name in names
        }
        assert found == {"kept": ["mine 0"], "replaced": ["other 0", "other 1", "other 2"], "deleted": []}

    async def test_two_writers_leave_one_version(self, store: NativeStoreBase, collection: str) -> None:
        """Overlapping replaces of one document end with exactly one of them, whole."""
        await store.create_collection(collection, 4)

        for _ in range(self.race_trials):
            left, right = version("left", 5), version("right", 3)
            await asyncio.gather(
                store.replace(collection, [document(state={"v": "left"})], left),
                store.replace(collection, [document(state={"v": "right"})], right),
            )
            await self.settle(store, collection)

            texts = await self.texts(store, collection)
            (summary,) = await store.list_documents(collection)
            winner = {"left": left, "right": right}[summary.state["v"]]
            assert texts == [item.chunk.text for item in winner]
            assert summary.chunk_count == len(winner)

    @when("shared")
    async def test_two_stores_leave_one_version(self, make_store: MakeStore, collection: str) -> None:
        """As above, with a connection each."""
        async with make_store() as one, make_store() as two:
            await one.create_collection(collection, 4)

            for _ in range(self.race_trials):
                await asyncio.gather(
                    one.replace(collection, [document(state={"v": "5"})], version("left", 5)),
                    two.replace(collection, [document(state={"v": "3"})], version("right", 3)),
                )
                await self.settle(one, collection)

                texts = await self.texts(one, collection)
                (summary,) = await two.list_documents(collection)
                assert texts == [f"{'left' if summary.state['v'] == '5' else 'right'} {n}" for n in range(len(texts))]
                assert [len(texts), summary.chunk_count] == [int(summary.state["v"])] * 2

    async def test_a_reader_sees_one_version(self, store: NativeStoreBase, collection: str) -> None:
        """While a document grows and shrinks, each search and each listing gives one whole version of it."""
        await self.fill(store, collection, version("v", 4))
        seen: set[str] = set()
        done = asyncio.Event()

        async def read() -> None:
            while not done.is_set():
                hits = await store.search(collection, list(EAST), 100)
                names = {hit.chunk.metadata["version"] for hit in hits}
                assert len(names) == 1, f"{len(hits)} chunks of {names or 'no version'}"
                assert len(hits) == hits[0].chunk.total_chunks
                seen.update(names)
                chunks = await store.list_chunks(collection, "doc", limit=100)
                assert len({item.chunk.metadata["version"] for item in chunks}) == 1
                assert len(chunks) == chunks[0].chunk.total_chunks
                await asyncio.sleep(0)

        async def write() -> None:
            try:
                for number in range(self.race_trials):
                    await store.replace(collection, [document()], version(f"v{number}", 2 + number % 2 * 28))
                    await asyncio.sleep(0.001)
            finally:
                done.set()

        await asyncio.gather(write(), read(), read())

        assert len(seen) > 1

    @when("persistent")
    async def test_a_replaced_document_survives_reopening(self, make_store: MakeStore, collection: str) -> None:
        """One version, with its summary."""
        about = document(title="T", state={"digest": "d"}, metadata={"n": 1})
        async with make_store() as store:
            await self.fill(store, collection, version("old", 5))
            await store.replace(collection, [about], version("new", 2))
            await self.settle(store, collection)

        async with make_store() as store:
            texts = await self.texts(store, collection)
            (summary,) = await store.list_documents(collection)
            again = await store.replace(collection, [about], [record("doc", vector=NORTH)])

        assert texts == ["new 0", "new 1"]
        assert (summary.title, summary.state, summary.chunk_count) == ("T", {"digest": "d"}, 2)
        assert same_json(summary.metadata, {"n": 1})
        assert again == 2
