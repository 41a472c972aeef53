"""Addresses of the web as a source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import httpx

from .._util.extras import DISTRIBUTION
from ..errors import ConfigurationError, SourceError, redact
from ..parsers import supported_extensions
from ._address import Address, identity_of
from ._client import client_for
from ._fetch import Fetched, Fetcher
from .base import Listing, MetadataFor, SourceBase, SourceItem, metadata_of

_SAYS_NOTHING = ("", "text/plain", "application/octet-stream", "binary/octet-stream")


class WebSource(SourceBase):
    """Pages and files of the web, one document for each address.

    Only the given addresses are fetched: nothing on a page is followed, and robots.txt is not asked. An address that
    fails, also with 404 or 410, is an error of the listing: what is stored of it stays, and nothing is pruned. To
    delete a document, leave its address out. Each run fetches every page; one with the content of last time is neither
    parsed nor embedded again.
    """

    def __init__(
        self,
        urls: Sequence[str] | Mapping[str, str],
        *,
        name: str = "web",
        metadata: MetadataFor | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        max_bytes: int = 64 * 1024 * 1024,
        max_concurrency: int = 4,
        max_attempts: int = 4,
        allow_private: bool = False,
        client_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            urls: Addresses, http or https; or a mapping from the address that a document is known by to the one that
                is fetched. The first is the document's id and uri, without fragment and credentials. Credentials
                (``https://user:password@host``) are used, and shown nowhere.
            name: Tells its documents from those of other sources: a second WebSource of one name replaces the first.
            metadata: Of every document, or a function from a document's id to its metadata.
            headers: Sent to every host in `urls`, but to no other one that redirects lead to.
            timeout_s: For connecting and for each wait on the socket; a whole answer may take ten times as long.
            max_bytes: Of one document, unpacked. All documents of a run are in memory together.
            max_concurrency: Requests at the same time.
            max_attempts: Of an address, including the first.
            allow_private: Also read addresses that are not on the internet: this machine's, a private network's. A
                page of the internet that redirects to one is an error either way.
            client_kwargs: Passed to `httpx.AsyncClient`: proxy, verify, transport. With a proxy (also one of the
                environment) or a transport, that looks up names, and only IP addresses can be checked here.
        """
        if isinstance(urls, str):
            raise ConfigurationError("urls is one text; pass a list of addresses, such as WebSource([address])")
        if timeout_s <= 0 or min(max_bytes, max_concurrency, max_attempts) < 1:
            raise ConfigurationError(
                f"{timeout_s=}, {max_bytes=}, {max_concurrency=} and {max_attempts=} must be positive"
            )
        self.name = name
        self._metadata = metadata
        self._max_concurrency = max_concurrency
        options = dict(client_kwargs or {})
        given = httpx.Headers(options.pop("headers", None))
        given.update(headers)
        own = {"user-agent": f"{DISTRIBUTION}/{version(DISTRIBUTION)}", "accept-encoding": "gzip"}
        self._client_options = {"timeout": timeout_s, **options, "headers": own}
        self._fetching: dict[str, Any] = {
            "headers": {**given, "accept-encoding": "gzip"},
            "timeout_s": timeout_s,
            "max_bytes": max_bytes,
            "max_attempts": max_attempts,
            "allow_private": allow_private,
        }
        self._addresses = _by_identity(urls)

    async def list(self) -> Listing:
        listing = Listing()
        results = await self._fetch_all()
        for identity, result in zip(self._addresses, results, strict=True):
            if isinstance(result, Fetched):
                listing.items.append(await asyncio.to_thread(_item, identity, result, self._metadata))
            else:
                listing.errors.append((identity, result))
        return listing

    async def _fetch_all(self) -> Sequence[Fetched | str]:
        """What each address gave, or why it gave nothing."""
        gate = asyncio.Semaphore(self._max_concurrency)

        async def fetched(address: str) -> Fetched | str:
            async with gate:
                try:
                    return await fetcher.fetch(address)
                except SourceError as error:
                    return _shortened(redact(str(error)))

        client, looks_up = await asyncio.to_thread(client_for, self._client_options)
        async with client:
            fetcher = Fetcher(client=client, looks_up=looks_up, **self._fetching)
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(fetched(address)) for address in self._addresses.values()]
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
        return [task.result() for task in tasks]


def _by_identity(urls: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """Identity -> address to fetch, in the order given; an address that comes again is the same document."""
    pairs = urls.items() if isinstance(urls, Mapping) else [(url, url) for url in urls]
    addresses: dict[str, str] = {}
    for known_by, address in pairs:
        if not known_by.strip() or not address.strip():
            raise SourceError("an address to ingest is empty; an unset variable of a script looks like this")
        identity = identity_of(known_by)
        if not _is_same(addresses.setdefault(identity, address), address):
            raise ConfigurationError(
                f"two addresses are to be fetched for the document {identity}; pass a mapping that gives each an "
                "address of its own to be known by"
            )
    return addresses


def _is_same(one: str, other: str) -> bool:
    try:
        return Address.parse(one) == Address.parse(other)
    except SourceError:
        return one == other


def _item(identity: str, fetched: Fetched, metadata: MetadataFor | None) -> SourceItem:
    return SourceItem(
        document_id=identity,
        uri=identity,
        title=identity,
        data=fetched.data,
        filename=_filename(identity, fetched.media_type),
        media_type=fetched.media_type or None,
        metadata=metadata_of(metadata, identity),
    )


def _shortened(reason: str) -> str:
    """An error without the middle of what a server made long, such as the line that is no header."""
    return reason if len(reason) <= 1000 else f"{reason[:600]} ... {reason[-300:]}"


def _filename(identity: str, media_type: str) -> str:
    """The identity; without its query where the ending has to tell the kind of file, as in ``notes.md?raw=1``."""
    without_query = identity.partition("?")[0]
    try:
        ending = PurePosixPath(urlsplit(without_query).path).suffix.lower()
    except ValueError:  # a name of the caller's that is no address, such as http://[draft
        return identity
    return without_query if media_type in _SAYS_NOTHING and ending in supported_extensions() else identity
