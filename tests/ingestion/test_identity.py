"""A document is (source, path within it): links, copies, moves, names, and what several names reach."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_rag import DirectorySource, FileSource, KnowledgeBase, MemoryStore, ParserPool, ingest, sync
from agent_rag.ingestion import IngestReport
from agent_rag.testing import HashEmbedding
from tests.ingestion.test_ingest import outcomes, write


async def texts(kb: KnowledgeBase, **filter: Any) -> list[str]:
    """Text of every chunk, sorted."""
    found = []
    for document in await kb.list_documents(filter=filter or None):
        found += [chunk.text for chunk in await kb.list_chunks(document.document_id)]
    return sorted(found)


class TestSeveralNames:
    async def test_a_link_and_its_target(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """One document under the real name, which names the link; a change replaces it and nothing is pruned. (ID01)"""
        root = write(tmp_path / "docs", {"limits-v1.md": "The limit is 10 MB."})
        (root / "limits.md").symlink_to("limits-v1.md")
        first = await ingest(kb, root, pool=pool)
        (root / "limits-v1.md").write_text("The limit is 99 MB.")

        second = await ingest(kb, root, pool=pool)
        third = await sync(kb, DirectorySource(root), pool=pool)

        assert [(file.document_id, file.also) for file in first.files] == [("limits-v1.md", ["limits.md"])]
        assert [outcomes(report) for report in (second, third)] == [
            {"limits-v1.md": "replaced"}, {"limits-v1.md": "unchanged"},
        ]  # fmt: skip
        assert await texts(kb) == ["The limit is 99 MB."]
        assert (await kb.list_documents())[0].metadata["also"] == ["limits.md"]

    @pytest.mark.parametrize("order", range(3))
    async def test_one_file_given_twice(self, order: int, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """On the command line, in a FileSource, and beside its folder it is one document, and a note says so. (ID02)"""
        root = write(tmp_path / "docs", {"a.md": "alpha", "b.md": "beta"})
        paths: Any = (
            [root / "b.md", root / "a.md", root / "b.md"],
            [FileSource([root / "b.md", root / "b.md"])],
            [root, root / "b.md"],
        )[order]
        first = await ingest(kb, paths, pool=pool)
        (root / "b.md").write_text("gamma")

        second = await ingest(kb, paths, pool=pool)

        assert any("b.md was given more than once" in note for note in first.notes)
        assert second.counts["replaced"] == 1
        assert "beta" not in await texts(kb)
        assert (await texts(kb)).count("gamma") == 1

    async def test_a_change_of_a_file_with_several_names_aborts_nothing(self, pool: ParserPool, tmp_path: Path) -> None:
        """Ten files, one of them linked twice, all changed, a slow model: every round ends with all new. (ID03)"""

        class Slow(HashEmbedding):
            async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
                await asyncio.sleep(random.uniform(0, 0.02))
                return await super().__call__(inputs, mode=mode)

        root = write(tmp_path / "docs", {f"{number}.md": "old 0" for number in range(10)})
        for name in ("l1.md", "z.md"):
            (root / name).symlink_to("5.md")
        async with MemoryStore() as store:
            kb = KnowledgeBase("kb", "files", Slow(), store, "kb")
            await ingest(kb, root, pool=pool)
            for round_number in range(1, 13):
                write(root, {f"{number}.md": f"new {round_number} {number}" for number in range(10)})

                await ingest(kb, root, pool=pool)

                assert await texts(kb) == sorted(f"new {round_number} {number}" for number in range(10))

    async def test_hard_links_are_names_of_one_file(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """The first name in alphabetical order counts; when it goes, the other takes over and nothing is embedded."""
        root = write(tmp_path / "docs", {"b.md": "text", "other.md": "more"})
        os.link(root / "b.md", root / "a.md")
        first = await sync(kb, DirectorySource(root), pool=pool)
        (root / "a.md").unlink()

        second = await sync(kb, DirectorySource(root), pool=pool)

        assert [(file.document_id, file.also) for file in first.files if file.also] == [("a.md", ["b.md"])]
        assert outcomes(second) == {"a.md": "pruned", "b.md": "added", "other.md": "unchanged"}
        assert second.embedded == 0

    async def test_a_linked_folder_is_followed_once(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """What lies behind it has two names; a link to a folder above ends there."""
        root = write(tmp_path / "docs", {"v2/a.md": "alpha", "b.md": "beta"})
        (root / "current").symlink_to("v2")
        (root / "v2" / "up").symlink_to("..")

        report = await ingest(kb, root, pool=pool)

        assert {file.document_id: file.also for file in report.files} == {"v2/a.md": ["current/a.md"], "b.md": []}

    @pytest.mark.parametrize(
        ("links", "found"), [("inside", {"a.md"}), ("all", {"a.md", "out.md"}), ("none", {"a.md"})]
    )
    async def test_links_that_leave_the_directory(self, links: Any, found: set[str], tmp_path: Path) -> None:
        """They are followed on demand only, and named as skipped otherwise; so are broken ones."""
        root = write(tmp_path / "docs", {"a.md": "alpha"})
        write(tmp_path, {"secret.md": "secret"})
        (root / "out.md").symlink_to(tmp_path / "secret.md")
        (root / "broken.md").symlink_to("nowhere.md")

        listing = await DirectorySource(root, links=links).list()

        assert {item.document_id for item in listing.items} == found
        assert {name for name, _ in listing.skipped} == {"broken.md", "out.md"} - found


class TestNamesOfFiles:
    async def test_two_unicode_forms_of_one_name(self, pool: ParserPool, tmp_path: Path) -> None:
        """Both are documents, in every run. (ID07)"""
        root = write(tmp_path, {"Z\u00fcrich.md": "alpha", "Zu\u0308rich.md": "beta"})
        ids = set()
        for _ in range(6):
            async with MemoryStore() as store:
                kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb")

                await ingest(kb, root, pool=pool)

                assert await texts(kb) == ["alpha", "beta"]
                ids.add(tuple(summary.document_id for summary in await kb.list_documents()))
        assert len(ids) == 1

    async def test_files_with_one_preferred_id(self, pool: ParserPool, tmp_path: Path) -> None:
        """Names outside of the given root differ by their way there, whatever the order. (ID08)"""
        write(tmp_path, {"a/notes.txt": "alpha", "b/notes.txt": "beta", "elsewhere/c.txt": "c"})
        files = [tmp_path / "a/notes.txt", tmp_path / "b/notes.txt"]
        ids = set()
        for number in range(6):
            async with MemoryStore() as store:
                kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb")

                await sync(kb, FileSource(files[:: -1 if number % 2 else 1], root=tmp_path / "elsewhere"), pool=pool)

                ids.add(tuple(summary.document_id for summary in await kb.list_documents()))
        assert ids == {("../a/notes.txt", "../b/notes.txt")}

    async def test_a_store_inside_the_folder(self, pool: ParserPool, tmp_path: Path) -> None:
        """No file of a store is ever listed. (ID10)"""
        from agent_rag import QdrantStore

        root = write(tmp_path, {"a.md": "alpha"})
        for _ in range(2):
            async with QdrantStore(path=root / "store") as store:
                report = await ingest(KnowledgeBase("kb", "files", HashEmbedding(), store, "kb"), root, pool=pool)

        assert outcomes(report) == {"a.md": "unchanged"}


class TestTwoSources:
    async def test_equal_files_are_documents_of_their_own(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """Deleting one source's copy leaves the other's. (ID04)"""
        license_text = "Permission is hereby granted."
        write(
            tmp_path, {"A/LICENSE.txt": license_text, "A/a.txt": "one", "B/LICENSE.txt": license_text, "B/b.txt": "two"}
        )
        await sync(kb, DirectorySource(tmp_path / "A"), pool=pool)
        second = await sync(kb, DirectorySource(tmp_path / "B"), pool=pool)
        assert (second.embedded, (await texts(kb)).count(license_text)) == (1, 2)
        (tmp_path / "A/LICENSE.txt").unlink()

        await sync(kb, DirectorySource(tmp_path / "A"), pool=pool)

        assert [document.document_id for document in await kb.list_documents()] == ["B/LICENSE.txt", "a.txt", "b.txt"]
        assert (await kb.search("permission granted", top_k=1))[0].chunk.text == license_text

    async def test_metadata_of_each_source(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Neither takes the other's document over, and later syncs change nothing. (ID05)"""
        write(tmp_path, {"A/x.txt": "same", "B/x.txt": "same", "A/y.txt": "two", "B/y.txt": "two"})
        sources = [DirectorySource(tmp_path / name, metadata={"team": name}) for name in "AB"]
        reports: list[IngestReport] = []
        for source in (*sources, *sources):
            reports.append(await sync(kb, source, pool=pool))

            for name in "AB"[: len(reports)]:
                assert await texts(kb, team=name) == ["same", "two"]
        assert [report.counts for report in reports] == [{"added": 2}, {"added": 2}, {"unchanged": 2}, {"unchanged": 2}]

    async def test_one_file_in_a_folder_and_the_folder_above(
        self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path
    ) -> None:
        """It is one document; it belongs to the wider source, which prunes it when it is gone."""
        write(tmp_path, {"x/a.txt": "alpha", "x/b.txt": "beta", "c.txt": "gamma", "d.txt": "delta"})
        await sync(kb, DirectorySource(tmp_path / "x"), pool=pool)
        wide = await sync(kb, DirectorySource(tmp_path), pool=pool)
        narrow = await sync(kb, DirectorySource(tmp_path / "x"), pool=pool)
        (tmp_path / "x/a.txt").unlink()

        last = await sync(kb, DirectorySource(tmp_path), pool=pool)

        assert wide.counts == {"unchanged": 2, "added": 2}
        assert narrow.counts == {"unchanged": 2}
        assert outcomes(last)["a.txt"] == "pruned"
        assert await texts(kb) == ["beta", "delta", "gamma"]

    async def test_a_name_that_is_given_later(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Naming a source that had no name renames it."""
        write(tmp_path / "docs", {"a.txt": "alpha", "b.txt": "beta"})
        await sync(kb, DirectorySource(tmp_path / "docs"), pool=pool)

        named = await sync(kb, DirectorySource(tmp_path / "docs", name="handbook"), pool=pool)
        unnamed = await sync(kb, DirectorySource(tmp_path / "docs"), pool=pool)

        assert (named.counts, named.sources) == ({"unchanged": 2}, ["handbook"])
        assert (unnamed.counts, unnamed.sources) == ({"unchanged": 2}, ["handbook"])


class TestMoves:
    @pytest.mark.parametrize("name", [None, "docs"])
    async def test_a_moved_tree(self, name: str | None, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """It is known by its name, or recognised: what is gone is pruned, nothing is embedded, uris are new. (ID06)"""
        write(tmp_path / "checkout1", {f"f{number}.md": f"text {number}" for number in range(5)})
        await sync(kb, DirectorySource(tmp_path / "checkout1", name=name), pool=pool)
        (tmp_path / "checkout1").rename(tmp_path / "checkout2")
        (tmp_path / "checkout2/f4.md").unlink()

        report = await sync(kb, DirectorySource(tmp_path / "checkout2", name=name), pool=pool)

        assert outcomes(report) == {**{f"f{number}.md": "unchanged" for number in range(4)}, "f4.md": "pruned"}
        assert report.embedded == 0
        uris = [document.uri for document in await kb.list_documents()]
        assert uris == [(tmp_path / f"checkout2/f{number}.md").as_uri() for number in range(4)]
        assert (await kb.list_chunks("f0.md"))[0].uri == uris[0]

    async def test_a_renamed_folder(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Nothing is embedded, the old ids are gone. (ID09)"""
        root = write(tmp_path / "root", {f"old/f{number}.txt": f"text {number}" for number in range(6)})
        await sync(kb, DirectorySource(root), pool=pool)
        (root / "old").rename(root / "new")

        report = await sync(kb, DirectorySource(root), pool=pool, max_prune_share=1.0)

        assert report.embedded == 0
        assert [document.document_id for document in await kb.list_documents()] == [f"new/f{n}.txt" for n in range(6)]

    async def test_ingest_moves_a_renamed_file(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Though `ingest` deletes nothing, a file is not left at its old place; a deleted one stays."""
        root = write(tmp_path / "root", {"a.txt": "alpha", "b.txt": "beta"})
        await ingest(kb, root, pool=pool)
        (root / "a.txt").rename(root / "c.txt")
        (root / "b.txt").unlink()

        report = await ingest(kb, root, pool=pool)

        assert [(file.document_id, file.outcome, file.reason) for file in report.files] == [
            ("a.txt", "pruned", "moved to c.txt"), ("c.txt", "added", None),
        ]  # fmt: skip
        assert (report.embedded, await texts(kb)) == (0, ["alpha", "beta"])

    async def test_another_tree_at_an_old_place(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """A tree that shares less than half with one that is gone is another source."""
        write(tmp_path / "one", {"README.md": "first", "a.md": "alpha", "b.md": "beta"})
        write(tmp_path / "two", {"README.md": "second", "a.md": "other", "b.md": "beta"})
        await sync(kb, DirectorySource(tmp_path / "one"), pool=pool)
        shutil.rmtree(tmp_path / "one")

        report = await sync(kb, DirectorySource(tmp_path / "two"), pool=pool)

        assert report.counts == {"added": 3}
        assert len(await kb.list_documents()) == 6

    async def test_folders_of_one_name(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """Two trees called docs are two sources, told apart by the folder above."""
        write(tmp_path, {"a/docs/x.txt": "one", "b/docs/x.txt": "two"})

        first = await sync(kb, DirectorySource(tmp_path / "a/docs"), pool=pool)
        second = await sync(kb, DirectorySource(tmp_path / "b/docs"), pool=pool)

        assert (first.sources, second.sources) == (["docs"], ["b/docs"])
        assert [document.document_id for document in await kb.list_documents()] == ["b/docs/x.txt", "x.txt"]


async def test_an_unknown_id_deletes_nothing(
    kb: KnowledgeBase, pool: ParserPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths of the working directory are no ids. (ID11)"""
    write(tmp_path / "docs", {"README.md": "text"})
    monkeypatch.chdir(tmp_path)
    await ingest(kb, tmp_path / "docs", pool=pool)

    removed = [await kb.delete_document(name) for name in ("docs/README.md", "./nothing/../README.md")]

    assert removed == [0, 0]
    assert await texts(kb) == ["text"]
