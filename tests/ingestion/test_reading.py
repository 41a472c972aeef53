"""Parsing and chunking one file in a worker: a crash there costs that file, and what cannot travel works here."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_rag import ChunkerBase, KnowledgeBase, MemoryStore, ParserPool, Section, ingest
from agent_rag.chunkers import FixedSizeChunker, MarkdownChunker, from_function
from agent_rag.documents import Chunk
from agent_rag.errors import ChunkError
from agent_rag.ingestion.reading import read_file
from agent_rag.parsers import MarkdownParser, TextParser
from agent_rag.workers import mark_as_isolated


class CrashingChunker(FixedSizeChunker):
    """Stands for a native library that ends its process on some text."""

    chunker_type = "test-crashing"

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        if "crash" in sections[0].text:
            os.kill(os.getpid(), signal.SIGSEGV)
        return await super().chunk(sections)


class PidChunker(FixedSizeChunker):
    """Says where it ran."""

    chunker_type = "test-pid"

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        chunks = await super().chunk(sections)
        chunks[0].metadata["pid"] = os.getpid()
        return chunks


class FailingChunker(ChunkerBase):
    chunker_type = "test-failing"

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        raise KeyError("inside")


@pytest.fixture
async def pool() -> AsyncIterator[ParserPool]:
    async with ParserPool(1) as pool:
        yield pool


async def test_a_crash_while_chunking_costs_that_file(pool: ParserPool, tmp_path: Path) -> None:
    """The report names the file and the signal; the others are stored."""
    for name, text in {"a.txt": "fine", "b.txt": "crash", "c.txt": "also fine"}.items():
        (tmp_path / name).write_text(text)
    async with MemoryStore() as store:
        kb = KnowledgeBase("kb", "d", None, store, "kb")

        report = await ingest(kb, tmp_path, chunker=CrashingChunker(), pool=pool)

    assert {file.document_id: file.outcome for file in report.files} == {
        "a.txt": "added",
        "b.txt": "failed",
        "c.txt": "added",
    }
    assert "b.txt: the worker process ended" in (report.of("failed")[0].reason or "")
    assert "SIGSEGV" in (report.of("failed")[0].reason or "")


async def test_chunking_happens_in_the_worker(pool: ParserPool) -> None:
    """Only the chunks come back."""
    read = await read_file(pool, TextParser(), PidChunker(), b"text", "a.txt")

    assert read.chunks[0].metadata["pid"] == await pool.run(os.getpid, filename="x") != os.getpid()


async def test_a_chunker_that_cannot_travel_works_here(pool: ParserPool) -> None:
    """A lambda has no name that a worker could import."""
    read = await read_file(pool, TextParser(), from_function(lambda text: [text[:2], text[2:]]), b"text", "a.txt")

    assert [chunk.text for chunk in read.chunks] == ["te", "xt"]


async def test_an_exception_of_a_chunker_names_the_file_and_the_chunker(pool: ParserPool) -> None:
    """The original is its cause."""
    with pytest.raises(ChunkError, match=r"a\.txt: FailingChunker failed: KeyError: 'inside'") as caught:
        await read_file(pool, TextParser(), FailingChunker(), b"text", "a.txt")

    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_large_text_is_cut_in_a_worker_and_gives_the_same_chunks() -> None:
    """Spans, metadata and headings are those of the same text cut here."""
    text = "".join(f"# Part {number}\n\nSome words.\n\n- one\n- two\n\n" for number in range(3000))
    (section,) = await MarkdownParser().parse(text.encode(), "a.md")

    there = await MarkdownChunker().chunk([section])
    mark_as_isolated()
    here = await MarkdownChunker().chunk([section])

    assert there == here
