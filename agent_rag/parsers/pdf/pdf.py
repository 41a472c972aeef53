"""PDF: one Section per page."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from ...content import Base64Source, DataBlock
from ...documents import Section, text_section
from ...errors import ConfigurationError, EncryptedFileError, ParseError, ParseLimitError
from ...workers import Isolation
from ..file import DEFAULT_MAX_FILE_BYTES, FileParser
from ..images.ocr import OCREngine, recognized
from .engines import PDFEngine, PDFPage, PypdfEngine
from .missing import is_readable, with_missing_lines
from .pdfium import PdfiumEngine
from .text import Bookmark, Outline, better_spaced, has_glued_words

logger = logging.getLogger(__name__)

Engine = Literal["auto", "pypdf", "pdfium"]


class PDFParser(FileParser):
    """One Section per page, blank pages too, with metadata ``{"page": n}`` from 1.

    With ``engine="auto"`` pdfium reads; a page that it fails on, finds empty although there is text, or reads without
    word spaces is tried with pypdf, and so is a document that it cannot open or that ends its process. Two columns
    of running text are read one after the other, tables drawn with lines become Markdown, outline titles become the
    heading path. Values of form fields and text typed onto the page are read where they are drawn, else below it.

    A page that is a picture without text has ``"needs_ocr": True`` and empty text, or, with `ocr`, the recognised text
    and ``"ocr_confidence"``. A page that neither engine can read has empty text and ``"error"``.

    Args:
        engine: "pdfium" or "pypdf" alone, or "auto".
        password: User or owner password.
        include_image: Also give a Section with a DataBlock for each embedded picture, ``{"page": n, "media_type"}``.
        include_comments: Add reviewers' comments below the line ``Comments:``; else their number is a warning.
        ocr: Recognises pages without text, for example `TesseractOCR()`.
        isolation: "process" reads in a worker process, since pdfium can abort it; "none" in a thread.
        max_pages: More pages raise ParseLimitError.
        max_file_bytes: More bytes raise ParseLimitError.
    """

    format_name = "PDF"
    version: ClassVar[int] = 3
    supported_media_types: ClassVar[list[str]] = ["application/pdf"]

    def __init__(
        self,
        *,
        engine: Engine = "auto",
        password: str | None = None,
        include_image: bool = False,
        include_comments: bool = False,
        ocr: OCREngine | None = None,
        isolation: Isolation = "process",
        max_pages: int = 10_000,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        ocr_dpi: int = 200,
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        if engine not in ("auto", "pypdf", "pdfium"):
            raise ConfigurationError(f"engine is {engine!r}; use 'auto', 'pypdf' or 'pdfium'")
        self.engine: Engine = engine
        self.password = password
        self.include_image = include_image
        self.include_comments = include_comments
        self.ocr = ocr
        self.max_pages = max_pages
        self.ocr_dpi = ocr_dpi

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".pdf"]

    @property
    def fallback(self) -> PDFParser | None:
        """The parser for a file on which pdfium ended its process."""
        if self.engine != "auto":
            return None
        return PDFParser(
            engine="pypdf",
            password=self.password,
            include_image=self.include_image,
            include_comments=self.include_comments,
            isolation="none" if self.isolation == "none" else "process",
            max_pages=self.max_pages,
            max_file_bytes=self.max_file_bytes,
        )

    def __repr__(self) -> str:
        return f"PDFParser(engine={self.engine!r})"

    def read(self, data: bytes, filename: str) -> list[Section]:
        if b"%PDF-" not in data[:1024] and b"%PDF-" not in data:
            raise ParseError(f"{filename}: this is no PDF; there is no %PDF header in it")
        document = _Document(data, filename, self.engine, self.password)
        try:
            return list(self._sections(document, filename))
        finally:
            document.close()

    def _sections(self, document: _Document, filename: str) -> Iterator[Section]:
        count = document.page_count()
        if count > self.max_pages:
            raise ParseLimitError(
                f"{filename}: {count:,} pages is over the limit max_pages={self.max_pages:,}; "
                "split the file, or pass PDFParser(max_pages=...)"
            )
        if not count:
            raise ParseError(f"{filename}: the PDF has no pages that can be read; is it damaged?")
        outline = Outline(document.bookmarks())
        for index in range(count):
            page = document.page(index, images=self.include_image)
            yield self._section(document, page, index, filename, outline)
            yield from self._pictures(page, index, filename)

    def _section(self, document: _Document, page: PDFPage, index: int, filename: str, outline: Outline) -> Section:
        metadata: dict[str, Any] = {"page": index + 1}
        text = page.text
        if page.failed and not text:
            logger.warning("%s: page %d cannot be read: %s", filename, index + 1, page.failed)
            metadata["error"] = page.failed[:300]
        if not text and page.has_images:
            metadata["needs_ocr"] = True
            if self.ocr is not None:
                text = self._recognised(document, index, metadata)
        if page.comments and self.include_comments:
            text = "\n".join([text, "Comments:", *page.comments])
        section = text_section(text, filename, **metadata)
        section.warnings = list(self._left_out(page, index))
        if outline:
            section.heading_path, section.headings = outline.of_page(index, text)
        return section

    def _left_out(self, page: PDFPage, index: int) -> Iterator[str]:
        if page.unread_texts:
            yield f"page {index + 1}: {page.unread_texts} piece(s) of text in fonts that no engine can read are missing"
        if page.comments and not self.include_comments:
            count = len(page.comments)
            yield f"page {index + 1}: {count} comment(s) are not read; pass PDFParser(include_comments=True)"

    def _recognised(self, document: _Document, index: int, metadata: dict[str, Any]) -> str:
        assert self.ocr is not None
        found = recognized(self.ocr, document.render(index, self.ocr_dpi))
        if found.text.strip():
            del metadata["needs_ocr"]
            metadata["ocr_confidence"] = found.confidence
        return found.text

    def _pictures(self, page: PDFPage, index: int, filename: str) -> Iterator[Section]:
        for number, (content, media_type) in enumerate(page.images, start=1):
            kind = media_type or _media_type(content)
            source = Base64Source(data=base64.b64encode(content).decode("ascii"), media_type=kind)
            name = f"page-{index + 1}-image-{number}.{kind.rpartition('/')[2]}"
            yield Section(
                content=DataBlock(source=source, name=name),
                source=filename,
                metadata={"page": index + 1, "media_type": kind},
            )


class _Document:
    """A PDF in the engine of choice, with the other one at hand for what the first cannot read."""

    def __init__(self, data: bytes, filename: str, engine: Engine, password: str | None) -> None:
        self._data, self._filename, self._password = data, filename, password
        self._is_auto = engine == "auto"
        self._second: PypdfEngine | None = None
        self._second_failed = False
        self._pdfium: PdfiumEngine | None = None
        self._first: PDFEngine = self._opened(engine)

    def _opened(self, engine: Engine) -> PDFEngine:
        if engine == "pypdf":
            return PypdfEngine(self._data, self._filename, self._password)
        try:
            self._pdfium = PdfiumEngine(self._data, self._filename, self._password)
        except MemoryError:
            raise
        except Exception as error:
            if engine == "pdfium":
                raise
            return self._opened_by_pypdf(error)
        return self._pdfium

    def _opened_by_pypdf(self, reason: Exception) -> PDFEngine:
        try:
            engine = PypdfEngine(self._data, self._filename, self._password)
            engine.page_count()
        except EncryptedFileError:
            raise
        except Exception as error:
            raise reason from error
        logger.warning("%s: read with pypdf, since pdfium cannot open it: %s", self._filename, reason)
        return engine

    def page_count(self) -> int:
        return self._first.page_count()

    def bookmarks(self) -> list[Bookmark]:
        return self._first.bookmarks()

    def page(self, index: int, *, images: bool) -> PDFPage:
        page = self._first.page(index, images=images)
        if not self._is_auto or self._first is not self._pdfium:
            return page
        glued = has_glued_words(page.text)
        if not page.failed and not glued and not page.unread_texts:
            return page
        other = self._by_pypdf(index)
        if other is None:
            return page
        if better_spaced(other.text, page.text) if glued else page.failed and is_readable(other.text):
            page.text, page.failed, page.unread_texts = other.text, "", 0
        elif page.unread_texts:
            text = with_missing_lines(page.text, other.text)
            page.text, page.unread_texts = text, page.unread_texts if text == page.text else 0
        return page

    def _by_pypdf(self, index: int) -> PDFPage | None:
        if self._second is None and not self._second_failed:
            try:
                self._second = PypdfEngine(self._data, self._filename, self._password)
            except MemoryError:
                raise
            except Exception as error:
                self._second_failed = True
                logger.debug("%s: pypdf cannot open it either: %s", self._filename, error)
        return self._second.page(index, images=False) if self._second else None

    def render(self, index: int, dpi: int) -> bytes:
        if self._pdfium is None:
            self._pdfium = PdfiumEngine(self._data, self._filename, self._password)
        return self._pdfium.render(index, dpi)

    def close(self) -> None:
        for engine in {id(e): e for e in (self._first, self._pdfium, self._second) if e is not None}.values():
            engine.close()


def _media_type(content: bytes) -> str:
    from ..sniff import detect

    found = detect(content).media_type
    return found if found.startswith("image/") else "application/octet-stream"
