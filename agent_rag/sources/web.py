"""Addresses of the web as a source."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
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
from ._sitemap import addresses_of_sitemap
from .base import Listing, ListProgress, MetadataFor, SourceBase, SourceItem, metadata_of

_SAYS_NOTHING = ("", "text/plain", "application/octet-stream", "binary/octet-stream")


class WebSource(SourceBase):
    """Pages and files of the web, one document for each address.

    Only the given addresses are fetched: nothing on a page is followed, and robots.txt is not asked. An address that
    fails, also with 404 or 410, is an error of the listing: what is stored of it stays, and nothing is pruned. To
    delete a document, leave its address out. Where a server gives an ETag or Last-Modified, a page that did not change
    is not sent again; another one with the content of last time is neither parsed nor embedded.
    """

    def __init__(
        self,
        urls: Sequence[str] | Mapping[str, str] = (),
        *,
        sitemaps: Sequence[str] = (),
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
            sitemaps: Addresses of sitemaps, or indexes of them (XML, also gzipped, or a list of addresses as text); the
                pages they name on their own host are fetched, at most 50,000.
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
        if isinstance(sitemaps, str):
            raise ConfigurationError("sitemaps is one text; pass a list of addresses")
        self._sitemaps = list(sitemaps)

    async def list(self) -> Listing:
        return await self.list_since({}, lambda done, total: None)

    async def list_since(self, stamps: Mapping[str, str], progress: ListProgress) -> Listing:
        listing = Listing()
        async with self._fetcher() as fetcher:
            addresses = dict(self._addresses)
            for sitemap in self._sitemaps:
                addresses.update(await self._of_sitemap(fetcher, sitemap, listing))
            results = await self._fetch_all(fetcher, addresses, stamps, progress)
        for (identity, address), result in zip(addresses.items(), results, strict=True):
            if isinstance(result, str):
                listing.errors.append((identity, result))
                continue
            item = await asyncio.to_thread(_item, identity, result, self._metadata)
            if result.unchanged:
                item.read, item.data = partial(self._read, address), None
            listing.items.append(item)
        return listing

    @contextlib.asynccontextmanager
    async def _fetcher(self) -> AsyncIterator[Fetcher]:
        client, looks_up = await asyncio.to_thread(client_for, self._client_options)
        async with client:
            yield Fetcher(client=client, looks_up=looks_up, **self._fetching)

    def _read(self, address: str) -> bytes:
        """A page whose content is needed although it did not change; for a thread."""

        async def fetched() -> bytes:
            async with self._fetcher() as fetcher:
                return (await fetcher.fetch(address)).data

        return asyncio.run(fetched())

    async def _of_sitemap(self, fetcher: Fetcher, sitemap: str, listing: Listing) -> dict[str, str]:
        """Addresses of a sitemap or an index of sitemaps, by identity."""
        try:
            found = await addresses_of_sitemap(fetcher, sitemap)
            return {identity_of(address): address for address in found}
        except SourceError as error:
            listing.errors.append((sitemap, _shortened(redact(str(error)))))
            return {}

    async def _fetch_all(
        self, fetcher: Fetcher, addresses: Mapping[str, str], stamps: Mapping[str, str], progress: ListProgress
    ) -> Sequence[Fetched | str]:
        """What each address gave, or why it gave nothing."""
        gate = asyncio.Semaphore(self._max_concurrency)
        done = 0

        async def fetched(identity: str, address: str) -> Fetched | str:
            nonlocal done
            async with gate:
                try:
                    return await fetcher.fetch(address, stamp=stamps.get(identity, ""))
                except SourceError as error:
                    return _shortened(redact(str(error)))
                finally:
                    done += 1
                    progress(done, len(addresses))

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(fetched(*pair)) for pair in addresses.items()]
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
        stamp=fetched.stamp or None,
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
