"""SQLiteStore passes the contract of all capabilities with any number of stores on one file."""

from pathlib import Path

import pytest

from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.stores.sqlite.database import Database
from agent_rag.stores.sqlite.jobs import merge
from agent_rag.stores.sqlite.schema import Collection
from agent_rag.stores.sqlite.segments import Segment, segments_of
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


def _segments(database: Database) -> list[Segment]:
    with database.reading() as connection:
        collection = Collection.load(connection, "c")
        assert collection is not None
        return segments_of(connection, collection)
