"""Addresses that a site names in its sitemap (https://www.sitemaps.org/protocol.html)."""

from __future__ import annotations

import asyncio
import gzip
import io
from urllib.parse import urlsplit

from ..errors import SourceError
from ._fetch import Fetcher

_MAX_ADDRESSES = 50_000
_MAX_SITEMAPS = 200
_MAX_BYTES = 50 * 1024 * 1024


async def addresses_of_sitemap(fetcher: Fetcher, sitemap: str) -> list[str]:
    """Pages of a sitemap, or of all that an index names, in their order; those of other hosts are left out.

    Raises: SourceError: it cannot be had, is no sitemap, or names too many.
    """
    pages: dict[str, None] = {}
    waiting, seen = [sitemap], {sitemap}
    while waiting:
        address = waiting.pop(0)
        is_index, found = await asyncio.to_thread(_read, (await fetcher.fetch(address)).data, address)
        here = [one for one in found if urlsplit(one).hostname == urlsplit(sitemap).hostname]
        if is_index:
            waiting += [one for one in here if one not in seen]
            seen.update(here)
        else:
            pages.update(dict.fromkeys(here))
        if len(seen) > _MAX_SITEMAPS or len(pages) > _MAX_ADDRESSES:
            raise SourceError(
                f"{sitemap} names more than {_MAX_SITEMAPS} sitemaps or {_MAX_ADDRESSES:,} pages; pass parts of it"
            )
    return list(pages)


def _read(data: bytes, address: str) -> tuple[bool, list[str]]:
    """Whether it is an index, and its addresses."""
    from lxml import etree

    if data[:2] == b"\x1f\x8b":
        with gzip.open(io.BytesIO(data)) as stream:
            data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise SourceError(f"{address} inflates to more than {_MAX_BYTES:,} bytes; pass parts of it")
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = data.decode("utf-8", "replace").split()
        return False, [line for line in lines if line.startswith(("http://", "https://"))]
    try:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise SourceError(f"{address} is no sitemap: {error}; pass the address of an XML sitemap") from error
    found = [(element.text or "").strip() for element in root.iterfind(".//{*}loc")]
    return root.tag.endswith("sitemapindex"), [one for one in found if one]
