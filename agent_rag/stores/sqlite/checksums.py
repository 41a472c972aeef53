"""CRC-32 of what is stored, and of the place where it belongs, so that it is right in no other place."""

from __future__ import annotations

import struct
import zlib

Bytes = bytes | bytearray | memoryview


def checksum(data: Bytes, *place: int) -> int:
    """Of `data` at a place that signed 64-bit numbers say."""
    return placed(zlib.crc32(data), *place)


def placed(crc: int, *place: int) -> int:
    """As `checksum`, of data whose own CRC is known."""
    return zlib.crc32(struct.pack(f"<{len(place)}q", *place), crc)


def text_checksum(*texts: str | None) -> int:
    """Of several texts; None is not the empty text."""
    found = 0
    for text in texts:
        data = b"" if text is None else text.encode()
        found = zlib.crc32(data, zlib.crc32(struct.pack("<q", -1 if text is None else len(data)), found))
    return found
