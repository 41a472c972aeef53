"""XML: the text of its elements, with their names."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ...documents import Section
from ...errors import ParseError
from ..headings import Headings
from ..web.html import strip_tags
from .plain import DecodingParser, one_section

Element = Any
"""An lxml element; lxml ships no types."""

_DECLARATION = re.compile(r"\s*<\?xml\b[^>]*\?>")
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w:.-]+)""")
_HEADING_DEPTH = 3
_BATCH = 8_192
_MAX_INDENT = 20
_PIECE = 64 * 1024


class XMLParser(DecodingParser):
    """An outline with one line per element: indented name, attributes, text.

    One Section, metadata ``{"format": "xml"}``. Elements that hold elements are headings down to the third level, so a
    chunk knows the path above it. Text with inline markup stays one line. External entities are not read, and entities
    that expand without end are an error. Markup that is broken or nested beyond libxml2's 256 levels leaves the text
    between the tags.
    """

    format_name = "XML"
    supported_media_types: ClassVar[list[str]] = ["application/xml", "text/xml", "image/svg+xml"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".atom", ".rss", ".svg", ".xml", ".xsd", ".xsl"]

    def declared_charset(self, data: bytes) -> str | None:
        found = _ENCODING.search(data[:200])
        return found[1].decode("ascii") if found else None

    def read_text(self, text: str, filename: str) -> list[Section]:
        outline = _outline(text, filename)
        if outline is None:
            return one_section(strip_tags(text), filename, [], format="xml")
        return one_section("\n".join(outline.lines), filename, outline.headings.found, format="xml")


def _outline(text: str, filename: str) -> _Outline | None:
    """None where only the text between the tags can be saved."""
    from lxml import etree

    declaration = _DECLARATION.match(text)
    start = declaration.end() if declaration else len(text) - len(text.lstrip())
    parser = etree.XMLPullParser(
        events=("start", "end"),
        encoding="utf-8",
        resolve_entities="internal",
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    outline = _Outline()
    try:
        for position in range(start, len(text), _PIECE):
            parser.feed(text[position : position + _PIECE].encode("utf-8", "replace"))
            outline.take(parser.read_events())
        parser.close()
        outline.take(parser.read_events())
    except etree.XMLSyntaxError as error:
        if "<!ENTITY" in text and ("amplification" in str(error) or "ntity" in str(error)):
            raise ParseError(f"{filename}: its entities expand without bound or are undefined ({error})") from error
        if not re.search(r"<[A-Za-z_]", text):
            raise ParseError(f"{filename}: this is no XML ({error})") from error
        return None
    return outline


class _Frame:
    """An open element."""

    __slots__ = ("element", "has_children", "is_written")

    def __init__(self, element: Element) -> None:
        self.element = element
        self.has_children = False
        self.is_written = False


class _Outline:
    """Lines written while the file is parsed; elements are freed as soon as their line stands."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.headings = Headings()
        self._joined = 0
        """So many of the lines are thousands of lines in one text each: short ones take ten times their size."""
        self._offset = 0
        self._open: list[_Frame] = []
        self._mixed = 0
        """Depth inside an element of running text with markup, which is written as one line at its end."""

    def take(self, events: Any) -> None:
        for event, element in events:
            if not isinstance(element.tag, str):
                continue
            if event == "start":
                self._start(element)
            else:
                self._end(element)

    def _start(self, element: Element) -> None:
        if self._mixed:
            self._mixed += 1
            return
        if self._open:
            parent = self._open[-1]
            if not parent.has_children and _has_text(parent.element.text):
                self._mixed = 1
                return
            self._stray_text(element.getprevious())
            parent.has_children = True
        self._open.append(_Frame(element))

    def _end(self, element: Element) -> None:
        if self._mixed:
            self._mixed -= 1
            return
        frame = self._open[-1]
        if frame.has_children:
            self._stray_text(element[-1] if len(element) else None)
            self._open.pop()
        else:
            self._open.pop()
            text = " ".join("".join(element.itertext()).split())
            if text or element.attrib:
                self._write_parents()
                label = _label(element)
                self._line(f"{label}: {text}" if text else label, len(self._open))
        self._free(element)

    def _stray_text(self, child: Element | None) -> None:
        """Text behind a child whose line is already written."""
        if child is not None and _has_text(child.tail):
            self._write_parents()
            self._line(" ".join(child.tail.split()), len(self._open))
            child.tail = None

    def _free(self, element: Element) -> None:
        tail = element.tail
        element.clear()
        element.tail = tail
        while (before := element.getprevious()) is not None:
            element.getparent().remove(before)

    def _write_parents(self) -> None:
        for depth, frame in enumerate(self._open):
            if frame.is_written:
                continue
            frame.is_written = True
            label = _label(frame.element)
            if depth < _HEADING_DEPTH:
                self.headings.add(depth + 1, label[:200], self._offset)
            self._line(label, depth)

    def _line(self, text: str, depth: int) -> None:
        line = "  " * min(depth, _MAX_INDENT) + text
        self.lines.append(line)
        self._offset += len(line) + 1
        if len(self.lines) - self._joined > _BATCH:
            self.lines[self._joined :] = ["\n".join(self.lines[self._joined :])]
            self._joined += 1


def _label(element: Element) -> str:
    name = _local(element.tag)
    if not element.attrib:
        return name
    attributes = (f"{_local(key)}={' '.join(value.split())}" for key, value in element.attrib.items() if value.strip())
    return " ".join([name, *attributes])


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _has_text(text: str | None) -> bool:
    return text is not None and not text.isspace() and text != ""
