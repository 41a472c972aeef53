"""One collection of `MemoryStore`: a table of rows, and the chunks themselves. Not safe for threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord
from ...filters import FilterLike
from ...filters.plan import index_metadata
from ...retrieval.analysis import index_tokens
from ...retrieval.lexical import counts
from ..base import CollectionInfo, Get, Keyword, Nearest, Seen, Step
from ..engine.records import Matrix, Prepared
from ..rows.inverted import FilterColumns
from ..rows.table import Document, RowTable
from ..versions.heads import Name


class Entry(NamedTuple):
    """A chunk with what is indexed of it, computed before the lock is taken."""

    key: ChunkKey
    chunk: str
    """As JSON: readers get their own copy faster than by copying, and the garbage collector has less to walk."""
    terms: Counter[str]


@dataclass(frozen=True)
class Batch:
    """Entries with their vectors."""

    entries: list[Entry]
    matrix: Matrix
    columns: FilterColumns

    @classmethod
    def of(cls, prepared: Prepared) -> Batch:
        entries = [
            Entry(record.key, record.chunk.model_dump_json(), counts(index_tokens(record.chunk)))
            for record in prepared.records
        ]
        columns = FilterColumns.of(index_metadata(record.chunk.metadata) for record in prepared.records)
        return cls(entries, prepared.matrix, columns)


class Table:
    """Rows, and a chunk for each."""

    def __init__(self, info: CollectionInfo) -> None:
        self.info = info
        self._rows: RowTable[str] = RowTable(info)
        self._chunks: list[str] = []
        self._writes = 0

    def __len__(self) -> int:
        """Number of chunks."""
        return len(self._rows)

    @property
    def row_count(self) -> int:
        """Rows, dead ones included: what a search costs."""
        return self._rows.row_count

    @property
    def document_count(self) -> int:
        return self._rows.document_count

    # --- writing ---

    def new_chunks(self, batch: Batch, replaced: Iterable[Name]) -> int:
        """By how many chunks the table grows when `batch` is written and the documents `replaced` go."""
        return len(batch.entries) - sum(len(self._rows.indexes(name)) for name in replaced)

    def replace(self, summaries: Sequence[DocumentSummary], batch: Batch) -> int:
        """Publish whole documents. Returns the number of chunks that were there."""
        before = sum(self._drop((summary.scope, summary.document_id)) for summary in summaries)
        for summary in summaries:
            self._writes += 1
            document = Document(summary.model_dump_json(), index_metadata(summary.metadata), str(self._writes))
            self._rows.put((summary.scope, summary.document_id), document)
        self._append(batch)
        return before

    def delete(self, document_ids: Iterable[str], where: FilterLike | None) -> int:
        """Remove documents of all scopes whose metadata match. Returns the number of chunks removed."""
        chosen = [name for document_id in document_ids for name in self._rows.find(document_id)]
        return sum(map(self._drop, list(self._rows.matching(where, chosen))))

    def delete_by_filter(self, where: FilterLike | None) -> list[str]:
        """Remove documents whose metadata match. Returns their ids, sorted."""
        chosen = list(self._rows.matching(where))
        for name in chosen:
            self._drop(name)
        return sorted({document_id for _, document_id in chosen})

    @property
    def is_sparse(self) -> bool:
        """Whether `compact` is worth its time, which is that of writing all rows again."""
        return self._rows.is_sparse

    def compact(self) -> None:
        """Drop dead rows."""
        self._chunks = [self._chunks[row] for row in self._rows.compact()]

    def _append(self, batch: Batch) -> None:
        entries = batch.entries
        first, removed = self._rows.append(
            [entry.key for entry in entries],
            batch.matrix,
            (entry.terms.total() for entry in entries),
        )
        self._rows.filters.extend(first, batch.columns)
        for row, entry in enumerate(entries, first):
            self._rows.keywords.add(row, entry.terms)
        self._chunks.extend(entry.chunk for entry in entries)
        self._forget(removed)

    def _drop(self, name: Name) -> int:
        rows = self._rows.drop(name)
        self._forget(rows)
        return len(rows)

    def _forget(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._chunks[row] = ""

    # --- reading ---

    def answer(self, step: Step) -> Any:
        """Answer of one step of `retrieve_steps`."""
        match step:
            case Nearest(vector, limit, where, keys):
                return self._rows.nearest(vector, limit, where, keys)
            case Keyword(_, limit, where, weights):
                return self._rows.by_keyword(weights, limit, where)
            case Seen(words):
                return self._rows.seen(words)
            case Get(keys):
                found = {key: self._rows.row(key) for key in keys}
                return {key: self._chunk(row) for key, row in found.items() if row is not None}

    def word_counts(self, tokens: Iterable[str]) -> dict[str, int]:
        """Number of chunks that have each token; those of none left out."""
        return self._rows.word_counts(tokens)

    def documents(self, where: FilterLike | None, document_ids: Sequence[str] | None) -> list[DocumentSummary]:
        """Copies of the summaries of matching documents, of these ids where given, in order."""
        return self._rows.summaries(where, document_ids)

    def versions(self, scope: str, document_ids: Iterable[str]) -> dict[str, str]:
        """Document id -> version, of those that are there."""
        found = {document_id: self._rows.document((scope, document_id)) for document_id in document_ids}
        return {document_id: document.version for document_id, document in found.items() if document is not None}

    def fetch(self, keys: Iterable[ChunkKey], where: FilterLike | None, *, with_vectors: bool) -> list[VectorRecord]:
        """Records in the order of `keys`, without the missing and those that do not match."""
        rows = [row for key in keys if (row := self._rows.row(key)) is not None]
        if (mask := self._rows.mask(where)) is not None:
            rows = [row for row in rows if mask[row]]
        return [self._record(row, with_vectors) for row in rows]

    def chunk_keys(self, document_id: str, start: int, stop: int) -> list[ChunkKey]:
        """Keys of a document's chunks with ``start <= index < stop``, by (scope, index)."""
        return self._rows.chunk_keys(document_id, start, stop)

    def matching_keys(self, where: FilterLike | None) -> list[ChunkKey]:
        """Keys of all matching chunks, in order."""
        return self._rows.matching_keys(where)

    def count(self, where: FilterLike | None) -> int:
        """Number of matching chunks."""
        return self._rows.count(where)

    def _chunk(self, row: int) -> Chunk:
        return Chunk.model_validate_json(self._chunks[row])

    def _record(self, row: int, with_vector: bool) -> VectorRecord:
        key = self._rows.key(row)
        vector = self._rows.vector(row) if with_vector else []
        return VectorRecord.model_construct(
            vector=vector, document_id=key.document_id, chunk=self._chunk(row), scope=key.scope
        )
