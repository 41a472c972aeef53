"""One address of the web: where it may lead, how often it is asked, what it gives."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

from .._util.http import HTTPFailure, refusal, request_failures, retried
from ..errors import SourceError
from ..parsers.text.encoding import in_utf8
from ._address import Address, is_public, resolve
from ._body import read_body
from ._client import connect_to

_MAX_REDIRECTS = 5
_PATIENCE = 10
_FOUND = (200, 203)
_NOT_MODIFIED = 304
_VALIDATORS = {"etag": "if-none-match", "last-modified": "if-modified-since"}
_LONGEST_VALIDATOR = 500
_LONGEST_CONTENT_TYPE = 1000
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?([\w.:+-]{1,40})""", re.ASCII | re.IGNORECASE)
_TEXT_ENDINGS = ("xml", "json")

_REMEDIES = {
    401: "pass headers=, or user:password@ in the address",
    403: "pass headers=, or user:password@ in the address, if you may read it",
    404: "if it is gone for good, leave the address out",
    410: "it is gone for good: leave the address out",
}


class Fetched(NamedTuple):
    """What an address gave."""

    data: bytes
    """Text in a charset that the server named is in UTF-8 with a BOM."""
    media_type: str
    """As the server declared it, without parameters, in lower case."""
    stamp: str = ""
    """ETag, Last-Modified and the type as JSON; empty where the server says neither."""
    unchanged: bool = False
    """The server says that it is as it was; there is no data."""


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """Fetches addresses with one client."""

    client: httpx.AsyncClient
    headers: Mapping[str, str]
    timeout_s: float
    max_bytes: int
    max_attempts: int
    allow_private: bool
    looks_up: Callable[[str], bool]
    """Whether a host name is looked up here, so that it can be checked; see `client_for`."""

    async def fetch(self, text: str, *, stamp: str = "") -> Fetched:
        """Raises: SourceError: it cannot be had; the message says why and what to do, without credentials."""
        address = Address.parse(text)
        try:
            return await retried(lambda: self._attempt(address, stamp), max_attempts=self.max_attempts)
        except HTTPFailure as failure:
            raise SourceError(f"{failure}; {_remedy(failure)}") from failure
        except SourceError:
            raise
        except Exception as error:  # whatever an answer sets off in a library costs that address only
            raise SourceError(
                f"{address.url} cannot be read: {type(error).__name__}: {error}; leave the address out, and report this"
            ) from error

    async def _attempt(self, address: Address, stamp: str) -> Fetched:
        # timeout_s bounds each wait only: a server could send a byte before each of them ends.
        try:
            async with asyncio.timeout(_PATIENCE * self.timeout_s):
                return await self._follow(address, stamp)
        except TimeoutError as error:
            raise SourceError(f"{address.url} takes more than {_PATIENCE} x timeout_s={self.timeout_s:g}") from error

    async def _follow(self, start: Address, stamp: str) -> Fetched:
        address, headers = start, {**self.headers, **_conditions(stamp)}
        auth: Any = start.credentials or httpx.USE_CLIENT_DEFAULT
        from_public = False
        for _ in range(_MAX_REDIRECTS + 1):
            ips = await self._checked(address, from_public=from_public)
            request = self.client.build_request("GET", address.url, headers=headers, extensions=connect_to(ips))
            with request_failures(str(address.url), self.timeout_s):
                answer = await self._send(request, address, auth)
                try:
                    if not answer.has_redirect_location:
                        return await self._read(answer, address, stamp)
                finally:
                    await answer.aclose()
            target = _target(answer, address)
            if not target.may_get_secrets_of(address):
                headers, auth = _conditions(stamp), None
            address, from_public = target, all(map(is_public, ips))
        raise SourceError(f"{start.url} is redirected more than {_MAX_REDIRECTS} times; pass the address it ends at")

    async def _send(self, request: httpx.Request, address: Address, auth: Any) -> httpx.Response:
        try:
            return await self.client.send(request, auth=auth, stream=True, follow_redirects=False)
        except (httpx.InvalidURL, UnicodeError) as error:  # of the Location, which httpx reads also when not following
            raise _nowhere(address) from error

    async def _checked(self, address: Address, *, from_public: bool) -> list[str]:
        """The IP addresses of `address`. Raises: SourceError: one of them is none to go to."""
        ips = await resolve(address, names=self.looks_up(address.url.host))
        private = next((ip for ip in ips if not is_public(ip)), None)
        if private is None:
            return ips
        place = f"{address.url} leads to {private}, which is not on the internet"
        if from_public:
            raise SourceError(f"{place}, and a page of the internet redirects there; pass that address itself")
        if not self.allow_private:
            raise SourceError(f"{place}; to read it, pass allow_private=True (command line: --allow-private)")
        return ips

    async def _read(self, answer: httpx.Response, address: Address, stamp: str) -> Fetched:
        if answer.status_code == _NOT_MODIFIED:
            return Fetched(b"", _told(stamp).get("type", ""), stamp, unchanged=True)
        if answer.status_code not in _FOUND:
            raise refusal(str(address.url), answer)
        data = await read_body(answer, str(address.url), self.max_bytes)
        declared = answer.headers.get("content-type", "")[:_LONGEST_CONTENT_TYPE]
        media_type, charset = declared.partition(";")[0].strip().lower(), _CHARSET.search(declared)
        if charset and (media_type.startswith("text/") or media_type.endswith(_TEXT_ENDINGS)):
            data = await asyncio.to_thread(in_utf8, data, charset[1])
        return Fetched(data, media_type, _stamp(answer.headers, media_type))


def _stamp(headers: httpx.Headers, media_type: str) -> str:
    told = {name: headers[name] for name in _VALIDATORS if 0 < len(headers.get(name, "")) <= _LONGEST_VALIDATOR}
    return json.dumps({**told, "type": media_type}, sort_keys=True) if told else ""


def _told(stamp: str) -> dict[str, str]:
    return json.loads(stamp) if stamp.startswith("{") else {}


def _conditions(stamp: str) -> dict[str, str]:
    """Headers that ask for a page only if it is another than that of `stamp`."""
    return {_VALIDATORS[name]: value for name, value in _told(stamp).items() if name in _VALIDATORS}


def _target(answer: httpx.Response, address: Address) -> Address:
    """Where a redirect leads. Credentials in it are not used."""
    try:
        return Address.parse(str(address.url.join(answer.headers["location"])))
    except (SourceError, httpx.InvalidURL, ValueError) as error:
        raise _nowhere(address) from error


def _nowhere(address: Address) -> SourceError:
    return SourceError(f"{address.url} is redirected to what is no http or https address")


def _remedy(failure: HTTPFailure) -> str:
    if failure.timed_out:
        return "raise timeout_s"
    if failure.status is None:
        return "is the address right, and the server up?"
    return _REMEDIES.get(failure.status, "try again later" if failure.transient else "is the address right?")
