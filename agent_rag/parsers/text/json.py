"""JSON and JSON Lines, kept as written."""

from __future__ import annotations

import itertools
import re
from pathlib import PurePath
from typing import ClassVar

from ...documents import Section, text_section
from ...places import LineNumbers
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation
from .plain import DecodingParser

_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|.)", re.S)
_RECORD = re.compile(r"^[^\S\n]*[^\s][^\n]*", re.M)
"""A line that is not blank."""
_LINES = (".jsonl", ".ndjson", ".jsonlines")


class JSONParser(DecodingParser):
    """The text as it stands, one Section with metadata ``{"format": "json"}``; JSON Lines in groups of records.

    Nothing is read into numbers and written again: long integers and the order of keys survive. Only ``\\uXXXX``
    escapes of characters beyond ASCII become the characters, because a search for 北京 must find them.
    A JSON Lines Section holds `records_per_section` lines: ``{"format": "jsonl", "records": "1-100"}``, counted from 1.
    """

    format_name = "JSON"
    supported_media_types: ClassVar[list[str]] = [
        "application/json",
        "application/x-ndjson",
        "application/jsonl",
        "application/geo+json",
        "application/ld+json",
    ]

    def __init__(
        self,
        *,
        records_per_section: int = 100,
        encoding: str | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(encoding=encoding, max_file_bytes=max_file_bytes, isolation=isolation)
        if records_per_section < 1:
            raise ValueError(f"records_per_section must be at least 1, got {records_per_section}")
        self.records_per_section = records_per_section

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".geojson", ".json", ".jsonl", ".jsonld", ".ndjson"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        text = unescape(text)
        if _is_json_lines(text, filename):
            return self._record_groups(text, filename)
        return [text_section(text, filename, format="json")]

    def _record_groups(self, text: str, filename: str) -> list[Section]:
        sections: list[Section] = []
        records = (match[0] for match in _RECORD.finditer(text))
        first = 1
        while group := list(itertools.islice(records, self.records_per_section)):
            numbers = f"{first}-{first + len(group) - 1}"
            section = text_section("\n".join(group), filename, format="jsonl", records=numbers)
            section.places = LineNumbers(unit="records", runs=[(0, first)])
            sections.append(section)
            first += len(group)
        return sections


def unescape(text: str) -> str:
    """Write ``\\uXXXX`` escapes beyond ASCII as characters; half a surrogate pair and ASCII controls stay escaped."""
    return _ESCAPE.sub(_character, text) if "\\u" in text else text


def _character(escape: re.Match[str]) -> str:
    high, low, single = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    code = int(single, 16) if single else 0
    return escape[0] if code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0x2028, 0x2029, 0xFEFF) else chr(code)


def _is_json_lines(text: str, filename: str) -> bool:
    if PurePath(filename).suffix.lower() in _LINES:
        return True
    head = [line.strip() for line in text[:20_000].split("\n", 3)[:3]]
    return (
        len(head) >= 2 and all(line.startswith("{") and line.endswith("}") for line in head if line) and bool(head[1])
    )
