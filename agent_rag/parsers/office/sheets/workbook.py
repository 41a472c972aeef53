"""The content of a workbook, whatever file format it came from."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....documents import Section
from .grid import Grid


@dataclass
class Sheet:
    """One sheet of a workbook."""

    name: str
    hidden: bool
    grid: Grid
    remarks: list[str] = field(default_factory=list)
    """What stands on the sheet beside its cells: text boxes, charts, comments. One paragraph each."""
    images: list[Section] = field(default_factory=list)
    """By row, then column."""
    unread_comments: int = 0
