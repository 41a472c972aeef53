"""Writing documents to one collection on a Milvus server.

A version is published by its head row; chunks of a version without a head are invisible to every reader. So a crash
leaves the old version or the new one, and rows that nobody sees; the next writer of the document removes what it knows
of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..engine.prepared import PreparedChunk, PreparedDocument
from ..engine.sparse import storable_average
from ..rows.worker import Steps
from ..versions.heads import Head, Name, Runs, runs_of
from .client import Rows
from .heads import Heads
from .schema import (
    ID,
    MilvusInfo,
    Stored,
    chunk_row,
    chunk_row_id,
    head_row,
    head_row_id,
    info_row,
    new_number,
)
from .view import Reader

_HISTORY = 16
_GROUP_CHUNKS = 256
_PAGE = 500


class Writer:
    """The write operations, as steps: reads may run between them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._connection: Rows = reader.connection
        self._heads: Heads = reader.heads

    @property
    def _info(self) -> MilvusInfo:
        return self._reader.info

    def replace(self, documents: Sequence[PreparedDocument]) -> Steps[int]:
        """Publish whole documents. Returns the number of chunks they had before."""
        before = 0
        self._begin(documents)
        for group in _groups(documents):
            before += yield from self._publish(group)
        return before

    def delete(self, names: Sequence[Name]) -> Steps[int]:
        """Remove documents: first the heads, so that none of the chunks counts. Returns the number of chunks."""
        removed = 0
        for start in range(0, len(names), _PAGE):
            stored = self._heads.by_name(names[start : start + _PAGE])
            self._connection.delete(self._reader.heads_name, [head_row_id(name) for name in stored])
            self._heads.changed(dropped=stored)
            self._delete_rows(stored.values())
            removed += sum(one.head.count for one in stored.values())
            yield
        return removed

    # --- publishing ---

    def _begin(self, documents: Sequence[PreparedDocument]) -> None:
        """Before the first chunks are written, choose the average length that weights are computed with."""
        info = self._info
        lengths = [chunk.terms.length for document in documents for chunk in document.chunks if chunk.terms.length]
        if lengths and not info.weight_average:
            self._save(info.model_copy(update={"weight_average": storable_average(sum(lengths) / len(lengths))}))

    def _save(self, info: MilvusInfo) -> None:
        self._connection.upsert(self._reader.heads_name, [info_row(info)])
        self._reader.take(info)

    def _publish(self, group: Sequence[PreparedDocument]) -> Steps[int]:
        numbers = {document.name: new_number() for document in group}
        rows = [row for document in group for row in self._rows(document.name, numbers[document.name], document.chunks)]
        try:
            for piece in self._connection.pieces(rows):
                self._connection.upsert(self._reader.chunks_name, piece)
                yield
        except BaseException:
            with contextlib.suppress(Exception):  # the first error says more, and no head names these rows
                self._connection.delete(self._reader.chunks_name, [row[ID] for row in rows])
            raise
        names = [document.name for document in group]
        before = self._heads.by_name(names)
        heads = {document.name: _head(numbers[document.name], document) for document in group}
        histories = {name: _history(before.get(name)) for name in names}
        rows = [head_row(document.summary, heads[document.name], histories[document.name]) for document in group]
        for piece in self._connection.pieces(rows):
            self._connection.upsert(self._reader.heads_name, piece)
        self._heads.changed([Stored(name, heads[name], histories[name]) for name in names])
        self._remove_old(heads, before)
        yield
        return sum(one.head.count for one in before.values())

    def _remove_old(self, heads: Mapping[Name, Head], before: Mapping[Name, Stored]) -> None:
        """Remove the rows of what was replaced; where another process won the race, those just written."""
        after = self._heads.by_name(list(heads))
        lost = [
            Stored(name, head, [])
            for name, head in heads.items()
            if name not in after or head.number not in (after[name].head.number, *after[name].history)
        ]
        if before:
            self._heads.removing()
        self._delete_rows([*before.values(), *lost])

    def _delete_rows(self, versions: Iterable[Stored]) -> None:
        versions = list(versions)
        ids = [chunk_row_id(one.head.number, index) for one in versions for index in one.head.indexes()]
        self._connection.delete(self._reader.chunks_name, ids)

    def _rows(self, name: Name, number: int, chunks: Sequence[PreparedChunk]) -> Iterator[dict[str, Any]]:
        return (chunk_row(name, number, chunk, self._info) for chunk in chunks)


def _head(number: int, document: PreparedDocument) -> Head:
    lengths = [chunk.terms.length for chunk in document.chunks]
    runs: Runs = runs_of(chunk.index for chunk in document.chunks)
    return Head(number, runs, tokens=sum(lengths), indexed=sum(map(bool, lengths)))


def _history(before: Stored | None) -> list[int]:
    return [] if before is None else [before.head.number, *before.history][:_HISTORY]


def _groups(documents: Sequence[PreparedDocument]) -> Iterator[list[PreparedDocument]]:
    """Documents that are published together."""
    group: list[PreparedDocument] = []
    chunks = 0
    for document in documents:
        if group and chunks + len(document.chunks) > _GROUP_CHUNKS:
            yield group
            group, chunks = [], 0
        group.append(document)
        chunks += len(document.chunks)
    if group:
        yield group
