"""A document that is written and read in parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent_rag.documents import DocumentSummary, VectorRecord
from agent_rag.errors import RecordError, StoreError
from agent_rag.stores.sqlite import SQLiteStore, jobs
from agent_rag.testing.records import record


def records_of(document_id: str, word: str, count: int = 10) -> list[VectorRecord]:
    return [
        record(document_id, n, f"{word} number{n}", vector=(1.0, float(n), 0.0, 1.0), metadata={"n": n})
        for n in range(count)
    ]


def summary_of(document_id: str) -> DocumentSummary:
    return DocumentSummary(document_id=document_id, source=f"{document_id}.txt", chunk_count=0)


async def in_parts(records: Sequence[VectorRecord], size: int) -> AsyncIterator[Sequence[VectorRecord]]:
    for start in range(0, len(records), size):
        yield records[start : start + size]


async def stored(store: SQLiteStore) -> list[VectorRecord]:
    return [one async for one in store.iterate("c", batch_size=3)]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    async with SQLiteStore(tmp_path / "kb.db", synced=False) as store:
        await store.open_collection("c", 4)
        yield store


async def test_parts_make_the_document_that_the_whole_makes(store: SQLiteStore, tmp_path: Path) -> None:
    """Whatever their size; the older version is gone, documents beside it stay, words and numbers are found."""
    async with SQLiteStore(tmp_path / "whole.db", synced=False) as whole:
        await whole.open_collection("c", 4)
        for one in (store, whole):
            await one.replace("c", [summary_of("a"), summary_of("b")], records_of("a", "old", 3) + records_of("b", "x"))

        before = await store.replace_parts("c", summary_of("a"), in_parts(records_of("a", "new"), 4))
        await whole.replace("c", [summary_of("a")], records_of("a", "new"))

        assert before == 3
        assert await stored(store) == await stored(whole)
        assert await store.list_documents("c") == await whole.list_documents("c")
    assert await store.word_counts("c", ["new", "old", "number9"]) == {"new": 10, "number9": 2}
    assert await store.count("c", {"n": 9}) == 2
    assert (await store.check()).ok


async def test_what_fails_in_a_later_part_leaves_all_as_it_was(store: SQLiteStore) -> None:
    """A record that cannot be stored, chunks out of order, and a source of parts that fails."""
    await store.replace("c", [summary_of("a")], records_of("a", "old"))
    bad = records_of("a", "new")
    bad[7] = record("a", 7, "new", vector=(float("nan"), 0.0, 0.0, 0.0))

    async def broken() -> AsyncIterator[Sequence[VectorRecord]]:
        yield records_of("a", "new", 2)
        raise OSError("gone")

    with pytest.raises(RecordError, match="a:7"):
        await store.replace_parts("c", summary_of("a"), in_parts(bad, 4))
    with pytest.raises(ValueError, match="chunk 0 of document 'a' comes after chunk 9"):
        await store.replace_parts("c", summary_of("a"), in_parts(records_of("a", "new") + records_of("a", "new"), 10))
    with pytest.raises(OSError, match="gone"):
        await store.replace_parts("c", summary_of("a"), broken())

    assert {one.chunk.text.split()[0] for one in await stored(store)} == {"old"}
    assert (await store.check()).ok


async def test_no_parts_are_an_empty_document(store: SQLiteStore) -> None:
    """As `replace` with no records."""
    await store.replace("c", [summary_of("a")], records_of("a", "old"))

    before = await store.replace_parts("c", summary_of("a"), in_parts([], 4))

    assert before == 10
    assert [(one.document_id, one.chunk_count) for one in await store.list_documents("c")] == [("a", 0)]


async def test_a_long_document_is_read_in_pages_of_one_version(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of it are whole together; when it is replaced between two of them, that is said, not mixed."""
    monkeypatch.setattr(jobs, "_PAGE_CHUNKS", 4)
    for document_id in "abc":
        await store.replace("c", [summary_of(document_id)], records_of(document_id, "old"))

    everything = await stored(store)
    reading = store.iterate("c", batch_size=1)
    first = await anext(reading)
    await store.replace("c", [summary_of("a")], records_of("a", "new"))

    assert [one.key.chunk_id for one in everything] == [f"{name}:{n}" for name in "abc" for n in range(10)]
    assert first.key.chunk_id == "a:0"
    with pytest.raises(StoreError, match="document 'a' was replaced or deleted while its 10 chunks were read"):
        [one async for one in reading]
