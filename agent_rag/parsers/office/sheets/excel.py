"""Spreadsheets: .xlsx, .xlsm and .ods, and through python-calamine .xls and .xlsb."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from ....content import TextBlock
from ....documents import Heading, Section
from ....errors import ConfigurationError, UnsupportedFormatError
from ....places import LineNumbers
from ....workers import Isolation, is_isolated
from ... import sniff
from ...file import DEFAULT_MAX_FILE_BYTES, FileParser, is_large
from ...images.ocr import OCREngine, with_recognized_images
from ...tables import TableFormat, check_table_format, json_rows, markdown_table
from ..ooxml import DEFAULT_MAX_INFLATED_BYTES, Package, check_archive
from .grid import Limits, Row, Table, column_name
from .workbook import Sheet

_NATIVE = (sniff.XLS, sniff.XLSB)


class ExcelParser(FileParser):
    """Reads a workbook sheet by sheet, as tables of the values that Excel last computed.

    Dates are ISO 8601 without a midnight, whole numbers have no ".0", percentages are their value, error cells read
    as shown, a formula that was never computed as ``=SUM(A1:A3)``. Merged cells have their value in the first one. Runs
    of empty rows or columns shrink to one. Text boxes, chart titles and comments stand below the table.

    By default all visible sheets make one Section; a hidden sheet is always one of its own,
    `{"sheet": name, "hidden": True}`. The registry's parser (`parser_for`) has `separate_sheet=True`.

    Args:
        include_sheet_names: Write ``Sheet: NAME`` above each sheet.
        include_cell_coordinates: Write ``[A1]`` before each value (JSON: an object keyed by coordinates).
        include_image: Give images as DataBlocks, `{"sheet": name, "media_type": ...}`, after all text.
        separate_sheet: Make each sheet a Section `{"sheet": name}`. A long one is cut into groups of rows that repeat
            the first row, with `"rows": "2-501"` (numbers as Excel shows them).
        table_format: "markdown" or "json".
        include_hidden: Read hidden sheets.
        include_comments: Write cell comments below the table.
        repeat_merged: Write the value of merged cells in each of their rows, not in the first only. The first row of a
            group of rows carries it in any case.
        ocr: Recognises the text in images, which joins their caption, for example `TesseractOCR()`.
        rows_per_section: Rows in a group; None keeps every sheet whole.
        max_rows: Bound on the filled rows of a sheet.
        max_columns: Bound on the column numbers.
        max_cells: Bound on the cells written for the whole workbook, empty ones included.
        max_inflated_bytes: Bound on the unpacked size.
        max_file_bytes: Bound on the file's size.
        isolation: "process" reads .xls and .xlsb in a worker process, since a small file can make the native reader
            end its process. .xlsx, .xlsm and .ods are read in a thread where they are small.

    Raises: ValueError: `table_format` is unknown, or a number is below 1.
    """

    supported_media_types: ClassVar[list[str]] = [
        sniff.XLSX,
        sniff.XLS,
        "application/vnd.ms-excel.sheet.macroenabled.12",
        sniff.XLSB,
        sniff.ODS,
    ]
    format_name: ClassVar[str] = "spreadsheet"
    version: ClassVar[int] = 2

    def __init__(
        self,
        include_sheet_names: bool = True,
        include_cell_coordinates: bool = False,
        include_image: bool = False,
        separate_sheet: bool = False,
        table_format: TableFormat = "markdown",
        *,
        include_hidden: bool = True,
        include_comments: bool = True,
        repeat_merged: bool = False,
        ocr: OCREngine | None = None,
        rows_per_section: int | None = 500,
        max_rows: int = 1_048_576,
        max_columns: int = 16_384,
        max_cells: int = 10_000_000,
        max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: Isolation = "process",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        check_table_format(table_format)
        if min(rows_per_section or 1, max_rows, max_columns, max_cells) < 1 or rows_per_section == 0:
            raise ConfigurationError("rows_per_section, max_rows, max_columns and max_cells must be 1 or more")
        self.include_sheet_names = include_sheet_names
        self.include_cell_coordinates = include_cell_coordinates
        self.include_image = include_image
        self.separate_sheet = separate_sheet
        self.table_format: TableFormat = table_format
        self.include_hidden = include_hidden
        self.include_comments = include_comments
        self.repeat_merged = repeat_merged
        self.ocr = ocr
        self.rows_per_section = rows_per_section
        self.max_rows = max_rows
        self.max_columns = max_columns
        self.max_cells = max_cells
        self.max_inflated_bytes = max_inflated_bytes

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".ods", ".xls", ".xlsb", ".xlsm", ".xlsx", ".xltm", ".xltx"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        """Read a file off the event loop: in a worker process what is large or read by a native library, else in a
        thread."""
        if is_isolated() or is_large(file) or await asyncio.to_thread(_is_native, file):
            return await super().parse(file, filename)
        return await asyncio.to_thread(self.parse_here, file, filename)

    def read(self, data: bytes, filename: str) -> list[Section]:
        texts: list[Section] = []
        images: list[Section] = []
        shared: list[tuple[str, str]] = []
        limits = Limits(self.max_rows, self.max_columns, self.max_cells, filename)
        comments = 0
        for sheet in self._sheets(data, limits):
            images += sheet.images
            comments += sheet.unread_comments
            if self.separate_sheet or sheet.hidden:
                texts += self._sections(sheet, filename)
            elif text := self._text(sheet):
                shared.append((sheet.name, text))
        sections = [*self._merged(shared, filename), *texts, *images]
        for section in sections[:1]:
            section.warnings = list(_left_out(limits.omitted, comments))
        return with_recognized_images(sections, self.ocr)

    def _sheets(self, data: bytes, limits: Limits) -> Iterator[Sheet]:
        kind = sniff.detect(data).media_type
        if kind in _NATIVE:
            return self._native_sheets(data, kind, limits)
        if kind == sniff.ODS:
            return self._ods_sheets(data, limits)
        if kind in (sniff.XLSX, sniff.ENCRYPTED_OFFICE, "application/zip"):
            return self._xlsx_sheets(data, limits)
        raise UnsupportedFormatError(
            f"{limits.filename}: the content is {kind}, not a spreadsheet, whatever the name says; "
            "let parser_for(filename, data=...) choose the parser, or save it as .xlsx"
        )

    def _xlsx_sheets(self, data: bytes, limits: Limits) -> Iterator[Sheet]:
        from .xlsx import XlsxReader

        package = Package(data, limits.filename, expected=sniff.XLSX, max_inflated_bytes=self.max_inflated_bytes)
        reader = XlsxReader(
            package,
            limits,
            include_hidden=self.include_hidden,
            include_image=self.include_image,
            include_comments=self.include_comments,
            repeat_merged=self.repeat_merged,
            table_format=self.table_format,
        )
        return reader.sheets()

    def _native_sheets(self, data: bytes, kind: str, limits: Limits) -> Iterator[Sheet]:
        from .calamine import calamine_sheets

        if kind == sniff.XLSB:
            check_archive(data, limits.filename, self.max_inflated_bytes)
        hidden, repeat = self.include_hidden, self.repeat_merged
        return calamine_sheets(data, kind, limits, include_hidden=hidden, repeat_merged=repeat)

    def _ods_sheets(self, data: bytes, limits: Limits) -> Iterator[Sheet]:
        from .ods import OdsReader, open_ods

        reader = OdsReader(
            open_ods(data, limits.filename, self.max_inflated_bytes),
            limits,
            include_hidden=self.include_hidden,
            include_image=self.include_image,
            include_comments=self.include_comments,
            repeat_merged=self.repeat_merged,
        )
        return reader.sheets()

    def _merged(self, sheets: list[tuple[str, str]], filename: str) -> list[Section]:
        """The visible sheets in one Section, each under its name as a heading."""
        if not sheets:
            return []
        section = Section(content=TextBlock(text="\n".join(text for _, text in sheets)), source=filename)
        offset = 0
        for name, text in sheets if self.include_sheet_names else []:
            section.headings.append(Heading(level=1, title=name, offset=offset))
            offset += len(text) + 1
        return [section]

    def _sections(self, sheet: Sheet, filename: str) -> list[Section]:
        """One sheet as a Section, or as several when it is long."""
        table = sheet.grid.table()
        size = self.rows_per_section
        if size is None or len(table.rows) <= size + 1:
            text = self._table_text(table, table.rows)
            return _with_facts(
                self._section(sheet, text, sheet.remarks, filename, {}, self._places(table, table.rows)), table
            )
        sections: list[Section] = []
        for start in range(1, len(table.rows), size):
            group = table.group(start, start + size)
            remarks = sheet.remarks if start + size >= len(table.rows) else []
            text = self._table_text(table, table.rows[:1], group)
            numbers = f"{group[0].number}-{group[-1].number}"
            places = self._places(table, table.rows[:1], group, is_first=start == 1)
            sections += self._section(sheet, text, remarks, filename, {"rows": numbers}, places)
        return _with_facts(sections, table)

    def _section(
        self,
        sheet: Sheet,
        table: str,
        remarks: list[str],
        filename: str,
        extra: dict[str, str],
        places: LineNumbers | None = None,
    ) -> list[Section]:
        text = self._joined(sheet.name, table, remarks)
        if not text:
            return []
        metadata: dict[str, Any] = {"sheet": sheet.name} | ({"hidden": True} if sheet.hidden else {}) | extra
        section = Section(content=TextBlock(text=text), source=filename, metadata=metadata, places=places)
        if self.include_sheet_names:
            section.headings = [Heading(level=1, title=sheet.name, offset=0)]
        else:
            section.heading_path = [sheet.name]
        return [section]

    def _places(self, table: Table, *parts: list[Row], is_first: bool = True) -> LineNumbers | None:
        """The rows of the sheet in which the lines of a table stand."""
        if not table.rows:
            return None
        if self.table_format == "json" and self.include_cell_coordinates:
            numbers = [row.number for rows in parts for row in rows]
        else:
            numbers = [number for rows in parts for number in table.row_numbers(rows)]
        if not is_first:
            numbers[0] = 0
        ruled = [numbers[0], 0, *numbers[1:]] if self.table_format == "markdown" else [0, *numbers]
        return LineNumbers.of(ruled, first_line=int(self.include_sheet_names), unit="rows")

    def _text(self, sheet: Sheet) -> str:
        table = sheet.grid.table()
        return self._joined(sheet.name, self._table_text(table, table.rows), sheet.remarks)

    def _joined(self, name: str, table: str, remarks: list[str]) -> str:
        parts = [table] * bool(table) + remarks
        return "\n".join([f"Sheet: {name}"] * self.include_sheet_names + parts) if parts else ""

    def _table_text(self, table: Table, *parts: list[Row]) -> str:
        """The rows of `parts` as one table; a gap between two parts is not shown."""
        if not table.rows:
            return ""
        coordinates = self.include_cell_coordinates
        if self.table_format == "json" and coordinates:
            return json_rows(cells for rows in parts for cells in _cells_by_coordinate(rows))
        lines = (line for rows in parts for line in table.full_rows(rows, coordinates=coordinates))
        return markdown_table(lines, table.width) if self.table_format == "markdown" else json_rows(lines)


def _with_facts(sections: list[Section], table: Table) -> list[Section]:
    """The Sections of a sheet; the first says of its cells what the text does not."""
    for section in sections[:1]:
        section.cells = table.facts()
    return sections


def _left_out(hidden: list[str], comments: int) -> Iterator[str]:
    if hidden:
        shown = ", ".join(map(repr, hidden[:10])) + ("..." if len(hidden) > 10 else "")
        yield f"{len(hidden)} hidden sheet(s) are not read ({shown}); pass ExcelParser(include_hidden=True)"
    if comments:
        yield f"{comments} comment(s) are not read; pass ExcelParser(include_comments=True)"


def _cells_by_coordinate(rows: Iterable[Row]) -> Iterator[dict[str, str]]:
    for row in rows:
        yield {f"{column_name(c)}{row.number}": text for c, text in zip(row.columns, row.texts, strict=True)}


def _is_native(file: bytes | str | Path) -> bool:
    return sniff.detect(file if isinstance(file, bytes) else Path(file)).media_type in _NATIVE
