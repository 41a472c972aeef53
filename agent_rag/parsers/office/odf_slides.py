"""The slides of an OpenDocument presentation, in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..blocks import Block, Image, Paragraph, Table
from .odf import DRAW, OFFICE, PRESENTATION, STYLE, SVG, OpenDocument, TextReader, plain_lines
from .ooxml import Element, forget
from .reading_order import Box, in_reading_order
from .slides import Item, Picture, Slide, SlideTable, Text, Title

_LENGTH = re.compile(r"(-?\d+(?:\.\d+)?)(cm|mm|in|pt|pc|px)?$")
_POINTS = {"cm": 28.35, "mm": 2.835, "in": 72.0, "pt": 1.0, "pc": 12.0, "px": 0.75, "": 1.0}
_PLACE = ("x", "y", "width", "height")
_FURNITURE = frozenset(["page-number", "header", "footer", "date-time", "page"])


class OdfSlideReader:
    """Reads the pages of a presentation one by one.

    Args:
        include_image: Give images as items; else their alternative text stands in the text.
        include_notes: Add the speaker's notes.
    """

    def __init__(self, package: OpenDocument, *, include_image: bool, include_notes: bool) -> None:
        self._package = package
        self._text = TextReader(package, include_image=include_image)
        self._include_notes = include_notes
        self._hidden: set[str] = set()

    def slides(self) -> Iterator[Slide]:
        number = 0
        for element in self._package.stream(f"{DRAW}page", f"{STYLE}style"):
            if element.tag == f"{STYLE}style":
                self._note_hidden(element)
                continue
            parent = element.getparent()
            if parent is None or parent.tag != f"{OFFICE}presentation":
                continue
            number += 1
            yield self._slide(element, number)
            forget(element)

    def _note_hidden(self, style: Element) -> None:
        properties = style.find(f"{STYLE}drawing-page-properties")
        if properties is not None and properties.get(f"{PRESENTATION}visibility") == "hidden":
            self._hidden.add(style.get(f"{STYLE}name", ""))

    def _slide(self, page: Element, number: int) -> Slide:
        slide = Slide(number, hidden=page.get(f"{DRAW}style-name", "") in self._hidden)
        boxes = list(self._boxes(page))
        titles = [item for box in boxes for item in box.item if isinstance(item, Title)]
        ordered = [item for box in in_reading_order(boxes) for item in box.item if not isinstance(item, Title)]
        slide.items = [*titles, *ordered, *(self._notes(page) if self._include_notes else [])]
        return slide

    def _boxes(self, container: Element) -> Iterator[Box[list[Item]]]:
        for shape in container:
            if not isinstance(shape.tag, str) or not shape.tag.startswith(DRAW):
                continue
            if shape.get(f"{PRESENTATION}class") in _FURNITURE:
                continue
            if shape.tag in (f"{DRAW}g", f"{DRAW}a"):
                inside = in_reading_order(list(self._boxes(shape)))
                if inside:
                    yield _around(inside)
                continue
            if items := self._items(shape):
                left, top, width, height = (_points(shape.get(f"{SVG}{name}")) for name in _PLACE)
                yield Box(left, top, width, height, items)

    def _items(self, shape: Element) -> list[Item]:
        blocks = list(self._text.block(shape))
        if shape.get(f"{PRESENTATION}class") == "title" and (lines := plain_lines(blocks)):
            return [Title(" ".join(" ".join(lines).split()))]
        items: list[Item] = []
        for block in blocks:
            match block:
                case Paragraph() if block.text:
                    _add_line(items, block.text)
                case Table():
                    items.append(SlideTable(block.rows))
                case Image():
                    items.append(Picture(block.part, block.alt))
        return items

    def _notes(self, page: Element) -> list[Item]:
        lines: list[str] = []
        for notes in page.findall(f"{PRESENTATION}notes"):
            blocks: list[Block] = []
            for shape in notes:
                if isinstance(shape.tag, str) and shape.get(f"{PRESENTATION}class") not in _FURNITURE:
                    blocks += self._text.block(shape)
            lines += plain_lines(blocks)
        return [Text("\n".join(["Notes:", *lines]))] if lines else []


def _add_line(items: list[Item], text: str) -> None:
    if items and isinstance(items[-1], Text):
        items[-1].text += f"\n{text}"
    else:
        items.append(Text(text))


def _around(boxes: list[Box[list[Item]]]) -> Box[list[Item]]:
    left, top = min(box.left for box in boxes), min(box.top for box in boxes)
    right, bottom = max(box.left + box.width for box in boxes), max(box.top + box.height for box in boxes)
    return Box(left, top, right - left, bottom - top, [item for box in boxes for item in box.item])


def _points(length: str | None) -> float:
    found = _LENGTH.match(length or "")
    return float(found[1]) * _POINTS[found[2] or ""] if found else 0.0
