"""A service that ingests, sources that are managed, a folder that is watched."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent_rag import DirectorySource, KnowledgeBase, MemoryStore, ParserPool, TextSource, sync
from agent_rag.errors import ConfigurationError, SourceError
from agent_rag.ingestion import (
    Ingestor,
    IngestReport,
    SourceSummary,
    list_sources,
    reload_source,
    remove_source,
    watch,
)
from agent_rag.sources import SourceDocument
from agent_rag.testing import HashEmbedding
from tests.ingestion.test_ingest import outcomes, write


def upload(number: int, text: str) -> SourceDocument:
    return SourceDocument(document_id=str(number), content=text.encode(), filename=f"{number}.md")


class TestIngestor:
    async def test_uploads(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """Each is stored, replaced and searchable; one that cannot be read is reported and keeps its last version."""
        async with Ingestor(pool=pool) as ingestor:
            first = await ingestor.put(kb, upload(1, "alpha"))
            second = await ingestor.put(kb, upload(1, "beta"))
            bad = await ingestor.put(kb, SourceDocument(document_id="1", content=b"%PDF-1.4 /Cat", filename="a.pdf"))

        assert [report.outcome for report in (first, second, bad)] == ["added", "replaced", "failed"]
        assert [hit.chunk.text for hit in await kb.search("beta")] == ["beta"]
        assert [source.name for source in await list_sources(kb)] == ["uploads"]

    async def test_an_upload_costs_little(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """At most 10 ms of CPU of this process, the workers being warm. (IN05)"""
        async with Ingestor(pool=pool) as ingestor:
            await ingestor.put(kb, upload(0, "word " * 400))
            started = time.process_time()
            for number in range(40):
                await ingestor.put(kb, upload(number, f"word {number} " * 300))
            spent = time.process_time() - started

        assert spent / 40 <= 0.010

    async def test_tenants_side_by_side(self, pool: ParserPool) -> None:
        """Concurrent uploads of two tenants with equal ids stay apart."""
        async with MemoryStore() as store, Ingestor(pool=pool) as ingestor:
            bases = {
                tenant: KnowledgeBase(tenant, "files", HashEmbedding(), store, "shared", {"tenant": tenant})
                for tenant in ("a", "b")
            }
            async with asyncio.TaskGroup() as group:
                for tenant, base in bases.items():
                    for number in range(5):
                        group.create_task(ingestor.put(base, upload(number, f"{tenant} {number}")))
            found = {tenant: await base.list_documents() for tenant, base in bases.items()}

        assert {tenant: [one.document_id for one in listed] for tenant, listed in found.items()} == {
            "a": list("01234"), "b": list("01234"),
        }  # fmt: skip

    async def test_shutdown(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """What is under way is stored, what comes later is refused."""
        ingestor = Ingestor(pool=pool)
        under_way = asyncio.create_task(ingestor.put(kb, upload(1, "alpha")))
        await asyncio.sleep(0)

        await ingestor.aclose()

        assert under_way.done()
        assert (await under_way).outcome == "added"
        with pytest.raises(ConfigurationError, match="closed"):
            await ingestor.put(kb, upload(2, "beta"))


class TestSources:
    async def test_they_are_listed(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """With place and counts; documents by source and status, in pages."""
        write(tmp_path / "docs", {"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma", "blank.txt": " "})
        (tmp_path / "docs/bad.pdf").write_bytes(b"%PDF-1.4\n1 0 obj\n<< /Type /Cat")
        await sync(kb, DirectorySource(tmp_path / "docs"), pool=pool)
        await sync(kb, TextSource({"t": "text"}), pool=pool)

        assert await list_sources(kb) == [
            SourceSummary(
                name="docs", location=(tmp_path / "docs").as_uri(), documents=3, chunks=3, skipped=1, failed=1
            ),
            SourceSummary(name="text", documents=1, chunks=1),
        ]
        page = await kb.list_documents(source="docs", limit=2)
        rest = await kb.list_documents(source="docs", limit=2, after=page[-1].document_id)
        assert [one.document_id for one in (*page, *rest)] == ["a.txt", "b.txt", "c.txt"]
        (failed,) = await kb.list_documents(source="docs", status="failed")
        assert failed.document_id == "bad.pdf"
        assert "bad.pdf" in failed.state["reason"]

    async def test_one_is_read_anew_and_removed(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """By its name; what another source has stays."""
        write(tmp_path / "docs", {"a.txt": "alpha", "blank.txt": " "})
        await sync(kb, DirectorySource(tmp_path / "docs"), pool=pool)
        await sync(kb, TextSource({"t": "text"}), pool=pool)

        reloaded = await reload_source(kb, "docs", pool=pool)
        removed = await remove_source(kb, "docs")

        assert outcomes(reloaded) == {"a.txt": "replaced", "blank.txt": "skipped"}
        assert reloaded.embedded == 0
        assert removed == ["a.txt"]
        assert [one.document_id for one in await kb.list_documents(remembered=True)] == ["t"]
        with pytest.raises(ConfigurationError, match="it has 'text'"):
            await remove_source(kb, "docs")
        with pytest.raises(ConfigurationError, match="pass the source itself"):
            await reload_source(kb, "text")

    async def test_one_whose_folder_is_gone(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """It is an error that says where it was, and nothing is deleted."""
        write(tmp_path / "docs", {"a.txt": "alpha"})
        await sync(kb, DirectorySource(tmp_path / "docs"), pool=pool)
        (tmp_path / "docs").rename(tmp_path / "elsewhere")

        with pytest.raises(SourceError, match="docs of source"):
            await reload_source(kb, "docs", pool=pool)

        assert len(await kb.list_documents()) == 1

    async def test_chunks_without_a_query(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """All that match a filter, in pages, with their number."""
        texts = {f"{number}.txt": f"memo {number}" for number in range(5)}
        years = {document_id: {"year": 2023 if number < 3 else 2024} for number, document_id in enumerate(texts)}
        await sync(kb, TextSource(texts, metadata=years.__getitem__), pool=pool)

        first = await kb.find_chunks({"year": 2023}, limit=2)
        rest = await kb.find_chunks({"year": 2023}, limit=2, after="1.txt:0")

        assert [chunk.text for chunk in (*first, *rest)] == ["memo 0", "memo 1", "memo 2"]
        assert await kb.count(filter={"year": 2023}) == 3


async def test_a_folder_is_watched(kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
    """A new file, an editor's rename over the old one, a burst, and a deletion are followed."""
    pytest.importorskip("watchfiles", reason="pip install watchfiles")
    root = write(tmp_path / "docs", {"a.txt": "alpha", "keep.txt": "keep"})
    reports: asyncio.Queue[IngestReport] = asyncio.Queue()
    stop = asyncio.Event()

    async def texts(*expected: str) -> None:
        async with asyncio.timeout(30):
            while True:
                await reports.get()
                found = [c.text for one in await kb.list_documents() for c in await kb.list_chunks(one.document_id)]
                if sorted(found) == sorted(expected):
                    return

    task = asyncio.create_task(
        watch(kb, DirectorySource(root), on_report=reports.put, quiet_s=0.05, stop=stop, pool=pool)
    )
    await texts("alpha", "keep")
    (root / "a.txt~").write_text("beta")
    (root / "a.txt~").replace(root / "a.txt")
    await texts("beta", "keep")
    write(root, {f"{number}.txt": f"text {number}" for number in range(20)})
    await texts("beta", "keep", *(f"text {number}" for number in range(20)))
    (root / "a.txt").unlink()
    await texts("keep", *(f"text {number}" for number in range(20)))
    stop.set()
    async with asyncio.timeout(30):
        await task
