"""A loopback HTTP server whose answers a test writes as a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = Any | tuple[int, Any] | tuple[int, Any, dict[str, str]]


class HTTPStub:
    """`respond(path, body)` returns the JSON to answer, or (status, JSON), or (status, JSON, headers)."""

    def __init__(self, respond: Callable[[str, Any], Answer], *, hang: bool = False) -> None:
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                body = json.loads(raw) if raw else None
                stub.requests.append((self.path, body, {k.lower(): v for k, v in self.headers.items()}))
                if hang:
                    stub.released.wait(30)
                    return
                answer = respond(self.path, body)
                status, payload, headers = 200, answer, {}
                if isinstance(answer, tuple):
                    status, payload, headers = (*answer, {})[:3]
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def bodies(self) -> list[Any]:
        return [body for _, body, _ in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
