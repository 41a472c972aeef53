"""Sources that are no folder: git, fsspec, memory, conditional pages and sitemaps, and the one an address names."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_rag import DirectorySource, FileSource, KnowledgeBase, ParserPool, WebSource, ingest, sync
from agent_rag.errors import ConfigurationError, SourceError
from agent_rag.events import LoadProgress
from agent_rag.sources import GitSource, MemorySource, SourceBase, SourceDocument, open_source
from tests.ingestion.page_server import Page, PageServer
from tests.ingestion.test_ingest import outcomes, write


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, files: dict[str, str]) -> None:
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, {"docs/a.md": "alpha", "docs/b.md": "beta", "code.py": "x = 1", "docs/pic.xyz": "?"})
    git(folder, "tag", "v1")
    return folder


class TestGit:
    async def test_a_commit_of_a_folder(self, kb: KnowledgeBase, pool: ParserPool, repository: Path) -> None:
        """A subfolder at a tag; the work tree does not matter, and the uri names file and repository."""
        commit(repository, {"docs/a.md": "changed later"})

        report = await sync(kb, GitSource(repository, ref="v1", subfolder="docs"), pool=pool)

        assert outcomes(report) == {"a.md": "added", "b.md": "added", "pic.xyz": "skipped"}
        assert [chunk.text for chunk in await kb.list_chunks("a.md")] == ["alpha"]
        assert (await kb.list_documents())[0].uri == f"git:{repository}#docs/a.md"

    async def test_only_what_changed_is_read(self, kb: KnowledgeBase, pool: ParserPool, repository: Path) -> None:
        """Between two commits git says what changed; a clone of an address is read the same way."""
        address = f"file://{repository}"
        await sync(kb, GitSource(address, name="docs"), pool=pool)
        commit(repository, {"docs/a.md": "gamma"})
        (repository / "docs/b.md").rename(repository / "docs/c.md")
        commit(repository, {})

        report = await sync(kb, GitSource(address, name="docs"), pool=pool)

        assert outcomes(report) == {
            "code.py": "unchanged", "docs/a.md": "replaced", "docs/b.md": "pruned", "docs/c.md": "added",
            "docs/pic.xyz": "skipped",
        }  # fmt: skip
        assert report.embedded == 1

    @pytest.mark.parametrize("options", [{"ref": "nowhere"}, {"subfolder": "nowhere"}])
    async def test_what_is_not_there(self, options: dict[str, str], repository: Path) -> None:
        """An unknown ref or folder is an error of the source, with what git says."""
        with pytest.raises(SourceError, match=r"git .*check the repository, the ref and the subfolder"):
            await GitSource(repository, **options).list()  # type: ignore[arg-type]

    def test_an_option_in_disguise(self) -> None:
        """An address or ref that git would take for an option is refused."""
        with pytest.raises(SourceError, match="no repository or ref"):
            GitSource("--upload-pack=touch x")


class TestFsspec:
    async def test_a_file_system(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """Unchanged, changed, deleted and new files of memory://."""
        fsspec = pytest.importorskip("fsspec", reason="pip install fsspec")
        from agent_rag.sources import FsspecSource

        memory = fsspec.filesystem("memory")
        for name, text in {"a.md": "alpha", "x/b.md": "beta", "c.bin": "?"}.items():
            memory.pipe(f"/bucket/{name}", text.encode())
        source = FsspecSource("memory://bucket")
        first = await sync(kb, source, pool=pool)
        memory.pipe("/bucket/a.md", b"gamma")
        memory.rm("/bucket/x/b.md")
        memory.pipe("/bucket/d.md", b"delta")

        second = await sync(kb, source, pool=pool)

        assert outcomes(first) == {"a.md": "added", "x/b.md": "added", "c.bin": "skipped"}
        assert outcomes(second) == {"a.md": "replaced", "c.bin": "skipped", "d.md": "added", "x/b.md": "pruned"}
        assert (await kb.list_documents())[0].uri == "memory://bucket/a.md"

    async def test_a_zip_file(self, kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
        """The files in an archive, by chained address."""
        pytest.importorskip("fsspec", reason="pip install fsspec")
        import zipfile

        from agent_rag.sources import FsspecSource

        with zipfile.ZipFile(tmp_path / "docs.zip", "w") as archive:
            archive.writestr("docs/a.md", "alpha")

        report = await sync(kb, FsspecSource(f"zip://docs::{tmp_path}/docs.zip"), pool=pool)
        again = await sync(kb, FsspecSource(f"zip://docs::{tmp_path}/docs.zip"), pool=pool)

        assert (outcomes(report), outcomes(again)) == ({"a.md": "added"}, {"a.md": "unchanged"})

    async def test_one_that_does_not_answer(self) -> None:
        """Whatever its errors are called, it is an error of the source, without keys."""
        pytest.importorskip("fsspec", reason="pip install fsspec")
        from agent_rag.sources import FsspecSource

        with pytest.raises(SourceError, match="nowhere is not a folder"):
            await FsspecSource("memory://nowhere").list()


class TestMemory:
    async def test_an_upload_in_one_step(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """Bytes and text with id, title, uri and metadata; the next one is added, an equal one unchanged."""
        first = await ingest(
            kb,
            SourceDocument(document_id="7", content=b"# Gateway\n\nThirty seconds.", filename="gateway.md", title="T",
                           uri="https://example.org/7", metadata={"year": 2024}),
            pool=pool,
        )  # fmt: skip
        second = await ingest(kb, [SourceDocument(document_id="8", content="plain")], pool=pool)
        third = await ingest(kb, [SourceDocument(document_id="8", content="plain")], pool=pool)

        assert [outcomes(report) for report in (first, second, third)] == [
            {"7": "added"}, {"8": "added"}, {"8": "unchanged"},
        ]  # fmt: skip
        document = (await kb.list_documents(filter={"year": 2024}))[0]
        assert (document.title, document.uri, document.source) == ("T", "https://example.org/7", "gateway.md")
        assert (await kb.list_chunks("7"))[0].heading_path == ["Gateway"]

    def test_two_of_one_id(self) -> None:
        """They are refused."""
        with pytest.raises(ConfigurationError, match="'a' occurs twice"):
            MemorySource([SourceDocument(document_id="a", content="x"), SourceDocument(document_id="a", content="y")])


class TestPages:
    async def test_a_page_that_did_not_change_is_not_sent(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """ETag and Last-Modified are remembered; with other settings the page is fetched after all."""
        whole = Page(b"alpha", "text/markdown", headers={"etag": '"1"'})
        pages = {
            "/a.md": [whole, Page(b"", None, 304), Page(b"", None, 304), whole],
            "/b.md": Page(b"beta", "text/markdown"),
        }
        with PageServer(pages) as server:
            addresses = [f"{server.url}/a.md", f"{server.url}/b.md"]
            await sync(kb, WebSource(addresses, allow_private=True), pool=pool)
            second = await sync(kb, WebSource(addresses, allow_private=True), pool=pool)
            third = await sync(kb, WebSource(addresses, allow_private=True, metadata={"x": 1}), pool=pool)

        assert second.counts == {"unchanged": 2}
        asked = [headers.get("if-none-match") for path, headers in server.requests if path == "/a.md"]
        assert asked == [None, '"1"', '"1"', None]
        assert third.counts == {"replaced": 2}
        assert await kb.count(filter={"x": 1}) == 2

    async def test_a_sitemap(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """Its pages, also those of an index, of its own host; progress is told while they are fetched."""
        events: list[LoadProgress] = []
        with PageServer({name: Page(name.encode(), "text/markdown") for name in ("/a.md", "/b.md")}) as server:
            inner = "".join(f"<url><loc>{server.url}{path}</loc></url>" for path in ("/a.md", "/b.md"))
            xmlns = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
            pages = f"<urlset {xmlns}>{inner}<url><loc>https://other.example/x</loc></url></urlset>"
            index = f"<sitemapindex {xmlns}><sitemap><loc>{server.url}/pages.xml</loc></sitemap></sitemapindex>"
            server.pages["/pages.xml"] = Page(pages.encode(), "text/xml")
            server.pages["/sitemap.xml"] = Page(index.encode(), "text/xml")
            source = open_source(f"{server.url}/sitemap.xml", allow_private=True)

            report = await sync(kb, source, pool=pool, on_event=events.append)

        assert report.counts == {"added": 2}
        assert [(event.done, event.total) for event in events if event.stage == "fetch"] == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("docs", "DirectorySource"),
        ("docs/a.md", "FileSource"),
        ("https://example.org/page", "WebSource"),
        ("https://example.org/sitemap.xml", "WebSource"),
        ("https://example.org/team/repo.git#docs", "GitSource"),
        ("git+https://example.org/team/repo", "GitSource"),
        ("git@example.org:team/repo.git", "GitSource"),
        ("memory://bucket", "FsspecSource"),
    ],
)
def test_open_source_picks(what: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what a path is, or by the scheme of an address."""
    write(tmp_path, {"docs/a.md": "alpha"})
    monkeypatch.chdir(tmp_path)

    assert type(open_source(what)).__name__ == kind


def test_open_source_of_nothing() -> None:
    """A name that leads nowhere is an error."""
    with pytest.raises(SourceError, match="no file, folder or address"):
        open_source("nowhere")


async def test_sources_are_listed_side_by_side(kb: KnowledgeBase, pool: ParserPool) -> None:
    """As many as `source_concurrency` says."""
    listing, peak = 0, 0

    class Slow(MemorySource):
        async def list(self) -> Any:
            nonlocal listing, peak
            listing += 1
            peak = max(peak, listing)
            await asyncio.sleep(0.02)
            listing -= 1
            return await super().list()

    sources = [Slow([SourceDocument(document_id=f"{n}", content="x")], name=f"s{n}") for n in range(6)]

    report = await sync(kb, sources, pool=pool, source_concurrency=3)

    assert (peak, report.counts) == (3, {"added": 6})


async def test_file_facts(kb: KnowledgeBase, pool: ParserPool, tmp_path: Path) -> None:
    """Size, time and type of a file as metadata, when asked for."""
    sources: list[SourceBase]
    path = write(tmp_path, {"a.md": "alpha"}) / "a.md"

    sources = [DirectorySource(tmp_path, file_facts=True), FileSource([path], file_facts=True)]
    for source in sources:
        (item,) = (await source.list()).items

        assert item.metadata == {
            "size": 5,
            "modified": item.metadata["modified"],
            "media_type": "text/markdown",
        }
        assert item.metadata["modified"].endswith("Z")
