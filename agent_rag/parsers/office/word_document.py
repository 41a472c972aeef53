"""The walk through a Word document's XML: blocks in reading order, nothing lost that Word shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ..blocks import Block, Image, Paragraph, Table, cell_text
from ..tables import TableFormat
from .line import Line
from .ooxml import MC, Element, Package, R, W, forget
from .word_inline import InlineReader
from .word_styles import ListCounter, Styles

_SKIPPED = frozenset(
    f"{W}{name}"
    for name in ("del", "moveFrom", "sectPr", "sdtPr", "sdtEndPr", "tblPr", "tblGrid", "trPr", "tcPr", "customXmlPr")
)
_BODY, _PARAGRAPH, _TABLE, _ROW, _ALT_CHUNK = (f"{W}{name}" for name in ("body", "p", "tbl", "tr", "altChunk"))
_STREAMED = (
    *(f"{W}{name}" for name in ("p", "tbl", "tr", "sdt", "customXml", "ins", "moveTo", "altChunk")),
    f"{MC}AlternateContent",
)


_MAX_COLUMNS = 63
"""Of a table in Word."""
_MAX_EMPTY_CELLS = 1_000_000


class DocumentReader:
    """Reads the parts of one document; list and note numbers run through all of them.

    Args:
        include_image: Give images as blocks; else their alternative text stands in the text.
        include_notes: Write foot- and endnotes below the paragraph that refers to them.
        include_comments: Write comments below the paragraph.
        table_format: For the tables of charts.
        embedded: Reads a part that is another file which Word takes in when it opens this one (altChunk).
        depth: Documents around this one.
    """

    def __init__(
        self,
        package: Package,
        *,
        include_image: bool,
        include_notes: bool,
        include_comments: bool,
        table_format: TableFormat,
        embedded: Callable[[DocumentReader, str], Iterator[Block]],
        depth: int = 0,
    ) -> None:
        self.package = package
        self.depth = depth
        self._embedded = embedded
        self.include_image = include_image
        self.table_format: TableFormat = table_format
        self.styles = Styles(package, package.main_part)
        self.lists = ListCounter(package, package.main_part)
        self.empty_cells = _MAX_EMPTY_CELLS
        self._note_labels: dict[tuple[str, str], str] = {}
        self._note_counts = Counter[str]()
        self.include_comments = include_comments
        self.include_notes = include_notes
        self._kinds = ["footnote", "endnote"] * include_notes + ["comment"] * include_comments
        self._loaded: dict[str, tuple[str, dict[str, Element]]] = {}

    def body(self) -> Iterator[Block]:
        """The document's main text; holds one paragraph or one row of a table at a time in memory."""
        walker = BlockReader(self, self.package.main_part)
        table = TableRows()
        for element in self.package.stream(self.package.main_part, *_STREAMED):
            parent = element.getparent()
            if parent is None or parent.tag not in (_BODY, _TABLE):
                continue
            if parent.tag == _TABLE:
                above = parent.getparent()
                if above is None or above.tag != _BODY:
                    continue
                walker.add_rows(table, element)
            elif element.tag == _TABLE:
                yield from table.blocks()
                table = TableRows()
            else:
                yield from walker.block(element)
            forget(element)

    def part(self, part: str) -> Iterator[Block]:
        """A header, footer or other part."""
        yield from BlockReader(self, part).blocks(self.package.xml(part))

    def embedded_document(self, part: str, relationship_id: str) -> Iterator[Block]:
        """What an altChunk shows: another file (HTML, text, e-mail, Word)."""
        found = self.package.relationships(part).get(relationship_id)
        if found is not None and not found.external:
            yield from self._embedded(self, found.target)

    def note_label(self, kind: str, note_id: str) -> str:
        """What stands in the text for a note: ``[^1]``, ``[^e1]`` for endnotes; "" when notes are left out."""
        if kind not in self._kinds or kind == "comment":
            return ""
        if (kind, note_id) not in self._note_labels:
            self._note_counts[kind] += 1
            prefix = "e" if kind == "endnote" else ""
            self._note_labels[kind, note_id] = f"[^{prefix}{self._note_counts[kind]}]"
        return self._note_labels[kind, note_id]

    def note(self, kind: str, note_id: str) -> Iterator[Block]:
        """The text of a note or comment, with its label."""
        if kind not in self._kinds:
            return
        part, notes = self._notes(kind)
        element = notes.get(note_id)
        if element is None:
            return
        label = f"{self._note_labels[kind, note_id]}:" if kind != "comment" else _comment_label(element)
        blocks = list(BlockReader(self, part).blocks(element))
        text = " ".join(cell_text(blocks).split("\n"))
        yield Paragraph(f"{label} {text}".rstrip())
        yield from (block for block in blocks if isinstance(block, Image))

    def _notes(self, kind: str) -> tuple[str, dict[str, Element]]:
        if kind not in self._loaded:
            part = next(iter(self.package.related(self.package.main_part, f"{kind}s")), None)
            root = self.package.xml_or_none(part)
            notes = {} if root is None else {note.get(f"{W}id"): note for note in root.iter(f"{W}{kind}")}
            self._loaded[kind] = (part or "", notes)
        return self._loaded[kind]


@dataclass
class TableRows:
    """A table being read."""

    rows: list[list[str]] = field(default_factory=list)
    below: list[Block] = field(default_factory=list)
    """Images of its cells, which stand after it."""

    def blocks(self) -> list[Block]:
        return [Table(self.rows), *self.below]


class BlockReader:
    """Reads block-level XML of one part."""

    def __init__(self, reader: DocumentReader, part: str) -> None:
        self._reader = reader
        self._part = part
        self._inline = InlineReader(reader, part, self.blocks)

    def blocks(self, container: Element) -> Iterator[Block]:
        """The blocks in a container: a body, a cell, a text box, a content control."""
        for child in container:
            yield from self.block(child)

    def block(self, element: Element) -> Iterator[Block]:
        """A block-level element; an unknown one is looked into."""
        tag = element.tag
        if tag == _PARAGRAPH:
            yield from self._paragraph(element)
        elif tag == _TABLE:
            yield from self._table(element)
        elif tag == _ALT_CHUNK:
            yield from self._reader.embedded_document(self._part, element.get(f"{R}id", ""))
        elif tag == f"{MC}AlternateContent":
            yield from first_filled(list(self.blocks(branch)) for branch in element)
        elif isinstance(tag, str) and tag not in _SKIPPED:
            yield from self.blocks(element)

    def _paragraph(self, element: Element) -> Iterator[Block]:
        line = Line()
        self._inline.read(element, line)
        properties = element.find(f"{W}pPr")
        text = line.finished_text()
        level = self._reader.styles.heading_level(properties) if text else None
        if text:
            text = self._marker(properties, level) + text
        if text or not (line.below or line.notes or _is_deleted(properties)):
            yield Paragraph(text, level)
        yield from line.below
        for kind, note_id in line.notes:
            yield from self._reader.note(kind, note_id)

    def _marker(self, properties: Element | None, heading_level: int | None) -> str:
        reference = self._reader.styles.numbering(properties)
        if reference is None:
            return ""
        found = self._reader.lists.marker(reference, self._reader.styles.style_ids(properties))
        if found is None or not found[0]:
            return ""
        marker, level = found
        if heading_level is not None:
            return "" if marker == "-" else f"{marker} "
        return f"{'  ' * level}{marker} "

    def add_rows(self, table: TableRows, element: Element) -> None:
        """Add a row, or the rows inside a content control or another wrapper."""
        for row in [element] if element.tag == _ROW else _unwrapped(element, _ROW):
            if row.find(f"{W}trPr/{W}del") is None:
                table.rows.append(self._cells(row, table.below))

    def _table(self, element: Element) -> Iterator[Block]:
        table = TableRows()
        self.add_rows(table, element)
        yield from table.blocks()

    def _cells(self, row: Element, below: list[Block]) -> list[str]:
        row_properties = row.find(f"{W}trPr")
        cells = self._empty(_row_value(row_properties, "gridBefore"))
        for cell in _unwrapped(row, f"{W}tc"):
            blocks = list(self.blocks(cell))
            below += [block for block in blocks if isinstance(block, Image)]
            properties = cell.find(f"{W}tcPr")
            cells.append("" if _is_continued(properties) else cell_text(blocks))
            if (span := _span(properties)) > 1:
                cells += self._empty(span - 1)
        return cells + self._empty(_row_value(row_properties, "gridAfter"))

    def _empty(self, count: int) -> list[str]:
        """Cells of a merge; few bytes can ask for many, so a document has a bounded number of them."""
        count = min(count, self._reader.empty_cells)
        self._reader.empty_cells -= count
        return [""] * count


def first_filled(branches: Iterable[list[Block]]) -> list[Block]:
    """The first branch of an mc:AlternateContent that says something; the others repeat it for other readers."""
    return next((blocks for blocks in branches if any(not _is_blank(block) for block in blocks)), [])


def _is_blank(block: Block) -> bool:
    return isinstance(block, Paragraph) and not block.text


def _unwrapped(parent: Element, tag: str) -> Iterator[Element]:
    """Children with `tag`, also those inside content controls, insertions and other wrappers."""
    for child in parent:
        if child.tag == tag:
            yield child
        elif isinstance(child.tag, str) and child.tag not in _SKIPPED:
            yield from _unwrapped(child, tag)


def _is_continued(properties: Element | None) -> bool:
    """Whether the cell belongs to the one above it (vMerge) or beside it (hMerge)."""
    if properties is None:
        return False
    merges = (properties.find(name) for name in (f"{W}vMerge", f"{W}hMerge"))
    return any(merge is not None and merge.get(f"{W}val", "continue") == "continue" for merge in merges)


def _span(properties: Element | None) -> int:
    return 1 if properties is None else max(1, _number(properties.find(f"{W}gridSpan"), 1))


def _row_value(properties: Element | None, name: str) -> int:
    return 0 if properties is None else max(0, _number(properties.find(f"{W}{name}"), 0))


def _number(element: Element | None, default: int) -> int:
    text = None if element is None else element.get(f"{W}val")
    return min(int(text), _MAX_COLUMNS) if text is not None and text.isdecimal() else default


def _is_deleted(properties: Element | None) -> bool:
    """Whether the paragraph mark is a tracked deletion, so that a blank paragraph is none."""
    return properties is not None and properties.find(f"{W}rPr/{W}del") is not None


def _comment_label(element: Element) -> str:
    author = element.get(f"{W}author", "").strip()
    return f"[Comment by {author}]:" if author else "[Comment]:"
