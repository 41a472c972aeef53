"""Another embedding model for a collection: resumed, caught up, and switched at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_rag import Chunk, KnowledgeBase, MemoryStore, SQLiteStore, TextBlock, TextSource, sync
from agent_rag.errors import ConfigurationError, EmbeddingError, ModelMismatchError
from agent_rag.stores.native import NativeStoreBase
from agent_rag.testing import HashEmbedding, SevenMethodStore

TEXTS = {f"{number:02}.txt": f"Pump number {number} leaks at valve {number * 7}." for number in range(40)}


class Steps(HashEmbedding):
    """Does something before each call for documents."""

    def __init__(self, dimensions: int, *actions: Any) -> None:
        super().__init__(dimensions, name="new")
        self._actions = list(actions)

    async def __call__(self, inputs: Sequence[Any], *, mode: Any = "document") -> Any:
        if mode == "document" and self._actions:
            await self._actions.pop(0)()
        return await super().__call__(inputs, mode=mode)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NativeStoreBase]:
    made: Any = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "kb.db")
    async with made as opened:
        yield opened


def base(store: Any, model: Any) -> KnowledgeBase:
    return KnowledgeBase("kb", "d", model, store, "kb")


def chunk(text: str) -> Chunk:
    return Chunk(content=TextBlock(text=text), source="a", chunk_index=0, total_chunks=1)


async def filled(store: Any) -> KnowledgeBase:
    kb = base(store, HashEmbedding(16, name="old"))
    await sync(kb, TextSource(TEXTS))
    return kb


async def test_all_documents_get_vectors_of_the_new_model(store: NativeStoreBase) -> None:
    """The same documents, words and metadata; the handle goes on with the new model, and sync sees no change."""
    kb = await filled(store)
    before = [hit.chunk_id for hit in await kb.search("valve 77", mode="keyword")]
    new = HashEmbedding(32, name="new")

    report = await kb.reindex_model(new)
    again = await sync(base(store, new), TextSource(TEXTS))

    assert (report.documents, report.chunks, report.switched, report.collection) == (40, 40, True, "kb")
    assert kb.embedding_model is new
    assert [hit.chunk_id for hit in await kb.search("valve 77", mode="keyword")] == before
    assert (await kb.search("Pump number 7 leaks at valve 49.", mode="semantic"))[0].score == pytest.approx(1)
    assert again.counts.get("unchanged") == 40
    assert await store.list_collections() == ["kb"]


async def test_another_handle_is_told_a_second_later(store: NativeStoreBase) -> None:
    """Also where both models have vectors of one size."""
    kb = await filled(store)
    other = base(store, HashEmbedding(16, name="old"))
    await other.search("pump")

    await kb.reindex_model(HashEmbedding(16, name="new"))

    with pytest.raises(ModelMismatchError, match="agent-rag reindex --model"):
        await other.search("pump")
    with pytest.raises(ModelMismatchError):
        await other.insert_document([chunk("x")], "x")


async def test_searches_go_on_and_writes_are_caught_up(store: NativeStoreBase) -> None:
    """Replaced, added and deleted while it runs: the end is what was written last."""
    kb = await filled(store)

    async def write() -> None:
        assert (await kb.search("Pump number 3 leaks at valve 21.", mode="semantic"))[0].score == pytest.approx(1)
        await kb.insert_document([chunk("The third pump was mended.")], "03.txt")
        await kb.insert_document([chunk("A fan turns.")], "fan")
        await kb.delete_document("05.txt")

    await kb.reindex_model(Steps(32, write))

    listed = {summary.document_id for summary in await kb.list_documents()}
    assert listed == TEXTS.keys() - {"05.txt"} | {"fan"}
    assert [one.text for one in await kb.list_chunks("03.txt")] == ["The third pump was mended."]
    assert (await kb.search("A fan turns.", mode="semantic"))[0].score == pytest.approx(1)


async def test_what_is_written_around_the_switch_is_not_lost(
    store: NativeStoreBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the former collection just before it, and with the former model just after it: both get new vectors."""
    kb, old = await filled(store), HashEmbedding(32, name="old")
    exchange = store.exchange_collections

    async def exchanged(first: str, second: str) -> None:
        await kb.insert_document([chunk("Just before the switch.")], "before")
        await kb.delete_document("01.txt")
        await exchange(first, second)
        records = await store.list_chunks("kb", "02.txt")
        late = records[0].model_copy(update={"vector": old.vector("late"), "chunk": chunk("Just after the switch.")})
        summary = (await store.list_documents("kb", document_ids=["02.txt"]))[0]
        late = late.model_copy(update={"chunk": late.chunk.model_copy(update={"document_id": "02.txt"})})
        await store.replace("kb", [summary], [late])

    monkeypatch.setattr(store, "exchange_collections", exchanged)
    await kb.reindex_model(HashEmbedding(32, name="new"))

    for text in ("Just before the switch.", "Just after the switch."):
        assert (await kb.search(text, mode="semantic"))[0].score == pytest.approx(1), text
    assert await kb.list_chunks("01.txt") == []


async def test_a_run_that_failed_goes_on(store: NativeStoreBase) -> None:
    """Until then nothing has changed for who searches; what was embedded is not embedded again."""
    kb = await filled(store)

    async def fail() -> None:
        raise EmbeddingError("the provider is down")

    async def nothing() -> None:
        pass

    kb.limits = kb.limits
    for number in range(600):
        await kb.insert_document([chunk(f"Note {number}.")], f"note {number:03}")
    with pytest.raises(EmbeddingError, match="down"):
        await kb.reindex_model(Steps(32, nothing, fail))
    assert (await kb.search("Note 7.", mode="semantic"))[0].score == pytest.approx(1)

    report = await kb.reindex_model(HashEmbedding(32, name="new"))

    assert report.unchanged > 0
    assert report.documents + report.unchanged == 640


async def test_tenants_keep_their_documents(store: NativeStoreBase) -> None:
    """One id in two scopes stays two documents; a part of a collection cannot be reindexed alone."""
    east, west = (
        KnowledgeBase("kb", "d", HashEmbedding(16, name="old"), store, "kb", {"tenant": tenant})
        for tenant in ("east", "west")
    )
    await east.insert_document([chunk("East.")], "one")
    await west.insert_document([chunk("West.")], "one")
    with pytest.raises(ConfigurationError, match="without metadata_filter"):
        await east.reindex_model(HashEmbedding(32, name="new"))

    await base(store, HashEmbedding(16, name="old")).reindex_model(HashEmbedding(32, name="new"))

    again = KnowledgeBase("kb", "d", HashEmbedding(32, name="new"), store, "kb", {"tenant": "west"})
    assert [hit.chunk.text for hit in await again.search("West.")] == ["West."]


async def test_a_store_that_cannot_switch_names_the_second_collection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before anything is embedded. It is complete, and the first one stays as it was; a second run only catches up."""
    monkeypatch.setattr(MemoryStore, "can_exchange", False)
    async with MemoryStore() as store:
        kb = await filled(store)
        new = HashEmbedding(32, name="new")

        async def told() -> None:
            assert "MemoryStore cannot exchange the names of collections" in caplog.text

        report = await kb.reindex_model(Steps(32, told))
        again = await kb.reindex_model(new)

        assert (report.switched, report.documents, again.documents, again.unchanged) == (False, 40, 0, 40)
        moved = KnowledgeBase("kb", "d", new, store, report.collection)
        assert (await moved.search("Pump number 7 leaks at valve 49.", mode="semantic"))[0].score == pytest.approx(1)
        assert (await kb.search("Pump number 7 leaks at valve 49.", mode="semantic"))[0].score == pytest.approx(1)


async def test_a_seven_method_store_is_refused() -> None:
    """It can neither list its chunks nor replace a document at once."""
    with pytest.raises(ConfigurationError, match="seven methods"):
        await base(SevenMethodStore(), HashEmbedding(16)).reindex_model(HashEmbedding(32))


CHILD = """
import asyncio, sys
from agent_rag import SQLiteStore
from tests.knowledge.test_reembedding import base, HashEmbedding, Steps

async def main():
    async def slow():
        print("embedding", flush=True)
        await asyncio.sleep(0.05)
    async with SQLiteStore(sys.argv[1]) as store:
        await base(store, HashEmbedding(16, name="old")).reindex_model(Steps(32, *[slow] * 1000))

asyncio.run(main())
"""


@pytest.mark.slow
async def test_kill_9_at_any_point_leaves_a_whole_knowledge_base(tmp_path: Path) -> None:
    """Killed again and again: searches find everything with the former model or the new one, and at the end the new."""
    path = tmp_path / "kb.db"
    async with SQLiteStore(path) as store:
        kb = await filled(store)
        for number in range(700):
            await kb.insert_document([chunk(f"Note {number}.")], f"note {number:03}")
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    for wait_s in (0.0, 0.02, 0.1, 0.3, 0.0):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
        await asyncio.sleep(wait_s)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        async with SQLiteStore(path) as store:
            info = await store.collection_info("kb")
            assert info is not None
            model = HashEmbedding(info.dimensions, name="old" if info.dimensions == 16 else "new")
            assert (await base(store, model).search("Note 600.", mode="semantic"))[0].score == pytest.approx(1)
            assert await base(store, model).count() == 740

    async with SQLiteStore(path) as store:
        await base(store, HashEmbedding(16, name="old")).reindex_model(HashEmbedding(32, name="new"))
        assert await store.list_collections() == ["kb"]
        assert await base(store, HashEmbedding(32, name="new")).count() == 740
        assert (await store.check()).ok
