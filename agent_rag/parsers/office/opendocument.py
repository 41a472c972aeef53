"""OpenDocument text and presentations (LibreOffice, OpenOffice); its spreadsheets are read by `ExcelParser`."""

from __future__ import annotations

from typing import ClassVar

from ...documents import Section
from .. import sniff
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation, FileParser
from ..images.ocr import OCREngine, with_recognized_images
from ..sections import SectionWriter
from ..tables import TableFormat, check_table_format
from .odf import OpenDocument, TextReader
from .odf_slides import OdfSlideReader
from .ooxml import DEFAULT_MAX_INFLATED_BYTES
from .powerpoint import PPTParser


class ODTParser(FileParser):
    """Reads an OpenDocument text in its order, as `WordParser` does.

    One text Section with headings and tables, images as own Sections after the text of their paragraph; metadata
    ``{"title": ...}`` where the document names one. List markers, addresses of links and notes are kept; tracked
    deletions, comments, page headers and footers are out.

    Args:
        include_image: Give images as DataBlocks; else their alternative text stands in the text.
        separate_table: Make each table a Section of its own.
        table_format: "markdown" or "json".
        ocr: Recognises the text in images, which joins their caption, for example `TesseractOCR()`.
        max_inflated_bytes: Bound on the unpacked size.
        max_file_bytes: Bound on the file's size.
        isolation: Where the file is read: "auto" by its size, "process", or "none" for a thread.

    Raises: ValueError: `table_format` is unknown.
    """

    supported_media_types: ClassVar[list[str]] = [sniff.ODT, f"{sniff.ODT}-template"]
    format_name: ClassVar[str] = "OpenDocument text"

    def __init__(
        self,
        include_image: bool = True,
        separate_table: bool = False,
        table_format: TableFormat = "markdown",
        *,
        ocr: OCREngine | None = None,
        max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        check_table_format(table_format)
        self.include_image = include_image
        self.separate_table = separate_table
        self.table_format: TableFormat = table_format
        self.ocr = ocr
        self.max_inflated_bytes = max_inflated_bytes

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".odt", ".ott"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        package = OpenDocument(data, filename, expected=sniff.ODT, max_inflated_bytes=self.max_inflated_bytes)
        title = package.title
        metadata = {"title": title} if title else {}
        writer = SectionWriter(package, separate_table=self.separate_table, table_format=self.table_format, **metadata)
        reader = TextReader(package, include_image=self.include_image)
        writer.write(reader.body())
        sections = writer.finish()
        for section in sections[:1]:
            section.warnings = reader.left_out()
        return with_recognized_images(sections, self.ocr)


class ODPParser(PPTParser):
    """Reads an OpenDocument presentation slide by slide: options, Sections and metadata as `PPTParser`.

    Comments are not read.
    """

    supported_media_types: ClassVar[list[str]] = [sniff.ODP, f"{sniff.ODP}-template"]
    format_name: ClassVar[str] = "OpenDocument presentation"

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".odp", ".otp"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        package = OpenDocument(data, filename, expected=sniff.ODP, max_inflated_bytes=self.max_inflated_bytes)
        reader = OdfSlideReader(package, include_image=self.include_image, include_notes=self.include_notes)
        return self._read(package, reader.slides())
