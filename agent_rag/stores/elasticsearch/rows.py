"""An Elasticsearch index: the primitives of documents as versions.

::

    info                  {k: "info", c: <CollectionInfo as JSON>}
    <id of the head>      {k: "head", g, o, d, x, c: <Head>, n, l, w, at}, or {k: "gone", c, at} of a deleted document
    <version>:<index>     {k: "chunk", g, h, s, e, i, t: <tokens>, w, v: <vector>, z, c: <Chunk>, x}

The mapping has a fixed number of fields, whatever the metadata are: `x` has tokens, numbers among them, so that no
filter needs what ``search.allow_expensive_queries: false`` forbids (ranges of texts, nested documents). Vectors are
scaled to length 1 here: the server refuses what is too short or too long for it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic_core import to_json

from ...errors import LimitExceededError
from ...filters import FilterLike
from ..engine.filter_tokens import Both, Condition, Either, Has, condition_of, tokens_of
from ..engine.records import Vector
from ..engine.words import indexed_words
from ..versions.exact_scores import bm25
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
from .client import CONFLICT, Action, Connection, Document

KIND, VERSION, HEAD, NAME, DOCUMENT, CONTENT, WRITTEN = "k", "g", "h", "o", "d", "c", "at"
SCOPE, DOCUMENT_TEXT, INDEX = "s", "e", "i"
"""On chunks, for the order of equal scores."""
TEXT, VECTOR, TOKENS, ZERO, COUNT, INDEXED, LENGTH = "t", "v", "x", "z", "n", "l", "w"

MAX_LIMIT = 10_000
_TERMS = 65_536
"""Values of one terms query."""
_PAGE = 1_000
_TEXTS = 200
"""A page of texts is parsed in the event loop."""
_ORDERED = 8_000
"""Characters of a document id that sorting sees."""

_IS_CHUNK, _IS_HEAD = {"term": {KIND: "chunk"}}, {"term": {KIND: "head"}}


def mappings(info: StoredInfo) -> Document:
    ordered = {"type": "keyword", "index": False, "ignore_above": _ORDERED}
    keyword, number, not_indexed = {"type": "keyword"}, {"type": "long"}, {"type": "object", "enabled": False}
    fields: Document = {
        **dict.fromkeys((KIND, VERSION, HEAD, DOCUMENT, TOKENS), keyword),
        **dict.fromkeys((SCOPE, DOCUMENT_TEXT), ordered),
        **dict.fromkeys((INDEX, COUNT, INDEXED, LENGTH, WRITTEN), number),
        **dict.fromkeys((CONTENT, NAME), not_indexed),
        ZERO: {"type": "boolean"},
        TEXT: {"type": "text", "analyzer": "whitespace", "similarity": "agent_rag", "index_options": "freqs"},
    }
    if info.dimensions:
        fields[VECTOR] = {
            "type": "dense_vector",
            "dims": info.dimensions,
            "index": True,
            "similarity": "cosine",
            # Not the default, which keeps 8 bits or 1 bit of a number: scores would be off by some percent.
            "index_options": {"type": "hnsw", "m": 16, "ef_construction": 200},
        }
    return {"dynamic": "strict", "properties": fields}


class Rows:
    """One collection."""

    guarded = True
    clocks_s = CLOCKS_S

    def __init__(self, connection: Connection, index: str, info: StoredInfo) -> None:
        self.info = info
        self._connection = connection
        self._index = index
        self._refresh = connection.options.refresh

    def terms(self, tokens: Iterable[str]) -> list[str]:
        return indexed_words(tokens)

    # --- rows ---

    async def put_rows(self, versions: Sequence[NewVersion], average_length: float) -> None:
        actions = await asyncio.to_thread(
            lambda: [
                Action.index(_row_id(RowId(version.version, row.index)), _chunk_source(version, row))
                for version in versions
                for row in version.rows
            ]
        )
        # Chunks are visible before a head names them, whatever `refresh` says.
        await self._connection.bulk(self._index, actions, refresh=self._refresh or "wait_for")

    async def delete_rows(self, versions: Mapping[str, Runs | None]) -> None:
        known = [
            _row_id(RowId(version, index))
            for version, runs in versions.items()
            for start, stop in runs or ()
            for index in range(start, stop)
        ]
        await self._connection.bulk(self._index, list(map(Action.delete, known)))
        strays = [version for version, runs in versions.items() if runs is None]
        for part in slices(strays, _PAGE):
            where = _bool([_IS_CHUNK, {"terms": {VERSION: list(part)}}])
            while found := [hit["_id"] for hit in await self._search(query=where, size=MAX_LIMIT, source=False)]:
                await self._connection.bulk(self._index, list(map(Action.delete, found)), refresh=True)

    async def get_rows(self, rows: Sequence[RowId], *, vectors: bool) -> dict[RowId, Row]:
        ids = {_row_id(row): row for row in rows}
        if not vectors or not self.info.dimensions:
            found = await self._connection.get(self._index, list(ids), [CONTENT], page=_TEXTS)
            return {ids[one["_id"]]: Row(one["_source"][CONTENT], []) for one in found}
        # A search can give vectors, which `_source` leaves out since 9.2.
        pages = (
            self._search(query={"ids": {"values": list(part)}}, size=len(part), source=[CONTENT], fields=[VECTOR])
            for part in slices(list(ids), _TEXTS)
        )
        zeros = [0.0] * self.info.dimensions
        return {
            ids[hit["_id"]]: Row(hit["_source"][CONTENT], list(hit.get("fields", {}).get(VECTOR, zeros)))
            for hits in await side_by_side(pages, 4)
            for hit in hits
        }

    # --- heads ---

    async def put_heads(self, puts: Sequence[Put]) -> set[str]:
        actions = [
            Action.create(put.head.id, _head_source(put.head))
            if put.before is None
            else Action.index_over(put.head.id, _head_source(put.head), put.before.guard)
            for put in puts
        ]
        statuses = await self._connection.bulk(self._index, actions)
        return {put.head.id for put, status in zip(puts, statuses, strict=True) if status == CONFLICT}

    async def get_heads(self, heads: Collection[str]) -> dict[str, Head]:
        found = await self._connection.get(self._index, list(heads), [CONTENT])
        return {
            one["_id"]: Head.of_body(one["_source"][CONTENT], (one["_seq_no"], one["_primary_term"])) for one in found
        }

    async def current(self, heads: Collection[str]) -> dict[str, Current]:
        found = await self._connection.get(self._index, list(heads), [VERSION, NAME, WRITTEN])
        sources = {one["_id"]: one["_source"] for one in found if VERSION in one["_source"]}
        return {
            head: Current(tuple(one[NAME]["n"]), one[VERSION], one[WRITTEN] / 1000) for head, one in sources.items()
        }

    async def heads_where(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Head]:
        more = [] if document_ids is None else [_terms(DOCUMENT, list(map(_digest, document_ids)))]
        where = _filtered(metadata_filter, _IS_HEAD, *more)
        hits = self._connection.scan(self._index, where, [CONTENT])
        return [Head.of_body(hit["_source"][CONTENT]) async for hit in hits]

    async def delete_tombstones(self, before: float) -> None:
        where = _bool([{"term": {KIND: "gone"}}, {"range": {WRITTEN: {"lt": int(before * 1000)}}}])
        found = [hit["_id"] async for hit in self._connection.scan(self._index, where, False)]
        await self._connection.bulk(self._index, list(map(Action.delete, found)))

    async def settle(self) -> None:
        if self._refresh:
            await self._connection.client.indices.refresh(index=self._index)

    # --- search ---

    async def search(self, questions: Sequence[Question], *, without: Collection[str], texts: bool) -> list[list[Hit]]:
        asked = [_Asked(question, without, self._candidates, texts=texts) for question in questions]
        while pending := [one for one in asked if one.hits is None]:
            answers = await self._connection.msearch(self._index, [(one.how, one.body()) for one in pending])
            for one, answer in zip(pending, answers, strict=True):
                one.take(answer["hits"]["hits"])
        return [one.hits or [] for one in asked]

    @property
    def _candidates(self) -> int:
        return self._connection.options.num_candidates

    # --- counting ---

    async def document_frequencies(self, terms: Sequence[str], *, without: Collection[str]) -> dict[str, int]:
        where = _bool([_IS_CHUNK], _without(without))
        counted: dict[str, int] = {}
        for part in slices(terms, _PAGE):
            filters = {str(place): {"term": {TEXT: term}} for place, term in enumerate(part)}
            found = await self._aggregate(where, {"terms": {"filters": {"filters": filters}}})
            buckets = found["terms"]["buckets"]
            counted |= {term: buckets[str(place)]["doc_count"] for place, term in enumerate(part)}
        return counted

    async def totals(self) -> tuple[Totals, Totals]:
        sums = {name: {"sum": {"field": name}} for name in (COUNT, INDEXED, LENGTH)}
        asked = {
            "heads": {"filter": _IS_HEAD, "aggs": sums},
            "rows": {
                "filter": _IS_CHUNK,
                "aggs": {LENGTH: sums[LENGTH], INDEXED: {"filter": {"range": {LENGTH: {"gt": 0}}}}},
            },
        }
        found = await self._aggregate({"match_all": {}}, asked)
        heads, rows = found["heads"], found["rows"]
        return (
            Totals(*(int(heads[name]["value"]) for name in (COUNT, INDEXED, LENGTH))),
            Totals(rows["doc_count"], rows[INDEXED]["doc_count"], int(rows[LENGTH]["value"])),
        )

    async def tally(self, metadata_filter: FilterLike | None, heads: Collection[str] | None = None) -> dict[str, int]:
        more = [] if heads is None else [_terms(HEAD, list(heads))]
        return await self._by_version(_filtered(metadata_filter, _IS_CHUNK, *more))

    async def named(self) -> set[str]:
        return set(await self._by_version(_IS_HEAD))

    async def _by_version(self, where: Document) -> dict[str, int]:
        counted: dict[str, int] = {}
        after: Document = {}
        while True:
            composite = {"size": MAX_LIMIT, "sources": [{VERSION: {"terms": {"field": VERSION}}}], **after}
            found = (await self._aggregate(where, {"versions": {"composite": composite}}))["versions"]
            counted |= {bucket["key"][VERSION]: bucket["doc_count"] for bucket in found["buckets"]}
            if len(found["buckets"]) < MAX_LIMIT:
                return counted
            after = {"after": found["after_key"]}

    # --- requests ---

    async def _search(self, **body: Any) -> list[Document]:
        answer = await self._connection.client.search(
            index=self._index, allow_partial_search_results=False, track_total_hits=False, **body
        )
        return list(answer["hits"]["hits"])

    async def _aggregate(self, where: Document, aggregations: Document) -> Document:
        answer = await self._connection.client.search(
            index=self._index, allow_partial_search_results=False, query=where, size=0, aggs=aggregations
        )
        found: Document = answer["aggregations"]
        return found


class _Asked:
    """One question, asked for more hits while the last of them ties with the one at the limit."""

    def __init__(self, question: Question, without: Collection[str], candidates: int, *, texts: bool) -> None:
        self.hits: list[Hit] | None = None
        self._question = question
        self._without = without
        self._candidates = candidates
        self._source = [VERSION, INDEX, *([CONTENT] if texts else [])]
        self._found: list[Hit] = []
        match question:
            case NearestTo(vector, limit, _):
                self._limit, self._spare = limit, 16 if texts else 32
                self._rest = not vector.any()
            case Among(vector, rows):
                self._limit, self._spare, self._rest = len(rows), 0, False
                if not rows or not vector.any():
                    self.hits = [Hit(row, 0.0) for row in rows]
            case Matching(_, _, _, limit, _):
                self._limit, self._spare, self._rest = limit, limit + 50, False
        if self._limit > MAX_LIMIT:
            raise LimitExceededError(
                f"{self._limit:,} hits are more than the {MAX_LIMIT:,} that Elasticsearch gives to one search; ask for "
                "fewer, or read everything with iterate"
            )

    @property
    def how(self) -> Document:
        """Words are weighed by the statistics of all shards."""
        return {"search_type": "dfs_query_then_fetch"} if isinstance(self._question, Matching) else {}

    @property
    def _count(self) -> int:
        return min(self._limit + self._spare, MAX_LIMIT)

    def body(self) -> Document:
        match self._question:
            case NearestTo() if self._rest:
                return self._in_order(self._question)
            case NearestTo(vector, _, metadata_filter):
                where = _filtered(metadata_filter, _IS_CHUNK, without=self._without)
                return self._knn(vector, where, max(self._candidates, 2 * self._count))
            case Among(vector, rows):
                return self._knn(vector, {"ids": {"values": list(map(_row_id, rows))}}, self._count)
            case Matching(weights, asked, _, _, metadata_filter):
                where = _filtered(metadata_filter, _IS_CHUNK, without=self._without)
                terms = [{"term": {TEXT: {"value": term, "boost": asked[term]}}} for term in weights]
                query = {"bool": {"should": terms, "minimum_should_match": 1, "filter": [where]}}
                return {"query": query, "size": self._count, "_source": [*self._source, TEXT]}

    def take(self, hits: Sequence[Document]) -> None:
        """The answer to `body`."""
        match self._question:
            case Among(_, rows):
                found = {_row(hit): _cosine(hit) for hit in hits}
                self.hits = [Hit(row, found.get(row, 0.0)) for row in rows]  # zero vectors are in no index
            case Matching() as matching:
                if self._is_enough(hits):
                    self.hits = sorted((self._scored(hit, matching) for hit in hits), key=lambda hit: -hit.score)
            case NearestTo() if self._rest:
                self.hits = [*self._found, *(self._hit(hit, 0.0) for hit in hits)]
            case NearestTo():
                if not self._is_enough(hits):
                    return
                self._found = [self._hit(hit, _cosine(hit)) for hit in hits]
                if len(hits) < self._limit or self._found[self._limit - 1].score <= 0:
                    self._rest = True
                else:
                    self.hits = self._found

    def _is_enough(self, hits: Sequence[Document]) -> bool:
        if len(hits) < self._count or self._count == MAX_LIMIT or hits[-1]["_score"] < hits[self._limit - 1]["_score"]:
            return True
        self._spare = 8 * (self._limit + self._spare)
        return False

    def _knn(self, vector: Vector, where: Document, candidates: int) -> Document:
        knn = {
            "field": VECTOR,
            "query_vector": _unit(vector).tolist(),
            "k": self._count,
            "num_candidates": min(candidates, MAX_LIMIT),
            "filter": where,
        }
        return {"knn": knn, "size": self._count, "_source": self._source}

    def _in_order(self, question: NearestTo) -> Document:
        """Chunks that score 0, by key: all for a query of zeros, else those whose vector is."""
        zero = [{"term": {ZERO: True}}] if question.vector.any() else []
        where = _filtered(question.metadata_filter, _IS_CHUNK, *zero, without=self._without)
        order = [{name: "asc"} for name in (SCOPE, DOCUMENT_TEXT, INDEX)]
        return {"query": where, "size": self._limit, "sort": order, "_source": self._source}

    def _hit(self, hit: Document, score: float) -> Hit:
        return Hit(_row(hit), score, hit["_source"].get(CONTENT))

    def _scored(self, hit: Document, question: Matching) -> Hit:
        """The server keeps a length in one byte and has statistics per shard, so that its score is rough."""
        words = Counter(hit["_source"][TEXT].split())
        return self._hit(hit, bm25(words, words.total(), question.weights, question.average_length))


# --- conditions ---


def _bool(must: Sequence[Document], must_not: Sequence[Document] = ()) -> Document:
    return {"bool": {"filter": list(must), **({"must_not": list(must_not)} if must_not else {})}}


def _without(versions: Collection[str]) -> list[Document]:
    return [{"terms": {VERSION: sorted(versions)}}] if versions else []


def _filtered(metadata_filter: FilterLike | None, *more: Document, without: Collection[str] = ()) -> Document:
    condition = condition_of(metadata_filter)
    return _bool([*more, *([] if condition is None else [_query(condition)])], _without(without))


def _query(condition: Condition) -> Document:
    match condition:
        case Both(parts):
            return _bool(list(map(_query, parts)))
        case Either(parts):
            return {"bool": {"should": list(map(_query, parts)), "minimum_should_match": 1}}
        case Has(tokens):
            return _terms(TOKENS, tokens)
        case _:
            return _bool([], [_terms(TOKENS, condition.tokens)])


def _terms(field: str, values: Sequence[str]) -> Document:
    parts = [{"terms": {field: list(part)}} for part in slices(values, _TERMS)]
    if len(parts) == 1:
        return parts[0]
    return {"bool": {"should": parts, "minimum_should_match": 1}} if parts else {"match_none": {}}


# --- documents ---


def _row_id(row: RowId) -> str:
    return f"{row.version}:{row.index}"


def _row(hit: Document) -> RowId:
    version, _, index = hit["_id"].rpartition(":")
    return RowId(version, int(index))


def _digest(document_id: str) -> str:
    """An id may be longer than a term."""
    return hashlib.sha256(document_id.encode()).hexdigest()


def _cosine(hit: Document) -> float:
    return min(1.0, max(-1.0, 2.0 * float(hit["_score"]) - 1.0))


def _unit(vector: Vector) -> Vector:
    exact = vector.astype(np.float64)
    size = float(np.sqrt((exact**2).sum()))
    unit: Vector = (exact / size).astype(np.float32)
    return unit


def _chunk_source(version: NewVersion, row: NewRow) -> bytes:
    source: Document = {
        KIND: "chunk",
        VERSION: version.version,
        HEAD: head_of(version.version),
        SCOPE: version.name[0],
        DOCUMENT_TEXT: version.name[1],
        INDEX: row.index,
        LENGTH: len(row.terms),
        CONTENT: row.chunk,
        TOKENS: tokens_of(row.metadata),
    }
    if row.terms:
        source[TEXT] = " ".join(map(str, row.terms))
    if row.vector.any():
        source[VECTOR] = _unit(row.vector).tolist()
    elif len(row.vector):
        source[ZERO] = True
    return to_json(source)


def _head_source(head: Head) -> bytes:
    source: Document = {KIND: "gone", CONTENT: head.body(), WRITTEN: int(head.written_at * 1000)}
    if head.summary is not None:
        source |= {
            KIND: "head",
            VERSION: head.version,
            NAME: {"n": head.name},
            DOCUMENT: _digest(head.name[1]),
            TOKENS: tokens_of(head.summary.metadata),
            COUNT: head.count,
            INDEXED: head.indexed,
            LENGTH: head.tokens,
        }
    return to_json(source)
