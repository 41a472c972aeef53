"""The properties of an Outlook message in its compound file ([MS-OXMSG]), and what its bytes say ([MS-OXPROPS]).

python-oxmsg refuses what it has no codec for, and gives no message inside a message; olefile, on which it stands,
opens the compound file here as well.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterable, Iterator
from email.utils import format_datetime
from typing import Any

from .message import plain_text

_ENTRY = struct.Struct("<HHIQ")
_HEADER_BYTES = {"": 32, "__substg1.0_3701000D": 24}
"""Before the first property: of the file, of a message inside it; else 8."""
_STRING, _STRING8, _BINARY, _TIME = 0x1F, 0x1E, 0x102, 0x40
_MESSAGE_CODE_PAGE, _BODY_CODE_PAGE, _LANGUAGE = 0x3FFD, 0x3FDE, 0x3FF1
_BODIES = (0x1000, 0x1013)
_CODE_PAGES = {
    1200: "utf-16-le", 10000: "mac_roman", 20127: "ascii", 20866: "koi8-r", 20932: "euc_jp", 21866: "koi8-u",
    50220: "iso2022_jp", 50221: "iso2022_jp", 50222: "iso2022_jp", 50225: "iso2022_kr", 51932: "euc_jp",
    51936: "gb18030", 51949: "euc_kr", 52936: "hz", 54936: "gb18030", 65000: "utf-7", 65001: "utf-8",
}  # fmt: skip
_LANGUAGES = {
    0x01: 1256, 0x02: 1251, 0x04: 936, 0x05: 1250, 0x08: 1253, 0x0D: 1255, 0x0E: 1250, 0x11: 932, 0x12: 949,
    0x15: 1250, 0x18: 1250, 0x19: 1251, 0x1A: 1250, 0x1B: 1250, 0x1C: 1250, 0x1E: 874, 0x1F: 1254, 0x20: 1256,
    0x22: 1251, 0x23: 1251, 0x24: 1250, 0x25: 1257, 0x26: 1257, 0x27: 1257, 0x29: 1256, 0x2A: 1258, 0x2C: 1254,
    0x2F: 1251,
}  # fmt: skip
"""Primary language of a locale id ([MS-LCID]) -> its ANSI code page, where it is not 1252."""
_TRADITIONAL_CHINESE = (0x0404, 0x0C04, 0x1404)
_EPOCH = dt.datetime(1601, 1, 1, tzinfo=dt.UTC)


class Storage:
    """A folder of the compound file: a message, a recipient or an attachment. Damaged properties count as missing.

    Args:
        ole: An `olefile.OleFileIO`.
        path: Names of the folders down to this one; () for the file.
        code_page: Of the message around it.
    """

    def __init__(self, ole: Any, path: tuple[str, ...] = (), code_page: int = 0) -> None:
        self._ole = ole
        self._path = path
        self._values: dict[int, tuple[int, int]] = {}
        header = _HEADER_BYTES.get(path[-1] if path else "", 8)
        entries = self._stream("__properties_version1.0")[header:]
        for kind, number, _, value in _ENTRY.iter_unpack(entries[: len(entries) // 16 * 16]):
            self._values.setdefault(number, (kind, value))
        self._code_page = self.number(_MESSAGE_CODE_PAGE) or _of_language(self.number(_LANGUAGE)) or code_page

    def folders(self, prefix: str) -> Iterator[Storage]:
        """Those inside this one whose name starts so, in the order of their names."""
        names = {
            entry[len(self._path)]
            for entry in self._ole.listdir(streams=True, storages=True)
            if len(entry) > len(self._path) and tuple(entry[: len(self._path)]) == self._path
        }
        for name in sorted(names):
            if name.startswith(prefix):
                yield Storage(self._ole, (*self._path, name), self._code_page)

    def number(self, property_id: int) -> int | None:
        found = self._values.get(property_id)
        return None if found is None else found[1] & 0xFFFFFFFF

    def date(self, *property_ids: int) -> str:
        """As an e-mail header writes it; of the first property that has one."""
        for property_id in property_ids:
            kind, value = self._values.get(property_id, (0, 0))
            if kind == _TIME and value:
                try:
                    return format_datetime(_EPOCH + dt.timedelta(microseconds=value // 10))
                except OverflowError:
                    continue
        return ""

    def text(self, *property_ids: int) -> str:
        """Of the first property that has any. Eight-bit text is often in another code page than the message says."""
        for property_id in property_ids:
            wide = self._property(property_id, _STRING)
            text = wide[: len(wide) // 2 * 2].decode("utf-16-le", "replace")
            if not text and (narrow := self._property(property_id, _STRING8)):
                text = _narrow_text(narrow, self._pages(is_body=property_id in _BODIES))
            text = text.replace("\r\n", "\n").replace("\x00", "").strip()
            if text:
                return text
        return ""

    def binary(self, property_id: int) -> bytes:
        return self._property(property_id, _BINARY)

    def page(self, property_id: int) -> str:
        """A body in HTML that is kept as bytes."""
        return _narrow_text(self.binary(property_id), self._pages(is_body=True))

    def _pages(self, *, is_body: bool) -> Iterator[str]:
        """Codecs that the message names, the likelier one first."""
        for page in (self.number(_BODY_CODE_PAGE) if is_body else 0, self._code_page, self.number(_BODY_CODE_PAGE)):
            if page:
                yield codec(page)

    def _property(self, property_id: int, kind: int) -> bytes:
        return self._stream(f"__substg1.0_{property_id:04X}{kind:04X}")

    def _stream(self, name: str) -> bytes:
        path = [*self._path, name]
        if self._ole.get_type(path) != 2:  # olefile.STGTY_STREAM
            return b""
        with self._ole.openstream(path) as stream:
            content: bytes = stream.read()
        return content


def codec(code_page: int) -> str:
    """Python's name of a Windows code page; there need be no such codec."""
    if 28591 <= code_page <= 28606:
        return f"iso8859-{code_page - 28590}"
    return _CODE_PAGES.get(code_page, f"cp{code_page}")


def _of_language(locale_id: int | None) -> int:
    """The code page of Windows in a language; 0 without one."""
    if not locale_id:
        return 0
    if locale_id in _TRADITIONAL_CHINESE:
        return 950
    return _LANGUAGES.get(locale_id & 0x3FF, 1252)


def _narrow_text(data: bytes, codecs: Iterable[str]) -> str:
    """Eight-bit text: UTF-8 where it is that, else in the first codec that it fits, else in what it looks like."""
    for name in ("utf-8", *codecs):
        try:
            return data.decode(name).replace("\r\n", "\n")
        except (LookupError, ValueError):
            continue
    return plain_text(data, None)


_RTF_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0" + b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_WINDOW = 4096


def uncompressed_rtf(data: bytes) -> bytes:
    """RTF from a PidTagRtfCompressed ([MS-OXRTFCP]): runs out of a window of 4,096 bytes, 12 bits where, 4 how many."""
    _, size, kind, _ = struct.unpack_from("<4I", data)
    if kind == 0x414C454D:  # "MELA": not compressed
        return data[16 : 16 + size]
    window = bytearray(_RTF_DICTIONARY.ljust(_WINDOW, b"\0"))
    result = bytearray()
    end, position = len(_RTF_DICTIONARY), 16
    while position < len(data) and len(result) < size:
        control = data[position]
        position += 1
        for bit in range(8):
            if control >> bit & 1:
                if position + 2 > len(data):
                    return bytes(result)
                place = data[position] << 8 | data[position + 1]
                start, count = place >> 4, (place & 15) + 2
                position += 2
                if start == end % _WINDOW:
                    return bytes(result[:size])
            else:
                if position >= len(data):
                    return bytes(result)
                start, count = -1, 1
            for step in range(count):
                byte = data[position] if start < 0 else window[(start + step) % _WINDOW]
                result.append(byte)
                window[end % _WINDOW] = byte
                end += 1
            position += start < 0
    return bytes(result[:size])
