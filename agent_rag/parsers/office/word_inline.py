"""The inside of a Word paragraph: runs, fields, links, notes, drawings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ..blocks import Block, Image, Paragraph
from ..tables import TableFormat
from .drawing import TextBody, alternative_text, chart_text, smartart_lines
from .line import Line
from .omml import equation_text
from .ooxml import CX, DGM, MC, PIC, WP, A, C, Element, M, Package, R, V, W
from .symbols import symbol

_HYPERLINK = re.compile(r'\s*HYPERLINK\s+"([^"]+)"')
_PARAGRAPH = f"{W}p"
_OFFICE = "{urn:schemas-microsoft-com:office:office}"


@dataclass
class _Field:
    """A complex field between its begin and its end; only its result is shown."""

    instruction: str = ""
    in_result: bool = False
    line: Line | None = None
    start: int = 0
    form: str = ""
    """Value of a legacy form field, which has no result of its own."""


class Document(Protocol):
    """What a paragraph asks of the document that it stands in."""

    package: Package
    include_image: bool
    table_format: TableFormat

    def note_label(self, kind: str, note_id: str) -> str:
        """What stands in the text for a note."""
        ...


class InlineReader:
    """Reads paragraphs of one part. Fields may run over several paragraphs.

    Args:
        blocks: Reads the content of a text box.
    """

    def __init__(self, document: Document, part: str, blocks: Callable[[Element], Iterator[Block]]) -> None:
        self._document = document
        self._relationships = document.package.relationships(part)
        self._blocks = blocks
        self._fields: list[_Field] = []
        self._alt = ""

    def read(self, element: Element, line: Line) -> None:
        """Add what the children of an element say to `line`; an unknown element is looked into."""
        for child in element:
            handler = _HANDLERS.get(child.tag, InlineReader._unknown)
            if handler is not None:
                handler(self, child, line)
        if self._fields and element.tag == _PARAGRAPH:
            self._fields = [item for item in self._fields if item.in_result]

    def _unknown(self, element: Element, line: Line) -> None:
        if isinstance(element.tag, str):
            self.read(element, line)

    def _show(self, text: str, line: Line) -> None:
        if text and all(item.in_result for item in self._fields):
            line.text.append(text)

    def _text(self, element: Element, line: Line) -> None:
        self._show((element.text or "").replace("\u00ad", ""), line)

    def _symbol(self, element: Element, line: Line) -> None:
        self._show(symbol(element.get(f"{W}font", ""), element.get(f"{W}char", "")), line)

    def _equation(self, element: Element, line: Line) -> None:
        self._show(equation_text(element), line)

    def _note(self, kind: str, element: Element, line: Line) -> None:
        note_id = element.get(f"{W}id", "")
        self._show(self._document.note_label(kind, note_id), line)
        line.notes.append((kind, note_id))

    def _ruby(self, element: Element, line: Line) -> None:
        base, reading = Line(), Line()
        for name, target in (("rubyBase", base), ("rt", reading)):
            found = element.find(f"{W}{name}")
            if found is not None:
                self.read(found, target)
        line.add(base)
        line.asides.append(("".join(base.text), "".join(reading.text)))

    def _hyperlink(self, element: Element, line: Line) -> None:
        inner = Line()
        self.read(element, inner)
        line.add(inner)
        self._link("".join(inner.text), self._url(element.get(f"{R}id")), line)

    def _url(self, relationship_id: str | None) -> str:
        found = self._relationships.get(relationship_id or "")
        return found.target if found is not None and found.external else ""

    def _link(self, label: str, url: str, line: Line) -> None:
        if url and label.strip() and label.strip() != url.removeprefix("mailto:"):
            line.asides.append((label, url))

    def _simple_field(self, element: Element, line: Line) -> None:
        inner = Line()
        self.read(element, inner)
        line.add(inner)
        target = _HYPERLINK.match(element.get(f"{W}instr", ""))
        if target:
            self._link("".join(inner.text), target[1], line)

    def _instruction(self, element: Element, line: Line) -> None:
        if self._fields and not self._fields[-1].in_result:
            self._fields[-1].instruction += element.text or ""

    def _field_char(self, element: Element, line: Line) -> None:
        kind = element.get(f"{W}fldCharType")
        if kind == "begin":
            self._fields.append(_Field(form=_form_value(element)))
        elif kind == "separate" and self._fields:
            current = self._fields[-1]
            current.in_result, current.line, current.start = True, line, len(line.text)
        elif kind == "end" and self._fields:
            self._end_field(self._fields.pop(), line)

    def _end_field(self, ended: _Field, line: Line) -> None:
        if ended.line is not line:
            self._show(ended.form if not ended.in_result else "", line)
            return
        result = "".join(line.text[ended.start :])
        if not result.strip():
            self._show(ended.form, line)
        target = _HYPERLINK.match(ended.instruction)
        if target:
            self._link(result, target[1], line)

    def _alternate(self, element: Element, line: Line) -> None:
        for branch in element:
            trial = Line()
            self.read(branch, trial)
            if trial:
                line.add(trial)
                return

    def _drawing(self, element: Element, line: Line) -> None:
        outer, self._alt = self._alt, _alt_text(element)
        self.read(element, line)
        if self._alt:
            line.below.append(Paragraph(f"[Figure: {self._alt}]"))
        self._alt = outer

    def _text_box(self, element: Element, line: Line) -> None:
        fields, self._fields = self._fields, []
        alt, self._alt = self._alt, ""
        blocks = list(self._blocks(element))
        while blocks and blocks[-1] == Paragraph(""):
            blocks.pop()
        line.below += blocks
        self._fields, self._alt = fields, alt

    def _shape_text(self, element: Element, line: Line) -> None:
        line.below += [Paragraph(text) for text in TextBody(self._url).lines(element)]

    def _word_art(self, element: Element, line: Line) -> None:
        if text := element.get("string", "").strip():
            line.below.append(Paragraph(text))

    def _blip(self, element: Element, line: Line) -> None:
        picture = next(element.iterancestors(f"{PIC}pic"), None)
        own = None if picture is None else picture.find(f"{PIC}nvPicPr/{PIC}cNvPr")
        alt = self._alt or alternative_text(own)
        self._image(element.get(f"{R}embed"), element.get(f"{R}link"), alt, line)

    def _vml_image(self, element: Element, line: Line) -> None:
        alt = self._alt or element.get(f"{_OFFICE}title", "").strip()
        self._image(element.get(f"{R}id"), element.get(f"{R}href"), alt, line)

    def _image(self, embedded: str | None, linked: str | None, alt: str, line: Line) -> None:
        self._alt = ""
        found = self._relationships.get(embedded or "") or self._relationships.get(linked or "")
        if found is not None and not found.external and self._document.include_image:
            line.below.append(Image(found.target, alt))
        elif found is not None and found.external:
            line.below.append(Paragraph(f"[Image: {' '.join(filter(None, (alt, found.target)))}]"))
        elif alt:
            line.below.append(Paragraph(f"[Image: {alt}]"))

    def _chart(self, element: Element, line: Line) -> None:
        found = self._relationships.get(element.get(f"{R}id", ""))
        if found is not None and not found.external:
            text = chart_text(self._document.package, found.target, self._document.table_format)
            line.below += [Paragraph(text)] if text else []

    def _smartart(self, element: Element, line: Line) -> None:
        found = self._relationships.get(element.get(f"{R}dm", ""))
        if found is not None and not found.external:
            line.below += [Paragraph(text) for text in smartart_lines(self._document.package.xml(found.target))]


_Handler = Callable[[InlineReader, Element, Line], None] | None


def _constant(text: str) -> _Handler:
    return lambda reader, element, line: reader._show(text, line)


def _note(kind: str) -> _Handler:
    return lambda reader, element, line: reader._note(kind, element, line)


def _all_handlers() -> dict[str, _Handler]:
    skipped = "del moveFrom pPr rPr delText delInstrText softHyphen sdtPr sdtEndPr rubyPr"
    handlers: dict[str, _Handler] = {f"{W}{name}": None for name in skipped.split()}
    for name, text in (("tab", "\t"), ("ptab", "\t"), ("br", "\n"), ("cr", "\n"), ("noBreakHyphen", "-")):
        handlers[f"{W}{name}"] = _constant(text)
    for kind in ("footnote", "endnote", "comment"):
        handlers[f"{W}{kind}Reference"] = _note(kind)
    reader = InlineReader
    words: dict[str, _Handler] = {
        "r": reader.read, "t": reader._text, "sym": reader._symbol, "fldChar": reader._field_char,
        "instrText": reader._instruction, "fldSimple": reader._simple_field, "hyperlink": reader._hyperlink,
        "ruby": reader._ruby, "drawing": reader._drawing, "pict": reader._drawing, "object": reader._drawing,
        "txbxContent": reader._text_box,
    }  # fmt: skip
    handlers.update({f"{W}{name}": handler for name, handler in words.items()})
    handlers.update({
        f"{MC}AlternateContent": reader._alternate, f"{M}oMath": reader._equation, f"{M}oMathPara": reader._equation,
        f"{A}blip": reader._blip, f"{V}imagedata": reader._vml_image, f"{V}textpath": reader._word_art,
        f"{C}chart": reader._chart, f"{CX}chart": reader._chart, f"{DGM}relIds": reader._smartart,
        f"{A}txBody": reader._shape_text,
    })  # fmt: skip
    return handlers


_HANDLERS = _all_handlers()
"""What each element adds to a line; None: nothing. An element that is not here is looked into."""


def _alt_text(drawing: Element) -> str:
    for properties in drawing.iter(f"{WP}docPr"):
        return alternative_text(properties)
    return next((str(shape.get("alt")).strip() for shape in drawing.iter(f"{V}shape") if shape.get("alt")), "")


def _form_value(begin: Element) -> str:
    """What a legacy check box or drop-down list shows."""
    box = begin.find(f"{W}ffData/{W}checkBox")
    if box is not None:
        state = box.find(f"{W}checked")
        state = box.find(f"{W}default") if state is None else state
        return "☒" if state is not None and state.get(f"{W}val", "1") in ("1", "true", "on") else "☐"
    choices = begin.find(f"{W}ffData/{W}ddList")
    if choices is None:
        return ""
    entries = [entry.get(f"{W}val", "") for entry in choices.findall(f"{W}listEntry")]
    chosen = choices.find(f"{W}result")
    index = chosen.get(f"{W}val", "0") if chosen is not None else "0"
    return entries[int(index)] if index.isdecimal() and int(index) < len(entries) else ""
