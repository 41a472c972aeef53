"""Damage of SQLiteStore's files is never silent: each answer is right, or a StoreDamagedError (ST02, ST04, ST05)."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_rag import KnowledgeBase
from agent_rag.documents import ChunkKey
from agent_rag.errors import CollectionNotFoundError, StoreDamagedError, StoreError
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.testing.records import document, record

PAGE = 8_192
DOCUMENTS = 60
FILES = ("", "-wal", "-seq")
Files = dict[str, bytes]
Damage = Callable[[Files, random.Random], None]


def texts(number: int) -> list[str]:
    """Chunks of one document; each has a word that no other document has."""
    return [
        f"passage {place} about unique{number}x{place} " + "filler words of some length " * 20 for place in range(4)
    ]


async def write(store: SQLiteStore, numbers: range) -> None:
    for start in numbers[::5]:
        some = [number for number in range(start, start + 5) if number in numbers]
        records = [
            record(f"d{n}", place, text, vector=(1.0, n, place, 0.5), metadata={"n": n, "tag": f"t{n % 7}"})
            for n in some
            for place, text in enumerate(texts(n))
        ]
        await store.replace("c", [document(f"d{n}", metadata={"n": n}, title=f"T{n}") for n in some], records)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Files]:
    """The files of a store that was closed, and of one whose last commits are only in the WAL."""
    import asyncio

    folder = tmp_path_factory.mktemp("damage")
    path, copies = folder / "store.db", folder / "live"
    copies.mkdir()

    async def fill() -> None:
        async with SQLiteStore(path) as store:
            await store.create_collection("c", 4)
            await store.create_collection("other", 4)
            await store.replace("other", [document("o")], [record("o", text="other text")])
            await write(store, range(40))
        async with SQLiteStore(path) as store:
            await write(store, range(40, DOCUMENTS))
            # By another process: closing a handle of this one would drop SQLite's locks.
            subprocess.run(["cp", *(str(folder / f"store.db{suffix}") for suffix in FILES), str(copies)], check=True)

    asyncio.run(fill())
    closed = {suffix: (folder / f"store.db{suffix}").read_bytes() for suffix in ("", "-seq")}
    live = {suffix: (copies / f"store.db{suffix}").read_bytes() for suffix in FILES}
    return closed, live


def truncated(files: Files, rng: random.Random) -> None:
    files[""] = files[""][: rng.randrange(len(files[""]))]


def zeroed(files: Files, rng: random.Random) -> None:
    page = rng.randrange(len(files[""]) // PAGE) * PAGE
    files[""] = files[""][:page] + bytes(PAGE) + files[""][page + PAGE :]


def flipped(files: Files, rng: random.Random, suffix: str = "") -> None:
    data = bytearray(files[suffix])
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    files[suffix] = bytes(data)


def swapped(files: Files, rng: random.Random) -> None:
    data = bytearray(files[""])
    one, two = (page * PAGE for page in rng.sample(range(len(data) // PAGE), 2))
    data[one : one + PAGE], data[two : two + PAGE] = data[two : two + PAGE], data[one : one + PAGE]
    files[""] = bytes(data)


def overwritten(files: Files, rng: random.Random) -> None:
    data = bytearray(files[""])
    one, two = (page * PAGE for page in rng.sample(range(len(data) // PAGE), 2))
    data[one : one + PAGE] = data[two : two + PAGE]
    files[""] = bytes(data)


def without_wal(files: Files, rng: random.Random) -> None:
    del files["-wal"]


def without_wal_and_marks(files: Files, rng: random.Random) -> None:
    del files["-wal"], files["-seq"]


def cut_wal(files: Files, rng: random.Random) -> None:
    files["-wal"] = files["-wal"][: rng.randrange(len(files["-wal"]))]


def flipped_wal(files: Files, rng: random.Random) -> None:
    flipped(files, rng, "-wal")


def flipped_marks(files: Files, rng: random.Random) -> None:
    flipped(files, rng, "-seq")


def without_file(files: Files, rng: random.Random) -> None:
    del files[""]


def emptied(files: Files, rng: random.Random) -> None:
    files[""] = b""


MAIN = (truncated, zeroed, flipped, swapped, overwritten)
WAL = (without_wal, without_wal_and_marks, cut_wal, flipped_wal, flipped_marks, without_file, emptied)


async def answers(store: SQLiteStore) -> dict[str, int]:
    """How often each question was answered, rightly, and how often refused."""
    seen: Counter[str] = Counter()

    async def ask(name: str, call: Callable[[], Awaitable[Any]], right: Callable[[Any], bool]) -> None:
        try:
            answer = await call()
        except StoreDamagedError:
            seen[f"{name} refused"] += 1
            return
        assert right(answer), f"{name} gave {answer!r:.300}"
        seen[name] += 1

    everything = {f"d{n}" for n in range(DOCUMENTS)}
    base = KnowledgeBase("c", "Texts.", None, store, "c")
    await ask("collections", store.list_collections, lambda found: found == ["c", "other"])
    await ask("has", lambda: store.has_collection("c"), bool)
    await ask("count", lambda: store.count("c"), lambda found: found == 4 * DOCUMENTS)
    await ask("list", lambda: store.list_documents("c"), lambda found: {s.document_id for s in found} == everything)
    for n in range(0, DOCUMENTS, 3):
        keys = [ChunkKey("", f"d{n}", place) for place in range(4)]
        await ask(
            "fetch", lambda keys=keys: store.fetch("c", keys, with_vectors=True),
            lambda found, n=n: [(item.chunk.text, len(item.vector)) for item in found] == [(t, 4) for t in texts(n)],
        )  # fmt: skip
        await ask(
            "chunks", lambda n=n: store.list_chunks("c", f"d{n}"),
            lambda found, n=n: [item.chunk.text for item in found] == texts(n),
        )  # fmt: skip
        await ask(
            "keyword", lambda n=n: store.retrieve("c", RetrieveRequest(texts=[f"unique{n}x2"], limit=5)),
            lambda found, n=n: [(hit.document_id, hit.chunk.text) for hit in found] == [(f"d{n}", texts(n)[2])],
        )  # fmt: skip
        await ask(
            "semantic", lambda n=n: store.retrieve("c", RetrieveRequest(vectors=[(1.0, n, 3, 0.5)], limit=1)),
            lambda found, n=n: found[0].document_id == f"d{n}" and found[0].chunk.text == texts(n)[3],
        )  # fmt: skip
        await ask(
            "filter", lambda n=n: store.count("c", {"n": n}), lambda found: found == 4,
        )  # fmt: skip
        await ask(
            "find", lambda n=n: base.find(f"unique{n}x"),
            lambda found, n=n: [(one.document_id, one.count) for one in found.documents] == [(f"d{n}", 4)],
        )  # fmt: skip
    everything_read = [item async for item in _read_all(store)]
    if everything_read:
        assert len(everything_read) == 4 * DOCUMENTS
    return dict(seen)


async def _read_all(store: SQLiteStore) -> Any:
    found = []
    try:
        async for item in store.iterate("c"):
            found.append(item)
    except StoreDamagedError:
        return
    for item in found:
        yield item


async def verdict(path: Path) -> str:
    try:
        async with SQLiteStore(path) as store:
            seen = await answers(store)
            checked = await store.check()
    except StoreDamagedError:
        return "not opened"
    refused = any(name.endswith("refused") for name in seen)
    assert checked.problems or not refused, "check found nothing, but something was refused"
    return "some refused" if refused else "all answered"


@pytest.mark.parametrize("damage", [*MAIN, *WAL])
async def test_no_damage_is_silent(stores: tuple[Files, Files], tmp_path: Path, damage: Damage) -> None:
    """Truncated, zeroed, swapped and overwritten pages, flipped bits, a missing, cut or flipped WAL: 20 copies of each
    give right answers or a StoreDamagedError, never a wrong or a missing document."""
    closed, live = stores
    outcomes: Counter[str] = Counter()

    for seed in range(20):
        rng = random.Random(f"{damage.__name__} {seed}")
        source = closed if damage in MAIN and seed % 2 else live
        if damage is without_wal_and_marks or damage in WAL:
            source = live
        files = dict(source)
        damage(files, rng)
        folder = tmp_path / str(seed)
        folder.mkdir()
        for suffix, data in files.items():
            (folder / f"store.db{suffix}").write_bytes(data)
        try:
            outcomes[await verdict(folder / "store.db")] += 1
        except (AssertionError, Exception) as error:
            raise AssertionError(f"{damage.__name__}, seed {seed}: {type(error).__name__}: {error}") from error
        shutil.rmtree(folder)

    if damage in (without_wal, without_wal_and_marks, without_file, emptied):
        assert outcomes == {"not opened": 20}


async def test_a_damaged_document_is_named_and_the_others_are_read(stores: tuple[Files, Files], tmp_path: Path) -> None:
    """A flipped bit in a text costs that document: fetching it names it, keyword search finds the others, and
    replacing it heals the store."""
    data = bytearray(stores[0][""])
    place = bytes(data).index(b"unique7x2 filler")
    data[place + 20] ^= 1
    path = tmp_path / "store.db"
    path.write_bytes(data)

    async with SQLiteStore(path) as store:
        with pytest.raises(StoreDamagedError, match="'d7'"):
            await store.list_chunks("c", "d7")
        other = await store.retrieve("c", RetrieveRequest(texts=["unique8x2"]))
        problems = (await store.check()).problems
        await store.replace("c", [document("d7", metadata={"n": 7})], [record("d7", text="new")])
        healed = await store.check()

    assert [hit.document_id for hit in other] == ["d8"]
    assert len(problems) == 1
    assert "'d7'" in problems[0]
    assert healed.problems == []


async def test_a_damaged_index_is_made_anew(stores: tuple[Files, Files], tmp_path: Path) -> None:
    """Words that cannot be read are no empty answer, and compact indexes them again from the texts."""
    import sqlite3

    path = tmp_path / "store.db"
    path.write_bytes(stores[0][""])
    with sqlite3.connect(path) as connection:
        connection.execute("delete from blocks where b = (select max(b) from blocks)")
    connection.close()

    async with SQLiteStore(path) as store:
        problems = (await store.check()).problems
        await store.compact()
        seen = await answers_of_words(store)
        healed = (await store.check()).problems

    assert len(problems) == 1
    assert seen == [f"d{n}" for n in range(40)]
    assert healed == []


async def answers_of_words(store: SQLiteStore) -> list[str]:
    found = [await store.retrieve("c", RetrieveRequest(texts=[f"unique{n}x1"])) for n in range(40)]
    return [hit.document_id for hits in found for hit in hits]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"just some text, not a database " * 400, "no store"), (b"SQLite format 3\x00" + bytes(4_080), "no store")],
)
async def test_what_is_no_store_is_refused_untouched(tmp_path: Path, content: bytes, message: str) -> None:
    """A file of another kind stays as it is, byte for byte."""
    path = tmp_path / "notes.db"
    path.write_bytes(content)

    with pytest.raises(StoreError, match=message):
        async with SQLiteStore(path):
            pass

    assert path.read_bytes() == content


async def test_other_databases_and_newer_formats_are_refused(tmp_path: Path) -> None:
    """Another program's database, and a store of a later version, are not touched."""
    import sqlite3

    other, newer = tmp_path / "other.db", tmp_path / "newer.db"
    with sqlite3.connect(other) as connection:
        connection.execute("create table t(x)")
    connection.close()
    async with SQLiteStore(newer) as store:
        await store.create_collection("c", 4)
    with sqlite3.connect(newer) as connection:
        connection.execute("pragma user_version = 99")
    connection.close()
    before = other.read_bytes(), newer.read_bytes()

    for path, message in ((other, "another program"), (newer, "format 99")):
        with pytest.raises(StoreError, match=message):
            async with SQLiteStore(path):
                pass

    assert (other.read_bytes(), newer.read_bytes()) == before


async def test_a_damaged_collection_costs_only_itself(stores: tuple[Files, Files], tmp_path: Path) -> None:
    """The other collection of the file answers."""
    import sqlite3

    path = tmp_path / "store.db"
    path.write_bytes(stores[0][""])
    with sqlite3.connect(path) as connection:
        connection.execute("update collections set chunks = 7 where name = 'c'")
    connection.close()

    async with SQLiteStore(path) as store:
        with pytest.raises(StoreDamagedError, match="'c'"):
            await store.count("c")
        found = await store.retrieve("other", RetrieveRequest(texts=["other"], vectors=[(1.0, 0.0, 0.0, 0.0)]))
        with pytest.raises(CollectionNotFoundError):
            await store.count("none")

    assert [hit.document_id for hit in found] == ["o"]


async def test_removing_the_file_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    """A write into a file that nobody will find again is not acknowledged."""
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.create_collection("c", 4)
        os.replace(path, tmp_path / "moved.db")

        with pytest.raises(StoreError):
            await store.insert("c", [record("a")])


@pytest.fixture(autouse=True)
def _no_leftovers(tmp_path: Path) -> Iterator[None]:
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)
