"""Which versions of documents count, and the statistics of BM25, asked of a Milvus server."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from ...documents import DocumentSummary
from ...filters import FilterLike, matches
from ..versions.heads import Name
from ..versions.versions import Changed
from .client import Rows
from .schema import (
    DOCUMENT_HASH,
    HEAD,
    ID,
    REMOVALS_ID,
    SUMMARY,
    Stored,
    chunks_of,
    document_hash,
    head_row_id,
    heads_of,
    parse_row_id,
    removals_row,
    stored_of_row,
    summary_of_row,
)

_STATISTICS_S = 30.0


class Heads:
    """The heads of one collection. Statistics are kept until this store writes, at most 30 s."""

    def __init__(self, connection: Rows, collection: str) -> None:
        self._connection = connection
        self._heads, self._chunks = heads_of(collection), chunks_of(collection)
        self._statistics: tuple[int, int, int] | None = None
        self._since = 0.0
        self._frequencies: dict[int, int] = {}

    def by_number(self, head_of: Mapping[int, str]) -> dict[int, Stored]:
        """The heads that name one of some versions; a version that is left out does not count.

        Args:
            head_of: Number of a version -> id of its document's head row.
        """
        rows = self._connection.get(self._heads, sorted(set(head_of.values())), [HEAD])
        stored = map(stored_of_row, rows)
        return {one.head.number: one for one in stored if one.head.number in head_of}

    def by_name(self, names: Sequence[Name]) -> dict[Name, Stored]:
        rows = self._connection.get(self._heads, [head_row_id(name) for name in names], [HEAD])
        stored = map(stored_of_row, rows)
        return {one.name: one for one in stored}

    def find(self, document_id: str) -> list[Name]:
        """Every document with this id, by scope."""
        condition = f'{DOCUMENT_HASH} == "{document_hash(document_id)}"'
        # Twice: Milvus Lite behind an address misses a row that is written over during the query.
        rows = [*self._connection.query(self._heads, condition, [HEAD])]
        rows += self._connection.query(self._heads, condition, [HEAD])
        return sorted({stored_of_row(row).name for row in rows})

    def names(self) -> list[Name]:
        """All documents, in order."""
        return sorted(one.name for one in self._all())

    def _all(self) -> Iterable[Stored]:
        return map(stored_of_row, self._connection.scan(self._heads, "", [HEAD]))

    def summaries(
        self, metadata_filter: FilterLike | None, names: Sequence[Name] | None = None
    ) -> list[DocumentSummary]:
        """Of all documents, or of `names`, whose metadata match; in order."""
        fields = [HEAD, SUMMARY]
        rows: Iterable[Mapping[str, object]]
        if names is None:
            condition = self._connection.dialect.condition(metadata_filter)
            rows = self._connection.scan(self._heads, condition, fields)
        else:
            rows = self._connection.get(self._heads, [head_row_id(name) for name in names], fields)
        found = [summary_of_row(row, stored_of_row(row).head.count) for row in rows]
        kept = [summary for summary in found if matches(metadata_filter, summary.metadata)]
        return sorted(kept, key=lambda summary: (summary.scope, summary.document_id))

    def changed(self, put: Iterable[Stored] = (), dropped: Iterable[Name] = ()) -> None:
        """Called after a write of these heads."""
        self._statistics = None

    def removing(self) -> None:
        """Called between writing the heads of new versions and removing the rows of those before."""
        if not self._connection.has_snapshots:
            self._connection.upsert(self._heads, [removals_row()])

    def removals(self) -> str:
        """What is another text after each call of `removing`, of any process; a search between two equal ones cannot
        have missed a document that was replaced. Always the same where a search sees one moment anyway."""
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
        """Number of chunks that have tokens."""
        return self._fresh()[1]

    @property
    def average_length(self) -> float:
        """Average number of tokens of the chunks that have some."""
        _, indexed, tokens = self._fresh()
        return tokens / indexed if indexed else 1.0

    def frequencies(self, terms: Iterable[int]) -> Mapping[int, int]:
        """Number of chunks by term.

        Raises: Changed: rows were removed while they were counted; a count that is too low would be kept."""
        self._fresh()
        known = self._frequencies  # other threads may put another one there
        unknown = [term for term in terms if term not in known]
        if unknown:
            before = self.removals()
            counted = {
                term: self._connection.count(self._chunks, self._connection.dialect.has_term(term)) for term in unknown
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
            heads = [one.head for one in self._all()]
            found = (
                sum(head.count for head in heads),
                sum(head.indexed for head in heads),
                sum(head.tokens for head in heads),
            )
            self._statistics = found
        return found


class LiteHeads(Heads):
    """Those of a local file, which nobody else writes to: read once, and kept in memory."""

    def __init__(self, connection: Rows, collection: str) -> None:
        super().__init__(connection, collection)
        self._stored = {one.name: one for one in super()._all()}
        self._name_of = {one.head.number: name for name, one in self._stored.items()}
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        """Delete the rows that a killed writer left: of a version without a head, or of one that was replaced."""
        if self._connection.count(self._chunks) == sum(one.head.count for one in self._stored.values()):
            return
        rows = {row[ID]: parse_row_id(row[ID]) for row in self._connection.query(self._chunks, "", [ID])}
        left = [row for row, (number, _) in rows.items() if number not in self._name_of]
        self._connection.delete(self._chunks, left)

    def by_number(self, head_of: Mapping[int, str]) -> dict[int, Stored]:
        return {number: self._stored[self._name_of[number]] for number in head_of if number in self._name_of}

    def by_name(self, names: Sequence[Name]) -> dict[Name, Stored]:
        return {name: self._stored[name] for name in names if name in self._stored}

    def find(self, document_id: str) -> list[Name]:
        return sorted(name for name in self._stored if name[1] == document_id)

    def _all(self) -> Iterable[Stored]:
        return self._stored.values()

    def changed(self, put: Iterable[Stored] = (), dropped: Iterable[Name] = ()) -> None:
        super().changed()
        put = list(put)
        for name in (*dropped, *(one.name for one in put)):
            if (old := self._stored.pop(name, None)) is not None:
                del self._name_of[old.head.number]
        for one in put:
            self._stored[one.name] = one
            self._name_of[one.head.number] = one.name
