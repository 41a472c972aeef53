"""HTML to Markdown while it is parsed: no tree is built, so a large page takes little more than its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..._util.markup import MAX_HEADINGS
from ...documents import Heading
from ..headings import Headings
from .attributes import Attributes, is_copy_button, is_hidden, is_navigation, is_no_text, is_permalink
from .blocks import Mark, Scope, squeezed
from .code import BLOCKS, HEADINGS, Closer, RawText
from .navigation import drop_navigation_lines, without_navigation
from .phrases import PhraseWriter
from .structure import StructureWriter
from .writer import CONTENT, Opener

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "nav", "iframe", "object", "embed", "canvas", "select", "datalist"}
)
_SVG_DROPPED = frozenset({"defs", "desc", "metadata", "symbol", "title"})
_MARGIN_DROPPED = frozenset({"button", "form"})


class MarkdownTarget(PhraseWriter, StructureWriter):
    """A parser target of lxml: gets tags and text in order, gives Markdown on `close`."""

    def __init__(self, *, keep_boilerplate: bool = False) -> None:
        super().__init__()
        self.title = ""
        self._keep_boilerplate = keep_boilerplate
        self._closers: list[Closer] = []
        self._skipping = 0
        self._svg_depth = 0
        self._margin_depth = 0
        self._main_depth = 0
        self._main = Scope("\n\n")
        """What stands in the page's ``main`` elements."""

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
        if tag in CONTENT:
            self._content_depth += 1
        if tag in HEADINGS:
            self._heading_depth += 1
            self._push(is_inline=True)
            return lambda: self._end_heading(HEADINGS[tag])
        if opener := self._openers.get(tag):
            return opener(self, attributes)
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

    def _begin_title(self, attributes: Attributes) -> Closer:
        self._raw = RawText()
        return self._end_title

    def _end_title(self) -> None:
        self.title = self.title or " ".join(self._taken_raw().text().split())

    def _begin_svg(self, attributes: Attributes) -> Closer:
        self._svg_depth += 1
        return self._end_svg

    def _end_svg(self) -> None:
        self._svg_depth -= 1

    def _begin_text(self, attributes: Attributes) -> Closer:
        """A label in a drawing."""
        return self._begin_block("text") if self._svg_depth else None

    _openers: ClassVar[Mapping[str, Opener]] = {
        **PhraseWriter.phrase_openers, **StructureWriter.structure_openers,
        "button": _begin_button, "svg": _begin_svg, "text": _begin_text, "title": _begin_title,
    }  # fmt: skip
