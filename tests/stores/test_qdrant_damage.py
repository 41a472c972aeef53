"""The folder of an embedded Qdrant store: damaged, strange, full, or in the hands of a process that is killed."""

from __future__ import annotations

import asyncio
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_rag import errors
from agent_rag.filters import F
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.qdrant import QdrantStore
from agent_rag.stores.qdrant.shard import head_id
from agent_rag.testing.records import document, record

EAST = [1.0, 0.0, 0.0, 0.0]
_Usage = collections.namedtuple("_Usage", ["total", "used", "free"])


async def fill(folder: Path, *names: str) -> None:
    """Collections of 12 documents of one chunk, closed."""
    async with QdrantStore(path=folder) as store:
        for name in names:
            await store.create_collection(name, 4)
            for number in range(12):
                await store.replace(name, [document(f"d{number}")], [record(f"d{number}", text="pear")])


def tree(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


async def usable(folder: Path, name: str) -> bool:
    """Whether the collection answers in full, and takes a write."""
    async with QdrantStore(path=folder) as store:
        found = [
            await store.search(name, EAST, 50),
            await store.retrieve(name, RetrieveRequest(texts=["pear"], limit=50)),
        ]
        await store.replace(name, [document("new")], [record("new")])
        await store.delete(name, "new")
        return [len(hits) for hits in found] == [12, 12]


# --- what is not known ---


async def test_nothing_that_is_not_known_is_deleted(tmp_path: Path) -> None:
    """Folders and files of others stay, also one that looks like a collection whose description is lost."""
    await fill(tmp_path, "c", "lost")
    (tmp_path / "c-lost" / "collection.json").unlink()
    for name in ("notes/a.txt", "c-other/shard/segments/x", "dropped-mine/a", "making-notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = tree(tmp_path)

    assert await usable(tmp_path, "c")

    assert before.keys() <= tree(tmp_path).keys()


async def test_what_a_kill_left_of_making_and_dropping_goes(tmp_path: Path) -> None:
    """They bear names that only this store gives."""
    await fill(tmp_path, "c")
    for name in ("making", "dropped"):
        shutil.copytree(tmp_path / "c-c", tmp_path / f"{name}-{'0' * 32}")

    assert await usable(tmp_path, "c")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["c-c", "lock"]


# --- damage ---


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("collection.json", Path.unlink),
        ("collection.json", _cut),
        ("collection.json", _zero),
        ("shard", shutil.rmtree),
        ("shard/edge_config.json", _cut),
        ("shard/segments/*/version.info", Path.unlink),
        ("shard/segments/*/segment.json", Path.unlink),
        ("shard/segments/*/mutable_id_tracker.mappings", Path.unlink),
        ("shard/segments/*/mutable_id_tracker.mappings", _cut),
        ("shard/segments/*/mutable_id_tracker.versions", Path.unlink),
        ("shard/segments/*/payload_storage/config.json", Path.unlink),
        ("shard/segments/*/vector_storage-d/vectors/status.dat", _cut),  # the engine panics
    ],
)
async def test_damage_costs_its_collection_only(tmp_path: Path, pattern: str, damage: Callable[[Path], None]) -> None:
    """The damaged one says so to every call and is not made anew; another one works; deleting it makes room for it."""
    await fill(tmp_path, "bad", "good")
    (victim,) = (tmp_path / "c-bad").glob(pattern)
    damage(victim)

    async with QdrantStore(path=tmp_path) as store:
        for _ in range(2):
            with pytest.raises(errors.StoreDamagedError, match=r"c-bad|'bad'"):
                await store.search("bad", EAST)
        with pytest.raises(errors.StoreDamagedError):
            await store.replace("bad", [document("d1")], [record("d1")])
        assert "good" in await store.list_collections()
    assert await usable(tmp_path, "good")
    async with QdrantStore(path=tmp_path) as store:
        await store.delete_collection("bad")
        await store.create_collection("bad", 4)
        assert await store.count("bad") == 0


async def test_each_cut_of_the_description_is_noticed(tmp_path: Path) -> None:
    """Whatever its length; without its last line, the checksum, it is still whole."""
    await fill(tmp_path, "c")
    file = tmp_path / "c-c" / "collection.json"
    whole = file.read_bytes()
    line = whole.index(b"\n")

    for length in range(len(whole) - 1):
        file.write_bytes(whole[:length])
        async with QdrantStore(path=tmp_path) as store:
            if length in (line, line + 1):
                assert await store.has_collection("c")
            else:
                with pytest.raises(errors.StoreDamagedError, match=r"collection\.json"):
                    await store.has_collection("c")
                assert await store.list_collections() == []


async def test_a_flipped_digit_of_the_description_is_noticed(tmp_path: Path) -> None:
    """It is JSON all the same, and the checksum says no."""
    await fill(tmp_path, "c")
    file = tmp_path / "c-c" / "collection.json"
    file.write_text(file.read_text().replace('"chunk_count":12', '"chunk_count":13'))

    async with QdrantStore(path=tmp_path) as store:
        with pytest.raises(errors.StoreDamagedError, match="checksum"):
            await store.count("c")


async def test_documents_that_lost_chunks_in_a_crash_are_named(tmp_path: Path) -> None:
    """A crash does not lose points; where some are missing the files are damaged, and nothing more is removed."""
    async with QdrantStore(path=tmp_path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("long")], [record("long", n) for n in range(3)])
        shard, _ = store._engine._shards["c"]  # type: ignore[attr-defined]
        first = next(iter(shard.table.names)) << 24
        shard.update(shard.edge.UpdateOperation.delete_points([first + 1]))
        shard.hidden.add(99)  # closes as if it were killed

    async with QdrantStore(path=tmp_path) as store:
        with pytest.raises(errors.StoreDamagedError, match=r"lack chunks \(\['long'\]\)"):
            await store.count("c")


async def test_chunks_that_lost_their_document_are_not_deleted(tmp_path: Path) -> None:
    """A head that is gone without a trace is damage, and its chunks may be all that is left."""
    await fill(tmp_path, "c")
    async with QdrantStore(path=tmp_path) as store:
        await store.replace("c", [document("last")], [record("last")])
        shard, _ = store._engine._shards["c"]  # type: ignore[attr-defined]
        shard.update(shard.edge.UpdateOperation.delete_points([head_id(("", "d5"))]))
        shard.hidden.add(99)

    async with QdrantStore(path=tmp_path) as store:
        with pytest.raises(errors.StoreDamagedError, match="chunks without their document"):
            await store.count("c")


async def test_a_point_that_lost_its_payload_is_named(tmp_path: Path) -> None:
    """Its chunk cannot be read, and is not left out; the others can."""
    await fill(tmp_path, "c")
    async with QdrantStore(path=tmp_path) as store:
        await store.count("c")
        shard, _ = store._engine._shards["c"]  # type: ignore[attr-defined]
        (number,) = (number for number, name in shard.table.names.items() if name == ("", "d3"))
        shard.update(shard.edge.UpdateOperation.clear_payload([number << 24]))

        with pytest.raises(errors.StoreDamagedError, match="a point lacks what was written"):
            await store.list_chunks("c", "d3")
        assert len(await store.list_chunks("c", "d4")) == 1


# --- room ---


async def test_writes_are_refused_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 20 MiB left a write raises StoreFullError; searches and deletes go on, and with room writes do."""
    await fill(tmp_path, "c")
    async with QdrantStore(path=tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _: _Usage(1 << 30, 0, 20 << 20))
            with pytest.raises(errors.StoreFullError, match=r"20 MiB are free .* needs 32"):
                await store.replace("c", [document("d1")], [record("d1", text="new")])
            with pytest.raises(errors.StoreFullError):
                await store.create_collection("other", 4)
            texts = {hit.chunk.text for hit in await store.search("c", EAST, 50)}
            assert await store.count("c", F("no") > 1) == 0  # an index of the number would need room
            assert await store.delete("c", "d0") == 1

        await store.replace("c", [document("d1")], [record("d1", text="new")])
        assert texts == {"pear"}
        assert await store.count("c") == 11


# --- kill -9 ---

_READER = """
import asyncio, sys
from agent_rag.filters import F
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.qdrant import QdrantStore

async def main():
    print("start", flush=True)
    while True:
        async with QdrantStore(path=sys.argv[1]) as store:
            await store.retrieve("c", RetrieveRequest(texts=["pear"]))
            await store.search("c", [1.0, 0.0, 0.0, 0.0])

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_killed_reader_does_no_harm(tmp_path: Path) -> None:
    """At whatever moment of opening, searching and closing."""
    await fill(tmp_path, "c")
    rng = random.Random(5)
    for _ in range(10):
        with subprocess.Popen([sys.executable, "-c", _READER, str(tmp_path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            await asyncio.sleep(rng.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)

        assert await usable(tmp_path, "c")


_OPTIMIZER = """
import asyncio, sys
from agent_rag.stores.qdrant import QdrantStore
from agent_rag.stores.qdrant import optimizer

optimizer._OPTIMIZE = "import sys, time, qdrant_edge as e; s = e.EdgeShard.load(sys.argv[1]); time.sleep(60)"

async def main():
    async with QdrantStore(path=sys.argv[1]) as store:
        await store.list_documents("c")
        print("start", flush=True)
        await store.optimize("c")

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 and inherited locks are POSIX")
async def test_the_optimizing_process_ends_with_its_parent(tmp_path: Path) -> None:
    """Until then the folder is locked; then it opens, and has everything."""
    await fill(tmp_path, "c")
    with subprocess.Popen([sys.executable, "-c", _OPTIMIZER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        await asyncio.sleep(1.0)
        process.send_signal(signal.SIGKILL)

    deadline = time.monotonic() + 20
    while True:
        try:
            assert await usable(tmp_path, "c")
            break
        except errors.StoreLockedError:
            assert time.monotonic() < deadline, "the optimizing process goes on"
            await asyncio.sleep(0.05)
