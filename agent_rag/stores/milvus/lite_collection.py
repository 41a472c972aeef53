"""One collection of a local file: what finds chunks is in memory, their contents are read from the file."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...filters import FilterLike, matches
from ...retrieval.lexical import term_id, tokenize
from ..base import Get, Keyword, Nearest, RetrieveRequest, Step
from ..engine.driver import run_steps
from ..engine.payload import parse_chunk
from ..engine.records import query_vector, without_keyword
from ..rows.table import RowTable
from ..versions.groups import slices
from ..versions.heads import MAX_INDEX, Name
from ..versions.stored_info import StoredInfo
from .lite_file import TERMS, TEXT, VECTORS, LiteRows
from .lite_rows import HEAD, Head, Part, TermIds, chunk_id, head_id, number_of, part_id

_PAGE_PARTS, _PAGE_ROWS = 64, 500
_WORDS_AT_ONCE = 500_000

_log = logging.getLogger(__name__)


class Version(NamedTuple):
    """Of a document: the one that counts."""

    number: int
    parts: int


class LiteCollection:
    """Used by one thread at a time, as nobody else writes to the file."""

    def __init__(self, rows: LiteRows, info: StoredInfo) -> None:
        self.rows, self.info = rows, info
        self.next_number = 1
        """Only grows, so that rows of a version that failed are never taken for those of a later one."""
        self._restored = 0
        self._clear()

    def _clear(self) -> None:
        self.table: RowTable[int] = RowTable(self.info)
        self.versions: dict[Name, Version] = {}
        self._without_words: list[tuple[int, list[int], TermIds]] = []
        """First row, lengths and terms of parts that the keyword index does not have yet."""

    # --- opening ---

    def refresh(self) -> None:
        """Read the rows again where that was done in the file, after an error."""
        if self._restored != self.rows.restored:
            with self.rows.errors():
                self._load(tidy=False)

    def load(self) -> None:
        """Read the file, and remove what a crash left.

        That is rows of versions that are not whole, or not the newest. And Milvus Lite 3.2, killed while it flushed,
        can hold rows twice, once from the segment and once from the log; a row that is written again is there once.

        Raises: StoreError: the rows cannot be read.
        """
        with self.rows.errors():
            self._load(tidy=True)

    def _load(self, *, tidy: bool) -> None:
        self._restored = self.rows.restored
        heads = {number_of(one): Head.of_text(text) for one, text in self.rows.ending(HEAD).items()}
        count = self.rows.count()
        while True:
            broken = self._read(heads, count)
            if not broken and count == self._row_count():
                return
            found = Counter(self.rows.ids())
            expected = {one for name in self.versions for one in self.row_ids(name)}
            broken |= {number_of(one) for one in expected - found.keys()}
            if not broken:
                break
            for number in broken:
                _log.warning("a version of %r lacks rows in the file and is left out", heads.pop(number).name)
        if tidy:
            with self.rows.tidying():
                self._tidy(found, expected)

    def _tidy(self, found: Counter[str], expected: Set[str]) -> None:
        self.rows.delete([one for one in found if one not in expected])
        twice = [one for one in expected if found[one] > 1]
        for some in slices(twice, _PAGE_ROWS):
            self.rows.insert(list(self.rows.get(some, [TEXT, VECTORS, TERMS]).values()))

    def _read(self, heads: dict[int, Head], count: int) -> set[int]:
        """Fill the table with the newest version of each document. Returns the numbers of those that lack parts."""
        self._clear()
        newest = {heads[number].name: number for number in sorted(heads)}
        wanted = [(number, place) for number in newest.values() for place in range(heads[number].parts)]
        self.next_number = max(self.next_number, max(heads, default=0) + 1)
        for number in newest.values():
            self.put(heads[number], number)
        self.table.reserve(count - len(newest) - len(wanted))
        broken = set()
        for some in slices(wanted, _PAGE_PARTS):
            found = list(zip(some, self._parts(some), strict=True))
            broken |= {number for (number, _), part in found if part is None}
            self.add([(heads[number].name, part) for (number, _), part in found if part is not None])
        return broken

    def _parts(self, wanted: Sequence[tuple[int, int]]) -> list[Part | None]:
        """Args: wanted: Numbers of versions and places of parts."""
        rows = self.rows.get([part_id(*one) for one in wanted], [TEXT, VECTORS, TERMS])
        found = [rows.get(part_id(*one)) for one in wanted]
        with self.rows.errors():
            return [None if row is None else Part.of_row(row, self.info.dimensions) for row in found]

    def parts(self, number: int, count: int) -> list[Part]:
        """The parts of a version."""
        found = self._parts([(number, place) for place in range(count)])
        return [part for part in found if part is not None]

    def _row_count(self) -> int:
        return len(self.table) + sum(1 + version.parts for version in self.versions.values())

    # --- in memory ---

    def put(self, head: Head, number: int) -> None:
        """Make a version the one that counts; its parts are added next."""
        self.table.put(head.name, head.document)
        self.versions[head.name] = Version(number, head.parts)

    def add(self, parts: Sequence[tuple[Name, Part]]) -> None:
        """Add the chunks of parts of versions that count."""
        if not parts:
            return
        keys = [ChunkKey(*name, index) for name, part in parts for index in part.indexes]
        lengths = [length for _, part in parts for length in part.lengths]
        first, _ = self.table.append(keys, np.concatenate([part.matrix for _, part in parts]), lengths)
        for _, part in parts:
            self.table.filters.extend(first, part.columns)
            if len(part.terms):
                self._without_words.append((first, part.lengths, part.terms))
            first += len(part.indexes)

    def drop(self, name: Name) -> int:
        """Remove a document. Returns its number of chunks."""
        self.versions.pop(name, None)
        return len(self.table.drop(name))

    def compact(self) -> None:
        """Drop dead rows from memory when there are many."""
        if self.table.is_sparse:
            self._index_words()
            self.table.compact()

    def row_ids(self, name: Name) -> list[str]:
        """The rows of a document in the file."""
        number, parts = self.versions[name]
        return [
            *(chunk_id(number, index) for index in self.table.indexes(name)),
            *(part_id(number, place) for place in range(parts)),
            head_id(number),
        ]

    def _index_words(self) -> None:
        """Add the terms of new parts to the keyword index, many at once: 100,000 chunks in about a second."""
        parts, self._without_words = self._without_words, []
        for some in _portions(parts):
            self._index_portion(some)

    def _index_portion(self, parts: Sequence[tuple[int, list[int], TermIds]]) -> None:
        rows = [np.repeat(np.arange(first, first + len(sizes)), sizes) for first, sizes, _ in parts]
        terms = np.concatenate([one for _, _, one in parts]).astype(np.uint64)
        pairs, counts = np.unique(terms << 32 | np.concatenate(rows).astype(np.uint64), return_counts=True)
        term, row = (pairs >> 32).astype(np.uint32), (pairs & 0xFFFF_FFFF).astype(np.uint32)
        starts = [0, *(np.flatnonzero(term[1:] != term[:-1]) + 1).tolist()]
        times = counts.astype(np.uint32)
        for start, stop in zip(starts, [*starts[1:], len(pairs)], strict=True):
            self.table.keywords.extend(int(term[start]), row[start:stop], times[start:stop])

    # --- reading ---

    def retrieve(self, request: RetrieveRequest) -> list[VectorSearchResult]:
        for vector in request.vectors:
            query_vector(self.info.name, self.info.dimensions, vector)
        if request.texts and not self.info.keyword:
            raise without_keyword(self.info.name)
        return run_steps(request, self._answer)

    def _answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, where, keys):
                return self.table.nearest(vector, limit, where, keys)
            case Keyword(text, limit, where):
                self._index_words()
                return self.table.by_keyword(Counter(map(term_id, tokenize(text))), limit, where)
            case Get(keys):
                return self._chunks(keys)

    def _chunks(self, keys: Iterable[ChunkKey]) -> dict[ChunkKey, Chunk]:
        """Those of `keys` that are there, in their order."""
        ids = {
            key: chunk_id(self.versions[key.scope, key.document_id].number, key.chunk_index)
            for key in keys
            if self.table.row(key) is not None
        }
        rows = self.rows.get(list(ids.values()), [TEXT])
        with self.rows.errors():
            return {key: parse_chunk(rows[one][TEXT] or "") for key, one in ids.items()}

    def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None
    ) -> list[DocumentSummary]:
        return self.table.summaries(metadata_filter, document_ids)

    def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        chunks = self._chunks(keys)
        return [
            VectorRecord.model_construct(
                vector=self._vector(key) if with_vectors else [],
                document_id=key.document_id,
                chunk=chunks[key],
                scope=key.scope,
            )
            for key in keys
            if key in chunks and matches(metadata_filter, chunks[key].metadata)
        ]

    def _vector(self, key: ChunkKey) -> list[float]:
        row = self.table.row(key)
        return [] if row is None else self.table.vector(row)

    def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        keys = self.table.chunk_keys(document_id, offset, min(offset + limit, MAX_INDEX + 1))
        return self.fetch(keys, metadata_filter, with_vectors)

    def count(self, metadata_filter: FilterLike | None) -> int:
        return self.table.count(metadata_filter)


def _portions(parts: Iterable[tuple[int, list[int], TermIds]]) -> Iterator[list[tuple[int, list[int], TermIds]]]:
    some: list[tuple[int, list[int], TermIds]] = []
    words = 0
    for part in parts:
        some.append(part)
        words += len(part[2])
        if words >= _WORDS_AT_ONCE:
            yield some
            some, words = [], 0
    if some:
        yield some
