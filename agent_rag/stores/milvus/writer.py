"""Writing documents to one collection in Milvus.

A version is published by its head row; chunks of a version without a head are invisible to every reader. So a crash
leaves the old version or the new one, and rows that nobody sees: a local file is cleared of them when it is opened, and
on a server the next writer of the document removes what it knows of.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._shared.heads import Head, Name, Runs, runs_of
from .._shared.prepared import PreparedChunk, PreparedDocument
from .._shared.sparse import Terms, decode, storable_average
from .._shared.worker import Steps
from .client import Connection
from .heads import Heads, Published
from .schema import (
    FREQUENCIES,
    HEAD_OF,
    ID,
    NUMBER,
    SPARSE,
    TERMS,
    MilvusInfo,
    Stored,
    chunk_row,
    chunk_row_id,
    frequencies_of,
    head_row,
    head_row_id,
    info_row,
    local_columns,
    new_number,
    parse_row_id,
    sparse_of_row,
    sparse_row,
    stored_terms,
    unpack_frequencies,
    with_columns,
)
from .view import Reader

_HISTORY = 16
_GROUP_CHUNKS = 256
_DRIFT = 1.2
_PAGE = 500
# Below, an index saves nothing, and faiss prints a warning when it makes one of less than 39 rows.
_INDEX_FROM = 5_000


class Writer:
    """The write operations, as steps: reads may run between them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._connection: Connection = reader.connection
        self._heads: Heads = reader.heads
        self._keeps_frequencies = reader.info.keyword and not reader.heads.is_shared

    @property
    def _info(self) -> MilvusInfo:
        return self._reader.info

    def replace(self, documents: Sequence[PreparedDocument]) -> Steps[int]:
        """Publish whole documents. Returns the number of chunks they had before."""
        before = 0
        self._begin(documents)
        for group in _groups(documents):
            before += yield from self._publish(group)
        yield from self._tidy()
        return before

    def insert(self, documents: Sequence[PreparedDocument]) -> Steps[None]:
        """Add chunks to documents; a new document appears whole."""
        stored = self._heads.by_name([document.name for document in documents])
        yield from self.replace([document for document in documents if document.name not in stored])
        known = [document for document in documents if document.name in stored]
        self._begin(known)
        for document in known:
            yield from self._overwrite(document, stored[document.name])
        yield from self._tidy()

    def delete(self, names: Sequence[Name]) -> Steps[int]:
        """Remove documents: first the heads, so that none of the chunks counts. Returns the number of chunks."""
        removed = 0
        for start in range(0, len(names), _PAGE):
            stored = self._heads.by_name(names[start : start + _PAGE])
            terms = self._stored_frequencies(list(stored))
            self._connection.delete(self._reader.heads_name, [head_row_id(name) for name in stored])
            self._heads.changed({}, stored, _less(terms.values()))
            self._delete_rows(stored.values())
            removed += sum(one.head.count for one in stored.values())
            yield
        return removed

    def repair(self) -> None:
        """After opening a local file, undo what a crash did to it.

        Rows that no head names go. Milvus Lite 3.2 holds rows twice when it was killed while it flushed, once from the
        segment and once from the log, and then finds them twice; a row that is written again is there once.
        """
        chunks = self._reader.chunks_name
        if self._connection.count(chunks) == self._heads.chunks:
            return
        ids = Counter(row[ID] for row in self._connection.scan(chunks, "", [ID], distinct=False))
        live = self._heads.by_number(dict.fromkeys((parse_row_id(one)[0] for one in ids), ""))
        dead = [one for one in ids if (at := parse_row_id(one))[0] not in live or not live[at[0]].head.has(at[1])]
        self._connection.delete(chunks, dead)
        for one in dead:
            del ids[one]
        twice = [one for one, times in ids.items() if times > 1]
        for start in range(0, len(twice), _PAGE):
            rows = [{ID: one, NUMBER: parse_row_id(one)[0]} for one in twice[start : start + _PAGE]]
            self._connection.upsert(chunks, rows, partial=True)

    # --- publishing ---

    def _begin(self, documents: Sequence[PreparedDocument]) -> None:
        """Before chunks are written, choose what is fixed for them: the average length that weights are computed with,
        and columns for numbers."""
        info = self._info
        lengths = [chunk.terms.length for document in documents for chunk in document.chunks if chunk.terms.length]
        average = info.weight_average
        if lengths and not average:
            average = storable_average(sum(lengths) / len(lengths))
        changed = info.model_copy(update={"weight_average": average})
        if not self._heads.is_shared:
            changed = with_columns(changed, [chunk.payload for document in documents for chunk in document.chunks])
        if changed != info:
            self._save(changed)

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
        old_terms = self._stored_frequencies(list(before))
        heads = {document.name: _head(numbers[document.name], document) for document in group}
        added = {document.name: frequencies_of(document.chunks) for document in group}
        for piece in self._connection.pieces(
            [
                head_row(
                    document.summary,
                    heads[document.name],
                    added[document.name] if self._keeps_frequencies else {},
                    _history(before.get(document.name)),
                )
                for document in group
            ]
        ):
            self._connection.upsert(self._reader.heads_name, piece)
        changed = _plus(added.values())
        changed.subtract(_plus(old_terms.values()))
        published = {document.name: Published(heads[document.name], document.summary) for document in group}
        self._heads.changed(published, (), changed)
        self._remove_old(heads, before)
        yield
        return sum(one.head.count for one in before.values())

    def _remove_old(self, heads: Mapping[Name, Head], before: Mapping[Name, Stored]) -> None:
        """Remove the rows of what was replaced; where another process won the race, those just written."""
        lost: list[Stored] = []
        if self._heads.is_shared:
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
        for chunk in chunks:
            row = chunk_row(name, number, chunk, self._info)
            if self._heads.is_shared:
                row[TERMS] = stored_terms(chunk)
            else:
                # pymilvus looks at every character of a text; here the number alone tells the document.
                row |= {HEAD_OF: "", **local_columns(chunk, self._info)}
            yield row

    # --- adding to a document ---

    def _overwrite(self, document: PreparedDocument, stored: Stored) -> Steps[None]:
        """Put chunks into a document that is there."""
        head = stored.head
        replaced = [chunk.index for chunk in document.chunks if head.has(chunk.index)]
        ids = [chunk_row_id(head.number, index) for index in replaced if self._info.is_sparse]
        old = decode(sparse_of_row(row) for row in self._connection.get(self._reader.chunks_name, ids, [SPARSE]))
        for piece in self._connection.pieces(list(self._rows(document.name, head.number, document.chunks))):
            self._connection.upsert(self._reader.chunks_name, piece)
        lowest = min((start for start, _ in head.runs), default=None)
        follows = not head.given and (lowest is None or document.chunks[0].index <= lowest)
        summary = document.summary if follows else self._heads.summaries(None, [document.name])[0]
        lengths = [chunk.terms.length for chunk in document.chunks]
        new = Head(
            number=head.number,
            runs=_union(head, document.chunks),
            tokens=head.tokens + sum(lengths) - int(old.lengths.sum()),
            indexed=head.indexed + sum(map(bool, lengths)) - int(np.count_nonzero(old.lengths)),
            given=head.given,
        )
        changed = _plus([frequencies_of(document.chunks)])
        changed.subtract(old.frequencies_by_term())
        frequencies = self._stored_frequencies([document.name]).get(document.name, Counter())
        frequencies.update(changed)
        row = head_row(summary, new, +frequencies if self._keeps_frequencies else {}, stored.history)
        self._connection.upsert(self._reader.heads_name, [row])
        self._heads.changed({document.name: Published(new, summary)}, (), changed)
        yield

    # --- statistics ---

    def _stored_frequencies(self, names: Sequence[Name]) -> dict[Name, Counter[int]]:
        """Term -> number of chunks, by document."""
        if not self._keeps_frequencies or not names:
            return {}
        name_of = {head_row_id(name): name for name in names}
        rows = self._connection.get(self._reader.heads_name, list(name_of), [FREQUENCIES])
        found = {}
        for row in rows:
            terms, counts = unpack_frequencies(row)
            found[name_of[row[ID]]] = Counter(dict(zip(terms.tolist(), counts.tolist(), strict=True)))
        return found

    def _tidy(self) -> Steps[None]:
        """Compute the weights anew when the average length has moved far from theirs, and index the vectors once there
        are many; not beside other writers."""
        if self._heads.is_shared:
            return
        if not self._info.is_indexed and self._info.dimensions and self._heads.chunks >= _INDEX_FROM:
            self._connection.index_vectors(self._reader.chunks_name)
            self._save(self._info.model_copy(update={"is_indexed": True}))
            yield
        average, used = self._heads.average_length, self._info.weight_average
        if not self._heads.indexed or used / _DRIFT <= average <= used * _DRIFT:
            return
        average = storable_average(average)
        stored = self._heads.by_name(self._heads.names())
        ids = [chunk_row_id(one.head.number, index) for one in stored.values() for index in one.head.indexes()]
        for start in range(0, len(ids), _PAGE):
            rows = self._connection.get(self._reader.chunks_name, ids[start : start + _PAGE], [SPARSE])
            changed = [{ID: row[ID], SPARSE: _reweighed(row, average)} for row in rows]
            self._connection.upsert(self._reader.chunks_name, changed, partial=True)
            yield
        self._save(self._info.model_copy(update={"weight_average": average}))


def _reweighed(row: Mapping[str, Any], average: float) -> dict[int, float]:
    postings = decode([sparse_of_row(row)])
    terms = Terms(postings.term.tolist(), postings.frequency.astype(int).tolist(), int(postings.lengths[0]))
    return sparse_row(*terms.sparse(average))


def _head(number: int, document: PreparedDocument) -> Head:
    lengths = [chunk.terms.length for chunk in document.chunks]
    runs: Runs = runs_of(chunk.index for chunk in document.chunks)
    return Head(number, runs, tokens=sum(lengths), indexed=sum(map(bool, lengths)), given=document.given)


def _union(head: Head, chunks: Sequence[PreparedChunk]) -> Runs:
    return runs_of([*head.indexes(), *(chunk.index for chunk in chunks)])


def _history(before: Stored | None) -> list[int]:
    return [] if before is None else [before.head.number, *before.history][:_HISTORY]


def _plus(counters: Iterable[Counter[int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _less(counters: Iterable[Counter[int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    total.subtract(_plus(counters))
    return total


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
