"""Source code, kept as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from ..._util.languages import LANGUAGE_BY_EXTENSION, language_of
from ...documents import Heading, Section
from .outline import ini_headings, sql_headings
from .plain import DecodingParser, as_written

_CODING = re.compile(rb"[ \t\f]*(?:#|//|/\*|;|--|%).*?coding[:=][ \t]*([-\w.]+)")


_OUTLINES: dict[str, Callable[[str], list[Heading]]] = {"ini": ini_headings, "toml": ini_headings, "sql": sql_headings}


class CodeParser(DecodingParser):
    """The text as it stands, one Section with metadata ``{"format": "code", "language": "python"}``.

    The language comes from the file's name, else from its shebang or modeline; one that is not known gives ``"text"``.
    The sections of .ini and .toml files and the statements of .sql are headings, so that an option is found with its
    section and values with their INSERT.
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
        headings = _OUTLINES[language](text) if language in _OUTLINES else []
        return as_written(text, filename, headings, format="code", language=language)
