"""Searching one collection in Tencent Cloud VectorDB while others write to it, and exact BM25."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...documents import ChunkKey, VectorSearchResult
from ...errors import LimitExceededError
from ...filters import FilterLike
from ...retrieval.coverage import seen_share
from ...retrieval.lexical import idf, term_id
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Seen, Step
from ..engine.driver import best, cut_ties, run_steps
from ..engine.records import query_vector
from ..engine.sparse import by_term_id
from ..versions.exact_scores import bm25, similarities
from ..versions.statistics import Statistics
from ..versions.versions import Changed, Versions
from .client import MAX_LIMIT
from .reads import Reader
from .schema import (
    CONTENT,
    COUNTS,
    ID,
    VERSION,
    Row,
    Stored,
    as_matrix,
    chunk_of,
    chunk_row_id,
    counts_of,
    expression,
    has_term,
    is_in,
    parse_row_id,
)

_ATTEMPTS = 30
_MAX_CANDIDATES = 10_000
# Stored weights are those of an earlier average length.
_ROUGHLY = 0.9


def search(reader: Reader, request: RetrieveRequest, statistics: Statistics[int] | None) -> list[VectorSearchResult]:
    for vector in request.vectors:
        query_vector(reader.info.name, reader.info.dimensions, vector)
    length = request.limit if request.rank is None else max(request.limit, request.candidates)
    if length > MAX_LIMIT:
        raise LimitExceededError(f"VectorDB gives at most {MAX_LIMIT:,} hits, {length:,} were asked for; ask for less")
    return reader.steady(lambda: run_steps(request, View(reader, statistics).answer))


class View:
    """The versions of documents that one search has seen."""

    def __init__(self, reader: Reader, statistics: Statistics[int] | None) -> None:
        self._reader = reader
        self._statistics = statistics
        self._versions: Versions[str, Stored] = Versions(is_shared=True)

    def answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, metadata_filter, None):
                return self._nearest(vector, limit, metadata_filter)
            case Nearest(vector, limit, _, keys):
                return self._similarities(vector, keys or ())[:limit]
            case Keyword(text, limit, metadata_filter, asked):
                if self._reader.connection.options.embedding:
                    return self._nearest_to_text(text, limit, metadata_filter)
                return self._keyword(asked, limit, metadata_filter)
            case Seen(words):
                return self._seen(set(map(term_id, words)))
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

    def _keyword(self, asked: Mapping[str, float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        reader, statistics = self._reader, self._statistics
        weights = self._weights(by_term_id(asked))
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

    def _weights(self, asked: Mapping[int, float]) -> dict[int, float]:
        """Weight in the query times idf, of terms that are there."""
        statistics = self._statistics
        if statistics is None or not statistics.indexed:
            return {}
        frequencies = self._frequencies(statistics, asked)
        return {
            term: weight * idf(max(statistics.indexed, found), found)
            for term, weight in asked.items()
            if (found := frequencies[term])
        }

    def _seen(self, terms: set[int]) -> float:
        """Everything counts as seen where the server makes vectors of its own of the texts."""
        statistics = self._statistics
        if statistics is None or self._reader.connection.options.embedding:
            return 1.0
        return seen_share(terms, self._frequencies(statistics, terms), statistics.indexed)

    def _frequencies(self, statistics: Statistics[int], terms: Iterable[int]) -> dict[int, int]:
        reader = self._reader
        for term in terms:
            if term not in statistics.frequency:
                statistics.frequency[term] = reader.connection.count(reader.chunks_name, has_term(term))
        return statistics.frequency

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
    return best((Scored(key, float(score)) for key, score in hits), limit)
