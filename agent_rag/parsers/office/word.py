"""Word documents (.docx and its macro and template variants)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ...documents import Section
from .. import sniff
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation, FileParser
from ..images.ocr import OCREngine, with_recognized_images
from ..sections import SectionWriter
from ..tables import TableFormat, check_table_format
from .ooxml import DEFAULT_MAX_INFLATED_BYTES, Element, Package, W
from .word_document import DocumentReader
from .word_embedded import embedded_blocks


class WordParser(FileParser):
    """Reads a Word document in its order.

    Paragraphs and, by default, tables are merged into one text Section; an image is a Section of its own
    (`{"media_type": ...}`, its alternative text as caption) after the text of its paragraph. Headings are written as
    ``## Title`` and recorded in `Section.headings`, list items get their marker, the addresses of links stand at the
    end of the paragraph, notes below it. Tracked insertions are kept, deletions dropped.

    Args:
        include_image: Give images as DataBlocks; else their alternative text stands in the text.
        separate_table: Make each table a Section of its own.
        table_format: "markdown" or "json".
        include_headers_footers: Give page headers (first) and footers (last) as Sections with `{"part": "header"}`
            and `{"part": "footer"}`.
        include_footnotes: Write foot- and endnotes below the paragraph that refers to them.
        include_comments: Write reviewers' comments below the paragraph that they belong to.
        ocr: Recognises the text in images, which joins their caption, for example `TesseractOCR()`.
        max_inflated_bytes: Bound on the unpacked size.
        max_file_bytes: Bound on the file's size.
        isolation: Where the file is read: "auto" by its size, "process", or "none" for a thread.

    Raises: ValueError: `table_format` is unknown.
    """

    supported_media_types: ClassVar[list[str]] = [
        sniff.DOCX,
        "application/vnd.ms-word.document.macroenabled.12",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.template",
        "application/vnd.ms-word.template.macroenabled.12",
    ]
    format_name: ClassVar[str] = "Word document"
    version: ClassVar[int] = 3

    def __init__(
        self,
        include_image: bool = True,
        separate_table: bool = False,
        table_format: TableFormat = "markdown",
        *,
        include_headers_footers: bool = False,
        include_footnotes: bool = True,
        include_comments: bool = False,
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
        self.include_headers_footers = include_headers_footers
        self.include_footnotes = include_footnotes
        self.include_comments = include_comments
        self.ocr = ocr
        self.max_inflated_bytes = max_inflated_bytes

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".docm", ".docx", ".dotm", ".dotx"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        package = Package(data, filename, expected=sniff.DOCX, max_inflated_bytes=self.max_inflated_bytes)
        reader = DocumentReader(
            package,
            include_image=self.include_image,
            include_notes=self.include_footnotes,
            include_comments=self.include_comments,
            table_format=self.table_format,
            embedded=embedded_blocks,
        )
        body = SectionWriter(package, separate_table=self.separate_table, table_format=self.table_format)
        body.write(reader.body())
        sections = body.finish()
        if self.include_headers_footers:
            headers, footers = (self._margins(package, reader, kind) for kind in ("header", "footer"))
            sections = [*headers, *sections, *footers]
        for section in sections[:1]:
            section.warnings = list(self._left_out(package))
        return with_recognized_images(sections, self.ocr)

    def _left_out(self, package: Package) -> Iterator[str]:
        """What kinds of text the options leave out, and the option that reads them."""
        kinds = (
            (self.include_headers_footers, "page headers and footers", ("header", "footer"), "include_headers_footers"),
            (self.include_footnotes, "foot- and endnotes", ("footnotes", "endnotes"), "include_footnotes"),
            (self.include_comments, "comments", ("comments",), "include_comments"),
        )
        for is_read, what, relationships, option in kinds:
            parts = [part for kind in relationships for part in package.related(package.main_part, kind)]
            if not is_read and any(_says_something(package.xml(part)) for part in parts):
                yield f"{what} are not read; pass WordParser({option}=True)"

    def _margins(self, package: Package, reader: DocumentReader, kind: str) -> list[Section]:
        """Each different header or footer once."""
        sections: list[Section] = []
        for part in package.related(package.main_part, kind):
            writer = SectionWriter(package, separate_table=False, table_format=self.table_format, part=kind)
            writer.write(reader.part(part))
            sections += [section for section in writer.finish() if section not in sections]
        return sections


def _says_something(part: Element) -> bool:
    """Whether there is text in a header, footer or among notes, page numbers aside."""
    return any((text.text or "").strip(" .-|0123456789") for text in part.iter(f"{W}t"))
