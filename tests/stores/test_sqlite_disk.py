"""SQLiteStore on disks that are full, read-only or on a network, and what is left of deleted text."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_rag.errors import StoreDamagedError, StoreError, StoreFullError
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.stores.sqlite.filesystem import network_type_in
from agent_rag.testing.records import document, record

EAST = (1.0, 0.0, 0.0, 0.0)
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="sudo scripts/test tests/stores/test_sqlite_disk.py (mounts a tmpfs)")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("sudo scripts/test tests/stores/test_sqlite_disk.py, where mounting is allowed, to run this")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def occupy(path: Path) -> None:
    """Take every byte that is left."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(handle, bytes(4_096)):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(handle)


def text_of(number: int) -> str:
    return f"document {number} says " + "something of no importance " * 60


async def fill(store: SQLiteStore, start: int = 0) -> int:
    """Write documents until the disk is full. Returns how many were acknowledged."""
    number = start
    while True:
        records = [record(f"d{number}", place, text_of(number), total=5) for place in range(5)]
        try:
            await store.replace("c", [document(f"d{number}")], records)
        except StoreFullError:
            return number
        number += 1


@needs_root
async def test_a_full_disk_loses_nothing_and_can_be_freed(small_disk: Path) -> None:
    """Writing until it is full is a StoreFullError; all that was acknowledged is read, by this process and a new one;
    deleting makes room, also when not a byte is left; and then writing goes on. (ST03)"""
    path = small_disk / "store.db"
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        count = await fill(store)
        occupy(small_disk / "rest")
        listed = await store.list_documents("c")
        hits = await store.retrieve("c", RetrieveRequest(texts=["importance"], vectors=[EAST], limit=3))
        async with SQLiteStore(path) as other:
            counted = await other.count("c")
        removed = await store.delete_documents("c", [f"d{n}" for n in range(0, count, 2)])
        await store.replace("c", [document("new")], [record("new", text="after the flood")])

    async with SQLiteStore(path) as store:
        left = {summary.document_id for summary in await store.list_documents("c")}
        report = await store.check()

    assert count > 50
    assert len(listed) == count
    assert len(hits) == 3
    assert counted == 5 * count
    assert removed == 5 * len(range(0, count, 2))
    assert left == {"new", *(f"d{n}" for n in range(1, count, 2))}
    assert report.problems == []


@needs_root
async def test_a_store_on_a_full_disk_opens(small_disk: Path) -> None:
    """A process that begins when the disk is full reads, and deletes."""
    path = small_disk / "store.db"
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        count = await fill(store)

    async with SQLiteStore(path) as store:
        assert await store.count("c") == 5 * count
        assert await store.delete("c", "d0") == 5
        assert await store.count("c") == 5 * (count - 1)


@needs_root
async def test_compact_on_a_nearly_full_disk(small_disk: Path) -> None:
    """Where there is no room for a copy, pages are given back in place."""
    path = small_disk / "store.db"
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        count = await fill(store)
        await store.delete_documents("c", [f"d{n}" for n in range(0, count, 4)])

        report = await store.compact()

        assert report.bytes_after < report.bytes_before
        assert (await store.check()).problems == []


PROGRAM = """
import asyncio, sys
from agent_rag.errors import StoreReadOnlyError
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.testing.records import record

async def main():
    async with SQLiteStore(sys.argv[1]) as store:
        hits = await store.retrieve("c", RetrieveRequest(texts=["pear"], vectors=[(1.0, 0.0, 0.0, 0.0)], limit=5))
        print(sorted(hit.document_id for hit in hits), (await store.check()).problems)
        for write in (store.insert("c", [record("x")]), store.delete("c", "a"), store.create_collection("d", 4)):
            try:
                await write
                print("written")
            except StoreReadOnlyError as error:
                print("refused", "read-only" in str(error) or "readonly" in str(error))

asyncio.run(main())
"""


def read_as_somebody(path: Path) -> list[str]:
    """What a process without permission to write sees."""
    command = [sys.executable, "-c", PROGRAM, str(path)]
    if ROOT:
        command = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("what", ["folder", "file", "folder, left by a killed process"])
async def test_a_read_only_store_is_searched(tmp_path: Path, what: str) -> None:
    """Search and check work, also with commits that are only in the WAL; each write says why it cannot. (ST07)"""
    for parent in (tmp_path, *tmp_path.parents):
        if not parent.stat().st_mode & stat.S_IXOTH:
            try:
                parent.chmod(parent.stat().st_mode | 0o055)
            except OSError:
                pytest.skip("a temporary folder that others may enter, to run this")
    folder = tmp_path / "store"
    folder.mkdir()
    path = folder / "store.db"
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a", text="pear"), record("b", text="fig")])
        if "killed" in what:
            copies = tmp_path / "killed"
            copies.mkdir()
            names = [str(folder / f"store.db{suffix}") for suffix in ("", "-wal", "-seq")]
            subprocess.run(["cp", *names, str(copies)], check=True)
            folder, path = copies, copies / "store.db"
    for name in folder.iterdir():
        name.chmod(0o444)
    folder.chmod(0o555 if "folder" in what else 0o777)
    try:
        lines = await asyncio.to_thread(read_as_somebody, path)
    finally:
        folder.chmod(0o755)

    assert lines == ["['a', 'b'] []", *["refused True"] * 3]


async def test_deleted_text_leaves_no_byte(tmp_path: Path) -> None:
    """After deleting and compacting no deleted sentence is in the file or its WAL, searched by another process, and
    the file is not much larger than a fresh one of the rest. (ST06)"""
    path, fresh = tmp_path / "store.db", tmp_path / "fresh.db"
    kept = [n for n in range(300) if n % 10 >= 7]
    async with SQLiteStore(path) as store, SQLiteStore(fresh) as other:
        for one, numbers in ((store, list(range(300))), (other, kept)):
            await one.create_collection("c", 4)
            for n in numbers:
                secret = "kept" if n in kept else "ZEBRA-4711"
                records = [record(f"d{n}", p, f"{secret} {n} {text_of(n * 5 + p)}") for p in range(5)]
                await one.replace("c", [document(f"d{n}", title=secret)], records)
        await store.delete_documents("c", [f"d{n}" for n in range(300) if n not in kept])
        await store.compact()
        await other.compact()

        found = subprocess.run(
            ["grep", "-c", "-a", "-F", "ZEBRA-4711", str(path), f"{path}-wal"], capture_output=True, text=True
        )
        sizes = path.stat().st_size, fresh.stat().st_size
        hits = await store.retrieve("c", RetrieveRequest(texts=["zebra"], limit=5))

    assert [line.rpartition(":")[2] for line in found.stdout.splitlines()] == ["0", "0"]
    assert sizes[0] <= 1.1 * sizes[1]
    assert hits == []


async def test_closing_leaves_no_deleted_byte_either(tmp_path: Path) -> None:
    """The last one that closes empties the WAL, and pages were overwritten when they were freed."""
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("a")], [record("a", n, f"ZEBRA-4711 {text_of(n)}") for n in range(40)])
        await store.delete("c", "a")

    found = subprocess.run(["grep", "-c", "-a", "-F", "ZEBRA-4711", str(path)], capture_output=True, text=True)
    assert found.stdout == "0\n"
    assert not path.with_name("store.db-wal").exists()


async def test_a_wal_that_others_removed_is_noticed(tmp_path: Path) -> None:
    """A program that opens and closes the file in this process drops SQLite's locks, so that another process' close
    removes the WAL: the write that meets this is an error, not an acknowledgement."""
    path = tmp_path / "store.db"
    other = "import asyncio, sys; from agent_rag.stores.sqlite import SQLiteStore\n" + (
        "async def main():\n"
        "    async with SQLiteStore(sys.argv[1]) as store:\n"
        "        print(await store.count('c'))\n"
        "asyncio.run(main())\n"
    )
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])
        path.read_bytes()  # what a user must not do
        subprocess.run([sys.executable, "-c", other, str(path)], check=True, capture_output=True)
        try:
            await store.insert("c", [record("b")])
            acknowledged = True
        except StoreDamagedError:
            acknowledged = False

    async with SQLiteStore(path) as store:
        assert await store.count("c") >= 1 + acknowledged
        assert (await store.check()).problems == []


MOUNTS = [
    "22 1 0:20 / / rw - ext4 /dev/sda1 rw",
    "30 22 0:30 / /mnt/share rw shared:1 - nfs4 server:/export rw",
    "31 22 0:31 / /mnt/c rw - 9p C:\\134 rw",
    "32 22 0:32 / /mnt/share/local rw - xfs /dev/sdb rw",
    "33 22 0:33 / /mnt/with\\040blank rw - fuse.sshfs host: rw",
]


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/home/a", None),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/er", "nfs4"),
        ("/mnt/share/local/x", None),
        ("/mnt/shared", None),
        ("/mnt/c/Users", "9p"),
        ("/mnt/with blank/x", "fuse.sshfs"),
    ],
)
def test_network_file_systems_are_known(folder: str, expected: str | None) -> None:
    """The longest mount point decides."""
    assert network_type_in(MOUNTS, folder) == expected


async def test_on_a_network_file_system_it_works_without_a_wal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new store has a rollback journal there; one with a WAL is refused, since machines would corrupt it."""
    local, remote = tmp_path / "local.db", tmp_path / "remote.db"
    async with SQLiteStore(local) as store:
        await store.create_collection("c", 4)
    monkeypatch.setattr("agent_rag.stores.sqlite.database.network_type", lambda path: "nfs4")

    async with SQLiteStore(remote) as one, SQLiteStore(remote) as two:
        await one.create_collection("c", 4)
        await one.insert("c", [record("a", text="pear")])
        await two.insert("c", [record("b", text="fig")])
        found = [await store.count("c") for store in (one, two)]
    with pytest.raises(StoreError, match="network file system"):
        async with SQLiteStore(local):
            pass

    assert found == [2, 2]
    assert not list(tmp_path.glob("remote.db-wal"))


async def test_a_restored_backup_is_written_to(tmp_path: Path) -> None:
    """A backup has no WAL yet: put in the store's place, also beside what lay there, it is a store as before."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])
        await store.backup(copy)
        await store.insert("c", [record("lost")])

    copy.replace(path)
    async with SQLiteStore(path) as one, SQLiteStore(path) as two:
        await one.insert("c", [record("b")])
        await two.insert("c", [record("d")])
        counts = [await store.count("c") for store in (one, two)]
    async with SQLiteStore(path) as store:
        checked = await store.check()

    assert counts == [3, 3]
    assert checked.problems == []


async def test_a_store_from_a_network_share_is_written_to_on_a_local_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made without a WAL, and gets one."""
    path = tmp_path / "moved.db"
    with monkeypatch.context() as remote:
        remote.setattr("agent_rag.stores.sqlite.database.network_type", lambda path: "nfs4")
        async with SQLiteStore(path) as store:
            await store.create_collection("c", 4)

    async with SQLiteStore(path) as store:
        await store.insert("c", [record("a")])
        assert await store.count("c") == 1


async def test_without_syncing_writes_are_still_whole(tmp_path: Path) -> None:
    """`synced=False` keeps everything but the promise about a power cut."""
    async with SQLiteStore(tmp_path / "store.db", synced=False) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])
    async with SQLiteStore(tmp_path / "store.db") as store:
        assert await store.count("c") == 1
