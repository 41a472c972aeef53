"""A local file of MilvusLiteStore on a full disk, and after other errors of a write."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from agent_rag.errors import StoreError
from agent_rag.stores import MemoryStore
from agent_rag.testing import record

pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")
pytest.importorskip("resource", reason="the size of files cannot be limited on this system")

from milvus_lite import MilvusLite
from milvus_lite.engine.collection import Collection

from agent_rag.stores.milvus import MilvusLiteStore, lite_file
from tests.stores.milvus_file import Store, collection_of, disk_full, full_disk, replace, row_counts, start_process


async def seen(store: Store) -> list[tuple[object, ...]]:
    """Every document with what is in it, from the memory and from the file."""
    found: list[tuple[object, ...]] = []
    for one in await store.list_documents("c"):
        chunks = await store.list_chunks("c", one.document_id, limit=10_000)
        found.append((one.document_id, one.chunk_count, [item.chunk.text for item in chunks]))
    return found


async def after_kill(path: Path) -> list[tuple[object, ...]]:
    """`seen` as it would be if the process that has the file open were killed now."""
    copy = path.with_name(f"killed-{random.random()}.db")
    shutil.copytree(path, copy)
    async with MilvusLiteStore(copy) as store:
        return await seen(store)


async def test_a_failed_flush_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there is there, also while the disk is full; the next write that can be done is kept."""
    monkeypatch.setattr(lite_file, "_FLUSH_BYTES", 10_000)
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await replace(store, "first", 400)
        expected = await seen(store)

        with full_disk():
            for _ in range(2):
                with pytest.raises(StoreError, match=r"rag\.db"):
                    await replace(store, "second", 5)
            assert await seen(store) == expected
        assert await after_kill(path) == expected
        await replace(store, "third", 5)
        expected = await seen(store)
        assert [found[:2] for found in expected] == [("first", 400), ("third", 5)]
        assert await after_kill(path) == expected

    async with MilvusLiteStore(path) as store:
        assert await seen(store) == expected


async def test_what_follows_a_failed_write_survives_a_kill(tmp_path: Path) -> None:
    """The half message of the failed write is not in the log any more, in front of later ones."""
    path = tmp_path / "rag.db"
    writer = start_process(_FULL, str(path))
    output, _ = writer.communicate(timeout=60)

    async with MilvusLiteStore(path) as store:
        found = await seen(store)

    assert output.split() == ["failed", "after", "deleted"]
    assert [one[:2] for one in found] == [("after", 20)]


async def test_nothing_of_a_failed_write_appears_later(tmp_path: Path) -> None:
    """Of a document in several pieces, of a chunk that is added, of a deletion; and the pieces are removed at last."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await replace(store, "a", 3)
        await replace(store, "b", 3)
        expected = await seen(store)

        with full_disk(12_000_000), pytest.raises(StoreError):
            await replace(store, "a", 4, "long " * 1_000_000)
        for write in (
            lambda: replace(store, "c", 3),
            lambda: store.insert("c", [record("a", 3, "more")]),
            lambda: store.delete_documents("c", ["a"]),
        ):
            with full_disk(), pytest.raises(StoreError):
                await write()

            assert await seen(store) == expected
            assert await after_kill(path) == expected

    async with MilvusLiteStore(path) as store:
        assert await seen(store) == expected
        assert row_counts(store) == {"c": collection_of(store, "c").rows.count()}


async def test_a_write_counts_when_only_removing_the_old_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new version is in the file, so the call succeeds; the next opening removes the old one."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await replace(store, "a", 3, "old")
        monkeypatch.setattr(Collection, "delete", disk_full)

        await replace(store, "a", 2, "new")
        now = await seen(store)
        for n in range(2, 40):
            await store.insert("c", [record("a", n % 5, "added")])
        assert [one[:2] for one in await seen(store)] == [("a", 5)]
        monkeypatch.undo()
        last = await seen(store)

    async with MilvusLiteStore(path) as store:
        assert now == [("a", 2, ["new 0", "new 1"])]
        assert await seen(store) == last
        assert row_counts(store) == {"c": collection_of(store, "c").rows.count()}


@pytest.mark.parametrize("method", ["insert", "delete"])
async def test_a_write_that_fails_once_it_is_logged_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """As when Milvus Lite flushes of its own accord afterwards, and cannot."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await replace(store, "a", 3)
        expected = await seen(store)
        original = getattr(Collection, method)

        def late(self: Collection, *args: object) -> None:
            original(self, *args)
            disk_full()

        monkeypatch.setattr(Collection, method, late)
        with pytest.raises(StoreError, match="disk full"):
            await (store.delete_documents("c", ["a"]) if method == "delete" else replace(store, "a", 2, "new"))
        monkeypatch.undo()

        assert await seen(store) == expected
        assert await after_kill(path) == expected
    async with MilvusLiteStore(path) as store:
        assert await seen(store) == expected


async def test_memory_holds_what_the_file_holds_after_an_error(tmp_path: Path) -> None:
    """Also where the log lost something: no document is listed of which the chunks cannot be read."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await replace(store, "a", 3)
        (log,) = path.glob("collections/rag_c/wal/wal_data*")
        size = log.stat().st_size
        await replace(store, "b", 3)
        os.truncate(log, size)

        with full_disk(), pytest.raises(StoreError):
            await replace(store, "c", 3)

        assert [one[:2] for one in await seen(store)] == [("a", 3)]
        assert len(await store.search("c", [1.0, 0, 0, 0], 10)) == 3


async def test_closing_on_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """The log stays, and the file is free."""
    path = tmp_path / "rag.db"
    store = MilvusLiteStore(path)
    await store.__aenter__()
    await store.create_collection("c", 4)
    await replace(store, "a", 300)

    with full_disk():
        await store.close()

    async with MilvusLiteStore(path) as other:
        assert [one[:2] for one in await seen(other)] == [("a", 300)]


async def test_a_file_that_cannot_be_read_again_has_to_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call says so and nothing is acknowledged; opening it again finds what was."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await replace(store, "a", 3)
        expected = await seen(store)
        monkeypatch.setattr(MilvusLite, "get_collection", disk_full)
        with full_disk(), pytest.raises(StoreError):
            await replace(store, "b", 3)

        for call in (
            lambda: store.list_collections(),
            lambda: store.create_collection("d", 4),
            lambda: store.count("c"),
            lambda: store.search("c", [1.0, 0, 0, 0], 3),
            lambda: replace(store, "b", 3),
            lambda: store.delete_documents("c", ["a"]),
        ):
            with pytest.raises(StoreError, match=r"rag\.db could not be read again.*disk full.*opened again"):
                await call()
        monkeypatch.undo()

    async with MilvusLiteStore(path) as store:
        assert await seen(store) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_what_was_acknowledged_is_there_after_many_errors(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes with room for some of them, with flushes and merges in between: the store and the file, as it would be
    after a kill, hold what a store without errors holds that got the writes that succeeded."""
    monkeypatch.setattr(lite_file, "_FLUSH_BYTES", 30_000)
    rng = random.Random(seed)
    path = tmp_path / "rag.db"
    failed = 0
    async with MilvusLiteStore(path) as store, MemoryStore() as other:
        for one in (store, other):
            await one.create_collection("c", 4)
        for step in range(120):
            name, count, kind = f"d{rng.randrange(6)}", rng.randrange(1, 40), rng.randrange(4)

            async def write(
                one: Store, name: str = name, count: int = count, kind: int = kind, step: int = step
            ) -> None:
                if kind == 0:
                    await one.delete_documents("c", [name])
                elif kind == 1:
                    await one.insert("c", [record(name, count, f"added {step}")])
                else:
                    await replace(one, name, count, f"step {step}")

            try:
                with full_disk(rng.choice((0, 300, 3_000, 10_000, 10_000_000, 10_000_000))):
                    await write(store)
            except StoreError:
                failed += 1
            else:
                await write(other)
            if step % 10 == 0:
                assert await seen(store) == await seen(other)
                assert await after_kill(path) == await seen(other)
        expected = await seen(other)

    async with MilvusLiteStore(path) as store:
        assert await seen(store) == expected
        assert row_counts(store) == {"c": collection_of(store, "c").rows.count()}
    assert failed > 10


_FULL = """
import asyncio, os, resource, sys
from agent_rag.errors import StoreError
from agent_rag.stores.milvus import MilvusLiteStore
from agent_rag.testing.records import document, record

def replace(store, name, count):
    return store.replace("c", [document(name)], [record(name, n, "pear " * 100) for n in range(count)])

async def main():
    async with MilvusLiteStore(sys.argv[1]) as store:
        await store.create_collection("c", 4)
        await replace(store, "first", 50)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            await replace(store, "big", 600)
        except StoreError:
            print("failed")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await replace(store, "after", 20)
        print("after")
        await store.delete_documents("c", ["first"])
        print("deleted", flush=True)
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""
