"""A local file of MilvusLiteStore after its process was killed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from agent_rag.filters import F
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.versions import publisher
from agent_rag.stores.versions.protocol import NewRow, NewVersion, Primitives, head_id, new_version
from agent_rag.testing import record
from agent_rag.testing.records import document

pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")

from agent_rag.stores.milvus import MilvusLiteStore
from tests.stores.milvus_file import start_process


@pytest.mark.slow
async def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """`kill -9` in the middle of replaces, in a fresh file per trial: every acknowledged version or the next one is
    there, whole. In every other trial Milvus Lite flushes and merges its segments all
    the time. AGENT_RAG_KILL_TRIALS raises the number of trials."""
    trials = int(os.environ.get("AGENT_RAG_KILL_TRIALS", "4"))
    for trial in range(trials):
        path = tmp_path / f"{trial}.db"
        writer = start_process(_REPLACE, str(path), str(200_000 if trial % 2 else 24_000_000))
        assert writer.stdout is not None
        seen = [json.loads(writer.stdout.readline())]
        time.sleep(0.3 + 0.17 * (trial % 7))
        writer.send_signal(signal.SIGKILL)
        output, _ = writer.communicate()
        seen += [json.loads(line) for line in output.splitlines() if line.endswith("]")]
        acknowledged = dict(seen)

        async with MilvusLiteStore(path) as store:
            versions = {}
            for name in acknowledged:
                chunks = await store.list_chunks("c", name, limit=10_000)
                (version,) = {item.chunk.metadata["version"] for item in chunks}
                assert len(chunks) == chunks[0].chunk.total_chunks
                versions[name] = version
            assert all(acknowledged[name] <= version <= acknowledged[name] + 1 for name, version in versions.items())
            assert await store.count("c") == sum(item.chunk_count for item in await store.list_documents("c"))
            assert await store.count("c", F("version") >= 0) == await store.count("c")


async def test_what_a_killed_writer_left_goes(tmp_path: Path) -> None:
    """Rows of a version that was replaced, or never published, are in no answer, and removed by the next opening."""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("doc")], [record("doc", n, "pear") for n in range(3)])
        before = (await _left(store), await store.count("c"), len(await store.search("c", [1.0, 0, 0, 0], 9)))

    async with MilvusLiteStore(path) as store:
        found = await store.search("c", [1.0, 0, 0, 0], 9)
        after = sum((await _rows(store).tally(None)).values())

    assert before == (6, 3, 3)
    assert [hit.chunk.text for hit in found] == ["pear"] * 3
    assert after == 3


async def test_what_a_cancelled_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    """Within one opening, too; and with `compact`, where the document is written no more."""
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("doc")], [record("doc", n, "pear") for n in range(3)])
        await _left(store)
        await store.replace("c", [document("doc")], [record("doc", n, "plum") for n in range(2)])
        after_write = sum((await _rows(store).tally(None)).values())
        await _left(store)

        assert await store.compact("c") == 3
        assert (after_write, sum((await _rows(store).tally(None)).values()), await store.count("c")) == (2, 2, 2)


async def test_a_deleted_document_leaves_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tombstone tells writers that are at work; `compact` removes those that are older than an hour."""
    async with MilvusLiteStore(tmp_path / "rag.db") as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document("doc")], [record("doc")])
        await store.delete_documents("c", ["doc"])
        await store.compact("c")
        young = await _rows(store).get_heads([head_id(("", "doc"))])
        monkeypatch.setattr(publisher, "LEFTOVER_S", -1.0)
        await store.compact("c")

        assert [head.summary for head in young.values()] == [None]
        assert await _rows(store).get_heads([head_id(("", "doc"))]) == {}


def _rows(store: MilvusLiteStore) -> Primitives:
    """Of collection "c", which was used before."""
    return store._engine._collections["c"].primitives


async def _left(store: MilvusLiteStore) -> int:
    """Write three chunks of a version that is never published. Returns the number of chunks in the file then."""
    version = new_version(head_id(("", "doc")))
    chunks = [record("doc", n, "pear").chunk for n in range(3)]
    vector = np.array([1.0, 0, 0, 0], np.float32)
    rows = [NewRow(chunk.chunk_index, vector, chunk.model_dump_json(), {}, [1, 2]) for chunk in chunks]
    await _rows(store).put_rows([NewVersion(("", "doc"), version, rows)], 2.0)
    return sum((await _rows(store).tally(None)).values())


async def test_rows_that_milvus_lite_holds_twice_are_found_once(tmp_path: Path) -> None:
    """Killed between writing a segment and removing its log, Milvus Lite has all rows from both. (1 of 250 kills.)"""
    path = tmp_path / "rag.db"
    async with MilvusLiteStore(path) as store:
        await store.create_collection("c", 4)
        records = [record("doc", n, f"pear {n}", metadata={"n": n}) for n in range(30)]
        await store.replace("c", [document("doc")], records)
        logs = {log: log.read_bytes() for log in path.glob("collections/*/wal/wal_data_*")}
    for log, content in logs.items():
        log.write_bytes(content)

    async with MilvusLiteStore(path) as store:
        found = await store.search("c", [1.0, 0, 0, 0], 20)
        keyword = await store.retrieve("c", RetrieveRequest(texts=["pear 7"], limit=100))
        counts = [await store.count("c"), await store.count("c", F("n") >= 0)]
        listed = await store.list_documents("c")

    assert len(logs) == 2
    assert [hit.chunk.chunk_index for hit in found] == list(range(20))
    # idf of "pear": ln(1 + .5 / 30.5); of "7": ln(1 + 29.5 / 1.5); tf 1, average length: 1 / (1 + 1.2) = .45455.
    assert keyword[0].score == pytest.approx((0.016260 + 3.028522) / 2.2, rel=1e-4)
    assert counts == [30, 30]
    assert [item.chunk_count for item in listed] == [30]


_REPLACE = """
import asyncio, itertools, json, sys
from agent_rag.stores.milvus import MilvusLiteStore, lite
from agent_rag.testing.records import document, record

lite._FLUSH_BYTES = int(sys.argv[2])

async def main():
    async with MilvusLiteStore(sys.argv[1]) as store:
        await store.create_collection("c", 4)
        for number in itertools.count():
            name, count = f"d{number % 3}", 1 + number * 37 % 400
            version = {"version": number // 3}
            chunks = [record(name, n, f"pear {n}", metadata=version, total=count) for n in range(count)]
            await store.replace("c", [document(name)], chunks)
            print(json.dumps([name, number // 3]), flush=True)

asyncio.run(main())
"""
