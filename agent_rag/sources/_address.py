"""Addresses of the web: what they name, what they hide, and where they lead."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx

from .._util.http import HTTPFailure
from ..errors import SourceError

_UP_TO_CREDENTIALS = re.compile(r"(?<=:).*@", re.DOTALL)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class Address:
    """An http or https address, without credentials and fragment."""

    url: httpx.URL
    credentials: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises: SourceError: not an http or https address; the message shows no credentials."""
        try:
            url = httpx.URL(text.strip())
            if url.scheme not in ("http", "https") or not url.host or (url.port or 0) > 65535:
                raise _no_address(text)
            credentials = (url.username, url.password) if url.userinfo else None
            return cls(url.copy_with(userinfo=b"", fragment=None), credentials)
        except (httpx.InvalidURL, ValueError) as error:  # ValueError: a host that IDNA forbids, half a surrogate pair
            raise _no_address(text) from error

    @property
    def port(self) -> int:
        return self.url.port or (443 if self.url.scheme == "https" else 80)

    def may_get_secrets_of(self, other: Address) -> bool:
        """Same host, same port and no less encrypted."""
        if self.url.host != other.url.host:
            return False
        upgraded = (other.url.scheme, other.port, self.url.scheme, self.port) == ("http", 80, "https", 443)
        return upgraded or (self.url.scheme, self.port) == (other.url.scheme, other.port)


def identity_of(text: str) -> str:
    """An address as a document's id: scheme and host in lower case, no credentials, no fragment, the rest as it is.

    What is no Unicode is written as escapes.
    """
    text = text.strip().encode("utf-8", "backslashreplace").decode()
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises where a "/" in a password cut it short
    except ValueError:
        return _masked(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return _masked(text)
    host = parts.netloc.rpartition("@")[2].lower()
    return urlunsplit((parts.scheme, host, parts.path, parts.query, ""))


def is_public(ip: str) -> bool:
    """Whether an IP address is on the internet: not loopback, private, link-local, shared, reserved or multicast."""
    address = ipaddress.ip_address(ip)
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return address.is_global and not (address.is_multicast or address.is_reserved)


async def resolve(address: Address, *, names: bool = True) -> list[str]:
    """The IP addresses that an address leads to, in the order to try them.

    Args:
        names: Also look up names; False gives ``[]`` for a name, but for those of this machine.

    Raises: SourceError: there is no such host. HTTPFailure: nobody could tell right now.
    """
    host = address.url.raw_host.decode("ascii")
    if not names and f".{host.rstrip('.')}".endswith(".localhost"):
        return ["127.0.0.1"]
    flags = 0 if names else socket.AI_NUMERICHOST
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError) as error:
        if not names:
            return []
        if isinstance(error, OSError) and error.errno == socket.EAI_AGAIN:
            raise HTTPFailure(f"{host} cannot be looked up now: {error.strerror}") from error
        raise SourceError(f"there is no host {host}; is the address right?") from error
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def _masked(text: str) -> str:
    return _UP_TO_CREDENTIALS.sub("//***@", text)


def _no_address(text: str) -> SourceError:
    return SourceError(
        f"{_masked(text)!r} is no http or https address; signs such as / and @ in a password are written as %2F and %40"
    )
