"""Error cells (``#DIV/0!``, ``#N/A``) of .xls, .xlsb and .ods, which python-calamine 0.9 returns blank.

Each reader looks at nothing else: [MS-XLS] 2.4.127 and 2.5.133 (Formula, BoolErr), [MS-XLSB] 2.4.305 and 2.4.654
(BrtCellError, BrtFmlaError), and LibreOffice's ``calcext:value-type="error"``.
"""

from __future__ import annotations

import io
import logging
import struct
import zipfile
from collections.abc import Iterator

from ... import sniff
from ..ooxml import Element, Package, forget

logger = logging.getLogger(__name__)

ErrorCells = dict[tuple[int, int], str]
"""(row, column), both from 0, -> the error as shown."""

_CODES = {0x00: "#NULL!", 0x07: "#DIV/0!", 0x0F: "#VALUE!", 0x17: "#REF!", 0x1D: "#NAME?", 0x24: "#NUM!", 0x2A: "#N/A"}
_TABLE, _TEXT = (f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}" for name in ("table", "text"))
_CALCEXT = "{urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0}value-type"
_END_OF_CHAIN = 0xFFFFFFFA


def error_cells(data: bytes, kind: str, filename: str) -> list[ErrorCells]:
    """The error cells of each sheet, in the workbook's order; [] where the file is too damaged to tell."""
    readers = {sniff.XLS: _xls, sniff.XLSB: _xlsb, sniff.ODS: _ods}
    try:
        return list(readers[kind](data, filename))
    except Exception as error:
        logger.warning(
            "%s: error cells cannot be read, they stay blank (%s: %s)", filename, type(error).__name__, error
        )
        return []


def _xls(data: bytes, filename: str) -> Iterator[ErrorCells]:
    stream = _ole_stream(data, ("Workbook", "Book"))
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


def _ole_stream(data: bytes, names: tuple[str, ...]) -> bytes:
    """A stream of a compound file ([MS-CFB])."""
    size = 1 << struct.unpack_from("<H", data, 30)[0]
    first_directory, _, cutoff, first_mini, _, next_difat, _ = struct.unpack_from("<7I", data, 48)
    difat = list(struct.unpack_from("<109I", data, 76))
    for _ in range(len(data) // size):
        if next_difat >= _END_OF_CHAIN:
            break
        *more, next_difat = struct.unpack_from(f"<{size // 4}I", data, (next_difat + 1) * size)
        difat += more
    fat = b"".join(data[(s + 1) * size : (s + 2) * size] for s in difat if s < _END_OF_CHAIN)
    body = data[size:]
    entries = list(_entries(_chain(body, fat, first_directory, size)))
    start, length = next((s, n) for name in names for entry, s, n in entries if entry == name)
    if length >= cutoff:
        return _chain(body, fat, start, size)[:length]
    mini = _chain(body, fat, entries[0][1], size)
    return _chain(mini, _chain(body, fat, first_mini, size), start, 64)[:length]


def _entries(directory: bytes) -> Iterator[tuple[str, int, int]]:
    for position in range(0, len(directory) - 127, 128):
        name_size, start, length = (
            struct.unpack_from(code, directory, position + at)[0] for code, at in (("<H", 64), ("<I", 116), ("<I", 120))
        )
        yield directory[position : position + max(0, name_size - 2)].decode("utf-16-le", "replace"), start, length


def _chain(body: bytes, table: bytes, sector: int, size: int) -> bytes:
    parts = []
    for _ in range(len(table) // 4):
        if sector >= _END_OF_CHAIN:
            break
        parts.append(body[sector * size : (sector + 1) * size])
        sector = struct.unpack_from("<I", table, sector * 4)[0]
    return b"".join(parts)


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


def _ods(data: bytes, filename: str) -> Iterator[ErrorCells]:
    from lxml import etree

    found: ErrorCells = {}
    row = 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open("content.xml") as stream:
        tags = (f"{_TABLE}table-row", f"{_TABLE}table")
        for _, element in etree.iterparse(stream, tag=tags, resolve_entities=False, no_network=True):
            if element.tag == f"{_TABLE}table":
                yield found
                found, row = {}, 0
            else:
                found.update(((row, column), text) for column, text in _ods_errors(element))
                row += _repeated(element, "rows")
            forget(element)


def _ods_errors(row: Element) -> Iterator[tuple[int, str]]:
    column = 0
    for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
        if cell.get(_CALCEXT) == "error":
            text = cell.find(f"{_TEXT}p")
            yield column, "#ERROR" if text is None else "".join(text.itertext())
        column += _repeated(cell, "columns")


def _repeated(element: Element, what: str) -> int:
    text = element.get(f"{_TABLE}number-{what}-repeated", "1")
    return int(text) if text.isdecimal() else 1
