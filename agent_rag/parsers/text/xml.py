"""XML: the text of its elements, with their names."""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from typing import Any, ClassVar

from ...documents import Section
from ...errors import ParseError
from ..headings import Headings
from ..web.html import html_to_markdown, strip_tags
from .plain import DecodingParser, one_section

Element = Any
"""An lxml element; lxml ships no types."""

_DECLARATION = re.compile(r"\s*<\?xml\b[^>]*\?>")
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w:.-]+)""")
_ENTITY = re.compile(
    r"(?P<kept><!\[CDATA\[(?:.*?\]\]>|.*\Z)|<!--(?:.*?-->|.*\Z)|&(?:amp|lt|gt|quot|apos);)"
    r"|&(?P<name>[A-Za-z_][\w.-]{0,60});|&\#(?P<code>\d{1,8}|x[0-9a-fA-F]{1,8});|(?P<bare>&)|(?P<control>[\0-\x08\x0b\x0c\x0e-\x1f])",
    re.S,
)
_FORBIDDEN = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f]")
_DECLARED = re.compile(r"<!ENTITY\s+([\w.-]{1,60})")
_ESCAPED_MARKUP = re.compile(
    r"<(?:/(?:p|div|a|b|i|em|strong|li|ul|ol|h[1-6]|span|td|table)|br ?/?|p|p [^<>]{1,200}|img [^<>]{1,500})>"
)
_TITLES = frozenset({"title", "head", "heading", "label"})
_NO_LABELS = frozenset({"style", "script"})
"""Of a drawing."""
_COMMENT_WORDS = 3
_HEADING_DEPTH = 3
_TITLED_DEPTH = 6
_BATCH = 8_192
_MAX_INDENT = 20
_PIECE = 64 * 1024
_WORD = re.compile(r"\w+")
_TAG = re.compile(r"</?[A-Za-z_][^<>]*>")
_LOST_WORDS = 0.01


class XMLParser(DecodingParser):
    """An outline with one line per element: indented name, attributes, text.

    One Section, metadata ``{"format": "xml"}``. Elements that hold elements are headings down to the third level, so a
    chunk knows the path above it; one that begins with a title (JATS, DocBook) is called as that, down to the sixth.
    Text with inline markup stays one line, comments of three words and more are lines with ``#``, escaped HTML (feeds)
    becomes Markdown. External entities are not read, and entities that expand without end are an error. Entities that
    nobody declares, a bare ``&`` and control characters are mended, broken markup is read as far as it goes, and a
    warning says so; markup nested beyond libxml2's 256 levels leaves the text between the tags. Of a drawing (SVG) its
    title, description and labels are the text; its lines and colours are none.
    """

    format_name = "XML"
    version: ClassVar[int] = 4
    supported_media_types: ClassVar[list[str]] = ["application/xml", "text/xml", "image/svg+xml"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [
            ".atom", ".csproj", ".gpx", ".kml", ".plist", ".rss", ".svg", ".wsdl", ".xlf", ".xliff", ".xml", ".xsd",
            ".xsl",
        ]  # fmt: skip

    def declared_charset(self, data: bytes) -> str | None:
        found = _ENCODING.search(data[:200])
        return found[1].decode("ascii") if found else None

    def read_text(self, text: str, filename: str) -> list[Section]:
        mended, remark = _mended(text)
        outline = _outline(mended, filename, recover=False)
        if outline is None:
            outline, remark = _recovered(mended, filename), "its markup is broken, and was read as far as it goes"
        if outline is None:
            remark = "its markup is broken or nested too deep: only the text between the tags was read"
            (section,) = one_section(strip_tags(text), filename, [], format="xml")
        else:
            kind = "svg" if outline.is_drawing else "xml"
            (section,) = one_section("\n".join(outline.lines), filename, outline.headings.found, format=kind)
        if remark:
            section.warnings.append(f"{filename}: {remark}")
        return [section]


def _mended(text: str) -> tuple[str, str]:
    """The text with entities that only HTML knows as characters, and without what XML forbids; what was wrong."""
    if "&" not in text and not _FORBIDDEN.search(text):
        return text, ""
    declared = set(_DECLARED.findall(text)) if "<!ENTITY" in text else set()
    wrong: dict[str, None] = {}

    def replaced(found: re.Match[str]) -> str:
        if found["kept"] or (found["name"] and found["name"] in declared):
            return found[0]
        if found["code"] and _is_allowed(found["code"]):
            return found[0]
        if found["name"]:
            wrong[f"the undeclared entity {found[0]}"] = None
            return html.escape(html.unescape(found[0]), quote=False)
        wrong["a bare &" if found["bare"] else "a control character"] = None
        return "&amp;" if found["bare"] else ""

    mended = _ENTITY.sub(replaced, text)
    kinds = ", ".join(itertools.islice(wrong, 10))
    return mended, f"it is no well-formed XML ({kinds}), which was mended" if wrong else ""


def _is_allowed(code: str) -> bool:
    """Whether XML allows the character of a numeric reference, ``65`` or ``x41``."""
    number = int(code[1:], 16) if code.startswith("x") else int(code)
    return number in (9, 10, 13) or 0x20 <= number < 0xD800 or 0xDFFF < number < 0x110000


def _recovered(text: str, filename: str) -> _Outline | None:
    """The outline of what libxml2 makes of broken markup; None where words would be lost by that."""
    outline = _outline(text, filename, recover=True)
    if outline is None:
        return None
    words = Counter(_WORD.findall(strip_tags(_TAG.sub(" ", text))))
    lost = words - Counter(_WORD.findall("\n".join(outline.lines)))
    return outline if lost.total() <= _LOST_WORDS * words.total() else None


def _outline(text: str, filename: str, *, recover: bool) -> _Outline | None:
    """None where libxml2 gives up."""
    from lxml import etree

    declaration = _DECLARATION.match(text)
    start = declaration.end() if declaration else len(text) - len(text.lstrip())
    parser = etree.XMLPullParser(
        events=("start", "end", "comment"),
        encoding="utf-8",
        resolve_entities="internal",
        no_network=True,
        load_dtd=False,
        remove_pis=True,
        recover=recover,
    )
    outline = _Outline()
    try:
        for position in range(start, len(text), _PIECE):
            parser.feed(text[position : position + _PIECE].encode("utf-8", "replace"))
            outline.take(parser.read_events())
        parser.close()
        outline.take(parser.read_events())
        outline.finish()
    except etree.XMLSyntaxError as error:
        message = str(error)
        if "<!ENTITY" in text and "not defined" not in message and ("amplification" in message or "ntity" in message):
            raise ParseError(f"{filename}: its entities expand without bound ({error})") from error
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
        self.is_drawing = False
        self._mixed = 0
        """Depth inside an element of running text with markup, which is written as one line at its end."""

    def take(self, events: Any) -> None:
        for event, element in events:
            if event == "comment":
                self._comment(element)
            elif not isinstance(element.tag, str):
                continue
            elif event == "start":
                self._start(element)
            else:
                self._end(element)

    def finish(self) -> None:
        """End what is open: a file that is cut."""
        while self._open and not self._mixed:
            self._end(self._open[-1].element)

    def _comment(self, element: Element) -> None:
        words = (element.text or "").split()
        if not self._mixed and not self.is_drawing and len(words) >= _COMMENT_WORDS:
            if self._open:
                self._stray_text(element.getprevious())
                self._write_parents()
            self._line("# " + " ".join(words), len(self._open))

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
        elif _local(element.tag) == "svg":
            self.is_drawing = True
            self.lines.clear()  # of comments by the program that drew it
            self._offset = 0
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
            text = _text_of(element)
            if self.is_drawing:
                if text and _local(element.tag) not in _NO_LABELS:
                    self._line(text, 0)
                self._free(element)
                return
            self._write_parents(title=text if _local(element.tag) in _TITLES else "")
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
        parent = element.getparent()
        while parent is not None and (before := element.getprevious()) is not None:
            parent.remove(before)

    def _write_parents(self, *, title: str = "") -> None:
        """Lines of the open elements that have none; `title` is what the innermost begins with."""
        if self.is_drawing:
            return
        for depth, frame in enumerate(self._open):
            if frame.is_written:
                continue
            frame.is_written = True
            label = _label(frame.element)
            is_titled = bool(title) and depth == len(self._open) - 1
            if depth < (_TITLED_DEPTH if is_titled else _HEADING_DEPTH):
                self.headings.add(depth + 1, (title if is_titled else label)[:200], self._offset)
            self._line(label, depth)

    def _line(self, text: str, depth: int) -> None:
        line = "  " * min(depth, _MAX_INDENT) + text
        self.lines.append(line)
        self._offset += len(line) + 1
        if len(self.lines) - self._joined > _BATCH:
            self.lines[self._joined :] = ["\n".join(self.lines[self._joined :])]
            self._joined += 1


def _text_of(element: Element) -> str:
    """What an element says in one line; an empty element in it, such as a line break, divides words."""
    if not len(element):
        text = element.text or ""
        if "<" in text and _ESCAPED_MARKUP.search(text):
            text = html_to_markdown(text)[1]
        return " ".join(text.split())
    pieces: list[str] = []
    for event, inner in _walked(element):
        if event == "start" and isinstance(inner.tag, str):
            pieces.append(inner.text or ("" if len(inner) else " "))
        elif event != "start" and inner is not element:
            pieces.append(inner.tail or "")
    return " ".join("".join(pieces).split())


def _walked(element: Element) -> Any:
    from lxml import etree

    return etree.iterwalk(element, events=("start", "end", "comment"))


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
