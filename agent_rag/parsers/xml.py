"""XML: the text of its elements, with their names."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ..documents import Heading, Section
from ..errors import ParseError
from .html import strip_tags
from .text import DecodingParser, one_section

Element = Any
"""An lxml element; lxml ships no types."""

_DECLARATION = re.compile(r"\s*<\?xml\b[^>]*\?>")
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w:.-]+)""")
_HEADING_DEPTH = 3
_MAX_HEADINGS = 2_000
_MAX_DEPTH = 250


class XMLParser(DecodingParser):
    """An outline with one line per element: indented name, attributes, text. One Section,
    metadata ``{"format": "xml"}``.

    Elements that hold elements are headings down to the third level, so a chunk knows the path above it. Text with
    inline markup stays one line. External entities are not read, and entities that expand without end are an error.
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
        root = _tree(text, filename)
        if root is None:
            return one_section(strip_tags(text), filename, [], format="xml")
        outline = _Outline()
        outline.add(root, 0)
        return one_section("\n".join(outline.lines), filename, outline.headings, format="xml")


def _tree(text: str, filename: str) -> Element | None:
    """The root; None where only the text between the tags can be saved (nesting too deep, broken markup)."""
    from lxml import etree

    declaration = _DECLARATION.match(text)
    body = text[declaration.end() :] if declaration else text
    options = {"resolve_entities": "internal", "no_network": True, "load_dtd": False, "encoding": "utf-8"}
    try:
        return etree.fromstring(body.encode("utf-8", "replace"), etree.XMLParser(remove_comments=True, **options))
    except etree.XMLSyntaxError as error:
        if "<!ENTITY" in body and ("amplification" in str(error) or "ntity" in str(error)):
            raise ParseError(f"{filename}: its entities expand without bound or are undefined ({error})") from error
        if not re.search(r"<[A-Za-z_]", body):
            raise ParseError(f"{filename}: this is no XML ({error})") from error
        return None


class _Outline:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.headings: list[Heading] = []
        self._offset = 0

    def add(self, element: Element, depth: int) -> None:
        if not isinstance(element.tag, str):
            return
        label = _label(element)
        children = [child for child in element if isinstance(child.tag, str)]
        if not children or depth >= _MAX_DEPTH or _is_mixed(element):
            text = " ".join("".join(element.itertext()).split())
            if text or element.attrib:
                self._line(f"{label}: {text}" if text else label, depth)
            return
        if depth < _HEADING_DEPTH and len(self.headings) < _MAX_HEADINGS:
            self.headings.append(Heading(level=depth + 1, title=label[:200], offset=self._offset))
        self._line(label, depth)
        for child in children:
            self.add(child, depth + 1)

    def _line(self, text: str, depth: int) -> None:
        line = "  " * min(depth, 20) + text
        self.lines.append(line)
        self._offset += len(line) + 1


def _label(element: Element) -> str:
    name = _local(element.tag)
    attributes = (f"{_local(key)}={' '.join(value.split())}" for key, value in element.attrib.items() if value.strip())
    return " ".join([name, *attributes])


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _is_mixed(element: Element) -> bool:
    """Whether text stands between the children, as in a paragraph with inline markup."""
    if element.text and element.text.strip():
        return True
    return any(child.tail and child.tail.strip() for child in element)
