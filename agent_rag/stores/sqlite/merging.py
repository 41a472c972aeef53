"""Few large segments out of many small ones, without what is dead."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from .schema import Collection
from .segments import NUMBERS, TOKENS, Block, Integers, Kind, Postings, Segment, joined, read_keys, segments_of, slices
from .writer import Transaction

_FAN = 16
"""Segments of a level that are merged into one of the next."""
_FEW, _LARGE_CHUNKS = 4, 2_048
"""So few are merged where they have so many chunks: a word is looked up in each segment."""
_MERGED_CHUNKS = 32_768
"""A segment is not merged beyond this: other writers wait while it takes the place of its parts."""
_FULL_SHARE = 0.75
_IDLE_SEGMENTS = 32


def due(connection: sqlite3.Connection, collection: Collection) -> list[Segment]:
    """Neighbours that should become one segment now; none when all is well."""
    segments = segments_of(connection, collection)
    if run := _full_run(segments):
        return run
    if len(segments) <= _IDLE_SEGMENTS + 2 * collection.chunks // _MERGED_CHUNKS:
        return []
    # Many have lost most of their chunks; then some two neighbours have few enough.
    living = _living(connection, segments)
    return next(
        (
            [left, right]
            for left, right, a, b in zip(segments, segments[1:], living, living[1:], strict=False)
            if a + b <= _MERGED_CHUNKS
        ),
        [],
    )


def _full_run(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbours of one level: `_FAN` of them, or so many that they fill a segment."""
    run: list[Segment] = []
    size = 0
    for segment in segments:
        span = segment.stop - segment.base
        if run and (segment.level != run[0].level or size + span > _MERGED_CHUNKS):
            run, size = [], 0
        run.append(segment)
        size += span
        enough = _FAN if size <= _LARGE_CHUNKS else _FEW if size <= _FULL_SHARE * _MERGED_CHUNKS else 2
        if len(run) >= enough:
            return run
    return []


def groups(connection: sqlite3.Connection, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """All segments in neighbours that fill one together."""
    group: list[Segment] = []
    size = 0
    for segment, count in zip(segments, _living(connection, segments), strict=True):
        if group and size + count > _MERGED_CHUNKS:
            yield group
            group, size = [], 0
        group.append(segment)
        size += count
    if group:
        yield group


def stand(connection: sqlite3.Connection, name: str, chosen: Sequence[Segment]) -> Collection | None:
    """The collection that still has these segments; None where another process was quicker."""
    collection = Collection.load(connection, name)
    if collection is None or not {*chosen} <= {*segments_of(connection, collection)}:
        return None
    return collection


def merged(connection: sqlite3.Connection, chosen: Sequence[Segment]) -> Iterator[Block]:
    """The blocks of neighbours as those of one segment, without dead chunks, one after the other."""
    base, stop = chosen[0].base, chosen[-1].stop
    living = _living_numbers(connection, base, stop)
    kinds: tuple[Kind, ...] = (TOKENS, NUMBERS)
    for kind in kinds:
        # A range of keys after another: all postings of 32,768 chunks at once are several hundred MB.
        for low, high in slices(connection, chosen, kind):
            parts = [read_keys(connection, segment, kind, low, high) for segment in chosen]
            postings = joined([_alive(part, living) for part in parts])
            yield from Postings(postings.keys, postings.chunks - base, postings.values).blocks(kind, low, high)


def put_in_place(
    transaction: Transaction,
    connection: sqlite3.Connection,
    collection: Collection,
    chosen: Sequence[Segment],
    blocks: Iterable[Block],
) -> None:
    """Write what `merged` made of these segments instead of them."""
    for segment in chosen:
        connection.execute("delete from blocks where seg = ?", (segment.number,))
        connection.execute("delete from segments where seg = ?", (segment.number,))
    level = max(segment.level for segment in chosen) + 1
    transaction.add_segment(collection.c, level, chosen[0].base, chosen[-1].stop, blocks)
    transaction.log_segments(collection.c)


def _living(connection: sqlite3.Connection, segments: Sequence[Segment]) -> list[int]:
    return [sum(stop - first for first, stop in _living_ranges(connection, one.base, one.stop)) for one in segments]


def _living_numbers(connection: sqlite3.Connection, base: int, stop: int) -> Integers:
    pairs = np.array(_living_ranges(connection, base, stop), np.int64).reshape(-1, 2)
    counts = pairs[:, 1] - pairs[:, 0]
    firsts = np.cumsum(counts) - counts
    return np.repeat(pairs[:, 0] - firsts, counts) + np.arange(int(counts.sum()))


def _living_ranges(connection: sqlite3.Connection, base: int, stop: int) -> list[tuple[int, int]]:
    """(first number, behind the last) of the chunks from `base` to below `stop`, by document: the first may begin
    before `base`, the last end behind `stop`."""
    return connection.execute(
        "select max(n, :base), min(n + count, :stop) from documents where n < :stop and n + count > :base "
        "and n >= coalesce((select max(n) from documents where n <= :base), :base) order by n",
        {"base": base, "stop": stop},
    ).fetchall()


def _alive(postings: Postings, living: Integers) -> Postings:
    if not len(living):
        return Postings(postings.keys[:0], postings.chunks[:0], postings.values[:0])
    places = np.searchsorted(living, postings.chunks)
    places[places == len(living)] = 0
    kept = living[places] == postings.chunks
    return Postings(postings.keys[kept], postings.chunks[kept], postings.values[kept])
