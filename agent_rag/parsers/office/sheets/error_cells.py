"""Error cells (``#DIV/0!``, ``#N/A``) of .xls and .xlsb, which python-calamine 0.9 returns blank.

Each reader looks at nothing else: [MS-XLS] 2.4.127 and 2.5.133 (Formula, BoolErr), [MS-XLSB] 2.4.305 and 2.4.654
(BrtCellError, BrtFmlaError).
"""

from __future__ import annotations

import io
import logging
import struct
from collections.abc import Iterator

from ... import sniff
from ..ooxml import Package

logger = logging.getLogger(__name__)

ErrorCells = dict[tuple[int, int], str]
"""(row, column), both from 0, -> the error as shown."""

_CODES = {0x00: "#NULL!", 0x07: "#DIV/0!", 0x0F: "#VALUE!", 0x17: "#REF!", 0x1D: "#NAME?", 0x24: "#NUM!", 0x2A: "#N/A"}


def error_cells(data: bytes, kind: str, filename: str) -> list[ErrorCells]:
    """The error cells of each sheet, in the workbook's order; [] where the file is too damaged to tell."""
    readers = {sniff.XLS: _xls, sniff.XLSB: _xlsb}
    try:
        return list(readers[kind](data, filename))
    except Exception as error:
        logger.warning(
            "%s: error cells cannot be read, they stay blank (%s: %s)", filename, type(error).__name__, error
        )
        return []


def _xls(data: bytes, filename: str) -> Iterator[ErrorCells]:
    stream = _workbook_stream(data)
    for kind, body in _biff(stream, 0):
        if kind == 0x85:  # BoundSheet8
            yield dict(_biff_errors(stream, struct.unpack_from("<I", body)[0]))


def _biff_errors(stream: bytes, start: int) -> Iterator[tuple[tuple[int, int], str]]:
    for kind, body in _biff(stream, start):
        if kind == 0x205 and len(body) >= 8 and body[7] == 1:  # BoolErr
            yield struct.unpack_from("<HH", body), _CODES.get(body[6], "#ERROR")
        elif kind == 0x06 and len(body) >= 14 and body[12:14] == b"\xff\xff" and body[6] == 2:  # Formula
            yield struct.unpack_from("<HH", body), _CODES.get(body[8], "#ERROR")


def _biff(stream: bytes, position: int) -> Iterator[tuple[int, bytes]]:
    """Records (type, body) up to the end of the substream that starts at `position`."""
    while position + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, position)
        if kind == 0x0A:  # EOF
            return
        yield kind, stream[position + 4 : position + 4 + size]
        position += 4 + size


def _workbook_stream(data: bytes) -> bytes:
    import olefile

    with olefile.OleFileIO(io.BytesIO(data)) as ole:
        name = next(name for name in ("Workbook", "Book") if ole.exists(name))
        with ole.openstream(name) as stream:
            content: bytes = stream.read()
    return content


def is_protected_xls(data: bytes) -> bool:
    """Whether a FilePass record ([MS-XLS] 2.4.117) says that what follows is encrypted."""
    try:
        return any(kind == 0x2F for kind, _ in _biff(_workbook_stream(data), 0))
    except Exception:
        return False


def _xlsb(data: bytes, filename: str) -> Iterator[ErrorCells]:
    package = Package(data, filename, expected=sniff.XLSB, max_inflated_bytes=1 << 40)
    relationships = package.relationships(package.main_part)
    for kind, body in _records(package.read(package.main_part)):
        if kind == 156:  # BrtBundleSh
            length = struct.unpack_from("<I", body, 8)[0]
            found = relationships.get(body[12 : 12 + 2 * length].decode("utf-16-le"))
            yield {} if found is None else dict(_xlsb_errors(package.read(found.target)))


def _xlsb_errors(sheet: bytes) -> Iterator[tuple[tuple[int, int], str]]:
    row = 0
    for kind, body in _records(sheet):
        if kind == 0:  # BrtRowHdr
            row = struct.unpack_from("<I", body)[0]
        elif kind in (3, 11) and len(body) >= 9:  # BrtCellError, BrtFmlaError
            yield (row, struct.unpack_from("<I", body)[0]), _CODES.get(body[8], "#ERROR")


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    stream = io.BytesIO(data)
    while stream.tell() < len(data):
        kind = _packed(stream, 2)
        yield kind, stream.read(_packed(stream, 4))


def _packed(stream: io.BytesIO, most: int) -> int:
    """A number of 7 bits a byte, the lowest first, in at most `most` bytes."""
    number = 0
    for index in range(most):
        byte = stream.read(1)[0]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    return number
