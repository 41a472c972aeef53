"""The MCP server over streamable HTTP: who may ask, under which names, and for how long."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from .._util.extras import needs
from ..errors import ConfigurationError

DEFAULT_PORT = 8765
ASGIApp = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

_MAX_BODY_BYTES = 4 * 1024 * 1024


def http_app(
    server: Any,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    allowed_origins: Sequence[str] = (),
    allowed_hosts: Sequence[str] = (),
    request_timeout_s: float = 30.0,
) -> ASGIApp:
    """The streamable HTTP endpoint ``/mcp`` as an ASGI app. It keeps no session state, so it can run in replicas.

    Args:
        host: Address it will be bound to.
        token: Bearer token that every request must carry; needed when `host` is not a loopback address.
        allowed_origins: Values of the Origin header to allow besides loopback; a request with another one gets 403.
        allowed_hosts: Names by which clients reach it besides loopback and `host`, with any port and without one
            (``kb.internal`` behind a proxy); ``name:port`` allows that port only. Other Host headers get 421.
        request_timeout_s: For a request to arrive whole; then 408.

    Raises: ConfigurationError: no token for an address that others can reach.
    """
    if token is None and not is_loopback(host):
        raise ConfigurationError(
            f"serving MCP on {host} lets others in; set a bearer token (AGENT_RAG_MCP_TOKEN), or bind 127.0.0.1"
        )
    security = needs("mcp", "mcp.server.transport_security")
    local = ["127.0.0.1", "localhost", "[::1]"]
    settings = security.TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[form for name in (*local, host, *allowed_hosts) for form in _any_port(name)],
        allowed_origins=[
            *(form for name in local for form in _any_port(f"http://{name}")),
            *allowed_origins,
        ],
    )
    app: ASGIApp = server.streamable_http_app(stateless_http=True, transport_security=settings, host=host)
    app = _arriving_whole(app, request_timeout_s)
    return app if token is None else _with_bearer_token(app, token)


def _any_port(name: str) -> list[str]:
    """A Host or Origin with any port and without one; as it is where it has a port."""
    return [name] if re.search(r":(?:\d+|\*)$", name) else [name, f"{name}:*"]


async def serve_http(
    server: Any,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    request_timeout_s: float = 30.0,
    **options: Any,
) -> None:
    """Serve ``http://host:port/mcp`` until cancelled; options as for `http_app`. A connection that sends no request
    within `request_timeout_s` is closed."""
    uvicorn = needs("mcp", "uvicorn")
    h11 = needs("mcp", "uvicorn.protocols.http.h11_impl")

    class Connection(h11.H11Protocol):  # type: ignore[misc, name-defined]
        """uvicorn's, which waits for ever for the head of a request."""

        waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.waiting = self.loop.call_later(request_timeout_s, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            arrived = self.cycle is not None and not self.cycle.response_complete
            if arrived and self.waiting is not None:
                self.waiting.cancel()
                self.waiting = None
            elif not arrived and self.waiting is None and not self.transport.is_closing():
                self.waiting = self.loop.call_later(request_timeout_s, self.transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.waiting is not None:
                self.waiting.cancel()
            super().connection_lost(exc)

    app = http_app(server, host=host, token=token, request_timeout_s=request_timeout_s, **options)
    running = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", http=Connection))
    serving = asyncio.ensure_future(running.serve())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        running.should_exit = True  # cancelled itself, it would leave its sockets open
        await serving
        raise


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _arriving_whole(app: ASGIApp, timeout_s: float) -> ASGIApp:
    """`app`, asked only once the body of a request is here."""

    async def whole(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        messages: list[Any] = []
        size = 0
        try:
            async with asyncio.timeout(timeout_s):
                # Past the limit the app itself answers, from the first part on.
                while size <= _MAX_BODY_BYTES and (not messages or messages[-1].get("more_body", False)):
                    messages.append(await receive())
                    size += len(messages[-1].get("body", b""))
        except TimeoutError:
            await _refuse(send, 408, b"request timeout")
            return
        waiting = iter(messages)

        async def replayed() -> Any:
            return next(waiting, None) or await receive()

        await app(scope, replayed, send)

    return whole


def _with_bearer_token(app: ASGIApp, token: str) -> ASGIApp:
    expected = token.encode()

    async def checked(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        # The scheme's case does not matter (RFC 9110, 11.1).
        scheme, _, credentials = given.partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(credentials.strip(), expected):
            await app(scope, receive, send)
            return
        await _refuse(send, 401, b"unauthorized", (b"www-authenticate", b"Bearer"))

    return checked


async def _refuse(send: Any, status: int, text: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(text)).encode())
    head = [*headers, (b"content-type", b"text/plain"), length]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": text})
