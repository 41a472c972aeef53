"""HTML to Markdown while it is parsed: no tree is built, so a large page takes little more than its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...documents import Heading
from ..headings import MAX_HEADINGS, Headings
from ..tables import render_table
from .blocks import Mark, Scope, squeezed
from .table import MAX_COLUMNS, Cell, Rows

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "nav", "iframe", "object", "embed", "canvas", "select", "datalist"}
)
_SVG_DROPPED = frozenset({"defs", "desc", "metadata", "symbol", "title"})
_MARGIN_DROPPED = frozenset({"button", "form"})
_MARKDOWN_LINK = re.compile(r"!?\[[^\]\n]*\]\([^)\n]*\)")
_DATA_IMAGE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=\s]+)$")
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
_MAX_SPAN = 1_000

Closer = Callable[[], None] | None
Attributes = Mapping[str, str]


class EmbeddedImage(NamedTuple):
    """An image that stands in the page itself."""

    media_type: str
    data: str
    """Base64, perhaps with white space."""
    alt: str


class MarkdownTarget:
    """A parser target of lxml: gets tags and text in order, gives Markdown on `close`."""

    def __init__(self, *, keep_boilerplate: bool = False) -> None:
        self.title = ""
        self._keep_boilerplate = keep_boilerplate
        self._scopes = [Scope("\n\n")]
        self._closers: list[Closer] = []
        self.images: list[EmbeddedImage] = []
        """Of ``data:`` addresses."""
        self._skipping = 0
        self._svg_depth = 0
        self._margin_depth = 0
        self._raw: list[str] | None = None
        self._language = ""
        self._content_depth = 0
        self._lists: list[list[int]] = []
        """[is ordered, next number] of each open list."""
        self._tables: list[Rows] = []
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
            self._scopes[-1].write(text.replace("\n", " ") if "\n" in text else text)

    def close(self) -> tuple[str, list[Heading]]:
        """The text and its headings by offset."""
        while self._closers:
            if closer := self._closers.pop():
                closer()
        page = self._scopes[0]
        page.flush()
        headings = Headings()
        offset = block = 0
        for mark in page.headings:
            offset += sum(len(text) + 2 for text in page.blocks[block : mark.block])
            block = mark.block
            headings.add(mark.level, mark.title, offset + mark.offset)
        return page.text(), headings.found

    def _skipped(self, tag: str, attributes: Attributes) -> bool:
        if tag in _DROPPED or attributes.get("hidden", "until-found") != "until-found":
            return True
        if (self._svg_depth and tag in _SVG_DROPPED) or (self._margin_depth and tag in _MARGIN_DROPPED):
            return True
        if "style" in attributes and _HIDDEN_STYLE.search(attributes["style"]):
            return True
        return not self._keep_boilerplate and attributes.get("role") in ("navigation", "search")

    def _begin(self, tag: str, attributes: Attributes) -> Closer:
        """Open an element; returns what is to be done at its end."""
        if self._is_margin(tag, attributes):
            self._margin_depth += 1
            self._push("\n\n")
            return self._end_margin
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

    def _is_margin(self, tag: str, attributes: Attributes) -> bool:
        if self._keep_boilerplate or self._content_depth or self._margin_depth:
            return False
        return tag in ("header", "footer") or attributes.get("role") in ("banner", "contentinfo")

    def _end_margin(self) -> None:
        """Of a page's header or footer what says something: lines of links only are navigation."""
        self._margin_depth -= 1
        scope = self._pop()
        if not scope.headings:
            scope.blocks = [kept for block in scope.blocks if (kept := _without_navigation(block))]
        self._scopes[-1].adopt(scope)

    def _push(self, separator: str = "\n") -> None:
        self._scopes.append(Scope(separator))

    def _pop(self) -> Scope:
        scope = self._scopes.pop()
        scope.flush()
        return scope

    def _end_heading(self, level: int) -> None:
        title = squeezed(self._pop().text())
        scope = self._scopes[-1]
        if title:
            scope.flush()
            scope.headings.append(Mark(len(scope.blocks), 0, level, title))
            scope.add(f"{'#' * level} {title}")
            if len(scope.headings) > 2 * MAX_HEADINGS:
                lowest = max(mark.level for mark in scope.headings)
                scope.headings = [mark for mark in scope.headings if mark.level < lowest]

    def _begin_title(self, attributes: Attributes) -> Closer:
        self._raw = []
        return self._end_title

    def _end_title(self) -> None:
        self.title = self.title or " ".join("".join(self._raw or ()).split())
        self._raw = None

    def _begin_br(self, attributes: Attributes) -> Closer:
        self._scopes[-1].write("\n")
        return None

    def _begin_img(self, attributes: Attributes) -> Closer:
        alt, source = " ".join(attributes.get("alt", "").split()), attributes.get("src", "").strip()
        if embedded := _DATA_IMAGE.match(source):
            self.images.append(EmbeddedImage(embedded[1], embedded[2], alt))
        if alt:
            target = "" if source.startswith("data:") or len(source) > 500 else source
            self._scopes[-1].write(f"![{alt}]({target})")
        return None

    def _begin_svg(self, attributes: Attributes) -> Closer:
        self._svg_depth += 1
        return self._end_svg

    def _end_svg(self) -> None:
        self._svg_depth -= 1

    def _begin_text(self, attributes: Attributes) -> Closer:
        """A label in a drawing."""
        return self._begin_block("text") if self._svg_depth else None

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
        parent.write(f"{raw[:1].isspace() * ' '}{text}{raw[-1:].isspace() * ' '}")

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
            self._scopes[-1].write(f"``{text}``" if "`" in text else f"`{text}`")

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
        if text := self._pop().text():
            self._scopes[-1].add(text)

    def _begin_li(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._push()
        return self._end_item

    def _end_item(self) -> None:
        self._content_depth -= 1
        text = self._pop().text()
        if not text:
            return
        marker = "- "
        if self._lists and self._lists[-1][0]:
            marker = f"{self._lists[-1][1]}. "
            self._lists[-1][1] += 1
        self._scopes[-1].add(marker + text.replace("\n", "\n" + " " * len(marker)))

    def _begin_table(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._tables.append(Rows())
        self._push("\n\n")
        return self._end_table

    def _begin_tr(self, attributes: Attributes) -> Closer:
        if not self._tables:
            return self._begin_block("div")
        self._tables[-1].begin()
        return None

    def _begin_td(self, attributes: Attributes) -> Closer:
        if not self._tables:
            return self._begin_block("td")
        self._push()
        self._spans.append((_span(attributes, "colspan", MAX_COLUMNS), _span(attributes, "rowspan", _MAX_SPAN)))
        return self._end_cell

    def _begin_th(self, attributes: Attributes) -> Closer:
        self._content_depth += 1
        return self._begin_td(attributes)

    def _end_cell(self) -> None:
        self._content_depth -= 1
        scope, spans = self._pop(), self._spans.pop()
        text = "" if scope.structured else scope.text()
        plain = spans == (1, 1) and not scope.structured
        self._tables[-1].add(text if plain else Cell(text, *spans, scope if scope.structured else None))

    def _end_table(self) -> None:
        rows, around = self._tables.pop(), self._pop()
        rows.begin()
        parent = self._scopes[-1]
        parent.adopt(around)  # the caption, and text that stands between cells
        if rows.width < 2 or rows.structured:
            for cell in rows.cells():
                text = cell if isinstance(cell, str) else cell.text
                if not isinstance(cell, str) and cell.scope:
                    parent.adopt(cell.scope)
                elif text:
                    parent.add(text)
        elif table := render_table(rows.grid(), "markdown").rstrip("\n"):
            parent.add(table)


def _without_navigation(block: str) -> str:
    lines = (line for line in block.split("\n") if _says_something(line))
    return "\n".join(lines)


def _says_something(line: str) -> bool:
    return any(char.isalnum() for char in _MARKDOWN_LINK.sub("", line))


def _span(attributes: Attributes, name: str, most: int) -> int:
    return max(1, min(_number(attributes.get(name, ""), default=1), most)) if name in attributes else 1


def _number(text: str, *, default: int) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
