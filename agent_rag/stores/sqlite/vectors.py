"""Vectors of one collection in memory: all, or above a bound 8-bit codes that find what the file then decides."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..engine.merging import Name
from ..engine.records import Matrix, Rows
from ..rows.codes import CodeRows
from ..rows.growing import Growing
from ..rows.vectors import Mask, Scores, nearest
from . import documents
from .checksums import VECTORS, checksum
from .documents import Document
from .rows import RowState
from .schema import Collection

_STEP = 65_536
"""Rows that are read at once; each is copied once more."""

ReadRows = Callable[[Rows], Matrix]
"""Vectors of some rows from the file."""


class VectorBlock(Protocol):
    """Vectors by row."""

    def __len__(self) -> int: ...

    def reserve(self, rows: int) -> None: ...

    def append(self, matrix: Matrix) -> None: ...

    def nearest(
        self, query: Matrix, limit: int, alive: Mask, among: Rows | None, read: ReadRows
    ) -> tuple[Rows, Scores]: ...


class WholeRows:
    """All numbers are in memory."""

    def __init__(self, dimensions: int, distance: str) -> None:
        self._rows, self._distance = Growing(np.float32, (dimensions,)), distance

    def __len__(self) -> int:
        return len(self._rows)

    def reserve(self, rows: int) -> None:
        self._rows.reserve(rows)

    def append(self, matrix: Matrix) -> None:
        self._rows.extend(matrix)

    def nearest(
        self, query: Matrix, limit: int, alive: Mask, among: Rows | None, read: ReadRows
    ) -> tuple[Rows, Scores]:
        return nearest(self._rows.view[: len(alive)], self._distance, query, limit, alive, among)


def new_block(collection: Collection, rows: int, memory_bytes: int) -> VectorBlock:
    """One that holds so many rows within the bound; codes know products, not distances."""
    if rows * collection.dimensions * 4 <= memory_bytes or collection.distance not in ("Cosine", "Dot"):
        return WholeRows(collection.dimensions, collection.distance)
    return CodeRows(collection.dimensions, collection.distance)


def load(connection: sqlite3.Connection, collection: Collection, state: RowState, block: VectorBlock) -> None:
    """Add the vectors of the rows that `block` does not have yet; dead ones become zeros.

    Raises: StoreDamagedError: a vector is damaged or missing; names the documents.
    """
    block.reserve(len(state.numbers))
    while len(block) < len(state.numbers):
        start = len(block)
        stop = min(start + _STEP, len(state.numbers))
        stop = _document_end(connection, state, start, stop)
        block.append(_read(connection, collection, state, start, stop))


def _document_end(connection: sqlite3.Connection, state: RowState, start: int, stop: int) -> int:
    """`stop`, or a little before it: where no stored row of vectors goes across."""
    if stop == len(state.numbers):
        return stop
    row = connection.execute(
        "select n, count from vectors where n <= ? order by n desc limit 1", (int(state.numbers[stop]),)
    ).fetchone()
    if row is not None and row[0] < state.numbers[stop] < row[0] + row[1]:
        return max(start + 1, int(np.searchsorted(state.numbers, row[0])))
    return stop


def _read(connection: sqlite3.Connection, collection: Collection, state: RowState, start: int, stop: int) -> Matrix:
    numbers = state.numbers[start:stop]
    matrix: Matrix = np.zeros((stop - start, collection.dimensions), np.float32)
    if not collection.dimensions:
        return matrix
    flat = matrix.reshape(-1)
    filled: Mask = np.zeros(stop - start, np.bool_)
    width = collection.dimensions
    # Row by row into the reserved array: joining them all takes twice the memory and the time.
    for number, count, crc, data in connection.execute(
        "select n, count, crc, v from vectors where n between ? and ? order by n", (int(numbers[0]), int(numbers[-1]))
    ):
        place = int(np.searchsorted(numbers, number))
        whole = (
            len(data) == 4 * count * width
            and place + count <= len(numbers)
            and numbers[place] == number
            and checksum(data, VECTORS, number, count) == crc
        )
        if whole:
            flat[place * width : (place + count) * width] = np.frombuffer(data, "<f4")
            filled[place : place + count] = True
    missing = numbers[state.alive[start:stop] & ~filled]
    if len(missing):
        raise documents.damaged(_names(connection, missing))
    return matrix


def _names(connection: sqlite3.Connection, numbers: npt.NDArray[np.int64]) -> list[Name]:
    """Documents of these chunks."""
    found: dict[Name, None] = {}
    for number in numbers.tolist():
        row = connection.execute(
            "select scope, id from documents where n <= ? order by n desc limit 1", (number,)
        ).fetchone()
        found[tuple(row)] = None
    return list(found)


def read_rows(
    connection: sqlite3.Connection, state: RowState, found: list[Document], rows: Rows, dimensions: int
) -> Matrix:
    """Vectors of some rows.

    Args:
        found: Document of each.
    """
    matrix: Matrix = np.zeros((len(rows), dimensions), np.float32)
    places: dict[int, list[int]] = {}
    for place, document in enumerate(found):
        places.setdefault(document.base, []).append(place)
    for own in places.values():
        own.sort(key=lambda place: int(rows[place]))
        numbers = [int(state.numbers[rows[place]]) for place in own]
        matrix[own] = documents.vectors_at(connection, found[own[0]], numbers, dimensions)
    return matrix
