"""Writes to one collection on the embedded engine, in pieces that the worker runs between reads."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...documents import DocumentSummary
from ...retrieval.lexical import K1, B
from ..engine.payload import CHUNK, metadata_payload
from ..engine.prepared import PreparedChunk, PreparedDocument
from ..engine.sparse import sparse_vector, storable_average
from ..rows.worker import Steps
from ..versions.groups import at_most, grouped, slices
from ..versions.heads import Head, Name, Runs, runs_of
from .edge_table import Table, point_id, point_ids
from .room import check_room
from .schema import DENSE, HEAD, KIND, SPARSE, SUMMARY
from .shard import BEFORE, NUMBER, Shard, head_id

# One operation holds the interpreter lock: 25 ms for 500 points of 256 dimensions at 100k chunks.
_PIECE_POINTS = 300
_PIECE_CHARACTERS = 1_500_000
_DELETE_POINTS = 2_000
# The write-ahead log is replayed at the next open, 77k points in 4.4 s; a flush of 3,000 takes 30 ms.
_FLUSH_POINTS = 3_000
_DRIFT = 1.2


class ShardWriter:
    """The write operations, as steps."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._edge = shard.edge
        self._unflushed = 0

    @property
    def _table(self) -> Table:
        return self._shard.table

    def replace(self, documents: Sequence[PreparedDocument]) -> Steps[int]:
        """Publish whole documents. Returns the number of chunks they had before."""
        removed = 0
        self._begin(documents)
        for group in _groups(documents):
            number_of = {document.name: self._table.new_number() for document in group}
            removed += yield from self._publish(group, number_of)
            yield
        yield from self._tidy()
        return removed

    def delete(self, names: Sequence[Name]) -> Steps[int]:
        """Remove documents, each in one operation. Returns the number of chunks."""
        self._shard.changing()
        removed = 0
        for name in names:
            head = self._table.heads.get(name)
            if head is None:
                continue
            self._delete([*point_ids(head), head_id(name)])
            self._table.drop(name)
            removed += head.count
            yield
        yield from self._tidy()
        return removed

    # --- publishing ---

    def _begin(self, documents: Sequence[PreparedDocument]) -> None:
        check_room(self._shard.folder)
        self._shard.changing()
        lengths = [chunk.terms.length for document in documents for chunk in document.chunks if chunk.terms.length]
        info = self._shard.info
        if lengths and (not info.weight_average or not self._table.indexed):
            info.weight_average = storable_average(sum(lengths) / len(lengths))
            info.save(self._shard.folder)

    def _publish(self, group: Sequence[PreparedDocument], number_of: dict[Name, int]) -> Steps[int]:
        """Write a group of small documents in one operation, or one large document in several."""
        *early, last = _pieces([chunk for document in group for chunk in document.chunks])
        if early:
            (number,) = number_of.values()
            self._shard.hidden.add(number)
            try:
                for piece in early:
                    self._upsert([self._chunk_point(number, chunk) for chunk in piece])
                    yield
            except BaseException:
                self._shard.remove_number(number)
                self._shard.hidden.discard(number)
                raise
            points = [self._chunk_point(number, chunk) for chunk in last]
        else:
            points = [
                self._chunk_point(number_of[document.name], chunk) for document in group for chunk in document.chunks
            ]
        heads = {document.name: _head(number_of[document.name], document) for document in group}
        points += [self._head_point(document.summary, heads[document.name]) for document in group]
        return self._commit(heads, points)

    def _commit(self, heads: dict[Name, Head], points: list[Any]) -> int:
        """The operation that publishes, and what follows from it; no read comes between."""
        old = [head for name in heads if (head := self._table.heads.get(name))]
        self._upsert(points)
        for name, head in heads.items():
            self._table.put(name, head)
            self._shard.hidden.discard(head.number)
        self._shard.hidden.update(head.number for head in old)
        old_points = [point for head in old for point in point_ids(head)]
        for some in slices(old_points, _DELETE_POINTS):
            self._delete(some)
        self._shard.hidden.difference_update(head.number for head in old)
        return len(old_points)

    def _chunk_point(self, number: int, chunk: PreparedChunk) -> Any:
        vectors: dict[str, Any] = {DENSE: chunk.vector} if chunk.vector else {}
        indices, values = chunk.terms.sparse(self._shard.info.weight_average)
        if indices:
            vectors[SPARSE] = self._edge.SparseVector(indices, values)
        return self._edge.Point(point_id(number, chunk.index), vectors, {**chunk.payload, NUMBER: number})

    def _head_point(self, summary: DocumentSummary, head: Head) -> Any:
        name = (summary.scope, summary.document_id)
        payload = {
            KIND: HEAD,
            SUMMARY: summary.model_copy(update={"chunk_count": head.count}).model_dump_json(),
            "s": name[0],
            "d": name[1],
            BEFORE: before.number if (before := self._table.heads.get(name)) else None,
            **head.payload(),
            **metadata_payload(summary.metadata),
        }
        return self._edge.Point(head_id(name), {}, payload)

    # --- the engine ---

    def _upsert(self, points: list[Any]) -> None:
        check_room(self._shard.folder)
        self._shard.update(self._edge.UpdateOperation.upsert_points(points))
        self._unflushed += len(points)

    def _delete(self, points: Sequence[int | uuid.UUID]) -> None:
        """In one operation."""
        check_room(self._shard.folder, deleting=True)
        self._shard.update(self._edge.UpdateOperation.delete_points(list(points)))

    # --- afterwards ---

    def _tidy(self) -> Steps[None]:
        if self._unflushed >= _FLUSH_POINTS:
            self._shard.engine.flush()
            self._unflushed = 0
            yield
        average, used = self._table.average_length, self._shard.info.weight_average
        if self._table.indexed and not used / _DRIFT <= average <= used * _DRIFT:
            yield from self._reweigh(storable_average(average))

    def _reweigh(self, average: float) -> Steps[None]:
        """Compute all sparse weights anew. Recorded at the end, so that a crash repeats it."""
        everything = [point for head in self._table.heads.values() for point in point_ids(head)]
        for points in slices(everything, _PIECE_POINTS):
            postings = self._shard.postings(points)
            base = K1 * (1 - B + B * postings.lengths / average)
            weights = postings.frequency / (postings.frequency + base[postings.point])
            bounds = np.searchsorted(postings.point, np.arange(len(points) + 1)).tolist()
            terms, values = postings.term.tolist(), weights.tolist()
            vectors = []
            for row, point in enumerate(points):
                low, high = bounds[row], bounds[row + 1]
                if low < high:
                    length = float(postings.lengths[row])
                    indices, weights_of = sparse_vector(terms[low:high], values[low:high], length, average)
                    vectors.append(
                        self._edge.PointVectors(point, {SPARSE: self._edge.SparseVector(indices, weights_of)})
                    )
            if vectors:
                self._shard.update(self._edge.UpdateOperation.update_vectors(vectors))
            yield
        self._shard.info.weight_average = average
        self._shard.info.save(self._shard.folder)


def _head(number: int, document: PreparedDocument) -> Head:
    lengths = [chunk.terms.length for chunk in document.chunks]
    runs: Runs = runs_of(chunk.index for chunk in document.chunks)
    return Head(number, runs, tokens=sum(lengths), indexed=sum(map(bool, lengths)))


def _groups(documents: Sequence[PreparedDocument]) -> Iterator[list[PreparedDocument]]:
    """Documents that fit in one operation together; one that does not fit comes alone."""
    return grouped(
        documents,
        (lambda document: len(document.chunks) + 1, _PIECE_POINTS),
        (lambda document: _characters(document.chunks), _PIECE_CHARACTERS),
    )


def _pieces(chunks: Sequence[PreparedChunk]) -> list[list[PreparedChunk]]:
    """Chunks in pieces for one operation each; at least one piece."""
    bounds = at_most(_PIECE_POINTS), (lambda chunk: _characters([chunk]), _PIECE_CHARACTERS)
    return list(grouped(chunks, *bounds)) or [[]]


def _characters(chunks: Iterable[PreparedChunk]) -> int:
    return sum(len(chunk.payload[CHUNK]) + 8 * len(chunk.vector) for chunk in chunks)
