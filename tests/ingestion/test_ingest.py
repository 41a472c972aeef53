"""ingest and sync: reports, identity of files, changes, failures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_rag import DirectorySource, FileSource, KnowledgeBase, MemoryStore, ParserPool, TextSource, ingest, sync
from agent_rag.errors import EmbeddingAuthError, SourceError
from agent_rag.events import LoadProgress
from agent_rag.testing import HashEmbedding, SevenMethodStore


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def outcomes(report: Any) -> dict[str, str]:
    return {file.document_id: file.outcome for file in report.files}


class TestOutcomes:
    async def test_a_second_run_changes_nothing(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Unchanged files are skipped without embedding, also when touched. (I07)"""
        write(tmp_path, {"a.txt": "alpha", "sub/b.md": "# Beta\n\nbody"})
        first = await ingest(kb, tmp_path, pool=pool)
        calls = kb.embedding_model.calls
        for path in tmp_path.rglob("*.*"):
            os.utime(path, (1, 1))

        second = await ingest(kb, tmp_path, pool=pool)

        assert outcomes(first) == {"a.txt": "added", "sub/b.md": "added"}
        assert outcomes(second) == {"a.txt": "unchanged", "sub/b.md": "unchanged"}
        assert kb.embedding_model.calls == calls
        assert second.embedded == 0

    async def test_a_copied_folder_is_unchanged(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """The same tree at another place gives the same ids and nothing to do. (I07)"""
        write(tmp_path / "one", {"a.txt": "alpha", "sub/b.txt": "beta"})
        await ingest(kb, tmp_path / "one", pool=pool)
        shutil.copytree(tmp_path / "one", tmp_path / "two")

        report = await ingest(kb, tmp_path / "two", pool=pool)

        assert report.counts == {"unchanged": 2}

    async def test_a_change_of_equal_size_and_time_is_seen(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """Content decides, not size and time. (I07)"""
        path = write(tmp_path, {"a.txt": "alpha"}) / "a.txt"
        os.utime(path, (1, 1))
        await ingest(kb, tmp_path, pool=pool)
        path.write_text("omega")
        os.utime(path, (1, 1))

        report = await ingest(kb, tmp_path, pool=pool)

        assert outcomes(report) == {"a.txt": "replaced"}
        assert [hit.chunk.text for hit in await kb.search("omega alpha", top_k=5)] == ["omega"]

    async def test_only_changed_chunks_are_embedded(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """A paragraph that changed costs its own embedding, not the file's."""
        paragraphs = [f"paragraph {i} " + f"word{i} " * 150 for i in range(6)]
        path = write(tmp_path, {"a.txt": "\n\n".join(paragraphs)}) / "a.txt"
        first = await ingest(kb, tmp_path, pool=pool)
        path.write_text("\n\n".join([*paragraphs[:-1], "paragraph 5 " + "other " * 150]))

        second = await ingest(kb, tmp_path, pool=pool)

        assert first.embedded >= 6
        assert 1 <= second.embedded <= 2

    async def test_one_bad_file_costs_only_itself(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Good files are searchable, each bad one is reported with a reason that names it. (I01)"""
        write(tmp_path, {"good1.txt": "first good text", "good2.md": "second good text"})
        (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4\n1 0 obj\n<< /Type /Cat")
        (tmp_path / "empty.docx").write_bytes(b"")
        (tmp_path / "noperm.txt").write_text("secret")
        (tmp_path / "noperm.txt").chmod(0)
        expected = {"good1.txt": "added", "good2.md": "added", "bad.pdf": "failed", "empty.docx": "failed"}
        expected["noperm.txt"] = "added" if os.geteuid() == 0 else "failed"

        report = await ingest(kb, tmp_path, pool=pool)

        assert outcomes(report) == expected
        assert not report.ok
        assert all(file.reason and file.document_id in file.reason for file in report.of("failed"))
        assert len(await kb.search("good text", top_k=5, filter={"filename": ["good1.txt", "good2.md"]})) == 2

    async def test_strict_stops_at_the_first_failure(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """With strict=True the error comes through. (I01)"""
        (tmp_path / "empty.docx").write_bytes(b"")

        with pytest.raises(ValueError, match=r"empty\.docx"):
            await ingest(kb, tmp_path, pool=pool, strict=True)

    async def test_a_failed_file_keeps_its_last_good_version(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """A file that can no longer be read stays searchable as it was."""
        path = write(tmp_path, {"a.txt": "precious text"}) / "a.txt"
        await ingest(kb, tmp_path, pool=pool)
        path.write_bytes(b"")

        report = await ingest(kb, tmp_path, pool=pool)

        assert outcomes(report) == {"a.txt": "failed"}
        assert [hit.chunk.text for hit in await kb.search("precious")] == ["precious text"]

    async def test_a_wrong_key_stops_the_run(self, pool: ParserPool, tmp_path: Path) -> None:
        """An error that every file would meet ends the run with one message. (I13)"""

        class Refused(HashEmbedding):
            async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
                self.calls += 1
                raise EmbeddingAuthError("401: check api_key")

        write(tmp_path, {f"{i}.txt": f"text {i}" for i in range(200)})
        model = Refused()
        async with MemoryStore() as store:
            with pytest.raises(EmbeddingAuthError, match="check api_key"):
                await ingest(KnowledgeBase("kb", "files", model, store, "kb"), tmp_path, pool=pool)

        assert model.calls == 1

    async def test_one_document_that_cannot_be_embedded_costs_only_itself(
        self, pool: ParserPool, tmp_path: Path
    ) -> None:
        """The other documents of its batch are stored."""

        class Picky(HashEmbedding):
            async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
                if any("poison" in item for item in inputs):
                    raise RuntimeError("provider choked")
                return await super().__call__(inputs, mode=mode)

        write(tmp_path, {"a.txt": "fine", "b.txt": "poison", "c.txt": "fine too"})
        async with MemoryStore() as store:
            report = await ingest(KnowledgeBase("kb", "files", Picky(), store, "kb"), tmp_path, pool=pool)

        assert outcomes(report) == {"a.txt": "added", "b.txt": "failed", "c.txt": "added"}

    async def test_blank_files_are_skipped_with_a_reason(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """A file without text is no success, and says so."""
        write(tmp_path, {"blank.txt": " \n\t\n"})

        (file,) = (await ingest(kb, tmp_path, pool=pool)).files

        assert (file.outcome, file.reason) == ("skipped", "no text in it")

    async def test_reports_progress(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Events count the files that are parsed and stored, up to the total."""
        events: list[LoadProgress] = []
        write(tmp_path, {f"{i}.txt": f"text {i}" for i in range(3)})

        await ingest(kb, tmp_path, pool=pool, on_event=events.append)

        assert [event.done for event in events if event.stage == "parse"] == [1, 2, 3]
        assert [event.done for event in events if event.stage == "store"] == [1, 2, 3]
        assert {event.total for event in events} == {3}
        assert [event.done for event in events if event.stage == "done"] == [3]
        assert events[-1].stage == "done"

    async def test_reports_what_is_pruned(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Each document that is gone is named."""
        events: list[LoadProgress] = []
        write(tmp_path, {f"{i}.txt": f"text {i}" for i in range(3)})
        await sync(kb, DirectorySource(tmp_path), pool=pool)
        (tmp_path / "1.txt").unlink()

        await sync(kb, DirectorySource(tmp_path), pool=pool, on_event=events.append)

        pruned = [(event.done, event.document_id, event.outcome) for event in events if event.stage == "prune"]
        assert pruned == [(1, "1.txt", "pruned")]

    async def test_works_on_a_store_with_seven_methods(self, pool: ParserPool, tmp_path: Path) -> None:
        """A third-party store keeps what is needed to see changes."""
        write(tmp_path, {"a.txt": "alpha", "b.txt": "beta"})
        async with SevenMethodStore() as store:
            kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb", {"tenant": "a"})
            await ingest(kb, tmp_path, pool=pool)
            (tmp_path / "b.txt").write_text("gamma")

            report = await ingest(kb, tmp_path, pool=pool)

            assert outcomes(report) == {"a.txt": "unchanged", "b.txt": "replaced"}
            (hit,) = await kb.search("gamma", top_k=1)
            assert {"filename": "b.txt", "tenant": "a"}.items() <= hit.chunk.metadata.items()


class TestIdentity:
    async def test_equal_names_in_different_folders(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Files of one name are different documents; editing one replaces only its chunks. (I09)"""
        write(tmp_path, {"a/README.md": "alpha", "b/README.md": "beta", "report.md": "m", "report.txt": "t"})
        await ingest(kb, [tmp_path / "a", tmp_path / "b", tmp_path / "report.md", tmp_path / "report.txt"], pool=pool)
        (tmp_path / "b/README.md").write_text("gamma")

        report = await ingest(kb, tmp_path / "b", pool=pool)

        assert outcomes(report) == {"b/README.md": "replaced"}
        assert {summary.document_id for summary in await kb.list_documents()} == {
            "a/README.md", "b/README.md", "report.md", "report.txt",
        }  # fmt: skip

    async def test_folders_ingested_one_after_the_other(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """A second folder with the same file names does not overwrite the first. (I09)"""
        write(tmp_path, {"a/README.md": "alpha", "b/README.md": "beta"})
        await ingest(kb, tmp_path / "a", pool=pool)

        report = await ingest(kb, tmp_path / "b", pool=pool)
        again = await ingest(kb, tmp_path / "b", pool=pool)

        assert outcomes(report) == {"b/README.md": "added"}
        assert outcomes(again) == {"b/README.md": "unchanged"}
        assert sorted(hit.chunk.text for hit in await kb.search("alpha beta", top_k=5)) == ["alpha", "beta"]

    async def test_one_file_has_one_id_however_it_is_spelled(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """./a.txt, a.txt, the absolute path and the folder are one document. (I11)"""
        write(tmp_path, {"x/a.txt": "alpha"})
        monkeypatch.chdir(tmp_path / "x")

        for spelling in ("./a.txt", "a.txt", tmp_path / "x/a.txt", tmp_path / "x", tmp_path):
            await ingest(kb, spelling, pool=pool)

        (summary,) = await kb.list_documents()
        assert summary.document_id == "a.txt"
        assert await kb.delete_document(str(tmp_path / "x/a.txt")) == 1

    async def test_names_in_two_unicode_forms(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """The id is NFC whatever the disk says; two real files stay two documents. (I11)"""
        write(tmp_path, {"re\u0301sume\u0301.txt": "decomposed"})
        await ingest(kb, tmp_path, pool=pool)
        assert [summary.document_id for summary in await kb.list_documents()] == ["r\u00e9sum\u00e9.txt"]
        write(tmp_path, {"r\u00e9sum\u00e9.txt": "composed"})

        await ingest(kb, tmp_path, pool=pool)

        assert len(await kb.list_documents()) == 2

    async def test_a_backslash_is_part_of_a_name_on_posix(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        r"""x\y.txt and x/y.txt are two documents. (I11)"""
        write(tmp_path, {"x\\y.txt": "one", "x/y.txt": "two"})

        await ingest(kb, tmp_path, pool=pool)

        assert {summary.document_id for summary in await kb.list_documents()} == {"x\\y.txt", "x/y.txt"}


class TestListing:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, {"a.md", "docs/b.md", "docs/deep/c.md", "drafts/d.md", "drafts\\x.md"}),
            ({"recursive": False}, {"a.md", "drafts\\x.md"}),
            ({"include": ["docs/**/*.md"]}, {"docs/b.md", "docs/deep/c.md"}),
            ({"exclude": ["drafts/**"]}, {"a.md", "docs/b.md", "docs/deep/c.md", "drafts\\x.md"}),
            ({"exclude": ["*.md"]}, set()),
        ],
    )
    async def test_patterns(self, tmp_path: Path, options: dict[str, Any], expected: set[str]) -> None:
        """Patterns apply to nested paths; hidden and generated folders are left out. (I03)"""
        names = ("a.md", "docs/b.md", "docs/deep/c.md", "drafts/d.md", "drafts\\x.md", "node_modules/m.md", ".git/h.md")
        write(tmp_path, dict.fromkeys(names, "text"))

        listing = await DirectorySource(tmp_path, **options).list()

        assert {item.document_id for item in listing.items} == expected

    async def test_unknown_endings_are_skipped_with_a_reason(self, tmp_path: Path) -> None:
        """A file that no parser takes is listed as skipped, and taken when a pattern names it."""
        write(tmp_path, {"a.txt": "x", "b.xyz": "y"})

        plain = await DirectorySource(tmp_path).list()
        named = await DirectorySource(tmp_path, include=["*.xyz"]).list()

        assert plain.skipped == [("b.xyz", "no parser for .xyz")]
        assert [item.document_id for item in named.items] == ["b.xyz"]

    async def test_a_missing_path_is_a_failure(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """The report names it; the rest goes on."""
        write(tmp_path, {"a.txt": "x"})

        report = await ingest(kb, [tmp_path / "a.txt", tmp_path / "missing.txt"], pool=pool)

        assert report.counts == {"added": 1, "failed": 1}
        assert report.of("failed")[0].reason == "does not exist"

    async def test_a_directory_that_is_none(self, tmp_path: Path) -> None:
        """Syncing something that is no directory is an OSError that names it."""
        with pytest.raises(OSError, match="is not a directory"):
            await DirectorySource(tmp_path / "nowhere").list()

    async def test_links(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """A link to itself or out of the directory is skipped with a reason; one inside is followed."""
        root = write(tmp_path / "root", {"a.txt": "inside"})
        (tmp_path / "secret.txt").write_text("outside")
        (root / "loop.txt").symlink_to("loop.txt")
        (root / "out.txt").symlink_to(tmp_path / "secret.txt")
        (root / "same.txt").symlink_to("a.txt")

        report = await ingest(kb, root, pool=pool)

        assert {file.document_id: file.outcome for file in report.of("skipped")} == {
            "loop.txt": "skipped", "out.txt": "skipped",
        }  # fmt: skip
        assert {hit.chunk.text for hit in await kb.search("inside outside", top_k=5)} == {"inside"}

    async def test_a_name_that_is_no_utf8(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Bytes that are no UTF-8 are written as escapes; the file is read."""
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/inv\xff.txt")).write_text("text")

        report = await ingest(kb, tmp_path, pool=pool)

        assert outcomes(report) == {"inv\\udcff.txt": "added"}

    async def test_an_empty_path_is_refused(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """An unset variable of a script does not ingest the working directory."""
        with pytest.raises(SourceError, match="empty"):
            await ingest(kb, "", pool=pool)


class TestPruning:
    async def test_deletes_what_is_gone(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """sync deletes vanished documents of its own source, and no other's."""
        write(tmp_path, {"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma"})
        await kb.insert_document((await _chunks("mine")), "by hand")
        await sync(kb, DirectorySource(tmp_path), pool=pool)
        (tmp_path / "b.txt").unlink()

        report = await sync(kb, DirectorySource(tmp_path), pool=pool)

        assert outcomes(report) == {"a.txt": "unchanged", "b.txt": "pruned", "c.txt": "unchanged"}
        assert {summary.document_id for summary in await kb.list_documents()} == {"a.txt", "by hand", "c.txt"}

    async def test_refuses_to_delete_most_of_it(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """An emptied folder does not empty the knowledge base unless told."""
        write(tmp_path, {"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma"})
        await sync(kb, DirectorySource(tmp_path), pool=pool)
        for name in ("a.txt", "b.txt"):
            (tmp_path / name).unlink()

        with pytest.raises(SourceError, match="lacks 2 of its 3 documents"):
            await sync(kb, DirectorySource(tmp_path), pool=pool)
        assert len(await kb.list_documents()) == 3
        await sync(kb, DirectorySource(tmp_path), pool=pool, max_prune_share=1.0)
        assert len(await kb.list_documents()) == 1

    async def test_a_listing_with_errors_prunes_nothing(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """A file that is missing by error is not taken for deleted."""
        write(tmp_path, {"a.txt": "alpha", "b.txt": "beta", "c.txt": "gamma"})
        files = [tmp_path / f"{name}.txt" for name in "abc"]
        await sync(kb, FileSource(files), pool=pool)
        files[1].unlink()

        await sync(kb, FileSource(files), pool=pool)

        assert len(await kb.list_documents()) == 3

    async def test_a_failed_file_is_not_pruned(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """A file that is there and cannot be read keeps its document."""
        write(tmp_path, {"a.txt": "alpha", "b.txt": "beta"})
        await sync(kb, DirectorySource(tmp_path), pool=pool)
        (tmp_path / "a.txt").write_bytes(b"")

        await sync(kb, DirectorySource(tmp_path), pool=pool)

        assert {summary.document_id for summary in await kb.list_documents()} == {"a.txt", "b.txt"}


async def test_text_source_reads_no_file(kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
    """A text that happens to be a path stays text."""
    secret = tmp_path / "secret.txt"
    secret.write_text("top secret")

    await sync(kb, TextSource({"note": str(secret)}), pool=pool)

    (hit,) = await kb.search("secret", top_k=1)
    assert hit.chunk.text == str(secret)


async def _chunks(text: str) -> Any:
    from agent_rag import RecursiveChunker
    from agent_rag.documents import text_section

    return await RecursiveChunker().chunk([text_section(text, "note")])
