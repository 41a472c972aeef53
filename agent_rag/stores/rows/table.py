"""One collection in memory without its contents: rows of vectors, the documents they belong to, and what finds them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

import numpy as np

from ...documents import ChunkKey, DocumentSummary
from ...filters import FilterLike
from ...filters.plan import IndexedMetadata, plan, plan_matches
from ...retrieval.coverage import seen_share
from ..base import CollectionInfo, Scored
from ..engine.driver import best
from ..engine.records import Matrix, Rows, query_vector
from ..versions.heads import Name
from .inverted import FilterIndex, KeywordIndex, Term, matching_mask, matching_rows
from .vectors import Mask, Scores, VectorRows, first_scores


class Document(NamedTuple):
    """What a table holds of a document besides its rows."""

    summary: str
    """As JSON, a tenth of the size of the object."""
    indexed: IndexedMetadata
    """Of the summary's metadata."""
    version: str
    """Of this write."""


@dataclass
class _Held:
    document: Document
    rows: dict[int, int] = field(default_factory=dict)
    """Chunk index -> row."""


class RowTable(Generic[Term]):
    """Rows are added at the end, marked dead when deleted, and closed up by `compact`. Not safe for threads.

    Args:
        info: Its dimensions, distance, and the name that errors say.
    """

    def __init__(self, info: CollectionInfo) -> None:
        self._name, self._dimensions = info.name, info.dimensions
        self._documents: dict[Name, _Held] = {}
        self._scopes: dict[str, set[str]] = {}
        self._keys: list[ChunkKey] = []
        self._lengths = array("q")
        self._vectors = VectorRows(info.dimensions, info.distance)
        self.filters = FilterIndex()
        """Of all rows, added by the owner."""
        self.keywords: KeywordIndex[Term] = KeywordIndex()
        """Of the rows that the owner has added to it."""

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

    def put(self, name: Name, document: Document) -> None:
        """Add a document without rows, or change what is known of one."""
        if (held := self._documents.get(name)) is not None:
            held.document = document
            return
        self._documents[name] = _Held(document)
        self._scopes.setdefault(name[1], set()).add(name[0])

    def reserve(self, rows: int) -> None:
        """Make room for so many rows in all."""
        self._vectors.reserve(rows)

    def append(self, keys: Sequence[ChunkKey], matrix: Matrix, lengths: Iterable[int]) -> tuple[int, list[int]]:
        """Add rows to documents that are there; a chunk with the same key is removed. `filters` comes next.

        Args:
            matrix: A vector for each of `keys`, shape ``(len(keys), dimensions)``.
            lengths: Number of tokens of each.

        Returns: The first one's row, and the rows that were removed.
        """
        first = self._vectors.append(matrix)
        removed = []
        for row, key in enumerate(keys, first):
            rows = self._documents[key.scope, key.document_id].rows
            if (old := rows.get(key.chunk_index)) is not None:
                self._vectors.remove(old)
                removed.append(old)
            rows[key.chunk_index] = row
        self._keys.extend(keys)
        self._lengths.extend(lengths)
        return first, removed

    def drop(self, name: Name) -> list[int]:
        """Remove a document. Returns its rows, none when there is no such document."""
        held = self._documents.pop(name, None)
        if held is None:
            return []
        scope, document_id = name
        self._scopes[document_id].discard(scope)
        if not self._scopes[document_id]:
            del self._scopes[document_id]
        for row in held.rows.values():
            self._vectors.remove(row)
        return list(held.rows.values())

    @property
    def is_sparse(self) -> bool:
        """Whether `compact` is worth its time, which is that of writing all rows again."""
        return self._vectors.is_sparse

    def compact(self) -> Rows:
        """Drop dead rows. Returns the rows that are kept, by their old numbers, in their new order."""
        new_rows = self._vectors.compact()
        kept = np.flatnonzero(new_rows >= 0)
        self.filters.renumber(new_rows)
        self.keywords.renumber(new_rows)
        self._lengths = array("q", (self._lengths[row] for row in kept))
        self._keys = [self._keys[row] for row in kept]
        for held in self._documents.values():
            held.rows = {index: int(new_rows[row]) for index, row in held.rows.items()}
        return kept

    # --- documents ---

    def document(self, name: Name) -> Document | None:
        held = self._documents.get(name)
        return None if held is None else held.document

    def indexes(self, name: Name) -> list[int]:
        """Chunk indexes of a document, in no order."""
        held = self._documents.get(name)
        return [] if held is None else list(held.rows)

    def find(self, document_id: str) -> list[Name]:
        """Every document with this id, by scope."""
        return [(scope, document_id) for scope in sorted(self._scopes.get(document_id, ()))]

    def matching(self, where: FilterLike | None, names: Iterable[Name] | None = None) -> Iterator[Name]:
        """Documents, of `names` where given, whose metadata match."""
        node = plan(where)
        for name in self._documents if names is None else names:
            if node is None or plan_matches(node, self._documents[name].document.indexed):
                yield name

    def summaries(self, where: FilterLike | None, document_ids: Sequence[str] | None = None) -> list[DocumentSummary]:
        """Copies of the summaries of matching documents, of these ids where given, in order."""
        among = None if document_ids is None else [name for one in document_ids for name in self.find(one)]
        chosen = [self._documents[name] for name in sorted(self.matching(where, among))]
        summaries = [DocumentSummary.model_validate_json(held.document.summary) for held in chosen]
        for summary, held in zip(summaries, chosen, strict=True):
            summary.chunk_count = len(held.rows)
        return summaries

    # --- chunks ---

    def key(self, row: int) -> ChunkKey:
        return self._keys[row]

    def row(self, key: ChunkKey) -> int | None:
        held = self._documents.get((key.scope, key.document_id))
        return None if held is None else held.rows.get(key.chunk_index)

    def vector(self, row: int) -> list[float]:
        """As it was added, but for rounding."""
        return self._vectors.vector(row)

    def chunk_keys(self, document_id: str, start: int, stop: int) -> list[ChunkKey]:
        """Keys of a document's chunks with ``start <= index < stop``, by (scope, index)."""
        return [
            ChunkKey(*name, index)
            for name in self.find(document_id)
            for index in sorted(self._documents[name].rows)
            if start <= index < stop
        ]

    def matching_keys(self, where: FilterLike | None) -> list[ChunkKey]:
        """Keys of all matching chunks, in order."""
        return sorted(self._keys[row] for row in self._rows(where))

    def count(self, where: FilterLike | None) -> int:
        """Number of matching chunks."""
        return len(self) if plan(where) is None else len(self._rows(where))

    def mask(self, where: FilterLike | None) -> Mask | None:
        """Which rows are live and match; None for every live one."""
        node = plan(where)
        if node is None:
            return None
        return matching_mask(node, self.filters, len(self._vectors)) & self._vectors.alive

    def _rows(self, where: FilterLike | None) -> Rows:
        node, alive = plan(where), self._vectors.alive
        return np.flatnonzero(alive) if node is None else matching_rows(node, self.filters, alive)

    # --- ranking ---

    def nearest(
        self, vector: Sequence[float], limit: int, where: FilterLike | None, keys: Sequence[ChunkKey] | None = None
    ) -> list[Scored]:
        """The best `limit` chunks, of `keys` where given, in order."""
        query = query_vector(self._name, self._dimensions, vector)
        rows: Rows | None = None
        if keys is not None:
            found = [row for key in dict.fromkeys(keys) if (row := self.row(key)) is not None]
            rows, mask = np.array(found, dtype=np.intp), self.mask(where)
            rows = rows if mask is None else rows[mask[rows]]
        elif plan(where) is not None:
            rows = self._rows(where)
        return self._best(*self._vectors.nearest(query, limit, rows), limit)

    def word_counts(self, terms: Iterable[Term]) -> dict[Term, int]:
        """Number of live rows that have each term; those of none left out."""
        return self.keywords.frequencies(terms, self._vectors.alive)

    def by_keyword(self, query: Mapping[Term, float], limit: int, where: FilterLike | None) -> list[Scored]:
        """The best `limit` chunks by BM25, in order.

        Args:
            query: Term -> its weight in the query.
        """
        lengths = np.array(self._lengths, dtype=np.int64)
        scores = self.keywords.scores(query, self._vectors.alive, lengths)
        if (mask := self.mask(where)) is not None:
            scores[~mask] = 0.0
        rows = np.flatnonzero(scores > 0)
        return self._best(rows, scores[rows], limit)

    def seen(self, terms: Iterable[Term]) -> float:
        """How much of these terms the rows have; see `seen_share`."""
        alive = self._vectors.alive
        known = list(terms)
        counted = int(np.count_nonzero(alive & (np.array(self._lengths, dtype=np.int64) > 0)))
        return seen_share(known, self.keywords.frequencies(known, alive), counted)

    def _best(self, rows: Rows, scores: Scores, limit: int) -> list[Scored]:
        rows, scores = first_scores(rows, scores, limit)
        found = zip(rows.tolist(), scores.tolist(), strict=True)
        return best((Scored(self._keys[row], score) for row, score in found), limit)
