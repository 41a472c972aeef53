"""Lists and tables of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from ..tables import render_table
from .attributes import Attributes
from .code import Closer
from .table import MAX_COLUMNS, Cell, Grid, Rows
from .writer import Opener, PageWriter

_FENCE_LINE = re.compile(r"^ *`{3,}[^`\n]*\n?", re.M)
_MAX_SPAN = 1_000


class StructureWriter(PageWriter):
    """Writes lists and tables."""

    def __init__(self) -> None:
        super().__init__()
        self._lists: list[list[int]] = []
        """[is ordered, next number] of each open list."""
        self._tables: list[Rows] = []

    def _begin_ul(self, attributes: Attributes) -> Closer:
        return self._begin_list(ordered=False, start=1)

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

    structure_openers: ClassVar[Mapping[str, Opener]] = {
        "li": _begin_li, "menu": _begin_ul, "ol": _begin_ol, "table": _begin_table, "td": _begin_td, "th": _begin_th,
        "thead": _begin_thead, "tr": _begin_tr, "ul": _begin_ul,
    }  # fmt: skip


def _span(attributes: Attributes, name: str, most: int) -> int:
    return max(1, min(_number(attributes.get(name, ""), default=1), most)) if name in attributes else 1


def _number(text: str, *, default: int) -> int:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
