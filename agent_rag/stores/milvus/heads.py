"""Which versions of documents count, and the statistics of BM25: in memory for a local file, asked on a server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...documents import DocumentSummary
from ...filters import FilterLike, as_filter, matches
from .._shared.heads import Head, Name, Table
from .._shared.versions import Changed
from .client import Connection
from .schema import (
    DOCUMENT_HASH,
    FREQUENCIES,
    HEAD,
    ID,
    REMOVALS_ID,
    SUMMARY,
    TERMS,
    MilvusDialect,
    Stored,
    chunks_of,
    document_hash,
    head_row_id,
    heads_of,
    removals_row,
    stored_of_row,
    summary_of_row,
    unpack_frequencies,
)

_STATISTICS_S = 30.0
_NUMBERS_PER_CALL = 1_000


class Published(NamedTuple):
    """A head that was written, and the summary beside it."""

    head: Head
    summary: DocumentSummary


class Heads(Protocol):
    """The heads of one collection."""

    is_shared: bool
    """Whether other processes may change them."""

    def by_number(self, head_of: Mapping[int, str]) -> Mapping[int, Stored]:
        """The heads that name one of some versions; a version that is left out does not count.

        Args:
            head_of: Number of a version -> id of its document's head row.
        """

    def by_name(self, names: Sequence[Name]) -> Mapping[Name, Stored]: ...

    def find(self, document_id: str) -> list[Name]:
        """Every document with this id, by scope."""

    def names(self) -> list[Name]:
        """All documents, in order."""

    def summaries(
        self, metadata_filter: FilterLike | None, names: Sequence[Name] | None = None
    ) -> list[DocumentSummary]:
        """Of all documents, or of `names`, whose metadata match; in order."""

    def changed(self, new: Mapping[Name, Published], gone: Iterable[Name], terms: Counter[int]) -> None:
        """Called after a write: what is there now, names that are gone, and what changed in the number of chunks by
        term."""

    def removing(self) -> None:
        """Called between writing the heads of new versions and removing the rows of those before."""

    def removals(self) -> str:
        """What is another text after each call of `removing`, of any process; a search between two equal ones cannot
        have missed a document that was replaced. Always the same where a search sees one moment anyway."""

    @property
    def chunks(self) -> int: ...

    @property
    def indexed(self) -> int:
        """Number of chunks that have tokens."""

    @property
    def average_length(self) -> float:
        """Average number of tokens of the chunks that have some."""

    def frequencies(self, terms: Iterable[int]) -> Mapping[int, int]:
        """Number of chunks by term; 0 may be left out."""


class LocalHeads:
    """All heads in memory, as this process is the only one that writes them."""

    is_shared = False

    def __init__(self, connection: Connection, collection: str) -> None:
        self._connection = connection
        self._heads = heads_of(collection)
        self._table = Table()
        self._summaries: dict[Name, str] = {}
        """As JSON, a tenth of the size of the objects."""
        for row in connection.scan(self._heads, "", [HEAD, SUMMARY]):
            stored = stored_of_row(row)
            self._table.put(stored.name, stored.head)
            self._summaries[stored.name] = "".join(row[SUMMARY])

    def by_number(self, head_of: Mapping[int, str]) -> Mapping[int, Stored]:
        names = self._table.names
        return {
            number: Stored(names[number], self._table.heads[names[number]], []) for number in head_of if number in names
        }

    def by_name(self, names: Sequence[Name]) -> Mapping[Name, Stored]:
        heads = self._table.heads
        return {name: Stored(name, heads[name], []) for name in names if name in heads}

    def find(self, document_id: str) -> list[Name]:
        return self._table.find(document_id)

    def names(self) -> list[Name]:
        return sorted(self._table.heads)

    def summaries(
        self, metadata_filter: FilterLike | None, names: Sequence[Name] | None = None
    ) -> list[DocumentSummary]:
        where = as_filter(metadata_filter)
        found = []
        for name in self.names() if names is None else sorted(names):
            summary = DocumentSummary.model_validate_json(self._summaries[name])
            if where is None or matches(where, summary.metadata):
                summary.chunk_count = self._table.heads[name].count
                found.append(summary)
        return found

    def changed(self, new: Mapping[Name, Published], gone: Iterable[Name], terms: Counter[int]) -> None:
        for name in gone:
            self._table.drop(name)
            del self._summaries[name]
        for name, published in new.items():
            self._table.put(name, published.head)
            self._summaries[name] = published.summary.model_dump_json()
        self._table.count_terms(terms, 1)

    def removing(self) -> None:
        """Reads and writes of this process take turns."""

    def removals(self) -> str:
        return ""

    @property
    def chunks(self) -> int:
        return self._table.chunks

    @property
    def indexed(self) -> int:
        return self._table.indexed

    @property
    def average_length(self) -> float:
        return self._table.average_length

    def frequencies(self, terms: Iterable[int]) -> Mapping[int, int]:
        if self._table.frequencies is None:
            self._table.frequencies = self._read_frequencies()
        found = self._table.frequencies
        return {term: found[term] for term in terms}

    def _read_frequencies(self) -> Counter[int]:
        """Every head has those of its document: 10,000 documents in about a second, at the first keyword search."""
        terms, counts = [np.empty(0, np.uint32)], [np.empty(0, np.uint32)]
        for row in self._connection.scan(self._heads, "", [FREQUENCIES]):
            more_terms, more_counts = unpack_frequencies(row)
            terms.append(more_terms)
            counts.append(more_counts)
        unique, places = np.unique(np.concatenate(terms), return_inverse=True)
        summed = np.bincount(places, np.concatenate(counts), minlength=len(unique)).astype(np.int64)
        return Counter(dict(zip(unique.tolist(), summed.tolist(), strict=True)))


class RemoteHeads:
    """Heads on a server. Statistics are kept until this store writes, at most 30 s."""

    is_shared = True

    def __init__(self, connection: Connection, collection: str) -> None:
        self._connection = connection
        self._heads, self._chunks = heads_of(collection), chunks_of(collection)
        self._statistics: tuple[int, int, int] | None = None
        self._since = 0.0
        self._frequencies: dict[int, int] = {}

    def by_number(self, head_of: Mapping[int, str]) -> Mapping[int, Stored]:
        rows = self._connection.get(self._heads, sorted(set(head_of.values())), [HEAD])
        stored = map(stored_of_row, rows)
        return {one.head.number: one for one in stored if one.head.number in head_of}

    def by_name(self, names: Sequence[Name]) -> Mapping[Name, Stored]:
        rows = self._connection.get(self._heads, [head_row_id(name) for name in names], [HEAD])
        stored = map(stored_of_row, rows)
        return {one.name: one for one in stored}

    def find(self, document_id: str) -> list[Name]:
        condition = f'{DOCUMENT_HASH} == "{document_hash(document_id)}"'
        # Twice: Milvus Lite behind an address misses a row that is written over during the query.
        rows = [*self._connection.query(self._heads, condition, [HEAD])]
        rows += self._connection.query(self._heads, condition, [HEAD])
        return sorted({stored_of_row(row).name for row in rows})

    def names(self) -> list[Name]:
        return sorted(stored_of_row(row).name for row in self._connection.scan(self._heads, "", [HEAD]))

    def summaries(
        self, metadata_filter: FilterLike | None, names: Sequence[Name] | None = None
    ) -> list[DocumentSummary]:
        fields = [HEAD, SUMMARY]
        rows: Iterable[Mapping[str, object]]
        if names is None:
            condition = MilvusDialect(scans_text=False).condition(metadata_filter)
            rows = self._connection.scan(self._heads, condition, fields)
        else:
            rows = self._connection.get(self._heads, [head_row_id(name) for name in names], fields)
        found = [summary_of_row(row, stored_of_row(row).head.count) for row in rows]
        kept = [summary for summary in found if matches(metadata_filter, summary.metadata)]
        return sorted(kept, key=lambda summary: (summary.scope, summary.document_id))

    def changed(self, new: Mapping[Name, Published], gone: Iterable[Name], terms: Counter[int]) -> None:
        self._statistics = None

    def removing(self) -> None:
        if not self._connection.has_snapshots:
            self._connection.upsert(self._heads, [removals_row()])

    def removals(self) -> str:
        if self._connection.has_snapshots:
            return ""
        rows = self._connection.get(self._heads, [REMOVALS_ID], [HEAD])
        return "".join(rows[0][HEAD]) if rows else ""

    @property
    def chunks(self) -> int:
        """Counted at each call."""
        self._statistics = None
        return self._fresh()[0]

    @property
    def indexed(self) -> int:
        return self._fresh()[1]

    @property
    def average_length(self) -> float:
        _, indexed, tokens = self._fresh()
        return tokens / indexed if indexed else 1.0

    def frequencies(self, terms: Iterable[int]) -> Mapping[int, int]:
        """Raises: Changed: rows were removed while they were counted; a count that is too low would be kept."""
        self._fresh()
        known = self._frequencies  # other threads may put another one there
        unknown = [term for term in terms if term not in known]
        if unknown:
            before = self.removals()
            counted = {
                term: self._connection.count(self._chunks, f"array_contains({TERMS}, {term})") for term in unknown
            }
            if self.removals() != before:
                raise Changed
            known.update(counted)
        return known

    def _fresh(self) -> tuple[int, int, int]:
        """Chunks, chunks with tokens, tokens."""
        found = self._statistics
        if found is None or time.monotonic() - self._since > _STATISTICS_S:
            self._since, self._frequencies = time.monotonic(), {}
            heads = [stored_of_row(row).head for row in self._connection.scan(self._heads, "", [HEAD, ID])]
            found = (
                sum(head.count for head in heads),
                sum(head.indexed for head in heads),
                sum(head.tokens for head in heads),
            )
            self._statistics = found
        return found
