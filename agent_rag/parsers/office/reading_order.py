"""Boxes on a slide in the order in which one reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_OVERLAP = 0.15
"""Share of a box's height or width that may reach into its neighbour, since frames are drawn loosely."""
_HEAD_RATIO = 1.5
"""A row whose boxes are this much higher than those above holds the bodies to the heads above it."""


class Box(NamedTuple, Generic[T]):
    """Something at a place, in any unit."""

    left: float
    top: float
    width: float
    height: float
    item: T


def in_reading_order(boxes: Sequence[Box[T]]) -> list[Box[T]]:
    """Rows from top to bottom, each from left to right; columns that stand side by side are read one by one.

    A recursive X-Y cut (Nagy and Seth, "Hierarchical Representation of Optically Scanned Documents", ICPR 1984), with
    one addition: two rows of equally many boxes, the lower ones clearly higher, are heads over bodies and are read
    column by column.
    """
    if len(boxes) < 2:
        return list(boxes)
    rows = _bands(boxes, _vertical)
    if len(rows) > 1:
        return [box for block in _with_bodies(rows) for box in block]
    columns = _bands(boxes, _horizontal)
    if len(columns) > 1:
        return [box for column in columns for box in in_reading_order(column)]
    return sorted(boxes, key=lambda box: (box.top, box.left))


def _with_bodies(rows: list[list[Box[T]]]) -> list[list[Box[T]]]:
    blocks: list[list[Box[T]]] = []
    index = 0
    while index < len(rows):
        heads = _bands(rows[index], _horizontal)
        bodies = _bands(rows[index + 1], _horizontal) if index + 1 < len(rows) else []
        if _belong_together(heads, bodies):
            pairs = zip(heads, bodies, strict=True)
            blocks.append([box for head, body in pairs for box in in_reading_order([*head, *body])])
            index += 2
        else:
            blocks.append(in_reading_order(rows[index]))
            index += 1
    return blocks


def _belong_together(heads: list[list[Box[T]]], bodies: list[list[Box[T]]]) -> bool:
    if not 1 < len(heads) == len(bodies):
        return False
    aligned = all(_share_columns(head, body) for head, body in zip(heads, bodies, strict=True))
    return aligned and _height(bodies) >= _HEAD_RATIO * _height(heads)


def _share_columns(head: list[Box[T]], body: list[Box[T]]) -> bool:
    left = max(min(box.left for box in head), min(box.left for box in body))
    right = min(max(box.left + box.width for box in head), max(box.left + box.width for box in body))
    return right > left


def _height(row: list[list[Box[T]]]) -> float:
    return max(box.height for column in row for box in column)


def _vertical(box: Box[T]) -> tuple[float, float]:
    return box.top, box.height


def _horizontal(box: Box[T]) -> tuple[float, float]:
    return box.left, box.width


def _bands(boxes: Sequence[Box[T]], extent: Callable[[Box[T]], tuple[float, float]]) -> list[list[Box[T]]]:
    """Groups of boxes between which a straight line can be drawn, in order."""
    bands: list[list[Box[T]]] = []
    end = float("-inf")
    for box in sorted(boxes, key=lambda box: extent(box)[0] + extent(box)[1] * _OVERLAP):
        start, size = extent(box)
        if bands and start + size * _OVERLAP < end:
            bands[-1].append(box)
        else:
            bands.append([box])
        end = max(end, start + size * (1 - _OVERLAP))
    return bands
