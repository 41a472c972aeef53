"""A local file of MilvusLiteStore that was damaged, and opening one."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from agent_rag.errors import ConfigurationError, StoreError

pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")
pytest.importorskip("resource", reason="the size of files cannot be limited on this system")

from milvus_lite import MilvusLite

from agent_rag.stores.milvus import MilvusLiteStore
from tests.stores.milvus_file import collection_of, disk_full, full_disk, replace

# --- a damaged catalog ---


async def _filled(path: Path, *, flushed: bool = True) -> Path:
    """A file with collection "c" of one document. Returns it, or what a kill would have left of it."""
    async with MilvusLiteStore(path, metric_type="L2") as store:
        await store.open_collection("c", 4, fingerprint="model 1")
        await replace(store, "a", 30)
        if not flushed:
            shutil.copytree(path, path.with_suffix(".killed.db"))
    return path if flushed else path.with_suffix(".killed.db")


@pytest.mark.parametrize("damage", ["log", "folder"])
async def test_collections_outlive_the_catalog(tmp_path: Path, damage: str) -> None:
    """With its log torn, as by a power cut, or its folder gone, each collection says itself what it is."""
    path = await _filled(tmp_path / "rag.db", flushed=False)
    catalog = path / "collections" / "agent_rag"
    if damage == "log":
        (log,) = catalog.glob("wal/wal_data*")
        os.truncate(log, log.stat().st_size - 100)
    else:
        shutil.rmtree(catalog)

    for _ in range(2):
        async with MilvusLiteStore(path) as store:
            await store.create_collection("c", 4)
            info = await store.collection_info("c")

            assert info is not None
            assert (info.distance, info.fingerprint) == ("Euclid", "model 1")
            assert await store.list_collections() == ["c"]
            assert await store.count("c") == 30


async def test_rows_that_nobody_knows_are_not_dropped(tmp_path: Path) -> None:
    """Creating a collection over them names the file and both ways out; giving them up is the caller's decision."""
    path = await _filled(tmp_path / "rag.db")
    (path / "collections" / "rag_c" / "agent_rag.json").unlink()
    with MilvusLite(str(path)) as lite:
        lite.get_collection("agent_rag").delete(["rag_c"])

    async with MilvusLiteStore(path) as store:
        with pytest.raises(StoreError, match=r"rag\.db has rows of a collection 'c'.*delete_collection\('c'\)"):
            await store.create_collection("c", 4)
    with MilvusLite(str(path)) as lite:
        assert lite.get_collection("rag_c").num_entities == 32
    async with MilvusLiteStore(path) as store:
        await store.delete_collection("c")
        await store.create_collection("c", 8)
        assert await store.count("c") == 0


async def test_files_of_earlier_versions_learn_what_they_are(tmp_path: Path) -> None:
    """A collection that lacks the note beside its rows gets it when the file is opened."""
    path = await _filled(tmp_path / "rag.db")
    note = path / "collections" / "rag_c" / "agent_rag.json"
    note.unlink()

    async with MilvusLiteStore(path) as store:
        assert await store.list_collections() == ["c"]

    assert '"fingerprint":"model 1"' in note.read_text()


async def test_a_collection_that_is_half_removed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of its folder is left when the process ends; and one whose removal cannot begin is there."""
    path = await _filled(tmp_path / "rag.db")
    async with MilvusLiteStore(path) as store:
        with full_disk(), pytest.raises(StoreError):
            await store.delete_collection("c")
        assert await store.count("c") == 30
        monkeypatch.setattr(MilvusLite, "drop_collection", disk_full)
        with pytest.raises(StoreError, match="disk full"):
            await store.delete_collection("c")
        monkeypatch.undo()
    (path / "collections" / "rag_c" / "schema.json").unlink()

    async with MilvusLiteStore(path) as store:
        assert await store.list_collections() == []
        assert not (path / "collections" / "rag_c").exists()
        await store.create_collection("c", 8)
        assert await store.count("c") == 0


# --- damaged files ---

_DAMAGES = {
    "no segment": ("rag_c/partitions/_default/data/*", None, "is missing"),
    "a segment of something else": ("rag_c/partitions/_default/data/*", b"no parquet", "failed on"),
    "half a manifest": ("rag_c/manifest.json", b'{"partitions": {"_def', "cannot be read"),
    "a manifest of something else": ("rag_c/manifest.json", b"[]", "cannot be read"),
    "bytes for a manifest": ("rag_c/manifest.json", b"\xff\xfe", "cannot be read"),
    "no manifest": ("rag_c/manifest.json", None, "is missing"),
    "half a schema": ("rag_c/schema.json", b'{"fields": [', "failed on"),
    "bytes for a schema": ("rag_c/schema.json", b"\xff\xfe", "damaged"),
    "no schema": ("rag_c/schema.json", None, "failed on"),
    "no segment of the catalog": ("agent_rag/partitions/_default/data/*", None, "is missing"),
    "bytes for the schema of the catalog": ("agent_rag/schema.json", b"\xff\xfe", "damaged"),
}


async def test_a_kill_in_the_first_flush_is_no_damage(tmp_path: Path) -> None:
    """Half a segment that nothing names yet, beside the whole log."""
    path = await _filled(tmp_path / "rag.db", flushed=False)
    half = path / "collections/rag_c/partitions/_default/data/data_000001_000032.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PAR1")

    async with MilvusLiteStore(path) as store:
        assert await store.count("c") == 30


@pytest.mark.parametrize("damage", _DAMAGES)
async def test_a_damaged_file_says_so_and_stays_as_it_is(tmp_path: Path, damage: str) -> None:
    """The error is ours and names the file; once the lost part is back, everything is there."""
    pattern, content, message = _DAMAGES[damage]
    path = await _filled(tmp_path / "rag.db")
    (victim,) = (path / "collections").glob(pattern)
    before = victim.read_bytes()
    if content is None:
        victim.unlink()
    else:
        victim.write_bytes(content)

    with pytest.raises(StoreError, match=rf"rag\.db.*{message}|{message}.*rag\.db"):
        async with MilvusLiteStore(path) as store:
            await store.count("c")

    victim.write_bytes(before)
    async with MilvusLiteStore(path) as store:
        assert await store.count("c") == 30


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("agent_rag/rag_c", "{"),
        ("agent_rag/rag_c", ""),
        ("agent_rag/", ""),
        ("agent_rag/rag_d", "dropped rag_c"),
        ("rag_c/1:head", "[]"),
        ("rag_c/1:part0", "{}"),
    ],
)
async def test_a_damaged_row_is_an_error_of_ours(tmp_path: Path, row: str, text: str) -> None:
    """Of the catalog, of a document, of what searches need; and nothing is removed."""
    path = await _filled(tmp_path / "rag.db")
    name, _, row_id = row.partition("/")
    with MilvusLite(str(path)) as lite:
        lite.get_collection(name).insert([{"id": row_id, "c": text}])

    with pytest.raises(StoreError, match=r"rag\.db.*damaged"):
        async with MilvusLiteStore(path) as store:
            await store.count("c")

    assert list(path.glob("collections/rag_c/partitions/_default/data/*"))


async def test_a_damaged_chunk_is_an_error_of_ours(tmp_path: Path) -> None:
    """When it is read; the others can be."""
    path = await _filled(tmp_path / "rag.db")
    async with MilvusLiteStore(path) as store:
        await store.count("c")
        collection_of(store, "c").rows.insert([{"id": "1:3", "c": "{"}])

        with pytest.raises(StoreError, match=r"rag\.db.*damaged"):
            await store.list_chunks("c", "a")

        assert len(await store.list_chunks("c", "a", offset=4, limit=100)) == 26


def test_a_path_with_a_nul_is_refused(tmp_path: Path) -> None:
    """No disk has such a path."""
    with pytest.raises(ConfigurationError, match="NUL"):
        MilvusLiteStore(f"{tmp_path}/a\0b.db")


# --- opening ---


async def test_entering_while_the_store_closes_waits_for_it(tmp_path: Path) -> None:
    """Also when whoever closed it was cancelled."""
    path = await _filled(tmp_path / "rag.db")
    store = MilvusLiteStore(path)
    await store.__aenter__()
    await store.count("c")

    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    async with store:
        assert await store.count("c") == 30
    await asyncio.gather(closing, return_exceptions=True)


async def test_cancelling_an_opening_frees_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it comes; the same object and others can open the file then."""
    path = await _filled(tmp_path / "rag.db")
    for wait in (0, 0, 0.001, 0.005):
        store = MilvusLiteStore(path)
        opening = asyncio.create_task(store.__aenter__())
        await asyncio.sleep(wait)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await store.close()

        async with MilvusLiteStore(path) as other:
            assert await other.count("c") == 30
        async with store:
            assert await store.count("c") == 30
