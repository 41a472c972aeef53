"""Source code, kept as written."""

from __future__ import annotations

import re
from typing import ClassVar

from ..._util.languages import LANGUAGE_BY_EXTENSION, language_of
from ...documents import Section
from .outline import ini_headings
from .plain import DecodingParser, as_written

_CODING = re.compile(rb"[ \t\f]*(?:#|//|/\*|;|--|%).*?coding[:=][ \t]*([-\w.]+)")


_SECTIONED = ("ini", "toml")


class CodeParser(DecodingParser):
    """The text as it stands, one Section with metadata ``{"format": "code", "language": "python"}``.

    The language comes from the file's name, else from its shebang or modeline; one that is not known gives ``"text"``.
    The sections of .ini and .toml files are headings, so that an option is found with its section.
    """

    format_name = "source code"
    version: ClassVar[int] = 3
    supported_media_types: ClassVar[list[str]] = [
        "text/x-python", "application/javascript", "text/javascript", "text/x-c", "text/x-java-source", "text/x-go",
        "text/x-rust", "application/x-sh", "application/sql", "application/toml",
    ]  # fmt: skip

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return sorted(LANGUAGE_BY_EXTENSION)

    def declared_charset(self, data: bytes) -> str | None:
        """That of the comment in the first two lines that PEP 263 defines; other languages and editors read it, too."""
        for line in data[:1000].splitlines()[:2]:
            if found := _CODING.match(line):
                return found[1].decode("ascii")
        return None

    def read_text(self, text: str, filename: str) -> list[Section]:
        language = language_of(filename, text) or "text"
        headings = ini_headings(text) if language in _SECTIONED else []
        return as_written(text, filename, headings, format="code", language=language)
