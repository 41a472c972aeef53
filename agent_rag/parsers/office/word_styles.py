"""What a Word paragraph's style and numbering mean: its heading level and its list marker."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .ooxml import Element, Package, W

_HEADING_NAME = re.compile(r"heading\s*([1-9])$", re.I)
_PLACEHOLDER = re.compile(r"%([1-9])")
_ROOT = re.compile(rb"<([A-Za-z_][\w:.-]*)[^<>]*>")
_ATTRIBUTE = re.compile(rb"(?:[\w.-]+:)?([\w.-]+)\s*=\s*(\"|')(.*?)\2", re.S)
_NOT_PLAIN = re.compile(rb"<!|<\?xml[^>]*encoding\s*=\s*[\"'](?!utf-8|us-ascii)", re.I)
"""Comments, CDATA, entities or another encoding: the part is parsed as a whole."""
_BODY_LEVEL = 9
_ROMAN = [(1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
          (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")]  # fmt: skip


class NumberingRef(NamedTuple):
    """A paragraph's place in a list; `level` None: the level that names the paragraph's style."""

    number_id: str
    """"" where only the level is given and the list comes from the style."""
    level: int | None


@dataclass
class Style:
    """A paragraph style as far as text depends on it."""

    name: str = ""
    based_on: str | None = None
    outline_level: int | None = None
    numbering: NumberingRef | None = None

    @property
    def tells_something(self) -> bool:
        """Whether it makes its paragraphs headings, no headings, or items of a list."""
        is_heading = _HEADING_NAME.match(self.name) is not None or self.name.lower() == "title"
        return is_heading or self.outline_level is not None or self.numbering is not None


@dataclass
class Level:
    """One level of a list definition."""

    start: int = 1
    format: str = "decimal"
    text: str = ""
    style: str | None = None
    legal: bool = False


@dataclass
class Numbering:
    """A list in use: its definition and the values at which it restarts."""

    abstract_id: str
    restarts: dict[int, int] = field(default_factory=dict)


class Styles:
    """The styles of a document."""

    def __init__(self, package: Package, document: str) -> None:
        self._sources = [StyleSource(package, part) for part in package.related(document, "styles")]
        self._default = next((source.default for source in self._sources if source.default is not None), None)
        self._styles: dict[str, Style | None] = {}
        self._chains: dict[str | None, tuple[list[str], list[Style]]] = {}

    def heading_level(self, properties: Element | None) -> int | None:
        """1 for the highest heading, None for body text; by outline level, else by the built-in style names."""
        own = _outline(properties)
        if own is not None:
            return own + 1 if own < _BODY_LEVEL else None
        for style in self._chain(properties)[1]:
            if style.outline_level is not None:
                return style.outline_level + 1 if style.outline_level < _BODY_LEVEL else None
            if match := _HEADING_NAME.match(style.name):
                return int(match[1])
            if style.name.lower() == "title":
                return 1
        return None

    def numbering(self, properties: Element | None) -> NumberingRef | None:
        """The paragraph's own list, else that of its style."""
        level = None
        for found in (_numbering(properties), *(style.numbering for style in self._chain(properties)[1])):
            if found is None:
                continue
            level = found.level if level is None else level
            if found.number_id:
                return NumberingRef(found.number_id, level)
        return None

    def style_ids(self, properties: Element | None) -> list[str]:
        """The paragraph's style and those that it is based on."""
        return self._chain(properties)[0]

    def _chain(self, properties: Element | None) -> tuple[list[str], list[Style]]:
        found = None if properties is None else properties.find(f"{W}pStyle")
        style_id = self._default if found is None else found.get(f"{W}val")
        if style_id not in self._chains:
            ids, styles = self._followed(style_id)
            self._chains[style_id] = ids, [style for style in styles if style.tells_something]
        return self._chains[style_id]

    def _followed(self, style_id: str | None) -> tuple[list[str], list[Style]]:
        ids: list[str] = []
        styles: list[Style] = []
        while style_id is not None and style_id not in ids and (style := self._style(style_id)) is not None:
            ids.append(style_id)
            styles.append(style)
            style_id = style.based_on
        return ids, styles

    def _style(self, style_id: str) -> Style | None:
        if style_id not in self._styles:
            self._styles[style_id] = self._read(style_id)
        return self._styles[style_id]

    def _read(self, style_id: str) -> Style | None:
        for source in reversed(self._sources):
            element = source.element(style_id)
            if element is not None:
                properties = element.find(f"{W}pPr")
                return Style(
                    name=_value(element, "name") or "",
                    based_on=_value(element, "basedOn"),
                    outline_level=_outline(properties),
                    numbering=_numbering(properties),
                )
        return None


class StyleSource:
    """A part with styles, of which only those in use are parsed: a part holds hundreds, a document uses ten."""

    def __init__(self, package: Package, part: str) -> None:
        self._package = package
        self._part = part
        self._data = package.transitional(part)
        self._root = _ROOT.search(self._data)
        self._spans: dict[str, tuple[int, int]] = {}
        self._elements: dict[str, Element] | None = None
        self.default: str | None = None
        """Id of the style of paragraphs that name none."""
        self._index()

    def element(self, style_id: str) -> Element | None:
        """The XML of a paragraph style."""
        if self._elements is not None:
            return self._elements.get(style_id)
        span = self._spans.get(style_id)
        if span is None or self._root is None:
            return None
        closing = b"</" + self._root[1] + b">"
        fragment = self._data[: self._root.end()] + self._data[span[0] : span[1]] + closing
        return next(self._package.parsed(fragment).iter(f"{W}style"), None)

    def _index(self) -> None:
        prefix = b"" if self._root is None else self._root[1].rpartition(b"styles")[0]
        found = [] if _NOT_PLAIN.search(self._data) else list(_opening_tags(self._data, prefix))
        if not found or self._data.count(b"styleId=") != sum(b"styleId=" in match[0] for match in found):
            self._index_all()
            return
        closing = b"</" + prefix + b"style>"
        for match in found:
            attributes = {name: html.unescape(value.decode()) for name, _, value in _ATTRIBUTE.findall(match[0])}
            if attributes.get(b"type", "paragraph") != "paragraph":
                continue
            style_id = attributes.get(b"styleId", "")
            end = match.end() if match[0].endswith(b"/>") else self._data.find(closing, match.end()) + len(closing)
            self._spans[style_id] = match.start(), end
            self._add(style_id, attributes.get(b"default"))

    def _index_all(self) -> None:
        self._elements = {}
        for element in self._package.parsed(self._data).iter(f"{W}style"):
            if element.get(f"{W}type", "paragraph") == "paragraph":
                self._add(element.get(f"{W}styleId", ""), element.get(f"{W}default"))
                self._elements[element.get(f"{W}styleId", "")] = element

    def _add(self, style_id: str, default: str | None) -> None:
        if default in ("1", "true", "on"):
            self.default = style_id


def _opening_tags(data: bytes, prefix: bytes) -> Iterator[re.Match[bytes]]:
    return re.finditer(b"<" + re.escape(prefix) + rb"style\s[^<>]{0,2000}>", data)


class ListCounter:
    """Counts list items as Word does, in document order, and writes their markers."""

    def __init__(self, package: Package, document: str) -> None:
        self._abstracts: dict[str, Element] = {}
        self._levels: dict[str, dict[int, Level]] = {}
        self._numberings: dict[str, Numbering] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._started: set[tuple[str, int]] = set()
        self._package = package
        self._parts = package.related(document, "numbering")

    def marker(self, reference: NumberingRef, style_ids: list[str]) -> tuple[str, int] | None:
        """Marker of the next item, such as ``1.``, ``2.1`` or ``-``, and its level from 0; None: not in a list."""
        while self._parts:
            self._read(self._package.xml(self._parts.pop()))
        numbering = self._numberings.get(reference.number_id)
        if numbering is None:
            return None
        levels = self._levels_of(numbering.abstract_id)
        level = reference.level if reference.level is not None else _level_of(levels, style_ids)
        self._count(reference.number_id, numbering, levels, level)
        definition = levels.get(level, Level())
        if definition.format == "bullet":
            return "-", level
        return ("" if definition.format == "none" else self._text(numbering, levels, level)), level

    def _levels_of(self, abstract_id: str) -> dict[int, Level]:
        if abstract_id not in self._levels:
            abstract = self._abstracts.get(abstract_id)
            items = [] if abstract is None else abstract.findall(f"{W}lvl")
            self._levels[abstract_id] = {_index(item): _level(item) for item in items}
        return self._levels[abstract_id]

    def _count(self, number_id: str, numbering: Numbering, levels: dict[int, Level], level: int) -> None:
        counts = self._counts.setdefault(numbering.abstract_id, {})
        if level in numbering.restarts and (number_id, level) not in self._started:
            counts[level] = numbering.restarts[level] - 1
        self._started.add((number_id, level))
        counts[level] = counts.get(level, levels.get(level, Level()).start - 1) + 1
        for deeper in [other for other in counts if other > level]:
            del counts[deeper]

    def _text(self, numbering: Numbering, levels: dict[int, Level], level: int) -> str:
        counts = self._counts[numbering.abstract_id]
        legal = levels.get(level, Level()).legal

        def number(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            definition = levels.get(index, Level())
            return format_number(counts.get(index, definition.start), "decimal" if legal else definition.format)

        return _PLACEHOLDER.sub(number, levels.get(level, Level(text=f"%{level + 1}.")).text)

    def _read(self, root: Element) -> None:
        for abstract in root.findall(f"{W}abstractNum"):
            self._abstracts[abstract.get(f"{W}abstractNumId", "")] = abstract
        for item in root.findall(f"{W}num"):
            numbering = Numbering(_value(item, "abstractNumId") or "")
            for override in item.findall(f"{W}lvlOverride"):
                start = _value(override, "startOverride")
                if start is not None:
                    numbering.restarts[_index(override)] = _int(start, 1)
            self._numberings[item.get(f"{W}numId", "")] = numbering


def format_number(number: int, kind: str) -> str:
    """A list number in one of Word's formats; an unknown format counts in decimals."""
    if kind in ("lowerLetter", "upperLetter") and number > 0:
        repeats, letter = divmod(number - 1, 26)
        text = chr(ord("a") + letter) * (repeats + 1)
    elif kind in ("lowerRoman", "upperRoman") and 0 < number < 4000:
        text = _roman(number)
    else:
        return f"{number:02d}" if kind == "decimalZero" else str(number)
    return text.upper() if kind.startswith("upper") else text


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        count, number = divmod(number, value)
        text += letters * count
    return text


def _level(element: Element) -> Level:
    return Level(
        start=_int(_value(element, "start"), 1),
        format=_value(element, "numFmt") or "decimal",
        text=_value(element, "lvlText") or "",
        style=_value(element, "pStyle"),
        legal=element.find(f"{W}isLgl") is not None,
    )


def _level_of(levels: dict[int, Level], style_ids: list[str]) -> int:
    return next((level for level, item in levels.items() if item.style and item.style in style_ids), 0)


def _outline(properties: Element | None) -> int | None:
    value = None if properties is None else _value(properties, "outlineLvl")
    return None if value is None else _int(value, _BODY_LEVEL)


def _numbering(properties: Element | None) -> NumberingRef | None:
    found = None if properties is None else properties.find(f"{W}numPr")
    if found is None:
        return None
    level, number_id = _value(found, "ilvl"), _value(found, "numId")
    return NumberingRef(number_id or "", None if level is None else _int(level, 0))


def _index(element: Element) -> int:
    return _int(element.get(f"{W}ilvl"), 0)


def _value(element: Element, name: str) -> str | None:
    found = element.find(f"{W}{name}")
    return None if found is None else found.get(f"{W}val")


def _int(text: str | None, default: int) -> int:
    try:
        return int(text) if text is not None else default
    except ValueError:
        return default
