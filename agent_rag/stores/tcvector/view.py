"""Reading one collection in Tencent Cloud VectorDB while it changes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ...documents import ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import LimitExceededError, StoreError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ...retrieval.lexical import idf, term_id, tokenize
from .._shared.driver import cut_ties, run_steps
from .._shared.exact_scores import bm25, similarities
from .._shared.heads import MAX_INDEX, Name
from .._shared.records import query_vector
from .._shared.versions import Changed, Versions
from ..base import CollectionInfo, Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from .client import MAX_LIMIT, Connection
from .schema import (
    CONTENT,
    COUNTS,
    DOCUMENT,
    HEAD,
    ID,
    INDEX,
    KIND,
    REVISION,
    SUMMARY,
    VECTOR,
    VERSION,
    WRITTEN,
    Row,
    Stored,
    as_matrix,
    chunk_of,
    chunk_row_id,
    chunks_of,
    counts_of,
    document_hash,
    expression,
    has_term,
    head_row_id,
    heads_of,
    is_in,
    parse_row_id,
    stored_of,
    summary_of,
)

T = TypeVar("T")

_ATTEMPTS = 30
_STATISTICS_S = 30.0
_VERSIONS_PER_QUERY = 500
_PAGE = 500
_MAX_CANDIDATES = 10_000
# Stored weights are those of an earlier average length.
_ROUGHLY = 0.9
IS_HEAD, IS_LOG = f'{KIND} = "head"', f'{KIND} = "log"'
STORED = (HEAD, VERSION, REVISION, WRITTEN)


class Statistics:
    """What BM25 needs of a collection: kept until this store writes, at most 30 s."""

    def __init__(self, heads: Iterable[Stored]) -> None:
        self.indexed = tokens = 0
        for stored in heads:
            self.indexed += stored.head.indexed
            tokens += stored.head.tokens
        self.average_length = tokens / self.indexed if self.indexed else 1.0
        self.frequency: dict[int, int] = {}
        self._since = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._since < _STATISTICS_S


class Reader:
    """The reads of one collection."""

    def __init__(self, connection: Connection, info: CollectionInfo) -> None:
        self.connection = connection
        self.info = info
        database = connection.options.database
        self.chunks_name, self.heads_name = chunks_of(database, info.name), heads_of(database, info.name)

    # --- heads ---

    def by_name(self, names: Sequence[Name]) -> dict[Name, Stored]:
        if len(names) > 100:
            wanted = set(names)
            ids = list(dict.fromkeys(document_id for _, document_id in names))
            return {one.name: one for one in self.heads_matching(None, ids) if one.name in wanted}
        rows = self.connection.get(self.heads_name, [head_row_id(name) for name in names], STORED)
        return {stored.name: stored for stored in map(stored_of, rows)}

    def by_version(self, versions: Iterable[str]) -> dict[str, Stored]:
        """The documents that name one of `versions`; a version that is not there does not count any more."""
        wanted = sorted(set(versions))
        found: dict[str, Stored] = {}
        for start in range(0, len(wanted), _VERSIONS_PER_QUERY):
            part = wanted[start : start + _VERSIONS_PER_QUERY]
            condition = f"{IS_HEAD} and {is_in(VERSION, part)}"
            found |= {row[VERSION]: stored_of(row) for row in self.connection.query(self.heads_name, condition, STORED)}
        return found

    def all_heads(self) -> Iterator[Stored]:
        return map(stored_of, self.connection.scan(self.heads_name, IS_HEAD, STORED))

    def heads_matching(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Stored]:
        if document_ids is None:
            condition = expression(metadata_filter, IS_HEAD) or IS_HEAD
            return [stored_of(row) for row in self.connection.scan(self.heads_name, condition, STORED)]
        found: list[Stored] = []
        for start in range(0, len(document_ids), _VERSIONS_PER_QUERY):
            hashes = map(document_hash, document_ids[start : start + _VERSIONS_PER_QUERY])
            condition = expression(metadata_filter, IS_HEAD, is_in(DOCUMENT, hashes)) or IS_HEAD
            found += [stored_of(row) for row in self.connection.scan(self.heads_name, condition, STORED)]
        return found

    def summaries(self, metadata_filter: FilterLike | None) -> list[DocumentSummary]:
        condition = expression(metadata_filter, IS_HEAD) or IS_HEAD
        rows = self.connection.scan(self.heads_name, condition, (*STORED, SUMMARY))
        return sorted(map(summary_of, rows), key=lambda summary: (summary.scope, summary.document_id))

    def stored_summary(self, name: Name) -> DocumentSummary:
        (row,) = self.connection.get(self.heads_name, [head_row_id(name)], (*STORED, SUMMARY))
        return summary_of(row)

    # --- chunks ---

    def retrieve(self, request: RetrieveRequest, statistics: Statistics | None) -> list[VectorSearchResult]:
        for vector in request.vectors:
            query_vector(self.info.name, self.info.dimensions, vector)
        length = request.limit if request.rank is None else max(request.limit, request.candidates)
        if length > MAX_LIMIT:
            raise LimitExceededError(
                f"VectorDB gives at most {MAX_LIMIT:,} hits, {length:,} were asked for; ask for less"
            )
        return self._steady(lambda: run_steps(request, View(self, statistics).answer))

    def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        def read() -> list[VectorRecord]:
            heads = self.by_name(list({(key.scope, key.document_id): None for key in keys}))
            ids = {
                chunk_row_id(heads[name].version, key.chunk_index): key
                for key in keys
                if (name := (key.scope, key.document_id)) in heads and heads[name].head.has(key.chunk_index)
            }
            found = self._records(ids, metadata_filter, with_vectors)
            return [found[key] for key in keys if key in found]

        return self._steady(read)

    def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        def read() -> list[VectorRecord]:
            condition = f"{IS_HEAD} and {is_in(DOCUMENT, [document_hash(document_id)])}"
            rows = self.connection.scan(self.heads_name, condition, STORED)
            ids = {
                chunk_row_id(stored.version, index): ChunkKey(*stored.name, index)
                for stored in map(stored_of, rows)
                for index in stored.head.indexes(offset, min(offset + limit, MAX_INDEX + 1))
            }
            found = self._records(ids, metadata_filter, with_vectors)
            return [found[key] for key in sorted(found)]

        return self._steady(read)

    def _records(
        self, ids: dict[str, ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> dict[ChunkKey, VectorRecord]:
        vectors = with_vectors and self.info.dimensions > 0
        rows = self.rows(list(ids), [CONTENT], vectors=vectors)
        found: dict[ChunkKey, VectorRecord] = {}
        for row in rows:
            key, chunk = ids[row[ID]], chunk_of(row)
            if matches(metadata_filter, chunk.metadata):
                vector = [float(number) for number in row[VECTOR]] if vectors else []
                found[key] = VectorRecord(vector=vector, document_id=key.document_id, chunk=chunk, scope=key.scope)
        return found

    def rows(self, ids: Sequence[str], fields: Sequence[str], *, vectors: bool = False) -> list[Row]:
        """Rows by id; many of one version in one request.

        Raises: Changed: one is gone.
        """
        by_version: dict[str, list[int]] = {}
        for version, index in map(parse_row_id, ids):
            by_version.setdefault(version, []).append(index)
        found: list[Row] = []
        single: list[str] = []
        for version, indexes in by_version.items():
            span = max(indexes) - min(indexes) + 1
            if len(indexes) > 20 and span <= 2 * len(indexes):
                for start in range(min(indexes), max(indexes) + 1, _PAGE):
                    stop = min(start + _PAGE, max(indexes) + 1)
                    condition = f"{is_in(VERSION, [version])} and {INDEX} >= {start} and {INDEX} < {stop}"
                    found += self.connection.query(self.chunks_name, condition, fields, vectors=vectors)
            else:
                single += [chunk_row_id(version, index) for index in indexes]
        found += self.connection.get(self.chunks_name, single, fields, vectors=vectors)
        wanted = set(ids)
        found = [row for row in found if row[ID] in wanted]
        if len(found) < len(wanted):
            raise Changed
        return found

    def count(self, metadata_filter: FilterLike | None) -> int:
        heads = list(self.all_heads())
        chunks = sum(stored.head.count for stored in heads)
        if plan(metadata_filter) is None:
            return chunks
        condition = expression(metadata_filter)
        if self.connection.count(self.chunks_name) == chunks:
            return self.connection.count(self.chunks_name, condition)
        live = {stored.version: stored.head for stored in heads}
        total = 0
        names = sorted(live)
        for start in range(0, len(names), _VERSIONS_PER_QUERY):
            some = names[start : start + _VERSIONS_PER_QUERY]
            total += self.connection.count(self.chunks_name, expression(metadata_filter, is_in(VERSION, some)))
        return total

    def batches(self, size: int) -> Iterator[list[ChunkKey]]:
        """Keys of all chunks in order, a batch at a time; the heads of a batch are read when its turn comes."""
        batch: list[ChunkKey] = []
        names = sorted(stored.name for stored in self.all_heads())
        for start in range(0, len(names), size):
            part = names[start : start + size]
            heads = self.by_name(part)
            for name in part:
                for index in heads[name].head.indexes() if name in heads else ():
                    batch.append(ChunkKey(*name, index))
                    if len(batch) == size:
                        yield batch
                        batch = []
        if batch:
            yield batch

    def _steady(self, read: Callable[[], T]) -> T:
        """Run `read`, again from the start when a document in it was replaced meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                return read()
            except Changed:
                time.sleep(0.002 * attempt)
        raise StoreError(
            f"documents of collection {self.info.name!r} are replaced all the time: {_ATTEMPTS} reads found a version "
            "that was gone at the end; try again"
        )


class View:
    """The versions of documents that one search has seen."""

    def __init__(self, reader: Reader, statistics: Statistics | None) -> None:
        self._reader = reader
        self._statistics = statistics
        self._versions: Versions[str, Stored] = Versions(is_shared=True)

    def answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, metadata_filter, None):
                return self._nearest(vector, limit, metadata_filter)
            case Nearest(vector, limit, _, keys):
                return self._similarities(vector, keys or ())[:limit]
            case Keyword(text, limit, metadata_filter):
                if self._reader.connection.options.embedding:
                    return self._nearest_to_text(text, limit, metadata_filter)
                return self._keyword(text, limit, metadata_filter)
            case Get(keys):
                ids = self._ids(keys)
                return {ids[row[ID]]: chunk_of(row) for row in self._reader.rows(list(ids), [CONTENT])}

    def _nearest(self, vector: Sequence[float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        reader = self._reader
        query = query_vector(reader.info.name, reader.info.dimensions, vector)
        # The documentation does not say whether the distance is squared.
        exact = reader.info.distance == "Euclid"

        def found(count: int) -> list[tuple[ChunkKey, float]]:
            hits = self._live(
                lambda condition: reader.connection.nearest(
                    reader.chunks_name, query.tolist(), count, condition, [], vectors=exact
                ),
                metadata_filter,
            )
            if exact:
                scores = similarities("Euclid", query, as_matrix([row for _, row in hits])).tolist()
            else:
                scores = [self._score(row["score"]) for _, row in hits]
            return [(key, score) for (key, _), score in zip(hits, scores, strict=True)]

        return _best(cut_ties(found, limit, limit + 1), limit)

    def _score(self, raw: float) -> float:
        if self._reader.info.distance != "Cosine":
            return raw
        return min(1.0, max(-1.0, raw)) if raw == raw else 0.0  # NaN for a vector of zeros

    def _nearest_to_text(self, text: str, limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        """By the database's own embedding."""
        reader = self._reader

        def found(count: int) -> list[tuple[ChunkKey, float]]:
            hits = self._live(
                lambda condition: reader.connection.nearest_to_text(reader.chunks_name, text, count, condition),
                metadata_filter,
            )
            return [(key, self._score(row["score"])) for key, row in hits]

        return _best([hit for hit in cut_ties(found, limit, limit + 1) if hit[1] > 0], limit)

    def _similarities(self, vector: Sequence[float], keys: Sequence[ChunkKey]) -> list[Scored]:
        """Of chunks that earlier steps found, so their versions are pinned."""
        ids, info = self._ids(keys), self._reader.info
        rows = self._reader.rows(list(ids), [], vectors=True)
        if not rows:
            return []
        query = query_vector(info.name, info.dimensions, vector)
        scores = similarities(info.distance, query, as_matrix(rows)).tolist()
        return _best([(ids[row[ID]], score) for row, score in zip(rows, scores, strict=True)], len(rows))

    def _keyword(self, text: str, limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        reader, statistics = self._reader, self._statistics
        weights = self._weights(Counter(map(term_id, tokenize(text))))
        if not weights or statistics is None:
            return []
        count = 2 * limit + 50
        while True:
            hits = self._live(
                lambda condition, count=count: reader.connection.by_words(  # type: ignore[misc]
                    reader.chunks_name, list(weights.items()), count, condition, [COUNTS]
                ),
                metadata_filter,
            )
            whole = len(hits) < count or count >= _MAX_CANDIDATES
            if whole or hits[-1][1]["score"] < _ROUGHLY * hits[limit - 1][1]["score"]:
                break
            count = min(4 * count, _MAX_CANDIDATES)
        scored = []
        for key, row in hits:
            counted = counts_of(row)
            score = bm25(counted, sum(counted.values()), weights, statistics.average_length)
            if score > 0:
                scored.append((key, score))
        return _best(scored, limit)

    def _weights(self, counted: Counter[int]) -> dict[int, float]:
        """Query frequency times idf, of terms that are there."""
        statistics, reader = self._statistics, self._reader
        if statistics is None or not statistics.indexed:
            return {}
        for term in counted:
            if term not in statistics.frequency:
                statistics.frequency[term] = reader.connection.count(reader.chunks_name, has_term(term))
        return {
            term: count * idf(max(statistics.indexed, found), found)
            for term, count in counted.items()
            if (found := statistics.frequency[term])
        }

    def _ids(self, keys: Sequence[ChunkKey]) -> dict[str, ChunkKey]:
        pinned = {key: self._versions.pinned.get((key.scope, key.document_id)) for key in keys}
        return {chunk_row_id(version, key.chunk_index): key for key, version in pinned.items() if version is not None}

    def _live(
        self, search: Callable[[str | None], list[Row]], metadata_filter: FilterLike | None
    ) -> list[tuple[ChunkKey, Row]]:
        """The best rows that count; searches again without what turns out to be stale."""
        versions = self._versions
        for _ in range(_ATTEMPTS):
            more = [is_in(VERSION, sorted(versions.stale), negate=True)] if versions.stale else []
            placed = [(*parse_row_id(row[ID]), row) for row in search(expression(metadata_filter, *more))]
            asked = versions.to_ask(version for version, _, _ in placed)
            if versions.settle(asked, self._reader.by_version(asked) if asked else {}):
                return [
                    (ChunkKey(*versions.known[version].name, index), row)
                    for version, index, row in placed
                    if versions.known[version].head.has(index)
                ]
        raise Changed


def _best(hits: Sequence[tuple[ChunkKey, float]], limit: int) -> list[Scored]:
    return sorted((Scored(key, float(score)) for key, score in hits), key=lambda hit: (-hit.score, hit.key))[:limit]
