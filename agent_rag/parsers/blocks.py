"""What a document of text consists of, as the reader of its format hands it on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def cell_text(blocks: Iterable[Block]) -> str:
    """Blocks as the text of one cell; a nested table is written with tabs."""
    lines = []
    for block in blocks:
        if isinstance(block, Paragraph):
            lines.append(block.text)
        elif isinstance(block, Table):
            lines += ["\t".join(cell.replace("\n", " ") for cell in row).rstrip() for row in block.rows]
    return "\n".join(lines).strip()
