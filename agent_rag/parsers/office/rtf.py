"""Rich Text Format."""

from __future__ import annotations

import base64
from typing import Any, ClassVar

from ...content import Base64Source, DataBlock
from ...documents import Section
from .. import sniff
from ..blocks import Image
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation, FileParser
from ..images.ocr import OCREngine, with_recognized_images
from ..sections import SectionWriter
from ..tables import TableFormat, check_table_format
from .rtf_reader import RTFReader


class RTFParser(FileParser):
    """Reads a document in its order, as `WordParser` does: text with headings and tables, images as own Sections.

    Metadata ``{"title": ...}`` where the document names one. Addresses of links follow their words, footnotes stand
    below their paragraph; hidden and deleted text, headers and footers are out.

    Args:
        include_image: Give PNG and JPEG images as DataBlocks.
        ocr: Recognises the text in images, which joins their caption, for example `TesseractOCR()`.
        table_format: "markdown" or "json".
        max_file_bytes: Bound on the file's size.
        isolation: Where the file is read: "auto" by its size, "process", or "none" for a thread.

    Raises: ValueError: `table_format` is unknown.
    """

    supported_media_types: ClassVar[list[str]] = [sniff.RTF, "text/rtf"]
    format_name: ClassVar[str] = "RTF document"

    def __init__(
        self,
        *,
        include_image: bool = True,
        ocr: OCREngine | None = None,
        table_format: TableFormat = "markdown",
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        check_table_format(table_format)
        self.include_image = include_image
        self.ocr = ocr
        self.table_format: TableFormat = table_format

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".rtf"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        reader = RTFReader(data)
        writer = SectionWriter(_Images(reader, filename), separate_table=False, table_format=self.table_format)
        writer.write(block for block in reader.blocks() if self.include_image or not isinstance(block, Image))
        sections = writer.finish()
        for section in sections if reader.title else []:
            section.metadata["title"] = reader.title
        return with_recognized_images(sections, self.ocr)


class _Images:
    """The images of a reader as Sections."""

    def __init__(self, reader: RTFReader, filename: str) -> None:
        self.filename = filename
        self._reader = reader

    def image(self, part: str, *, alt: str, **metadata: Any) -> Section:
        media_type, content = self._reader.images[int(part)]
        source = Base64Source(data=base64.b64encode(content).decode("ascii"), media_type=media_type)
        metadata = {**metadata, "media_type": media_type}
        return Section(content=DataBlock(source=source, caption=alt or None), source=self.filename, metadata=metadata)
