"""SQLiteStore passes the contract of all capabilities with any number of stores on one file."""

from pathlib import Path

import pytest

from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.stores.sqlite.database import Database
from agent_rag.stores.sqlite.jobs import merge
from agent_rag.stores.sqlite.merging import merged
from agent_rag.stores.sqlite.schema import Collection
from agent_rag.stores.sqlite.segments import LAST_KEY, TOKENS, Block, Segment, decoded, segments_of
from agent_rag.testing import StoreContract, record


class TestSQLiteStore(StoreContract):
    """Each store that is made has connections of its own."""

    can_exchange = True
    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SQLiteStore(tmp_path / "store.db")


class TestSQLiteStoreWithCodes(StoreContract):
    """The same without room for vectors: 8-bit codes find, the file decides."""

    can_exchange = True
    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SQLiteStore(tmp_path / "store.db", memory_mb=0)


async def test_segments_stay_few_and_whole(tmp_path: Path) -> None:
    """However much is written at once, a word is looked up in few segments, and a merge that another process was
    quicker with changes nothing."""
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.create_collection("c", 4)
        for at in range(9):
            await store.insert("c", [record(f"d{at}", index, "pear", total=700) for index in range(700)])
        for at in range(40):
            await store.insert("c", [record(f"e{at}", 0, "pear")])

    database = Database(tmp_path / "store.db", synced=True, wait_s=1.0)
    before = _segments(database)
    merge(database, "c", before[:2])
    after = _segments(database)
    merge(database, "c", before[:2])

    assert len(before) <= 20
    assert (after[0].base, after[0].stop, after[1:]) == (before[0].base, before[1].stop, before[2:])
    assert _segments(database) == after
    database.close()
    async with SQLiteStore(tmp_path / "store.db") as store:
        assert (await store.check()).ok
        assert await store.word_counts("c", ["pear"]) == {"pear": 6_340}


async def test_a_merge_in_pieces_gives_what_one_at_once_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of keys after another, all of them, and without the chunks that are gone."""
    monkeypatch.setattr("agent_rag.stores.sqlite.segments._POSTINGS", 10)
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.create_collection("c", 4)
        for at in range(4):
            texts = [f"pear word{at} word{at + n} word{n * n}" for n in range(30)]
            await store.insert("c", [record(f"d{at}", n, text, total=30) for n, text in enumerate(texts)])
        await store.delete_documents("c", ["d1"])
    database = Database(tmp_path / "store.db", synced=True, wait_s=1.0)
    segments = _segments(database)

    with database.reading() as connection:
        whole = list(merged(connection, segments))
        monkeypatch.setattr("agent_rag.stores.sqlite.segments._SLICE_BLOCKS", 3)
        pieces = list(merged(connection, segments))
    database.close()

    assert len(segments) == 4
    assert len(whole) > 10
    assert pieces != whole
    assert [(kind, first) for kind, first, until, _ in pieces if first] == [
        (kind, until) for kind, first, until, _ in pieces if until != LAST_KEY
    ]
    assert _postings(pieces) == _postings(whole)
    assert {chunk // 30 for kind, _, chunk, _ in _postings(pieces) if kind == TOKENS} == {0, 2, 3}


def _postings(blocks: list[Block]) -> list[tuple[int, int, int, float]]:
    """(kind, key, chunk, value) of all blocks."""
    found = [(block.kind, decoded(block.data)) for block in blocks]
    return [
        (kind, *posting)
        for kind, part in found
        for posting in zip(part.keys.tolist(), part.chunks.tolist(), part.values.tolist(), strict=True)
    ]


def _segments(database: Database) -> list[Segment]:
    with database.reading() as connection:
        collection = Collection.load(connection, "c")
        assert collection is not None
        return segments_of(connection, collection)
