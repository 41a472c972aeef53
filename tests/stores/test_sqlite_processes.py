"""SQLiteStore among processes: concurrent writers and readers, kills at any moment, the programs of this package."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_rag.errors import StoreLockedError
from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.testing.records import document, record
from tests.stores.sqlite_child import NAMES, prepare

CHILD = Path(__file__).with_name("sqlite_child.py")


Start = Callable[[str, Path, int, int], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children of a role; those that still run at the end are killed."""
    children: list[subprocess.Popen[str]] = []

    def run(role: str, path: Path, seed: int, count: int) -> subprocess.Popen[str]:
        command = [sys.executable, str(CHILD), role, str(path), str(seed), str(count)]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return children[-1]

    yield run
    for child in children:
        if child.poll() is None:
            child.kill()
            child.communicate()


def ended(child: subprocess.Popen[str]) -> list[list[str]]:
    """Words of the lines about writes that a child printed that ended well."""
    output, errors = child.communicate(timeout=300)
    assert child.returncode == 0, errors[-2_000:]
    return [line.split() for line in output.splitlines() if line.startswith("wrote")]


async def stored(path: Path) -> dict[str, tuple[int, int]]:
    """Version and size of each document; each is whole, everything is well, and no document came from nowhere."""
    async with SQLiteStore(path) as store:
        report = await store.check()
        assert report.problems == []
        found: dict[str, tuple[int, int]] = {}
        for name in NAMES:
            chunks = await store.list_chunks("c", name, limit=5_000)
            (seen,) = {(item.chunk.metadata["v"], item.chunk.metadata["size"]) for item in chunks}
            assert len(chunks) == seen[1]
            found[name] = seen
        return found


@pytest.mark.slow
async def test_four_writers_and_four_readers(tmp_path: Path, start: Start) -> None:
    """4 processes replace documents of 1 to 3,000 chunks 100 times each while 4 read: no mixture, no absence, no error,
    and what is left is what was acknowledged last by one of the writers."""
    path = tmp_path / "store.db"
    await prepare(path)

    readers = [start("read", path, seed, 25) for seed in range(4)]
    writers = [start("write", path, seed, 100) for seed in range(4)]
    lines = [await asyncio.to_thread(ended, writer) for writer in writers]
    for reader in readers:
        await asyncio.to_thread(ended, reader)
    left = await stored(path)

    last = [{line[1]: (int(line[2]), int(line[3])) for line in some} for some in lines]
    for name, seen in left.items():
        assert seen in [one[name] for one in last if name in one]


@pytest.mark.slow
async def test_kills_lose_nothing(tmp_path: Path, start: Start) -> None:
    """100 times kill -9 of writers, of readers, and of a process that opens, closes, compacts and backs up: what was
    acknowledged is there, nothing is half, and every later open works."""
    path = tmp_path / "store.db"
    await prepare(path)
    rng = random.Random(7)
    known: dict[str, tuple[int, int]] = dict.fromkeys(NAMES, (0, 3))
    kills, writes, maintained = 0, 0, 0

    for round_number in range(34):
        roles = ["write", "read", "maintain"]
        children = [start(role, path, rng.randrange(10**9), 10**6) for role in roles]
        for child in children:
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == "ready\n"
        await asyncio.sleep(rng.random() * 0.8)
        rng.shuffle(children)
        for child in children:
            await asyncio.sleep(rng.random() * 0.05)
            child.send_signal(signal.SIGKILL)
            kills += 1
        outputs = {child.args[2]: child.communicate() for child in children}  # type: ignore[index]
        assert [errors for _, errors in outputs.values() if errors] == [], round_number
        wrote = [line.split() for line in outputs["write"][0].splitlines() if line.startswith("wrote")]
        writes += len(wrote)
        maintained += outputs["maintain"][0].count("maintained")
        acknowledged = {**known, **{line[1]: (int(line[2]), int(line[3])) for line in wrote}}
        left = await stored(path)
        changed = {name for name, seen in left.items() if seen != acknowledged[name]}
        assert len(changed) <= 1, "only the write in flight may have come after the last acknowledged one"
        known = left
        for backup in tmp_path.glob("backup*"):
            if ".part" not in backup.name:
                await stored(backup)
            for one in tmp_path.glob(backup.name + "*"):
                one.unlink()

    assert kills >= 100
    assert writes > 100
    assert maintained > 30


@pytest.mark.slow
async def test_a_writer_beside_a_long_ingest_waits_little(tmp_path: Path, start: Start) -> None:
    """The gaps between the transactions of another process are enough: the wait is a fraction of a second even here,
    where machines are shared (the figure is in benchmarks/results)."""
    path = tmp_path / "store.db"
    await prepare(path)
    ingest = start("write", path, 1, 10**6)
    waits = []
    try:
        async with SQLiteStore(path) as store:
            await asyncio.sleep(1.0)
            for number in range(40):
                started = time.perf_counter()
                await store.replace("c", [document("mine")], [record("mine", text=f"version {number}")])
                waits.append(time.perf_counter() - started)
    finally:
        ingest.kill()
        ingest.communicate()

    assert statistics.median(waits) < 1.0


async def test_a_bounded_wait_says_who_writes(tmp_path: Path) -> None:
    """A writer that does not end is named by its process id, and reading goes on meanwhile."""
    path = tmp_path / "store.db"
    await prepare(path)
    program = (
        "import sqlite3, sys, time; from pathlib import Path; from agent_rag.stores.sqlite.files import Files; "
        "from agent_rag.stores.sqlite.gate import Gate; gate = Gate(Files(Path(sys.argv[1]))); gate.enter(1); "
        "print('in', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    await asyncio.to_thread(holder.stdout.readline)
    try:
        async with SQLiteStore(path, wait_s=0.3) as store:
            with pytest.raises(StoreLockedError, match=f"process {holder.pid} has been writing for"):
                await store.insert("c", [record("a")])
            chunks = await store.list_chunks("c", "d0")
    finally:
        holder.kill()
        holder.communicate()

    assert len(chunks) == 3


async def test_event_loops_in_threads_share_a_store(tmp_path: Path) -> None:
    """One store object serves several event loops at once, and several objects one file."""
    path = tmp_path / "store.db"
    await prepare(path)
    shared = SQLiteStore(path)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        async def write() -> None:
            async with shared, SQLiteStore(path) as own:
                for turn in range(10):
                    name = f"t{number}-{turn}"
                    await shared.replace("c", [document(name)], [record(name, text=f"word{number}")])
                    assert len(await own.list_chunks("c", name)) == 1

        try:
            asyncio.run(write())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert failures == []
    async with SQLiteStore(path) as store:
        assert await store.count("c") == 3 * len(NAMES) + 40


async def test_a_forked_child_is_refused(tmp_path: Path) -> None:
    """A store that was opened before a fork says so in the child; the parent goes on."""
    path = tmp_path / "store.db"
    await prepare(path)
    async with SQLiteStore(path) as store:
        database = store._open_database()
        child = os.fork()
        if child == 0:
            try:
                with database.reading():
                    os._exit(1)
            except Exception as error:
                os._exit(0 if "forked" in str(error) else 2)
        _, status = os.waitpid(child, 0)
        await store.insert("c", [record("after")])

        assert os.waitstatus_to_exitcode(status) == 0
        assert (await store.check()).problems == []
