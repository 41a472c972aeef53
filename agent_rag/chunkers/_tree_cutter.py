"""Cutting a syntax tree: where a text may be divided, what each division costs, and the cheapest that fit."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from ._syntax_tree import SyntaxTree
from ._windows import Cutter, Span, largest_fit

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 400
"""Below this a node is cut as text."""
_GLUED = 1_000
"""Cost of dividing what belongs together: a signature and its body, a comment or an attribute and what it is about."""
_MID_LINE = 100_000
_LEADS = {
    "access_specifier", "annotation", "attribute", "attribute_item", "attribute_list", "attribute_specifier",
    "decorator", "marker_annotation", "preproc_region", "visibility_modifier",
}  # fmt: skip
_LABEL = re.compile(r"(?:private|protected|public|module_function|private_class_method|#\s*pragma mark\b.*)[ \t]*:?\Z")
_BODY = re.compile("body|block|compound|declaration_list|enumerator_list|suite")
_WITHOUT_PARTS = re.compile("comment|string|heredoc|char|text|regex")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_OPENING = frozenset("{([:=")
_CLOSING = frozenset(")]};,:")
_LOOK_BACK = 400
_NEAR = 32
"""Characters of a line within which one place to divide it is enough."""


class TreeCutter:
    """Divides a text at the starts of the nodes of its tree.

    A node that fits the size is never entered, so that it stays whole. A division costs its depth in the tree, and
    much more inside a line or between parts of one thing; each span ends at the cheapest division of its second half.
    The work is linear in the text: a node is looked at once, and only where its parent does not fit.
    """

    def __init__(self, tree: SyntaxTree, cutter: Cutter) -> None:
        self.tree, self.text, self.cutter = tree, tree.text, cutter
        self.costs: dict[int, int] = {}
        """Place of a division -> its cost."""
        self.items: dict[int, Span] = {}
        """Place of a division -> the outermost node that begins behind it (and behind its comments)."""
        self.large: set[int] = set()
        """Divisions before a node that does not fit."""

    def cut(self) -> list[Span]:
        """Spans in order, none over the size but for a single character."""
        self._collect()
        places = sorted(self.costs)
        spans: list[Span] = []
        start, stop, width = 0, len(self.text), 4 * self.cutter.size
        while start < stop:
            reach = self._reach(start, stop, width)
            width = reach - start
            end = stop if reach >= stop else self._best(places, start, reach)
            if end > start:
                spans.append((start, end))
                start = end
                continue
            following = bisect_right(places, reach)
            limit = places[following] if following < len(places) else stop
            pieces = self.cutter.cut(self.text, start, limit)
            spans += pieces[:-1]
            start = max(pieces[-1][0], start + 1) if len(pieces) > 1 else limit
            if len(pieces) == 1:
                spans.append(pieces[0])
        return spans

    def _reach(self, start: int, stop: int, guess: int) -> int:
        if self.cutter.length is len:
            return start + self.cutter.size
        length, text = self.cutter.length, self.text
        return start + largest_fit(
            lambda count: length(text[start : start + count]), self.cutter.size, stop - start, guess=guess
        )

    def _best(self, places: list[int], start: int, reach: int) -> int:
        """The place in (start, reach] to end at; `start` when there is none."""
        first, last = bisect_right(places, start), bisect_right(places, reach)
        half = bisect_right(places, start + (reach - start) // 2, first, last)
        found = self._cheapest(places[half:last])
        # What stands before a large definition does not swallow its beginning.
        early = places[bisect_right(places, start + (reach - start) // 5) : half]
        large = self._cheapest([place for place in early if place in self.large])
        if large is not None and (found is None or self.costs[large] < self.costs[found]):
            found = large
        if found is None or self.costs[found] >= _GLUED:
            sooner = self._cheapest(places[first:half])
            if sooner is not None and (found is None or self.costs[sooner] < self.costs[found]):
                found = sooner
        if found is not None and self.costs[found] >= _MID_LINE:
            return self.text.rfind("\n", start + (reach - start) // 8, reach) + 1 or found
        return start if found is None else found

    def _cheapest(self, places: list[int]) -> int | None:
        return min(places, key=lambda place: (self.costs[place], -place), default=None)

    # --- where a text may be divided ---

    def _collect(self) -> None:
        waiting: list[tuple[Node, int]] = [(self.tree.root, 1)]
        while waiting:
            node, depth = waiting.pop()
            waiting += [(child, depth + 1) for child in self._divided(node, depth) if depth < _MAX_DEPTH]

    def _divided(self, node: Node, depth: int) -> list[Node]:
        """Note the divisions between the children of a node that does not fit.

        Returns: those to divide as well: they do not fit, or are its body, whose begin must not stand alone.
        """
        entered: list[Node] = []
        body = node.child_by_field_name("body")
        body_start = self.tree.span(body)[0] if body is not None else -1
        lead: int | None = None
        before: int | None = None
        noted = -_NEAR
        for child in node.named_children:
            start, end = self.tree.span(child)
            if start == end or (end - noted < _NEAR and lead is None and "\n" not in self.text[noted:end]):
                before = end
                continue
            noted = start
            kind = child.type
            is_comment = "comment" in kind
            gap = "\n\n" if before is None else self.text[before:start]
            before = end
            if is_comment and "\n" not in gap:
                continue  # It stands behind what it is about.
            if lead is not None and is_comment and _BLANK_LINE.search(gap):
                lead = None
            fits = self._fits(start, end)
            if is_comment or kind in _LEADS or (fits and end - start < 100 and _LABEL.match(self.text, start, end)):
                self._note(start, depth if lead is None else depth + _GLUED, (start, end))
                lead = start if lead is None else lead
                continue
            if lead is not None and not _BLANK_LINE.search(gap):
                self.items[self._place(lead)] = (start, end)
                self._note(start, depth + _GLUED, (start, end))
                head = lead
            else:
                self._note(start, depth + (_GLUED if start == body_start else 0), (start, end))
                head = start
            lead = None
            if not fits:
                self.large.add(self._place(head))
            if (not fits or start == body_start or _BODY.search(kind)) and not _WITHOUT_PARTS.search(kind):
                entered.append(child)
        return entered

    def _note(self, start: int, cost: int, item: Span) -> None:
        place = self._place(start)
        if place in self.costs or place == 0:
            self.items.setdefault(place, item)
            return
        if place == start and self.text[start - 1] != "\n":
            cost += _MID_LINE
        mark = self.text[start]
        before = self.text[max(0, place - _LOOK_BACK) : place].rstrip()[-1:]
        if mark in _CLOSING or before in _OPENING or (mark == "{" and before not in ",;}"):
            cost += _GLUED
        self.costs[place] = cost
        self.items[place] = item

    def _place(self, start: int) -> int:
        """Start of the line where only white space stands before `start`."""
        line = self.text.rfind("\n", max(0, start - _LOOK_BACK), start) + 1
        if line == 0 and start > _LOOK_BACK:
            return start
        return line if not self.text[line:start].strip() else start

    def _fits(self, start: int, end: int) -> bool:
        if self.cutter.length is len:
            return end - start <= self.cutter.size
        return end - start <= 16 * self.cutter.size and self.cutter.length(self.text[start:end]) <= self.cutter.size
