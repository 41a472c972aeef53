"""HTML to Markdown while it is parsed: no tree is built, so a large page takes little more than its text."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...documents import Heading
from ..headings import MAX_HEADINGS, Headings
from ..tables import render_table
from .attributes import (
    PERMALINK_SIGNS,
    Attributes,
    code_language,
    is_copy_button,
    is_hidden,
    is_navigation,
    is_no_text,
    is_permalink,
    is_preformatted,
)
from .blocks import Mark, Scope, squeezed
from .code import BLOCKS, HEADINGS, Closer, RawText
from .inline import Code, fenced, subscript, superscript
from .math import Formula, in_dollars
from .navigation import drop_navigation_lines, without_navigation
from .table import MAX_COLUMNS, Cell, Grid, Rows

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "nav", "iframe", "object", "embed", "canvas", "select", "datalist"}
)
_SVG_DROPPED = frozenset({"defs", "desc", "metadata", "symbol", "title"})
_MARGIN_DROPPED = frozenset({"button", "form"})
_DATA_IMAGE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=\s]+)$")
_CONTENT = frozenset({"article", "main", "section", "blockquote", "li", "td", "figure", "dialog", "details"})
_STRUCTURED = frozenset({"article", "blockquote", "dl", "form", "section"})
_FENCE_LINE = re.compile(r"^ *`{3,}[^`\n]*\n?", re.M)
_MAX_SPAN = 1_000


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
        self._main_depth = 0
        self._main = Scope("\n\n")
        """What stands in the page's ``main`` elements."""
        self._heading_depth = 0
        self._raw: RawText | None = None
        self._languages: list[str] = []
        """Of the elements around code."""
        self._formula: Formula | None = None
        self._muted = False
        """Between LaTeX2HTML's comments around its navigation."""
        self._content_depth = 0
        self._lists: list[list[int]] = []
        """[is ordered, next number] of each open list."""
        self._tables: list[Rows] = []

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._skipping or self._skipped(tag, attributes):
            self._skipping += 1
        elif self._formula is not None:
            self._formula.start(tag, attributes)
            self._closers.append(self._formula.end)
        elif self._raw is not None:
            self._closers.append(self._raw.start(tag, attributes))
        else:
            self._closers.append(self._begin(tag, attributes))

    def end(self, tag: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif self._closers and (closer := self._closers.pop()):
            closer()

    def data(self, text: str) -> None:
        if self._skipping or self._muted:
            return
        if self._formula is not None:
            self._formula.data(text)
        elif self._raw is not None:
            self._raw.data(text)
        else:
            self._scopes[-1].write(text.replace("\n", " ") if "\n" in text else text)

    def comment(self, text: str) -> None:
        if "Navigation Panel" in text[:40]:
            self._muted = "End of" not in text[:40]

    def close(self) -> tuple[str, list[Heading]]:
        """The text and its headings by offset."""
        while self._closers:
            if closer := self._closers.pop():
                closer()
        page = self._page()
        if not self._keep_boilerplate:
            drop_navigation_lines(page)
        headings = Headings()
        offset = block = 0
        for mark in page.headings:
            offset += sum(len(text) + 2 for text in page.blocks[block : mark.block])
            block = mark.block
            headings.add(mark.level, mark.title, offset + mark.offset)
        return page.text(), headings.found

    def _page(self) -> Scope:
        """A main that is not empty is the page, with the title above it where it has none of its own."""
        around = self._scopes[0]
        around.flush()
        if not self._main.blocks:
            return around
        title = next((mark for mark in around.headings if mark.level == 1), None)
        if title is None or any(mark.level == 1 for mark in self._main.headings):
            return self._main
        page = Scope("\n\n")
        page.headings.append(Mark(0, 0, 1, title.title))
        page.add(f"# {title.title}")
        page.adopt(self._main)
        return page

    def _skipped(self, tag: str, attributes: Attributes) -> bool:
        if tag in _DROPPED:
            return not (tag == "script" and attributes.get("type", "").startswith("math/tex"))
        if (self._svg_depth and tag in _SVG_DROPPED) or (self._margin_depth and tag in _MARGIN_DROPPED):
            return True
        if tag == "button" and (self._raw is not None or is_copy_button(attributes)):
            return True
        if not attributes or tag in ("html", "body"):
            return False
        if is_hidden(attributes) or is_no_text(attributes):
            return True
        if tag == "a" and self._raw is not None and is_permalink(attributes, ""):
            return "headerlink" in attributes.get("class", "")
        return not self._keep_boilerplate and is_navigation(attributes)

    def _begin(self, tag: str, attributes: Attributes) -> Closer:
        """Open an element; returns what is to be done at its end."""
        if self._is_margin(tag, attributes):
            self._margin_depth += 1
            self._push("\n\n")
            return self._end_margin
        if tag == "main" or attributes.get("role") == "main":
            return self._begin_main()
        if tag in _CONTENT:
            self._content_depth += 1
        if tag in HEADINGS:
            self._heading_depth += 1
            self._push(is_inline=True)
            return lambda: self._end_heading(HEADINGS[tag])
        if special := getattr(self, f"_begin_{tag}", None):
            closer: Closer = special(attributes)
            return closer
        return self._begin_block(tag) if tag in BLOCKS else None

    def _begin_main(self) -> Closer:
        self._content_depth += 1
        self._main_depth += 1
        self._scopes[-1].flush()
        self._push("\n\n")
        return self._end_main

    def _end_main(self) -> None:
        self._content_depth -= 1
        self._main_depth -= 1
        scope = self._pop()
        (self._scopes[-1] if self._main_depth or self._keep_boilerplate else self._main).adopt(scope)

    def _begin_div(self, attributes: Attributes) -> Closer:
        """A block; it may name the language of the code in it, or be code itself."""
        self._scopes[-1].flush()
        language = code_language("div", attributes) if attributes else ""
        if attributes and is_preformatted(attributes):
            return self._begin_pre(attributes)
        if not language:
            return self._end_block
        self._languages.append(language)
        return self._end_language

    def _end_language(self) -> None:
        self._languages.pop()
        self._scopes[-1].flush()

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
            scope.blocks = [kept for block in scope.blocks if (kept := without_navigation(block))]
        self._scopes[-1].adopt(scope)

    def _push(self, separator: str = "\n", *, is_inline: bool = False) -> None:
        self._scopes.append(Scope(separator, is_inline=is_inline))

    def _pop(self) -> Scope:
        scope = self._scopes.pop()
        scope.flush()
        return scope

    def _end_heading(self, level: int) -> None:
        self._heading_depth -= 1
        inner = self._pop()
        title = squeezed(inner.text()).rstrip("¶").rstrip() or inner.aside
        scope = self._scopes[-1]
        if title and self._heading_depth:
            scope.write(f" {title} ")
        elif title:
            scope.flush()
            scope.headings.append(Mark(len(scope.blocks), 0, level, title))
            scope.add(f"{'#' * level} {title}")
            scope.is_layout = True
            if len(scope.headings) > 2 * MAX_HEADINGS:
                lowest = max(mark.level for mark in scope.headings)
                scope.headings = [mark for mark in scope.headings if mark.level < lowest]

    def _begin_button(self, attributes: Attributes) -> Closer:
        """Text between spaces; in a heading it counts only where there is nothing else."""
        if not self._heading_depth:
            self._scopes[-1].write(" ")
            return lambda: self._scopes[-1].write(" ")
        self._push(is_inline=True)
        return self._end_heading_button

    def _end_heading_button(self) -> None:
        text = squeezed(self._pop().text())
        self._scopes[-1].aside = f"{self._scopes[-1].aside} {text}".strip()

    def _begin_script(self, attributes: Attributes) -> Closer:
        """TeX for MathJax; other scripts are left out."""
        self._raw = RawText()
        is_block = "mode=display" in attributes.get("type", "").replace(" ", "")
        return lambda: self._end_script(is_block)

    def _end_script(self, is_block: bool) -> None:
        if tex := " ".join(self._taken_raw().text().split()):
            self._scopes[-1].write(in_dollars(tex, is_block=is_block))

    def _begin_math(self, attributes: Attributes) -> Closer:
        self._formula = Formula(attributes)
        return self._end_math

    def _end_math(self) -> None:
        formula, self._formula = self._formula, None
        if formula is not None:
            self._scopes[-1].write(formula.written())

    def _begin_sup(self, attributes: Attributes) -> Closer:
        self._push(is_inline=True)
        return lambda: self._end_index(is_super=True)

    def _begin_sub(self, attributes: Attributes) -> Closer:
        self._push(is_inline=True)
        return lambda: self._end_index(is_super=False)

    def _end_index(self, *, is_super: bool) -> None:
        inner, parent = self._pop(), self._scopes[-1]
        text = squeezed(inner.text())
        before = parent.before()
        parent.has_link |= inner.has_link
        parent.write(superscript(before, text, is_link=inner.has_link) if is_super else subscript(before, text))

    def _begin_title(self, attributes: Attributes) -> Closer:
        self._raw = RawText()
        return self._end_title

    def _end_title(self) -> None:
        self.title = self.title or " ".join(self._taken_raw().text().split())

    def _begin_br(self, attributes: Attributes) -> Closer:
        self._scopes[-1].write("\n")
        return None

    def _begin_img(self, attributes: Attributes) -> Closer:
        alt, source = " ".join(attributes.get("alt", "").split()), attributes.get("src", "").strip()
        if embedded := _DATA_IMAGE.match(source):
            self.images.append(EmbeddedImage(embedded[1], embedded[2], alt))
        if alt and self._heading_depth:
            self._scopes[-1].write(alt)
        elif alt and not self._muted:
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
        self._push(is_inline=True)
        return lambda: self._end_link(attributes)

    def _end_link(self, attributes: Attributes) -> None:
        scope = self._scopes.pop()
        raw = "".join(scope.inline)
        scope.flush()
        parent = self._scopes[-1]
        parent.has_link = True
        if len(scope.blocks) != 1 or scope.structured or "\n" in scope.blocks[0]:
            parent.adopt(scope)
            return
        text = scope.blocks[0]
        if set(text) <= PERMALINK_SIGNS and is_permalink(attributes, text):
            return
        target = attributes.get("href", "").strip()
        is_plain = self._heading_depth or parent.before().endswith("!")
        if target and not is_plain and not target.startswith(("#", "javascript:", "data:")) and len(target) <= 2_000:
            text = f"[{text}]({target.replace(' ', '%20')})"
        parent.write(f"{raw[:1].isspace() * ' '}{text}{raw[-1:].isspace() * ' '}")

    def _taken_raw(self) -> RawText:
        raw, self._raw = self._raw, None
        assert raw is not None
        return raw

    def _begin_code(self, attributes: Attributes) -> Closer:
        self._raw = RawText(code_language("code", attributes))
        return self._end_code

    def _end_code(self) -> None:
        raw = self._taken_raw()
        if raw.is_block and not self._heading_depth:
            self._scopes[-1].flush()
            self._add_code(raw)
            return
        written = raw.text()
        scope = self._scopes[-1]
        text = " ".join(written.split())
        if not text:
            scope.write(" " * bool(written))
            return
        if written[0].isspace():
            scope.write(" ")
        if self._heading_depth:
            scope.write(text)
        elif scope.inline and isinstance(scope.inline[-1], Code):
            scope.inline[-1] = Code(scope.inline[-1].text + text)
        else:
            scope.write(Code(text))
        if written[-1].isspace():
            scope.write(" ")

    def _begin_pre(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._raw = RawText(code_language("pre", attributes), is_block=True)
        return lambda: self._add_code(self._taken_raw())

    def _add_code(self, raw: RawText) -> None:
        text = raw.text().strip("\n").rstrip()
        if text.strip():
            self._scopes[-1].add(fenced(text, raw.language or (self._languages[-1] if self._languages else "")))

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
        scope = self._pop()
        if scope.headings:
            self._scopes[-1].adopt(scope)
        elif text := scope.text():
            self._scopes[-1].add(text)
            self._scopes[-1].is_layout |= scope.is_layout

    def _begin_li(self, attributes: Attributes) -> Closer:
        self._scopes[-1].flush()
        self._push()
        return self._end_item

    def _end_item(self) -> None:
        self._content_depth -= 1
        scope = self._pop()
        if scope.headings:  # a list of parts of the page, not of items
            self._scopes[-1].adopt(scope)
            return
        text = scope.text()
        if not text:
            return
        self._scopes[-1].is_layout |= scope.is_layout
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
        return self._begin_cell(attributes, is_name=False)

    def _begin_th(self, attributes: Attributes) -> Closer:
        self._content_depth += 1
        return self._begin_cell(attributes, is_name=True)

    def _begin_cell(self, attributes: Attributes, *, is_name: bool) -> Closer:
        if not self._tables:
            return self._begin_block("td")
        self._push()
        spans = _span(attributes, "colspan", MAX_COLUMNS), _span(attributes, "rowspan", _MAX_SPAN)
        return lambda: self._end_cell(spans, is_name)

    def _end_cell(self, spans: tuple[int, int], is_name: bool) -> None:
        self._content_depth -= 1
        scope = self._pop()
        text = scope.text()
        if scope.structured:
            text = "" if scope.is_layout else _FENCE_LINE.sub("", text).strip()
        is_plain = spans == (1, 1) and not scope.structured
        cell = text if is_plain else Cell(text, *spans, scope if scope.structured else None)
        self._tables[-1].add(cell, is_name=is_name)

    def _begin_thead(self, attributes: Attributes) -> Closer:
        if self._tables:
            self._tables[-1].in_head = True
        return self._end_head

    def _end_head(self) -> None:
        if self._tables:
            self._tables[-1].begin()
            self._tables[-1].in_head = False

    def _end_table(self) -> None:
        rows, around = self._tables.pop(), self._pop()
        rows.begin()
        parent = self._scopes[-1]
        parent.adopt(around)  # the caption, and text that stands between cells
        for part in rows.parts():
            if isinstance(part, list):
                self._write_cells(part)
            elif rows.width < 2:
                for row in part.rows:
                    self._write_cells(list(row))
            else:
                self._write_grid(part)

    def _write_cells(self, cells: list[Cell | str]) -> None:
        parent = self._scopes[-1]
        for cell in cells:
            text = cell if isinstance(cell, str) else cell.text
            if not isinstance(cell, str) and cell.scope:
                parent.adopt(cell.scope)
            elif text:
                parent.add(text)

    def _write_grid(self, grid: Grid) -> None:
        table = render_table(grid.rows, "markdown", has_header=grid.has_header)
        if table := table.rstrip("\n"):
            self._scopes[-1].add(table)
            self._scopes[-1].is_layout = True


def _span(attributes: Attributes, name: str, most: int) -> int:
    return max(1, min(_number(attributes.get(name, ""), default=1), most)) if name in attributes else 1


def _number(text: str, *, default: int) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
