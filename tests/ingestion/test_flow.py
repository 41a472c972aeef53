"""The stages of an ingestion: requests that span documents, what is not done again, errors that end a run, events."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_rag import AutoChunker, DirectorySource, KnowledgeBase, MemoryStore, ParserPool, TextSource, ingest, sync
from agent_rag.errors import ConfigurationError, EmbeddingError, EmbeddingUnavailableError, StoreError
from agent_rag.events import DocumentsDeleted, DocumentsRefused, DocumentsReplaced, Event, LoadProgress, MetadataUpdated
from agent_rag.knowledge import Document
from agent_rag.parsers import parser_for
from agent_rag.sources import SourceItem
from agent_rag.testing import HashEmbedding
from tests.ingestion.test_ingest import outcomes, write


class Provider(HashEmbedding):
    """A model that takes a while and counts what is in flight; it fails from request `fails_from` on."""

    def __init__(self, delay_s: float = 0.0, *, fails_from: int | None = None, error: Exception | None = None) -> None:
        super().__init__()
        self.delay_s = delay_s
        self.fails_from = fails_from
        self.error = error or EmbeddingUnavailableError("no quota is left; check billing")
        self.in_flight = 0
        self.peak = 0
        self.sizes: list[int] = []
        """Texts of each request."""

    async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
        self.sizes.append(len(inputs))
        number = len(self.sizes)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await asyncio.sleep(self.delay_s)
            if self.fails_from is not None and number >= self.fails_from:
                raise self.error
            return await super().__call__(inputs, mode=mode)
        finally:
            self.in_flight -= 1


class TestRequests:
    async def test_several_are_in_flight_and_span_documents(self, pool: ParserPool) -> None:
        """200 texts of one chunk go out in few requests, four at a time. (IN01)"""
        model = Provider(0.3)
        async with MemoryStore() as store:
            kb = KnowledgeBase("kb", "files", model, store, "kb")

            report = await sync(
                kb, TextSource({f"{n}.txt": f"text {n}" for n in range(200)}), pool=pool, max_concurrency=4
            )

        assert report.counts == {"added": 200}
        assert model.peak == 4
        assert sum(model.sizes) == 200
        assert len(model.sizes) <= 20

    async def test_size_and_number_are_options(self, pool: ParserPool) -> None:
        """No request holds more texts, and no more are in flight, than was said."""
        model = Provider(0.01)
        async with MemoryStore() as store:
            kb = KnowledgeBase("kb", "files", model, store, "kb")

            await sync(
                kb,
                TextSource({f"{n}.txt": f"text {n}" for n in range(50)}),
                pool=pool,
                max_concurrency=2,
                embedding_batch_size=7,
            )

        assert max(model.sizes) <= 7
        assert model.peak <= 2

    async def test_an_inserted_paragraph(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """At the top of a file of 200 chunks it costs at most three vectors."""
        paragraphs = [f"paragraph {i} " + " ".join(f"word{i}x{j}" for j in range(60)) for i in range(200)]
        path = write(tmp_path, {"a.md": "\n\n".join(paragraphs)}) / "a.md"
        first = await ingest(kb, tmp_path, pool=pool)
        path.write_text("\n\n".join(["a new beginning " + "fresh " * 60, *paragraphs]))

        second = await ingest(kb, tmp_path, pool=pool)

        assert first.embedded >= 150
        assert second.embedded <= 3

    @pytest.mark.parametrize(
        "number", ["document_concurrency", "max_concurrency", "embedding_batch_size", "max_chunks"]
    )
    async def test_a_number_out_of_range(self, number: Any, kb: KnowledgeBase) -> None:
        """It is refused by name before anything is done."""
        with pytest.raises(ConfigurationError, match=number):
            await ingest(kb, TextSource({"a": "b"}), **{number: 0})


class TestErrors:
    async def test_one_that_every_file_would_meet(self, pool: ParserPool) -> None:
        """It ends the run after the requests in flight; what was embedded is stored, and a note says so."""
        model = Provider(0.01, fails_from=3)
        async with MemoryStore() as store:
            kb = KnowledgeBase("kb", "files", model, store, "kb")
            with pytest.raises(EmbeddingUnavailableError, match="no quota") as caught:
                await sync(
                    kb,
                    TextSource({f"{n:03}.txt": f"text {n}" for n in range(300)}),
                    pool=pool,
                    embedding_batch_size=20,
                    max_concurrency=2,
                )
            stored = len(await kb.list_documents())

        assert len(model.sizes) <= 5
        assert stored == sum(model.sizes[:2])
        assert f"{stored} added" in caught.value.__notes__[0]

    async def test_a_provider_that_answers_nothing(self, pool: ParserPool) -> None:
        """Five requests that fail in a row, and none that succeeds, end the run, whatever the error is called."""
        model = Provider(fails_from=1, error=EmbeddingError("503"))
        async with MemoryStore() as store:
            kb = KnowledgeBase("kb", "files", model, store, "kb")
            with pytest.raises(EmbeddingError, match="503"):
                await sync(kb, TextSource({f"{n}.txt": f"text {n}" for n in range(100)}), pool=pool)

        assert len(model.sizes) <= 5 + 3

    async def test_a_zero_byte_file(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Text may be empty: it is skipped with a reason, and nothing failed. (IN03)"""
        write(tmp_path, {"a.md": "alpha", "__init__.py": ""})

        first = await ingest(kb, tmp_path, pool=pool)
        second = await ingest(kb, tmp_path, pool=pool)

        assert outcomes(first) == {"a.md": "added", "__init__.py": "skipped"}
        assert outcomes(second) == {"a.md": "unchanged", "__init__.py": "skipped"}
        assert first.ok
        assert "empty" in (first.of("skipped")[0].reason or "")

    async def test_limits_of_a_file(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """What is over them is skipped, and the reason names the limit."""
        write(tmp_path, {"big.txt": "word " * 400, "long.txt": "para\n\n" * 60, "a.txt": "alpha"})

        report = await ingest(
            kb, tmp_path, pool=pool, max_file_bytes=1_000, max_chunks=2, chunker=AutoChunker(chunk_size=50, overlap=0)
        )

        reasons = {file.document_id: file.reason for file in report.of("skipped")}
        assert reasons == {"big.txt": "2,000 bytes are over max_file_bytes=1,000; split it, or raise that",
                           "long.txt": "8 chunks are over max_chunks=2; split it, or raise that"}  # fmt: skip

    async def test_more_text_than_memory_is_for(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without an option kinds of text have a bound, which is said before any work. (IN02)"""
        from agent_rag.ingestion import changes

        monkeypatch.setattr(changes, "MAX_TEXT_BYTES", 1_000)
        write(tmp_path, {"big.json": json.dumps(["word"] * 400), "a.txt": "alpha"})

        refused = await ingest(kb, tmp_path, pool=pool)
        raised = await ingest(kb, tmp_path, pool=pool, max_file_bytes=10_000)

        assert outcomes(refused) == {"a.txt": "added", "big.json": "skipped"}
        assert "pass max_file_bytes=" in (refused.of("skipped")[0].reason or "")
        assert outcomes(raised) == {"a.txt": "unchanged", "big.json": "added"}


class TestNotDoneAgain:
    async def test_unchanged_files_are_not_even_opened(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Size, times and inode tell; `checksum` reads the content, and parses nothing either."""
        write(tmp_path, {f"{n}.txt": f"text {n}" for n in range(20)})
        await ingest(kb, tmp_path, pool=pool)
        opened: list[str] = []
        from agent_rag.ingestion import changes

        real = changes.digest_and_stamp
        monkeypatch.setattr(changes, "digest_and_stamp", lambda item: opened.append(item.key) or real(item))

        plain = await ingest(kb, tmp_path, pool=pool)
        by_stat = len(opened)
        hashed = await ingest(kb, tmp_path, pool=pool, checksum=True)

        assert plain.counts == hashed.counts == {"unchanged": 20}
        assert (by_stat, len(opened)) == (0, 20)

    async def test_what_failed_or_was_skipped_is_remembered(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """With its reason, until it changes; `force` tries again. Such files are no documents."""
        write(tmp_path, {"a.txt": "alpha", "blank.txt": " \n"})
        (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4\n1 0 obj\n<< /Type /Cat")
        parsed: list[str] = []

        def spy(item: SourceItem) -> Any:
            parsed.append(item.key)
            return parser_for(item.filename, item.media_type, item.path)

        first = await ingest(kb, tmp_path, pool=pool)
        second = await ingest(kb, tmp_path, pool=pool)
        parsed.clear()
        third = await ingest(kb, tmp_path, pool=pool, parser_for=spy, force=True)

        assert outcomes(first) == {"a.txt": "added", "bad.pdf": "failed", "blank.txt": "skipped"}
        assert [(file.document_id, file.reason) for file in second.files if file.reason] == [
            (file.document_id, file.reason) for file in first.files if file.reason
        ]
        assert sorted(parsed) == ["a.txt", "bad.pdf", "blank.txt"]
        assert third.counts == {"replaced": 1, "failed": 1, "skipped": 1}
        assert [document.document_id for document in await kb.list_documents()] == ["a.txt"]
        assert [one.document_id for one in await kb.list_documents(remembered=True)] == [
            "a.txt",
            "bad.pdf",
            "blank.txt",
        ]

    async def test_a_failed_change_is_remembered_and_taken_back(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """The last good version stays; when the file is as it was, nothing is to be done."""
        path = write(tmp_path, {"a.txt": "alpha"}) / "a.txt"
        await ingest(kb, tmp_path, pool=pool)
        path.write_bytes(b"")
        failed = [await ingest(kb, tmp_path, pool=pool) for _ in range(2)]
        path.write_text("alpha")

        after = await ingest(kb, tmp_path, pool=pool)

        assert [outcomes(report) for report in failed] == [{"a.txt": "failed"}] * 2
        assert (outcomes(after), after.embedded) == ({"a.txt": "unchanged"}, 0)

    async def test_changed_settings_are_named_and_kept(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """A new chunk size replaces and says so; a later run without one keeps to it. (IN04)"""
        write(tmp_path, {"a.txt": "alpha " * 200})
        await ingest(kb, tmp_path, pool=pool)

        changed = await ingest(kb, tmp_path, pool=pool, chunker=AutoChunker(chunk_size=400, overlap=40))
        later = await sync(kb, DirectorySource(tmp_path), pool=pool)

        assert outcomes(changed) == {"a.txt": "replaced"}
        assert '"chunk_size":400' in (changed.files[0].reason or "")
        assert outcomes(later) == {"a.txt": "unchanged"}
        assert '"chunk_size":400' in later.notes[0]

    async def test_a_dry_run(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """It says what would be done and what it costs, and does nothing."""
        write(tmp_path, {"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma"})
        await sync(kb, DirectorySource(tmp_path), pool=pool)
        (tmp_path / "a.txt").unlink()
        write(tmp_path, {"b.txt": "changed text", "d.txt": "delta"})
        before = await kb.list_documents(remembered=True)

        report = await sync(kb, DirectorySource(tmp_path), pool=pool, dry_run=True)

        assert outcomes(report) == {"a.txt": "pruned", "b.txt": "replaced", "c.txt": "unchanged", "d.txt": "added"}
        assert report.estimate is not None
        assert (report.estimate.chunks, report.estimate.requests, report.embedded) == (2, 1, 0)
        assert report.estimate.tokens > 0
        assert await kb.list_documents(remembered=True) == before


class TestEvents:
    async def test_they_say_only_what_happened(self, pool: ParserPool) -> None:
        """Deleting an unknown id is no event, a document without text is a deleted one. (IN06)"""
        events: list[Event] = []
        async with MemoryStore() as store:
            kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb", on_event=events.append)
            await sync(kb, TextSource({"a.txt": "alpha"}), pool=pool)
            events.clear()

            await kb.delete_document("unknown")
            await kb.delete_documents(["a.txt", "unknown"])
            await sync(kb, TextSource({"b.txt": "beta"}), pool=pool)
            await kb.replace_documents([Document(document_id="b.txt", chunks=[])])
            await kb.replace_documents([Document(document_id="never", chunks=[])])

        assert [(type(event), event.document_ids) for event in events] == [  # type: ignore[attr-defined]
            (DocumentsDeleted, ("a.txt",)), (DocumentsReplaced, ("b.txt",)), (DocumentsDeleted, ("b.txt",)),
        ]  # fmt: skip

    async def test_a_write_that_is_refused(self, pool: ParserPool) -> None:
        """It is an event with the document and the reason, and the others are written. (IN08)"""

        class Picky(MemoryStore):
            async def replace(self, collection: str, documents: Any, records: Any, *, scope: str = "") -> int:
                if any(document.document_id == "2.txt" for document in documents):
                    raise StoreError("quota of the store exceeded")
                return await super().replace(collection, documents, records, scope=scope)

        events: list[Event] = []
        async with Picky() as store:
            kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb", on_event=events.append)
            report = await sync(kb, TextSource({f"{n}.txt": f"text {n}" for n in range(4)}), pool=pool)

        (refused,) = [event for event in events if isinstance(event, DocumentsRefused)]
        assert (refused.document_ids, refused.reason) == (("2.txt",), "quota of the store exceeded")
        assert report.counts == {"added": 3, "failed": 1}

    async def test_progress_within_one_large_file(self, pool: ParserPool, tmp_path: Path) -> None:
        """Each request to the model is told, with what is done, what waits, and the time."""
        events: list[LoadProgress] = []
        write(tmp_path, {"a.txt": "\n\n".join(f"paragraph {n} " + "word " * 80 for n in range(100))})
        async with MemoryStore() as store:
            kb = KnowledgeBase("kb", "files", Provider(), store, "kb")
            await ingest(kb, tmp_path, pool=pool, embedding_batch_size=10, on_event=events.append)

        told = [event.chunks for event in events if event.stage == "embed"]
        assert told == [10, 20, 30, 40, 50]
        assert events[-1].bytes == (tmp_path / "a.txt").stat().st_size
        assert events[-1].elapsed_s > 0

    async def test_metadata_in_place(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """It changes documents and chunks at once, embeds nothing, and is an event."""
        events: list[Event] = []
        kb = KnowledgeBase(
            "kb", "files", kb.embedding_model, kb.vector_store, "kb", {"team": "a"}, on_event=events.append
        )
        await sync(kb, TextSource({"a.txt": "alpha", "b.txt": "beta"}), pool=pool)
        calls = kb.embedding_model.calls  # type: ignore[union-attr]

        changed = await kb.update_documents({"filename": "a.txt"}, metadata={"year": 2023, "filename": None})

        (document,) = await kb.list_documents(filter={"year": 2023})
        assert changed == ["a.txt"]
        (chunk,) = await kb.list_chunks("a.txt")
        for metadata in (document.metadata, chunk.metadata):
            assert {"year": 2023, "team": "a"}.items() <= metadata.items()
            assert "filename" not in metadata
        assert (await kb.search("alpha", top_k=1, filter={"year": 2023}))[0].chunk.text == "alpha"
        assert events[-1] == MetadataUpdated(
            knowledge_base="kb", document_ids=("a.txt",), fields=("filename", "year"), trigger="user"
        )
        assert kb.embedding_model.calls == calls + 1  # type: ignore[union-attr]
        with pytest.raises(ConfigurationError, match="scope"):
            await kb.update_documents({}, metadata={"team": "b"})
