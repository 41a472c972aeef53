"""A collection in Milvus: the primitives of documents as versions.

Milvus writes a row whatever is there: on a server heads are unguarded. They are compared before they are written, so
that two writers seldom write over each other. A local file has one writer, which does both at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from ...filters import FilterLike
from ...retrieval.lexical import term_id
from ..engine.sparse import decode
from ..versions.exact_scores import similarities
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
    NewVersion,
    Put,
    Question,
    Row,
    RowId,
    Totals,
)
from ..versions.settled import Changed
from ..versions.stored_info import StoredInfo
from .calls import MAX_LIMIT, Having, Milvus, Stored
from .options import METRICS
from .schema import (
    BRIEF,
    CONTENT,
    COUNT,
    DENSE,
    DOCUMENT_HASH,
    HEAD,
    ID,
    INDEXED,
    LENGTH,
    REMOVALS_ID,
    REVISION,
    SPARSE,
    VERSION,
    MilvusInfo,
    chunk_row,
    document_hash,
    head_row,
    name_of_row,
    parse_row_id,
    row_id,
    sparse_of_row,
    sparse_row,
    text_row,
)

T = TypeVar("T")

_ATTEMPTS = 20
_PAGE, _AT_ONCE = 1_000, 8
_CARRIED = 40
"""Most hits that come with their texts; more are read by their ids, a part at a time."""
_ROUNDED = 1.00001
"""Weights are stored as 32-bit floats."""


class Run(Protocol):
    def __call__(self, job: Callable[[], T], /) -> Awaitable[T]:
        """Run `job` in a thread that may call Milvus."""


class Rows:
    """One collection."""

    def __init__(self, milvus: Milvus, run: Run, info: MilvusInfo) -> None:
        self.info: StoredInfo = info
        self.guarded = milvus.is_alone
        self.clocks_s = 0.0 if milvus.is_alone else CLOCKS_S
        self._milvus = milvus
        self._run = run
        self._info = info
        self._chunks, self._heads = info.chunks, info.heads

    def terms(self, tokens: Iterable[str]) -> list[int]:
        return list(map(term_id, tokens))

    # --- rows ---

    async def put_rows(self, versions: Sequence[NewVersion], average_length: float) -> None:
        def made() -> list[Stored]:
            return [
                chunk_row(self._info, version.version, row, average_length)
                for version in versions
                for row in version.rows
            ]

        for piece in self._milvus.pieces(await asyncio.to_thread(made)):
            await self._run(partial(self._milvus.upsert, self._chunks, piece))

    async def delete_rows(self, versions: Mapping[str, Runs | None]) -> None:
        """By ids: what an expression finds may be late."""

        def job() -> None:
            ids = [
                row_id(RowId(version, index))
                for version, runs in versions.items()
                for start, stop in runs or ()
                for index in range(start, stop)
            ]
            for part in slices([version for version, runs in versions.items() if runs is None], _PAGE):
                ids += [row[ID] for row in self._milvus.scan(self._chunks, "", [ID], {VERSION: part})]
            if ids and not self._milvus.has_snapshots:
                self._milvus.upsert(self._heads, [text_row(REMOVALS_ID)])
            self._milvus.delete(self._chunks, ids)

        await self._run(job)

    async def get_rows(self, rows: Sequence[RowId], *, vectors: bool) -> dict[RowId, Row]:
        fields = [CONTENT, *([DENSE] if vectors and self.info.dimensions else [])]
        found = await self._run(lambda: self._milvus.get(self._chunks, list(map(row_id, rows)), fields))
        return {
            parse_row_id(one[ID]): Row("".join(one[CONTENT]), list(map(float, one.get(DENSE, ())))) for one in found
        }

    # --- heads ---

    async def put_heads(self, puts: Sequence[Put]) -> set[str]:
        ids = [put.head.id for put in puts]

        def job() -> set[str]:
            revisions = {row[ID]: row[REVISION] for row in self._milvus.get(self._heads, ids, [REVISION])}
            fitting = [
                put.head for put in puts if revisions.get(put.head.id) == (put.before.revision if put.before else None)
            ]
            for piece in self._milvus.pieces(list(map(head_row, fitting))):
                self._milvus.upsert(self._heads, piece)
            return set(ids) - {head.id for head in fitting}

        beaten = await self._run(job)
        return beaten if self.guarded else set(ids)

    async def get_heads(self, heads: Collection[str]) -> dict[str, Head]:
        found = await self._run(lambda: self._milvus.get(self._heads, list(heads), [HEAD]))
        return {row[ID]: _head(row) for row in found}

    async def current(self, heads: Collection[str]) -> dict[str, Current]:
        found = await self._run(lambda: self._milvus.get(self._heads, list(heads), [VERSION, BRIEF]))
        return {row[ID]: Current(*name_of_row(row)) for row in found if row[VERSION]}

    async def heads_where(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Head]:
        condition = self._milvus.dialect.condition(metadata_filter)
        if document_ids is None:
            return list(map(_head, await self._scan(self._heads, condition, [HEAD])))
        parts = slices(list(map(document_hash, document_ids)), _PAGE)
        pages = [await self._scan(self._heads, condition, [HEAD], {DOCUMENT_HASH: part}) for part in parts]
        return [_head(row) for page in pages for row in page]

    async def delete_tombstones(self, before: float) -> None:
        await self._run(lambda: self._milvus.delete_tombstones(self._heads, before))

    async def settle(self) -> None:
        """Reads are strongly consistent."""

    # --- search ---

    async def search(self, questions: Sequence[Question], *, without: Collection[str], texts: bool) -> list[list[Hit]]:
        answers = (partial(self._answer, question, without, texts=texts) for question in questions)
        return await side_by_side(map(self._of_a_moment, answers), _AT_ONCE)

    def _answer(self, question: Question, without: Collection[str], *, texts: bool) -> list[Hit]:
        match question:
            case NearestTo():
                hits = self._nearest(question, without, texts=texts)
            case Matching():
                hits = self._matching(question, without, texts=texts)
            case Among(vector, rows):
                return self._compared(vector, self._milvus.get(self._chunks, list(map(row_id, rows)), [DENSE]))
        best = sorted(hits, key=lambda hit: -hit.score)
        lowest = best[: question.limit][-1].score if best else 0.0
        return [hit for hit in best if hit.score >= lowest]

    def _nearest(self, question: NearestTo, without: Collection[str], *, texts: bool) -> list[Hit]:
        vector, limit, metric = question.vector, question.limit, METRICS[self.info.distance]
        is_exact = metric == "L2"  # Milvus squares it, Milvus Lite does not
        count = limit + 16
        while True:
            fields = [*([DENSE] if is_exact else []), *([CONTENT] if texts and count <= _CARRIED else [])]
            condition = self._milvus.dialect.condition(question.metadata_filter, without=without)
            count = min(count, MAX_LIMIT)
            rows = self._milvus.search(self._chunks, metric, vector.tolist(), count, condition, fields)
            hits = self._compared(vector, rows) if is_exact else [_hit(row, self._score(row)) for row in rows]
            if len(rows) < count or count == MAX_LIMIT or hits[-1].score < hits[limit - 1].score:
                return hits
            count *= 8

    def _score(self, row: Stored) -> float:
        raw = float(row["distance"])
        if self.info.distance != "Cosine":
            return raw
        return min(1.0, max(-1.0, raw)) if raw == raw else 0.0  # a server may give NaN for a vector of zeros

    def _compared(self, vector: Any, rows: Sequence[Stored]) -> list[Hit]:
        matrix = np.array([row[DENSE] for row in rows], dtype=np.float32)
        scores = similarities(self.info.distance, vector, matrix).tolist()
        return [_hit(row, score) for row, score in zip(rows, scores, strict=True)]

    def _matching(self, question: Matching, without: Collection[str], *, texts: bool) -> list[Hit]:
        """Stored weights are of the average length when they were written: they choose what is scored."""
        query, limit = question.weights, question.limit
        sparse = sparse_row(list(query), list(query.values()))
        condition = self._milvus.dialect.condition(question.metadata_filter, without=without)
        count = limit + limit // 4 + 20
        while True:
            fields = [SPARSE, *([CONTENT] if texts and count <= _CARRIED else [])]
            count = min(count, MAX_LIMIT)
            rows = self._milvus.search(self._chunks, "IP", sparse, count, condition, fields)
            postings = decode(map(sparse_of_row, rows))
            scores = postings.bm25(query, question.average_length)
            if len(rows) < count or count == MAX_LIMIT:
                break
            # A weight grows with the average length, at most in proportion.
            average, stored = question.average_length, postings.averages
            growth = average / stored.min(initial=average, where=stored > 0)
            if _ROUNDED * growth * rows[-1]["distance"] < sorted(scores)[-limit]:
                break
            count *= 4
        return [_hit(row, score) for row, score in zip(rows, scores, strict=True) if score > 0]

    # --- counting ---

    async def document_frequencies(self, terms: Sequence[int], *, without: Collection[str]) -> dict[int, int]:
        condition = self._milvus.dialect.condition(None, without=without)
        counts = (
            partial(self._milvus.frequencies, self._chunks, part, condition)
            for part in slices(terms, self._milvus.terms_at_once)
        )
        found = await side_by_side(map(self._of_a_moment, counts), _AT_ONCE)
        return {term: count for part in found for term, count in part.items()}

    async def totals(self) -> tuple[Totals, Totals]:
        """Milvus adds nothing up. All rows that heads name are there, so as many rows as these are the same rows."""
        heads = await self._scan(self._heads, "", [COUNT, INDEXED, LENGTH])
        over_heads = Totals(*(sum(row[name] for row in heads) for name in (COUNT, INDEXED, LENGTH)))
        rows = await self._run(lambda: self._milvus.count(self._chunks))
        return over_heads, over_heads if rows == over_heads.chunks else Totals(rows, 0, 0)

    async def tally(self, metadata_filter: FilterLike | None, heads: Collection[str] | None = None) -> dict[str, int]:
        condition = self._milvus.dialect.condition(metadata_filter)
        return await self._of_a_moment(lambda: self._milvus.tally(self._info, condition, heads))

    async def named(self) -> set[str]:
        return {row[VERSION] for row in await self._scan(self._heads, "", [VERSION])}

    # --- both ---

    async def _scan(
        self, collection: str, condition: str, fields: Sequence[str], having: Having | None = None
    ) -> list[Stored]:
        return await self._run(lambda: list(self._milvus.scan(collection, condition, fields, having or {})))

    async def _of_a_moment(self, read: Callable[[], T]) -> T:
        """`read`, again where chunks were removed meanwhile and the server does not show one moment.

        Raises: Changed: they are removed all the time.
        """

        def job() -> T:
            if self._milvus.has_snapshots:
                return read()
            for _ in range(_ATTEMPTS):
                before = self._removals()
                found = read()
                if self._removals() == before:
                    return found
            raise Changed

        return await self._run(job)

    def _removals(self) -> list[str]:
        return [row[REVISION] for row in self._milvus.get(self._heads, [REMOVALS_ID], [REVISION])]


def _head(row: Stored) -> Head:
    return Head.of_body("".join(row[HEAD]))


def _hit(row: Stored, score: float) -> Hit:
    return Hit(parse_row_id(row[ID]), score, "".join(row[CONTENT]) if CONTENT in row else None)
