"""What stands on a sheet beside its cells: images, text boxes, charts, comments."""

from __future__ import annotations

from collections.abc import Iterator

from ....documents import Section
from ...tables import TableFormat
from ..drawing import TextBody, alternative_text, chart_text, smartart_lines
from ..ooxml import CX, DGM, MC, XDR, A, C, Element, Package, R, S, decode_escapes
from .grid import area

_THREADED = "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}"


def drawings(
    package: Package, part: str, *, sheet: str, hidden: bool, with_images: bool, table_format: TableFormat
) -> tuple[list[str], list[Section]]:
    """Text boxes, charts and diagrams as paragraphs, and the images, both by their anchor's row and column."""
    texts: list[tuple[tuple[int, int], str]] = []
    images: list[tuple[tuple[int, int], Section]] = []
    metadata = {"sheet": sheet} | ({"hidden": True} if hidden else {})
    for drawing in package.related(part, "drawing"):
        reader = _DrawingReader(package, drawing, table_format)
        for anchor in package.xml(drawing):
            place = _anchor(anchor)
            texts += [(place, text) for text in reader.texts(anchor)]
            for target, alt in reader.pictures(anchor):
                if with_images:
                    images.append((place, package.image(target, alt=alt, **metadata)))
                elif alt:
                    texts.append((place, f"[Image: {alt}]"))
    by_place = [text for _, text in sorted(texts, key=lambda item: item[0])]
    return by_place, [image for _, image in sorted(images, key=lambda item: item[0])]


def comments(package: Package, part: str) -> list[str]:
    """The comments of a sheet, ``[B2] author: text``, below one headline; threads in place of their plain copies."""
    lines: list[str] = []
    threads = {
        ref: text for threaded in package.related(part, "threadedComment") for ref, text in _threads(package, threaded)
    }
    for source in package.related(part, "comments"):
        root = package.xml(source)
        authors = [author.text or "" for author in root.iter(f"{S}author")]
        for comment in root.iter(f"{S}comment"):
            reference = comment.get("ref", "")
            text = threads.pop(reference, None) or _comment(comment, authors)
            lines += [f"[{reference}] {text}"] if text else []
    lines += [f"[{reference}] {text}" for reference, text in threads.items()]
    lines.sort(key=lambda line: area(line[1 : line.index("]")]) or (0, 0, 0, 0))
    return ["\n".join(["Comments:", *lines])] if lines else []


class _DrawingReader:
    def __init__(self, package: Package, part: str, table_format: TableFormat) -> None:
        self._package = package
        self._relationships = package.relationships(part)
        self._table_format: TableFormat = table_format
        self._text = TextBody(lambda relationship_id: "")

    def texts(self, anchor: Element) -> Iterator[str]:
        """Text boxes, charts (without the values, which are in the cells) and diagrams."""
        for element in _chosen(anchor):
            if element.tag == f"{XDR}txBody":
                yield from filter(None, ["\n".join(self._text.lines(element))])
            elif element.tag in (f"{C}chart", f"{CX}chart") and (part := self._part(element.get(f"{R}id"))):
                yield from filter(None, [chart_text(self._package, part, self._table_format, with_values=False)])
            elif element.tag == f"{DGM}relIds" and (part := self._part(element.get(f"{R}dm"))):
                yield from filter(None, ["\n".join(smartart_lines(self._package.xml(part)))])

    def pictures(self, anchor: Element) -> Iterator[tuple[str, str]]:
        """(part, alternative text) of each image."""
        for element in _chosen(anchor):
            if element.tag != f"{XDR}pic":
                continue
            alt = alternative_text(next(element.iter(f"{XDR}cNvPr"), None))
            for blip in element.iter(f"{A}blip"):
                if (part := self._part(blip.get(f"{R}embed"))) is not None:
                    yield part, alt

    def _part(self, relationship_id: str | None) -> str | None:
        found = self._relationships.get(relationship_id or "")
        return found.target if found is not None and not found.external else None


def _chosen(element: Element) -> Iterator[Element]:
    """All elements below, of alternatives the first only."""
    for child in element:
        if child.tag == f"{MC}AlternateContent":
            yield from (inner for branch in list(child)[:1] for inner in _chosen(branch))
        else:
            yield child
            yield from _chosen(child)


def _anchor(anchor: Element) -> tuple[int, int]:
    row, column = (anchor.findtext(f"{XDR}from/{XDR}{name}", "0").strip() for name in ("row", "col"))
    return (int(row) if row.isdecimal() else 0, int(column) if column.isdecimal() else 0)


def _comment(comment: Element, authors: list[str]) -> str:
    text = " ".join(decode_escapes("".join(t.text or "" for t in comment.iter(f"{S}t"))).split())
    index = comment.get("authorId", "")
    author = authors[int(index)].strip() if index.isdecimal() and int(index) < len(authors) else ""
    return text if not author or text.startswith(f"{author}:") or not text else f"{author}: {text}"


def _threads(package: Package, part: str) -> Iterator[tuple[str, str]]:
    texts: dict[str, list[str]] = {}
    for comment in package.xml(part).iter(f"{_THREADED}threadedComment"):
        text = " ".join(comment.findtext(f"{_THREADED}text", "").split())
        texts.setdefault(comment.get("ref", ""), []).append(text)
    return ((reference, " / ".join(filter(None, parts))) for reference, parts in texts.items())
