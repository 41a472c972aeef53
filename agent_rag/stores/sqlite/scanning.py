"""Going through the text of a collection: only what a pattern needs of each chunk is read."""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from json import decoder
from typing import NamedTuple

from ...documents import Chunk
from ...errors import StoreDamagedError
from ...filters import FilterLike
from ...filters.plan import plan
from ...retrieval.runs import DocumentText, TextPart
from ..engine.candidates import Candidates
from ..engine.records import existing
from . import documents
from .checksums import CHUNK, whole_rows
from .documents import Document
from .reader import Reader
from .schema import Collection

# JSON's own reader of a text, in C where there is one.
scanstring: Callable[[str, int], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]
_PAGE_CHUNKS = 500
"""What fits the caches of a processor: 1,000 took a tenth longer for each, 4,000 a quarter."""
_PAGES_AT_ONCE, _DOCUMENTS_AT_ONCE = 20, 50
TEXT_BEGINS = b'{"content":{"type":"text","text":"'
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
    candidates: Candidates | None,
    start: int,
) -> Page:
    """Several pages of one state as one, until some documents are found: a transaction costs a millisecond."""
    found: list[DocumentText] = []
    at: int | None = start
    for _ in range(_PAGES_AT_ONCE):
        if at is None or len(found) >= _DOCUMENTS_AT_ONCE:
            break
        some, at = page(connection, reader, collection, where, candidates, at)
        found += some
    return Page(found, at)


def page(
    connection: sqlite3.Connection,
    reader: Reader,
    collection: str,
    where: FilterLike | None,
    candidates: Candidates | None,
    start: int,
) -> Page:
    """Documents by number from `start` on: those in which a pattern may occur.

    Raises: StoreDamagedError: a document or chunk is not what was written.
    """
    stored = existing(Collection.load(connection, collection), collection)
    if not start:
        documents.check_totals(connection, stored)
    bases, numbers, bodies, behind = _chunks(connection, stored, max(start, stored.start))
    if numbers and plan(where) is not None:
        snapshot = existing(reader.snapshot(connection, collection, semantic=False), collection)
        wanted = snapshot.matching_numbers(where, numbers[0], numbers[-1] + 1)
        kept = [place for place, number in enumerate(numbers) if number in wanted]
        numbers, bodies = [numbers[place] for place in kept], [bodies[place] for place in kept]
    promising = range(len(bodies)) if candidates is None else candidates(bodies)
    found: list[DocumentText] = []
    stop = 0
    for place in promising:
        if place >= stop:
            base = bases[bisect_right(bases, numbers[place]) - 1]
            (document,) = documents.at(connection, [base])
            first, stop = (bisect_left(numbers, number) for number in (base, base + document.size))
            found.append(_text_of(document, numbers[first:stop], bodies[first:stop]))
    return Page(found, behind)


def _chunks(
    connection: sqlite3.Connection, stored: Collection, start: int
) -> tuple[list[int], list[int], list[bytes], int | None]:
    """Of whole documents with 500 chunks or more, if there are: their numbers, and the number and JSON of each chunk;
    and where the next document begins."""
    rows = connection.execute(
        "select n, crc, body from chunks where n >= ? and n < ? order by n limit ?", (start, stored.stop, _PAGE_CHUNKS)
    ).fetchall()
    reached = rows[-1][0] if len(rows) == _PAGE_CHUNKS else stored.stop - 1
    (behind,) = connection.execute(
        "select min(n) from documents where n > ? and n < ?", (reached, stored.stop)
    ).fetchone()
    end = stored.stop if behind is None else behind
    rows += connection.execute(
        "select n, crc, body from chunks where n > ? and n < ? order by n", (reached, end)
    ).fetchall()
    sizes = connection.execute(
        "select n, length(lengths) / 4 from documents where n >= ? and n < ? order by n", (start, end)
    ).fetchall()
    whole = whole_rows(CHUNK, rows)
    if whole != [number for base, size in sizes for number in range(base, base + size)]:
        raise _damaged(connection, [base for base, _ in sizes], set(whole))
    return [base for base, _ in sizes], whole, [body for _, _, body in rows], behind


def _damaged(connection: sqlite3.Connection, bases: Sequence[int], whole: set[int]) -> StoreDamagedError:
    """The error that names the documents that have a chunk which is not whole."""
    found = documents.at(connection, bases)
    bad = [one.name for one in found if not whole.issuperset(range(one.base, one.base + one.size))]
    return documents.damaged(bad) if bad else StoreDamagedError("chunks stand in another order than they were written")


def _text_of(document: Document, numbers: Sequence[int], bodies: Sequence[bytes]) -> DocumentText:
    indexes = document.chunk_indexes.tolist()
    return DocumentText(
        document.scope,
        document.id,
        [_part(indexes[number - document.base], body) for number, body in zip(numbers, bodies, strict=True)],
    )


def _part(index: int, body: bytes) -> TextPart:
    # The last one is the chunk's own: metadata, where a field may be called the same, stands before it.
    place = _PLACE.match(body, body.rfind(b',"section_index":'))
    if place is None or not body.startswith(TEXT_BEGINS):
        chunk = Chunk.model_validate_json(body)
        return TextPart(index, chunk.section_index, chunk.span, chunk.text)
    section, start, end = place.groups()
    return TextPart(
        index,
        None if section == b"null" else int(section),
        None if start is None else (int(start), int(end)),
        scanstring(body.decode(), len(TEXT_BEGINS))[0],
    )
