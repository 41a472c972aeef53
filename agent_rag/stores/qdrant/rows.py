"""A collection on a Qdrant server: the primitives of documents as versions.

A chunk is a point with the vectors `DENSE` and `SPARSE`; a document is a point without vectors, its head. What facets
count is in fields that only one of the two kinds has, so that they need no filter.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from qdrant_client import AsyncQdrantClient, models

from ...filters import FilterLike
from ...filters.plan import index_metadata, plan
from ...retrieval.lexical import K1, B, term_id
from ..engine.payload import CHUNK, TOKENS, number_field, translate
from ..versions.groups import at_most, grouped, side_by_side, slices
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
from .client import NUMBERS, ServerDialect, any_of, equals, when_ready
from .schema import DENSE, SPARSE, score_of

VERSION, INDEX, TERMS, FREQUENCIES = "g", "i", "w", "f"
"""On chunks, beside CHUNK."""
NAMES, SCOPE, DOCUMENT, BODY, WRITTEN = "v", "s", "d", "b", "at"
"""On heads; BODY and WRITTEN on tombstones too."""
SUMS = "n"
"""On both: what totals add up, as texts such that one facet counts how often each occurs."""
_DIGIT = 4_096
"""Token sums are kept in two digits of this base, since a facet gives one number per different value."""

_KEYWORD = models.PayloadSchemaType.KEYWORD
# Each takes a server .2 to .5 s to make, so that TOKENS holds also what only filters look at.
INDEXES: dict[str, Any] = {
    **dict.fromkeys((VERSION, NAMES, TOKENS, SUMS), _KEYWORD),
    TERMS: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
    f"{NUMBERS}[].k": _KEYWORD,
    f"{NUMBERS}[].v": models.PayloadSchemaType.FLOAT,
}
DIALECT = ServerDialect()
_HEAD, _TOMBSTONE = "\x1ehead", "\x1egone"
_STRONG = models.WriteOrdering.STRONG
_PAGE = 1_000
_VALUES = 10_000_000
"""More than a facet has."""
_PIECE_POINTS = 300
# A server refuses bodies above 32 MB.
_PIECE_BYTES = 24_000_000
_AT_ONCE, _COUNTS = 4, 16


class Rows:
    """One collection.

    Reads ask one copy of a shard. With a consistency server 1.19.0 leaves out what two copies have differently: a head
    that is being swapped, hits of searches; and its facets add up what several copies answer (72 for 60 chunks).
    """

    guarded = True
    clocks_s = CLOCKS_S

    def __init__(self, client: AsyncQdrantClient, info: StoredInfo, name: str) -> None:
        """
        Args:
            name: Of the collection on the server.
        """
        self._client = client
        self.info = info
        self._name = name

    def terms(self, tokens: Iterable[str]) -> list[int]:
        return list(map(term_id, tokens))

    # --- rows ---

    async def put_rows(self, versions: Sequence[NewVersion], average_length: float) -> None:
        points = (_chunk_point(version, row, average_length) for version in versions for row in version.rows)
        pieces = grouped(points, at_most(_PIECE_POINTS), (_bytes, _PIECE_BYTES))
        await side_by_side((self._client.upsert(self._name, piece, wait=True) for piece in pieces), _AT_ONCE)

    async def delete_rows(self, versions: Mapping[str, Runs | None]) -> None:
        for part in slices(list(versions), _PAGE):
            await self._delete(any_of(VERSION, part))

    async def get_rows(self, rows: Sequence[RowId], *, vectors: bool) -> dict[RowId, Row]:
        ids = {_point_id(row): row for row in rows}
        found = await self._retrieve(list(ids), [CHUNK], [DENSE] if vectors and self.info.dimensions else False)
        return {ids[str(one.id)]: Row(one.payload[CHUNK], (one.vector or {}).get(DENSE, [])) for one in found}

    # --- heads ---

    async def put_heads(self, puts: Sequence[Put]) -> set[str]:
        """One request; the server does not say which were written."""
        known = [_head_point(put.head) for put in puts if put.before is not None]
        new = [_head_point(put.head) for put in puts if put.before is None]
        expected = any_of(TOKENS, [_mark("r", put.before.revision) for put in puts if put.before is not None])
        operations = []
        if known:
            update = models.UpdateMode.UPDATE_ONLY
            operations.append(
                models.PointsList(points=known, update_filter=models.Filter(must=[expected]), update_mode=update)
            )
        if new:
            operations.append(models.PointsList(points=new, update_mode=models.UpdateMode.INSERT_ONLY))
        await self._client.batch_update_points(
            self._name, [models.UpsertOperation(upsert=one) for one in operations], wait=True, ordering=_STRONG
        )
        return {put.head.id for put in puts}

    async def get_heads(self, heads: Collection[str]) -> dict[str, Head]:
        found = await self._retrieve([str(uuid.UUID(one)) for one in heads], [BODY])
        return {head.id: head for one in found for head in [Head.of_body(one.payload[BODY])]}

    async def current(self, heads: Collection[str]) -> dict[str, Current]:
        found = await self._retrieve([str(uuid.UUID(one)) for one in heads], [NAMES, SCOPE, DOCUMENT, WRITTEN])
        return {
            uuid.UUID(str(one.id)).hex: Current(
                (one.payload[SCOPE], one.payload[DOCUMENT]), one.payload[NAMES], one.payload[WRITTEN]
            )
            for one in found
            if NAMES in one.payload
        }

    async def heads_where(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Head]:
        more = [] if document_ids is None else [any_of(TOKENS, [_mark("d", one) for one in document_ids])]
        return await self._scroll(_condition(metadata_filter, any_of(TOKENS, [_HEAD]), *more))

    async def delete_tombstones(self, before: float) -> None:
        heads = await self._scroll(models.Filter(must=[any_of(TOKENS, [_TOMBSTONE])]))
        old = [_mark("r", head.revision) for head in heads if head.written_at < before]
        for part in slices(old, _PAGE):
            await self._delete(any_of(TOKENS, part))

    async def settle(self) -> None:
        """A server answers a write when reads show it."""

    # --- search ---

    async def search(self, questions: Sequence[Question], *, without: Collection[str], texts: bool) -> list[list[Hit]]:
        answers: list[list[Hit]] = [[] for _ in questions]
        asked = {
            place: _Asked(self.info, question, without, texts=texts)
            for place, question in enumerate(questions)
            if not isinstance(question, Among) or question.rows
        }
        while asked:
            requests = [one.request() for one in asked.values()]
            found = await when_ready(partial(self._client.query_batch_points, self._name, requests))
            for (place, one), answer in zip(list(asked.items()), found, strict=True):
                if one.is_enough(answer.points):
                    answers[place] = one.hits(answer.points)
                    del asked[place]
        return answers

    # --- counting ---

    async def document_frequencies(self, terms: Sequence[int], *, without: Collection[str]) -> dict[int, int]:
        rest = _without(without)

        async def count(term: int) -> int:
            where = models.Filter(must=[equals(TERMS, term)], must_not=rest)
            return (await when_ready(partial(self._client.count, self._name, where, exact=True))).count

        return dict(zip(terms, await side_by_side(map(count, terms), _COUNTS), strict=True))

    async def totals(self) -> tuple[Totals, Totals]:
        heads, rows = Totals(0, 0, 0), Totals(0, 0, 0)
        for text, times in (await self._facet(SUMS)).items():
            kind, *numbers = text.split(":")
            add = Totals(*(int(number) * times for number in numbers))
            if kind == "row":
                rows = rows.plus(add)
            else:
                heads = heads.plus(add)
        return heads, rows

    async def tally(self, metadata_filter: FilterLike | None, heads: Collection[str] | None = None) -> dict[str, int]:
        more = [] if heads is None else [any_of(TOKENS, [_mark("h", head) for head in heads])]
        return await self._facet(VERSION, _condition(metadata_filter, *more))

    async def named(self) -> set[str]:
        return set(await self._facet(NAMES))

    # --- requests ---

    async def _scroll(self, where: models.Filter | None) -> list[Head]:
        found: list[Head] = []
        offset = None
        while True:
            read = partial(self._client.scroll, self._name, where, limit=_PAGE, offset=offset, with_payload=[BODY])
            page, offset = await when_ready(partial(read))
            found += [Head.of_body((one.payload or {})[BODY]) for one in page]
            if offset is None:
                return found

    async def _retrieve(self, ids: Sequence[str], payload: list[str], vectors: Any = False) -> list[Any]:
        read = partial(self._client.retrieve, self._name, with_payload=payload, with_vectors=vectors)
        pages = [when_ready(partial(read, ids=list(part))) for part in slices(ids, _PAGE)]
        return [one for page in await asyncio.gather(*pages) for one in page]

    async def _facet(self, field: str, where: models.Filter | None = None) -> dict[str, int]:
        read = partial(self._client.facet, self._name, field, facet_filter=where, limit=_VALUES, exact=True)
        answer = await when_ready(read)
        return {str(hit.value): hit.count for hit in answer.hits}

    async def _delete(self, *must: models.Condition) -> None:
        where = models.FilterSelector(filter=models.Filter(must=list(must)))
        await self._client.delete(self._name, where, wait=True, ordering=_STRONG)


class _Asked:
    """One question, asked for more hits while the last of them ties with the one at the limit."""

    def __init__(self, info: StoredInfo, question: Question, without: Collection[str], *, texts: bool) -> None:
        self._info = info
        self._question = question
        self._payload = [VERSION, INDEX, *([CHUNK] if texts else [])]
        match question:
            case NearestTo(vector, limit, metadata_filter):
                self._query: Any = vector.tolist()
                # Beside a keyword list as many as it has: what both hold is not asked for again.
                self._count, self._limit = limit + (16 if texts else limit // 4 + 50), limit
                self._where = _condition(metadata_filter, without=without)
            case Among(vector, rows):
                self._query = vector.tolist()
                self._count = self._limit = len(rows)
                self._where = models.Filter(must=[models.HasIdCondition(has_id=[_point_id(row) for row in rows])])
            case Matching(weights, _, _, limit, metadata_filter):
                self._query = models.SparseVector(indices=list(weights), values=list(weights.values()))
                self._count, self._limit = limit + limit // 4 + 50, limit
                self._where = _condition(metadata_filter, without=without)
                self._payload.append(FREQUENCIES)

    def request(self) -> models.QueryRequest:
        return models.QueryRequest(
            query=self._query,
            using=SPARSE if isinstance(self._question, Matching) else DENSE,
            limit=self._count,
            filter=self._where,
            with_payload=self._payload,
        )

    def is_enough(self, points: Sequence[Any]) -> bool:
        if isinstance(self._question, Among) or len(points) < self._count:
            return True
        if points[-1].score < points[self._limit - 1].score:
            return True
        self._count *= 8
        return False

    def hits(self, points: Sequence[Any]) -> list[Hit]:
        if isinstance(self._question, Matching):
            scores = _bm25([one.payload[FREQUENCIES] for one in points], self._question)
        else:
            scores = [score_of(one.score, self._info.distance) for one in points]
        return [
            Hit(RowId(one.payload[VERSION], one.payload[INDEX]), score, one.payload.get(CHUNK))
            for one, score in zip(points, scores, strict=True)
        ]


def _condition(
    metadata_filter: FilterLike | None, *more: models.Condition, without: Collection[str] = ()
) -> models.Filter | None:
    node = plan(metadata_filter)
    must = [*more, *([] if node is None else [translate(node, DIALECT)])]
    return DIALECT.combine(must=must, must_not=_without(without)) if must or without else None


def _without(versions: Collection[str]) -> list[models.Condition]:
    return [any_of(VERSION, sorted(versions))] if versions else []


def _point_id(row: RowId) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"agent_rag:{row.version}:{row.index}"))


def _mark(kind: str, text: str) -> str:
    """A token of ours; those of metadata have a separator that this lacks."""
    return f"\x1e{kind}{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _filter_fields(metadata: Mapping[str, Any], *marks: str) -> dict[str, Any]:
    indexed = index_metadata(metadata)
    numbers = [{"k": number_field(key), "v": value} for key, value in indexed.numbers.items()]
    return {TOKENS: [*marks, *indexed.tokens], **({NUMBERS: numbers} if numbers else {})}


def _head_point(head: Head) -> models.PointStruct:
    payload: dict[str, Any] = {BODY: head.body(), WRITTEN: head.written_at}
    revision = _mark("r", head.revision)
    if head.summary is None:
        payload[TOKENS] = [_TOMBSTONE, revision]
    else:
        high, low = divmod(head.tokens, _DIGIT)
        payload |= {
            NAMES: head.version,
            SCOPE: head.name[0],
            DOCUMENT: head.name[1],
            SUMS: [f"head:{head.count}:{head.indexed}:0", f"low:0:0:{low}", f"high:0:0:{high * _DIGIT}"],
            **_filter_fields(head.summary.metadata, _HEAD, revision, _mark("d", head.name[1])),
        }
    return models.PointStruct(id=str(uuid.UUID(head.id)), vector={}, payload=payload)


def _chunk_point(version: NewVersion, row: NewRow, average_length: float) -> models.PointStruct:
    vector: dict[str, Any] = {DENSE: row.vector.tolist()} if len(row.vector) else {}
    payload = {
        CHUNK: row.chunk,
        VERSION: version.version,
        INDEX: row.index,
        SUMS: [f"row:1:{int(bool(row.terms))}:{len(row.terms)}"],
        **_filter_fields(row.metadata, _mark("h", head_of(version.version))),
    }
    if row.terms:
        counted = Counter(row.terms)
        ids, frequencies = np.array(list(counted), np.uint32), np.array(list(counted.values()), np.uint32)
        base = K1 * (1 - B + B * len(row.terms) / average_length)
        # Five digits choose candidates, whose scores are computed from the frequencies.
        weights = np.round(frequencies / (frequencies + base), 5).tolist()
        vector[SPARSE] = models.SparseVector(indices=ids.tolist(), values=weights)
        payload[TERMS] = ids.tolist()
        payload[FREQUENCIES] = base64.b64encode(ids.tobytes() + frequencies.tobytes()).decode()
    return models.PointStruct(id=_point_id(RowId(version.version, row.index)), vector=vector, payload=payload)


def _bm25(kept: Iterable[str], question: Matching) -> list[float]:
    """Scores with today's average length: the server's are of the averages when the chunks were written."""
    terms = np.array(sorted(question.weights), np.uint32)
    weights = np.array([question.weights[term] for term in terms.tolist()])
    scores = []
    for text in kept:
        ids, frequencies = np.frombuffer(base64.b64decode(text), np.uint32).reshape(2, -1)
        place = np.minimum(np.searchsorted(terms, ids), len(terms) - 1)
        has = terms[place] == ids
        of_terms = frequencies[has].astype(np.float64)
        base = K1 * (1 - B + B * float(frequencies.sum()) / question.average_length)
        scores.append(float((weights[place[has]] * of_terms / (of_terms + base)).sum()))
    return scores


def _bytes(point: models.PointStruct) -> int:
    """At most what the point takes in JSON: 6 per escaped character, 25 per number."""
    payload, vector = point.payload or {}, point.vector
    numbers = len(payload.get(TERMS, ()))
    if isinstance(vector, dict):
        for item in vector.values():
            numbers += 2 * len(item.indices) if isinstance(item, models.SparseVector) else len(item)  # type: ignore[arg-type]
    return 1_000 + 6 * (len(payload[CHUNK]) + sum(map(len, payload[TOKENS]))) + 25 * numbers
