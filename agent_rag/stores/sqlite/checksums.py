"""CRC-32 of what is stored, and of the place where it belongs, so that it is right in no other place."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from ...errors import StoreDamagedError

# The table that a row belongs to is part of its place: pages of two tables may have been swapped.
DOCUMENT, HEAD, CHUNK, VECTORS, SEGMENT, BLOCK, LOG, COLLECTION, STORE = range(1, 10)


def checksum(data: bytes, *place: int) -> int:
    """Of `data` at a place that signed 64-bit numbers say.

    Raises: StoreDamagedError: a damaged record has values of other types.
    """
    if not isinstance(data, bytes):
        raise StoreDamagedError("a record has values of other types than were written")
    return placed(zlib.crc32(data), *place)


def placed(crc: int, *place: int) -> int:
    """As `checksum`, of data whose own CRC is known."""
    try:
        return zlib.crc32(struct.pack(f"<{len(place)}q", *place), crc)
    except struct.error as error:
        raise StoreDamagedError("a record has values of other types than were written") from error


def whole_rows(kind: int, rows: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """Numbers of the rows (number, checksum, data) that are as they were written; `checksum` of many."""
    pack, crc32 = struct.Struct("<2q").pack, zlib.crc32
    try:
        return [number for number, crc, data in rows if crc32(pack(kind, number), crc32(data)) == crc]
    except (TypeError, struct.error) as error:
        raise StoreDamagedError("a record has values of other types than were written") from error


def text_checksum(*texts: str | None) -> int:
    """Of several texts; None is not the empty text."""
    found = 0
    for text in texts:
        data = b"" if text is None else str(text).encode()
        found = zlib.crc32(data, zlib.crc32(struct.pack("<q", -1 if text is None else len(data)), found))
    return found
