"""OpenDocument: the package, and the walk through its text content."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...content import Base64Source, DataBlock
from ...documents import Section
from ...errors import EncryptedFileError, ParseError
from ..blocks import Block, Image, Paragraph, Table, cell_text
from ..sniff import archive_kind
from ..tables import PackedRows
from .line import Line
from .ooxml import Element, check_archive, check_kind, forget, image_type
from .xml import xml_root, xml_stream

_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
OFFICE, TEXT, TABLE, PRESENTATION = (f"{{{_ODF}{name}:1.0}}" for name in ("office", "text", "table", "presentation"))
DRAW, STYLE = f"{{{_ODF}drawing:1.0}}", f"{{{_ODF}style:1.0}}"
SVG = f"{{{_ODF}svg-compatible:1.0}}"
XLINK = "{http://www.w3.org/1999/xlink}"
_MANIFEST = f"{{{_ODF}manifest:1.0}}"
DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"

_SKIPPED = frozenset(
    [f"{TEXT}{name}" for name in ("tracked-changes", "sequence-decls", "variable-decls", "user-field-decls")]
    + [f"{OFFICE}{name}" for name in ("annotation", "annotation-end", "forms", "event-listeners")]
    + [f"{SVG}title", f"{SVG}desc", f"{TEXT}note-citation"]
)
_BLOCKS = (f"{TEXT}h", f"{TEXT}p", f"{TEXT}list", f"{TABLE}table", f"{DRAW}frame", f"{DRAW}custom-shape")
_ROW = f"{TABLE}table-row"
_WRAPPERS = frozenset(
    [f"{TEXT}{name}" for name in ("section", "index-body", "index-title", "table-of-content", "alphabetical-index")]
    + [f"{TEXT}{name}-index" for name in ("illustration", "table", "object", "user")]
    + [f"{TEXT}bibliography", f"{OFFICE}text"]
)
_MAX_REPEATS = 1_000
_MAX_COPIES = 1_000
"""Cells that repetitions may add to a document."""


class OpenDocument:
    """A package, read part by part.

    Raises: EncryptedFileError, UnsupportedFormatError, ParseLimitError, ParseError; zipfile.BadZipFile.
    """

    def __init__(self, data: bytes, filename: str, *, expected: str, max_inflated_bytes: int) -> None:
        self.filename = filename
        self._zip = check_archive(data, filename, max_inflated_bytes)
        kind = archive_kind(self._zip)
        check_kind(kind.removesuffix("-template"), filename, expected)
        if "content.xml" not in self._zip.NameToInfo:
            raise ParseError(f"{filename}: the package has no content.xml; is it damaged?")
        manifest = self.xml_or_none("META-INF/manifest.xml")
        if manifest is not None and next(manifest.iter(f"{_MANIFEST}encryption-data"), None) is not None:
            raise EncryptedFileError(f"{filename}: the file is encrypted with a password; save a copy without one")
        self._images: dict[str, Base64Source] = {}

    def __contains__(self, part: str) -> bool:
        return part in self._zip.NameToInfo

    @property
    def title(self) -> str:
        meta = self.xml_or_none("meta.xml")
        return "" if meta is None else " ".join((meta.findtext(f".//{DUBLIN_CORE}title") or "").split())

    def xml_or_none(self, part: str) -> Element | None:
        return xml_root(self._zip.read(part)) if part in self else None

    def stream(self, *tags: str) -> Iterator[Element]:
        """The elements of content.xml with these tags as they end, without holding the whole tree."""
        with self._zip.open("content.xml") as stream:
            yield from xml_stream(stream, *tags)

    def image(self, part: str, *, alt: str, **metadata: Any) -> Section:
        """An image part as a Section of its own."""
        if part not in self._images:
            data = self._zip.read(part)
            kind = image_type(data, "", part)
            self._images[part] = Base64Source(data=base64.b64encode(data).decode("ascii"), media_type=kind)
        source = self._images[part]
        block = DataBlock(source=source, name=posixpath.basename(part), caption=alt or None)
        return Section(content=block, source=self.filename, metadata={**metadata, "media_type": source.media_type})


class ListStyles:
    """Which levels of which list styles count."""

    def __init__(self) -> None:
        self._numbered: dict[str, set[str]] = {}

    def add(self, style: Element) -> None:
        levels = style.iter(f"{TEXT}list-level-style-number")
        self._numbered[style.get(f"{STYLE}name", "")] = {level.get(f"{TEXT}level", "") for level in levels}

    def is_numbered(self, style: str, level: int) -> bool:
        return str(level) in self._numbered.get(style, ())


@dataclass
class _List:
    style: str
    level: int
    number: int = 0


@dataclass
class _Table:
    """A table being read."""

    rows: PackedRows = field(default_factory=PackedRows)
    below: list[Block] = field(default_factory=list)
    """Images of its cells, which stand after it."""

    def blocks(self) -> list[Block]:
        return [Table(self.rows), *self.below]


@dataclass
class _Notes:
    count: int = 0
    below: list[Block] = field(default_factory=list)


class TextReader:
    """Reads block-level content of a package.

    Args:
        include_image: Give images as blocks; else their alternative text stands in the text.
    """

    def __init__(self, package: OpenDocument, *, include_image: bool) -> None:
        self._package = package
        self._include_image = include_image
        self._notes = _Notes()
        self._copies = 0
        self._dropped_copies = 0
        self._comments = 0
        self.lists = ListStyles()
        styles = package.xml_or_none("styles.xml")
        for style in () if styles is None else styles.iter(f"{TEXT}list-style"):
            self.lists.add(style)
        margins = () if styles is None else styles.iter(f"{STYLE}header", f"{STYLE}footer")
        self._has_margins = any("".join(margin.itertext()).strip() for margin in margins)

    def body(self) -> Iterator[Block]:
        """The text of a text document; holds one of its paragraphs, lists or table rows at a time in memory."""
        table = _Table()
        for element in self._package.stream(*_BLOCKS, _ROW, f"{TEXT}list-style", f"{TEXT}tracked-changes"):
            if element.tag == f"{TEXT}list-style":
                self.lists.add(element)
                continue
            block = next(element.iterancestors(f"{TABLE}table"), None) if element.tag == _ROW else element
            parent = None if block is None else block.getparent()
            if parent is None or parent.tag not in _WRAPPERS:
                continue
            if element.tag == _ROW:
                self._add_row(element, table)
            elif element.tag == f"{TABLE}table":
                yield from table.blocks()
                table = _Table()
            else:
                yield from self.block(element)
            forget(element)

    def blocks(self, container: Element) -> Iterator[Block]:
        for child in container:
            yield from self.block(child)

    def block(self, element: Element, within: _List | None = None) -> Iterator[Block]:
        """A block-level element; an unknown one is looked into."""
        tag = element.tag
        if not isinstance(tag, str) or tag in _SKIPPED:
            return
        if tag in (f"{TEXT}p", f"{TEXT}h"):
            yield from self._paragraph(element)
        elif tag == f"{TEXT}list":
            yield from self._list(element, within)
        elif tag == f"{TABLE}table":
            yield from self._table(element)
        elif tag.startswith(DRAW):
            line = Line()
            self._drawing(element, line)
            yield from line.below
        else:
            yield from self.blocks(element)

    def _paragraph(self, element: Element, marker: str = "") -> Iterator[Block]:
        line = Line()
        self._inline(element, line)
        notes, self._notes.below = self._notes.below, []
        text = line.finished_text()
        level = None
        if text and element.tag == f"{TEXT}h":
            level = max(1, _number(element.get(f"{TEXT}outline-level"), 1))
        if text or not (line.below or notes):
            yield Paragraph(marker + text if text else "", level)
        yield from line.below
        yield from notes

    def _list(self, element: Element, within: _List | None) -> Iterator[Block]:
        style = element.get(f"{TEXT}style-name") or (within.style if within else "")
        current = _List(style, within.level + 1 if within else 1)
        for item in element:
            if item.tag not in (f"{TEXT}list-item", f"{TEXT}list-header"):
                continue
            current.number += item.tag == f"{TEXT}list-item"
            is_first = item.tag == f"{TEXT}list-item"
            for child in item:
                if child.tag in (f"{TEXT}p", f"{TEXT}h") and is_first:
                    sign = f"{current.number}." if self.lists.is_numbered(style, current.level) else "-"
                    marker = f"{'  ' * (current.level - 1)}{sign} " if child.tag == f"{TEXT}p" else ""
                    is_first = False
                    yield from self._paragraph(child, marker)
                else:
                    yield from self.block(child, current)

    def _table(self, element: Element) -> Iterator[Block]:
        table = _Table()
        for row in element.iter(_ROW):
            if next(row.iterancestors(f"{TABLE}table")) is element:
                self._add_row(row, table)
        yield from table.blocks()

    def _add_row(self, row: Element, table: _Table) -> None:
        cells = self._row(row, table.below)
        repeats = _number(row.get(f"{TABLE}number-rows-repeated"), 1) if any(cells) else 1
        for _ in range(self._times(repeats, len(cells))):
            table.rows.append(cells)

    def _row(self, row: Element, below: list[Block]) -> list[str]:
        cells: list[str] = []
        for cell in row:
            if cell.tag not in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
                continue
            blocks = list(self.blocks(cell))
            below += [block for block in blocks if isinstance(block, Image)]
            repeats = _number(cell.get(f"{TABLE}number-columns-repeated"), 1)
            cells += [cell_text(blocks)] * self._times(repeats, 1)
        return cells

    def _times(self, repeats: int, cells: int) -> int:
        """How often to write cells that the file repeats: few bytes can ask for millions of copies of one."""
        allowed = min(repeats, 1 + (_MAX_COPIES - self._copies) // max(1, cells))
        self._copies += (allowed - 1) * cells
        self._dropped_copies += (repeats - allowed) * cells
        return allowed

    def left_out(self) -> list[str]:
        """What of the text read so far is not given, a sentence each."""
        said = []
        if self._dropped_copies:
            said.append(f"{self._dropped_copies:,} copies of repeated table cells are left out")
        if self._comments:
            said.append(f"{self._comments} comment(s) are not read")
        if self._has_margins:
            said.append("page headers and footers are not read")
        return said

    def _inline(self, element: Element, line: Line) -> None:
        line.text.append(_spaced(element.text))
        for child in element:
            if isinstance(child.tag, str) and child.tag not in _SKIPPED:
                self._piece(child, line)
            self._comments += child.tag == f"{OFFICE}annotation"
            line.text.append(_spaced(child.tail))

    def _piece(self, element: Element, line: Line) -> None:
        tag = element.tag
        if tag == f"{TEXT}s":
            line.text.append(" " * min(_number(element.get(f"{TEXT}c"), 1), _MAX_REPEATS))
        elif tag == f"{TEXT}tab":
            line.text.append("\t")
        elif tag == f"{TEXT}line-break":
            line.text.append("\n")
        elif tag == f"{TEXT}a":
            self._link(element, line)
        elif tag == f"{TEXT}note":
            self._note(element, line)
        elif tag == f"{TEXT}ruby":
            base, reading = (element.find(f"{TEXT}{name}") for name in ("ruby-base", "ruby-text"))
            if base is not None:
                self._inline(base, line)
                line.asides.append(("".join(base.itertext()), "" if reading is None else "".join(reading.itertext())))
        elif tag.startswith(DRAW) and tag != f"{DRAW}a":
            self._drawing(element, line)
        else:
            self._inline(element, line)

    def _link(self, element: Element, line: Line) -> None:
        start = len(line.text)
        self._inline(element, line)
        label, url = "".join(line.text[start:]).strip(), element.get(f"{XLINK}href", "")
        if label and url and not url.startswith("#") and label != url.removeprefix("mailto:"):
            line.asides.append((label, url))

    def _note(self, element: Element, line: Line) -> None:
        self._notes.count += 1
        label = f"[^{self._notes.count}]"
        body = element.find(f"{TEXT}note-body")
        blocks = [] if body is None else list(self.blocks(body))
        line.text.append(label)
        self._notes.below.append(Paragraph(f"{label}: {' '.join(cell_text(blocks).split())}"))
        self._notes.below += [block for block in blocks if isinstance(block, Image)]

    def _drawing(self, element: Element, line: Line) -> None:
        """A frame or shape: its image, text and tables stand behind the paragraph."""
        if element.tag == f"{DRAW}frame":
            alt = " ".join((element.findtext(f"{SVG}desc") or element.findtext(f"{SVG}title") or "").split())
            for child in element:
                if child.tag == f"{DRAW}image":
                    line.below += self._image(child, alt)
                    return  # what follows is the same for other readers
                if child.tag in (f"{DRAW}object", f"{DRAW}object-ole"):
                    continue
                line.below += self.block(child) if child.tag != f"{DRAW}text-box" else self.blocks(child)
            if alt and not line.below:
                line.below.append(Paragraph(f"[Figure: {alt}]"))
        else:
            line.below += [block for child in element for block in self.block(child) if block != Paragraph("")]

    def _image(self, element: Element, alt: str) -> list[Block]:
        part = element.get(f"{XLINK}href", "").removeprefix("./")
        if part in self._package:
            if self._include_image:
                return [Image(part, alt)]
            return [Paragraph(f"[Image: {alt}]")] if alt else []
        text = " ".join(filter(None, (alt, part if "://" in part else "")))
        return [Paragraph(f"[Image: {text}]")] if text else []


def _spaced(text: str | None) -> str:
    """White space as OpenDocument counts it: a run is one space."""
    if not text:
        return ""
    words = " ".join(text.split())
    if not words:
        return " "
    return f"{' ' * text[0].isspace()}{words}{' ' * text[-1].isspace()}"


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else default


def plain_lines(blocks: Iterable[Block]) -> list[str]:
    """The lines of the paragraphs among `blocks`."""
    return [block.text for block in blocks if isinstance(block, Paragraph) and block.text]
