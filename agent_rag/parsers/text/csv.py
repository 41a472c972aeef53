"""Delimited text as Markdown tables."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import ClassVar

from ...documents import Section, text_section
from ...errors import ParseError, ParseLimitError
from ...places import LineNumbers
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation
from ..tables import render_table
from .plain import DecodingParser

_DELIMITERS = ",;\t|"
_SNIFF_CHARACTERS = 64 * 1024
_SAMPLE_ROWS = 100
_NUMBER = re.compile(r"[-+]?(?=[\s.,'’]*+\d)[\d\s.,'’]++(?:[eE][-+]?\d+)?\s*[%€$£]?$|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_YEAR = re.compile(r"(?:19|20)\d\d$")
_SHAPE = re.compile(r"([A-Z]+)|([^\W\d_A-Z]+)|(\d+)")
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n")
_NAMES = frozenset({
    "account", "address", "age", "amount", "author", "category", "city", "class", "code", "color", "comment", "company",
    "count", "country", "currency", "customer", "date", "day", "department", "description", "email", "end", "field",
    "file", "first", "gender", "group", "id", "index", "item", "key", "kind", "label", "language", "last", "lat", "lon",
    "message", "month", "name", "no", "note", "notes", "number", "order", "owner", "path", "phone", "price", "product",
    "quantity", "rank", "rate", "region", "role", "score", "size", "source", "start", "state", "status", "street",
    "subject", "surname", "tag", "tags", "target", "text", "time", "title", "total", "type", "unit", "url", "user",
    "value", "version", "website", "year", "zip",
})  # fmt: skip
"""Words that name columns, for tables of nothing but words."""
_MAX_TITLE_ROWS = 20
_MAX_NAMED_COLUMNS = 1_000
"""Of more columns without names, a name longer than a number is most of the text."""

Row = tuple[int, list[str]]
"""A row with its number in the file."""


class CSVParser(DecodingParser):
    """Rows as Markdown tables, a Section per `rows_per_section` rows, each repeating the header.

    Metadata ``{"format": "markdown", "rows": "2-101"}`` counts rows of the file from 1, header included. The delimiter
    (comma, semicolon, tab, bar) and whether the first row is a header are told from the content; without a header the
    columns are called "Column 1", "Column 2" and so on (only "1", "2" where they are more than 1,000). Titles and
    comments above the header stand above the first table. A row longer than the header keeps all its cells, and a quote
    that nothing closes is a sign like any other.
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
        delimiter, skipped = self.delimiter, 0
        if delimiter is None and (named := _SEPARATOR_LINE.match(text)):
            delimiter, text, skipped = named[1], text[named.end() :], 1
        delimiter = delimiter or sniff_delimiter(text, filename)
        rows = self._counted(numbered_rows(text, delimiter, start=1 + skipped), filename)
        head = list(itertools.islice(rows, _SAMPLE_ROWS))
        if not head:
            raise ParseError(f"{filename}: no rows in this CSV, only blank lines")
        titles = [] if self.header is False else title_rows(head)
        return self._sections(titles, head[len(titles) :], rows, filename)

    def _counted(self, rows: Iterator[tuple[int, list[str]]], filename: str) -> Iterator[tuple[int, list[str]]]:
        cells = 0
        for number, row in rows:
            cells += len(row)
            if cells > self.max_cells:
                raise ParseLimitError(
                    f"{filename}: more cells than max_cells={self.max_cells:,}; split the file, or raise max_cells"
                )
            yield number, row

    def _sections(self, titles: list[Row], head: list[Row], rows: Iterator[Row], filename: str) -> list[Section]:
        first = head[0]
        if self.header if self.header is not None else has_header(first[1], [row for _, row in head[1:]]):
            header, rest = first, head[1:]
        else:
            header, rest = (0, _invented_names(len(first[1]))), head
        sections: list[Section] = []
        remaining = itertools.chain(rest, rows)
        while (group := list(itertools.islice(remaining, self.rows_per_section))) or not sections:
            sections.append(_section([] if sections else titles, header, group, filename, is_first=not sections))
        return sections


def _invented_names(count: int) -> list[str]:
    word = "Column " if count <= _MAX_NAMED_COLUMNS else ""
    return [f"{word}{number}" for number in range(1, count + 1)]


def _section(titles: list[Row], header: Row, group: list[Row], filename: str, *, is_first: bool) -> Section:
    lines = [" ".join(" ".join(cell for cell in row if cell.strip()).split()) for _, row in titles]
    above = "\n".join(lines) + "\n\n" if lines else ""
    table = render_table([header[1], *(row for _, row in group)], "markdown")
    rows = f"{group[0][0]}-{group[-1][0]}" if group else "1-1"
    section = text_section(above + table, filename, format="markdown", rows=rows)
    named = [*(number for number, _ in titles), 0] if titles else []
    ruled = [header[0] if is_first else 0, 0]
    section.places = LineNumbers.of([*named, *ruled, *(number for number, _ in group)], unit="rows")
    return section


def title_rows(rows: list[Row]) -> list[Row]:
    """The rows above the header: comments and titles in one cell, where the rows below have more."""
    widths = [sum(bool(cell.strip()) for cell in row) for _, row in rows]
    usual = max(set(widths), key=lambda width: (widths.count(width), width))
    count = 0
    for (_, row), width in zip(rows[:_MAX_TITLE_ROWS], widths, strict=False):
        is_comment = row[0].lstrip().startswith("#") and width != usual
        if not (is_comment or (width == 1 and usual > 1)):
            break
        count += 1
    return rows[:count] if count < len(rows) else []


def numbered_rows(text: str, delimiter: str, *, start: int = 1) -> Iterator[Row]:
    """Rows that are not blank, numbered from `start`, with cells of any length."""
    for number, row in enumerate(_rows(text, delimiter), start=start):
        if any(cell.strip() for cell in row):
            yield number, row


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Rows by `csv`, from a cell over its limit on by our own: that limit is process-wide and not ours to change."""
    spaced = _has_spaced_quotes(text[:_SNIFF_CHARACTERS], delimiter)
    start, budget = 0, 4 * len(text) + _SNIFF_CHARACTERS
    while start < len(text):
        lines = _Lines(text, start)
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=spaced)
        start = begin = lines.offset
        try:
            for row in reader:
                start, begin, count = lines.offset, start, lines.taken
                lines.taken = 0
                if count > 1 and budget > 0 and not _closes_its_quotes(text, begin, start, delimiter, spaced):
                    budget -= start - begin
                    start = text.find("\n", begin) + 1
                    yield _unquoted_row(text[begin : start - 1], delimiter)
                    break
                yield row
            else:
                return
        except csv.Error:
            yield from _split_rows(text[start:], delimiter)
            return


class _Lines:
    """The lines of a text, with the offset that is reached."""

    def __init__(self, text: str, offset: int) -> None:
        self._text = text
        self.offset = offset
        self.taken = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        begin = self.offset
        if begin >= len(self._text):
            raise StopIteration
        self.offset = self._text.find("\n", begin) + 1 or len(self._text)
        self.taken += 1
        return self._text[begin : self.offset]


def _closes_its_quotes(text: str, start: int, end: int, delimiter: str, spaced: bool) -> bool:
    """Whether a row over several lines is well formed; a stray quote runs to another one in a cell, or to the end."""
    try:
        lines = _Lines(text[start:end], 0)
        return len(list(csv.reader(lines, delimiter=delimiter, skipinitialspace=spaced, strict=True))) == 1
    except csv.Error as error:
        return "field larger" in str(error)


def _unquoted_row(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_NONE), [])


def _has_spaced_quotes(sample: str, delimiter: str) -> bool:
    """Whether cells are written as ``1, "x, y", 3``."""
    return delimiter in ",;" and f'{delimiter} "' in sample and f'{delimiter}"' not in sample


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
    """Whether the first row names the columns.

    Numbers and dates are no names, but for years in order. Names may be alike where the columns below are of numbers.
    Of a table of words, a first row that is made as the others are is one of them, unless it has a usual name.
    """
    names = [cell.strip() for cell in first]
    filled = [name for name in names if name]
    numbers = [name for name in filled if _NUMBER.match(name)]
    if not filled or (not others and len(filled) == 1):
        return False
    if numbers:
        years = [int(name) for name in numbers if _YEAR.match(name)]
        in_order = len(years) == len(numbers) > 1 and years in (sorted(set(years)), sorted(set(years), reverse=True))
        return in_order and len(numbers) < len(names)
    columns = list(itertools.zip_longest(*others[:_SAMPLE_ROWS], fillvalue=""))[: len(names)]
    if any(_is_numeric(column) for column in columns):
        return True
    if len(set(filled)) < len(filled):
        return False
    words = {word for name in filled for word in re.split(r"[\W_]+", name.lower())}
    if words & _NAMES or not others:
        return True
    same = [_shape(name) == _shape(cell) for name, column in zip(names, columns, strict=False) for cell in column[:5]]
    return not all(same)


def _is_numeric(column: Sequence[str]) -> bool:
    cells = [cell.strip() for cell in column if cell.strip()]
    return bool(cells) and sum(bool(_NUMBER.match(cell)) for cell in cells) * 2 > len(cells)


def _shape(cell: str) -> str:
    """``Ab`` for a capitalised word, ``b`` for one in small letters, ``9`` for digits."""
    return _SHAPE.sub(lambda run: "A" if run[1] else "b" if run[2] else "9", cell.strip())
