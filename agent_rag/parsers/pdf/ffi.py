"""The functions of pdfium that are called once per object, line or letter, without ctypes' pointer objects.

Handles are plain addresses, and the interpreter lock is kept during a call: that takes a fifth of the time of the same
call through `pypdfium2.raw`, and each of them is over in less than a microsecond.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from .layout import Box, Rule
from .text import Bookmark

_TEXT, _PATH, _FORM = 1, 2, 5
_LINE_TO, _MOVE_TO = 0, 2
_MAX_OBJECTS = 20_000
_MAX_SEGMENTS = 2_000
_MAX_BOOKMARKS = 10_000
_MAX_OUTLINE_DEPTH = 10
_WORD = re.compile(r"\S+")
_LEVEL = 0.1
"""Radians."""
_THIN = 2.0
"""Points; a filled shape that is thinner is a line."""

_P, _I, _D = ctypes.c_void_p, ctypes.c_int, ctypes.c_double
_STDCALL = os.name == "nt" and ctypes.sizeof(ctypes.c_void_p) == 4


def address(handle: Any) -> int:
    """Of what `pypdfium2.raw` gives as a pointer."""
    return ctypes.cast(handle, _P).value or 0


def _fast(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    if _STDCALL:
        function.argtypes, function.restype = arguments, result
        return function  # type: ignore[no-any-return]
    return ctypes.PYFUNCTYPE(result, *arguments)(address(function))


class FastPdfium:
    """Bound to one library; holds buffers, so only one thread at a time may use it."""

    def __init__(self, raw: Any) -> None:
        self._floats = (ctypes.c_float * 6)()
        self._doubles = (ctypes.c_double * 4)()
        self._ints = (ctypes.c_int * 2)()
        self._float_at = [ctypes.addressof(self._floats) + 4 * i for i in range(6)]
        self._double_at = [ctypes.addressof(self._doubles) + 8 * i for i in range(4)]
        self._int_at = [ctypes.addressof(self._ints) + 4 * i for i in range(2)]
        self._count_objects = _fast(raw.FPDFPage_CountObjects, _I, _P)
        self._object = _fast(raw.FPDFPage_GetObject, _P, _P, _I)
        self._kind = _fast(raw.FPDFPageObj_GetType, _I, _P)
        self._bounds = _fast(raw.FPDFPageObj_GetBounds, _I, _P, _P, _P, _P, _P)
        self._matrix = _fast(raw.FPDFPageObj_GetMatrix, _I, _P, _P)
        self._draw_mode = _fast(raw.FPDFPath_GetDrawMode, _I, _P, _P, _P)
        self._count_segments = _fast(raw.FPDFPath_CountSegments, _I, _P)
        self._segment = _fast(raw.FPDFPath_GetPathSegment, _P, _P, _I)
        self._point = _fast(raw.FPDFPathSegment_GetPoint, _I, _P, _P, _P)
        self._segment_kind = _fast(raw.FPDFPathSegment_GetType, _I, _P)
        self._closes = _fast(raw.FPDFPathSegment_GetClose, _I, _P)
        self._count_chars = _fast(raw.FPDFText_CountChars, _I, _P)
        self._text = _fast(raw.FPDFText_GetText, _I, _P, _I, _I, _P)
        self._count_rects = _fast(raw.FPDFText_CountRects, _I, _P, _I, _I)
        self._rect = _fast(raw.FPDFText_GetRect, _I, _P, _I, _P, _P, _P, _P)
        self._char_box = _fast(raw.FPDFText_GetCharBox, _I, _P, _I, _P, _P, _P, _P)
        self._bounded_text = _fast(raw.FPDFText_GetBoundedText, _I, _P, _D, _D, _D, _D, _P, _I)
        self._first_bookmark = _fast(raw.FPDFBookmark_GetFirstChild, _P, _P, _P)
        self._next_bookmark = _fast(raw.FPDFBookmark_GetNextSibling, _P, _P, _P)
        self._bookmark_title = _fast(raw.FPDFBookmark_GetTitle, ctypes.c_ulong, _P, _P, ctypes.c_ulong)
        self._bookmark_target = _fast(raw.FPDFBookmark_GetDest, _P, _P, _P)
        self._target_page = _fast(raw.FPDFDest_GetDestPageIndex, _I, _P, _P)
        self._count_annotations = _fast(raw.FPDFPage_GetAnnotCount, _I, _P)
        self._char_angle = _fast(raw.FPDFText_GetCharAngle, ctypes.c_float, _P, _I)
        self._char_object = _fast(raw.FPDFText_GetTextObject, _P, _P, _I)
        self._char_at = _fast(raw.FPDFText_GetCharIndexAtPos, _I, _P, _D, _D, _D, _D)
        self._count_inner = _fast(raw.FPDFFormObj_CountObjects, _I, _P)
        self._inner = _fast(raw.FPDFFormObj_GetObject, _P, _P, ctypes.c_ulong)

    def bookmarks(self, document: int) -> list[Bookmark]:
        """Those with a title and a page, in the order of the outline; a loop in it ends there."""
        found: list[Bookmark] = []
        seen: set[int] = set()
        above: list[int] = []
        entry = self._first_bookmark(document, None)
        while len(found) < _MAX_BOOKMARKS:
            if not entry or entry in seen:
                if not above:
                    break
                entry = self._next_bookmark(document, above.pop())
                continue
            seen.add(entry)
            title, target = self._title(entry), self._bookmark_target(document, entry)
            page = self._target_page(document, target) if target else -1
            if title and page >= 0:
                found.append(Bookmark(len(above) + 1, title, page))
            above.append(entry)
            entry = self._first_bookmark(document, entry) if len(above) < _MAX_OUTLINE_DEPTH else None
        return found

    def _title(self, bookmark: int) -> str:
        size = self._bookmark_title(bookmark, None, 0)
        buffer = ctypes.create_string_buffer(size)
        self._bookmark_title(bookmark, ctypes.addressof(buffer), size)
        return " ".join(buffer.raw.decode("utf-16-le", "ignore").rstrip("\0").split())

    def has_annotations(self, page: int) -> bool:
        return bool(self._count_annotations(page) > 0)

    def text(self, textpage: int) -> tuple[str, bool]:
        """All text, and whether it has one character for each that `char_box` knows."""
        count = self._count_chars(textpage)
        if count <= 0:
            return "", False
        buffer = ctypes.create_string_buffer(2 * count + 64)
        size = self._text(textpage, 0, count, ctypes.addressof(buffer))
        text = buffer.raw[: 2 * max(0, size - 1)].decode("utf-16-le", "ignore")
        return text, len(text) == count

    def count_rects(self, textpage: int) -> int:
        """How many pieces of text there are; each lies on one line."""
        return int(self._count_rects(textpage, 0, -1))

    def rects(self, textpage: int, count: int) -> list[Box]:
        """The first `count` of those that `count_rects` counted, in the engine's order."""
        get, values, new = self._rect, self._doubles, Box._make
        left, bottom, right, top = self._double_at  # so that they lie in memory as in a Box
        return [new(values[:]) for index in range(count) if get(textpage, index, left, top, right, bottom)]

    def char_box(self, textpage: int, index: int) -> Box | None:
        left, bottom, right, top = self._double_at
        return Box._make(self._doubles[:]) if self._char_box(textpage, index, left, right, bottom, top) else None

    def char_centre(self, textpage: int, index: int) -> tuple[float, float] | None:
        left, bottom, right, top = self._double_at
        if not self._char_box(textpage, index, left, right, bottom, top):
            return None
        x0, y0, x1, y1 = self._doubles[:]
        return (x0 + x1) / 2, (y0 + y1) / 2

    def is_upright(self, textpage: int, index: int) -> bool:
        """Whether the character at an index stands on a level line."""
        return bool(abs(self._char_angle(textpage, index)) < _LEVEL)

    def unread_texts(self, page: int, textpage: int, text: str) -> int:
        """How many visible pieces of text on the page gave no character at all.

        Args: text: What `text` returned.
        """
        pieces = set(self._text_objects(page))
        of_char, count = self._char_object, self._count_chars(textpage)
        if len(text) == count:  # most pieces begin or end a word, which spares asking for every character
            pieces.difference_update([of_char(textpage, word.start()) for word in _WORD.finditer(text)])
            if pieces:
                pieces.difference_update([of_char(textpage, word.end() - 1) for word in _WORD.finditer(text)])
        pieces = {item for item in pieces if self._is_blank(item, textpage)}
        if pieces:
            pieces.difference_update([of_char(textpage, index) for index in range(count)])
        return len(pieces)

    def _text_objects(self, page: int) -> Iterator[int]:
        get, kind = self._object, self._kind
        for position in range(min(self._count_objects(page), _MAX_OBJECTS)):
            item = get(page, position)
            if kind(item) == _TEXT:
                yield item
            elif kind(item) == _FORM:
                inner = (self._inner(item, index) for index in range(min(self._count_inner(item), _MAX_SEGMENTS)))
                yield from (found for found in inner if kind(found) == _TEXT)

    def _is_blank(self, item: int, textpage: int) -> bool:
        """Whether a piece of text covers some of the page and no character stands there."""
        if not self._bounds(item, *self._float_at[:4]):
            return False
        left, bottom, right, top = self._floats[:4]
        width, height = right - left, top - bottom
        if width <= 1 or height <= 1:
            return False
        return bool(self._char_at(textpage, left + width / 2, bottom + height / 2, width / 2, height / 2) < 0)

    def text_in(self, textpage: int, box: Box, size: int) -> str:
        """Args: size: UTF-16 units that suffice for the whole page."""
        buffer = ctypes.create_string_buffer(2 * size + 2)
        where = (box.left, box.top, box.right, box.bottom)
        count = self._bounded_text(textpage, *where, ctypes.addressof(buffer), size)
        return buffer.raw[: 2 * count].decode("utf-16-le", "ignore").rstrip("\0")

    def paths(self, page: int) -> list[int]:
        """Of the lines and shapes that the page draws itself."""
        get, kind = self._object, self._kind
        count = min(self._count_objects(page), _MAX_OBJECTS)
        return [item for position in range(count) if kind(item := get(page, position)) == _PATH]

    def rules(self, paths: list[int]) -> tuple[list[Rule], list[Rule]]:
        """The horizontal and the vertical lines among them."""
        horizontal: list[Rule] = []
        vertical: list[Rule] = []
        for item in paths:
            for left, bottom, right, top in self._strokes(item):
                if top - bottom <= _THIN and right - left > 4:
                    horizontal.append(Rule((top + bottom) / 2, left, right))
                elif right - left <= _THIN and top - bottom > 4:
                    vertical.append(Rule((left + right) / 2, bottom, top))
        return horizontal, vertical

    def _strokes(self, item: int) -> Iterator[Box]:
        """Boxes of the straight lines of a path: of a thin filled shape its whole box, of a drawn one each segment."""
        if not self._bounds(item, *self._float_at[:4]):
            return
        left, bottom, right, top = self._floats[:4]
        if right - left <= _THIN or top - bottom <= _THIN:
            yield Box(left, bottom, right, top)
            return
        self._draw_mode(item, *self._int_at)
        count = self._count_segments(item)
        if self._ints[1] and count <= _MAX_SEGMENTS:
            yield from self._segments(item, count)

    def _segments(self, item: int, count: int) -> Iterator[Box]:
        self._matrix(item, self._float_at[0])
        a, b, c, d, e, f = self._floats
        start: tuple[float, float] | None = None
        last: tuple[float, float] | None = None
        for position in range(count):
            segment = self._segment(item, position)
            self._point(segment, *self._float_at[:2])
            x, y = self._floats[:2]
            point = (a * x + c * y + e, b * x + d * y + f)
            kind = self._segment_kind(segment)
            if kind == _MOVE_TO:
                start = point
            elif kind == _LINE_TO and last:
                yield _box(last, point)
            last = point
            if self._closes(segment) and start:
                yield _box(last, start)


def _box(a: tuple[float, float], b: tuple[float, float]) -> Box:
    return Box(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1]))
