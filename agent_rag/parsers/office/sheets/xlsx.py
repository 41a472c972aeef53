"""Workbooks in Office Open XML (.xlsx, .xlsm), row by row.

lxml reads a sheet seven times as fast as openpyxl's read-only mode (80,000 cells in 0.10 s against 0.73 s), and unlike
it knows merged ranges, Strict files, comments and drawings. Which number formats are dates, and which date a number
is, is openpyxl's code; tests compare the cells with openpyxl's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ....errors import ParseError
from ...tables import TableFormat
from ..ooxml import Element, Package, R, S, decode_escapes, forget
from .cells import DateFormats, DateKind, date_text, number_text
from .extras import comments, drawings
from .grid import Area, Grid, Limits, area, column_number, seems_number
from .workbook import Sheet

logger = logging.getLogger(__name__)

_ROW, _CELL, _VALUE, _FORMULA, _INLINE = (f"{S}{name}" for name in ("row", "c", "v", "f", "is"))
_TEXT, _RUN, _ITEM, _MERGE, _LINK = (f"{S}{name}" for name in ("t", "r", "si", "mergeCell", "hyperlink"))
_TEXT_TYPES = ("s", "str", "inlineStr")


class XlsxReader:
    """Reads the sheets of a workbook.

    Args:
        include_hidden: Read hidden sheets.
        include_image: Read images.
        include_comments: Read cell comments.
        repeat_merged: Write a merged cell's value in each of its rows.
    """

    def __init__(
        self,
        package: Package,
        limits: Limits,
        *,
        include_hidden: bool,
        include_image: bool,
        include_comments: bool,
        repeat_merged: bool,
        table_format: TableFormat,
    ) -> None:
        self._package = package
        self._limits = limits
        self._include_hidden = include_hidden
        self._include_image = include_image
        self._include_comments = include_comments
        self._repeat_merged = repeat_merged
        self._table_format: TableFormat = table_format
        self._strings = list(self._shared_strings())
        self._kinds = self._style_kinds()
        self._epoch_1904 = False

    def sheets(self) -> Iterator[Sheet]:
        """The sheets in their order, chart sheets included."""
        main = self._package.main_part
        workbook = self._package.xml(main)
        properties = workbook.find(f"{S}workbookPr")
        self._epoch_1904 = properties is not None and properties.get("date1904") in ("1", "true", "on")
        relationships = self._package.relationships(main)
        entries = list(workbook.iter(f"{S}sheet"))
        if not any(entry.get(f"{R}id") in relationships for entry in entries):
            raise ParseError(f"{self._package.filename}: the workbook has no sheet that can be read; is it damaged?")
        for entry in entries:
            name, hidden = entry.get("name", ""), entry.get("state", "visible") != "visible"
            found = relationships.get(entry.get(f"{R}id", ""))
            if found is None or found.external:
                logger.warning("%s: the part of sheet %r is missing", self._package.filename, name)
            elif self._include_hidden or not hidden:
                yield self._sheet(name, hidden, found.target)
            else:
                self._limits.omitted.append(name)

    def _sheet(self, name: str, hidden: bool, part: str) -> Sheet:
        sheet = Sheet(name, hidden, Grid(name, self._limits))
        self._fill(sheet.grid, part)
        remarks, sheet.images = drawings(
            self._package,
            part,
            sheet=name,
            hidden=hidden,
            with_images=self._include_image,
            table_format=self._table_format,
        )
        said = comments(self._package, part)
        sheet.remarks = remarks + (said if self._include_comments else [])
        sheet.unread_comments = 0 if self._include_comments else sum(text.count("\n") for text in said)
        return sheet

    def _fill(self, grid: Grid, part: str) -> None:
        merged: list[tuple[Area, str | None]] = []
        links: list[tuple[Area, str | None]] = []
        for element in self._package.stream(part, _ROW, _MERGE, _LINK):
            if element.tag == _ROW:
                self._row(grid, element)
                forget(element)
            elif (found := area(element.get("ref", ""))) is not None:
                (merged if element.tag == _MERGE else links).append((found, element.get(f"{R}id")))
        if merged:
            grid.merge((found for found, _ in merged), repeat=self._repeat_merged)
        relationships = self._package.relationships(part)
        for found, relationship_id in links:
            link = relationships.get(relationship_id or "")
            if link is not None and link.external:
                grid.append(found.top, found.left, link.target.removeprefix("mailto:"))

    def _row(self, grid: Grid, row: Element) -> None:
        columns: list[int] = []
        texts: list[str] = []
        column = 0
        for cell in row:
            reference = cell.get("r")
            column = column_number(reference.rstrip("0123456789")) if reference else column + 1
            children = len(cell)
            if not children:
                continue
            value = cell[children - 1]
            tag = value.tag
            if tag == _VALUE:
                text = self._value(value.text or "", cell)
            else:
                text = rich_text(value) if tag == _INLINE else self._other(cell)
            if text:
                columns.append(column)
                texts.append(text)
                if cell.get("t") in _TEXT_TYPES and seems_number(text):
                    grid.number_texts.add(column)
        number = row.get("r", "")
        grid.add(int(number) if number.isdecimal() else grid.rows[-1].number + 1 if grid.rows else 1, columns, texts)

    def _value(self, raw: str, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "n":
            date_kind = self._kinds.get(cell.get("s", "0"))
            if date_kind is None:
                return raw if raw.isdecimal() else number_text(raw.strip())
            return date_text(raw.strip(), date_kind, self._epoch_1904)
        if kind == "s":
            return self._strings[int(raw)] if raw else ""
        return _typed_text(raw, kind)

    def _other(self, cell: Element) -> str:
        """A cell that ends in something else: a formula without a value, an extension."""
        if cell.tag != _CELL:
            return ""
        inline = cell.find(_INLINE)
        if inline is not None:
            return rich_text(inline)
        raw = cell.findtext(_VALUE)
        if raw is not None:
            return self._value(raw, cell)
        formula = (cell.findtext(_FORMULA) or "").strip()
        return f"={formula}" if formula else ""

    def _shared_strings(self) -> Iterator[str]:
        for part in self._package.related(self._package.main_part, "sharedStrings"):
            for item in self._package.stream(part, _ITEM):
                yield rich_text(item)
                forget(item)

    def _style_kinds(self) -> dict[str, DateKind | None]:
        """What the numbers of each cell style are, by the style's number."""
        formats = DateFormats()
        kinds: dict[str, DateKind | None] = {}
        for part in self._package.related(self._package.main_part, "styles"):
            root = self._package.xml(part)
            for item in root.iter(f"{S}numFmt"):
                formats.add(_int(item.get("numFmtId")), item.get("formatCode", ""))
            for styles in root.iter(f"{S}cellXfs"):
                for index, item in enumerate(styles.iter(f"{S}xf")):
                    kinds[str(index)] = formats.kind(_int(item.get("numFmtId")))
        return kinds


def rich_text(element: Element) -> str:
    """The text of a string item: its runs joined, without the phonetic guide."""
    if len(element) == 1 and element[0].tag == _TEXT:
        return clean_text(element[0].text or "")
    texts = []
    for child in element:
        if child.tag == _TEXT:
            texts.append(child.text or "")
        elif child.tag == _RUN:
            texts.append(child.findtext(_TEXT) or "")
    return clean_text("".join(texts))


def clean_text(text: str) -> str:
    """A cell's text without surrounding space and XML escapes."""
    text = decode_escapes(text)
    return text.replace("\r\n", "\n").replace("\r", "\n").strip() if "\r" in text else text.strip()


def _typed_text(raw: str, kind: str) -> str:
    if kind == "b":
        return "TRUE" if raw.strip() in ("1", "true") else "FALSE"
    if kind == "d":
        return raw.strip().replace("T", " ").removesuffix("Z").removesuffix(".000").removesuffix(" 00:00:00")
    return clean_text(raw)


def _int(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
