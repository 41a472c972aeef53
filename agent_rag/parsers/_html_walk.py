"""A tree of HTML elements to Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..documents import Heading
from ._tables import render_table

Element = Any
"""An lxml element; lxml ships no types."""

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "head", "nav", "iframe", "object", "embed", "canvas", "select"}
    | {"datalist", "svg"}
)
_BOILERPLATE = frozenset(("header", "footer"))
_CONTENT = frozenset({"article", "main", "section", "blockquote", "li", "td", "figure", "dialog", "details"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "dir", "div"}
    | {"dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset", "header", "hgroup", "hr", "html"}
    | {"legend", "main", "noframes", "p", "search", "section", "summary", "tbody", "td", "tfoot", "th", "thead", "tr"}
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_MAX_DEPTH = 100
_MAX_COLUMNS = 256
_LAYOUT_CELL = frozenset({"table", "ul", "ol", "dl", "pre", "blockquote", "article", "section", "form", *_HEADINGS})
_CLASS_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([\w+#-]+)")


class MarkdownWriter:
    """Collects blocks of Markdown while walking a tree."""

    def __init__(self, *, keep_boilerplate: bool = False) -> None:
        self._keep_boilerplate = keep_boilerplate
        self._blocks: list[str] = []
        self._headings: list[tuple[int, int, str]] = []
        self._inline: list[str] = []

    def result(self) -> tuple[str, list[Heading]]:
        """The text and its headings by offset."""
        self._flush()
        starts: list[int] = []
        offset = 0
        for block in self._blocks:
            starts.append(offset)
            offset += len(block) + 2
        headings = [Heading(level=level, title=title, offset=starts[i]) for i, level, title in self._headings]
        return "\n\n".join(self._blocks), headings

    def walk(self, element: Element, depth: int = 0) -> None:
        """Add an element's content; its tail belongs to the parent."""
        tag = element.tag
        if not isinstance(tag, str) or self._skipped(element, tag):
            return
        if depth > _MAX_DEPTH:
            self._add_flat(element)
        elif tag in _HEADINGS:
            self._add_heading(element, _HEADINGS[tag])
        elif tag in _BLOCKS:
            self._flush()
            self._children(element, depth)
            self._flush()
        elif special := getattr(self, f"_add_{tag}", None):
            special(element, depth)
        else:
            self._children(element, depth)

    def _children(self, element: Element, depth: int) -> None:
        if element.text:
            self._inline.append(_one_line(element.text))
        for child in element:
            self.walk(child, depth + 1)
            if child.tail:
                self._inline.append(_one_line(child.tail))

    def _skipped(self, element: Element, tag: str) -> bool:
        if tag in _DROPPED or element.get("hidden") is not None:
            return True
        if (style := element.get("style")) and _HIDDEN_STYLE.search(style):
            return True
        if self._keep_boilerplate:
            return False
        if element.get("role") in ("navigation", "search"):
            return True
        if tag not in _BOILERPLATE and element.get("role") not in ("banner", "contentinfo"):
            return False
        inside = any(isinstance(a.tag, str) and a.tag in _CONTENT for a in element.iterancestors())
        return not inside and next(element.iter("h1"), None) is None

    def _flush(self) -> None:
        if self._inline:
            lines = (" ".join(line.split()) for line in "".join(self._inline).split("\n"))
            text = "\n".join(lines).strip()
            self._inline.clear()
            if text:
                self._blocks.append(text)

    def _sub(self, element: Element, depth: int) -> MarkdownWriter:
        writer = MarkdownWriter(keep_boilerplate=self._keep_boilerplate)
        writer._children(element, depth)
        writer._flush()
        return writer

    def _adopt(self, writer: MarkdownWriter) -> None:
        self._flush()
        self._headings += [(i + len(self._blocks), level, title) for i, level, title in writer._headings]
        self._blocks += writer._blocks

    def _add_heading(self, element: Element, level: int) -> None:
        self._flush()
        title = " ".join(" ".join(self._sub(element, _MAX_DEPTH - 20)._blocks).split())
        if title:
            self._headings.append((len(self._blocks), level, title))
            self._blocks.append(f"{'#' * level} {title}")

    def _add_br(self, element: Element, depth: int) -> None:
        self._inline.append("\n")

    def _add_wbr(self, element: Element, depth: int) -> None:
        return

    def _add_img(self, element: Element, depth: int) -> None:
        alt, source = " ".join((element.get("alt") or "").split()), element.get("src") or ""
        if alt:
            target = "" if source.startswith("data:") or len(source) > 500 else source.strip()
            self._inline.append(f"![{alt}]({target})")

    def _add_a(self, element: Element, depth: int) -> None:
        target = (element.get("href") or "").strip()
        inner = self._sub(element, depth)
        if len(inner._blocks) != 1 or inner._headings or "\n" in inner._blocks[0]:
            self._adopt(inner)
        elif not target or target.startswith(("#", "javascript:", "data:")) or len(target) > 2000:
            self._children(element, depth)
        else:
            before = " " if (element.text or "")[:1].isspace() else ""
            after = " " if len(element) == 0 and (element.text or "")[-1:].isspace() else ""
            self._inline.append(f"{before}[{inner._blocks[0]}]({target.replace(' ', '%20')}){after}")

    def _add_code(self, element: Element, depth: int) -> None:
        text = " ".join("".join(element.itertext()).split())
        if text:
            self._inline.append(f"``{text}``" if "`" in text else f"`{text}`")

    def _add_pre(self, element: Element, depth: int) -> None:
        self._flush()
        for line_break in element.iter("br"):
            line_break.tail = "\n" + (line_break.tail or "")
        text = "".join(element.itertext()).strip("\n").rstrip()
        if text.strip():
            labels = " ".join(e.get("class") or "" for e in (element, *element.iter("code")))
            language = _CLASS_LANGUAGE.search(labels)
            fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
            self._blocks.append(f"{fence}{language[1] if language else ''}\n{text}\n{fence}")

    def _add_ul(self, element: Element, depth: int) -> None:
        self._add_list(element, depth, ordered=False)

    _add_menu = _add_ul

    def _add_ol(self, element: Element, depth: int) -> None:
        self._add_list(element, depth, ordered=True)

    def _add_list(self, element: Element, depth: int, *, ordered: bool) -> None:
        self._flush()
        start = element.get("start") or "1"
        number = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1
        items: list[str] = []
        for child in element:
            if not isinstance(child.tag, str) or self._skipped(child, child.tag):
                continue
            inner = self._sub(child, depth + 1) if child.tag == "li" else self._wrapped(child, depth + 1)
            body = "\n".join(inner._blocks)
            if body:
                marker = f"{number}. " if ordered else "- "
                number += 1
                items.append(marker + body.replace("\n", "\n" + " " * len(marker)))
        if element.text and element.text.strip():
            items.insert(0, _one_line(element.text).strip())
        items += [_one_line(c.tail).strip() for c in element if c.tail and c.tail.strip()]
        if items:
            self._blocks.append("\n".join(items))

    def _wrapped(self, element: Element, depth: int) -> MarkdownWriter:
        writer = MarkdownWriter(keep_boilerplate=self._keep_boilerplate)
        writer.walk(element, depth)
        writer._flush()
        return writer

    def _add_table(self, element: Element, depth: int) -> None:
        self._flush()
        rows = [row for row in _own(element, "tr") if not self._skipped(row, "tr")]
        for caption in _own(element, "caption"):
            self.walk(caption, depth + 1)
        cells = [[c for c in row if c.tag in ("td", "th") and not self._skipped(c, c.tag)] for row in rows]
        width = max(map(len, cells), default=0)
        if width < 2 or any(next(c.iter(*_LAYOUT_CELL), None) is not None for row in cells for c in row):
            self._flush()
            for cell in (c for row in rows for c in row):
                self.walk(cell, depth + 1)
                self._flush()
            return
        grid = [row for row in _grid([[(c, self._cell(c, depth)) for c in row] for row in cells]) if any(row)]
        if table := render_table(grid, "markdown").rstrip("\n"):
            self._blocks.append(table)

    def _cell(self, element: Element, depth: int) -> str:
        return "\n".join(self._sub(element, depth + 2)._blocks)

    def _add_flat(self, element: Element) -> None:
        """Text of a subtree too deep to recurse into, a line per block."""
        from lxml import etree

        hidden = 0
        for event, node in etree.iterwalk(element, events=("start", "end")):
            if not isinstance(node.tag, str):
                continue
            dropped = node.tag in _DROPPED
            hidden += dropped if event == "start" else -dropped
            if node.tag in _BLOCKS or node.tag in _HEADINGS or node.tag in ("br", "li", "table", "pre", "ul", "ol"):
                self._inline.append("\n")
            text = node.text if event == "start" else (node.tail if node is not element else None)
            if text and not hidden:
                self._inline.append(_one_line(text))


def _one_line(text: str) -> str:
    return text.replace("\n", " ") if "\n" in text else text


def _own(table: Element, tag: str) -> Iterator[Element]:
    """Rows or captions of a table, not those of tables inside it."""
    for child in table:
        if child.tag == tag:
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from (grandchild for grandchild in child if grandchild.tag == tag)


def _grid(rows: list[list[tuple[Element, str]]]) -> list[list[str]]:
    """Cells in their columns: a merged cell's text stands in its first field, the others it covers are empty."""
    grid: list[list[str]] = []
    covered: dict[int, int] = {}
    for row in rows:
        line: list[str] = []
        below: dict[int, int] = {column: left - 1 for column, left in covered.items() if left > 1}
        for cell, text in row:
            while len(line) in covered:
                line.append("")
            span = min(_span(cell, "colspan"), max(1, _MAX_COLUMNS - len(line)))
            if (down := _span(cell, "rowspan")) > 1:
                below.update({len(line) + i: down - 1 for i in range(span)})
            line += [text] + [""] * (span - 1)
        while covered and len(line) <= max(covered):
            line.append("")
        covered = below
        grid.append(line)
    return grid


def _span(cell: Element, name: str) -> int:
    value = cell.get(name) or ""
    return max(1, min(int(value), 1000)) if value.isascii() and value.isdigit() and len(value) < 6 else 1
