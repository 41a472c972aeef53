"""The cells of a document's tables, as its Sections hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from ..content import TextBlock
from ..documents import Section
from ..places import LineNumbers

_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*")
_FENCE = re.compile(r"\s*(```|~~~)")
_BREAK = re.compile(r"<br\s*/?>", re.I)
_SHOWN_PLACES = ("sheet", "page", "slide", "chapter")
_MAX_JSON_CHARACTERS = 16_000_000
_MAX_DEPTH = 3
_MAX_FIELDS = 500


@dataclass
class RawTable:
    """Rows of texts, and what else is known of them."""

    rows: list[list[str]]
    numbers: list[int]
    """Of each row in the file; 0 for none."""
    kind: Literal["sheet", "csv", "records", "document"]
    unit: Literal["rows", "records", "lines"] = "rows"
    place: dict[str, Any] = field(default_factory=dict)
    title: str | None = None
    merged: list[tuple[int, int, int]] = field(default_factory=list)
    """See `agent_rag.documents.CellFacts`."""
    number_texts: frozenset[int] = frozenset()
    """Columns where numbers are texts that a person wrote."""
    named: bool | None = None
    """Whether the first row names the columns, where the format says so."""


def raw_tables(sections: Sequence[Section]) -> Iterator[RawTable]:
    """The tables of a file, in their order."""
    texts = [section for section in sections if isinstance(section.content, TextBlock) and section.text]
    for kind, group in groupby(texts, _kind):
        parts = list(group)
        match kind[0]:
            case "sheet":
                yield from _lined(parts, "sheet")
            case "csv":
                yield from _lined(parts, "csv")
            case "jsonl":
                yield from _of_records(_lines_of(parts), "records")
            case "json":
                yield from _of_json(parts[0].text)
            case _:
                for section in parts:
                    yield from _in_text(section)


def _kind(section: Section) -> tuple[str, Any]:
    """What a Section's tables look like, and what tells its file's parts apart."""
    places = section.places
    by_rows = isinstance(places, LineNumbers) and places.unit == "rows"
    if by_rows and "sheet" in section.metadata:
        return "sheet", section.metadata["sheet"]
    if by_rows:
        return "csv", None
    if section.metadata.get("format") == "jsonl":
        return "jsonl", None
    if section.metadata.get("format") == "json":
        return "json", id(section)
    return "document", None


def _lined(parts: Sequence[Section], kind: Literal["sheet", "csv"]) -> Iterator[RawTable]:
    """A sheet or a CSV file: rows in one or more Sections, of which all but the first repeat the header."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    titles: list[str] = []
    headerless = False
    for index, section in enumerate(parts):
        lines = section.text.split("\n")
        known = _numbers(section.places, len(lines))
        first = next((at for at, line in enumerate(lines) if line.startswith("|")), None)
        if first is None:
            continue
        if not index and kind == "csv":
            titles = [line for line in lines[:first] if line.strip()]
            headerless = not known[first]
        for at in range(first, len(lines)):
            if not lines[at].startswith("|"):
                break
            is_rule = at == first + 1
            if is_rule or (at == first and not known[at] and (index or headerless)):
                continue
            rows.append(_cells(lines[at]))
            numbers.append(known[at])
    if rows:
        facts = parts[0].cells
        table = RawTable(rows, numbers, kind, place=_place(parts[0]), title=" ".join(titles)[:200] or None)
        if kind == "csv":
            table.named = not headerless
            table.number_texts = frozenset(range(max(map(len, rows))))
        elif facts is not None:
            table.merged, table.number_texts = facts.merged, frozenset(facts.number_texts)
        yield table


def _in_text(section: Section) -> Iterator[RawTable]:
    """The pipe tables in a text, each under the heading above it."""
    lines = section.text.split("\n")
    known = _numbers(section.places, len(lines))
    unit: Literal["rows", "lines"] = "lines"
    offset, fenced, at = 0, False, 0
    while at < len(lines):
        fenced ^= bool(_FENCE.match(lines[at]))
        if fenced or "|" not in lines[at] or at + 1 >= len(lines) or not _is_rule(lines[at], lines[at + 1]):
            offset += len(lines[at]) + 1
            at += 1
            continue
        end = at + 2
        while end < len(lines) and "|" in lines[end] and lines[end].strip():
            end += 1
        found = [_cells(lines[row]) for row in (at, *range(at + 2, end))]
        title = section.heading_path_at(offset)
        numbers = [known[row] for row in (at, *range(at + 2, end))]
        yield RawTable(
            found, numbers, "document", unit, _place(section), title[-1] if title else None,
            number_texts=frozenset(range(max(map(len, found)))), named=any(found[0]) or None,
        )  # fmt: skip
        offset += sum(len(line) + 1 for line in lines[at:end])
        at = end


def _is_rule(header: str, rule: str) -> bool:
    """Whether two lines begin a pipe table."""
    return (
        "-" in rule and "|" in rule and _RULE.fullmatch(rule) is not None and len(_cells(header)) == len(_cells(rule))
    )


def _of_json(text: str) -> Iterator[RawTable]:
    """A list of objects, or the lists of objects that an object names."""
    if len(text) > _MAX_JSON_CHARACTERS:
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, list):
        yield from _of_records(enumerate(value, start=1), "records")
    elif isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, list) and len(inner) > 1:
                for table in _of_records(enumerate(inner, start=1), "records"):
                    table.title = str(name)
                    yield table


def _lines_of(parts: Sequence[Section]) -> Iterator[tuple[int, Any]]:
    for section in parts:
        lines = section.text.split("\n")
        for number, line in zip(_numbers(section.places, len(lines)), lines, strict=True):
            try:
                yield number, json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                yield number, None


def _of_records(records: Iterable[tuple[int, Any]], unit: Literal["records"]) -> Iterator[RawTable]:
    """Objects as rows, a column for each of their fields; inner objects by ``outer.inner``, lists as JSON."""
    found: list[tuple[int, dict[str, str]]] = []
    names: dict[str, None] = {}
    texts: set[str] = set()
    for number, value in records:
        if isinstance(value, dict):
            fields = dict(_flat(value, "", texts, 1))
            names.update(dict.fromkeys(fields))
            found.append((number, fields))
    if not found or not names or len(names) > _MAX_FIELDS:
        return
    columns = list(names)
    rows = [columns, *([fields.get(name, "") for name in columns] for _, fields in found)]
    yield RawTable(
        rows, [0, *(number for number, _ in found)], "records", unit, named=True,
        number_texts=frozenset(index for index, name in enumerate(columns) if name in texts),
    )  # fmt: skip


def _flat(value: dict[str, Any], path: str, texts: set[str], depth: int) -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{path}{key}"
        if isinstance(inner, dict) and inner and depth < _MAX_DEPTH:
            yield from _flat(inner, f"{name}.", texts, depth + 1)
        elif isinstance(inner, str):
            texts.add(name)
            yield name, inner.strip()
        else:
            yield name, "" if inner is None else json.dumps(inner, ensure_ascii=False)


def _cells(line: str) -> list[str]:
    """The cells of a line of a pipe table."""
    line = line.strip()
    line = line.removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    parts = _CELL.split(line) if "\\|" in line else line.split("|")
    return [_text(part) for part in parts]


def _text(cell: str) -> str:
    cell = cell.strip()
    if "\\|" in cell:
        cell = cell.replace("\\|", "|")
    return _BREAK.sub("\n", cell) if "<" in cell else cell


def _numbers(places: object, count: int) -> list[int]:
    """The number of each line in the file; 0 for none."""
    numbers = [0] * count
    if isinstance(places, LineNumbers):
        ends = [line for line, _ in places.runs[1:]] + [count]
        for (line, number), end in zip(places.runs, ends, strict=True):
            for at in range(line, min(end, count)) if number else ():
                numbers[at] = number + at - line
    return numbers


def _place(section: Section) -> dict[str, Any]:
    return {name: section.metadata[name] for name in _SHOWN_PLACES if name in section.metadata}
