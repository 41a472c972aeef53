"""The pdfium engine: fast, and able to take its process down, hence run in a worker."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

from .annotations import Annotations, read_annotations, with_missing
from .engines import PDFPage, encrypted
from .ffi import FastPdfium, address
from .layout import MAX_BOXES, Box, column_areas, may_have_columns, ruled_grids
from .rtl import in_reading_order, is_right_to_left
from .stacked import may_be_stacked, unstacked
from .tables import with_tables
from .text import Bookmark, clean

_TEXT, _IMAGE = 1, 3
_MAX_OBJECTS = 20_000
_MAX_IMAGE_PIXELS = 50_000_000
_MIN_IMAGE_SIDE = 8
_MIN_RULES = 3

_lock = threading.RLock()
"""pdfium is not thread-safe, not even on different documents."""


class PdfiumEngine:
    """An open document in pdfium. Holds the process-wide lock from opening to `close`."""

    def __init__(self, data: bytes, filename: str, password: str | None) -> None:
        import pypdfium2 as pdfium

        self._pdfium: Any = pdfium
        self._raw: Any = pdfium.raw
        self._fast = _fast_pdfium()
        _lock.acquire()
        try:
            self._document = self._opened(data, filename, password)
            self._document.init_forms()
        except BaseException:
            _lock.release()
            raise

    def _opened(self, data: bytes, filename: str, password: str | None) -> Any:
        try:
            return self._pdfium.PdfDocument(data, password=password)
        except self._pdfium.PdfiumError as error:
            locked = getattr(error, "err_code", None) in (self._raw.FPDF_ERR_PASSWORD, self._raw.FPDF_ERR_SECURITY)
            if locked:
                self._forget_error()
            if locked and b"/Encrypt" in data:
                raise encrypted(filename, password) from error
            raise

    def _forget_error(self) -> None:
        """pdfium keeps its last error until the next one, and some failures set none: they would be called the same."""
        with suppress(self._pdfium.PdfiumError):
            self._pdfium.PdfDocument(b"no PDF")

    def page_count(self) -> int:
        return len(self._document)

    def close(self) -> None:
        self._document.close()
        _lock.release()

    def bookmarks(self) -> list[Bookmark]:
        return self._fast.bookmarks(address(self._document.raw))

    def page(self, index: int, *, images: bool) -> PDFPage:
        try:
            page = self._document[index]
        except self._pdfium.PdfiumError as error:
            return PDFPage(failed=str(error))
        try:
            over = self._annotations(page)
            if over.to_draw:
                page = self._with_drawn_annotations(page, index)
            result = self._read(page, images=images)
        except self._pdfium.PdfiumError as error:
            return PDFPage(failed=str(error))
        finally:
            page.close()
        result.text = with_missing(result.text, over)
        result.failed = "" if result.text else result.failed
        result.comments = over.comments
        return result

    def _annotations(self, page: Any) -> Annotations:
        if not self._fast.has_annotations(address(page.raw)):
            return Annotations()
        return read_annotations(self._raw, self._document.formenv, page)

    def _with_drawn_annotations(self, page: Any, index: int) -> Any:
        """The page with the looks of its form fields and typed text drawn into it, else their text would be missing."""
        raw = self._raw
        if raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
            return page
        page.close()
        return self._document[index]

    def _read(self, page: Any, *, images: bool) -> PDFPage:
        textpage = page.get_textpage()
        try:
            read, has_char_boxes = self._fast.text(address(textpage.raw))
            unread = self._fast.unread_texts(address(page.raw), address(textpage.raw), read)
            text = self._text(textpage, page, read, has_char_boxes)
        finally:
            textpage.close()
        result = PDFPage(text=text, unread_texts=unread)
        if images or not text:
            pictures = list(self._deep(page))
            result.has_images = any(kind == _IMAGE for kind, _ in pictures)
            if not text and any(kind == _TEXT for kind, _ in pictures):
                result.failed = "pdfium finds text objects but no text"
            if images:
                result.images = list(self._images(page))
        return result

    def _deep(self, page: Any) -> Iterator[tuple[int, Any]]:
        for count, item in enumerate(page.get_objects(max_depth=5)):
            if count >= _MAX_OBJECTS:
                return
            yield item.type, item

    def _text(self, textpage: Any, page: Any, text: str, has_char_boxes: bool) -> str:
        handle = address(textpage.raw)
        if not text or text.isspace():
            return ""
        if has_char_boxes and is_right_to_left(text):
            text = in_reading_order(text, partial(self._fast.char_box, handle))
        paths = self._fast.paths(address(page.raw))
        if has_char_boxes and len(paths) >= _MIN_RULES and (grids := ruled_grids(*self._fast.rules(paths))):
            tabled = with_tables(text, grids, partial(self._fast.char_centre, handle))
            if tabled:
                return tabled
        boxes = self._boxes(handle)
        if in_columns := self._in_columns(handle, text, boxes):
            return in_columns
        if has_char_boxes and may_be_stacked(boxes):
            text = unstacked(text, partial(self._fast.char_box, handle), partial(self._fast.is_upright, handle))
        return clean(text)

    def _boxes(self, textpage: int) -> list[Box]:
        """Of the pieces of text in the engine's order; none where there are too many to look at."""
        count = self._fast.count_rects(textpage)
        return self._fast.rects(textpage, count) if count <= MAX_BOXES else []

    def _in_columns(self, textpage: int, text: str, boxes: list[Box]) -> str | None:
        if not may_have_columns(text, len(boxes)):
            return None

        def read(box: Box) -> str:
            return self._fast.text_in(textpage, box, len(text) + 2)

        areas = column_areas(boxes, read)
        if not areas:
            return None
        pieces = [clean(read(area)) for area in areas]
        joined = "\n".join(piece for piece in pieces if piece)
        return joined if _letters(joined) == _letters(clean(text)) else None

    def _images(self, page: Any) -> Iterator[tuple[bytes, str]]:
        seen: set[bytes] = set()
        for kind, item in self._deep(page):
            if kind != _IMAGE:
                continue
            width, height = item.get_px_size()
            if min(width, height) < _MIN_IMAGE_SIDE or width * height > _MAX_IMAGE_PIXELS:
                continue
            content, media_type = self._image(item)
            if content and content not in seen:
                seen.add(content)
                yield content, media_type

    def _image(self, item: Any) -> tuple[bytes, str]:
        filters = item.get_filters()
        buffer = io.BytesIO()
        if filters == ["DCTDecode"] and item.get_metadata().colorspace != self._raw.FPDF_COLORSPACE_DEVICECMYK:
            return bytes(item.get_data(decode_simple=False)), "image/jpeg"
        picture = item.get_bitmap().to_pil()
        picture.convert("RGB" if picture.mode not in ("L", "RGB", "RGBA") else picture.mode).save(buffer, "PNG")
        return buffer.getvalue(), "image/png"

    def render(self, index: int, dpi: int) -> bytes:
        """The page as PNG, for text recognition."""
        page = self._document[index]
        try:
            width, height = page.get_size()
            scale = min(dpi / 72, (_MAX_IMAGE_PIXELS / max(1.0, width * height)) ** 0.5)
            picture = page.render(scale=scale, grayscale=True).to_pil()
        finally:
            page.close()
        buffer = io.BytesIO()
        picture.save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()


def _letters(text: str) -> list[str]:
    return sorted("".join(text.split()))


@cache
def _fast_pdfium() -> FastPdfium:
    import pypdfium2

    return FastPdfium(pypdfium2.raw)
