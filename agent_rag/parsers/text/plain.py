"""Plain text, and any other text file as it stands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, ClassVar

from ...documents import Heading, Section, text_section
from ...errors import EmptyFileError
from ...places import LineNumbers
from ...workers import is_isolated, run_isolated
from ..base import ParserBase
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation, FileParser, check_size, parse_errors
from .encoding import check_encoding, decode

_TERMINAL = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)?|[()][0-9A-Z])")


class DecodingParser(FileParser):
    """A parser of a text format: bytes are decoded first, then `read_text` does the rest."""

    version: ClassVar[int] = 3

    def __init__(
        self,
        *,
        encoding: str | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        """Args: encoding: Decodes strictly with this codec; None detects it (BOM, UTF-8, declaration, statistics).
        isolation: Where a file is read: "auto" by its size, "process", or "none" for a thread.
        """
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        self.encoding = check_encoding(encoding) if encoding else None

    def read(self, data: bytes, filename: str) -> list[Section]:
        text = decode(data, filename, encoding=self.encoding, declared=self.declared_charset(data))
        return self.read_text(text, filename)

    def declared_charset(self, data: bytes) -> str | None:
        """The charset that the file itself names, if its format can."""
        return None

    def read_text(self, text: str, filename: str) -> list[Section]:
        """Turn the decoded text into Sections."""
        raise NotImplementedError

    async def parse_text(self, text: str, filename: str) -> list[Section]:
        """Parse text that is already decoded. Never looks at the disk, so a user's text cannot name a local file.

        Raises: EmptyFileError, ParseLimitError, ParseError.
        """
        if is_isolated():
            return self._text_here(text, filename)
        if self.isolation == "process" or (self.isolation == "auto" and len(text) > self.largest_in_thread):
            return await run_isolated(_text_here, self, text, filename, filename=filename)
        return await asyncio.to_thread(self._text_here, text, filename)

    def _text_here(self, text: str, filename: str) -> list[Section]:
        check_size(len(text), filename, self.max_file_bytes)
        if not text:
            raise EmptyFileError(f"{filename}: the text is empty (0 characters)")
        with parse_errors(filename, self.format_name):
            return self.read_text(text.removeprefix("\ufeff"), filename)


def _text_here(parser: DecodingParser, text: str, filename: str) -> list[Section]:
    return parser._text_here(text, filename)


class TextParser(DecodingParser):
    """The whole file as one Section, split downstream by a chunker; markup stays in the text, the colours of a terminal
    do not.

    `parser_for` takes a more specific parser for Markdown, HTML, CSV and the rest.
    """

    format_name = "text"
    supported_media_types: ClassVar[list[str]] = [
        "text/plain",
        "text/markdown",
        "text/csv",
        "text/html",
        "text/x-rst",
        "application/json",
        "application/xml",
        "application/x-yaml",
    ]

    def __init__(
        self,
        encoding: str | None = None,
        *,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(encoding=encoding, max_file_bytes=max_file_bytes, isolation=isolation)

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [
            ".csv", ".htm", ".html", ".ics", ".json", ".log", ".md", ".po", ".pot", ".rst", ".text", ".txt", ".types",
            ".vcf", ".xml", ".yaml", ".yml",
        ]  # fmt: skip

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        """Read bytes or a path. A str that names no existing file is the text itself, as in AgentScope.

        For text that somebody else wrote use `parse_text`: as a str it could name a local file.
        """
        if isinstance(file, str) and not _is_file(file):
            return await self.parse_text(file, filename)
        return await super().parse(file, filename)

    def read_text(self, text: str, filename: str) -> list[Section]:
        return as_written(without_colours(text), filename)


async def parse_text(text: str, filename: str, *, parser: ParserBase | None = None) -> list[Section]:
    """Parse text in memory as what `filename` says it is (``notes.md`` as Markdown). Never looks at the disk.

    Args: parser: Decides instead of the file name.

    Raises: EmptyFileError, ParseError.
    """
    from ..registry import text_parser_for

    chosen = parser or text_parser_for(filename)
    if isinstance(chosen, DecodingParser):
        return await chosen.parse_text(text, filename)
    if not text:
        raise EmptyFileError(f"{filename}: the text is empty (0 characters)")
    return await chosen.parse(text.encode("utf-8", "surrogatepass"), filename)


def one_section(text: str, filename: str, headings: list[Heading], **metadata: Any) -> list[Section]:
    """A file's text as one Section with its headings."""
    section = text_section(text, filename, **metadata)
    section.headings = headings
    return [section]


def as_written(text: str, filename: str, headings: list[Heading] | None = None, **metadata: Any) -> list[Section]:
    """`one_section` of a text whose lines are those of the file."""
    sections = one_section(text, filename, headings or [], **metadata)
    sections[0].places = LineNumbers(unit="lines", runs=[(0, 1)])
    return sections


def without_colours(text: str) -> str:
    """Terminal output without the sequences that set colours, move the cursor or name the window."""
    # A function, so that a text of colours alone does not hold the interpreter for all of it.
    return _TERMINAL.sub(lambda _: "", text) if "\x1b" in text else text


def _is_file(text: str) -> bool:
    try:
        return len(text) < 4096 and "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):
        return False
