"""WebSource: where it may be led, and how much it takes."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ipaddress
import socket
import ssl
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agent_rag import WebSource
from agent_rag.sources import Listing, _address, _fetch

from .page_server import Page, PageServer, answering, moved, slowly

HELLO = Page(b"<p>Hello</p>")
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer({"/end": HELLO}) as running:
        yield running


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Host name -> IP addresses of the first look-up, the second, ...; names of the test only are looked up here."""
    known: dict[str, list[str]] = {}
    real = asyncio.BaseEventLoop.getaddrinfo

    async def getaddrinfo(loop: Any, host: str, port: int, **options: Any) -> Any:
        if host in known and not options.get("flags"):
            return await real(loop, known[host].pop(0), port, **options)
        return await real(loop, host, port, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def loopback_2_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2 stands for a server on the internet, which a test has not."""
    monkeypatch.setattr(_fetch, "is_public", lambda ip: ip == "127.0.0.2")


async def fetch(*urls: str, **options: Any) -> Listing:
    return await WebSource(list(urls), **{"allow_private": True, "max_attempts": 1, **options}).list()


def reason(listing: Listing) -> str:
    ((_, why),) = listing.errors
    return why


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_is_followed(self, server: PageServer, status: int) -> None:
        """Also to a relative address; the document keeps the address that was given."""
        server.pages["/start"] = moved("end#part", status)

        (item,) = (await fetch(f"{server.url}/start")).items

        assert (item.document_id, item.data) == (f"{server.url}/start", b"<p>Hello</p>")

    @pytest.mark.parametrize(("hops", "found"), [(5, True), (6, False)])
    async def test_five_are_the_most(self, server: PageServer, hops: int, found: bool) -> None:
        """A circle ends, and says so."""
        server.pages |= {f"/{left}": moved(f"/{left - 1}" if left > 1 else "/end") for left in range(1, hops + 1)}

        listing = await fetch(f"{server.url}/{hops}")

        assert bool(listing.items) is found
        assert found or "redirected more than 5 times" in reason(listing)

    @pytest.mark.parametrize(
        "target",
        ["file:///etc/passwd", "ftp://host/x", "javascript:1", "http://[::1", "http://xn--/", "http://xn--a-/"],
    )
    async def test_only_to_http(self, server: PageServer, target: str) -> None:
        """Whatever else a server names is not opened."""
        server.pages["/start"] = moved(target)

        listing = await fetch(f"{server.url}/start")

        # httpx itself refuses an open bracket: "Invalid URL in location header"
        assert "is redirected to what is no http or https address" in reason(listing) or "location" in reason(listing)
        assert server.paths == ["/start"]

    async def test_secrets_stay_with_their_host(self, server: PageServer) -> None:
        """Headers and credentials follow a redirect on the same server, not one to another port or host, nor back."""
        with PageServer({}) as other:
            server.pages |= {"/start": moved("/next"), "/next": moved(f"{other.url}/away")}
            other.pages["/away"] = moved(f"{server.url.replace('//', '//eve:x@')}/end")
            address = f"{server.url.replace('//', '//ann:pw@')}/start"

            listing = await fetch(address, headers={"x-key": "k"}, client_kwargs={"headers": {"x-other": "o"}})

        seen = {path: sorted({"authorization", "x-key", "x-other"} & set(sent)) for path, sent in server.requests}
        assert seen == {
            "/start": ["authorization", "x-key", "x-other"],
            "/next": ["authorization", "x-key", "x-other"],
            "/end": [],
        }
        assert not {"authorization", "x-key", "x-other"} & set(other.requests[0][1])
        assert other.requests[0][1]["user-agent"].startswith("agent-rag-middleware/")
        assert len(listing.items) == 1

    @pytest.mark.parametrize(
        ("first", "then", "kept"),
        [
            ("http://a.example/x", "https://a.example/y", True),
            ("https://a.example/x", "http://a.example/y", False),
            ("https://a.example/x", "https://a.example:444/y", False),
            ("https://a.example/x", "https://b.a.example/y", False),
            ("https://a.example:443/x", "https://A.example/y", True),
        ],
    )
    def test_which_host_is_the_same(self, first: str, then: str, kept: bool) -> None:
        """Name, port and scheme; but http may become https."""
        assert _address.Address.parse(then).may_get_secrets_of(_address.Address.parse(first)) is kept


class TestPrivateAddresses:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0"]
    )
    async def test_they_need_an_option(self, server: PageServer, host: str) -> None:
        """However they are written, nothing is sent to them, and the error names the option."""
        listing = await fetch(f"http://{host}:{server.port}/end", allow_private=False)

        assert reason(listing).endswith("pass allow_private=True (command line: --allow-private)")
        assert server.requests == []

    async def test_also_behind_a_name(self, server: PageServer, names: dict[str, list[str]]) -> None:
        """What a name leads to is what counts."""
        names["innocent.example"] = ["127.0.0.1"]

        listing = await fetch(f"http://innocent.example:{server.port}/end", allow_private=False)

        assert "leads to 127.0.0.1, which is not on the internet" in reason(listing)
        assert server.requests == []

    @pytest.mark.usefixtures("loopback_2_is_public")
    @pytest.mark.parametrize("allow_private", [False, True])
    async def test_no_public_page_leads_to_one(self, server: PageServer, allow_private: bool) -> None:
        """Not even where private addresses may be named."""
        with PageServer({"/start": moved(f"{server.url}/end"), "/end": HELLO}, host="127.0.0.2") as public:
            refused = await fetch(f"{public.url}/start", allow_private=allow_private)
            fine = await fetch(f"{public.url}/end", allow_private=allow_private)

        assert reason(refused).endswith("a page of the internet redirects there; pass that address itself")
        assert server.requests == []
        assert len(fine.items) == 1

    @pytest.mark.usefixtures("loopback_2_is_public")
    async def test_a_private_page_may_lead_anywhere(self, server: PageServer) -> None:
        """From an intranet to the internet is no danger."""
        with PageServer({"/end": HELLO}, host="127.0.0.2") as public:
            server.pages["/start"] = moved(f"{public.url}/end")
            listing = await fetch(f"{server.url}/start")

        assert len(listing.items) == 1

    async def test_the_checked_address_is_the_one_connected_to(
        self, server: PageServer, names: dict[str, list[str]]
    ) -> None:
        """A name is looked up once, so it cannot change in between (DNS rebinding); the server hears the name."""
        names["pages.example"] = ["127.0.0.1"]  # a second look-up would fail

        listing = await fetch(f"http://pages.example:{server.port}/end")

        assert len(listing.items) == 1
        assert server.requests[0][1]["host"] == f"pages.example:{server.port}"

    @pytest.mark.parametrize(
        ("ip", "public"),
        [
            ("8.8.8.8", True),
            ("2001:4860:4860::8888", True),
            ("::ffff:8.8.8.8", True),
            ("10.0.0.1", False),
            ("172.16.0.1", False),
            ("192.168.1.1", False),
            ("169.254.169.254", False),
            ("100.64.0.1", False),
            ("0.0.0.0", False),
            ("224.0.0.1", False),
            ("255.255.255.255", False),
            ("::1", False),
            ("::127.0.0.1", False),
            ("fe80::1%2", False),
            ("fd00::1", False),
            ("ff02::1", False),
            ("::ffff:10.0.0.1", False),
            ("64:ff9b::a00:1", False),  # NAT64 of 10.0.0.1
            ("2002:a00:1::", False),  # 6to4 of 10.0.0.1
        ],
    )
    def test_what_is_public(self, ip: str, public: bool) -> None:
        """Addresses that carry another one are what they carry."""
        assert _address.is_public(ip) is public


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server called `name` and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=folder / "cert.pem")


async def test_certificates_are_checked_against_the_name(tmp_path: Path, names: dict[str, list[str]]) -> None:
    """Connecting to a checked IP address leaves TLS as it is: another name at the same address is refused."""
    server_tls, client_tls = certificate(tmp_path, "pages.example")
    names |= {"pages.example": ["127.0.0.1"], "other.example": ["127.0.0.1"]}

    with PageServer({"/end": HELLO}, tls=server_tls) as server:
        addresses = [f"https://{host}:{server.port}/end" for host in ("pages.example", "other.example")]
        listing = await fetch(*addresses, max_concurrency=1, client_kwargs={"verify": client_tls})

    assert [item.document_id for item in listing.items] == addresses[:1]
    assert "CERTIFICATE_VERIFY_FAILED" in reason(listing)


class TestProxies:
    async def test_a_proxy_looks_names_up(
        self, server: PageServer, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Behind one of the environment nothing is looked up here; numbers are checked all the same."""
        monkeypatch.setenv("http_proxy", server.url)
        server.pages["http://pages.example/x"] = HELLO
        names["pages.example"] = []  # a look-up would fail

        found = await fetch("http://pages.example/x", allow_private=False)
        refused = await fetch("http://10.0.0.1/x", "http://localhost/x", allow_private=False)

        assert len(found.items) == 1
        assert ["allow_private=True" in why for _, why in refused.errors] == [True, True]
        assert server.paths == ["http://pages.example/x"]

    async def test_what_goes_past_the_proxy_is_checked(
        self, server: PageServer, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Names of NO_PROXY are looked up here."""
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.setenv("no_proxy", "metadata.example")
        names["metadata.example"] = ["169.254.169.254"]

        listing = await fetch("http://metadata.example/x", allow_private=False)

        assert "leads to 169.254.169.254" in reason(listing)
        assert server.requests == []

    async def test_a_transport_of_ones_own(self) -> None:
        """It is used as it is; a page of it cannot lead to a private address either."""

        def respond(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/away":
                return httpx.Response(302, headers={"location": "http://127.0.0.1/"})
            return httpx.Response(200, html="<p>Hello</p>")

        options = {"client_kwargs": {"transport": httpx.MockTransport(respond)}, "allow_private": False}
        listing = await fetch("https://pages.example/x", "https://pages.example/away", **options)

        assert [item.data for item in listing.items] == [b"<p>Hello</p>"]
        assert "a page of the internet redirects there" in reason(listing)


class TestSize:
    async def test_a_declared_size_is_enough(self, server: PageServer) -> None:
        """What says that it is too large is not read; the error names the bound."""
        server.pages["/page"] = Page(slowly([b"x"] * 100, 0.05), headers={"content-length": str(2 * MIB)})

        listing = await fetch(f"{server.url}/page", max_bytes=MIB)

        assert "/page is larger than max_bytes=1,048,576; raise it" in reason(listing)
        assert server.sent < 10

    async def test_an_endless_page_is_left(self, server: PageServer) -> None:
        """At the bound the connection is closed."""
        server.pages["/page"] = Page(repeat(b"x" * 1024))

        listing = await fetch(f"{server.url}/page", max_bytes=MIB)

        assert "is larger than max_bytes" in reason(listing)

    async def test_the_bound_itself_is_allowed(self, server: PageServer) -> None:
        """Exactly `max_bytes`, plain and packed."""
        server.pages["/plain"] = Page(b"x" * 1000)
        server.pages["/packed"] = Page(gzip.compress(b"x" * 1000), headers={"content-encoding": "gzip"})

        fits = await fetch(f"{server.url}/plain", f"{server.url}/packed", max_bytes=1000)
        too_small = await fetch(f"{server.url}/plain", f"{server.url}/packed", max_bytes=999)

        assert [len(item.data or b"") for item in fits.items] == [1000, 1000]
        assert len(too_small.errors) == 2

    async def test_a_gzip_bomb_does_not_fill_the_memory(self, server: PageServer) -> None:
        """256 MiB in 260 KB: unpacked a piece at a time, and left at the bound."""
        packer = zlib.compressobj(9, wbits=31)
        bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(256)) + packer.flush()
        server.pages["/bomb"] = Page(bomb, headers={"content-encoding": "gzip"})
        assert len(bomb) < MIB

        tracemalloc.start()
        listing = await fetch(f"{server.url}/bomb", max_bytes=4 * MIB)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert "is larger than max_bytes=4,194,304" in reason(listing)
        assert peak < 16 * MIB

    async def test_gzip_is_asked_for_and_unpacked(self, server: PageServer) -> None:
        """Also in several members and in small pieces."""
        text = b"".join(b"line %d\n" % number for number in range(300_000))
        packed = gzip.compress(text[:1000]) + gzip.compress(text[1000:])
        server.pages["/page"] = Page(
            [packed[start : start + 7000] for start in range(0, len(packed), 7000)],
            headers={"content-encoding": "gzip"},
        )

        (item,) = (await fetch(f"{server.url}/page", headers={"Accept-Encoding": "br"})).items

        assert item.data == text
        assert server.requests[0][1]["accept-encoding"] == "gzip"

    async def test_packing_is_bounded_too(self) -> None:
        """What unpacks to nothing, empty members or a file name without end, is left 1 MiB over the bound."""
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n"
        named = b"\x1f\x8b\x08\x08" + bytes(6)  # a member whose header goes on with a file name, up to a zero byte
        bodies = {"/members": gzip.compress(b"") * 200_000, "/name": named + b"n" * 4 * MIB}  # 4,000,000 bytes

        async with answering({path: head + body for path, body in bodies.items()}) as url:
            listing = await fetch(f"{url}/members", f"{url}/name", max_bytes=MIB)

        assert ["is larger than max_bytes=1,048,576" in why for _, why in listing.errors] == [True, True]

    async def test_packing_larger_than_its_content_is_allowed(self, server: PageServer) -> None:
        """The bound is on what a document holds: 8 bytes that cannot be packed make 28 of gzip."""
        packed = gzip.compress(b"\x8f\x01\xee\x77\x3b\x9d\x42\xc8")
        server.pages["/page"] = Page(packed, headers={"content-encoding": "gzip"})
        assert len(packed) > 20

        (item,) = (await fetch(f"{server.url}/page", max_bytes=8)).items

        assert len(item.data or b"") == 8

    async def test_zeros_behind_gzip_are_padding(self, server: PageServer) -> None:
        """Also between members, and where a piece of the answer starts in them."""
        packed = gzip.compress(b"one ") + bytes(600) + gzip.compress(b"two") + bytes(1000)
        pieces = [packed[start : start + 100] for start in range(0, len(packed), 100)]
        server.pages["/page"] = Page(slowly(pieces, 0.005), headers={"content-encoding": "gzip"})

        (item,) = (await fetch(f"{server.url}/page")).items

        assert item.data == b"one two"

    async def test_a_full_piece_has_more_behind_it(self, server: PageServer) -> None:
        """Sizes at the edge of the pieces that are unpacked at a time, 1 MiB."""
        sizes = [MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB]
        pages = {f"/{size}": Page(gzip.compress(bytes(size)), headers={"content-encoding": "gzip"}) for size in sizes}
        server.pages |= pages

        listing = await fetch(*(server.url + path for path in pages))

        assert [len(item.data or b"") for item in listing.items] == sizes

    @pytest.mark.parametrize(
        ("body", "coding", "message"),
        [
            (bytes(100) + gzip.compress(b"x"), "gzip", "damaged gzip"),
            (gzip.compress(b"x") + bytes(9) + b"and more", "gzip", "damaged gzip"),
            (gzip.compress(b"x" * 5000)[:-9], "gzip", "gzip that ends too early"),
            (b"no gzip at all", "gzip", "damaged gzip"),
            (b"", "gzip", None),
            (b"x", "br", "the coding 'br', though only gzip was asked for"),
            (b"x", "identity", None),
        ],
    )
    async def test_damaged_packing_costs_the_page(
        self, server: PageServer, body: bytes, coding: str, message: str | None
    ) -> None:
        """Half a page is no page."""
        server.pages["/page"] = Page(body, headers={"content-encoding": coding})

        listing = await fetch(f"{server.url}/page")

        if message is None:
            assert [item.data for item in listing.items] == [body]
        else:
            assert message in reason(listing)

    async def test_a_cut_answer_is_asked_for_again(self) -> None:
        """A connection that breaks in the middle gives no half page."""

        async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers.append(await reader.readuntil(b"\r\n\r\n"))
            length = 10 if len(answers) == 1 else 5
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\nhello" % length)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        answers: list[bytes] = []
        async with await asyncio.start_server(half, "127.0.0.1", 0) as cutting:
            port = cutting.sockets[0].getsockname()[1]
            (item,) = (await fetch(f"http://127.0.0.1:{port}/", max_attempts=2)).items

        assert item.data == b"hello"
        assert len(answers) == 2


class TestHostileAnswers:
    """One answer costs one document, and little time."""

    @pytest.mark.parametrize(
        "content_type",
        ["text/html; charset=undefined", "text/html; charset*=utf-8''%00", "text/html; charset=unicode_escape"],
    )
    async def test_a_charset_that_is_none_is_detected(self, content_type: str) -> None:
        """As one that nobody knows: the bytes stay as they are, for the parser to tell."""
        with PageServer({"/page": Page(b"<p>caf\xe9 \\x41", content_type=content_type), "/end": HELLO}) as server:
            listing = await fetch(f"{server.url}/page", f"{server.url}/end")

        assert [item.data for item in listing.items] == [b"<p>caf\xe9 \\x41", b"<p>Hello</p>"]

    async def test_a_long_header_takes_no_time(self) -> None:
        """90,000 semicolons cost the standard library's parser 4 s, in the event loop."""
        head = b'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: text/html;"' + b";" * 90_000

        async with answering({"/page": head + b"\r\n\r\nhello"}) as url:
            started = time.process_time()
            (item,) = (await fetch(f"{url}/page")).items
            took = time.process_time() - started

        assert (item.data, item.media_type) == (b"hello", "text/html")
        assert took < 1

    async def test_what_a_library_does_not_expect_costs_its_address(self) -> None:
        """An error of any kind names the address and what to do."""

        def respond(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/odd":
                raise RuntimeError("not foreseen, at http://ann:hunter2@host")
            return httpx.Response(200, html="<p>Hello</p>")

        options = {"client_kwargs": {"transport": httpx.MockTransport(respond)}}
        listing = await fetch("https://pages.example/odd", "https://pages.example/x", **options)

        assert len(listing.items) == 1
        assert reason(listing) == (
            "https://pages.example/odd cannot be read: RuntimeError: not foreseen, at http://***@host; "
            "leave the address out, and report this"
        )

    @pytest.mark.parametrize("header", [b"x\x01" * 40_000, b"content-encoding: " + b"x" * 80_000])
    async def test_errors_stay_short(self, header: bytes) -> None:
        """They quote the start of what a server made long, and still say what to do."""
        async with answering({"/page": b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n"}) as url:
            listing = await fetch(f"{url}/page")

        assert len(reason(listing)) < 1000
        assert reason(listing).endswith(("is the address right, and the server up?", "only gzip was asked for"))

    @pytest.mark.parametrize("later", ["Mon, 01 Jan 2030 00:00:00 +99999999999999", "Mon, 01 Jan 99999999999999999999"])
    async def test_a_time_that_is_none_is_passed_over(self, later: str) -> None:
        """The status is what counts."""
        with PageServer({"/page": Page(status=503, headers={"retry-after": later})}) as server:
            listing = await fetch(f"{server.url}/page")

        assert reason(listing).endswith("/page answered 503; try again later")

    @pytest.mark.parametrize(("count", "kept"), [(50, True), (51, False)])
    async def test_cookies_are_kept_while_they_are_few(self, count: int, kept: bool) -> None:
        """Some pages want one back behind a redirect; thousands would only take time. Given ones are always sent."""
        asked: list[bytes] = []
        cookies = b"".join(b"set-cookie: c%d=v\r\n" % number for number in range(count))
        wall = b"HTTP/1.1 302 Found\r\nlocation: /end\r\ncontent-length: 0\r\nconnection: close\r\n" + cookies

        async with answering({"/wall": wall + b"\r\n", "/end": b"HTTP/1.1 200 OK\r\n\r\nhello"}, asked) as url:
            listing = await fetch(f"{url}/wall", client_kwargs={"cookies": {"mine": "m"}})

        assert len(listing.items) == 1
        assert [b"mine=m" in request for request in asked] == [True, True]
        assert (b"c0=v" in asked[1]) is kept

    async def test_cookies_of_many_pages_are_few(self) -> None:
        """No more than 500 and what one answer adds, whatever the pages set."""
        asked: list[bytes] = []
        answers = {
            f"/{page}": b"HTTP/1.1 200 OK\r\nconnection: close\r\n"
            + b"".join(b"set-cookie: c%d=v\r\n" % (50 * page + number) for number in range(50))
            + b"\r\nhello"
            for page in range(13)
        }

        async with answering(answers, asked) as url:
            listing = await fetch(*(url + path for path in answers), max_concurrency=1)

        assert len(listing.items) == 13
        assert asked[-1].count(b"=v") == 500


def test_the_stand_in_for_public_is_loopback() -> None:
    """127.0.0.2 is this machine too, so that no test leaves it."""
    assert ipaddress.ip_address(socket.gethostbyname("127.0.0.2")).is_loopback
