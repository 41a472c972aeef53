"""Reading documents and chunks by name, number or page; each is checked, and a damaged one is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...documents import Chunk, DocumentSummary
from ...errors import StoreDamagedError
from ..engine.merging import Name
from ..engine.records import Matrix
from .checksums import CHUNK, DOCUMENT, HEAD, VECTORS, checksum, text_checksum
from .schema import Collection

_COLUMNS = "n, scope, id, count, indexes, lengths, crc"
_NAMED = 500
"""Names that one statement asks for; SQLite's own bound was 999 variables before 3.32."""


class Document(NamedTuple):
    """A row of `documents`."""

    base: int
    scope: str
    id: str
    size: int
    """Number of chunks."""
    indexes: bytes | None
    lengths: bytes
    crc: int

    @property
    def name(self) -> Name:
        return self.scope, self.id

    @property
    def room(self) -> int:
        """Numbers that it takes; one without chunks, too, has a number."""
        return max(1, self.size)

    @property
    def chunk_indexes(self) -> npt.NDArray[np.uint32]:
        """Index of each chunk, by place, ascending."""
        return np.arange(self.size, dtype=np.uint32) if self.indexes is None else np.frombuffer(self.indexes, "<u4")

    @property
    def is_whole(self) -> bool:
        crc = document_crc(self.base, self.scope, self.id, self.size, self.indexes, self.lengths)
        return crc == self.crc

    def number(self, index: int) -> int | None:
        """Number of the chunk with this index; None where there is none."""
        if self.indexes is None:
            return self.base + index if 0 <= index < self.size else None
        places = self.chunk_indexes
        place = int(np.searchsorted(places, index))
        return self.base + place if place < self.size and places[place] == index else None

    def checked(self) -> Document:
        """Raises: StoreDamagedError: it is not what was written."""
        if not self.is_whole:
            raise damaged([self.name])
        return self


def document_crc(base: int, scope: str, document_id: str, count: int, indexes: bytes | None, lengths: bytes) -> int:
    return checksum(lengths + (indexes or b""), DOCUMENT, text_checksum(scope, document_id), base, count)


def damaged(names: Sequence[Name]) -> StoreDamagedError:
    """The error that names documents that are damaged."""
    listed = ", ".join(repr(document_id) for _, document_id in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return StoreDamagedError(
        f"document {listed}{more} is damaged; delete it or ingest it again (the others can be read by id)"
    )


# --- rows of `documents` ---


def by_name(connection: sqlite3.Connection, collection: Collection, name: Name) -> Document | None:
    row = connection.execute(
        f"select {_COLUMNS} from documents where c = ? and scope = ? and id = ?", (collection.c, *name)
    ).fetchone()
    return None if row is None else Document(*row).checked()


def with_ids(connection: sqlite3.Connection, collection: Collection, ids: Iterable[str]) -> list[Document]:
    """Documents of all scopes with these ids, by (scope, id); that one is not there is checked, too."""
    wanted, found = list(ids), []
    for start in range(0, len(wanted), _NAMED):
        some = wanted[start : start + _NAMED]
        marks = ", ".join("?" * len(some))
        found += connection.execute(
            f"select {_COLUMNS} from documents where c = ? and id in ({marks})",
            (collection.c, *some),
        ).fetchall()
    documents = sorted((Document(*row).checked() for row in found), key=lambda document: document.name)
    if absent := set(wanted) - {document.id for document in documents}:
        check_totals(connection, collection, lambda name: name[1] in absent)
    return documents


def after(connection: sqlite3.Connection, collection: Collection, name: Name | None, limit: int) -> list[Document]:
    """The next documents in order of their names, from the first one on for None."""
    bound, values = ("", ()) if name is None else ("and (scope, id) > (?, ?)", name)
    rows = connection.execute(
        f"select {_COLUMNS} from documents where c = ? {bound} order by scope, id limit ?",
        (collection.c, *values, limit),
    )
    return [Document(*row).checked() for row in rows]


def every(connection: sqlite3.Connection, collection: Collection, start: int = 0) -> Iterator[Document]:
    """Documents by number, from one on; not checked."""
    rows = connection.execute(
        f"select {_COLUMNS} from documents where n >= ? and n < ? order by n",
        (max(start, collection.start), collection.stop),
    )
    return (Document(*row) for row in rows)


def at(connection: sqlite3.Connection, bases: Sequence[int]) -> list[Document]:
    """Documents with these numbers, in order."""
    found = (connection.execute(f"select {_COLUMNS} from documents where n = ?", (base,)).fetchone() for base in bases)
    rows = [row for row in found if row is not None]
    if len(rows) != len(bases):
        raise StoreDamagedError(f"{len(bases) - len(rows)} documents that were written are missing")
    return [Document(*row).checked() for row in rows]


def check_totals(
    connection: sqlite3.Connection, collection: Collection, absent: Callable[[Name], bool] | None = None
) -> None:
    """
    Args:
        absent: Whether an index did not find a name: then it must not be in the table.

    Raises: StoreDamagedError: documents are missing, in the table or in the index of names.
    """
    found, chunks = connection.execute(
        "select count(*), coalesce(sum(length(lengths)), 0) / 4 from documents not indexed where c = ?", (collection.c,)
    ).fetchone()
    if (found, chunks) != (collection.documents, collection.chunks):
        raise totals_differ(collection, found, chunks)
    if absent is None:
        return
    names = connection.execute("select scope, id from documents not indexed where c = ?", (collection.c,))
    if hidden := [name for name in names if absent(name)]:
        raise damaged(hidden)


def totals_differ(collection: Collection, documents: int, chunks: int) -> StoreDamagedError:
    return StoreDamagedError(
        f"collection {collection.name!r} has {documents} documents with {chunks} chunks, but {collection.documents} "
        f"with {collection.chunks} were written"
    )


# --- summaries, chunks and vectors ---


def summary_of(connection: sqlite3.Connection, document: Document) -> DocumentSummary:
    row = connection.execute("select crc, head from heads where n = ?", (document.base,)).fetchone()
    if row is None or checksum(row[1], HEAD, document.base) != row[0]:
        raise damaged([document.name])
    return DocumentSummary.model_validate_json(row[1])


def body_of(connection: sqlite3.Connection, document: Document, number: int) -> bytes:
    """A chunk as JSON."""
    row = connection.execute("select crc, body from chunks where n = ?", (number,)).fetchone()
    if row is None or checksum(row[1], CHUNK, number) != row[0]:
        raise damaged([document.name])
    return bytes(row[1])


def chunk_of(connection: sqlite3.Connection, document: Document, number: int) -> Chunk:
    return Chunk.model_validate_json(body_of(connection, document, number))


def vectors_at(connection: sqlite3.Connection, document: Document, numbers: Sequence[int], dimensions: int) -> Matrix:
    """Vectors of some chunks of a document, in the order of their numbers as given."""
    matrix: Matrix = np.zeros((len(numbers), dimensions), np.float32)
    if not dimensions:
        return matrix
    first, rows = 0, matrix[:0]
    for place, number in enumerate(numbers):
        if not first <= number < first + len(rows):
            first, rows = _vectors_around(connection, document, number, dimensions)
        matrix[place] = rows[number - first]
    return matrix


def _vectors_around(
    connection: sqlite3.Connection, document: Document, number: int, dimensions: int
) -> tuple[int, Matrix]:
    """The stored row of vectors that has that of a chunk, and the number of its first."""
    row = connection.execute(
        "select n, count, crc, v from vectors where n <= ? order by n desc limit 1", (number,)
    ).fetchone()
    if row is None:
        raise damaged([document.name])
    first, count, crc, data = row
    inside = document.base <= first <= number < first + count <= document.base + document.size
    if not inside or len(data) != 4 * count * dimensions or checksum(data, VECTORS, first, count) != crc:
        raise damaged([document.name])
    return first, np.frombuffer(data, "<f4").reshape(count, dimensions)
