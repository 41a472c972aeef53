"""The content of an answer, unpacked within a bound."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator

import httpx

from .._util.http import HTTPFailure
from ..errors import SourceError

_PIECE = 1024 * 1024
_PACKING = 1024 * 1024
"""What gzip may add to content that cannot be packed: headers of its members, a file name, padding."""
_GZIP = 16 + zlib.MAX_WBITS


async def read_body(answer: httpx.Response, url: str, max_bytes: int) -> bytes:
    """The content of a streamed answer.

    Raises: SourceError: larger than `max_bytes`, packed or unpacked, or in a coding that was not asked for.
        HTTPFailure: it is damaged or ends too early.
    """
    too_large = SourceError(f"{url} is larger than max_bytes={max_bytes:,}; raise it, or leave the address out")
    if answer.is_stream_consumed:  # a transport that has the whole answer, such as httpx.MockTransport
        if len(answer.content) > max_bytes:
            raise too_large
        return answer.content
    gzip = _unpacker(answer, url)
    left = max_bytes if gzip is None else max_bytes + _PACKING
    length = answer.headers.get("content-length", "")
    if length.isdecimal() and int(length) > left:
        raise too_large
    data = bytearray()
    async for raw in answer.aiter_raw():
        left -= len(raw)
        if left < 0:
            raise too_large
        for piece in gzip.unpack(raw) if gzip is not None else (raw,):
            data += piece
            if len(data) > max_bytes:
                raise too_large
            await asyncio.sleep(0)
    if gzip is not None and not gzip.complete:
        raise HTTPFailure(f"{url} answered with gzip that ends too early")
    return bytes(data)


def _unpacker(answer: httpx.Response, url: str) -> _Gzip | None:
    coding = answer.headers.get("content-encoding", "").strip().lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip"):
        return _Gzip(url)
    raise SourceError(f"{url} answered in the coding {coding[:40]!r}, though only gzip was asked for")


class _Gzip:
    """Unpacks gzip, of one or several members, at most 1 MiB at a time: 64 KB of it may hold 66 MB.

    Zeros behind a member are padding, which gzip tools pass over as well.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._member = zlib.decompressobj(_GZIP)
        self.complete = True

    def unpack(self, raw: bytes) -> Iterator[bytes]:
        """The pieces; some are empty, so that the caller comes in between also where a packing holds nothing.

        Raises: HTTPFailure: it is no gzip.
        """
        piece = b""
        while raw or len(piece) == _PIECE:  # a full piece may have more behind it without more input
            if self._member.eof:
                raw = raw.lstrip(b"\0")
                if not raw:
                    return
                self._member = zlib.decompressobj(_GZIP)
            try:
                piece = self._member.decompress(raw, _PIECE)
            except zlib.error as error:
                raise HTTPFailure(f"{self._url} answered with damaged gzip: {error}") from error
            self.complete = self._member.eof
            yield piece
            raw = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
