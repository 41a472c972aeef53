"""The pdfium engine: fast, and able to take its process down, hence run in a worker."""

from __future__ import annotations

import ctypes
import io
import re
import threading
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from ._pdf_engines import PDFPage, encrypted
from ._pdf_layout import Box, Grid, Rule, cell_origins, column_areas, ruled_grids
from ._pdf_text import Bookmark, clean
from ._tables import render_table

_TEXT, _PATH, _IMAGE, _FORM = 1, 2, 3, 5
_WIDGET = 20
_MAX_OBJECTS = 20_000
_MAX_SEGMENTS = 2_000
_MAX_BOOKMARKS = 10_000
_MAX_IMAGE_PIXELS = 50_000_000
_MIN_IMAGE_SIDE = 8
_THIN = 2.0
_ARABIC = re.compile("[\u0600-\u06ff]")
_SWAPPED_LAM_ALEF = re.compile("[\u0622\u0623\u0625\u0627]\u0644")

_lock = threading.RLock()
"""pdfium is not thread-safe, not even on different documents."""


class PdfiumEngine:
    """An open document in pdfium. Holds the process-wide lock from opening to `close`."""

    def __init__(self, data: bytes, filename: str, password: str | None) -> None:
        import pypdfium2 as pdfium

        self._pdfium: Any = pdfium
        self._raw: Any = pdfium.raw
        _lock.acquire()
        try:
            self._document = pdfium.PdfDocument(data, password=password)
        except pdfium.PdfiumError as error:
            _lock.release()
            if getattr(error, "err_code", None) in (self._raw.FPDF_ERR_PASSWORD, self._raw.FPDF_ERR_SECURITY):
                raise encrypted(filename, password) from error
            raise
        except BaseException:
            _lock.release()
            raise

    def page_count(self) -> int:
        return len(self._document)

    def close(self) -> None:
        self._document.close()
        _lock.release()

    def bookmarks(self) -> list[Bookmark]:
        found: list[Bookmark] = []
        for entry in self._document.get_toc(max_depth=10):
            target = entry.get_dest()
            page = target.get_index() if target is not None else None
            title = " ".join(entry.get_title().split())
            if page is not None and title:
                found.append(Bookmark(entry.level + 1, title, page))
            if len(found) >= _MAX_BOOKMARKS:
                break
        return found

    def page(self, index: int, *, images: bool) -> PDFPage:
        try:
            page = self._document[index]
        except self._pdfium.PdfiumError as error:
            return PDFPage(failed=str(error))
        try:
            page = self._with_form_values(page, index)
            return self._read(page, images=images)
        except self._pdfium.PdfiumError as error:
            return PDFPage(failed=str(error))
        finally:
            page.close()

    def _with_form_values(self, page: Any, index: int) -> Any:
        """The page with the looks of its form fields drawn into it, else their text would be missing."""
        raw = self._raw
        for position in range(min(raw.FPDFPage_GetAnnotCount(page), 1_000)):
            annotation = raw.FPDFPage_GetAnnot(page, position)
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            raw.FPDFPage_CloseAnnot(annotation)
            if kind == _WIDGET and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
                page.close()
                return self._document[index]
        return page

    def _read(self, page: Any, *, images: bool) -> PDFPage:
        textpage = page.get_textpage()
        try:
            objects = list(self._objects(page))
            text = self._text(textpage, objects)
        finally:
            textpage.close()
        result = PDFPage(text=text)
        if images or not text:
            pictures = list(self._deep(page))
            result.has_images = any(kind == _IMAGE for kind, _ in pictures)
            if not text and any(kind == _TEXT for kind, _ in pictures):
                result.failed = "pdfium finds text objects but no text"
            if images:
                result.images = list(self._images(page))
        return result

    def _objects(self, page: Any) -> Iterator[tuple[int, Any]]:
        get, kind_of, handle = self._raw.FPDFPage_GetObject, self._raw.FPDFPageObj_GetType, page.raw
        for position in range(min(self._raw.FPDFPage_CountObjects(handle), _MAX_OBJECTS)):
            item = get(handle, position)
            yield kind_of(item), item

    def _deep(self, page: Any) -> Iterator[tuple[int, Any]]:
        for count, item in enumerate(page.get_objects(max_depth=5)):
            if count >= _MAX_OBJECTS:
                return
            yield item.type, item

    def _text(self, textpage: Any, objects: list[tuple[int, Any]]) -> str:
        text: str = textpage.get_text_range()
        if not text.strip():
            return ""
        if _ARABIC.search(text):
            text = self._with_lam_alef(textpage, text)
        grids = ruled_grids(*self._rules(objects)) if sum(kind == _PATH for kind, _ in objects) >= 3 else []
        if grids and (tabled := self._with_tables(textpage, text, grids)):
            return tabled
        return self._in_columns(textpage, text) or clean(text)

    def _in_columns(self, textpage: Any, text: str) -> str | None:
        count = textpage.count_rects()
        if not 6 <= count <= 5_000:
            return None
        boxes = list(self._boxes(textpage, count))

        def read(box: Box) -> str:
            return str(textpage.get_text_bounded(box.left, box.bottom, box.right, box.top))

        areas = column_areas(boxes, read)
        if not areas:
            return None
        pieces = [clean(read(area)) for area in areas]
        joined = "\n".join(piece for piece in pieces if piece)
        return joined if _letters(joined) == _letters(clean(text)) else None

    def _boxes(self, textpage: Any, count: int) -> Iterator[Box]:
        get, handle = self._raw.FPDFText_GetRect, textpage.raw
        left, top, right, bottom = (ctypes.c_double() for _ in range(4))
        places = (ctypes.byref(left), ctypes.byref(top), ctypes.byref(right), ctypes.byref(bottom))
        for index in range(count):
            if get(handle, index, *places):
                yield Box(left.value, bottom.value, right.value, top.value)

    def _with_lam_alef(self, textpage: Any, text: str) -> str:
        """pdfium turns right-to-left runs letter by letter, also the two letters of one lam-alef glyph."""
        if len(text) != textpage.count_chars():
            return text
        letters = list(text)
        for match in _SWAPPED_LAM_ALEF.finditer(text):
            first = match.start()
            if textpage.get_charbox(first) == textpage.get_charbox(first + 1):
                letters[first], letters[first + 1] = letters[first + 1], letters[first]
        return "".join(letters)

    def _rules(self, objects: list[tuple[int, Any]]) -> tuple[list[Rule], list[Rule]]:
        horizontal: list[Rule] = []
        vertical: list[Rule] = []
        for kind, item in objects:
            if kind != _PATH:
                continue
            for left, bottom, right, top in self._strokes(item):
                if top - bottom <= _THIN and right - left > 4:
                    horizontal.append(Rule((top + bottom) / 2, left, right))
                elif right - left <= _THIN and top - bottom > 4:
                    vertical.append(Rule((left + right) / 2, bottom, top))
        return horizontal, vertical

    def _strokes(self, item: Any) -> Iterator[tuple[float, float, float, float]]:
        """Boxes of the straight lines of a path: of a thin filled shape its whole box, of a drawn one each segment."""
        raw = self._raw
        left, bottom, right, top = (ctypes.c_float() for _ in range(4))
        if not raw.FPDFPageObj_GetBounds(item, left, bottom, right, top):
            return
        box = (left.value, bottom.value, right.value, top.value)
        if min(box[2] - box[0], box[3] - box[1]) <= _THIN:
            yield box
            return
        fill, stroke = ctypes.c_int(), ctypes.c_int()
        raw.FPDFPath_GetDrawMode(item, fill, stroke)
        count = raw.FPDFPath_CountSegments(item)
        if not stroke.value or count > _MAX_SEGMENTS:
            return
        yield from self._segments(item, count)

    def _segments(self, item: Any, count: int) -> Iterator[tuple[float, float, float, float]]:
        raw = self._raw
        matrix = raw.FS_MATRIX()
        raw.FPDFPageObj_GetMatrix(item, matrix)
        x, y = ctypes.c_float(), ctypes.c_float()
        start: tuple[float, float] | None = None
        last: tuple[float, float] | None = None
        for position in range(count):
            segment = raw.FPDFPath_GetPathSegment(item, position)
            raw.FPDFPathSegment_GetPoint(segment, x, y)
            point = (
                matrix.a * x.value + matrix.c * y.value + matrix.e,
                matrix.b * x.value + matrix.d * y.value + matrix.f,
            )
            kind = raw.FPDFPathSegment_GetType(segment)
            if kind == raw.FPDF_SEGMENT_MOVETO:
                start = point
            elif kind == raw.FPDF_SEGMENT_LINETO and last:
                yield _box(last, point)
            last = point
            if raw.FPDFPathSegment_GetClose(segment) and start:
                yield _box(last, start)

    def _with_tables(self, textpage: Any, text: str, grids: list[Grid]) -> str | None:
        """The text with each ruled table as Markdown in its place; None where a table cannot be told apart safely."""
        if len(text) != textpage.count_chars() or len(text) > 50_000:
            return None
        centres = self._centres(textpage, text, grids)
        pieces: list[tuple[int, int, str]] = []
        for grid in grids:
            left, bottom, right, top = grid.box
            inside = [i for i, c in enumerate(centres) if c and left <= c[0] <= right and bottom <= c[1] <= top]
            if not inside:
                continue
            first, last = inside[0], inside[-1] + 1
            strangers = sum(1 for i in range(first, last) if centres[i]) - len(inside)
            table = _table(grid, text, centres, inside)
            if table and not strangers and all(last <= a or first >= b for a, b, _ in pieces):
                pieces.append((first, last, table))
        if not pieces:
            return None
        result: list[str] = []
        position = 0
        for first, last, table in sorted(pieces):
            result += [clean(text[position:first]), table]
            position = last
        result.append(clean(text[position:]))
        return "\n\n".join(part for part in result if part)

    def _centres(self, textpage: Any, text: str, grids: list[Grid]) -> list[tuple[float, float] | None]:
        """Of each character that is drawn; None for white space and what pdfium made up.

        On a line above or below all tables the first character's stands for all, which saves most of the time.
        """
        get, handle = self._raw.FPDFText_GetCharBox, textpage.raw
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        places = (ctypes.byref(left), ctypes.byref(right), ctypes.byref(bottom), ctypes.byref(top))
        bands = [(grid.ys[-1], grid.ys[0]) for grid in grids]
        centres: list[tuple[float, float] | None] = []
        outside: tuple[float, float] | None = None
        is_first = True
        for index, char in enumerate(text):
            if char == "\n":
                outside, is_first = None, True
            if char.isspace() or char == "\ufffe":
                centres.append(None)
            elif outside:
                centres.append(outside)
            elif get(handle, index, *places):
                centre = ((left.value + right.value) / 2, (bottom.value + top.value) / 2)
                if is_first and not any(low <= centre[1] <= high for low, high in bands):
                    outside = centre
                is_first = False
                centres.append(centre)
            else:
                centres.append(None)
        return centres

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


def _box(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float, float, float]:
    return min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])


def _table(grid: Grid, text: str, centres: list[tuple[float, float] | None], inside: list[int]) -> str:
    """Markdown of the characters `inside` a grid, or "" where too few cells hold text for a table."""
    origins = cell_origins(grid)
    columns, rows_down = grid.xs[1:-1], [-y for y in grid.ys[1:-1]]
    cells: dict[tuple[int, int], list[str]] = {}
    previous: tuple[int, int] | None = None
    last = inside[0]
    for index in inside:
        x, y = centres[index] or (0.0, 0.0)
        origin = origins[bisect_left(rows_down, -y)][bisect_left(columns, x)]
        letters = cells.setdefault(origin, [])
        between = text[last + 1 : index]
        if letters and (origin != previous or between):
            letters.append(between if origin == previous else "\n")
        letters.append(text[index])
        previous, last = origin, index
    rows = [
        [" ".join(clean("".join(cells.get((r, c), ()))).split()) for c in range(len(grid.xs) - 1)]
        for r in range(len(grid.ys) - 1)
    ]
    rows = [row for row in rows if any(row)]
    filled = sum(bool(cell) for row in rows for cell in row)
    if len(rows) < 2 or filled < 4 or filled < 0.3 * len(rows) * len(rows[0]):
        return ""
    return render_table(rows, "markdown").rstrip("\n")
