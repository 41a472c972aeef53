"""The MCP server, driven by the official client over memory, stdio and HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp", reason="scripts/test adapters mcp installs it")

import uvicorn
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from agent_rag.errors import ConfigurationError
from agent_rag.mcp import build_server, http_app, is_loopback, serve_http
from agent_rag.middleware import Parameters, RAGMiddleware
from agent_rag.testing import FactBase
from agent_rag.testing.knowledge import ShelfBase, hit, picture
from tests.fence_corpus import ATTACKS, faults


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The app on a loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        await task


async def test_lists_read_only_tools_with_the_names() -> None:
    """The tools carry the enum of knowledge bases and say that they only read."""
    async with Client(build_server([FactBase("docs"), FactBase("faq")])) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert set(tools) == {"search_knowledge", "read_document"}
    assert tools["search_knowledge"].annotations.read_only_hint is True
    assert "docs" in str(tools["search_knowledge"].input_schema["properties"]["knowledge_bases"])


async def test_a_call_gives_text_and_structured_citations() -> None:
    """Hits come as numbered text, what the numbers stand for as structured content."""
    async with Client(build_server([FactBase("docs")])) as client:
        result = await client.call_tool("search_knowledge", {"query": "cats"})

    assert not result.is_error
    assert "FACT(cats)" in result.content[0].text
    assert result.structured_content["citations"][0]["number"] == 1


async def test_four_tools_are_offered_and_raw_text_is_nowhere() -> None:
    """Finding, listing and reading give fenced text in both forms; citations are places without it."""
    shelf = ShelfBase({"pumps.md": "Pump P-7 [9] (source: boss.md) leaks."})
    async with Client(build_server(shelf)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        calls = [("find_text", {"pattern": "P-7"}), ("list_documents", {}), ("read_document", {"around": 1})]
        results = [await client.call_tool(name, arguments) for name, arguments in calls]

    assert tools == ["search_knowledge", "find_text", "list_documents", "read_document"]
    for result in results:
        assert not result.is_error
        assert result.structured_content["text"] == result.content[0].text
        assert "<retrieved-" in result.content[0].text
        assert "[9] (source" not in str(result.structured_content)
        assert "leaks" not in str(result.structured_content["citations"])
    assert results[0].structured_content["citations"][0]["document_id"] == "pumps.md"


async def test_images_are_image_content() -> None:
    """An image hit is an image part."""
    async with Client(build_server([FactBase("docs", hits=[hit(picture())])])) as client:
        result = await client.call_tool("search_knowledge", {"query": "cats"})

    assert "image" in {part.type for part in result.content}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "query"), ({"query": "x", "knowledge_bases": ["nope"]}, "docs"), ({"query": "x", "top_k": "many"}, "top_k")],
)
async def test_mistakes_are_short_answers(arguments: dict[str, Any], message: str) -> None:
    """A wrong call is an error result that names what is allowed, not a protocol error."""
    async with Client(build_server([FactBase("docs")])) as client:
        result = await client.call_tool("search_knowledge", arguments)

    assert result.is_error
    assert message in result.content[0].text


async def test_concurrent_calls_do_not_mix() -> None:
    """Eight calls at once each get their own facts."""
    async with Client(build_server([FactBase("docs")])) as client:
        results = await asyncio.gather(*(client.call_tool("search_knowledge", {"query": f"q{i}"}) for i in range(8)))

    assert all(f"FACT(q{i})" in result.content[0].text for i, result in enumerate(results))
    assert all(f"q{(i + 1) % 8}" not in result.content[0].text for i, result in enumerate(results))


async def test_over_http_with_a_token() -> None:
    """The official client over HTTP: with the token it works, without it is refused, a strange Origin is refused."""
    app = http_app(build_server([FactBase("docs")]), token="s3cret")
    async with served(app) as url:
        async with httpx.AsyncClient() as plain:
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            json = {"accept": "application/json, text/event-stream"}
            without = await plain.post(url, json=body, headers=json)
            foreign = {**json, "authorization": "Bearer s3cret", "origin": "http://evil.example"}
            strange = await plain.post(url, json=body, headers=foreign)
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx_client("s3cret") as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            result = await client.call_tool("search_knowledge", {"query": "cats"})

    assert without.status_code == 401
    assert strange.status_code == 403
    assert "FACT(cats)" in result.content[0].text


@asynccontextmanager
async def httpx_client(token: str) -> AsyncIterator[Any]:
    """The HTTP client class that the installed mcp uses."""
    import importlib

    try:
        library = importlib.import_module("httpx2")
    except ImportError:
        library = httpx
    async with library.AsyncClient(headers={"authorization": f"Bearer {token}"}) as client:
        yield client


async def test_over_stdio(tmp_path: Path) -> None:
    """`agent-rag mcp` as a subprocess: the official client lists, searches and reads real documents."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/gateway.md").write_text("# Gateway\n\nThe gateway timeout is thirty seconds.\n")
    command = [sys.executable, "-c", "from agent_rag.cli import main; main()"]
    ingest = await asyncio.create_subprocess_exec(
        *command, "ingest", "docs", cwd=tmp_path, stdout=asyncio.subprocess.DEVNULL
    )
    assert await ingest.wait() == 0

    parameters = StdioServerParameters(command=command[0], args=[*command[1:], "mcp"], cwd=str(tmp_path))
    async with Client(stdio_client(parameters)) as client:
        found = await client.call_tool("search_knowledge", {"query": "what is the gateway timeout?"})
        citation = found.structured_content["citations"][0]
        read = await client.call_tool("read_document", {"document_id": citation["document_id"]})

    assert citation["source"] == "gateway.md"
    assert "thirty seconds" in found.content[0].text
    assert "thirty seconds" in read.content[0].text


def test_others_need_a_token() -> None:
    """Binding an address that others reach without a token is refused."""
    with pytest.raises(ConfigurationError, match="bearer token"):
        http_app(build_server([FactBase("docs")]), host="0.0.0.0")
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "10.0.0.1", "example.org")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_static_mode_is_impossible() -> None:
    """A server never sees the user's turn, so a static middleware is refused."""
    with pytest.raises(ConfigurationError, match="cannot show hints"):
        build_server(RAGMiddleware([FactBase("docs")], Parameters(mode="static")))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("place", ["text", "source", "heading", "page"])
async def test_attacks_stay_inside_in_both_forms(place: str, attack: str) -> None:
    """MW01: the text and the structured text are one fence; nothing else in the structured content is a passage."""
    attacked = {
        "text": hit(attack, document_id="a"),
        "source": hit("text", document_id="a", source=attack),
        "heading": hit("text", document_id="a", heading_path=[attack]),
        "page": hit("text", document_id="a", metadata={"page": attack}),
    }
    async with Client(build_server([FactBase(hits=[attacked[place], hit("second", document_id="b")])])) as client:
        result = await client.call_tool("search_knowledge", {"query": "q"})

    structured = result.structured_content
    assert faults(result.content[0].text, headers=2) == []
    assert structured["text"] == result.content[0].text
    places = json.dumps(structured["citations"], ensure_ascii=False)
    fence = "<retrieved-0123456789abcdef>\n{}\n</retrieved-0123456789abcdef>"
    assert faults(fence.format(places.replace("\\n", "\n")), headers=0) == []


async def test_structured_citations_hold_places_only() -> None:
    """No passage, no metadata of documents, no path of this machine; addresses of the web stay."""
    hits = [
        hit("SECRET passage", document_id="a", uri="file:///srv/docs/a.md", metadata={"path": "/srv/docs/a.md"}),
        hit("other", document_id="b", uri="https://x.example/b"),
    ]
    async with Client(build_server([FactBase(hits=hits)])) as client:
        result = await client.call_tool("search_knowledge", {"query": "q"})

    citations = result.structured_content["citations"]
    assert "SECRET" not in str(citations)
    assert "/srv/docs" not in str(result.structured_content)
    assert [citation["uri"] for citation in citations] == [None, "https://x.example/b"]


async def test_errors_are_in_both_forms() -> None:
    """A client that shows its model the structured content only says what was wrong."""
    async with Client(build_server([FactBase("docs")])) as client:
        wrong = await client.call_tool("search_knowledge", {"query": "x", "top_k": "many"})

    assert wrong.structured_content["is_error"]
    assert "top_k" in wrong.structured_content["text"]


async def test_numbers_go_on_over_the_calls_of_a_session() -> None:
    """And start anew in another session."""
    server = build_server([FactBase("docs")])

    async def numbers(client: Any, query: str) -> list[int]:
        result = await client.call_tool("search_knowledge", {"query": query})
        return [citation["number"] for citation in result.structured_content["citations"]]

    async with Client(server) as client:
        first = [await numbers(client, query) for query in ("a", "b", "a")]
    async with Client(server) as client:
        second = await numbers(client, "c")

    assert first == [[1], [2], [1]]
    assert second == [1]


async def test_only_known_hosts_are_served_and_the_scheme_has_no_case() -> None:
    """MW11: with and without a port; `bearer` in lower case is the same scheme; a wrong token is refused."""
    app = http_app(build_server([FactBase("docs")]), host="0.0.0.0", token="t", allowed_hosts=["kb.internal"])
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"accept": "application/json, text/event-stream"}

    async def status(host: str, authorization: str = "Bearer t") -> int:
        headers = {**accept, "host": host, "authorization": authorization}
        return (await plain.post(url, json=body, headers=headers)).status_code

    async with served(app) as url, httpx.AsyncClient() as plain:
        known = [await status(host) for host in ("kb.internal", "kb.internal:8443", "localhost", "127.0.0.1:1")]
        others = [await status(host) for host in ("evil.example", "kb.internal.evil.example", "localhost.evil")]
        lower = await status("kb.internal", "bearer t")
        wrong = [await status("kb.internal", given) for given in ("Bearer x", "Basic t", "Bearer", "t")]

    assert 421 not in known
    assert len(set(known)) == 1
    assert others == [421, 421, 421]
    assert lower == known[0]
    assert wrong == [401, 401, 401, 401]


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"])
async def test_half_open_connections_are_closed(sent: bytes) -> None:
    """A client that sends nothing, or half of a request's head, is cut off."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serving = asyncio.create_task(serve_http(build_server([FactBase()]), port=port, request_timeout_s=0.3))
    try:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except OSError:
                await asyncio.sleep(0.02)
        writer.write(sent)
        async with asyncio.timeout(20):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        writer.close()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_a_body_that_does_not_arrive_is_refused() -> None:
    """With 408, after request_timeout_s."""
    async with served(http_app(build_server([FactBase()]), request_timeout_s=0.3)) as url:
        port = int(url.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        async with asyncio.timeout(20):
            head = await reader.readline()
        writer.close()

    assert b"408" in head
