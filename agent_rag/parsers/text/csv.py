"""Delimited text as Markdown tables."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import ClassVar

from ...documents import Section, text_section
from ...errors import ParseError, ParseLimitError
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation
from ..tables import render_table
from .plain import DecodingParser

_DELIMITERS = ",;\t|"
_SNIFF_CHARACTERS = 64 * 1024
_NUMBER = re.compile(r"[-+]?[\d\s.,'’]*\d[\d\s.,'’]*(?:[eE][-+]?\d+)?\s*[%€$£]?$|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n")


class CSVParser(DecodingParser):
    """Rows as Markdown tables, a Section per `rows_per_section` rows, each repeating the header.

    Metadata ``{"format": "markdown", "rows": "2-101"}`` counts rows of the file from 1, header included. The delimiter
    (comma, semicolon, tab, bar) and whether the first row is a header are told from the content; without a header the
    columns are called "Column 1", "Column 2" and so on. A row longer than the header keeps all its cells.
    A Markdown table was chosen over "header: value" records because those repeat each header word on every row, which
    drowns the values in BM25's term counts.
    """

    format_name = "CSV"
    supported_media_types: ClassVar[list[str]] = ["text/csv", "text/tab-separated-values", "application/csv"]

    def __init__(
        self,
        *,
        delimiter: str | None = None,
        header: bool | None = None,
        rows_per_section: int = 100,
        max_cells: int = 20_000_000,
        encoding: str | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        """Args: delimiter: One character; None: told from the content. header: None: told from the content."""
        super().__init__(encoding=encoding, max_file_bytes=max_file_bytes, isolation=isolation)
        if delimiter is not None and len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, got {delimiter!r}")
        if rows_per_section < 1:
            raise ValueError(f"rows_per_section must be at least 1, got {rows_per_section}")
        self.delimiter = delimiter
        self.header = header
        self.rows_per_section = rows_per_section
        self.max_cells = max_cells

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".csv", ".tab", ".tsv"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        delimiter = self.delimiter
        if delimiter is None and (named := _SEPARATOR_LINE.match(text)):
            delimiter, text = named[1], text[named.end() :]
        delimiter = delimiter or sniff_delimiter(text, filename)
        rows = self._counted(numbered_rows(text, delimiter), filename)
        first = next(rows, None)
        if first is None:
            raise ParseError(f"{filename}: no rows in this CSV, only blank lines")
        return self._sections(first, rows, filename)

    def _counted(self, rows: Iterator[tuple[int, list[str]]], filename: str) -> Iterator[tuple[int, list[str]]]:
        cells = 0
        for number, row in rows:
            cells += len(row)
            if cells > self.max_cells:
                raise ParseLimitError(
                    f"{filename}: more cells than max_cells={self.max_cells:,}; split the file, or raise max_cells"
                )
            yield number, row

    def _sections(
        self, first: tuple[int, list[str]], rows: Iterator[tuple[int, list[str]]], filename: str
    ) -> list[Section]:
        second = next(rows, None)
        rest = [second] if second else []
        if self.header if self.header is not None else has_header(first[1], [row for _, row in rest]):
            header, group = first[1], rest
        else:
            header, group = [f"Column {i + 1}" for i in range(len(first[1]))], [first, *rest]
        sections: list[Section] = []
        for numbered in rows:
            if len(group) >= self.rows_per_section:
                sections.append(_section(header, group, filename))
                group = []
            group.append(numbered)
        while len(group) > self.rows_per_section:
            sections.append(_section(header, group[: self.rows_per_section], filename))
            group = group[self.rows_per_section :]
        if group or not sections:
            sections.append(_section(header, group, filename))
        return sections


def _section(header: list[str], group: list[tuple[int, list[str]]], filename: str) -> Section:
    table = render_table([header, *(row for _, row in group)], "markdown")
    rows = f"{group[0][0]}-{group[-1][0]}" if group else "1-1"
    return text_section(table, filename, format="markdown", rows=rows)


def numbered_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, numbered from 1, with cells of any length."""
    for number, row in enumerate(_rows(text, delimiter), start=1):
        if any(cell.strip() for cell in row):
            yield number, row


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Rows by `csv`, from a cell over its limit on by our own: that limit is process-wide and not ours to change."""
    done = 0
    try:
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            yield row
            done += 1
    except csv.Error:
        yield from itertools.islice(_split_rows(text, delimiter), done, None)


def _split_rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """RFC 4180 without a bound on a cell: quotes double inside quotes, a quote inside an unquoted cell is text."""
    plain = f"[^{re.escape(delimiter)}\n]*"
    cell = re.compile(rf'"([^"]*(?:""[^"]*)*)(?:"|\Z)({plain})|({plain})')
    row: list[str] = []
    position = 0
    while position < len(text):
        match = cell.match(text, position)
        assert match is not None  # the last alternative matches anything
        row.append(match[3] if match[1] is None else match[1].replace('""', '"') + match[2])
        position = match.end() + 1
        if text[match.end() : position] == delimiter:
            if position < len(text):
                continue
            row.append("")
        yield row
        row = []


def sniff_delimiter(text: str, filename: str = "") -> str:
    """The delimiter that gives the first lines the same number of columns, more than one; a comma when none does."""
    if PurePath(filename).suffix.lower() in (".tsv", ".tab") and "\t" in text[:_SNIFF_CHARACTERS]:
        return "\t"
    sample = text[:_SNIFF_CHARACTERS]
    if len(text) > len(sample):
        sample = sample[: sample.rfind("\n") + 1] or sample
    scores = {mark: _consistency(sample, mark) for mark in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda mark: scores[mark])
    return best if scores[best] > 0 else ","


def _consistency(sample: str, delimiter: str) -> float:
    if delimiter not in sample:
        return 0.0
    widths: list[int] = []
    for _, row in numbered_rows(sample, delimiter):
        widths.append(len(row))
        if len(widths) == 100:
            break
    usual = max(set(widths), key=lambda width: (widths.count(width), width), default=1)
    if usual < 2:
        return 0.0
    return widths.count(usual) / len(widths) + min(usual, 20) / 1000


def has_header(first: list[str], others: list[list[str]]) -> bool:
    """Whether the first row names the columns: distinct texts, none of them a number or date."""
    names = [cell.strip() for cell in first if cell.strip()]
    if not names or any(_NUMBER.match(name) for name in names) or len(set(names)) < len(names):
        return False
    return bool(others) or len(names) > 1
