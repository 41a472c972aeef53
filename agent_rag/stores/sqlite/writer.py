"""What a transaction writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...documents import DocumentSummary
from ..engine.merging import Name
from .checksums import CHUNK, HEAD, LOG, VECTORS, checksum, placed
from .documents import document_crc
from .prepare import Batch, NewDocument
from .schema import ADDED, LOG_LENGTH, NUMBER_BITS, REMOVED, SEGMENTS, Collection, State, check_collections
from .segments import Block, segment_crc

_VECTORS = 64


class Place(NamedTuple):
    """Where a document's chunks are."""

    base: int
    size: int

    @property
    def room(self) -> int:
        """Numbers that it takes; one without chunks, too, has a number."""
        return max(1, self.size)


class Transaction:
    """Within a transaction of the writing connection; `finish` comes last."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.state = State.load(connection)

    def finish(self) -> None:
        self._connection.execute("delete from log where seq <= ?", (self.state.seq - LOG_LENGTH,))
        self.state.save(self._connection)

    # --- collections ---

    def create_collection(self, name: str, dimensions: int, distance: str, fingerprint: str | None) -> Collection:
        collection = Collection(self.state.next_collection, name, dimensions, distance, fingerprint, 0, 0, 0)
        self.state.next_collection += 1
        self.state.collections += 1
        self._log(collection.c, SEGMENTS, 0, 0)
        collection.save(self._connection)
        return collection

    def drop_collection(self, name: str) -> None:
        """Also a damaged one: nothing of it is read."""
        row = self._connection.execute("select c from collections where name = ?", (name,)).fetchone()
        if row is None:
            check_collections(self._connection)
            return
        bounds = (row[0] << NUMBER_BITS, (row[0] + 1 << NUMBER_BITS) - 1)
        for table in ("documents", "heads", "chunks", "vectors"):
            self._connection.execute(f"delete from {table} where n between ? and ?", bounds)
        self._connection.execute("delete from blocks where seg in (select seg from segments where c = ?)", row)
        self._connection.execute("delete from segments where c = ?", row)
        self._connection.execute("delete from collections where c = ?", row)
        self.state.collections -= 1
        self._log(row[0], SEGMENTS, 0, 0)

    def exchange(self, first: Collection, second: Collection) -> None:
        """Give each the other's name."""
        names = first.name, second.name
        for collection, name in ((first, f"{names[0]}\0"), (second, names[0]), (first, names[1])):
            collection.name = name
            collection.save(self._connection)
        for collection in (first, second):
            self._log(collection.c, SEGMENTS, 0, 0)

    # --- documents ---

    def find(self, collection: Collection, name: Name) -> Place | None:
        row = self._connection.execute(
            "select n, count from documents where c = ? and scope = ? and id = ?", (collection.c, *name)
        ).fetchone()
        return None if row is None else Place(*row)

    def replace(self, collection: Collection, batch: Batch) -> int:
        """Write documents in place of those with the same names. Returns the chunks that were there."""
        before = 0
        for document in batch.documents:
            place = self.find(collection, (document.summary.scope, document.summary.document_id))
            if place is not None:
                self.remove(collection, place)
                before += place.size
        base = collection.start + collection.next
        if batch.documents:
            self.add_segment(collection.c, 0, base, base + batch.room, batch.blocks)
        for document in batch.documents:
            at = collection.start + collection.next
            self._write_chunks(at, document)
            self._write_document(collection, document.summary, document.indexes, document.lengths)
        collection.save(self._connection)
        return before

    def replace_parts(self, collection: Collection, summary: DocumentSummary, parts: Iterable[Batch]) -> int:
        """Write one document, whose chunks come in several parts, each with its own postings. As `replace`."""
        place = self.find(collection, (summary.scope, summary.document_id))
        if place is not None:
            self.remove(collection, place)
        at = collection.start + collection.next
        indexes: list[int] = []
        lengths: list[npt.NDArray[np.uint32]] = []
        for batch in parts:
            (part,) = batch.documents
            self.add_segment(collection.c, 0, at, at + batch.room, batch.blocks)
            self._write_chunks(at, part)
            indexes += part.indexes
            lengths.append(part.lengths)
            at += batch.room
        self._write_document(collection, summary, indexes, np.concatenate(lengths))
        collection.save(self._connection)
        return 0 if place is None else place.size

    def remove(self, collection: Collection, place: Place) -> None:
        """Take a document out; the caller saves the collection. Its postings are dead from now on."""
        bounds = (place.base, place.base + place.room - 1)
        for table in ("documents", "heads"):
            self._connection.execute(f"delete from {table} where n = ?", (place.base,))
        for table in ("chunks", "vectors"):
            self._connection.execute(f"delete from {table} where n between ? and ?", bounds)
        collection.documents -= 1
        collection.chunks -= place.size
        self._log(collection.c, REMOVED, place.base, place.size)

    def _write_document(
        self,
        collection: Collection,
        summary: DocumentSummary,
        indexes: Sequence[int],
        lengths: npt.NDArray[np.uint32],
    ) -> None:
        """The document of the chunks that were written last."""
        base, count = collection.start + collection.next, len(indexes)
        dense = indexes == list(range(count))
        packed = None if dense else np.array(indexes, "<u4").tobytes()
        tokens = lengths.astype("<u4").tobytes()
        crc = document_crc(base, summary.scope, summary.document_id, count, packed, tokens)
        self._connection.execute(
            "insert into documents values(?, ?, ?, ?, ?, ?, ?, ?)",
            (base, collection.c, summary.scope, summary.document_id, count, packed, tokens, crc),
        )
        head = summary.model_dump_json().encode()
        self._connection.execute("insert into heads values(?, ?, ?)", (base, checksum(head, HEAD, base), head))
        collection.next += max(1, count)
        collection.documents += 1
        collection.chunks += count
        self._log(collection.c, ADDED, base, count)

    def _write_chunks(self, base: int, document: NewDocument) -> None:
        self._connection.executemany(
            "insert into chunks values(?, ?, ?)",
            (
                (number, placed(crc, CHUNK, number), body)
                for number, (crc, body) in enumerate(zip(document.crcs, document.bodies, strict=True), base)
            ),
        )
        self._connection.executemany("insert into vectors values(?, ?, ?, ?)", _vector_rows(base, document))

    # --- segments ---

    def add_segment(self, c: int, level: int, base: int, stop: int, blocks: Iterable[Block]) -> None:
        segment = self.state.next_segment
        self.state.next_segment += 1
        self._connection.execute(
            "insert into segments values(?, ?, ?, ?, ?, ?)",
            (segment, c, level, base, stop, segment_crc(segment, c, level, base, stop)),
        )
        self._connection.executemany(
            "insert into blocks(seg, kind, first, until, crc, data) values(?, ?, ?, ?, ?, ?)",
            ((segment, block.kind, block.first, block.until, block.crc(segment), block.data) for block in blocks),
        )

    def log_segments(self, c: int) -> None:
        """Say that segments of a collection have changed."""
        self._log(c, SEGMENTS, 0, 0)

    def _log(self, c: int, op: int, base: int, count: int) -> None:
        self.state.seq += 1
        seq = self.state.seq
        self._connection.execute(
            "insert into log values(?, ?, ?, ?, ?, ?)",
            (seq, c, op, base, count, checksum(b"", LOG, seq, c, op, base, count)),
        )


def _vector_rows(base: int, document: NewDocument) -> Iterable[tuple[int, int, int, bytes]]:
    if not document.vectors.shape[1]:
        return
    for start in range(0, len(document.indexes), _VECTORS):
        rows = document.vectors[start : start + _VECTORS].astype("<f4").tobytes()
        count = min(_VECTORS, len(document.indexes) - start)
        yield base + start, count, checksum(rows, VECTORS, base + start, count), rows
