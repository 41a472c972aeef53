"""The walk through a presentation's XML: for each slide its parts in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...errors import ParseError
from ..tables import TableFormat
from .drawing import TextBody, alternative_text, chart_text, smartart_lines
from .ooxml import CX, DGM, MC, A, C, Element, P, Package, R, forget
from .reading_order import Box, in_reading_order

_TITLES = ("title", "ctrTitle")
_SHAPES = (*(f"{P}{name}" for name in ("sp", "cxnSp", "pic", "graphicFrame", "grpSp")), f"{MC}AlternateContent")
_PAGE_FURNITURE = ("sldNum", "sldImg")
_NOTES_FURNITURE = ("sldNum", "sldImg", "hdr", "ftr", "dt")
_NUMBER_FIELDS = ("slidenum",)


@dataclass(slots=True)
class Title:
    """The slide's title, on one line."""

    text: str


@dataclass(slots=True)
class Text:
    """Lines of a shape."""

    text: str


@dataclass(slots=True)
class SlideTable:
    """Rows of cells; merged cells have their text in the first one and "" in the others."""

    rows: Sequence[Sequence[str]]


@dataclass(slots=True)
class Picture:
    """An image."""

    part: str
    alt: str


Item = Title | Text | SlideTable | Picture


@dataclass
class Slide:
    """A slide in reading order."""

    number: int
    """From 1, hidden slides counted."""
    hidden: bool
    unread_comments: int = 0
    items: list[Item] = field(default_factory=list)

    @property
    def title(self) -> str:
        return next((item.text for item in self.items if isinstance(item, Title)), "")


class SlideReader:
    """Reads the slides of a presentation in their order.

    Args:
        include_image: Give images as items; else their alternative text stands in the text.
        table_format: For the tables of charts.
    """

    def __init__(
        self,
        package: Package,
        *,
        include_image: bool,
        include_notes: bool,
        include_comments: bool,
        table_format: TableFormat,
    ) -> None:
        self._package = package
        self._include_image = include_image
        self._include_notes = include_notes
        self._include_comments = include_comments
        self._table_format: TableFormat = table_format
        self._placeholders: dict[str, list[_Placeholder]] = {}

    def slides(self) -> Iterator[Slide]:
        """All slides, hidden ones too."""
        main = self._package.main_part
        relationships = self._package.relationships(main)
        entries = list(self._package.xml(main).iter(f"{P}sldId"))
        if entries and not any(entry.get(f"{R}id") in relationships for entry in entries):
            raise ParseError(
                f"{self._package.filename}: the presentation has no slide that can be read; is it damaged?"
            )
        for number, entry in enumerate(entries, start=1):
            found = relationships.get(entry.get(f"{R}id", ""))
            if found is not None and not found.external:
                yield self._slide(found.target, number)

    def _slide(self, part: str, number: int) -> Slide:
        slide = Slide(number, hidden=False)
        shapes = _ShapeReader(self._package, part, self._inherited(part), self._include_image, self._table_format)
        boxes: list[Box[list[Item]]] = []
        for element in self._package.stream(part, *_SHAPES, f"{P}sld"):
            if element.tag == f"{P}sld":
                slide.hidden = element.get("show") in ("0", "false")
            elif _is_outermost(element):
                boxes += shapes.boxes([element])
                forget(element)
        titles = [item for box in boxes for item in box.item if isinstance(item, Title)]
        ordered = [item for box in in_reading_order(boxes) for item in box.item if not isinstance(item, Title)]
        slide.items = [*titles, *ordered]
        slide.items += self._notes(part) if self._include_notes else []
        comments = self._comments(part)
        slide.items += [Text("\n".join(["Comments:", *comments]))] if comments and self._include_comments else []
        slide.unread_comments = 0 if self._include_comments else len(comments)
        return slide

    def _inherited(self, part: str) -> list[_Placeholder]:
        """Placeholders of the slide's layout, then of its master."""
        layouts = self._package.related(part, "slideLayout")
        masters = [master for layout in layouts for master in self._package.related(layout, "slideMaster")]
        return [item for source in (*layouts, *masters) for item in self._placeholders_of(source)]

    def _placeholders_of(self, part: str) -> list[_Placeholder]:
        if part not in self._placeholders:
            shapes = self._package.xml(part).iter(f"{P}sp", f"{P}pic", f"{P}graphicFrame")
            self._placeholders[part] = [_Placeholder(ph, shape) for shape in shapes if (ph := _placeholder(shape))]
        return self._placeholders[part]

    def _notes(self, part: str) -> list[Item]:
        for notes in self._package.related(part, "notesSlide"):
            tree = self._package.xml(notes).find(f"{P}cSld/{P}spTree")
            body = TextBody(_links(self._package, notes))
            shapes = [] if tree is None else [s for s in tree.iter(f"{P}sp") if _kind(s) not in _NOTES_FURNITURE]
            lines = [line for shape in shapes for text in shape.iter(f"{P}txBody") for line in body.lines(text)]
            if lines:
                return [Text("\n".join(["Notes:", *lines]))]
        return []

    def _comments(self, part: str) -> list[str]:
        lines: list[str] = []
        for comments in self._package.related(part, "comments"):
            root = self._package.xml(comments)
            texts = [element.text or "" for element in root.iter(f"{P}text")]
            texts += ["".join(run.text or "" for run in p.iter(f"{A}t")) for p in root.iter(f"{A}p")]
            lines += [" ".join(text.split()) for text in texts if text.strip()]
        return lines


class _Placeholder:
    """A placeholder of a layout or master, from which a slide's shape takes its place."""

    def __init__(self, identity: tuple[str, str], shape: Element) -> None:
        self.kind, self.index = identity
        self.place = _place(shape)


class _ShapeReader:
    def __init__(
        self,
        package: Package,
        part: str,
        inherited: list[_Placeholder],
        include_image: bool,
        table_format: TableFormat,
    ) -> None:
        self._package = package
        self._relationships = package.relationships(part)
        self._inherited = inherited
        self._include_image = include_image
        self._table_format: TableFormat = table_format
        self._text = TextBody(_links(package, part))
        self._handlers = {
            f"{P}sp": self._shape,
            f"{P}cxnSp": self._shape,
            f"{P}pic": self._picture,
            f"{P}graphicFrame": self._frame,
        }

    def boxes(self, tree: Iterable[Element]) -> list[Box[list[Item]]]:
        """The shapes among these elements with something to read, in document order."""
        boxes: list[Box[list[Item]]] = []
        for shape in tree:
            if shape.tag == f"{P}grpSp":
                boxes += self._group(shape)
            elif shape.tag == f"{MC}AlternateContent":
                boxes += next((found for found in map(self.boxes, shape) if found), [])
            elif shape.tag in self._handlers:
                items = self._handlers[shape.tag](shape)
                if items:
                    boxes.append(Box(*self._placed(shape), items))
        return boxes

    def _group(self, group: Element) -> list[Box[list[Item]]]:
        """A group as one box: its members are read together. Their places count in the group's own units."""
        inside = in_reading_order(self.boxes(group))
        if not inside:
            return []
        place = _place(group)
        if place is None or place[2:] == (0, 0):
            right, bottom = max(b.left + b.width for b in inside), max(b.top + b.height for b in inside)
            left, top = min(b.left for b in inside), min(b.top for b in inside)
            place = (left, top, right - left, bottom - top)
        return [Box(*place, [item for box in inside for item in box.item])]

    def _placed(self, shape: Element) -> tuple[float, float, float, float]:
        """Where the shape stands: by itself, or as its layout or master says; without any, at the end."""
        own = _place(shape)
        if own is not None:
            return own
        identity = _placeholder(shape)
        if identity is not None:
            kind, index = identity
            same_index = [item for item in self._inherited if index and item.index == index]
            same_kind = [item for item in self._inherited if item.kind == kind]
            for item in (*same_index, *same_kind):
                if item.place is not None:
                    return item.place
        return (0.0, float(1 << 40), 0.0, 0.0)

    def _shape(self, shape: Element) -> list[Item]:
        kind = _kind(shape)
        if kind in _PAGE_FURNITURE:
            return []
        body = shape.find(f"{P}txBody")
        lines = [] if body is None else self._text.lines(body, skip_fields=_NUMBER_FIELDS)
        if kind in _TITLES and lines:
            return [Title(" ".join(" ".join(lines).split()))]
        alt = _alt(shape)
        lines += [f"[Figure: {alt}]"] if alt and alt not in lines else []
        return [Text("\n".join(lines))] if lines else []

    def _picture(self, shape: Element) -> list[Item]:
        alt = _alt(shape)
        for blip in shape.iter(f"{A}blip"):
            found = self._relationships.get(blip.get(f"{R}embed") or blip.get(f"{R}link") or "")
            if found is not None and found.external:
                return [Text(f"[Image: {' '.join(filter(None, (alt, found.target)))}]")]
            if found is not None and self._include_image:
                return [Picture(found.target, alt)]
        return [Text(f"[Image: {alt}]")] if alt else []

    def _frame(self, shape: Element) -> list[Item]:
        items: list[Item] = []
        for table in shape.iter(f"{A}tbl"):
            items.append(SlideTable(_rows(table, self._text)))
            for fill in table.iter(f"{A}blipFill"):  # a cell shows a picture as its background
                items += self._picture(fill)
        for chart in shape.iter(f"{C}chart", f"{CX}chart"):
            if (part := self._part(chart.get(f"{R}id"))) is not None:
                text = chart_text(self._package, part, self._table_format)
                items += [Text(text)] if text else []
        for diagram in shape.iter(f"{DGM}relIds"):
            if (part := self._part(diagram.get(f"{R}dm"))) is not None:
                items += [Text("\n".join(lines))] if (lines := smartart_lines(self._package.xml(part))) else []
        for picture in shape.iter(f"{P}pic"):
            items += self._picture(picture)
        alt = _alt(shape)
        return [*items, *([Text(f"[Figure: {alt}]")] if alt else [])]

    def _part(self, relationship_id: str | None) -> str | None:
        found = self._relationships.get(relationship_id or "")
        return found.target if found is not None and not found.external else None


def _is_outermost(shape: Element) -> bool:
    """Whether a shape stands on the slide itself, not in a group."""
    above = [ancestor.tag for ancestor in islice(shape.iterancestors(), 2)]
    return above == [f"{P}spTree", f"{P}cSld"]


def _rows(table: Element, text: TextBody) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in table.iter(f"{A}tr"):
        cells: list[str] = []
        for cell in row.findall(f"{A}tc"):
            merged = any(cell.get(name) in ("1", "true") for name in ("hMerge", "vMerge"))
            body = None if merged else cell.find(f"{A}txBody")
            cells.append("" if body is None else "\n".join(text.lines(body)))
        rows.append(cells)
    return rows


def _links(package: Package, part: str) -> Callable[[str], str]:
    relationships = package.relationships(part)

    def url(relationship_id: str) -> str:
        found = relationships.get(relationship_id)
        return found.target if found is not None and found.external else ""

    return url


def _placeholder(shape: Element) -> tuple[str, str] | None:
    """(type, index) of a placeholder; a body is the default type."""
    found = next(shape.iter(f"{P}ph"), None)
    return None if found is None else (found.get("type", "obj"), found.get("idx", ""))


def _kind(shape: Element) -> str:
    identity = _placeholder(shape)
    return identity[0] if identity else ""


def _alt(shape: Element) -> str:
    return alternative_text(next(shape.iter(f"{P}cNvPr"), None))


def _place(shape: Element) -> tuple[float, float, float, float] | None:
    """(left, top, width, height) in EMU, as the shape itself gives them."""
    for path in (f"{P}spPr/{A}xfrm", f"{P}grpSpPr/{A}xfrm", f"{P}xfrm"):
        transform = shape.find(path)
        if transform is None:
            continue
        offset, extent = transform.find(f"{A}off"), transform.find(f"{A}ext")
        if offset is not None and extent is not None:
            numbers = (offset.get("x"), offset.get("y"), extent.get("cx"), extent.get("cy"))
            return tuple(_number(text) for text in numbers)  # type: ignore[return-value]
    return None


def _number(text: str | None) -> float:
    try:
        return float(text) if text is not None else 0.0
    except ValueError:
        return 0.0
