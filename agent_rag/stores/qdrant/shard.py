"""One collection on the embedded engine: a qdrant-edge shard, used by one thread at a time.

A chunk's point id is its document's number and its index; the number is new with each version of a document. The
head, written in the same operation as the last chunks, names the number that counts, so one record of the write-ahead
log publishes a version. While a version takes several operations its number is hidden from reads. After a crash,
opening removes the version that was being written and those that a head says it took the place of.
"""

from __future__ import annotations

import contextlib
import json
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...errors import ConfigurationError, StoreDamagedError
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ...retrieval.coverage import seen_share
from ...retrieval.lexical import idf, term_id
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Seen, Step
from ..engine.driver import all_from, best, cut_ties, run_steps
from ..engine.payload import CHUNK, TOKENS, parse_chunk, range_keys, translate
from ..engine.records import query_vector, without_keyword
from ..engine.sparse import Postings, by_term_id, decode, of_terms
from ..versions.heads import INDEX_BITS, MAX_INDEX, Head, Name
from .edge_schema import CollectionFile, EdgeDialect
from .edge_table import Table
from .room import has_room
from .schema import DENSE, HEAD, KIND, SPARSE, SUMMARY, score_of

NUMBER = "g"
BEFORE = "before"
"""On a head: the number of the version that it took the place of."""
PAGE = 1_000
# Recall of the graph that `optimize` builds, at 100k chunks: .893 with the engine's default, .953 with 512.
_SEARCH_WIDTH = 512
_ROUNDING = 1e-5
"""Of scores in 32-bit floats."""


class Shard:
    """Reads of one collection, and what its `ShardWriter` needs."""

    def __init__(self, edge: ModuleType, folder: Path, info: CollectionFile) -> None:
        """Raises: StoreDamagedError: chunks are missing."""
        self.edge = edge
        self.folder = folder
        self.info = info
        self.hidden: set[int] = set()
        """Numbers with points that do not count."""
        self.dialect = EdgeDialect(edge)
        self._is_head = edge.FieldCondition(KIND, match=edge.MatchValue(HEAD))
        self.reopen()

    @classmethod
    def create(cls, edge: ModuleType, folder: Path, info: CollectionFile) -> None:
        """Make the files of an empty collection."""
        dense = edge.EdgeVectorParams(info.dimensions, getattr(edge.Distance, info.distance))
        sparse = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
        shard = edge.EdgeShard.create(
            str(folder / "shard"),
            edge.EdgeConfig(
                vectors={DENSE: dense} if info.dimensions else {},
                sparse_vectors={SPARSE: sparse} if info.keyword else {},
            ),
        )
        update = edge.UpdateOperation
        for field in (TOKENS, KIND):
            shard.update(update.create_field_index(field, edge.KeywordIndexParams()))
        shard.update(update.create_field_index(NUMBER, edge.IntegerIndexParams(lookup=True, range=False)))
        shard.flush()
        shard.close()
        info.save(folder)

    def close(self) -> None:
        """Write everything down and release the files."""
        self.engine.close()
        if self.info.chunk_count is None and not self.hidden:
            self.info.chunk_count = self.table.chunks
            self.info.save(self.folder)

    def changing(self) -> None:
        """Called before a write: from now on a crash leaves something to clear up."""
        if self.info.chunk_count is not None:
            self.info.chunk_count = None
            self.info.save(self.folder)

    def update(self, operation: Any) -> None:
        """Change points."""
        self._frequencies: dict[int, int] = {}
        self.engine.update(operation)

    # --- opening ---

    def reopen(self) -> None:
        """Load the files, also again after another process moved the points about."""
        shard = self.folder / "shard"
        if not shard.is_dir():
            raise self._damaged("its folder 'shard' is missing")
        if self.info.chunk_count is not None and not all(map(_is_whole, (shard / "segments").glob("*/"))):
            raise self._damaged("a segment lacks its version.info")
        self.table = Table()
        self._frequencies = {}
        try:
            self.engine = self.edge.EdgeShard.load(str(shard))
        except Exception as error:
            if "WouldBlock" in str(error):
                raise
            raise self._damaged(f"qdrant-edge cannot load it ({error})") from error
        try:
            self._read_heads()
        except BaseException:
            self.engine.close()
            raise

    def _read_heads(self) -> None:
        self._indexed_fields = set(self.engine.info().payload_schema)
        replaced = set()
        for record in self._scroll(self.edge.Filter(must=[self._is_head]), ["s", "d", BEFORE, *Head.FIELDS]):
            with self._written():
                self.table.put((record.payload["s"], record.payload["d"]), Head.of_payload(record.payload))
                replaced.add(record.payload.get(BEFORE))
        if self.info.chunk_count is None:
            self._clear_up(replaced)
            return
        documents = len(self.table.heads)
        points = self.engine.info().points_count - documents
        if not self.table.chunks == points == self.info.chunk_count:
            raise self._damaged(
                f"it holds {points} chunks and {documents} documents with {self.table.chunks}, and was closed with "
                f"{self.info.chunk_count}"
            )

    def _clear_up(self, replaced: set[int | None]) -> None:
        """Remove what a crash left.

        Args:
            replaced: Numbers that heads took the place of.
        """
        held = Counter(record.id >> INDEX_BITS for record in self._scroll(None, False) if isinstance(record.id, int))
        incomplete = [name for name, head in self.table.heads.items() if held[head.number] != head.count]
        newest = max(self.table.names, default=0)
        left = held.keys() - self.table.names.keys()
        if incomplete or any(number < newest and number not in replaced for number in left):
            names = [name[1] for name in sorted(incomplete)[:5]]
            raise self._damaged(f"documents that lack chunks ({names})" if names else "chunks without their document")
        self.table.next_number = max([self.table.next_number, *(number + 1 for number in left)])
        for number in left:
            self.remove_number(number)

    def remove_number(self, number: int) -> None:
        """Drop the points of a version that no head names."""
        wanted = self.edge.FieldCondition(NUMBER, match=self.edge.MatchValue(number))
        self.update(self.edge.UpdateOperation.delete_points_by_filter(self.edge.Filter(must=[wanted])))

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """A point that is read has what was written to it."""
        try:
            yield
        except (KeyError, TypeError, ValidationError) as error:
            raise self._damaged(f"a point lacks what was written to it ({type(error).__name__})") from error

    def _damaged(self, what: str) -> StoreDamagedError:
        return StoreDamagedError(
            f"collection {self.info.name!r} in {self.folder} is damaged: {what}. Restore the folder from a copy, or "
            "delete the collection and ingest it again; the other collections can be used"
        )

    def _scroll(self, condition: Any, payload: Any, vector: Any = False) -> Iterator[Any]:
        offset = None
        while True:
            request = self.edge.ScrollRequest(
                offset=offset, limit=PAGE, filter=condition, with_payload=payload, with_vector=vector
            )
            records, offset = self.engine.scroll(request)
            yield from records
            if offset is None:
                return

    # --- statistics ---

    def postings(self, points: Sequence[int]) -> Postings:
        """Terms of the given points, in their order; all of them exist. Without keyword search they have none."""
        if not self.info.keyword:
            return decode(([], []) for _ in points)
        found: list[tuple[list[int], list[float]]] = []
        for start in range(0, len(points), PAGE):
            records = self.engine.retrieve(list(points[start : start + PAGE]), False, [SPARSE])
            found += [_sparse(record) for record in records]
        return decode(found)

    def frequencies(self, terms: Iterable[int]) -> Mapping[int, int]:
        """Number of chunks by term, of `terms` and others; the engine counts (2 ms a term at 100k chunks)."""
        for term in set(terms) - self._frequencies.keys():
            self._frequencies[term] = self._frequency(term)
        return self._frequencies

    def _frequency(self, term: int) -> int:
        """The engine's idf is the score of the term alone over its weight, and ``idf = ln((N + 1) / (df + .5))``."""
        hits = self._by_words({term: 1.0}, 1, self.condition(None))
        if not hits:
            return 0
        indices, values = _sparse(hits[0])
        rarity = hits[0].score / values[indices.index(term)]
        return round((self.table.indexed + 1) * math.exp(-rarity) - 0.5)

    def _by_words(self, weights: Mapping[int, float], limit: int, condition: Any) -> list[Any]:
        """Points with their sparse vectors, best first by the stored weights and the engine's idf.

        Args:
            weights: Term -> its weight in the query.
        """
        words = self.edge.SparseVector(list(weights), list(weights.values()))
        # A corpus, if only an empty condition: without one the engine counts deleted points.
        corpus = self.edge.IdfParams(corpus=self.condition(None) or self.edge.Filter())
        request = self.edge.QueryRequest(
            limit=limit,
            query=self.edge.Query.Nearest(words, using=SPARSE),
            filter=condition,
            params=self.edge.SearchParams(idf=corpus),
            with_vector=[SPARSE],
        )
        found: list[Any] = self.engine.query(request)
        return found

    # --- searching ---

    def retrieve(self, request: RetrieveRequest) -> list[VectorSearchResult]:
        if request.texts and not self.info.keyword:
            raise without_keyword(self.info.name)
        if request.texts and not self.info.has_idf:
            raise ConfigurationError(
                f"collection {self.info.name!r} in {self.folder} was written by an earlier version, without what "
                "keyword search needs now; move it to a new store with 'agent-rag copy', which embeds nothing"
            )
        for vector in request.vectors:
            query_vector(self.info.name, self.info.dimensions, vector)
        return run_steps(request, self._answer)

    def _answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, metadata_filter, keys):
                return self._nearest(vector, limit, metadata_filter, keys)
            case Keyword(_, limit, metadata_filter, weights):
                return self._keyword(weights, limit, metadata_filter)
            case Seen(words):
                terms = set(map(term_id, words))
                return seen_share(terms, self.frequencies(terms), self.table.indexed)
            case Get(keys):
                return self.chunks(keys)

    def _nearest(
        self,
        vector: Sequence[float],
        limit: int,
        metadata_filter: FilterLike | None,
        keys: Sequence[ChunkKey] | None,
    ) -> list[Scored]:
        conditions = []
        if keys is not None:
            points = {point for key in keys if (point := self.table.point_id(key)) is not None}
            conditions = [self.edge.HasIdCondition(points)]
        condition = self.condition(metadata_filter, conditions)
        query = self.edge.Query.Nearest(list(vector), using=DENSE)
        params = self.edge.SearchParams(hnsw_ef=_SEARCH_WIDTH)

        def found(count: int) -> list[tuple[int, float]]:
            request = self.edge.QueryRequest(limit=count, query=query, filter=condition, params=params)
            return [(hit.id, score_of(hit.score, self.info.distance)) for hit in self.engine.query(request)]

        return self._best(cut_ties(found, limit, limit + 1), limit)

    def _keyword(self, weights: Mapping[str, float], limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        asked = by_term_id(weights)
        frequencies, indexed = self.frequencies(asked), self.table.indexed
        asked = {term: weight for term, weight in asked.items() if frequencies[term]}
        query = {term: weight * idf(indexed, frequencies[term]) for term, weight in asked.items()}
        if not query:
            return []
        condition = self.condition(metadata_filter)

        # The engine's weights are those of an earlier average length, at most 20 % off, and a weight is wrong by less
        # than half of that: so the best are among those that score at least so large a share of the last one.
        share = 1 - abs(math.log(self.table.average_length / self.info.weight_average)) - _ROUNDING

        hits = all_from(lambda count: self._by_words(asked, count, condition), limit, share)
        terms = sorted(query)
        scores = decode(of_terms(_sparse(hit), terms) for hit in hits).bm25(query, self.table.average_length)
        exact = [(hit.id, score) for hit, score in zip(hits, scores, strict=True) if score > 0]
        return self._best(exact, limit)

    def _best(self, hits: list[tuple[int, float]], limit: int) -> list[Scored]:
        return best((Scored(self.table.key(point), score) for point, score in hits), limit)

    def condition(self, metadata_filter: FilterLike | None, conditions: Sequence[Any] = ()) -> Any:
        """Filter of all chunks that count; None for all points that have vectors."""
        node = plan(metadata_filter)
        for field in range_keys(node) - self._indexed_fields if has_room(self.folder) else ():
            # Built when first compared: an index costs 10 ms empty and 0.5 s at 100k chunks, and most are never used.
            self.engine.update(self.edge.UpdateOperation.create_field_index(field, self.edge.FloatIndexParams()))
            self._indexed_fields.add(field)
        must = [*conditions, *([] if node is None else [translate(node, self.dialect)])]
        must_not = []
        if self.hidden:
            match = self.edge.MatchAny(sorted(self.hidden))
            must_not.append(self.edge.FieldCondition(NUMBER, match=match))
        return self.dialect.combine(must=must, must_not=must_not) if must or must_not else None

    # --- reading ---

    def chunks(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Chunk]:
        points = {point: key for key in keys if (point := self.table.point_id(key)) is not None}
        records = self.engine.retrieve(list(points), [CHUNK], False)
        with self._written():
            return {points[record.id]: parse_chunk(record.payload[CHUNK]) for record in records}

    def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        points = {point: key for key in keys if (point := self.table.point_id(key)) is not None}
        with_vector = [DENSE] if with_vectors and self.info.dimensions else False
        found: dict[ChunkKey, VectorRecord] = {}
        for record in self.engine.retrieve(list(points), [CHUNK], with_vector):
            key = points[record.id]
            with self._written():
                chunk = parse_chunk(record.payload[CHUNK])
                vector = record.vector[DENSE] if with_vector else []
            if matches(metadata_filter, chunk.metadata):
                found[key] = VectorRecord(vector=vector, document_id=key.document_id, chunk=chunk, scope=key.scope)
        return [found[key] for key in keys if key in found]

    def list_chunks(
        self, document_id: str, offset: int, limit: int, metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        keys = [
            ChunkKey(*name, index)
            for name in self.table.find(document_id)
            for index in self.table.heads[name].indexes(offset, min(offset + limit, MAX_INDEX + 1))
        ]
        return self.fetch(keys, metadata_filter, with_vectors)

    def count(self, metadata_filter: FilterLike | None) -> int:
        if plan(metadata_filter) is None:
            return self.table.chunks
        condition = self.edge.Filter(must=[self.condition(metadata_filter)], must_not=[self._is_head])
        counted: int = self.engine.count(self.edge.CountRequest(filter=condition, exact=True))
        return counted

    def summaries(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[DocumentSummary]:
        """Heads are found by the same tokens as chunks, those of the document's metadata."""
        conditions = [self._is_head]
        if document_ids is not None:
            heads = {head_id(name) for one in document_ids for name in self.table.find(one)}
            conditions.append(self.edge.HasIdCondition(heads))
        condition = self.condition(metadata_filter, conditions)
        records = self._scroll(condition, [SUMMARY])
        with self._written():
            found = [_summary(record) for record in records]
        return sorted(found, key=lambda summary: (summary.scope, summary.document_id))

    def names_matching(self, names: Sequence[Name], metadata_filter: FilterLike | None) -> list[Name]:
        """Those of `names` whose document metadata matches."""
        if plan(metadata_filter) is None or not names:
            return list(names)
        heads = self.engine.retrieve([head_id(name) for name in names], [SUMMARY], False)
        with self._written():
            summaries = [_summary(record) for record in heads]
        kept = {(item.scope, item.document_id) for item in summaries if matches(metadata_filter, item.metadata)}
        return [name for name in names if name in kept]


def _is_whole(segment: Path) -> bool:
    """qdrant-edge 0.9 takes a segment without this file for an unfinished one, and deletes it."""
    return (segment / "version.info").is_file()


def head_id(name: Name) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(["agent_rag", *name]))


def _summary(head: Any) -> DocumentSummary:
    return DocumentSummary.model_validate_json(head.payload[SUMMARY])


def _sparse(record: Any) -> tuple[list[int], list[float]]:
    vector = (record.vector or {}).get(SPARSE)
    return ([], []) if vector is None else (vector.indices, vector.values)
