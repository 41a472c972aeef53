"""A collection of MongoDB: the primitives of documents as versions.

::

    info               kind info    what the collection is
    <id of the head>   kind head    version, revision, body, counts; kind gone: a deleted document
    <version>:<index>  kind chunk   a chunk

Search indexes lag behind the documents. Rows are written when both indexes find them, and what an index does not give
(it keeps places for what was deleted) is compared here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import StoreUnavailableError
from ...filters import FilterLike
from ..engine.filter_tokens import tokens_of
from ..engine.words import indexed_words
from ..versions.exact_scores import bm25, similarities
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
from .client import Connection
from .queries import Document, binary_vector, matrix_of, search_clauses, vector_of, where

_CHUNK, _HEAD = {"kind": "chunk"}, {"kind": "head"}
_PIECE_BYTES, _PIECE_DOCUMENTS, _PAGE, _AT_ONCE = 8_000_000, 1_000, 1_000, 8
_MAX_CANDIDATES = 10_000
_MAX_SCAN = 10_000
"""Most chunks that are compared one by one where an index gives fewer rows than there should be."""
_ROUGHLY = 0.9
"""Scores of the text index are off by some percent (lengths in one byte, deleted documents)."""
_DUPLICATE = 11_000


class Rows:
    """One collection."""

    guarded = True
    clocks_s = CLOCKS_S

    def __init__(self, connection: Connection, table: str, info: StoredInfo) -> None:
        self.info = info
        self._connection = connection
        self._name = table
        self._table = connection.table(table)
        self._is_cosine = info.distance == "Cosine"

    def terms(self, tokens: Iterable[str]) -> list[str]:
        return indexed_words(tokens)

    # --- rows ---

    async def put_rows(self, versions: Sequence[NewVersion], average_length: float) -> None:
        rows = [(version, row) for version in versions for row in version.rows]
        for part in grouped(rows, at_most(_PIECE_DOCUMENTS), (lambda item: _size(item[1]), _PIECE_BYTES)):
            documents = await asyncio.to_thread(_chunks, part)
            await self._table.insert_many(documents, ordered=False)
        for group in grouped(versions, (lambda version: len(version.rows), _PAGE)):
            await self._until_found(group)

    async def _until_found(self, versions: Sequence[NewVersion]) -> None:
        """Raises: StoreUnavailableError: search does not find all rows after `index_timeout_s`."""
        rows = [row for version in versions for row in version.rows]
        indexed = sum(bool(len(row.vector)) and (not self._is_cosine or bool(row.vector.any())) for row in rows)
        ids = [version.version for version in versions]
        anything = np.eye(1, max(self.info.dimensions, 1), dtype=np.float32)[0]
        options = self._connection.options
        vectors = self._vector_stage(anything, indexed, {"version": {"$in": ids}}, exact=True)
        texts = {"$search": {"index": options.text_index, "in": {"path": "version", "value": ids}}}

        async def found() -> bool:
            in_vectors = not indexed or await self._count(vectors, indexed) == indexed
            if in_vectors and await self._count(texts, len(rows)) == len(rows):
                return True
            # Another writer has won and removed them: the swap will tell.
            return bool(await self._table.count_documents({"version": {"$in": ids}, **_CHUNK}) < len(rows))

        if not await self._connection.wait_until(found):
            raise StoreUnavailableError(
                f"the search indexes of collection {self.info.name!r} in MongoDB at {options.where} do not have what "
                f"was written after index_timeout_s={options.index_timeout_s:g}, so nothing was changed; look at the "
                "state of the indexes, or raise index_timeout_s"
            )

    async def _count(self, stage: Document, limit: int) -> int:
        pipeline = [stage, {"$limit": limit}, {"$group": {"_id": None, "n": {"$sum": 1}}}]
        rows = await self._connection.rows(self._name, pipeline)
        return int(rows[0]["n"]) if rows else 0

    async def delete_rows(self, versions: Mapping[str, Runs | None]) -> None:
        for part in slices(list(versions), _PAGE):
            await self._table.delete_many({"version": {"$in": list(part)}, **_CHUNK})

    async def get_rows(self, rows: Sequence[RowId], *, vectors: bool) -> dict[RowId, Row]:
        found: dict[RowId, Row] = {}
        for part in slices(rows, _PAGE):
            query = {"_id": {"$in": list(map(_row_id, part))}}
            async for one in self._table.find(query, {"chunk": 1, **({"vector": 1} if vectors else {})}):
                vector = vector_of(one["vector"]).tolist() if "vector" in one else []
                found[_row(one)] = Row(one["chunk"], vector)
        return found

    # --- heads ---

    async def put_heads(self, puts: Sequence[Put]) -> set[str]:
        """The server says how many were written, not which."""
        pymongo = self._connection.pymongo
        writes = [
            pymongo.InsertOne(_head(put.head))
            if put.before is None
            else pymongo.ReplaceOne({"_id": put.head.id, "revision": put.before.revision}, _head(put.head))
            for put in puts
        ]
        try:
            done = await self._table.bulk_write(writes, ordered=False)
        except self._connection.bulk_error as error:
            if any(one.get("code") != _DUPLICATE for one in error.details.get("writeErrors", ())):
                raise
            return {put.head.id for put in puts}
        return set() if done.inserted_count + done.matched_count == len(puts) else {put.head.id for put in puts}

    async def get_heads(self, heads: Collection[str]) -> dict[str, Head]:
        return {one["_id"]: Head.of_body(one["body"]) for one in await self._by_id(heads, {"body": 1})}

    async def current(self, heads: Collection[str]) -> dict[str, Current]:
        fields = {"kind": 1, "version": 1, "scope": 1, "document_id": 1, "written_at": 1}
        return {
            one["_id"]: Current((one["scope"], one["document_id"]), one["version"], one["written_at"])
            for one in await self._by_id(heads, fields)
            if one["kind"] == "head"
        }

    async def heads_where(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Head]:
        chosen = [] if document_ids is None else [{"document_id": {"$in": list(document_ids)}}]
        found = self._table.find(where(metadata_filter, _HEAD, *chosen), {"body": 1})
        return [Head.of_body(one["body"]) async for one in found]

    async def delete_tombstones(self, before: float) -> None:
        await self._table.delete_many({"kind": "gone", "written_at": {"$lt": before}})

    async def settle(self) -> None:
        """Reads of documents show every write; of search indexes, `put_rows` waits for what it wrote."""

    async def _by_id(self, ids: Collection[str], fields: Document) -> list[Document]:
        return [
            one
            for part in slices(list(ids), _PAGE)
            async for one in self._table.find({"_id": {"$in": list(part)}}, fields)
        ]

    # --- search ---

    async def search(self, questions: Sequence[Question], *, without: Collection[str], texts: bool) -> list[list[Hit]]:
        fields = {"chunk": 1} if texts else {}
        works = (self._answer(question, without, fields) for question in questions)
        return await side_by_side(works, _AT_ONCE)

    async def _answer(self, question: Question, without: Collection[str], fields: Document) -> list[Hit]:
        match question:
            case NearestTo():
                return await self._nearest(question, without, fields)
            case Matching():
                return await self._matching(question, without, fields)
            case Among(vector, rows):
                found = await self._by_id(list(map(_row_id, rows)), {"vector": 1})
                return _compared(self.info.distance, vector, found)

    async def _nearest(self, question: NearestTo, without: Collection[str], fields: Document) -> list[Hit]:
        vector, limit = question.vector, question.limit
        if self._is_cosine and not vector.any():
            return await self._zeros(question, without, fields, _CHUNK)
        matching = where(question.metadata_filter, without=without)
        value = {"score": {"$meta": "vectorSearchScore"}} if self._is_cosine else {"vector": 1}
        indexed = {**_CHUNK, "zero": False} if self._is_cosine else _CHUNK
        count = limit + 16
        while True:
            stage = self._vector_stage(vector, count, matching)
            rows = await self._connection.rows(self._name, [stage, {"$project": {**fields, **value}}])
            if len(rows) < count and await self._lacks(len(rows), question, without, indexed):
                wanted = where(question.metadata_filter, indexed, without=without)
                rows = [one async for one in self._table.find(wanted, {**fields, "vector": 1}).limit(2 * _MAX_SCAN)]
                hits = _compared(self.info.distance, vector, rows)
                break
            if self._is_cosine:
                hits = [_hit(one, min(1.0, max(-1.0, 2 * one["score"] - 1))) for one in rows]
            else:
                hits = _compared(self.info.distance, vector, rows)
            if len(rows) < count or hits[-1].score < hits[limit - 1].score:
                break
            count *= 8
        if self._is_cosine and (len(hits) < limit or hits[limit - 1].score <= 0):
            hits += await self._zeros(question, without, fields, {**_CHUNK, "zero": True})
        return sorted(hits, key=lambda hit: -hit.score)

    def _vector_stage(self, vector: Any, count: int, matching: Document, *, exact: bool = False) -> Document:
        options = self._connection.options
        candidates = max(count, min(_MAX_CANDIDATES, max(options.num_candidates, 20 * count)))
        exact = exact or candidates > _MAX_CANDIDATES
        return {
            "$vectorSearch": {
                "index": options.vector_index,
                "path": "vector",
                "queryVector": binary_vector(vector),
                "limit": max(count, 1),
                "filter": matching,
                **({"exact": True} if exact else {"numCandidates": candidates}),
            }
        }

    async def _lacks(
        self, rows: int, question: NearestTo | Matching, without: Collection[str], which: Document
    ) -> bool:
        """Whether an index gives fewer rows than match; not for more than can be compared here."""
        query = where(question.metadata_filter, which, without=without)
        there = int(await self._table.count_documents(query, limit=rows + _MAX_SCAN + 1))
        return rows < there <= rows + _MAX_SCAN

    async def _zeros(
        self, question: NearestTo, without: Collection[str], fields: Document, which: Document
    ) -> list[Hit]:
        """Chunks without a direction, which a cosine index does not have: they score 0."""
        wanted = where(question.metadata_filter, which, without=without)
        order = [("scope", 1), ("document_id", 1), ("index", 1)]
        found = self._table.find(wanted, {**fields, "_id": 1}, sort=order, limit=question.limit)
        return [_hit(one, 0.0) async for one in found]

    async def _matching(self, question: Matching, without: Collection[str], fields: Document) -> list[Hit]:
        """The index's own scores only choose the candidates."""
        words = [
            {"text": {"query": word, "path": "text", "score": {"boost": {"value": question.asked[word]}}}}
            for word in question.weights
        ]
        compound: Document = {"should": words, "minimumShouldMatch": 1}
        if clauses := search_clauses(question.metadata_filter, without=without):
            compound["filter"] = clauses
        stage = {"$search": {"index": self._connection.options.text_index, "compound": compound}}
        project = {**fields, "text": 1, "score": {"$meta": "searchScore"}}
        count = 2 * question.limit + 50
        while True:
            rows = await self._connection.rows(self._name, [stage, {"$limit": count}, {"$project": project}])
            if len(rows) < count:
                has_words = {**_CHUNK, "words": {"$in": list(question.weights)}}
                if await self._lacks(len(rows), question, without, has_words):
                    wanted = where(question.metadata_filter, has_words, without=without)
                    rows = [one async for one in self._table.find(wanted, {**fields, "text": 1})]
                break
            if rows[-1]["score"] < _ROUGHLY * rows[question.limit - 1]["score"] or count >= _MAX_CANDIDATES:
                break
            count *= 4

        def score(one: Document) -> float:
            counted = Counter(one["text"].split())
            return bm25(counted, counted.total(), question.weights, question.average_length)

        hits = [_hit(one, score(one)) for one in rows]
        return sorted((hit for hit in hits if hit.score > 0), key=lambda hit: -hit.score)

    # --- counting ---

    async def document_frequencies(self, terms: Sequence[str], *, without: Collection[str]) -> dict[str, int]:
        counts = (self._table.count_documents(where(None, {"words": term}, without=without)) for term in terms)
        return dict(zip(terms, await side_by_side(counts, _AT_ONCE), strict=True))

    async def totals(self) -> tuple[Totals, Totals]:
        sums = {"_id": "$kind", **{name: {"$sum": f"${name}"} for name in ("count", "indexed", "length")}}
        rows = await self._connection.rows(
            self._name, [{"$match": {"kind": {"$in": ["head", "chunk"]}}}, {"$group": sums}]
        )
        found = {one["_id"]: Totals(one["count"], one["indexed"], one["length"]) for one in rows}
        return found.get("head", Totals(0, 0, 0)), found.get("chunk", Totals(0, 0, 0))

    async def tally(self, metadata_filter: FilterLike | None, heads: Collection[str] | None = None) -> dict[str, int]:
        more = [] if heads is None else [{"head": {"$in": list(heads)}}]
        by_version = {"$group": {"_id": "$version", "n": {"$sum": 1}}}
        rows = await self._connection.rows(self._name, [{"$match": where(metadata_filter, _CHUNK, *more)}, by_version])
        return {one["_id"]: one["n"] for one in rows}

    async def named(self) -> set[str]:
        rows = await self._connection.rows(self._name, [{"$match": _HEAD}, {"$group": {"_id": "$version"}}])
        return {one["_id"] for one in rows}


def _row_id(row: RowId) -> str:
    return f"{row.version}:{row.index}"


def _row(stored: Document) -> RowId:
    version, _, index = stored["_id"].rpartition(":")
    return RowId(version, int(index))


def _hit(stored: Document, score: float) -> Hit:
    return Hit(_row(stored), score, stored.get("chunk"))


def _compared(distance: str, vector: Any, rows: Sequence[Document]) -> list[Hit]:
    scores = similarities(distance, vector, matrix_of([one["vector"] for one in rows]))
    hits = [_hit(one, float(score)) for one, score in zip(rows, scores, strict=True)]
    return sorted(hits, key=lambda hit: -hit.score)


def _size(row: NewRow) -> int:
    """About what it takes in a message, in bytes."""
    return 500 + 3 * len(row.chunk) + 24 * len(row.terms) + 4 * len(row.vector)


def _chunks(rows: Sequence[tuple[NewVersion, NewRow]]) -> list[Document]:
    return [_chunk(version, row) for version, row in rows]


def _chunk(version: NewVersion, row: NewRow) -> Document:
    document: Document = {
        "_id": _row_id(RowId(version.version, row.index)),
        "kind": "chunk",
        "version": version.version,
        "head": head_of(version.version),
        "scope": version.name[0],
        "document_id": version.name[1],
        "index": row.index,
        "count": 1,
        "indexed": int(bool(row.terms)),
        "length": len(row.terms),
        "words": list(dict.fromkeys(row.terms)),
        "text": " ".join(map(str, row.terms)),
        "tokens": tokens_of(row.metadata),
        "zero": not row.vector.any(),
        "chunk": row.chunk,
    }
    if len(row.vector):
        document["vector"] = binary_vector(row.vector)
    return document


def _head(head: Head) -> Document:
    document: Document = {
        "_id": head.id,
        "kind": "gone",
        "revision": head.revision,
        "body": head.body(),
        "written_at": head.written_at,
    }
    if head.summary is not None:
        document |= {
            "kind": "head",
            "version": head.version,
            "scope": head.name[0],
            "document_id": head.name[1],
            "tokens": tokens_of(head.summary.metadata),
            "count": head.count,
            "indexed": head.indexed,
            "length": head.tokens,
        }
    return document
