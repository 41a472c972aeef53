"""A collection of Tencent Cloud VectorDB: the primitives of documents as versions.

::

    chunks  <version>:<index>  a chunk
    heads   <id of the head>   k head: version, revision, body, sums; k gone: a deleted document
            info               k info: what the collection is

The database changes a row only where it meets a condition, but has no conditional insert: the head of a new document is
that of the last writer. It counts rows and adds nothing up, so that sums are read from heads.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ...errors import LimitExceededError
from ...filters import FilterLike
from ...retrieval.lexical import term_id, term_weight
from ..engine.filter_tokens import EVERY, tokens_of
from ..engine.payload import parse_chunk
from ..versions.exact_scores import bm25, similarities
from ..versions.groups import side_by_side, slices
from ..versions.heads import Runs
from ..versions.protocol import (
    CLOCKS_S,
    Among,
    Current,
    Head,
    Hit,
    Matching,
    NearestTo,
    NewRow,
    NewVersion,
    Put,
    Question,
    Row,
    RowId,
    Totals,
    head_of,
)
from ..versions.stored_info import StoredInfo
from .client import MAX_LIMIT, Connection, pieces
from .schema import (
    BODY,
    CONTENT,
    COUNTS,
    DOCUMENT,
    HEAD,
    ID,
    INDEX,
    IS_GONE,
    IS_HEAD,
    KIND,
    NAME,
    NONE,
    ORDER,
    PLACEHOLDER,
    REVISION,
    SPARSE,
    SUMS,
    TERMS,
    TEXT,
    TOKENS,
    VECTOR,
    VERSION,
    WRITTEN,
    Document,
    digest,
    expression,
    is_in,
    listed,
    order_of,
    tables_of,
    term_text,
)

_IDS, _VALUES = 20, 500
"""Of one query by ids, and in one expression."""
_PAGE = 1_000
_AT_ONCE = 8
_MANY = 20
"""Rows of one version that are read by their range instead of their ids."""
_MAX_CANDIDATES = 10_000
_ROUGHLY = 0.9
"""Stored weights are those of an earlier average length."""


class Rows:
    """One collection. The client blocks, so in threads."""

    guarded = False
    clocks_s = CLOCKS_S

    def __init__(self, connection: Connection, info: StoredInfo) -> None:
        self.info = info
        self._connection = connection
        self._chunks, self._heads = tables_of(connection.options.database, info.name)

    def terms(self, tokens: Iterable[str]) -> list[int]:
        return list(map(term_id, tokens))

    # --- rows ---

    async def put_rows(self, versions: Sequence[NewVersion], average_length: float) -> None:
        make = _chunk_with_text if self.info.embedding else _chunk_with_vector
        rows = (make(version, row, average_length) for version in versions for row in version.rows)
        parts = await asyncio.to_thread(list, pieces(rows))
        for part in parts:  # not side by side: the client writes each in one call, which stops all threads for 10 ms
            await self._upsert(self._chunks, part)

    async def delete_rows(self, versions: Mapping[str, Runs | None]) -> None:
        known = [
            _row_id(RowId(version, index))
            for version, runs in versions.items()
            for start, stop in runs or ()
            for index in range(start, stop)
        ]
        await asyncio.to_thread(self._connection.delete, self._chunks, known)
        for part in slices([version for version, runs in versions.items() if runs is None], _VALUES):
            await asyncio.to_thread(self._connection.delete_where, self._chunks, is_in(VERSION, part))

    async def get_rows(self, rows: Sequence[RowId], *, vectors: bool) -> dict[RowId, Row]:
        vectors = vectors and self.info.dimensions > 0
        by_version: dict[str, list[int]] = {}
        for row in rows:
            by_version.setdefault(row.version, []).append(row.index)
        single = [
            _row_id(RowId(one, index)) for one, many in by_version.items() if len(many) <= _MANY for index in many
        ]
        ranges = [
            f"{is_in(VERSION, [version])} and {INDEX} >= {min(part)} and {INDEX} <= {max(part)}"
            for version, indexes in by_version.items()
            if len(indexes) > _MANY
            for part in slices(sorted(indexes), _VALUES)
        ]
        reads = (self._scan(self._chunks, where, [CONTENT], page=_VALUES, vectors=vectors) for where in ranges)
        found = chain(
            await self._get(self._chunks, single, [CONTENT], vectors=vectors),
            *await side_by_side(reads, _AT_ONCE),
        )
        wanted = set(rows)
        return {_row(one): Row(one[CONTENT], one.get(VECTOR, [])) for one in found if _row(one) in wanted}

    # --- heads ---

    async def put_heads(self, puts: Sequence[Put]) -> set[str]:
        """A head that follows another one is written over exactly that; of new ones the last stays."""
        new = (_head_row(put.head) for put in puts if put.before is None)
        inserts = (self._upsert(self._heads, part) for part in pieces(new))
        swaps = (self._swap(put.head, put.before) for put in puts if put.before is not None)
        await side_by_side(chain(inserts, swaps), _AT_ONCE)
        return {put.head.id for put in puts}

    async def _swap(self, head: Head, before: Head) -> None:
        changes = {name: value for name, value in _head_row(head).items() if name not in (ID, VECTOR)}
        expected = is_in(REVISION, [before.revision])
        await asyncio.to_thread(self._connection.update_if, self._heads, head.id, expected, changes)

    async def get_heads(self, heads: Collection[str]) -> dict[str, Head]:
        found = await self._get(self._heads, list(heads), [BODY])
        return {one[ID]: Head.of_body(one[BODY]) for one in found}

    async def current(self, heads: Collection[str]) -> dict[str, Current]:
        fields = [VERSION, NAME, WRITTEN]
        if len(heads) <= _IDS:
            found = await self._get(self._heads, list(heads), fields)
        else:
            found = await self._scan_parts(self._heads, HEAD, heads, fields)
        return {
            one[ID]: Current((name[0], name[1]), one[VERSION], one[WRITTEN] / 1000)
            for one in found
            if one[VERSION] != NONE
            for name in [json.loads(one[NAME])]
        }

    async def heads_where(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Head]:
        hashes = None if document_ids is None else list(map(digest, document_ids))
        found = await self._scan_parts(self._heads, DOCUMENT, hashes, [BODY], metadata_filter, IS_HEAD, page=_PAGE)
        return [Head.of_body(one[BODY]) for one in found]

    async def delete_tombstones(self, before: float) -> None:
        old = f"{IS_GONE} and {WRITTEN} < {int(before * 1000)}"
        await asyncio.to_thread(self._connection.delete_where, self._heads, old)

    async def settle(self) -> None:
        """Strongly consistent reads show every write."""

    # --- search ---

    async def search(self, questions: Sequence[Question], *, without: Collection[str], texts: bool) -> list[list[Hit]]:
        fields = [CONTENT] if texts else []
        return await side_by_side((self._answer(one, without, fields) for one in questions), _AT_ONCE)

    async def _answer(self, question: Question, without: Collection[str], fields: list[str]) -> list[Hit]:
        if isinstance(question, Among):
            found = await self.get_rows(question.rows, vectors=True)
            return _hits(
                zip(found, self._compared(question.vector, [row.vector for row in found.values()]), strict=True)
            )
        if question.limit > MAX_LIMIT:
            raise LimitExceededError(
                f"VectorDB gives at most {MAX_LIMIT:,} hits, {question.limit:,} were asked for; ask for less"
            )
        condition = expression(question.metadata_filter, without=without)
        if isinstance(question, NearestTo):
            return await self._nearest(question, condition, fields)
        if self.info.embedding:
            return await self._like_text(question, condition, fields)
        return await self._matching(question, condition, fields)

    async def _nearest(self, question: NearestTo, condition: str | None, fields: list[str]) -> list[Hit]:
        # The documentation does not say whether the distance is squared.
        exact = self.info.distance == "Euclid"

        def find(count: int) -> list[Hit]:
            query = question.vector.tolist()
            rows = self._connection.nearest(self._chunks, query, count, condition, fields, vectors=exact)
            if exact:
                scores = self._compared(question.vector, [one[VECTOR] for one in rows])
            else:
                scores = [self._score(one) for one in rows]
            return _hits(zip(map(_row, rows), scores, map(_content, rows), strict=True))

        return await asyncio.to_thread(_without_ties, find, question.limit)

    async def _like_text(self, question: Matching, condition: str | None, fields: list[str]) -> list[Hit]:
        def find(count: int) -> list[Hit]:
            rows = self._connection.nearest_to_text(self._chunks, question.text, count, condition, fields)
            return _hits((_row(one), self._score(one), _content(one)) for one in rows)

        hits = await asyncio.to_thread(_without_ties, find, question.limit)
        return [hit for hit in hits if hit.score > 0]

    async def _matching(self, question: Matching, condition: str | None, fields: list[str]) -> list[Hit]:
        """The sparse index chooses candidates, whose scores are computed from their terms."""
        weights = list(question.weights.items())
        count = 2 * question.limit + 50
        while True:
            rows = await asyncio.to_thread(
                self._connection.by_words, self._chunks, weights, count, condition, [COUNTS, *fields]
            )
            if len(rows) < count or count >= _MAX_CANDIDATES:
                break
            if rows[-1]["score"] < _ROUGHLY * rows[question.limit - 1]["score"]:
                break
            count *= 4

        def score(one: Document) -> float:
            counted = _counts(one)
            return bm25(counted, sum(counted.values()), question.weights, question.average_length)

        hits = _hits((_row(one), score(one), _content(one)) for one in rows)
        return [hit for hit in _cut(hits, question.limit) if hit.score > 0]

    def _compared(self, vector: Any, stored: Sequence[Sequence[float]]) -> list[float]:
        scores: list[float] = similarities(self.info.distance, vector, np.array(stored, dtype=np.float32)).tolist()
        return scores

    def _score(self, found: Document) -> float:
        score = float(found["score"])
        if self.info.distance != "Cosine":
            return score
        return min(1.0, max(-1.0, score)) if score == score else 0.0  # NaN for a vector of zeros

    # --- counting ---

    async def document_frequencies(self, terms: Sequence[int], *, without: Collection[str]) -> dict[int, int]:
        conditions = (
            expression(None, f"{TERMS} include {listed([term_text(term)])}", without=without) for term in terms
        )
        counts = (asyncio.to_thread(self._connection.count, self._chunks, one) for one in conditions)
        return dict(zip(terms, await side_by_side(counts, _AT_ONCE), strict=True))

    async def totals(self) -> tuple[Totals, Totals]:
        """As many rows as heads say are all of them: no head names a version before all its rows are there."""
        heads, rows = await asyncio.gather(
            self._scan(self._heads, IS_HEAD, [SUMS]), asyncio.to_thread(self._connection.count, self._chunks)
        )
        sums = Totals(0, 0, 0)
        for one in heads:
            sums = sums.plus(Totals(*json.loads(one[SUMS])))
        return sums, sums._replace(chunks=rows)

    async def tally(self, metadata_filter: FilterLike | None, heads: Collection[str] | None = None) -> dict[str, int]:
        found = await self._scan_parts(self._chunks, HEAD, heads, [VERSION], metadata_filter)
        return dict(Counter(one[VERSION] for one in found))

    async def named(self) -> set[str]:
        return {one[VERSION] for one in await self._scan(self._heads, IS_HEAD, [VERSION])}

    # --- requests ---

    async def _upsert(self, table: str, rows: list[Document]) -> None:
        await asyncio.to_thread(self._connection.upsert, table, rows)

    async def _get(self, table: str, ids: Sequence[str], fields: list[str], *, vectors: bool = False) -> list[Document]:
        parts = (
            asyncio.to_thread(self._connection.get, table, part, fields, vectors=vectors) for part in slices(ids, _IDS)
        )
        return [one for rows in await side_by_side(parts, _AT_ONCE) for one in rows]

    async def _scan_parts(
        self,
        table: str,
        field: str,
        values: Collection[str] | None,
        fields: list[str],
        metadata_filter: FilterLike | None = None,
        *more: str,
        page: int = MAX_LIMIT,
    ) -> list[Document]:
        """Rows with one of `values` in `field`, as many values at a time as an expression takes; None: all rows."""
        parts = [[]] if values is None else [[is_in(field, part)] for part in slices(list(values), _VALUES)]
        conditions = [expression(metadata_filter, *more, *part) for part in parts]
        found = await side_by_side((self._scan(table, one, fields, page=page) for one in conditions), _AT_ONCE)
        return [one for rows in found for one in rows]

    async def _scan(
        self,
        table: str,
        condition: str | None,
        fields: list[str],
        *,
        page: int = MAX_LIMIT,
        vectors: bool = False,
    ) -> list[Document]:
        return await asyncio.to_thread(self._connection.scan, table, condition, fields, page, vectors=vectors)


def _without_ties(find: Callable[[int], list[Hit]], limit: int) -> list[Hit]:
    """All hits that score at least as much as the one at `limit`."""
    count = min(limit + 16, MAX_LIMIT)
    while True:
        hits = find(count)
        if len(hits) < count or count == MAX_LIMIT or hits[-1].score < hits[limit - 1].score:
            return _cut(hits, limit)
        count = min(8 * count, MAX_LIMIT)


def _cut(hits: list[Hit], limit: int) -> list[Hit]:
    """Fewer hits are fewer heads to read."""
    return [hit for hit in hits if hit.score >= hits[limit - 1].score] if len(hits) > limit else hits


def _hits(found: Iterable[tuple[Any, ...]]) -> list[Hit]:
    """Best first."""
    return sorted((Hit(*one) for one in found), key=lambda hit: -hit.score)


# --- documents ---


def _row_id(row: RowId) -> str:
    return f"{row.version}:{row.index}"


def _row(stored: Document) -> RowId:
    version, _, index = stored[ID].rpartition(":")
    return RowId(version, int(index))


def _content(stored: Document) -> str | None:
    return stored.get(CONTENT)


def _counts(stored: Document) -> dict[int, int]:
    """Term -> frequency."""
    pairs = (pair.partition(":") for pair in stored[COUNTS].split())
    return {int(term): int(count) for term, _, count in pairs}


def _chunk(version: NewVersion, row: NewRow, average_length: float) -> Document:
    row_id = _row_id(RowId(version.version, row.index))
    counted: Counter[int] = Counter(row.terms)  # type: ignore[arg-type]
    document: Document = {
        ID: row_id,
        VERSION: version.version,
        HEAD: head_of(version.version),
        INDEX: row.index,
        ORDER: order_of(row_id),
        TOKENS: tokens_of(row.metadata),
        TERMS: list(map(term_text, counted)),
        COUNTS: " ".join(f"{term}:{count}" for term, count in counted.items()),
        CONTENT: row.chunk,
    }
    if counted:
        length = len(row.terms)
        document[SPARSE] = [[term, term_weight(count, length, average_length)] for term, count in counted.items()]
    return document


def _chunk_with_vector(version: NewVersion, row: NewRow, average_length: float) -> Document:
    return {**_chunk(version, row, average_length), VECTOR: row.vector.tolist() or PLACEHOLDER}


def _chunk_with_text(version: NewVersion, row: NewRow, average_length: float) -> Document:
    """The database makes the vector."""
    return {**_chunk(version, row, average_length), TEXT: parse_chunk(row.chunk).indexed_text}


def _head_row(head: Head) -> Document:
    summary = head.summary
    return {
        ID: head.id,
        HEAD: head.id,
        VECTOR: PLACEHOLDER,
        KIND: "gone" if summary is None else "head",
        VERSION: head.version or NONE,
        REVISION: head.revision,
        DOCUMENT: digest(head.name[1]),
        ORDER: order_of(head.id),
        WRITTEN: int(head.written_at * 1000),
        TOKENS: [EVERY] if summary is None else tokens_of(summary.metadata),
        NAME: json.dumps(head.name),
        SUMS: json.dumps([head.count, head.indexed, head.tokens]),
        BODY: head.body(),
    }
