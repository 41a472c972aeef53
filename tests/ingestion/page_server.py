"""A loopback web server whose pages a test writes down."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass
class Page:
    """One answer. A body in pieces is sent as they come, without a length."""

    body: bytes | Iterable[bytes] = b""
    content_type: str | None = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang_s: float = 0.0


def moved(target: str, status: int = 302) -> Page:
    return Page(b"moved", status=status, headers={"location": target})


class PageServer:
    """`pages` maps a path with its query to a Page, or to pages that are answered one after the other."""

    def __init__(
        self,
        pages: Mapping[str, Page | list[Page]],
        *,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.pages: dict[str, Page | list[Page]] = dict(pages)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.most_at_once = 0
        self.sent = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server._answer(self)

            def log_message(self, *arguments: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *arguments: Any) -> None:
                pass  # a client that went away

        self._server = Quiet((host, 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.requests.append((handler.path, {name.lower(): value for name, value in handler.headers.items()}))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            page = self.pages.get(handler.path, Page(b"not here", status=404))
            if isinstance(page, list):
                page = page.pop(0) if len(page) > 1 else page[0]
        try:
            self._closing.wait(page.hang_s)
            self._send(handler, page)
        finally:
            with self._lock:
                self._at_once -= 1

    def _send(self, handler: BaseHTTPRequestHandler, page: Page) -> None:
        handler.send_response(page.status)
        if page.content_type is not None:
            handler.send_header("content-type", page.content_type)
        for name, value in page.headers.items():
            handler.send_header(name, value)
        whole = isinstance(page.body, bytes)
        if whole:
            handler.send_header("content-length", str(len(page.body)))
        handler.send_header("connection", "keep-alive" if whole else "close")
        handler.close_connection = not whole
        handler.end_headers()
        for piece in [page.body] if isinstance(page.body, bytes) else page.body:
            if self._closing.is_set():
                return
            handler.wfile.write(piece)
            self.sent += len(piece)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@asynccontextmanager
async def answering(answers: Mapping[str, bytes], asked: list[bytes] | None = None) -> AsyncIterator[str]:
    """Address of a server that answers a path with these very bytes, and notes the requests in `asked`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if asked is not None:
            asked.append(request)
        writer.write(answers[request.split()[1].decode()])
        try:
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            pass  # a client that had enough

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def slowly(pieces: Iterable[bytes], every_s: float) -> Iterable[bytes]:
    """Pieces with a pause before each."""
    for piece in pieces:
        time.sleep(every_s)
        yield piece
