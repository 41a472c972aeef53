"""The walk through Rich Text Format: paragraphs, tables and images in their order.

After the Rich Text Format Specification 1.9.1. Own code, because the libraries (striprtf) give one string in which
tables, headings, notes and images are gone.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..blocks import Block, Image, Paragraph, Table

_TOKEN = re.compile(rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|([^\\{}\r\n]+)", re.S)
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_SIGNS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’",
    "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "nestcell": "\t",
    "nestrow": "\n",
}  # fmt: skip
_SYMBOLS = {"~": " ", "_": "-", "\n": "\n", "\r": "\n", "{": "{", "}": "}", "\\": "\\"}
_SKIPPED = frozenset((
    "colortbl", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf", "ftnsep",
    "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn", "annotation", "atnid", "atnauthor", "atntime", "atndate",
    "atnref", "atnicn", "objdata", "nonshppict", "nonesttables", "xe", "tc", "rxe", "bkmkstart", "bkmkend", "ud",
    "template", "themedata", "colorschememapping", "datastore", "latentstyles", "listtable", "listoverridetable",
    "rsidtbl", "generator", "xmlnstbl", "pnseclvl", "passwordhash", "userprops", "filetbl", "revtbl", "falt",
    "panose",
))  # fmt: skip
_MAX_CELLS = 1_000_000
_MAX_DEPTH = 10_000
_HYPERLINK = re.compile(r'\s*HYPERLINK\s+"([^"]+)"')
_HEADING_NAME = re.compile(r"heading\s*([1-9])$", re.I)


@dataclass(slots=True)
class _Group:
    """The state between two braces."""

    target: str = "text"
    """Where text goes: "text", "skip", "font", "style", "info", "title", "shape", "link", "picture" or
    "note"; all but "text" are kept apart."""
    codec: str = "cp1252"
    fallback: int = 1
    """Characters that stand for a Unicode sign, for readers that do not know it."""
    hidden: bool = False
    opened: str = ""
    """What ends with this group: "field", "picture", "note" or "title"."""


@dataclass(slots=True)
class _Field:
    instruction: list[str] = field(default_factory=list)
    start: int = 0


class RTFReader:
    """Reads one document; `title` is known when `blocks` is through.

    Raises: ValueError: the data do not start as RTF.
    """

    def __init__(self, data: bytes) -> None:
        if not data.lstrip().startswith(b"{\\rtf"):
            raise ValueError("it does not begin with {\\rtf")
        self._data = data
        self.title = ""
        self.images: list[tuple[str, bytes]] = []
        """(media type, content) of the images, whose blocks name them by position."""
        self._group = _Group()
        self._stack: list[_Group] = []
        self._starred = False
        """After ``\\*``: a destination that is unknown is skipped."""
        self._default_codec = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._styles: dict[int, int] = {}
        self._style = 0
        self._style_level: int | None = None
        self._aside: list[str] = []
        """Text of the target that is not the document's."""
        self._bytes = bytearray()
        self._to_skip = 0
        self._surrogate = 0
        self._line: list[str] = []
        self._level: int | None = None
        self._in_table = False
        self._cells: list[str] = []
        self._cell_count = 0
        self._rows: list[list[str]] = []
        self._fields: list[_Field] = []
        self._below: list[Block] = []
        self._notes = 0
        self._outer_line: list[str] = []
        self._picture_type = ""
        self._ready: list[Block] = []

    def blocks(self) -> Iterator[Block]:
        """Paragraphs, tables and images in their order."""
        position, data = 0, self._data
        while (token := _TOKEN.search(data, position)) is not None:
            position = token.end()
            word, number, code, symbol, brace, text = token.groups()
            if word is not None:
                if word == b"bin" and number:
                    end = position + max(0, int(number))
                    if self._group.target == "picture":
                        self._aside.append(data[position:end].hex())
                    position = end
                self._word(word.decode(), int(number) if number else None)
            elif code is not None:
                self._byte(int(code, 16))
            elif brace is not None:
                self._open() if brace == b"{" else self._close()
            elif symbol is not None:
                self._symbol(symbol.decode("latin-1"))
            else:
                self._text(text)
            if self._ready:
                yield from self._ready
                self._ready.clear()
        if self._in_table and (text := self._taken_line()):
            self._cells.append(text)  # the file is cut in a row
        if self._line or self._below:
            self._end_paragraph()
        self._end_table()
        yield from self._ready

    def _open(self) -> None:
        self._flush()
        if len(self._stack) >= _MAX_DEPTH:
            raise ValueError(f"its groups are nested deeper than {_MAX_DEPTH}")
        outer = self._group
        self._stack.append(outer)
        self._group = _Group(outer.target, outer.codec, outer.fallback, outer.hidden)
        self._starred = False

    def _close(self) -> None:
        self._flush()
        if not self._stack:
            return
        ended, self._group = self._group, self._stack.pop()
        match ended.opened:
            case "field":
                self._end_field()
            case "picture":
                self._end_picture()
            case "note":
                self._end_note()
            case "title":
                self.title = " ".join("".join(self._aside).split())
                self._aside.clear()

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._starred = True
        elif symbol in _SYMBOLS:
            if symbol in "\r\n":
                self._word("par", None)
            else:
                self._show(_SYMBOLS[symbol])

    def _word(self, word: str, number: int | None) -> None:
        group = self._group
        if word == "u" and number is not None:
            self._unicode(number)
            return
        if word in _SIGNS:
            self._show(_SIGNS[word])
        elif handler := _WORDS.get(word):
            self._flush()
            handler(self, number)
        elif word in _SKIPPED or (self._starred and word not in _KNOWN_STARRED):
            self._flush()
            group.target = "skip"
        self._starred = False

    def _set_codec(self, codec: str) -> None:
        self._group.codec = codec

    def _code_page(self, number: int | None) -> None:
        codec = {10000: "mac_roman", 65001: "utf-8", 936: "gb18030"}.get(number or 0, f"cp{number}")
        try:
            codecs.lookup(codec)
        except LookupError:
            return
        self._default_codec = self._group.codec = codec

    def _use_font(self, number: int | None) -> None:
        self._font = number or 0
        if self._group.target != "font":
            self._group.codec = self._fonts.get(self._font, self._default_codec)

    def _font_charset(self, number: int | None) -> None:
        if self._group.target == "font" and number in _CHARSETS:
            self._fonts[self._font] = _CHARSETS[number]

    def _target(self, name: str, opened: str = "") -> None:
        if self._group.target != "skip":
            self._group.target = name
            self._group.opened = opened

    def _use_style(self, number: int | None) -> None:
        if self._group.target == "style":
            self._style = number or 0
        else:
            self._level = self._styles.get(number or 0)

    def _outline(self, number: int | None) -> None:
        level = number + 1 if number is not None and 0 <= number < 9 else None
        if self._group.target == "style":
            self._style_level = level
        else:
            self._level = level

    def _begin_style_sheet(self, number: int | None) -> None:
        self._target("style")

    def _begin_title(self, number: int | None) -> None:
        if self._group.target == "info":
            self._target("title", "title")

    def _end_style(self) -> None:
        name = " ".join("".join(self._aside).split()).rstrip(";").split(";")[-1].strip()
        self._aside.clear()
        found = _HEADING_NAME.match(name)
        level = int(found[1]) if found else 1 if name.lower() == "title" else self._style_level
        if level is not None:
            self._styles[self._style] = level
        self._style, self._style_level = 0, None

    def _plain_paragraph(self, number: int | None) -> None:
        self._level = None
        self._in_table = False

    def _plain_text(self, number: int | None) -> None:
        self._group.hidden = False
        self._group.codec = self._default_codec

    def _hide(self, number: int | None) -> None:
        self._group.hidden = number != 0

    def _end_of_paragraph(self, number: int | None) -> None:
        if self._group.target == "text":
            self._end_paragraph()
        elif self._group.target == "note":
            self._aside_text(" ")

    def _intbl(self, number: int | None) -> None:
        self._in_table = True

    def _end_cell(self, number: int | None) -> None:
        if self._group.target == "text" and self._cell_count < _MAX_CELLS:
            self._cell_count += 1
            self._cells.append(self._taken_line())

    def _end_row(self, number: int | None) -> None:
        if self._group.target == "text":
            self._rows.append(self._cells)
            self._cells = []

    def _begin_field(self, number: int | None) -> None:
        if self._group.target == "text":
            self._group.opened = "field"
            self._fields.append(_Field(start=len(self._line)))

    def _begin_result(self, number: int | None) -> None:
        if self._fields and self._group.target == "text":
            self._fields[-1].start = len(self._line)

    def _end_field(self) -> None:
        ended = self._fields.pop()
        link = _HYPERLINK.match("".join(ended.instruction))
        shown = "".join(self._line[ended.start :]).strip()
        if link and shown and link[1] not in (shown, f"mailto:{shown}"):
            self._line.append(f" ({link[1]})")

    def _begin_note(self, number: int | None) -> None:
        if self._group.target == "text":
            self._notes += 1
            self._line.append(f"[^{self._notes}]")
            self._target("note", "note")

    def _end_note(self) -> None:
        text = " ".join("".join(self._aside).split())
        self._aside.clear()
        self._below.append(Paragraph(f"[^{self._notes}]: {text}"))

    def _begin_picture(self, number: int | None) -> None:
        self._picture_type = ""
        if self._group.target in ("text", "note"):
            self._target("picture", "picture")

    def _end_picture(self) -> None:
        content = re.sub(r"[^0-9a-fA-F]", "", "".join(self._aside))
        self._aside.clear()
        if self._picture_type and content:
            self.images.append((self._picture_type, bytes.fromhex(content[: len(content) // 2 * 2])))
            self._below.append(Image(str(len(self.images) - 1), ""))

    def _byte(self, value: int) -> None:
        if self._to_skip:
            self._to_skip -= 1
        else:
            self._bytes.append(value)

    def _text(self, text: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(text))
            self._to_skip -= skipped
            text = text[skipped:]
        self._bytes += text

    def _unicode(self, number: int) -> None:
        self._flush()
        code = number % 65536
        if 0xD800 <= code < 0xDC00:
            self._surrogate = code
        elif 0xDC00 <= code < 0xE000:
            if self._surrogate:
                self._show(chr(0x10000 + ((self._surrogate - 0xD800) << 10) + code - 0xDC00))
            self._surrogate = 0
        elif code:
            self._show(chr(code))
        self._to_skip = self._group.fallback

    def _flush(self) -> None:
        """Decode the bytes so far; a character of two bytes may come in two escapes."""
        self._to_skip = 0
        if self._bytes:
            text = self._bytes.decode(self._group.codec, "replace")
            self._bytes.clear()
            self._write(text)

    def _show(self, text: str) -> None:
        self._flush()
        self._write(text)

    def _write(self, text: str) -> None:
        target = self._group.target
        if target == "text":
            if not self._group.hidden:
                self._line.append(text.replace("\x00", ""))
        elif target == "link":
            if self._fields:
                self._fields[-1].instruction.append(text)
        elif target in ("style", "title", "picture", "note"):
            self._aside_text(text)
            if target == "style" and text.endswith(";"):
                self._end_style()

    def _aside_text(self, text: str) -> None:
        self._aside.append(text)

    def _taken_line(self) -> str:
        text = "".join(self._line)
        self._line.clear()
        for item in self._fields:
            item.start = 0
        return text.strip()

    def _end_paragraph(self) -> None:
        if self._in_table:
            if self._line:
                self._line.append("\n")
            return
        if self._cells:
            self._end_row(None)
        self._end_table()
        text, below = self._taken_line(), self._below
        self._below = []
        if text or not below:
            self._ready.append(Paragraph(text, self._level if text else None))
        self._ready += below

    def _end_table(self) -> None:
        if self._cells:
            self._rows.append(self._cells)
            self._cells = []
        if self._rows:
            self._ready.append(Table(self._rows))
            self._rows = []
            self._ready += self._below
            self._below = []


_KNOWN_STARRED = frozenset({"fldinst", "shppict", "shpinst", "shptxt", "footnote", "pntext"})
_WORDS: dict[str, Callable[[RTFReader, int | None], None]] = {
    "par": RTFReader._end_of_paragraph, "sect": RTFReader._end_of_paragraph, "page": RTFReader._end_of_paragraph,
    "cell": RTFReader._end_cell, "row": RTFReader._end_row, "intbl": RTFReader._intbl,
    "pard": RTFReader._plain_paragraph, "plain": RTFReader._plain_text, "v": RTFReader._hide,
    "deleted": RTFReader._hide, "s": RTFReader._use_style, "outlinelevel": RTFReader._outline,
    "f": RTFReader._use_font, "fcharset": RTFReader._font_charset, "ansicpg": RTFReader._code_page,
    "stylesheet": RTFReader._begin_style_sheet, "field": RTFReader._begin_field, "fldrslt": RTFReader._begin_result,
    "footnote": RTFReader._begin_note, "pict": RTFReader._begin_picture,
    "mac": lambda reader, number: reader._code_page(10000), "pc": lambda reader, number: reader._code_page(437),
    "pca": lambda reader, number: reader._code_page(850),
    "uc": lambda reader, number: setattr(reader._group, "fallback", min(max(number or 0, 0), 100)),
    "fonttbl": lambda reader, number: reader._target("font"), "fldinst": lambda reader, number: reader._target("link"),
    "info": lambda reader, number: reader._target("info"),
    "title": RTFReader._begin_title,
    "shpinst": lambda reader, number: reader._target("shape"),
    "shptxt": lambda reader, number: setattr(reader._group, "target", "text"),
    "pngblip": lambda reader, number: setattr(reader, "_picture_type", "image/png"),
    "jpegblip": lambda reader, number: setattr(reader, "_picture_type", "image/jpeg"),
    "shppict": lambda reader, number: None, "pntext": lambda reader, number: None,
}  # fmt: skip
