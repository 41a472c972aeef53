"""What a Word document consists of, as its reader hands it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Paragraph:
    """A line of text, "" for a blank one."""

    text: str
    level: int | None = None
    """Rank as a heading, 1 the highest; None for body text."""


@dataclass
class Table:
    """Rows of cells; merged cells have their text in the first one and "" in the others."""

    rows: Sequence[Sequence[str]]


@dataclass
class Image:
    """A picture."""

    part: str
    alt: str


Block = Paragraph | Table | Image
