"""Files of more chunks than are held in memory: written whole or not at all, and found as any other."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_rag import AutoChunker, DirectorySource, KnowledgeBase, MemoryStore, ParserPool, SQLiteStore, ingest, sync
from agent_rag.documents import VectorRecord
from agent_rag.errors import ConfigurationError, EmbeddingError
from agent_rag.ingestion.reading import ChunkFile, read_file
from agent_rag.knowledge.document import PART_CHUNKS
from agent_rag.parsers import TextParser
from agent_rag.stores.native import NativeStoreBase
from agent_rag.stores.sqlite import segments
from agent_rag.testing import HashEmbedding
from tests.ingestion.test_ingest import outcomes
from tests.shared import ROOT

COUNT = 4_200
CHUNKER = AutoChunker(chunk_size=20, overlap=0)
"""One chunk a paragraph."""


def paragraphs(version: str, count: int = COUNT) -> str:
    return "\n\n".join(f"{version} entry {n}" for n in range(count))


class FailingLate(HashEmbedding):
    """Refuses one text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
        if self.text in [str(one).strip() for one in inputs]:
            raise EmbeddingError(f"cannot embed {self.text!r}")
        return await super().__call__(inputs, mode=mode)


def kb_over(store: NativeStoreBase, model: HashEmbedding | None = None) -> KnowledgeBase:
    return KnowledgeBase("kb", "files", model or HashEmbedding(), store, "kb")


async def records(store: NativeStoreBase) -> list[tuple[Any, ...]]:
    """Everything that is stored, with vectors as 32-bit floats are shown."""

    def shown(record: VectorRecord) -> tuple[Any, ...]:
        return record.key, record.chunk, [round(number, 5) for number in record.vector]

    return [shown(record) async for record in store.iterate("kb")]


async def versions(kb: KnowledgeBase) -> set[str]:
    """The first word of every chunk."""
    return {record.chunk.text.split()[0] async for record in kb.vector_store.iterate("kb")}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    async with SQLiteStore(tmp_path / "store" / "kb.db", synced=False) as store:
        yield store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "large.txt"
    path.write_text(paragraphs("old"))
    return path


async def test_it_is_stored_as_a_store_that_takes_it_whole_has_it(
    pool: ParserPool, store: SQLiteStore, file: Path
) -> None:
    """Chunks, metadata, numbers and vectors are the same, and so is the document."""
    async with MemoryStore() as whole:
        reports = [
            await ingest(kb_over(one), file.parent, pool=pool, chunker=CHUNKER, metadata={"lang": "en"})
            for one in (store, whole)
        ]

        assert [(one.counts, one.files[0].chunks, one.embedded) for one in reports] == [
            ({"added": 1}, COUNT, COUNT)
        ] * 2
        assert await records(store) == await records(whole)
        assert await store.list_documents("kb") == await whole.list_documents("kb")
    found = await kb_over(store).search("old entry 4123", 1, mode="keyword")
    assert [hit.chunk.text.strip() for hit in found] == ["old entry 4123"]
    assert (await store.check()).ok


async def test_only_what_changed_is_embedded(pool: ParserPool, store: SQLiteStore, file: Path) -> None:
    """Unchanged: nothing; a paragraph more: one; moved or renamed: none, and each chunk says where it is."""
    model = HashEmbedding()
    kb = kb_over(store, model)
    await sync(kb, DirectorySource(file.parent), pool=pool, chunker=CHUNKER)
    unchanged = await sync(kb, DirectorySource(file.parent), pool=pool)
    file.write_text("new entry\n\n" + paragraphs("old"))

    edited = await sync(kb, DirectorySource(file.parent), pool=pool)
    elsewhere = file.parent.parent / "elsewhere" / "files"
    elsewhere.parent.mkdir()
    file.parent.rename(elsewhere)
    moved = await sync(kb, DirectorySource(elsewhere), pool=pool)
    stored = [record.chunk async for record in store.iterate("kb")]
    (elsewhere / "large.txt").rename(elsewhere / "renamed.txt")
    renamed = await sync(kb, DirectorySource(elsewhere), pool=pool, max_prune_share=1.0)

    assert (unchanged.counts, unchanged.embedded) == ({"unchanged": 1}, 0)
    assert (edited.counts, edited.embedded) == ({"replaced": 1}, 1)
    assert (moved.counts, moved.embedded) == ({"unchanged": 1}, 0)
    assert [chunk.chunk_index for chunk in stored] == list(range(COUNT + 1))
    assert {chunk.uri for chunk in stored} == {(elsewhere / "large.txt").as_uri()}
    assert (renamed.counts, renamed.embedded) == ({"added": 1, "pruned": 1}, 0)
    assert (await store.check()).ok


async def test_a_failure_in_the_middle_leaves_what_was_there(pool: ParserPool, store: SQLiteStore, file: Path) -> None:
    """The new version's first parts are nowhere; the report names the file."""
    await sync(kb_over(store), DirectorySource(file.parent), pool=pool, chunker=CHUNKER)
    file.write_text(paragraphs("new"))
    failing = kb_over(store, FailingLate("new entry 4000"))

    report = await sync(failing, DirectorySource(file.parent), pool=pool)

    assert outcomes(report) == {"large.txt": "failed"}
    assert "cannot embed 'new entry 4000'" in (report.of("failed")[0].reason or "")
    assert await versions(failing) == {"old"}
    assert (await store.check()).ok


@pytest.mark.parametrize("part", [0, 2])
async def test_kill_while_it_is_written(part: int, pool: ParserPool, tmp_path: Path, file: Path) -> None:
    """After kill -9 within its transaction the old version is whole; the next run writes the new one."""
    path = tmp_path / "kb.db"
    async with SQLiteStore(path) as store:
        await sync(kb_over(store), DirectorySource(file.parent), pool=pool, chunker=CHUNKER)
    file.write_text(paragraphs("new"))

    child = [sys.executable, "-m", "tests.ingestion.large_child", str(path), str(file.parent), str(part)]
    killed = subprocess.run(child, cwd=ROOT, check=False)

    assert killed.returncode == -signal.SIGKILL
    assert sorted(one.name for one in tmp_path.iterdir() if "tmp" in one.name) == []
    async with SQLiteStore(path) as store:
        kb = kb_over(store)
        assert await versions(kb) == {"old"}
        assert (await store.check()).ok
        report = await sync(kb, DirectorySource(file.parent), pool=pool)
        assert report.counts == {"replaced": 1}
        assert await versions(kb) == {"new"}


async def test_its_words_are_found_after_segments_were_merged(
    pool: ParserPool, store: SQLiteStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document has several segments; merging, in any ranges of keys, loses and doubles none of its chunks."""
    monkeypatch.setattr(segments, "_SLICE_BLOCKS", 1)
    kb = kb_over(store)
    await ingest(kb, file, pool=pool, chunker=CHUNKER)
    for n in range(20):
        small = file.with_name(f"{n}.txt")
        small.write_text(f"small entry {n}")
        await ingest(kb, small, pool=pool, chunker=CHUNKER)
    await store.compact()

    counts = await store.word_counts("kb", ["entri", "old", "small"])
    await kb.delete_document("large.txt")
    await store.compact()

    assert counts == {"entri": COUNT + 20, "old": COUNT, "small": 20}
    assert await store.word_counts("kb", ["entri", "old", "small"]) == {"entri": 20, "small": 20}
    assert (await store.check()).ok


async def test_what_it_would_cost(pool: ParserPool, store: SQLiteStore, file: Path) -> None:
    """`dry_run` counts its chunks and writes nothing."""
    kb = kb_over(store)

    report = await ingest(kb, file, pool=pool, chunker=CHUNKER, dry_run=True)

    assert report.counts == {"added": 1}
    assert report.estimate is not None
    assert report.estimate.chunks == COUNT
    assert await kb.list_documents() == []


async def test_metadata_of_it_are_set_at_once(pool: ParserPool, store: SQLiteStore, file: Path) -> None:
    """Of all its chunks, with the vectors that they have."""
    kb = kb_over(store)
    await ingest(kb, file, pool=pool, chunker=CHUNKER)
    before = await records(store)

    changed = await kb.update_documents({}, metadata={"year": 2023})

    assert changed == ["large.txt"]
    assert await kb.count(filter={"year": 2023}) == COUNT
    assert [vector for _, _, vector in await records(store)] == [vector for _, _, vector in before]


async def test_its_chunks_come_on_disk_in_parts(pool: ParserPool) -> None:
    """From the worker's file, which has no name any more; a few come as a list."""
    large = await read_file(pool, TextParser(), CHUNKER, paragraphs("old").encode(), "large.txt")
    small = await read_file(pool, TextParser(), CHUNKER, paragraphs("old", 10).encode(), "small.txt")

    assert isinstance(large.chunks, ChunkFile)
    parts = list(large.chunks)
    assert len(large.chunks) == COUNT
    assert [chunk.chunk_index for part in parts for chunk in part] == list(range(COUNT))
    assert max(map(len, parts)) == PART_CHUNKS
    assert not Path(large.chunks._path).exists()
    assert [part == again for part, again in zip(parts, large.chunks, strict=True)] == [True] * 3
    large.chunks.close()
    assert isinstance(small.chunks, list)


async def test_a_store_that_takes_documents_whole_says_so() -> None:
    """The error names it and the way out."""

    async def parts() -> AsyncIterator[list[VectorRecord]]:
        yield []

    async with MemoryStore() as store:
        kb = kb_over(store)
        await ingest_text(kb)

        with pytest.raises(ConfigurationError, match="MemoryStore takes documents whole"):
            await store.replace_parts("kb", (await kb.list_documents())[0], parts())


async def ingest_text(kb: KnowledgeBase) -> None:
    chunks = await CHUNKER.chunk(await TextParser().parse("a text", "a.txt"))
    await kb.insert_document(chunks, "a.txt")


async def test_fewer_chunks_are_taken_by_default_where_a_document_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are in memory at once there; the report says so."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("pear " * 5_000)
    monkeypatch.setattr("agent_rag.ingestion.flow._MOST_CHUNKS_WHOLE", 2)

    async with MemoryStore() as whole, SQLiteStore(tmp_path / "a.db") as in_parts:
        reports = [
            await ingest(KnowledgeBase("kb", "x", HashEmbedding(), store, "kb"), tmp_path / "docs")
            for store in (whole, in_parts)
        ]

    assert [report.counts for report in reports] == [{"skipped": 1}, {"added": 1}]
    assert "over max_chunks=2" in (reports[0].files[0].reason or "")
