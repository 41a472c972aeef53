"""Going through the text of a collection: only what a pattern needs of each chunk is read."""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from json import decoder
from typing import NamedTuple

from ...documents import Chunk
from ...filters import FilterLike
from ...filters.plan import plan
from ...retrieval.pattern import TextPattern
from ...retrieval.runs import DocumentText, TextPart
from ..engine.records import existing
from . import documents
from .checksums import CHUNK, whole_rows
from .documents import Document
from .reader import Reader
from .schema import Collection

# JSON's own reader of a text, in C where there is one.
scanstring: Callable[[str, int], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]
_PAGE_CHUNKS = 1_000
"""What fits the caches of a processor: 4,000 took a quarter longer for each."""
_PAGES_AT_ONCE, _DOCUMENTS_AT_ONCE = 8, 50
_TEXT_BEGINS = b'{"content":{"type":"text","text":"'
_PLACE = re.compile(rb',"section_index":(null|\d+),"span":(?:null|\[(\d+),(\d+)\])')


class Page(NamedTuple):
    """Some documents of one state of the collection."""

    documents: list[DocumentText]
    next: int | None
    """Where the next page begins; None behind the last."""


def pages(
    connection: sqlite3.Connection,
    reader: Reader,
    collection: str,
    where: FilterLike | None,
    pattern: TextPattern | None,
    start: int,
) -> Page:
    """Several pages of one state as one, until some documents are found: a transaction costs a millisecond."""
    found: list[DocumentText] = []
    at: int | None = start
    for _ in range(_PAGES_AT_ONCE):
        if at is None or len(found) >= _DOCUMENTS_AT_ONCE:
            break
        some, at = page(connection, reader, collection, where, pattern, at)
        found += some
    return Page(found, at)


def page(
    connection: sqlite3.Connection,
    reader: Reader,
    collection: str,
    where: FilterLike | None,
    pattern: TextPattern | None,
    start: int,
) -> Page:
    """Documents by number from `start` on: those in which `pattern` may occur.

    Raises: StoreDamagedError: a document or chunk is not what was written.
    """
    stored = existing(Collection.load(connection, collection), collection)
    if not start:
        documents.check_totals(connection, stored)
    found, behind = _documents(documents.every(connection, stored, start))
    wanted = None
    if found and plan(where) is not None:
        snapshot = existing(reader.snapshot(connection, collection, semantic=False), collection)
        wanted = snapshot.matching_numbers(where, found[0].base, found[-1].base + found[-1].room)
        found = [document for document in found if not wanted.isdisjoint(_numbers(document))]
    numbers = [number for document in found for number in _numbers(document)]
    bodies = _bodies(connection, found, numbers)
    if wanted is not None:
        kept = [place for place, number in enumerate(numbers) if number in wanted]
        numbers, bodies = [numbers[place] for place in kept], [bodies[place] for place in kept]
    texts = [
        scanstring(body.decode(), len(_TEXT_BEGINS))[0] if body.startswith(_TEXT_BEGINS) else _parsed(body).text
        for body in bodies
    ]
    promising = list(range(len(texts)) if pattern is None else pattern.candidates(texts))
    result: list[DocumentText] = []
    for document in found:
        first, stop = (bisect_left(numbers, number) for number in (document.base, document.base + document.size))
        here = bisect_left(promising, first)
        if here == len(promising) or promising[here] >= stop:
            continue
        indexes = document.chunk_indexes.tolist()
        parts = [_part(indexes[numbers[at] - document.base], texts[at], bodies[at]) for at in range(first, stop)]
        result.append(DocumentText(document.scope, document.id, parts))
    return Page(result, behind)


def _documents(every: Iterator[Document]) -> tuple[list[Document], int | None]:
    """Documents of at least 1,000 chunks together, and the number of the next one."""
    found: list[Document] = []
    chunks = 0
    for document in every:
        if chunks >= _PAGE_CHUNKS:
            return found, document.base
        found.append(document.checked())
        chunks += document.size
    return found, None


def _bodies(connection: sqlite3.Connection, found: Sequence[Document], numbers: Sequence[int]) -> list[bytes]:
    """The chunks of these documents, which have these numbers, as JSON."""
    rows = [
        row
        for first, stop in _ranges(found)
        for row in connection.execute(
            "select n, crc, body from chunks where n >= ? and n < ? order by n", (first, stop)
        ).fetchall()
    ]
    whole = whole_rows(CHUNK, rows)
    if whole != numbers:
        there = set(whole)
        raise documents.damaged([one.name for one in found if not there.issuperset(_numbers(one))])
    return [body for _, _, body in rows]


def _ranges(found: Sequence[Document]) -> list[tuple[int, int]]:
    """Numbers of chunks, those of neighbouring documents as one range."""
    ranges: list[tuple[int, int]] = []
    for document in found:
        joined = ranges and ranges[-1][1] == document.base
        begin = ranges.pop()[0] if joined else document.base
        ranges.append((begin, document.base + document.room))
    return ranges


def _numbers(document: Document) -> range:
    return range(document.base, document.base + document.size)


def _part(index: int, text: str, body: bytes) -> TextPart:
    # The last one is the chunk's own: metadata, where a field may be called the same, stands before it.
    place = _PLACE.match(body, body.rfind(b',"section_index":'))
    if place is None:
        chunk = _parsed(body)
        return TextPart(index, chunk.section_index, chunk.span, text)
    section, start, end = place.groups()
    return TextPart(
        index, None if section == b"null" else int(section), None if start is None else (int(start), int(end)), text
    )


def _parsed(body: bytes) -> Chunk:
    return Chunk.model_validate_json(body)
