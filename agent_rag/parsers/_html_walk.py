"""HTML to Markdown while it is parsed: no tree is built, so a large page takes little more than its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..documents import Heading
from ._tables import render_table

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "nav", "iframe", "object", "embed", "canvas", "select", "datalist"}
    | {"svg"}
)
_CONTENT = frozenset({"article", "main", "section", "blockquote", "li", "td", "figure", "dialog", "details"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "body", "center", "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset"}
    | {"figcaption", "figure", "footer", "form", "frameset", "header", "hgroup", "hr", "html", "legend", "main"}
    | {"noframes", "p", "search", "section", "summary", "tbody", "tfoot", "thead", "blockquote", "caption"}
)
_STRUCTURED = frozenset({"article", "blockquote", "dl", "form", "section"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_CLASS_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([\w+#-]+)")
_MAX_COLUMNS = 256
_MAX_SPAN = 1_000
_MAX_FIELDS = 5_000_000
"""Fields of one table, merged ones counted as often as they cover: beyond it spans are taken as 1."""

Closer = Callable[[], None] | None
Attributes = Mapping[str, str]


class _Scope:
    """Blocks of Markdown in the making: of the page, or of a list item, a table cell, a link, a heading."""

    __slots__ = ("blocks", "headings", "inline", "structured")

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.headings: list[tuple[int, int, str]] = []
        """(index of its block, level, title)"""
        self.inline: list[str] = []
        self.structured = False
        """Holds a list, a table, a heading or code, which have no place in a table cell."""

    def flush(self) -> None:
        """End the running paragraph."""
        if len(self.inline) == 1 and "\n" not in self.inline[0]:
            if text := " ".join(self.inline.pop().split()):
                self.blocks.append(text)
        elif self.inline:
            lines = [" ".join(line.split()) for line in "".join(self.inline).split("\n")]
            self.inline.clear()
            if text := "\n".join(lines).strip():
                self.blocks.append(text)

    def add(self, block: str) -> None:
        self.flush()
        self.blocks.append(block)
        self.structured = True

    def adopt(self, other: _Scope) -> None:
        self.flush()
        self.headings += [(index + len(self.blocks), level, title) for index, level, title in other.headings]
        self.blocks += other.blocks
        self.structured |= other.structured


class _Cell(NamedTuple):
    """A cell that is merged or more than a line of text; others are just their text, since tables can be large."""

    text: str
    columns: int
    rows: int
    scope: _Scope | None
    """Set where the cell holds more than text."""


class MarkdownTarget:
    """A parser target of lxml: gets tags and text in order, gives Markdown on `close`."""

    def __init__(self, *, keep_boilerplate: bool = False) -> None:
        self.title = ""
        self._keep_boilerplate = keep_boilerplate
        self._scopes = [_Scope()]
        self._closers: list[Closer] = []
        self._skipping = 0
        self._raw: list[str] | None = None
        self._language = ""
        self._content_depth = 0
        self._lists: list[list[int]] = []
        """[is ordered, next number] of each open list."""
        self._tables: list[list[list[_Cell | str]]] = []
        self._spans: list[tuple[int, int]] = []
        """(columns, rows) of each open cell."""

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._skipping or self._skipped(tag, attributes):
            self._skipping += 1
        elif self._raw is not None:
            self._raw_start(tag, attributes)
        else:
            self._closers.append(self._begin(tag, attributes))

    def end(self, tag: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif self._closers and (closer := self._closers.pop()):
            closer()

    def data(self, text: str) -> None:
        if self._skipping:
            return
        if self._raw is not None:
            self._raw.append(text)
        else:
            self._scopes[-1].inline.append(text.replace("\n", " "))

    def close(self) -> tuple[str, list[Heading]]:
        """The text and its headings by offset."""
        while self._closers:
            if closer := self._closers.pop():
                closer()
        page = self._scopes[0]
        page.flush()
        starts: list[int] = []
        offset = 0
        for block in page.blocks:
            starts.append(offset)
            offset += len(block) + 2
        headings = [Heading(level=level, title=title, offset=starts[index]) for index, level, title in page.headings]
        return "\n\n".join(page.blocks), headings

    def _skipped(self, tag: str, attributes: Attributes) -> bool:
        if tag in _DROPPED or "hidden" in attributes:
            return True
        if "style" in attributes and _HIDDEN_STYLE.search(attributes["style"]):
            return True
        return not self._keep_boilerplate and attributes.get("role") in ("navigation", "search")

    def _begin(self, tag: str, attributes: Attributes) -> Closer:
        """Open an element; returns what is to be done at its end."""
        if self._is_boilerplate(tag, attributes):
            self._push()
            return self._end_boilerplate
        if tag in _CONTENT:
            self._content_depth += 1
        if tag in _HEADINGS:
            self._push()
            return lambda: self._end_heading(_HEADINGS[tag])
        if special := getattr(self, f"_begin_{tag}", None):
            closer: Closer = special(attributes)
            return closer
        return self._begin_block(tag) if tag in _BLOCKS else None

    def _begin_block(self, tag: str) -> Closer:
        scope = self._scopes[-1]
        scope.flush()
        scope.structured |= tag in _STRUCTURED
        return self._end_content_block if tag in _CONTENT else self._end_block

    def _end_block(self) -> None:
        self._scopes[-1].flush()

    def _end_content_block(self) -> None:
        self._content_depth -= 1
        self._scopes[-1].flush()

    def _is_boilerplate(self, tag: str, attributes: Attributes) -> bool:
        if self._keep_boilerplate or self._content_depth:
            return False
        return tag in ("header", "footer") or attributes.get("role") in ("banner", "contentinfo")

    def _end_boilerplate(self) -> None:
        """Drop the page's header or footer, unless the page's title stands in it."""
        scope = self._pop()
        if any(level == 1 for _, level, _ in scope.headings):
            self._scopes[-1].adopt(scope)

    def _push(self) -> None:
        self._scopes.append(_Scope())

    def _pop(self) -> _Scope:
        scope = self._scopes.pop()
        scope.flush()
        return scope

    def _end_heading(self, level: int) -> None:
        title = " ".join(" ".join(self._pop().blocks).split())
        scope = self._scopes[-1]
        if title:
            scope.flush()
            scope.headings.append((len(scope.blocks), level, title))
            scope.add(f"{'#' * level} {title}")

    def _begin_title(self, attributes: Attributes) -> Closer:
        self._raw = []
        return self._end_title

    def _end_title(self) -> None:
        self.title = self.title or " ".join("".join(self._raw or ()).split())
        self._raw = None

    def _begin_br(self, attributes: Attributes) -> Closer:
        self._scopes[-1].inline.append("\n")
        return None

    def _begin_img(self, attributes: Attributes) -> Closer:
        alt, source = " ".join(attributes.get("alt", "").split()), attributes.get("src", "").strip()
        if alt:
            target = "" if source.startswith("data:") or len(source) > 500 else source
            self._scopes[-1].inline.append(f"![{alt}]({target})")
        return None

    def _begin_a(self, attributes: Attributes) -> Closer:
        self._push()
        return lambda: self._end_link(attributes.get("href", "").strip())

    def _end_link(self, target: str) -> None:
        scope = self._scopes.pop()
        raw = "".join(scope.inline)
        scope.flush()
        parent = self._scopes[-1]
        if len(scope.blocks) != 1 or scope.structured or "\n" in scope.blocks[0]:
            parent.adopt(scope)
            return
        text = scope.blocks[0]
        if target and not target.startswith(("#", "javascript:", "data:")) and len(target) <= 2_000:
            text = f"[{text}]({target.replace(' ', '%20')})"
        parent.inline.append(f"{raw[:1].isspace() * ' '}{text}{raw[-1:].isspace() * ' '}")

    def _raw_start(self, tag: str, attributes: Attributes) -> None:
        assert self._raw is not None
        if tag == "br":
            self._raw.append("\n")
        self._note_language(attributes)
        self._closers.append(None)

    def _note_language(self, attributes: Attributes) -> None:
        if not self._language and (found := _CLASS_LANGUAGE.search(attributes.get("class", ""))):
            self._language = found[1]

    def _begin_code(self, attributes: Attributes) -> Closer:
        self._raw = []
        return self._end_code

    def _end_code(self) -> None:
        text = " ".join("".join(self._raw or ()).split())
        self._raw, self._language = None, ""
        if text:
            self._scopes[-1].inline.append(f"``{text}``" if "`" in text else f"`{text}`")

    def _begin_pre(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._raw, self._language = [], ""
        self._note_language(attributes)
        return self._end_pre

    def _end_pre(self) -> None:
        text = "".join(self._raw or ()).strip("\n").rstrip()
        if text.strip():
            fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
            self._scopes[-1].add(f"{fence}{self._language}\n{text}\n{fence}")
        self._raw, self._language = None, ""

    def _begin_ul(self, attributes: Attributes) -> Closer:
        return self._begin_list(ordered=False, start=1)

    _begin_menu = _begin_ul

    def _begin_ol(self, attributes: Attributes) -> Closer:
        return self._begin_list(ordered=True, start=_number(attributes.get("start", ""), default=1))

    def _begin_list(self, *, ordered: bool, start: int) -> Closer:
        self._lists.append([ordered, start])
        self._push()
        return self._end_list

    def _end_list(self) -> None:
        self._lists.pop()
        if text := "\n".join(self._pop().blocks):
            self._scopes[-1].add(text)

    def _begin_li(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._push()
        return self._end_item

    def _end_item(self) -> None:
        self._content_depth -= 1
        text = "\n".join(self._pop().blocks)
        if not text:
            return
        marker = "- "
        if self._lists and self._lists[-1][0]:
            marker = f"{self._lists[-1][1]}. "
            self._lists[-1][1] += 1
        self._scopes[-1].add(marker + text.replace("\n", "\n" + " " * len(marker)))

    def _begin_table(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._tables.append([])
        self._push()
        return self._end_table

    def _begin_tr(self, attributes: Attributes) -> Closer:
        if not self._tables:
            return self._begin_block("div")
        self._tables[-1].append([])
        return None

    def _begin_td(self, attributes: Attributes) -> Closer:
        if not self._tables:
            return self._begin_block("td")
        if not self._tables[-1]:
            self._tables[-1].append([])
        self._push()
        self._spans.append((_span(attributes, "colspan", _MAX_COLUMNS), _span(attributes, "rowspan", _MAX_SPAN)))
        return self._end_cell

    def _begin_th(self, attributes: Attributes) -> Closer:
        self._content_depth += 1
        return self._begin_td(attributes)

    def _end_cell(self) -> None:
        self._content_depth -= 1
        scope, spans = self._pop(), self._spans.pop()
        text = "" if scope.structured else "\n".join(scope.blocks)
        plain = spans == (1, 1) and not scope.structured
        self._tables[-1][-1].append(text if plain else _Cell(text, *spans, scope if scope.structured else None))

    def _end_table(self) -> None:
        rows, around = self._tables.pop(), self._pop()
        parent = self._scopes[-1]
        parent.adopt(around)  # the caption, and text that stands between cells
        special = [cell for row in rows for cell in row if not isinstance(cell, str)]
        if max(map(len, rows), default=0) < 2 or any(cell.scope for cell in special):
            for cell in (cell for row in rows for cell in row):
                text = cell if isinstance(cell, str) else cell.text
                if not isinstance(cell, str) and cell.scope:
                    parent.adopt(cell.scope)
                elif text:
                    parent.add(text)
        elif table := render_table([row for row in _grid(rows) if any(row)], "markdown").rstrip("\n"):
            parent.add(table)


def _grid(rows: list[list[_Cell | str]]) -> list[list[str]]:
    """Cells in their columns: a merged cell's text stands in its first field, the others it covers are empty."""
    merged = [cell for row in rows for cell in row if isinstance(cell, _Cell)]
    if not merged or sum(cell.columns * cell.rows for cell in merged) > _MAX_FIELDS:
        return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in rows]
    grid: list[list[str]] = []
    covered: dict[int, int] = {}
    for row in rows:
        line: list[str] = []
        below = {column: left - 1 for column, left in covered.items() if left > 1}
        for cell in row:
            while len(line) in covered:
                line.append("")
            if isinstance(cell, str):
                line.append(cell)
                continue
            columns = max(1, min(cell.columns, _MAX_COLUMNS - len(line)))
            if cell.rows > 1:
                below.update({len(line) + i: cell.rows - 1 for i in range(columns)})
            line += [cell.text] + [""] * (columns - 1)
        line += [""] * (max(covered, default=-1) + 1 - len(line))
        covered = below
        grid.append(line)
    return grid


def _span(attributes: Attributes, name: str, most: int) -> int:
    return max(1, min(_number(attributes.get(name, ""), default=1), most)) if name in attributes else 1


def _number(text: str, *, default: int) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
