"""Where things stand on a PDF page: columns to read one after another, and tables drawn with rules."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

_MIN_GUTTER = 9.0
"""Points; a word space of 12 pt text is 3 to 4, justified up to 8."""
_MIN_ROWS = 3
_MIN_COLUMN = 30.0
_MIN_WORD = 8.0
"""Wider than a bullet."""
_MIN_PROSE_ROWS = 6
_MIN_PROSE_WIDTH = 10.0
"""Of a column of text, in heights of its lines; terms of a glossary take less."""
_MIN_WORDS = 3.0
_MIN_LETTERS = 8
"""In a line of such a column, on the average."""
_FULL = 0.85
"""Share of its column's width that a line fills when the text runs on below it."""
_EARLY = 0.7
"""Share of its column's width at which a line ends a paragraph."""
_GAP = 1.2
"""Distance of two lines, in that of most lines, at which they belong apart."""
_LONG_RUN = 5
"""Lines of a paragraph; cells of tables are shorter."""
_RUNNING = 0.25
"""Share of the lines that go on from a full one."""
_ALTERNATING = 0.7
_SNAP = 2.5
_MAX_RULES = 2_000
MAX_BOXES = 5_000


class Box(NamedTuple):
    """In points from the lower left corner of the page."""

    left: float
    bottom: float
    right: float
    top: float


class Row(NamedTuple):
    """Boxes on one line, left to right."""

    boxes: list[Box]
    bottom: float
    top: float


class Rule(NamedTuple):
    """A horizontal (`at` is y) or vertical (`at` is x) line."""

    at: float
    start: float
    end: float


class Grid(NamedTuple):
    """A ruled table: column edges left to right, row edges top to bottom, and the rules between them."""

    xs: list[float]
    ys: list[float]
    horizontal: list[Rule]
    vertical: list[Rule]

    columns: list[float]
    """Where one column ends and the next begins."""
    rows_down: list[float]
    """Where one row ends and the next begins, downwards and so growing."""
    box: Box


def _grid(xs: list[float], ys: list[float], horizontal: list[Rule], vertical: list[Rule]) -> Grid:
    box = Box(xs[0], ys[-1], xs[-1], ys[0])
    return Grid(xs, ys, horizontal, vertical, xs[1:-1], [-y for y in ys[1:-1]], box)


def may_have_columns(text: str, boxes: int) -> bool:
    """A first look that needs no place: whether enough of the text boxes share a line of the text with another."""
    lines = sum(1 for line in text.split("\n") if line and not line.isspace())
    return 2 * _MIN_ROWS <= boxes <= MAX_BOXES and boxes - lines >= _MIN_ROWS


def column_areas(boxes: Sequence[Box], read: Callable[[Box], str]) -> list[Box] | None:
    """Areas of the page in reading order, or None where the given order needs no change.

    The engine's order is right nearly always: it is changed only where it goes to and fro across an empty strip line
    by line, and both sides of the strip prove to be running text. Tables have such strips too.

    Args:
        boxes: Text boxes in the engine's order.
        read: Gives the text in a box.
    """
    if not 2 * _MIN_ROWS <= len(boxes) <= MAX_BOXES or not _jumps_along_lines(boxes):
        return None
    rows = rows_of(boxes)
    if sum(len(row.boxes) > 1 for row in rows) < _MIN_ROWS:
        return None
    height = median(row.top - row.bottom for row in rows)
    areas: list[Box] = []
    page = _around(boxes)
    top = page.top + 1
    index = 0
    while index < len(rows):
        end, gutter = _block(rows, index, height)
        if gutter is None:
            index += 1
            continue
        if not _alternates(boxes, rows[index:end], gutter) or not _is_prose(rows[index:end], gutter, read):
            index = end
            continue
        upper = (rows[index - 1].bottom + rows[index].top) / 2 if index else top
        lower = (rows[end - 1].bottom + rows[end].top) / 2 if end < len(rows) else page.bottom - 1
        if upper < top:
            areas.append(Box(page.left - 1, upper, page.right + 1, top))
        middle = sum(gutter) / 2
        areas += [Box(page.left - 1, lower, middle, upper), Box(middle, lower, page.right + 1, upper)]
        top, index = lower, end
    if not areas:
        return None
    if top > page.bottom:
        areas.append(Box(page.left - 1, page.bottom - 1, page.right + 1, top))
    return areas


def _jumps_along_lines(boxes: Sequence[Box]) -> bool:
    """Whether the given order leaves a wide gap inside a line three times across one strip: a cheap first look."""
    gaps: list[tuple[float, float]] = []
    last_left, last_bottom, last_right, last_top = boxes[0]
    for left, bottom, right, top in boxes:
        jumps = left - last_right >= _MIN_GUTTER and bottom < last_top and top > last_bottom
        if jumps and last_right - last_left >= _MIN_WORD:
            gaps.append((last_right, left))
        last_left, last_bottom, last_right, last_top = left, bottom, right, top
    return len(gaps) >= _MIN_ROWS and _have_common_strip(gaps)


def _have_common_strip(gaps: list[tuple[float, float]]) -> bool:
    edges = sorted([(left, 1) for left, _ in gaps] + [(right - _MIN_GUTTER, 2) for _, right in gaps])
    return max(accumulate(1 if side == 1 else -1 for _, side in edges)) >= _MIN_ROWS


def rows_of(boxes: Sequence[Box]) -> list[Row]:
    """Boxes grouped into lines by their vertical overlap, top to bottom."""
    rows: list[Row] = []
    row: list[Box] = []
    middle = low = high = 0.0
    for box in sorted(boxes, key=lambda b: -(b[1] + b[3])):
        _, bottom, _, top = box
        centre, height = (bottom + top) / 2, top - bottom
        if row and middle - centre < 0.5 * (height if height > 1.0 else 1.0):
            row.append(box)
            low, high = (bottom if bottom < low else low), (top if top > high else high)
            continue
        if row:
            rows.append(Row(sorted(row), low, high))
        row, middle, low, high = [box], centre, bottom, top
    if row:
        rows.append(Row(sorted(row), low, high))
    return rows


def _block(rows: list[Row], first: int, height: float) -> tuple[int, tuple[float, float] | None]:
    """The rows from `first` on that share an empty strip: (end of the run, strip), or (first + 1, None)."""
    best: tuple[int, tuple[float, float] | None] = (first + 1, None)
    for strip in _gaps(rows[first]) if len(rows[first].boxes) > 1 else ():
        end, both = first + 1, 1
        while end < len(rows) and rows[end - 1].bottom - rows[end].top < 3 * height:
            narrowed = _common(strip, rows[end])
            if narrowed is None:
                break
            both += _is_on_both_sides(rows[end], narrowed)
            strip, end = narrowed, end + 1
        if both >= _MIN_ROWS and (best[1] is None or end > best[0]):
            best = (end, strip)
    return best


def _gaps(row: Row) -> list[tuple[float, float]]:
    gaps: list[tuple[float, float]] = []
    right = row.boxes[0].right
    for box in row.boxes[1:]:
        if box.left - right >= _MIN_GUTTER:
            gaps.append((right, box.left))
        right = max(right, box.right)
    return gaps


def _common(strip: tuple[float, float], row: Row) -> tuple[float, float] | None:
    left, right = strip
    for box in row.boxes:
        if box.right <= (left + right) / 2:
            left = max(left, box.right)
        elif box.left >= (left + right) / 2:
            right = min(right, box.left)
        else:
            return None
    return (left, right) if right - left >= _MIN_GUTTER else None


def _is_on_both_sides(row: Row, strip: tuple[float, float]) -> bool:
    return row.boxes[0].right <= strip[0] + 0.1 and row.boxes[-1].left >= strip[1] - 0.1


def _alternates(boxes: Sequence[Box], rows: list[Row], strip: tuple[float, float]) -> bool:
    """Whether the engine goes on to the right side after each line of the left one.

    It does where a program wrote the page line by line. Where it wrote a table cell by cell, the lines of a cell follow
    one another.
    """
    inside = {box for row in rows for box in row.boxes}
    sides = [box.left >= strip[0] for box in boxes if box in inside]
    both = sum(_is_on_both_sides(row, strip) for row in rows)
    return sum(a != b for a, b in pairwise(sides)) >= max(_MIN_ROWS, _ALTERNATING * (2 * both - 1))


class _Line(NamedTuple):
    """A line of one column."""

    box: Box
    text: str
    is_whole: bool
    """There is no wide gap in it."""


def _is_prose(rows: list[Row], strip: tuple[float, float], read: Callable[[Box], str]) -> bool:
    """Whether both sides of the strip prove to be columns of running text.

    Either is a sentence that runs through all its lines; or both are columns of many lines whose paragraphs begin at
    heights of their own. What proves nothing is a table.
    """
    sides = []
    for is_left in (True, False):
        parts = [part for row in rows if (part := [b for b in row.boxes if (b.left < strip[0]) == is_left])]
        if len(parts) < _MIN_ROWS:
            return False  # bullets, line numbers
        lines = [_Line(box := _around(part), read(box).strip(), _is_whole(part)) for part in parts]
        if _width(lines) < _MIN_COLUMN:
            return False
        sides.append(lines)
    if all(_is_a_sentence(side) for side in sides):
        return True
    return all(_is_column_of_text(side) for side in sides) and not _are_rows(*sides)


def _is_whole(boxes: list[Box]) -> bool:
    return all(b.left - a.right < _MIN_GUTTER for a, b in pairwise(boxes))


def _width(lines: Sequence[_Line]) -> float:
    return max(line.box.right for line in lines) - min(line.box.left for line in lines)


def _is_a_sentence(lines: Sequence[_Line]) -> bool:
    """Whether the lines begin with a capital, all go on in small letters, and only the last one ends a sentence."""
    first, *following = (line.text for line in lines)
    return (
        first[:1].isupper()
        and all(text[:1].islower() for text in following)
        and _ends_sentence(lines[-1].text)
        and not any(_ends_sentence(line.text) for line in lines[:-1])
    )


def _ends_sentence(text: str) -> bool:
    return text.rstrip("\"')”’»").endswith((".", "!", "?", "。", "！", "？", "؟", "।"))


def _is_column_of_text(lines: Sequence[_Line]) -> bool:
    """Whether there are paragraphs in it: many lines, one below another, that fill the column and go on in the next.

    Headings, formulas and tables stand between the paragraphs of a paper, so only a share of the lines has to.
    """
    height = median(line.box.top - line.box.bottom for line in lines)
    if len(lines) < _MIN_PROSE_ROWS or _width(lines) < _MIN_PROSE_WIDTH * height:
        return False
    runs = _runs(lines)
    following = [line.text for run in runs for line in run[1:]]
    if max(map(len, runs), default=0) < _LONG_RUN or len(following) < _RUNNING * len(lines):
        return False
    letters = sum(sum(char.isalpha() for char in text) for text in following)
    if letters < max(0.6 * sum(map(len, following)), _MIN_LETTERS * len(following)):
        return False
    if not _has_case(following):
        return True
    words = sum(len(text.split()) for text in following)
    small = sum(text[:1].islower() for text in following)
    return words >= _MIN_WORDS * len(following) and small >= 0.35 * len(following)


def _runs(lines: Sequence[_Line]) -> list[list[_Line]]:
    """Neighbouring lines of which each but the last fills the column."""
    width, pitch = _full_width(lines), _pitch(lines)
    runs: list[list[_Line]] = [[lines[0]]]
    for a, b in pairwise(lines):
        goes_on = (
            a.is_whole
            and b.is_whole
            and a.box.right - width.start >= _FULL * (width.end - width.start)
            and a.box.top - b.box.top <= _GAP * pitch
            and b.box.left <= a.box.left + _SNAP
        )
        if goes_on:
            runs[-1].append(b)
        else:
            runs.append([b])
    return [run for run in runs if len(run) > 1]


def _full_width(lines: Sequence[_Line]) -> Rule:
    """From the left edge to where nine tenths of the lines end: one over-long formula says nothing."""
    rights = sorted(line.box.right for line in lines)
    return Rule(0.0, min(line.box.left for line in lines), rights[int(0.9 * (len(rights) - 1))])


def _pitch(lines: Sequence[_Line]) -> float:
    return median(a.box.top - b.box.top for a, b in pairwise(lines))


def _has_case(texts: Sequence[str]) -> bool:
    """Whether the script has small letters at all."""
    joined = "".join(texts)
    return 2 * sum(char.islower() for char in joined) > sum(char.isalpha() for char in joined)


def _are_rows(left: Sequence[_Line], right: Sequence[_Line]) -> bool:
    """Whether what begins on one side begins where something begins on the other: the rows of a table.

    In columns a paragraph begins beside the middle of another one as often as not.
    """
    shared = against = 0
    for side, other in ((left, right), (right, left)):
        may_start = [*_starts(other), *_sentences(other)]
        for top in _starts(side) + (_sentences(side) if side is left else []):
            if _is_near(top, may_start):
                shared += 1
            elif _is_near(top, [line.box.top for line in other[1:]]) and top in _starts(side):
                against += 1
    return shared >= 3 and against < 0.4 * (shared + against)


def _is_near(top: float, tops: Iterable[float]) -> bool:
    return any(abs(top - other) < 2 * _SNAP for other in tops)


def _starts(lines: Sequence[_Line]) -> list[float]:
    """Upper edges of the lines that begin something: after a gap, or after a line that ends early."""
    width, pitch = _full_width(lines), _pitch(lines)
    return [
        b.box.top
        for a, b in pairwise(lines)
        if a.box.top - b.box.top > _GAP * pitch or a.box.right - width.start < _EARLY * (width.end - width.start)
    ]


def _sentences(lines: Sequence[_Line]) -> list[float]:
    """Upper edges of the lines that begin with a sentence, as few lines of a paragraph do."""
    return [b.box.top for a, b in pairwise(lines) if _ends_sentence(a.text) and not b.text[:1].islower()]


def ruled_grids(horizontal: list[Rule], vertical: list[Rule]) -> list[Grid]:
    """Tables of at least two rows and two columns whose cells are drawn with lines, top to bottom."""
    if len(horizontal) < 3 or len(vertical) < 2 or len(horizontal) + len(vertical) > _MAX_RULES:
        return []
    grids: list[Grid] = []
    for across, down in _touching(horizontal, vertical):
        xs = _snapped(rule.at for rule in down)
        ys = _snapped(rule.at for rule in across)[::-1]
        if 3 <= len(xs) <= 60 and 3 <= len(ys) <= 300:
            grids.append(_grid(xs, ys, across, down))
    return sorted(grids, key=lambda grid: -grid.ys[0])


def _touching(horizontal: list[Rule], vertical: list[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """Rules in groups that cross or touch one another."""
    group = list(range(len(horizontal) + len(vertical)))

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    vertical = sorted(vertical)
    places = [rule.at for rule in vertical]
    for i, across in enumerate(horizontal):
        first, last = bisect_left(places, across.start - _SNAP), bisect_right(places, across.end + _SNAP)
        for j in range(first, last):
            if vertical[j].start - _SNAP <= across.at <= vertical[j].end + _SNAP:
                group[root(i)] = root(len(horizontal) + j)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for i, rule in enumerate(horizontal + vertical):
        groups.setdefault(root(i), ([], []))[i >= len(horizontal)].append(rule)
    return list(groups.values())


def _snapped(positions: object) -> list[float]:
    found: list[float] = []
    for position in sorted(positions):  # type: ignore[call-overload]
        if not found or position - found[-1] > _SNAP:
            found.append(position)
    return found


def cell_origins(grid: Grid) -> list[list[tuple[int, int]]]:
    """For each field of the grid the field where its cell begins: (row, column), itself if it is not merged."""
    rows, columns = len(grid.ys) - 1, len(grid.xs) - 1
    upright, level = _spans(grid.vertical, grid.xs), _spans(grid.horizontal, grid.ys)
    origins = [[(r, c) for c in range(columns)] for r in range(rows)]
    for r in range(rows):
        middle = (grid.ys[r] + grid.ys[r + 1]) / 2
        for c in range(columns):
            if c and not _covers(upright[c], middle):
                origins[r][c] = origins[r][c - 1]
            elif r and not _covers(level[r], (grid.xs[c] + grid.xs[c + 1]) / 2):
                origins[r][c] = origins[r - 1][c]
    return origins


def _spans(rules: list[Rule], edges: list[float]) -> list[list[tuple[float, float]]]:
    """What the rules at each edge cover, a little more than their length."""
    ordered = sorted(rules)
    places = [rule.at for rule in ordered]
    found: list[list[tuple[float, float]]] = []
    for edge in edges:
        first, end = bisect_left(places, edge - _SNAP), bisect_right(places, edge + _SNAP)
        found.append([(rule.start - _SNAP, rule.end + _SNAP) for rule in ordered[first:end]])
    return found


def _covers(spans: list[tuple[float, float]], position: float) -> bool:
    return any(start <= position <= end for start, end in spans)


def _around(boxes: Sequence[Box]) -> Box:
    return Box(
        min(b.left for b in boxes), min(b.bottom for b in boxes), max(b.right for b in boxes), max(b.top for b in boxes)
    )
