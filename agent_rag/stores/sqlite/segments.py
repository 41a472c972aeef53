"""Segments: what several chunks have of each word, filter token and number, sorted, in blocks of about 1,000 postings.

A block's bytes: u4 number of keys m, u4 width of a value | i8 key[m], ascending | u4 start[m + 1] | u4 chunk[p] |
value[p], unsigned of 1 or 4 bytes, or f8. A key is never divided among blocks. Words and filter tokens stand side by
side (the latter have a separator that no word has), numbers in blocks of their own kind.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import StoreDamagedError
from .checksums import BLOCK, SEGMENT, checksum
from .schema import Collection

Kind = Literal[0, 1]
TOKENS: Kind = 0
NUMBERS: Kind = 1
LAST_KEY = 2**63 - 1
_POSTINGS = 1_000
_HEAD = struct.Struct("<II")
_RANGE = struct.Struct("<II")
_LAST = struct.Struct("<I")
_TYPES: dict[int, npt.DTypeLike] = {1: "<u1", 4: "<u4", 8: "<f8"}
_SLICE_BLOCKS = 128
_MEMO_LENGTH = 100_000

Integers = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


class _Keys(dict[str, int]):
    """Word -> its 63-bit key. (Keys instead of words: no word of a deleted text stays in the file.)"""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MEMO_LENGTH:
            self.clear()
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        key = self[word] = int.from_bytes(digest, "little") >> 1
        return key


_keys = _Keys()
key_of: Callable[[str], int] = _keys.__getitem__
"""63-bit key of a word, a filter token or the name of a number."""


class Block(NamedTuple):
    """Postings of the keys ``first <= key < until``."""

    kind: Kind
    first: int
    until: int
    data: bytes

    def crc(self, segment: int) -> int:
        return checksum(self.data, BLOCK, segment, self.kind, self.first, self.until)


@dataclass(frozen=True)
class Postings:
    """What chunks have of keys, sorted by (key, chunk)."""

    keys: Integers
    chunks: Integers
    values: Values
    """Frequencies, or numbers as f8."""

    def blocks(self, kind: Kind, low: int = 0, high: int = LAST_KEY) -> list[Block]:
        """Blocks of the keys ``low <= key < high``; at least one, so that a missing one is noticed."""
        changes = np.flatnonzero(np.diff(self.keys)) + 1 if len(self.keys) else np.empty(0, np.int64)
        starts = np.concatenate(([0], changes, [len(self.keys)])) if len(self.keys) else np.zeros(1, np.int64)
        terms = self.keys[starts[:-1]]
        wanted = np.arange(0, max(1, len(self.keys)), _POSTINGS)
        bounds = [*np.unique(np.searchsorted(starts, wanted, side="right") - 1).tolist(), len(terms)]
        firsts = [low, *(int(terms[bound]) for bound in bounds[1:-1])]
        untils = [*firsts[1:], high]
        width = 8 if kind == NUMBERS else 1 if not len(self.values) or self.values.max() < 256 else 4
        return [
            Block(kind, first, until, self._encoded(terms[low:high], starts[low : high + 1], width))
            for first, until, low, high in zip(firsts, untils, bounds, bounds[1:], strict=False)
        ]

    def _encoded(self, terms: Integers, starts: Integers, width: int) -> bytes:
        low, high = int(starts[0]), int(starts[-1])
        return b"".join(
            (
                _HEAD.pack(len(terms), width),
                terms.astype("<i8").tobytes(),
                (starts - low).astype("<u4").tobytes(),
                self.chunks[low:high].astype("<u4").tobytes(),
                self.values[low:high].astype(_TYPES[width]).tobytes(),
            )
        )


def of_one_key(data: bytes, key: int) -> tuple[npt.NDArray[np.uint32], Values]:
    """Chunks and values that a block has of `key`."""
    count, width = _HEAD.unpack_from(data)
    keys = np.frombuffer(data, "<i8", count, _HEAD.size)
    place = int(keys.searchsorted(key))
    if place == count or keys[place] != key:
        return np.empty(0, np.uint32), np.empty(0, _TYPES[width])
    at = _HEAD.size + 8 * count
    low, high = _RANGE.unpack_from(data, at + 4 * place)
    at += 4 * (count + 1)
    (total,) = _LAST.unpack_from(data, at - 4)
    chunks = np.frombuffer(data, "<u4", high - low, at + 4 * low)
    values = np.frombuffer(data, _TYPES[width], high - low, at + 4 * total + width * low)
    return chunks, values


def decoded(data: bytes) -> Postings:
    """All of a block; chunks count from the segment's base."""
    count, width = _HEAD.unpack_from(data)
    at = _HEAD.size + 8 * count
    starts = np.frombuffer(data, "<u4", count + 1, at).astype(np.int64)
    at += 4 * (count + 1)
    total = int(starts[-1])
    keys = np.repeat(np.frombuffer(data, "<i8", count, _HEAD.size), np.diff(starts))
    chunks = np.frombuffer(data, "<u4", total, at).astype(np.int64)
    return Postings(keys, chunks, np.frombuffer(data, _TYPES[width], total, at + 4 * total))


def joined(parts: Sequence[Postings]) -> Postings:
    """Postings of several segments whose chunks follow each other."""
    keys = np.concatenate([part.keys for part in parts])
    # Stable, and fast on runs that are sorted: the chunks of a key stay in order.
    order = np.argsort(keys, kind="stable")
    return Postings(
        keys[order],
        np.concatenate([part.chunks for part in parts])[order],
        np.concatenate([part.values for part in parts])[order],
    )


def count_keys(keys: Integers, lengths: Sequence[int], places: Sequence[int]) -> Postings:
    """Postings of the tokens of some chunks, with their frequencies.

    Args:
        keys: Of all tokens, chunk by chunk.
        lengths: Number of tokens of each chunk.
        places: Number of each chunk, ascending, from the segment's base.
    """
    chunks = np.repeat(np.array(places, np.int64), np.array(lengths, np.int64))
    order = np.argsort(keys, kind="stable")  # the chunks of a key stay in order
    keys, chunks = keys[order], chunks[order]
    starts = np.flatnonzero((np.diff(keys, prepend=-1) != 0) | (np.diff(chunks, prepend=-1) != 0))
    return Postings(keys[starts], chunks[starts], np.diff(starts, append=len(keys)))


def collect_numbers(numbers: Iterable[tuple[int, dict[str, float]]]) -> Postings:
    """Postings of (chunk, number by name) pairs."""
    found = sorted((key_of(name), chunk, number) for chunk, named in numbers for name, number in named.items())
    return Postings(
        np.array([key for key, _, _ in found], np.int64),
        np.array([chunk for _, chunk, _ in found], np.int64),
        np.array([number for _, _, number in found], np.float64),
    )


class Segment(NamedTuple):
    """A row of `segments`: what the chunks ``base <= number < stop`` have."""

    number: int
    c: int
    level: int
    base: int
    stop: int


def segment_crc(segment: int, c: int, level: int, base: int, stop: int) -> int:
    return checksum(b"", SEGMENT, segment, c, level, base, stop)


def segments_of(connection: sqlite3.Connection, collection: Collection) -> list[Segment]:
    """Segments of a collection, which follow each other and have all its chunks.

    Raises: StoreDamagedError: one is missing or damaged.
    """
    rows = connection.execute(
        "select seg, c, level, base, stop, crc from segments where c = ? order by base", (collection.c,)
    ).fetchall()
    found = [Segment(*row[:-1]) for row in rows]
    at = collection.start
    for segment, row in zip(found, rows, strict=True):
        if segment_crc(*segment) != row[-1] or segment.base != at:
            raise damaged_index(collection.name)
        at = segment.stop
    if at != collection.start + collection.next:
        raise damaged_index(collection.name)
    return found


def read_key(connection: sqlite3.Connection, segment: Segment, kind: Kind, key: int) -> tuple[Integers, Values]:
    """Chunk numbers and values that a segment has of `key`."""
    row = connection.execute(
        "select first, until, crc, data from blocks where seg = ? and kind = ? and first <= ? "
        "order by first desc limit 1",
        (segment.number, kind, key),
    ).fetchone()
    if row is None:
        raise damaged_index()
    first, until, crc, data = row
    if Block(kind, first, until, data).crc(segment.number) != crc or not first <= key < until:
        raise damaged_index()
    chunks, values = of_one_key(data, key)
    return chunks.astype(np.int64) + segment.base, values


def slices(connection: sqlite3.Connection, segments: Sequence[Segment], kind: Kind) -> list[tuple[int, int]]:
    """Ranges of keys, together all of them, in each of which the segments have about `_SLICE_BLOCKS` blocks."""
    chosen = ",".join(str(segment.number) for segment in segments)
    firsts = connection.execute(
        f"select distinct first from blocks where seg in ({chosen}) and kind = ? order by first", (kind,)
    ).fetchall()
    cuts = [0, *(first for (first,) in firsts[_SLICE_BLOCKS::_SLICE_BLOCKS]), LAST_KEY]
    return list(pairwise(cuts))


def read_keys(
    connection: sqlite3.Connection, segment: Segment, kind: Kind, low: int = 0, high: int = LAST_KEY
) -> Postings:
    """What a segment has of the keys ``low <= key < high``, sorted; chunk numbers are absolute."""
    at, parts = None, []
    for first, until, crc, data in connection.execute(
        "select first, until, crc, data from blocks where seg = ?1 and kind = ?2 and first < ?4 and first >= "
        "(select max(first) from blocks where seg = ?1 and kind = ?2 and first <= ?3) order by first",
        (segment.number, kind, low, high),
    ):
        if Block(kind, first, until, data).crc(segment.number) != crc or at not in (None, first):
            raise damaged_index()
        parts.append(decoded(data))
        at = until
    if at is None or at < high:
        raise damaged_index()
    keys = np.concatenate([part.keys for part in parts])
    begin, end = np.searchsorted(keys, (low, high)).tolist()
    return Postings(
        keys[begin:end],
        np.concatenate([part.chunks for part in parts])[begin:end] + segment.base,
        np.concatenate([part.values for part in parts])[begin:end],
    )


def damaged_index(collection: str | None = None) -> StoreDamagedError:
    where = "" if collection is None else f" of collection {collection!r}"
    return StoreDamagedError(
        f"the index of words and filter values{where} is damaged; documents can be read by id, and "
        "'agent-rag compact' makes it anew"
    )
