"""The chunker that fits a Section: the default of ingestion."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, ClassVar

from .._util.languages import language_of
from ..documents import Section
from ..places import LineNumbers
from ._text import STRUCTURED_CHARACTERS, Piece, SizedChunker, SizeParameters
from ._windows import Span
from .code import CodeChunker
from .json import JSONChunker
from .lengths import LengthFunction
from .markdown import MarkdownChunker
from .recursive import RecursiveChunker

_BY_FORMAT: dict[str, type[SizedChunker]] = {
    "markdown": MarkdownChunker,
    "json": JSONChunker,
    "jsonl": JSONChunker,
    "code": CodeChunker,
    "yaml": CodeChunker,
}
_FORMAT_BY_MEDIA_TYPE = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/html": "markdown",
    "application/json": "json",
    "application/x-ndjson": "json",
    "application/jsonl": "json",
    "application/javascript": "code",
    "text/javascript": "code",
    "application/x-sh": "code",
}
_FORMAT_BY_EXTENSION = {
    ".md": "markdown", ".markdown": "markdown", ".mdown": "markdown", ".mkd": "markdown", ".mdx": "markdown",
    ".html": "markdown", ".htm": "markdown", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".geojson": "json",
    ".jsonld": "json", ".ipynb": "markdown",
}  # fmt: skip
# Formats whose chunks repeat keys or follow the syntax instead of overlapping.
_WITHOUT_OVERLAP = (JSONChunker, CodeChunker)


class AutoChunker(SizedChunker):
    """Cuts each Section with the chunker of its ``metadata["format"]``: markdown, json, jsonl or code; else with
    RecursiveChunker. `overlap` counts for Markdown and plain text only."""

    chunker_type: ClassVar[str] = "auto"
    _in_process_characters: ClassVar[int] = STRUCTURED_CHARACTERS

    class Parameters(SizeParameters):
        """Given on to the chunker of each format."""

    def __init__(self, parameters: Any = None, *, length: LengthFunction | str | None = None, **options: Any) -> None:
        super().__init__(parameters, length=length, **options)
        classes: set[type[SizedChunker]] = {RecursiveChunker, *_BY_FORMAT.values()}
        self._chunkers = {cls: self._made(cls) for cls in classes}

    def split(self, section: Section) -> Iterable[Piece | Span]:
        return self._chunkers[chunker_class(section)].split(section)

    def _made(self, cls: type[SizedChunker]) -> SizedChunker:
        chunk_size = self.parameters.chunk_size
        overlap = 0 if cls in _WITHOUT_OVERLAP else self.parameters.overlap
        return cls(cls.Parameters(chunk_size=chunk_size, overlap=overlap), length=self.length)


def chunker_for(what: Section | str, **options: Any) -> SizedChunker:
    """A chunker for a Section (by its ``metadata["format"]``), a media type or a file name.

    Args:
        what: For example ``section``, ``"text/markdown"`` or ``"notes.md"``.
        options: `chunk_size`, `overlap`, `length`; the chunker's own defaults otherwise.
    """
    return chunker_class(what)(**options)


def chunker_class(what: Section | str) -> type[SizedChunker]:
    """The class that `chunker_for` instantiates."""
    form = _format_in(what) if isinstance(what, Section) else _format_of(what)
    return _BY_FORMAT.get(form, RecursiveChunker) if isinstance(form, str) else RecursiveChunker


def _format_in(section: Section) -> object:
    """Its declared format; rows of a sheet are a Markdown table."""
    has_rows = isinstance(section.places, LineNumbers) and section.places.unit == "rows"
    return section.metadata.get("format", "markdown" if has_rows else None)


def _format_of(name: str) -> str | None:
    media_type = name.partition(";")[0].strip().lower()
    if media_type in _FORMAT_BY_MEDIA_TYPE:
        return _FORMAT_BY_MEDIA_TYPE[media_type]
    if media_type.endswith("+json"):
        return "json"
    if language_of(name) is not None or (media_type.startswith("text/x-") and media_type != "text/x-rst"):
        return "code"
    return _FORMAT_BY_EXTENSION.get(PurePath(name).suffix.lower())
