"""Jupyter notebooks: their cells, with what the code printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from ...documents import Heading, Section
from ...errors import ParseError
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation
from ..headings import heading
from ..web.html import embedded_images, html_to_markdown
from ..web.inline import fenced
from ..web.phrases import EmbeddedImage
from .markdown import MARKDOWN_IN_THREAD, markdown_headings
from .plain import DecodingParser, one_section, without_colours

_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n)", re.M)
_MOST_CELLS = 4_096
_SHORTEST = 256
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class NotebookParser(DecodingParser):
    """A Section per cell that holds something, as Markdown: text as it stands, code in a fence, its outputs below.

    Metadata ``{"format": "markdown", "cell": n, "cell_type": "code"}``, n from 1 over all cells, "language" for code.
    Outputs are printed texts, tables and other HTML as Markdown, and errors, without colour codes. The headings of
    Markdown cells are above the cells that follow. Of more than 4,096 cells those under 256 characters share a Section
    with the next of their kind, and have the number of the first. Images of outputs and attachments are Sections behind
    their cell (`{"media_type": ...}`). Notebook formats 3 and 4.

    Args:
        include_outputs: Give what the code printed.
        include_image: Give images as DataBlocks.
    """

    format_name = "Jupyter notebook"
    largest_in_thread: ClassVar[int] = MARKDOWN_IN_THREAD
    supported_media_types: ClassVar[list[str]] = ["application/x-ipynb+json"]

    def __init__(
        self,
        *,
        include_outputs: bool = True,
        include_image: bool = True,
        encoding: str | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(encoding=encoding, max_file_bytes=max_file_bytes, isolation=isolation)
        self.include_outputs = include_outputs
        self.include_image = include_image

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".ipynb"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        cells, language = _opened(text, filename)
        sections: list[Section] = []
        path: list[Heading] = []
        del text
        for number, written in self._written(cells, language):
            metadata: dict[str, Any] = {"format": "markdown", "cell": number, "cell_type": written.kind}
            if written.kind == "code":
                metadata["language"] = language
            for text, headings in _parts(written, path):
                (section,) = one_section(text, filename, headings, **metadata)
                above = path if not headings or headings[0].offset else _above(path, headings[0].level)
                section.heading_path = [heading.title for heading in above]
                sections.append(section)
                for found in headings:
                    path = [*_above(path, found.level), found]
            if self.include_image:
                images = embedded_images(written.images, filename, cell=number, cell_type=written.kind)
                for image in images:
                    image.heading_path = [heading.title for heading in path]
                sections += images
        return sections

    def _written(self, cells: list[Any], language: str) -> Iterator[tuple[int, _Cell]]:
        """The cells with their numbers, as they are used up; of thousands the short ones with those behind them."""
        shortest = _SHORTEST if len(cells) > _MOST_CELLS else 0
        count = len(cells)
        cells.reverse()
        held: tuple[int, _Cell] | None = None
        for number in range(1, count + 1):
            cell = _Cell(cells.pop(), language, self.include_outputs)
            if held and len(held[1].text) < shortest and held[1].takes(cell):
                continue
            if held:
                yield held
            held = number, cell
        if held:
            yield held


def _parts(cell: _Cell, path: list[Heading]) -> Iterator[tuple[str, list[Heading]]]:
    """The cell's text with its headings, divided before a heading that ends one of those above: a path has no ranks."""
    start = 0
    levels = [item.level for item in path]
    inherited = levels
    taken: list[Heading] = []
    for found in markdown_headings(cell.text) if cell.kind == "markdown" else []:
        if found.offset > start and any(level >= found.level for level in inherited):
            yield cell.text[start : found.offset].rstrip(), taken
            start, taken = found.offset, []
        above = [level for level in levels if level < found.level]
        if found.offset == start:
            inherited = above
        levels = [*above, found.level]
        taken.append(heading(found.level, found.title, found.offset - start))
    if cell.text[start:]:
        yield cell.text[start:], taken


def _above(path: list[Heading], level: int) -> list[Heading]:
    return [heading for heading in path if heading.level < level]


def _opened(text: str, filename: str) -> tuple[list[Any], str]:
    """The cells and the language of the code. Raises: ParseError: it is no notebook."""
    book = json.loads(text)
    sheets = book.get("worksheets") if isinstance(book, dict) else None
    if isinstance(sheets, list):  # format 3
        cells: Any = [cell for sheet in sheets if isinstance(sheet, dict) for cell in _list(sheet.get("cells"))]
    else:
        cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        raise ParseError(f'{filename}: this JSON is no Jupyter notebook, it has no "cells"; name it .json')
    about = _dict(book.get("metadata"))
    named = _dict(about.get("language_info")).get("name") or _dict(about.get("kernelspec")).get("language")
    return cells, named if isinstance(named, str) and re.fullmatch(r"[\w+#.-]{1,30}", named) else "python"


class _Cell:
    """A cell as Markdown."""

    def __init__(self, cell: Any, language: str, include_outputs: bool) -> None:
        cell = _dict(cell)
        self.images: list[EmbeddedImage] = []
        kind = cell.get("cell_type")
        self.kind = kind if kind in ("markdown", "code") else "raw"
        source = _joined(cell.get("source", cell.get("input"))).strip("\n").rstrip()
        if kind == "heading":  # format 3
            self.kind, source = "markdown", f"{'#' * min(max(_int(cell.get('level')), 1), 6)} {source}"
        if self.kind == "code":
            parts = [fenced(source, language)] if source.strip() else []
            outputs = _list(cell.get("outputs")) if include_outputs else []
            self.text = "\n\n".join([*parts, *(text for output in outputs if (text := self._output(_dict(output))))])
            return
        self.text = source if source.strip() else ""
        for name, bundle in _dict(cell.get("attachments")).items():
            self._take_images(_dict(bundle), str(name))

    def takes(self, other: _Cell) -> bool:
        """Add a cell of the same kind without images; False for any other."""
        if self.kind != other.kind or self.images or other.images:
            return False
        self.text = "\n\n".join(text for text in (self.text, other.text) if text)
        return True

    def _output(self, output: dict[str, Any]) -> str:
        kind = output.get("output_type")
        if kind in ("error", "pyerr"):
            trace = _joined(output.get("traceback"), "\n") or f"{output.get('ename')}: {output.get('evalue')}"
            return fenced(_plain(trace))
        data = _dict(output.get("data")) or output  # format 3 has the data in the output itself
        self._take_images(data, "")
        if "text/markdown" in data:
            return _joined(data["text/markdown"]).strip()
        for name in ("text/html", "html"):
            if name in data and (text := html_to_markdown(_joined(data[name]))[1]):
                return text
        plain = next((data[name] for name in ("text/plain", "text", "text/latex", "latex") if name in data), "")
        text = _plain(_joined(plain))
        return fenced(text) if text.strip() else ""

    def _take_images(self, data: dict[str, Any], alt: str) -> None:
        found = ((kind, data.get(kind, data.get(kind.removeprefix("image/")))) for kind in _IMAGES)
        self.images += [EmbeddedImage(kind, _joined(value), alt) for kind, value in found if value]


def _plain(text: str) -> str:
    """Terminal text without colours and without what a progress bar wrote over."""
    text = without_colours(text)
    return (_OVERWRITTEN.sub("", text) if "\r" in text else text).strip("\n").rstrip()


def _joined(value: Any, separator: str = "") -> str:
    """A text, or a list of its lines."""
    if isinstance(value, list):
        return separator.join(_strings(value))
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _strings(values: list[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 1
