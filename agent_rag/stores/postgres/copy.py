"""Rows in PostgreSQL's binary COPY format, made in worker threads.

The driver would need a codec for the type `vector` on each connection, which a borrowed pool does not let us set, and
encodes in the event loop. Format: https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.4
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..engine.records import Matrix

Engine = Literal["pgvector", "array", "none"]
"""How a collection keeps its vectors: in pgvector's type, or in arrays; none for 0 dimensions."""

_HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
_TRAILER = struct.pack(">h", -1)
_TEXT, _FLOAT4, _FLOAT8 = 25, 700, 701  # type oids, fixed in PostgreSQL's catalog
_PIECE = 1 << 20
MAX_INT2 = 32_767

_POSTING = np.dtype(
    [
        ("fields", ">i2"),
        ("term_size", ">i4"),
        ("term", ">i8"),
        ("chunk_size", ">i4"),
        ("chunk", ">i8"),
        ("frequency_size", ">i4"),
        ("frequency", ">i2"),
        ("length_size", ">i4"),
        ("length", ">i2"),
    ]
)


@lru_cache(maxsize=1 << 17)
def term_key(token: str) -> int:
    """A signed 64-bit id of a token. (Among ten million tokens two share one with a probability of 3e-6.)"""
    return int.from_bytes(blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def integer(value: int) -> bytes:
    """A field of type int4."""
    return struct.pack(">ii", 4, value)


def big_integer(value: int) -> bytes:
    """A field of type int8."""
    return struct.pack(">iq", 8, value)


def text(value: str) -> bytes:
    """A field of type text or json."""
    data = value.encode()
    return struct.pack(">i", len(data)) + data


def text_array(values: Sequence[str]) -> bytes:
    """A field of type text[]."""
    return _array(_TEXT, len(values), b"".join(map(text, values)))


def double_array(values: Sequence[float]) -> bytes:
    """A field of type float8[]."""
    return _array(_FLOAT8, len(values), b"".join(struct.pack(">id", 8, value) for value in values))


def vectors(matrix: Matrix, engine: Engine) -> list[bytes]:
    """One field per row of `matrix`: of type vector or float4[]."""
    count, dimensions = matrix.shape
    if engine == "pgvector":
        head = struct.pack(">ihh", 4 + 4 * dimensions, dimensions, 0)
        numbers = matrix.astype(">f4")
        return [head + row.tobytes() for row in numbers]
    elements = np.empty((count, dimensions), dtype=[("size", ">i4"), ("value", ">f4")])
    elements["size"] = 4
    elements["value"] = matrix
    return [_array(_FLOAT4, dimensions, row.tobytes()) for row in elements]


def postings(terms: Sequence[Counter[str]], chunk_ids: Sequence[int]) -> bytes:
    """Rows (term, chunk, frequency, length), ordered by term so that the index is written page by page."""
    sizes = [len(counted) for counted in terms]
    rows = np.empty(sum(sizes), dtype=_POSTING)
    rows["fields"] = 4
    for name, size in (("term_size", 8), ("chunk_size", 8), ("frequency_size", 2), ("length_size", 2)):
        rows[name] = size
    rows["term"] = [term_key(token) for counted in terms for token in counted]
    rows["chunk"] = np.repeat(np.asarray(chunk_ids, dtype=np.int64), sizes)
    frequencies: npt.NDArray[np.int64] = np.fromiter(
        (frequency for counted in terms for frequency in counted.values()), dtype=np.int64, count=len(rows)
    )
    rows["frequency"] = np.minimum(frequencies, MAX_INT2)
    rows["length"] = np.repeat([min(counted.total(), MAX_INT2) for counted in terms], sizes)
    return rows[np.argsort(rows["term"], kind="stable")].tobytes()


async def stream(rows: Sequence[bytes]) -> AsyncIterator[bytes]:
    """A whole COPY stream in pieces of about 1 MiB."""
    piece = [_HEADER]
    size = 0
    for row in rows:
        piece.append(row)
        size += len(row)
        if size >= _PIECE:
            yield b"".join(piece)
            piece, size = [], 0
    piece.append(_TRAILER)
    yield b"".join(piece)


async def cut(rows: bytes) -> AsyncIterator[bytes]:
    """As `stream`, of rows that are joined already."""
    yield _HEADER
    for start in range(0, len(rows), _PIECE):
        yield rows[start : start + _PIECE]
    yield _TRAILER


def _array(element_type: int, count: int, elements: bytes) -> bytes:
    if count == 0:
        return struct.pack(">iiii", 12, 0, 0, element_type)
    return struct.pack(">iiiiii", 20 + len(elements), 1, 0, element_type, count, 1) + elements
