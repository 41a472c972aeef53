"""WebSource: pages of the web become documents."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Iterator
from typing import Any

import docx
import pytest

from agent_rag import KnowledgeBase, ParserPool, WebSource, ingest, sync
from agent_rag.errors import ConfigurationError, SourceError
from agent_rag.sources import Listing
from tests.shared import ROOT

from .page_server import Page, PageServer, slowly


def html(text: str, title: str = "A page") -> Page:
    return Page(f"<html><head><title>{title}</title></head><body><main><p>{text}</p></main></body></html>".encode())


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer({"/a": html("Alpha is the first letter."), "/b": html("Beta is the second letter.")}) as running:
        yield running


def web(server: PageServer, *paths: str, **options: Any) -> WebSource:
    return WebSource([server.url + path for path in paths], **{"allow_private": True, "max_attempts": 1, **options})


def outcomes(server: PageServer, report: Any) -> dict[str, str]:
    return {file.document_id.removeprefix(server.url): file.outcome for file in report.files}


async def texts(kb: KnowledgeBase, query: str) -> list[str]:
    return [hit.chunk.text for hit in await kb.search(query, top_k=10)]


async def listing_of(page: Page, path: str = "/page", **options: Any) -> Listing:
    """What a source finds at one address."""
    with PageServer({path: page}) as server:
        return await web(server, path, **options).list()


class TestDocuments:
    async def test_an_address_is_a_document(self, kb: KnowledgeBase, pool: ParserPool, server: PageServer) -> None:
        """Its id and uri are the address without fragment, its title that of the page; metadata are its own."""
        source = web(server, "/a#top", metadata=lambda address: {"host": address.split("/")[2].split(":")[0]})

        await sync(kb, source, pool=pool)

        (summary,) = await kb.list_documents()
        assert (summary.document_id, summary.uri) == (f"{server.url}/a", f"{server.url}/a")
        assert summary.title == "A page"
        assert summary.metadata["host"] == "127.0.0.1"
        assert await texts(kb, "first letter") == ["Alpha is the first letter."]

    async def test_the_content_tells_what_a_file_is(self, kb: KnowledgeBase, pool: ParserPool) -> None:
        """PDF and Word are read as such, whatever the server calls them and however the address ends."""
        word = docx.Document()
        word.add_paragraph("The gateway timeout is thirty seconds.")
        saved = io.BytesIO()
        word.save(saved)
        pdf = next((ROOT / "examples/handbook").rglob("*.pdf")).read_bytes()
        pages = {
            "/export.html": Page(saved.getvalue(), content_type="text/html; charset=koi8-r"),
            "/report?id=1": Page(pdf, content_type="application/octet-stream"),
        }

        with PageServer(pages) as server:
            report = await sync(kb, web(server, *pages), pool=pool)
            chunks = await kb.list_chunks(f"{server.url}/report?id=1")

        assert report.counts == {"added": 2}
        assert (await texts(kb, "gateway timeout"))[0] == "The gateway timeout is thirty seconds."
        assert chunks[0].metadata["page"] == 1

    async def test_the_ending_tells_what_the_server_does_not(self) -> None:
        """A server that says text/plain or nothing leaves it to the ending of the path; else the query stays."""
        plain = await listing_of(Page(b"# A", content_type="text/plain"), "/notes.md?raw=1")
        silent = await listing_of(Page(b"a,b", content_type=None), "/table.csv?dl=1")
        told = await listing_of(Page(b"<p>A</p>"), "/index.php?page=2")

        names = [listing.items[0].filename.split("/", 3)[3] for listing in (plain, silent, told)]
        assert names == ["notes.md", "table.csv", "index.php?page=2"]
        assert plain.items[0].document_id.endswith("/notes.md?raw=1")

    async def test_a_mapping_tells_identity_from_address(
        self, kb: KnowledgeBase, pool: ParserPool, server: PageServer
    ) -> None:
        """The key is what a document is known by, the value is fetched."""
        source = WebSource({"https://Wiki.example/Alpha#x": f"{server.url}/a"}, allow_private=True)

        await sync(kb, source, pool=pool)

        (summary,) = await kb.list_documents()
        assert (summary.document_id, summary.uri) == ("https://wiki.example/Alpha", "https://wiki.example/Alpha")
        assert server.paths == ["/a"]

    @pytest.mark.parametrize(
        ("body", "content_type"),
        [
            ("Съешь ещё этих булок".encode("koi8-r"), "text/plain; charset=KOI8-R"),
            ('<meta charset="iso-8859-1"><p>Съешь ещё этих булок</p>'.encode("koi8-r"), "text/html; charset=koi8-r"),
            ('<meta charset="koi8-r"><p>Съешь ещё этих булок</p>'.encode("koi8-r"), "text/html"),
            ('<meta charset="koi8-r"><p>Съешь ещё этих булок</p>'.encode("koi8-r"), "text/html; charset=no-such"),
            ("Съешь ещё этих булок".encode("koi8-r"), "text/plain; format=flowed ; Charset = 'KOI8-R', text/html"),
            ("Съешь ещё этих булок".encode(), "text/plain; charset=koi8-r"),
        ],
        ids=["header", "header over meta", "meta", "unknown", "among others", "really UTF-8"],
    )
    async def test_the_charset_of_the_server_counts(
        self, kb: KnowledgeBase, pool: ParserPool, body: bytes, content_type: str
    ) -> None:
        """It decides before what the page says of itself, unless the bytes are plainly UTF-8."""
        with PageServer({"/page": Page(body, content_type=content_type)}) as server:
            await sync(kb, web(server, "/page"), pool=pool)

        assert await texts(kb, "булок") == ["Съешь ещё этих булок"]

    async def test_a_charset_is_told_to_parsers_by_a_bom(self) -> None:
        """So that a parser of one's own does not believe the page's own, wrong declaration."""
        page = '<?xml version="1.0" encoding="iso-8859-1"?><a>булок</a>'

        listing = await listing_of(Page(page.encode("koi8-r"), content_type="application/xml; charset=koi8-r"))

        assert listing.items[0].data == b"\xef\xbb\xbf" + page.encode()


class TestChanges:
    async def test_what_has_not_changed_is_not_embedded(
        self, kb: KnowledgeBase, pool: ParserPool, server: PageServer
    ) -> None:
        """A second run fetches, and touches nothing."""
        await sync(kb, web(server, "/a", "/b"), pool=pool)
        calls = kb.embedding_model.calls

        second = await sync(kb, web(server, "/a", "/b"), pool=pool)

        assert outcomes(server, second) == {"/a": "unchanged", "/b": "unchanged"}
        assert (second.embedded, kb.embedding_model.calls) == (0, calls)

    async def test_a_changed_page_replaces_its_document(
        self, kb: KnowledgeBase, pool: ParserPool, server: PageServer
    ) -> None:
        """Its old text is gone, the others are untouched."""
        await sync(kb, web(server, "/a", "/b"), pool=pool)
        server.pages["/a"] = html("Aleph is the first letter.")

        report = await sync(kb, web(server, "/a", "/b"), pool=pool)

        assert outcomes(server, report) == {"/a": "replaced", "/b": "unchanged"}
        assert sorted(await texts(kb, "letter")) == ["Aleph is the first letter.", "Beta is the second letter."]

    @pytest.mark.parametrize("status", [404, 410, 403, 500])
    async def test_a_page_that_fails_keeps_what_is_stored(
        self, kb: KnowledgeBase, pool: ParserPool, server: PageServer, status: int
    ) -> None:
        """It is reported with its status, the rest goes on, and nothing is pruned: not even an address left out."""
        server.pages["/c"] = html("Gamma is the third letter.")
        await sync(kb, web(server, "/a", "/b", "/c"), pool=pool)
        server.pages["/a"] = Page(b"<p>Sorry</p>", status=status)
        server.pages["/b"] = html("Bet is the second letter.")

        report = await sync(kb, web(server, "/a", "/b"), pool=pool, max_prune_share=1.0)

        assert outcomes(server, report) == {"/a": "failed", "/b": "replaced"}
        assert f"/a answered {status}; " in (report.of("failed")[0].reason or "")
        assert len(await texts(kb, "letter")) == 3
        assert "Alpha is the first letter." in await texts(kb, "letter")

    async def test_an_empty_page_keeps_what_is_stored(
        self, kb: KnowledgeBase, pool: ParserPool, server: PageServer
    ) -> None:
        """An answer without content is a failure, no deletion."""
        await sync(kb, web(server, "/a"), pool=pool)
        server.pages["/a"] = Page(b"")

        report = await sync(kb, web(server, "/a"), pool=pool)

        assert outcomes(server, report) == {"/a": "failed"}
        assert await texts(kb, "letter") == ["Alpha is the first letter."]

    async def test_an_address_left_out_is_pruned(self, kb: KnowledgeBase, pool: ParserPool, server: PageServer) -> None:
        """sync mirrors the list of addresses."""
        await sync(kb, web(server, "/a", "/b"), pool=pool)

        report = await sync(kb, web(server, "/a"), pool=pool)

        assert outcomes(server, report) == {"/a": "unchanged", "/b": "pruned"}


class TestAddresses:
    async def test_a_name_need_not_be_an_address(self, server: PageServer) -> None:
        """A document may be known by what no address can be; what is no Unicode is written as escapes."""
        source = WebSource({"http://[draft": f"{server.url}/a", "b\udcff": f"{server.url}/b"}, allow_private=True)

        listing = await source.list()

        assert [item.document_id for item in listing.items] == ["http://[draft", "b\\udcff"]

    async def test_one_document_for_one_address(self, server: PageServer) -> None:
        """The same address, written twice, is fetched once."""
        same = server.url.replace("http", "HTTP")

        listing = await WebSource([f"{server.url}/a", f"{same}/a#part"], allow_private=True).list()

        assert [item.document_id for item in listing.items] == [f"{server.url}/a"]
        assert server.paths == ["/a"]

    def test_two_addresses_for_one_document_are_refused(self) -> None:
        """Which of them is it? The error says how to tell them apart."""
        twice = {"https://wiki.example/a#1": "http://one/", "https://wiki.example/a#2": "http://two/"}

        with pytest.raises(ConfigurationError, match="an address of its own"):
            WebSource(twice)
        with pytest.raises(ConfigurationError, match="an address of its own"):
            WebSource(["https://ann:x@wiki.example/a", "https://bob:x@wiki.example/a"])

    @pytest.mark.parametrize(
        "address",
        [
            "ftp://ann:hunter2@host/file",
            "//ann:hunter2@host/file",
            "ann:hunter2@host/file",
            "https://ann:hun/ter2@host/file",
            "https:ann:hunter2@host/file",
            "https://ann:hunter2@host:99999/file",
            "https://ann:hunter2@[::1/file",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "guide.html",
            "http://xn--/",
            "http://xn--a-/",
            "http://host/\udcff",
        ],
    )
    async def test_what_is_no_address_costs_itself(self, server: PageServer, address: str) -> None:
        """It is an error of the listing, without the password in it; the others are read."""
        listing = await WebSource([address, f"{server.url}/a"], allow_private=True).list()

        ((path, reason),) = listing.errors
        assert "is no http or https address" in reason
        assert "hunter2" not in path + reason
        assert "ter2" not in path + reason
        assert len(listing.items) == 1

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (("https://a.example/",), ConfigurationError, "pass a list"),
            ((["https://a.example/", ""],), SourceError, "is empty"),
            (({"https://a.example/": " "},), SourceError, "is empty"),
        ],
    )
    def test_mistakes_are_named(self, arguments: Any, error: type[Exception], message: str) -> None:
        """One text is no list; an empty address is an unset variable."""
        with pytest.raises(error, match=message):
            WebSource(*arguments)

    @pytest.mark.parametrize("option", ["timeout_s", "max_bytes", "max_concurrency", "max_attempts"])
    def test_bounds_are_positive(self, option: str) -> None:
        """A bound of nothing would fetch nothing."""
        with pytest.raises(ConfigurationError, match=f"{option}=0"):
            WebSource([], **{option: 0})

    async def test_a_path_may_not_be_an_address(self, kb: KnowledgeBase) -> None:
        """`ingest` and `sync` take no address by accident: fetching is asked for by name. The password is not shown."""
        with pytest.raises(ConfigurationError, match=r"https://\*\*\*@host/ is an address.*WebSource") as caught:
            await ingest(kb, ["docs", "https://ann:hunter2@host/"])
        with pytest.raises(ConfigurationError, match=r"pass WebSource\(\[\.\.\.\]\)") as also:
            await sync(kb, "https://ann:hunter2@host/")  # type: ignore[arg-type]

        assert "hunter2" not in f"{caught.value} {also.value}"


class TestFetching:
    async def test_an_overloaded_server_is_asked_again(self, server: PageServer) -> None:
        """As late as its Retry-After says."""
        server.pages["/a"] = [Page(status=503, headers={"retry-after": "0.3"}), html("Here now.")]
        started = time.monotonic()

        listing = await web(server, "/a", max_attempts=2).list()

        assert len(listing.items) == 1
        assert time.monotonic() - started >= 0.3
        assert server.paths == ["/a", "/a"]

    async def test_some_answers_are_final(self, server: PageServer) -> None:
        """404 is not asked again; 503 only so often."""
        server.pages["/busy"] = Page(status=503, headers={"retry-after": "0"})

        listing = await web(server, "/gone", "/busy", max_attempts=3).list()

        assert sorted(server.paths) == ["/busy", "/busy", "/busy", "/gone"]
        assert [reason.partition("; ")[2] for _, reason in listing.errors] == [
            "if it is gone for good, leave the address out",
            "try again later",
        ]

    async def test_a_server_that_is_not_there_costs_itself(self, server: PageServer) -> None:
        """Nobody listens, or there can be no such host."""
        with PageServer({}) as gone:
            pass

        addresses = [f"{gone.url}/x", "http://no..host/", f"{server.url}/a"]
        listing = await WebSource(addresses, allow_private=True, max_attempts=1).list()

        assert [reason.partition("; ")[2] for _, reason in listing.errors] == [
            "is the address right, and the server up?",
            "is the address right?",
        ]
        assert len(listing.items) == 1

    async def test_a_silent_server_times_out(self, server: PageServer) -> None:
        """After `timeout_s`, with the option in the error."""
        server.pages["/a"] = Page(hang_s=5)

        listing = await web(server, "/a", timeout_s=0.2).list()

        assert [reason.partition("/a ")[2] for _, reason in listing.errors] == [
            "did not answer within 0.2 s; raise timeout_s"
        ]

    async def test_a_dripping_server_times_out(self) -> None:
        """A byte before each timeout does not keep it waiting for ever."""
        listing = await listing_of(Page(slowly([b"x"] * 100, 0.05)), timeout_s=0.1)

        assert listing.errors[0][1].endswith("takes more than 10 x timeout_s=0.1")

    async def test_few_requests_at_once(self) -> None:
        """`max_concurrency` of them, in the order given."""
        paths = [f"/{number}" for number in range(8)]
        with PageServer({path: Page(b"<p>x</p>", hang_s=0.05) for path in paths}) as server:
            listing = await web(server, *paths, max_concurrency=2).list()

            assert server.most_at_once == 2
            assert [item.document_id.removeprefix(server.url) for item in listing.items] == paths

    async def test_cancelling_stops_the_fetches(self) -> None:
        """No task is left, and no address is asked that was waiting."""
        paths = [f"/{number}" for number in range(6)]
        with PageServer({path: Page(b"x", hang_s=30) for path in paths}) as server:
            before = asyncio.all_tasks()
            task = asyncio.create_task(web(server, *paths, max_concurrency=2).list())
            while len(server.requests) < 2:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            assert asyncio.all_tasks() == before
            assert len(server.requests) == 2

    async def test_credentials_are_used_and_never_shown(
        self, kb: KnowledgeBase, pool: ParserPool, server: PageServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """In an address they go to its server, not into ids, titles, metadata, hits, errors or logs."""
        caplog.set_level(logging.DEBUG)
        secret = server.url.replace("//", "//ann:hunter%2F2@")
        source = WebSource([f"{secret}/a", f"{secret}/gone"], allow_private=True, max_attempts=1)

        report = await sync(kb, source, pool=pool)

        assert server.requests[0][1]["authorization"] == "Basic YW5uOmh1bnRlci8y"  # base64 of ann:hunter/2
        shown = [report.model_dump_json(), *(one.model_dump_json() for one in await kb.list_documents())]
        shown += [hit.model_dump_json() for hit in await kb.search("letter", top_k=10)]
        assert report.counts == {"added": 1, "failed": 1}
        assert "hunter" not in "".join([*shown, caplog.text])

    async def test_requests_say_who_asks(self, server: PageServer) -> None:
        """By default the package; `headers` change that and add more."""
        await web(server, "/a").list()
        await web(server, "/b", headers={"User-Agent": "mine", "X-Key": "k"}).list()

        (_, first), (_, second) = server.requests
        assert first["user-agent"].startswith("agent-rag-middleware/")
        assert (second["user-agent"], second["x-key"]) == ("mine", "k")
