"""One collection of `MemoryStore`: rows of vectors and chunks, and what finds them. Not safe for threads."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord
from ...filters import FilterLike
from ...filters.plan import IndexedMetadata, index_metadata, plan, plan_matches
from ...retrieval.lexical import counts, tokenize
from .._shared.records import REPLACED, Matrix, Prepared, heads_of, query_vector
from .._shared.vector_rows import Mask, Rows, Scores, VectorRows
from ..base import CollectionInfo, Get, Keyword, Nearest, Scored, Step
from .index import FilterIndex, KeywordIndex


class Entry(NamedTuple):
    """A chunk with what is indexed of it, computed before the lock is taken."""

    key: ChunkKey
    chunk: str
    """As JSON: readers get their own copy faster than by copying, and the garbage collector has less to walk."""
    terms: Counter[str]
    indexed: IndexedMetadata


@dataclass(frozen=True)
class Batch:
    """Entries with their vectors, and the heads that a plain insert would give their documents."""

    entries: list[Entry]
    matrix: Matrix
    heads: dict[tuple[str, str], tuple[int, DocumentSummary]]

    @classmethod
    def of(cls, prepared: Prepared) -> Batch:
        entries = [
            Entry(
                record.key,
                record.chunk.model_dump_json(),
                counts(tokenize(record.chunk.indexed_text)),
                index_metadata(record.chunk.metadata),
            )
            for record in prepared.records
        ]
        return cls(entries, prepared.matrix, heads_of(prepared.records))


@dataclass
class _Document:
    summary: str
    """As JSON."""
    first_index: int
    """Chunk index that the summary came from, or `REPLACED`."""
    indexed: IndexedMetadata
    rows: dict[int, int] = field(default_factory=dict)
    """Chunk index -> row."""


class Table:
    """Rows are added at the end, marked dead when deleted, and closed up by `compact`."""

    def __init__(self, info: CollectionInfo) -> None:
        self.info = info
        self._documents: dict[tuple[str, str], _Document] = {}
        self._scopes: dict[str, set[str]] = {}
        self._chunks: list[str] = []
        self._keys: list[ChunkKey] = []
        self._vectors = VectorRows(info.dimensions, info.distance)
        self._lengths = array("q")
        self._filters = FilterIndex()
        self._keywords = KeywordIndex()

    def __len__(self) -> int:
        """Number of chunks."""
        return self._vectors.live_count

    @property
    def row_count(self) -> int:
        """Rows, dead ones included: what a search costs."""
        return len(self._vectors)

    @property
    def document_count(self) -> int:
        return len(self._documents)

    # --- writing ---

    def new_chunks(self, batch: Batch, replaced: Iterable[tuple[str, str]] = ()) -> int:
        """By how many chunks the table grows when `batch` is written and the documents `replaced` go."""
        gone = set(replaced)
        held = sum(len(self._documents[identity].rows) for identity in gone if identity in self._documents)
        return -held + sum(entry.key[:2] in gone or self._row_of(entry.key) is None for entry in batch.entries)

    def insert(self, batch: Batch) -> None:
        """Add or overwrite chunks; heads as `heads_of` says."""
        for identity, (index, summary) in batch.heads.items():
            document = self._documents.get(identity)
            if document is None or index <= document.first_index:
                self._put_head(identity, index, summary)
        self._append(batch)

    def replace(self, summaries: Sequence[DocumentSummary], batch: Batch) -> int:
        """Publish whole documents. Returns the number of chunks that were there."""
        before = sum(self._remove((summary.scope, summary.document_id)) for summary in summaries)
        for summary in summaries:
            self._put_head((summary.scope, summary.document_id), REPLACED, summary)
        self._append(batch)
        return before

    def delete(self, document_ids: Iterable[str], where: FilterLike | None) -> int:
        """Remove documents of all scopes whose metadata match. Returns the number of chunks removed."""
        chosen = [(scope, document_id) for document_id in document_ids for scope in self._scopes.get(document_id, ())]
        return sum(map(self._remove, list(self._matching(chosen, where))))

    def delete_by_filter(self, where: FilterLike | None) -> list[str]:
        """Remove documents whose metadata match. Returns their ids, sorted."""
        chosen = list(self._matching(self._documents, where))
        for identity in chosen:
            self._remove(identity)
        return sorted({document_id for _, document_id in chosen})

    @property
    def is_sparse(self) -> bool:
        """Whether `compact` is worth its time, which is that of writing all rows again."""
        return self._vectors.is_sparse

    def compact(self) -> None:
        """Drop dead rows."""
        new_rows = self._vectors.compact()
        kept = np.flatnonzero(new_rows >= 0).tolist()
        self._filters.renumber(new_rows)
        self._keywords.renumber(new_rows)
        self._lengths = array("q", (self._lengths[row] for row in kept))
        self._keys = [self._keys[row] for row in kept]
        self._chunks = [self._chunks[row] for row in kept]
        for document in self._documents.values():
            document.rows = {index: int(new_rows[row]) for index, row in document.rows.items()}

    # --- reading ---

    def answer(self, step: Step) -> Any:
        """Answer of one step of `retrieve_steps`."""
        match step:
            case Nearest(vector, limit, where, keys):
                return self._nearest(vector, limit, where, keys)
            case Keyword(text, limit, where):
                return self._by_keyword(text, limit, where)
            case Get(keys):
                found = {key: self._row_of(key) for key in keys}
                return {key: self._copy_of(row) for key, row in found.items() if row is not None}

    def documents(self, where: FilterLike | None) -> list[DocumentSummary]:
        """Copies of the summaries of matching documents, in order."""
        chosen = [self._documents[identity] for identity in sorted(self._matching(self._documents, where))]
        summaries = [DocumentSummary.model_validate_json(document.summary) for document in chosen]
        for summary, document in zip(summaries, chosen, strict=True):
            summary.chunk_count = len(document.rows)
        return summaries

    def fetch(self, keys: Iterable[ChunkKey], where: FilterLike | None, *, with_vectors: bool) -> list[VectorRecord]:
        """Records in the order of `keys`, without the missing and those that do not match."""
        rows = [row for key in keys if (row := self._row_of(key)) is not None]
        if (mask := self._mask(where)) is not None:
            rows = [row for row in rows if mask[row]]
        return [self._record(row, with_vectors) for row in rows]

    def chunk_keys(self, document_id: str, start: int, stop: int) -> list[ChunkKey]:
        """Keys of a document's chunks with ``start <= index < stop``, by (scope, index)."""
        return [
            ChunkKey(scope, document_id, index)
            for scope in sorted(self._scopes.get(document_id, ()))
            for index in sorted(self._documents[scope, document_id].rows)
            if start <= index < stop
        ]

    def matching_keys(self, where: FilterLike | None) -> list[ChunkKey]:
        """Keys of all matching chunks, in order."""
        return sorted(self._keys[row] for row in self._rows(where))

    def count(self, where: FilterLike | None) -> int:
        """Number of matching chunks."""
        return len(self) if where is None else len(self._rows(where))

    # --- rows ---

    def _append(self, batch: Batch) -> None:
        first = self._vectors.append(batch.matrix)
        self._lengths.extend(entry.terms.total() for entry in batch.entries)
        for row, entry in enumerate(batch.entries, first):
            document = self._documents[entry.key[:2]]
            if (old := document.rows.get(entry.key.chunk_index)) is not None:
                self._kill(old)
            document.rows[entry.key.chunk_index] = row
            self._keys.append(entry.key)
            self._chunks.append(entry.chunk)
            self._filters.add(row, entry.indexed)
            self._keywords.add(row, entry.terms)

    def _kill(self, row: int) -> None:
        self._vectors.remove(row)
        self._chunks[row] = ""

    def _remove(self, identity: tuple[str, str]) -> int:
        document = self._documents.pop(identity, None)
        if document is None:
            return 0
        scope, document_id = identity
        self._scopes[document_id].discard(scope)
        if not self._scopes[document_id]:
            del self._scopes[document_id]
        for row in document.rows.values():
            self._kill(row)
        return len(document.rows)

    def _put_head(self, identity: tuple[str, str], index: int, summary: DocumentSummary) -> None:
        held = self._documents.get(identity)
        rows = held.rows if held is not None else {}
        self._documents[identity] = _Document(summary.model_dump_json(), index, index_metadata(summary.metadata), rows)
        self._scopes.setdefault(identity[1], set()).add(identity[0])

    def _row_of(self, key: ChunkKey) -> int | None:
        document = self._documents.get((key.scope, key.document_id))
        return None if document is None else document.rows.get(key.chunk_index)

    def _matching(self, identities: Iterable[tuple[str, str]], where: FilterLike | None) -> Iterator[tuple[str, str]]:
        node = plan(where)
        for identity in identities:
            if node is None or plan_matches(node, self._documents[identity].indexed):
                yield identity

    def _mask(self, where: FilterLike | None) -> Mask | None:
        node = plan(where)
        if node is None:
            return None
        alive = self._vectors.alive
        return self._filters.mask(node, alive) & alive

    def _rows(self, where: FilterLike | None) -> Rows:
        mask = self._mask(where)
        return np.flatnonzero(self._vectors.alive if mask is None else mask)

    def _copy_of(self, row: int) -> Chunk:
        return Chunk.model_validate_json(self._chunks[row])

    def _record(self, row: int, with_vector: bool) -> VectorRecord:
        key = self._keys[row]
        vector = self._vectors.vector(row) if with_vector else []
        return VectorRecord.model_construct(
            vector=vector, document_id=key.document_id, chunk=self._copy_of(row), scope=key.scope
        )

    # --- ranking ---

    def _nearest(
        self, vector: Sequence[float], limit: int, where: FilterLike | None, keys: Sequence[ChunkKey] | None
    ) -> list[Scored]:
        query = query_vector(self.info.name, self.info.dimensions, vector)
        mask = self._mask(where)
        rows: Rows | None = None
        if keys is not None:
            found = [row for key in dict.fromkeys(keys) if (row := self._row_of(key)) is not None]
            rows = np.array(found, dtype=np.intp)
            rows = rows if mask is None else rows[mask[rows]]
        elif mask is not None:
            rows = np.flatnonzero(mask)
        return self._best(*self._vectors.nearest(query, limit, rows), limit)

    def _by_keyword(self, text: str, limit: int, where: FilterLike | None) -> list[Scored]:
        lengths = np.array(self._lengths, dtype=np.int64)
        scores = self._keywords.scores(counts(tokenize(text)), self._vectors.alive, lengths)
        if (mask := self._mask(where)) is not None:
            scores[~mask] = 0.0
        rows = np.flatnonzero(scores > 0)
        return self._best(rows, scores[rows], limit)

    def _best(self, rows: Rows, scores: Scores, limit: int) -> list[Scored]:
        if limit <= 0:
            return []
        if len(rows) > limit:
            near = scores >= np.partition(scores, len(rows) - limit)[len(rows) - limit]
            rows, scores = rows[near], scores[near]
        found = [Scored(self._keys[row], float(score)) for row, score in zip(rows, scores, strict=True)]
        return sorted(found, key=lambda hit: (-hit.score, hit.key))[:limit]
