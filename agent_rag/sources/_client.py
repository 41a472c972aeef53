"""The HTTP client that fetches pages: it connects to what was checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.cookiejar import CookieJar
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx

_CONNECT_TO = "agent_rag.connect_to"
_TLS_OPTIONS = ("verify", "cert", "trust_env")
_TRANSPORT_OPTIONS = ("http1", "http2", "limits")
_OTHER_WAYS = ("transport", "proxy", "proxies", "mounts")
# RFC 6265, 6.1, has a browser keep 50 of a host; reading 4,500 takes the event loop 30 ms.
_MOST_NEW_COOKIES = 50
_MOST_COOKIES = 500


def client_for(options: Mapping[str, Any]) -> tuple[httpx.AsyncClient, Callable[[str], bool]]:
    """A client with these options of `httpx.AsyncClient`, and which host names are to be looked up before a request.

    Those are all of them, unless a proxy or a given transport does it: then those of NO_PROXY, or none.
    """
    options = {**options, "cookies": BoundedCookieJar(options.get("cookies"))}
    if any(options.get(name) is not None for name in _OTHER_WAYS):
        return httpx.AsyncClient(**options), lambda host: False
    if options.get("trust_env", True) and {"http", "https", "all"} & getproxies().keys():
        return httpx.AsyncClient(**options), lambda host: bool(proxy_bypass(host))
    return httpx.AsyncClient(**{**options, "transport": PinnedTransport(options)}), lambda host: True


def connect_to(ips: list[str]) -> dict[str, Any]:
    """Extensions of a request that tell `PinnedTransport` where to go."""
    return {_CONNECT_TO: ips}


class BoundedCookieJar(CookieJar):
    """Keeps the cookies of a run, which some pages want back behind a redirect, as long as they are few."""

    def __init__(self, given: Any = None) -> None:
        super().__init__()
        for cookie in httpx.Cookies(given).jar:
            self.set_cookie(cookie)

    def extract_cookies(self, response: Any, request: Any) -> None:
        new = response.info().get_all("set-cookie", [])
        if 0 < len(new) <= _MOST_NEW_COOKIES and len(self) < _MOST_COOKIES:
            super().extract_cookies(response, request)


class PinnedTransport(httpx.AsyncBaseTransport):
    """Connects to the IP addresses given by `connect_to`, so that a name cannot lead elsewhere after it was checked.

    Each name has connections of its own: one that is shared would carry the certificate of another name.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._context = httpx.create_ssl_context(**{name: options[name] for name in _TLS_OPTIONS if name in options})
        self._options = {name: options[name] for name in _TRANSPORT_OPTIONS if name in options}
        self._by_host: dict[str, httpx.AsyncHTTPTransport] = {}
        # httpx loads httpcore with the first one, 40 ms: here that is in a thread, not in the event loop.
        httpx.AsyncHTTPTransport(verify=self._context)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode("ascii")
        if host not in self._by_host:
            self._by_host[host] = httpx.AsyncHTTPTransport(verify=self._context, **self._options)
        unreachable: httpx.TransportError = httpx.ConnectError(f"no IP address of {host} is known")
        for ip in request.extensions.get(_CONNECT_TO, ()):
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=ip),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._by_host[host].handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                unreachable = error
        raise unreachable

    async def aclose(self) -> None:
        for transport in self._by_host.values():
            await transport.aclose()
