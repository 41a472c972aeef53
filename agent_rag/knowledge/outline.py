"""What a stored document consists of, and the parts of it that are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..documents import Chunk

_MARKDOWN = (".md", ".markdown", ".mdx")
_HEADING_LINE = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_PAIR = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
_ROW_FIELDS = ("rows", "records", "lines", "items")


class OutlineEntry(BaseModel):
    """A heading, a slide or a sheet."""

    model_config = ConfigDict(frozen=True)

    title: str
    level: int = 1
    """1 is the highest rank."""
    place: dict[str, Any] = Field(default_factory=dict)
    """``page``, ``slide`` or ``sheet`` where it begins; of a sheet also ``rows``, from the first to the last."""
    chunk_index: int
    """The chunk that it begins in."""


class DocumentOutline(BaseModel):
    """What a document consists of."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    source: str
    title: str | None = None
    uri: str | None = None
    chunk_count: int
    pages: tuple[int, int] | None = None
    """Of the first and of the last chunk that has one."""
    rows: tuple[int, int] | None = None
    """Of a table that is a file of its own: the first and the last that any chunk holds."""
    entries: list[OutlineEntry] = []
    """In order of the document."""


def outline_of(document_id: str, chunks: Sequence[Chunk]) -> DocumentOutline | None:
    """The outline of a document from its chunks in order; None without any."""
    if not chunks:
        return None
    pages = [page for chunk in chunks for page in _numbers(chunk.metadata.get("page"))]
    first = chunks[0]
    return DocumentOutline(
        document_id=document_id,
        source=first.source,
        title=first.title,
        uri=first.uri,
        chunk_count=len(chunks),
        pages=(min(pages), max(pages)) if pages else None,
        rows=_row_range(chunk for chunk in chunks if "rows" in chunk.metadata and "sheet" not in chunk.metadata),
        entries=list(_entries(chunks)),
    )


def select(
    chunks: Iterable[Chunk],
    *,
    page: int | None = None,
    heading: str | None = None,
    rows: tuple[int, int] | None = None,
) -> list[Chunk]:
    """The chunks that all conditions hold for, in order.

    Args:
        page: On this page or slide.
        heading: Below a heading of this title, or on a sheet of this name; where there is none, below one that holds
            it. Upper and lower case do not differ.
        rows: With a row, record or line from the first to the last of these.
    """
    kept = [chunk for chunk in chunks if page is None or page in _pages(chunk)]
    if heading is not None:
        asked = " ".join(heading.lstrip("# ").split()).casefold()
        kept = [chunk for chunk in kept if asked in _titles(chunk)] or [
            chunk for chunk in kept if any(asked in title for title in _titles(chunk))
        ]
    if rows is not None:
        kept = [chunk for chunk in kept if _has_rows(chunk, *rows)]
    return kept


def _entries(chunks: Sequence[Chunk]) -> Iterator[OutlineEntry]:
    """Slides and sheets by their names; elsewhere every heading where it begins."""
    path: list[str] = []
    for kind, value, group in _parts(chunks):
        if kind == "sheet":
            rows = _row_range(group)
            yield _entry(str(value), 1, {"sheet": value, **({"rows": list(rows)} if rows else {})}, group[0])
        elif kind == "slide":
            yield _entry(_slide_title(group), 1, {"slide": value}, group[0])
        else:
            for chunk in group:
                yield from _new_headings(chunk, path)


def _parts(chunks: Sequence[Chunk]) -> Iterator[tuple[str, Any, list[Chunk]]]:
    """Chunks in a row that are of one slide or sheet, or of none."""
    for (kind, value), group in groupby(chunks, _part_of):
        yield kind, value, list(group)


def _part_of(chunk: Chunk) -> tuple[str, Any]:
    kind = next((name for name in ("sheet", "slide") if name in chunk.metadata), "")
    return kind, chunk.metadata.get(kind)


def _new_headings(chunk: Chunk, path: list[str]) -> Iterator[OutlineEntry]:
    """The headings above and in a chunk that were not above what stands before; `path` goes on from there."""
    place = {"page": chunk.metadata["page"]} if "page" in chunk.metadata else {}
    own = chunk.heading_path
    shared = next((at for at, (a, b) in enumerate(zip(path, own, strict=False)) if a != b), min(len(path), len(own)))
    for depth, title in enumerate(own[shared:], shared + 1):
        yield _entry(title, depth, place, chunk)
    path[:] = own
    for level, title in _headings_in(chunk):
        if title not in own:
            path[level - 1 :] = [title]
            yield _entry(title, level, place, chunk)


def _slide_title(group: Sequence[Chunk]) -> str:
    headings = [chunk.heading_path[-1] for chunk in group if chunk.heading_path]
    lines = (line.strip("# \t") for chunk in group for line in chunk.text.splitlines())
    return headings[0] if headings else next((line for line in lines if line and not line.startswith("<")), "")[:100]


def _entry(title: str, level: int, place: dict[str, Any], chunk: Chunk) -> OutlineEntry:
    return OutlineEntry(title=title, level=level, place=place, chunk_index=chunk.chunk_index)


def _headings_in(chunk: Chunk) -> list[tuple[int, str]]:
    """Headings of Markdown within a chunk: small parts stand together in one, below the heading of the first."""
    if not chunk.source.lower().endswith(_MARKDOWN) or "#" not in chunk.text:
        return []
    return [(len(found[1]), found[2]) for found in _HEADING_LINE.finditer(_FENCED.sub("", chunk.text))]


def _titles(chunk: Chunk) -> set[str]:
    named = [*chunk.heading_path, *(title for _, title in _headings_in(chunk)), str(chunk.metadata.get("sheet") or "")]
    return {" ".join(title.split()).casefold() for title in named if title}


def _pages(chunk: Chunk) -> list[int]:
    return [number for name in ("page", "slide") for number in _numbers(chunk.metadata.get(name))]


def _numbers(value: Any) -> list[int]:
    """A number, or all from the first to the last of a pair."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, int) for item in value):
        return list(range(value[0], min(value[1], value[0] + 10_000) + 1))
    return []


def _range(chunk: Chunk) -> tuple[int, int] | None:
    if isinstance(row := chunk.metadata.get("row"), int):
        return row, row
    for name in _ROW_FIELDS:
        value = chunk.metadata.get(name)
        if isinstance(value, str) and (pair := _PAIR.fullmatch(value)):
            return int(pair[1]), int(pair[2])
        if isinstance(value, list) and len(value) == 2 and all(isinstance(item, int) for item in value):
            return value[0], value[1]
    return None


def _has_rows(chunk: Chunk, first: int, last: int) -> bool:
    own = _range(chunk)
    return own is not None and own[0] <= last and own[1] >= first


def _row_range(chunks: Iterable[Chunk]) -> tuple[int, int] | None:
    ranges = [own for chunk in chunks if (own := _range(chunk)) is not None]
    return (min(first for first, _ in ranges), max(last for _, last in ranges)) if ranges else None
