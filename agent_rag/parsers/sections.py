"""The blocks of a text document gathered into Sections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ..content import TextBlock
from ..documents import Section
from .blocks import Block, Image, Paragraph, Table
from .headings import Headings
from .tables import TableFormat, render_table


class ImageSource(Protocol):
    """Where the images of a document come from."""

    filename: str

    def image(self, part: str, *, alt: str, **metadata: Any) -> Section:
        """The image called `part` as a Section of its own."""


class SectionWriter:
    """Merges text into Sections; an image, and a table when asked for, stands alone.

    A Section that continues below an image carries the headings above it as `heading_path`. A heading that ends one
    of those starts the next Section, since a path has no ranks.
    """

    def __init__(
        self, package: ImageSource, *, separate_table: bool, table_format: TableFormat, **metadata: Any
    ) -> None:
        self._package = package
        self._separate_table = separate_table
        self._table_format: TableFormat = table_format
        self._metadata = metadata
        self._sections: list[Section] = []
        self._path: list[tuple[int, str]] = []
        self._start()

    def write(self, blocks: Iterable[Block]) -> None:
        """Add blocks in their order."""
        for block in blocks:
            match block:
                case Paragraph():
                    self._paragraph(block)
                case Table():
                    self._table(block)
                case Image():
                    self._image(block)

    def finish(self) -> list[Section]:
        """All Sections."""
        self._flush()
        return self._sections

    def _start(self) -> None:
        self._inherited = list(self._path)
        self._lines: list[str] = []
        self._length = 0
        self._headings = Headings()

    def _paragraph(self, block: Paragraph) -> None:
        if block.level is None:
            self._line(block.text)
            return
        if any(level >= block.level for level, _ in self._inherited):
            self._flush()
        title = " ".join(block.text.split())
        self._path = [*((level, above) for level, above in self._path if level < block.level), (block.level, title)]
        if not self._lines:
            self._inherited = self._path[:-1]
        offset = self._length + 1 if self._lines else 0
        self._headings.add(block.level, title, offset)
        self._line(f"{'#' * min(block.level, 6)} {title}")

    def _table(self, block: Table) -> None:
        text = render_table(block.rows, self._table_format)
        if self._separate_table and text:
            self._flush()
            self._line(text)
            self._flush()
        elif text:
            self._line(text)

    def _image(self, block: Image) -> None:
        self._flush()
        section = self._package.image(block.part, alt=block.alt, **self._metadata)
        section.heading_path = [title for _, title in self._path]
        self._sections.append(section)

    def _line(self, text: str) -> None:
        if not text and not self._lines:
            return
        self._length += len(text) + bool(self._lines)
        self._lines.append(text)

    def _flush(self) -> None:
        text = "\n".join(self._lines).rstrip()
        if text:
            section = Section(
                content=TextBlock(text=text), source=self._package.filename, metadata=dict(self._metadata)
            )
            section.headings = self._headings.found
            section.heading_path = [title for _, title in self._inherited]
            self._sections.append(section)
        self._start()
