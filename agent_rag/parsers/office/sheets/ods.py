"""Workbooks in OpenDocument (.ods), row by row.

python-calamine refuses .ods files with white space between cells, leaves error cells blank, reads those that Excel
writes as 0, and knows no comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....documents import Section
from ... import sniff
from ...blocks import Image, cell_text
from ..odf import DUBLIN_CORE, OFFICE, STYLE, TABLE, TEXT, OpenDocument, TextReader, plain_lines
from ..ooxml import Element, forget
from .cells import number_text
from .grid import Area, Grid, Limits, column_name, seems_number
from .workbook import Sheet

_ROW, _SHEET, _STYLE = f"{TABLE}table-row", f"{TABLE}table", f"{STYLE}style"
_CELL, _COVERED, _PARAGRAPH = f"{TABLE}table-cell", f"{TABLE}covered-table-cell", f"{TEXT}p"
_ANNOTATION = f"{OFFICE}annotation"
_CALCEXT_TYPE = "{urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0}value-type"
_ERROR = re.compile(r"#(?:DIV/0!|N/A|NV|NAME\?|NULL!|NUM!|REF!|VALUE!|GETTING_DATA|SPILL!|CALC!)|Err:\d{3}")
_DURATION = re.compile(r"(-?)P(?:(\d+)D)?T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,]\d+)?S)?")
_MAX_REPEATED_ROWS = 1_000
"""Of a row with something in it; sheets repeat empty ones a million times."""


class OdsReader:
    """Reads the sheets of a workbook.

    Args:
        include_hidden: Read hidden sheets.
        include_image: Read images; else their alternative texts are remarks.
        include_comments: Read cell comments.
        repeat_merged: Write a merged cell's value in each of its rows.
    """

    def __init__(
        self,
        package: OpenDocument,
        limits: Limits,
        *,
        include_hidden: bool,
        include_image: bool,
        include_comments: bool,
        repeat_merged: bool,
    ) -> None:
        self._package = package
        self._limits = limits
        self._include_hidden = include_hidden
        self._include_comments = include_comments
        self._repeat_merged = repeat_merged
        self._text = TextReader(package, include_image=include_image)
        self._hidden_styles: set[str] = set()

    def sheets(self) -> Iterator[Sheet]:
        """The sheets in their order."""
        reading: _SheetReader | None = None
        for element in self._package.stream(_ROW, _SHEET, _STYLE):
            if element.tag == _STYLE:
                self._note_style(element)
                continue
            sheet = element if element.tag == _SHEET else next(element.iterancestors(_SHEET), None)
            if sheet is None or next(sheet.iterancestors(_SHEET, _ROW), None) is not None:
                continue  # a table in a cell
            reading = reading or self._reader(sheet)
            if element.tag == _ROW:
                reading.row(element)
            else:
                finished = reading.finished(element, repeat_merged=self._repeat_merged)
                reading = None
                if self._include_hidden or not finished.hidden:
                    yield finished
                else:
                    self._limits.omitted.append(finished.name)
            forget(element)

    def _note_style(self, style: Element) -> None:
        properties = style.find(f"{STYLE}table-properties")
        if properties is not None and properties.get(f"{TABLE}display") == "false":
            self._hidden_styles.add(style.get(f"{STYLE}name", ""))

    def _reader(self, sheet: Element) -> _SheetReader:
        name = sheet.get(f"{TABLE}name", "")
        hidden = sheet.get(f"{TABLE}style-name") in self._hidden_styles
        return _SheetReader(self._package, self._text, Sheet(name, hidden, Grid(name, self._limits)), self)

    @property
    def with_comments(self) -> bool:
        return self._include_comments


class _SheetReader:
    """Reads the rows of one sheet."""

    def __init__(self, package: OpenDocument, text: TextReader, sheet: Sheet, reader: OdsReader) -> None:
        self._package = package
        self._text = text
        self._sheet = sheet
        self._reader = reader
        self._number = 1
        self._merged: list[Area] = []
        self._comments: list[str] = []

    def row(self, row: Element) -> None:
        columns: list[int] = []
        texts: list[str] = []
        column = 1
        for cell in row.iterchildren(_CELL, _COVERED):
            repeats = _count(cell, "number-columns-repeated")
            text = self._cell(cell, column) if len(cell) or cell.attrib else ""
            if text:
                self._sheet.grid.limits.check_columns(column + repeats - 1, self._sheet.name)
                columns += range(column, column + repeats)
                texts += [text] * repeats
                if cell.get(f"{OFFICE}value-type") == "string" and seems_number(text):
                    self._sheet.grid.number_texts.update(range(column, column + repeats))
            column += repeats
        repeats = _count(row, "number-rows-repeated")
        for number in range(min(repeats, _MAX_REPEATED_ROWS) if columns else 0):
            self._sheet.grid.add(self._number + number, columns, list(texts))
        self._number += repeats

    def finished(self, table: Element, *, repeat_merged: bool) -> Sheet:
        sheet = self._sheet
        for shapes in table.iterchildren(f"{TABLE}shapes"):
            self._beside(shapes)
        sheet.grid.merge(self._merged, repeat=repeat_merged)
        if self._comments and not self._reader.with_comments:
            sheet.unread_comments = len(self._comments)
        elif self._comments:
            sheet.remarks.append("\n".join(["Comments:", *self._comments]))
        return sheet

    def _cell(self, cell: Element, column: int) -> str:
        rows, columns = _count(cell, "number-rows-spanned"), _count(cell, "number-columns-spanned")
        if rows > 1 or columns > 1:
            self._merged.append(Area(self._number, column, self._number + rows - 1, column + columns - 1))
        for annotation in cell.iterchildren(_ANNOTATION):
            self._comment(annotation, f"{column_name(column)}{self._number}")
        return "" if cell.tag == _COVERED else self._value(cell)

    def _value(self, cell: Element) -> str:
        kind = cell.get(f"{OFFICE}value-type", "")
        shown = self._shown(cell)
        if kind in ("", "string") or cell.get(_CALCEXT_TYPE) == "error" or _ERROR.fullmatch(shown):
            return shown or cell.get(f"{OFFICE}string-value", "")
        if kind in ("float", "currency", "percentage"):
            return number_text(cell.get(f"{OFFICE}value", shown))
        if kind == "date":
            return _date(cell.get(f"{OFFICE}date-value", shown))
        if kind == "time":
            return _time(cell.get(f"{OFFICE}time-value", shown))
        if kind == "boolean":
            return "TRUE" if cell.get(f"{OFFICE}boolean-value") == "true" else "FALSE"
        return shown

    def _shown(self, cell: Element) -> str:
        if len(cell) == 1 and cell[0].tag == _PARAGRAPH and not len(cell[0]):
            return " ".join((cell[0].text or "").split())
        blocks = list(self._text.blocks(cell))
        self._images(block for block in blocks if isinstance(block, Image))
        return cell_text(blocks)

    def _beside(self, shapes: Element) -> None:
        """Images and text boxes that lie on the sheet."""
        blocks = list(self._text.blocks(shapes))
        self._images(block for block in blocks if isinstance(block, Image))
        self._sheet.remarks += plain_lines(blocks)

    def _images(self, images: Iterator[Image]) -> None:
        metadata = {"sheet": self._sheet.name} | ({"hidden": True} if self._sheet.hidden else {})
        found: list[Section] = [self._package.image(image.part, alt=image.alt, **metadata) for image in images]
        self._sheet.images += found

    def _comment(self, annotation: Element, place: str) -> None:
        author = " ".join(annotation.findtext(f"{DUBLIN_CORE}creator", "").split())
        text = " ".join(" ".join(plain_lines(self._text.blocks(annotation))).split())
        if text:
            self._comments.append(f"[{place}] {author}: {text}" if author else f"[{place}] {text}")


def open_ods(data: bytes, filename: str, max_inflated_bytes: int) -> OpenDocument:
    """Raises: what `OpenDocument` raises."""
    return OpenDocument(data, filename, expected=sniff.ODS, max_inflated_bytes=max_inflated_bytes)


def _date(value: str) -> str:
    day, _, time = value.partition("T")
    time = time.partition(".")[0].removesuffix("Z")
    return day if time in ("", "00:00:00") else f"{day} {time}"


def _time(value: str) -> str:
    """``PT14H30M00S`` as ``14:30:00``; a duration of a day and more in hours."""
    found = _DURATION.fullmatch(value)
    if found is None:
        return value
    sign, *parts = found.groups()
    days, hours, minutes, seconds = (int(part or 0) for part in parts)
    return f"{sign}{24 * days + hours:02d}:{minutes:02d}:{seconds:02d}"


def _count(element: Element, what: str) -> int:
    text = element.get(f"{TABLE}{what}", "1")
    return max(1, int(text)) if text.isdecimal() and len(text) < 10 else 1
