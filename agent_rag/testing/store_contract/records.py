"""Core level: what goes in comes out."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import pytest

from ...content import Base64Source, DataBlock, URLSource
from ...documents import storable_metadata
from ...errors import RecordError
from ...stores.base import VectorStoreBase
from ..records import record
from .base import DIMENSIONS, EAST, NORTH, UP, StoreFixtures, ids, same_json, when

METADATA: dict[str, Any] = {
    "text": "Grüße, 世界 👋🏽",
    "a.b": "dotted",
    "nested": {"deep": {"deeper": [1, {"x": None}]}, "a.b": 1},
    "list": ["a", 1, 1.5, True, None, ["b"]],
    "empty": [],
    "nothing": None,
    "yes": True,
    "no": False,
    "int": 1,
    "float": 1.0,
    "tiny": 1e-300,
    "third": 1 / 3,
    "big": 2**53 + 1,
    "bigger": -(2**70),
    "date": date(2024, 5, 1),
    "moment": datetime(2024, 5, 1, 10, 30, tzinfo=UTC),
    "tuple": ("x", "y"),
    "": "empty key",
    "$set": "operator",
    'quo"te': "it's",
    "sp ace\n": "\t",
    "ключ": "значение",
    "back\\slash": "\\",
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class StoreRecords(StoreFixtures):
    """Inserting, reading back and deleting."""

    async def test_inserting_twice_is_inserting_once(self, store: VectorStoreBase, collection: str) -> None:
        """A document of five chunks that is inserted twice has five chunks."""
        records = [record("doc", n, f"text {n}", total=5) for n in range(5)]
        await self.fill(store, collection, records)

        await store.insert(collection, records)
        await self.settle(store, collection)

        assert ids(await store.search(collection, list(EAST), 50)) == [f"doc:{n}" for n in range(5)]
        assert [summary.chunk_count for summary in await store.list_documents(collection)] == [5]

    async def test_an_insert_overwrites_the_same_chunk(self, store: VectorStoreBase, collection: str) -> None:
        """The new vector, text and metadata count, and nothing of the old ones."""
        await self.fill(store, collection, [record("doc", text="old", metadata={"version": "one", "old": "yes"})])

        await store.insert(collection, [record("doc", text="new", vector=NORTH, metadata={"version": "two"})])
        await self.settle(store, collection)

        (hit,) = await store.search(collection, list(NORTH), 5)
        assert (hit.chunk.text, hit.chunk.metadata) == ("new", {"version": "two"})
        assert hit.score == pytest.approx(1.0, abs=self.score_tolerance)
        assert await store.search(collection, list(EAST), 5, {"version": "one"}) == []
        assert [summary.metadata for summary in await store.list_documents(collection)] == [{"version": "two"}]

    async def test_the_last_of_equal_ids_in_one_call_wins(self, store: VectorStoreBase, collection: str) -> None:
        """Two records with one id in a call are one record, the later one."""
        records = [record("x", text="alpha"), record("x", text="beta", vector=NORTH), record("y", text="other")]

        await self.fill(store, collection, records)

        hits = await store.search(collection, list(NORTH), 5)
        assert [(hit.document_id, hit.chunk.text) for hit in hits] == [("x", "beta"), ("y", "other")]
        assert [summary.chunk_count for summary in await store.list_documents(collection)] == [1, 1]

    async def test_deleting_removes_all_of_one_document(self, store: VectorStoreBase, collection: str) -> None:
        """Every chunk of the document is gone at once; others, also those of which its id is a part, stay."""
        names = ["x/a.txt", "./x/a.txt", "x/a", "a.txt"]
        await self.fill(store, collection, [record(name, n) for name in names for n in range(3)])

        await store.delete(collection, "x/a.txt")
        await store.delete(collection, "unknown")
        await self.settle(store, collection)

        assert {hit.document_id for hit in await store.search(collection, list(EAST), 50)} == set(names[1:])
        listed = await store.list_documents(collection)
        assert [(summary.document_id, summary.chunk_count) for summary in listed] == [
            ("./x/a.txt", 3),
            ("a.txt", 3),
            ("x/a", 3),
        ]

    async def test_metadata_comes_back_as_json(self, store: VectorStoreBase, collection: str) -> None:
        """Unicode, odd keys, nesting, null, big integers and floats come back as they were; dates as ISO 8601."""
        await self.fill(store, collection, [record("doc", metadata=METADATA)])

        (hit,) = await store.search(collection, list(EAST), 5)
        (summary,) = await store.list_documents(collection)

        expected = storable_metadata(METADATA)
        assert same_json(hit.chunk.metadata, expected), hit.chunk.metadata
        assert same_json(summary.metadata, expected), summary.metadata

    async def test_every_field_of_a_chunk_comes_back(self, store: VectorStoreBase, collection: str) -> None:
        """Span, section, heading path, title, uri and embed_text are kept."""
        full = record(
            "doc",
            3,
            "Body.\r\n\r\n  End ",
            total=9,
            source="dir/naïve file.md",
            section_index=2,
            span=(10, 25),
            heading_path=["One", "Two > three"],
            title="A title",
            uri="https://example.org/a?b=c#d",
            embed_text="what is embedded",
            metadata={"page": 7},
        )
        await self.fill(store, collection, [full])

        (hit,) = await store.search(collection, list(EAST), 5)

        assert (hit.document_id, hit.chunk) == ("doc", full.chunk)

    async def test_images_come_back(self, store: VectorStoreBase, collection: str) -> None:
        """A chunk may be data, carried or linked, with its name and caption."""
        carried = DataBlock(source=Base64Source(data=PIXEL, media_type="image/png"), name="p.png", caption="a pixel")
        linked = DataBlock(
            source=URLSource.model_validate({"url": "https://example.org/i.png", "media_type": "image/png"})
        )
        await self.fill(store, collection, [record("doc", 0, carried), record("doc", 1, linked)])

        hits = await store.search(collection, list(EAST), 5)

        assert [hit.chunk.content for hit in hits] == [carried, linked]

    async def test_characters_that_no_database_keeps_are_dropped(self, store: VectorStoreBase, collection: str) -> None:
        """NUL and lone surrogates go from texts, keys and values; the records are stored and found."""
        records = [
            record("nul", text="o\x00er", metadata={"k\x00": "v\x00"}, title="t\x00", heading_path=["h\x00"]),
            record("surrogate", text="a \ud800 b", source="s\ud800.txt", metadata={"x": ["\udfff", "y"]}),
        ]

        await self.fill(store, collection, records)

        hits = await store.search(collection, list(EAST), 5)
        assert [hit.chunk.text for hit in hits] == ["oer", "a  b"]
        assert [hit.chunk.metadata for hit in hits] == [{"k": "v"}, {"x": ["", "y"]}]
        assert (hits[0].chunk.title, hits[0].chunk.heading_path, hits[1].chunk.source) == ("t", ["h"], "s.txt")
        assert ids(await store.search(collection, list(EAST), 5, {"k": "v"})) == ["nul:0"]

    async def test_documents_are_listed_in_order(self, store: VectorStoreBase, collection: str) -> None:
        """One summary per document by id, with source, title, uri, metadata and the number of chunks."""
        about: dict[str, Any] = {"title": "T", "uri": "file:///t", "source": "t.md", "metadata": {"kind": "note"}}
        records = [record("b", n, total=3, **about) for n in (2, 0, 1)]
        await self.fill(store, collection, [*records, record("a"), record("文")])

        listed = await store.list_documents(collection)

        assert [(summary.document_id, summary.chunk_count) for summary in listed] == [("a", 1), ("b", 3), ("文", 1)]
        middle = listed[1]
        assert (middle.source, middle.metadata) == ("t.md", {"kind": "note"})
        if self.native:
            assert (middle.title, middle.uri, middle.state) == ("T", "file:///t", {})
        assert [summary.source for summary in listed] == ["file.txt", "t.md", "file.txt"]

    @when("native")
    async def test_a_document_is_described_by_its_first_chunk(self, store: VectorStoreBase, collection: str) -> None:
        """The one with the lowest index, in whatever order the chunks came, and in one call or several."""
        later = [record("a", n, metadata={"n": n}, title=f"T{n}", source=f"{n}.md") for n in (4, 2, 3)]
        await self.fill(store, collection, later)
        described = []

        for index in (5, 1):
            (summary,) = await store.list_documents(collection)
            described.append((summary.metadata, summary.title, summary.source, summary.chunk_count))
            await store.insert(collection, [record("a", index, metadata={"n": index}, title="T", source="x.md")])
            await self.settle(store, collection)

        (summary,) = await store.list_documents(collection)
        described.append((summary.metadata, summary.title, summary.source, summary.chunk_count))
        assert described == [
            ({"n": 2}, "T2", "2.md", 3),
            ({"n": 2}, "T2", "2.md", 4),
            ({"n": 1}, "T", "x.md", 5),
        ]

    async def test_any_document_id_works(self, store: VectorStoreBase, collection: str) -> None:
        """Quotes, slashes, colons, spaces, emoji and 512 characters are no problem, and case counts."""
        family = "\U0001f469\u200d\U0001f467"
        names = ["it's", 'q"q', "C:\\x", "a:1", "a:1:0", "%_*?", " lead", "na\u00efve", "nai\u0308ve", family, "Case",
                 "case", "x" * 512, "文" * 512, "${x}", "a\nb", "; drop table"]  # fmt: skip
        await self.fill(store, collection, [record(name, text=name) for name in names])

        assert [summary.document_id for summary in await store.list_documents(collection)] == sorted(names)
        for name in names:
            await store.delete(collection, name)
            await self.settle(store, collection)
            left = {summary.document_id for summary in await store.list_documents(collection)}
            assert left == set(names[names.index(name) + 1 :])

    async def test_a_bad_identity_is_refused(self, store: VectorStoreBase, collection: str) -> None:
        """An id is never altered: one that cannot be stored, an empty one and a negative index raise RecordError."""
        await self.fill(store, collection, [])

        for bad in (record("a\x00"), record("a\ud800"), record(""), record("a", -1)):
            with pytest.raises(RecordError):
                await store.insert(collection, [record("good"), bad])
        await self.settle(store, collection)

        assert await store.list_documents(collection) == []

    async def test_a_bad_record_is_refused_before_any_write(self, store: VectorStoreBase, collection: str) -> None:
        """Numbers that are not finite (as 32-bit floats) and metadata that is not JSON refuse the whole call."""
        await self.fill(store, collection, [])
        bad = [record("bad", vector=(number, 0.0, 0.0, 0.0)) for number in (math.nan, math.inf, -math.inf, 1e300)]
        bad += [record("bad", metadata={"x": value}) for value in (math.nan, object(), b"bytes", {"y": [math.inf]})]

        for item in bad:
            with pytest.raises(RecordError):
                await store.insert(collection, [record("good"), item])
        await self.settle(store, collection)

        assert await store.list_documents(collection) == []

    async def test_a_zero_vector_scores_zero(self, store: VectorStoreBase, collection: str) -> None:
        """A vector of zeros is stored and scores 0; a query of zeros scores everything 0."""
        zero = (0.0, 0.0, 0.0, 0.0)
        await self.fill(store, collection, [record("zero", vector=zero), record("east"), record("up", vector=UP)])

        hits = await store.search(collection, list(EAST), 5)
        nowhere = await store.search(collection, list(zero), 5)

        assert {hit.document_id: hit.score for hit in hits} == pytest.approx(
            {"east": 1.0, "up": 0.0, "zero": 0.0}, abs=self.score_tolerance
        )
        assert [hit.score for hit in nowhere] == pytest.approx([0.0, 0.0, 0.0], abs=self.score_tolerance)

    async def test_arguments_are_left_alone(self, store: VectorStoreBase, collection: str) -> None:
        """Records, filters and query vectors are the same after the call, and not shared with the store."""
        records = [record("a", metadata={"tags": ["x"], "n": {"m": 1}, "t": ("y",)}), record("a", text="dirty\x00")]
        before = [item.model_copy(deep=True) for item in records]
        vector, where = list(EAST), {"kind": "note"}
        await self.fill(store, collection, records)

        await store.search(collection, vector, 5, where)
        await store.list_documents(collection, where)

        assert records == before
        assert type(records[0].chunk.metadata["t"]) is tuple
        assert (vector, where) == (list(EAST), {"kind": "note"})

    async def test_what_a_reader_changes_is_its_own(self, store: VectorStoreBase, collection: str) -> None:
        """Changing a record after the insert, a hit or a summary does not change what is stored."""
        original = record("a", text="stored", metadata={"tags": ["x"]})
        await self.fill(store, collection, [original])

        original.chunk.metadata["tags"].append("writer")
        (hit,) = await store.search(collection, list(EAST), 5)
        hit.chunk.metadata["tags"].append("reader")
        hit.chunk.heading_path.append("reader")
        (summary,) = await store.list_documents(collection)
        summary.metadata["tags"].append("reader")

        (again,) = await store.search(collection, list(EAST), 5)
        assert (again.chunk.metadata, again.chunk.heading_path) == ({"tags": ["x"]}, [])
        assert [item.metadata for item in await store.list_documents(collection)] == [{"tags": ["x"]}]

    async def test_a_collection_may_have_many_dimensions(self, store: VectorStoreBase, collection: str) -> None:
        """3,072 dimensions, as the large hosted models have, work."""
        vector = [0.0] * 3_072
        vector[-1] = 1.0
        await self.fill(store, collection, [record("a", vector=vector)], dimensions=3_072)

        (hit,) = await store.search(collection, vector, 5)

        assert hit.score == pytest.approx(1.0, abs=max(self.score_tolerance, 1e-3))

    async def test_1500_records_in_one_call(self, store: VectorStoreBase, collection: str) -> None:
        """A call that is larger than an engine's page or batch is stored and read whole."""
        records = [record(f"d{n // 3:04}", n % 3, f"text number {n}", total=3) for n in range(1_500)]
        await store.create_collection(collection, DIMENSIONS)

        await store.insert(collection, records)
        await self.settle(store, collection)

        assert ids(await store.search(collection, list(EAST), 2_000)) == [item.key.chunk_id for item in records]
        listed = await store.list_documents(collection)
        assert [(summary.document_id, summary.chunk_count) for summary in listed] == [
            (f"d{n:04}", 3) for n in range(500)
        ]
