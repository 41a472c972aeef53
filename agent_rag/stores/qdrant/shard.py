"""One collection on the embedded engine: a qdrant-edge shard, used by one thread at a time.

A chunk's point id is its document's number and its index; the number is new with each version of a document. The
head, written in the same operation as the last chunks, names the number that counts, so one record of the write-ahead
log publishes a version. While a version takes several operations its number is hidden from reads; numbers that no
head names, left by a crash, are removed when the shard is opened.
"""

from __future__ import annotations

import contextlib
import json
import math
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord, VectorSearchResult
from ...filters import FilterLike, matches
from ...filters.plan import plan
from ...retrieval.lexical import idf, term_id, tokenize
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Step
from ..engine.driver import all_from, best, cut_ties, run_steps
from ..engine.payload import CHUNK, TOKENS, parse_chunk, range_keys, translate
from ..engine.records import query_vector, without_keyword
from ..engine.sparse import Postings, decode, of_terms, term_counts
from ..versions.heads import INDEX_BITS, MAX_INDEX, Head, Name, Table
from .edge_schema import CollectionFile, EdgeDialect
from .schema import DENSE, HEAD, KIND, SPARSE, SUMMARY, score_of
from .vector_cache import VectorCache

NUMBER = "g"
PAGE = 1_000
# Recall of the graph that `optimize` builds, at 100k chunks: .893 with the engine's default, .953 with 512.
_SEARCH_WIDTH = 512
_ROUNDING = 1e-5
"""Of scores in 32-bit floats."""
_COUNTED_IDS = 1_000_000
_FAST_NUMBERS, _FAST_LIMIT, _FAST_CANDIDATES, _FAST_DOCUMENTS = 75_000_000, 100, 1_000, 10
# Reading 100k vectors takes 2 s; a program that searches a few times and ends is not worth it.
_CACHE_AFTER = 5


class Shard:
    """Reads of one collection, and what its `ShardWriter` needs."""

    def __init__(self, edge: ModuleType, folder: Path, info: CollectionFile, *, cache_bytes: int) -> None:
        """
        Args:
            cache_bytes: Bound on the vectors that are held in memory as well.
        """
        self.edge = edge
        self.folder = folder
        self.info = info
        self.table = Table()
        self.cache: VectorCache | None = None
        """What is written and deleted is put there and dropped there, too."""
        self._cached_chunks = cache_bytes // (4 * info.dimensions) if info.dimensions else 0
        self._plain_searches = 0
        self.hidden: set[int] = set()
        """Numbers with points that do not count."""
        self.dialect = EdgeDialect(edge)
        self._dirty = folder / "dirty"
        self._is_dirty = False
        self._is_head = edge.FieldCondition(KIND, match=edge.MatchValue(HEAD))
        self.engine = self._load()
        if not self.table.chunks and self._is_cacheable:
            self.cache = VectorCache(info.dimensions, [])

    @classmethod
    def create(cls, edge: ModuleType, folder: Path, info: CollectionFile) -> None:
        """Make the files of an empty collection; collection.json comes last and makes it exist."""
        dense = edge.EdgeVectorParams(info.dimensions, getattr(edge.Distance, info.distance))
        shard = edge.EdgeShard.create(
            str(folder / "shard"),
            edge.EdgeConfig(
                vectors={DENSE: dense} if info.dimensions else {},
                sparse_vectors={SPARSE: edge.EdgeSparseVectorParams()} if info.keyword else {},
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
        if self.table.frequencies is not None:
            self._save_frequencies(self.table.frequencies)
        self.engine.close()
        self._dirty.unlink(missing_ok=True)
        self._is_dirty = False

    def reopen(self) -> None:
        """Load again after another process moved the points about."""
        frequencies = self.table.frequencies
        self.table = Table()
        self.engine = self._load()
        self.table.frequencies = frequencies

    def answers_fast(self, request: RetrieveRequest) -> bool:
        """Whether a search takes less than 20 ms: an exact one takes 6 at 100k chunks of 256 numbers."""
        counted = self.table.frequencies is not None or not request.texts
        lists = len(request.vectors) + len(request.texts)
        few = request.limit <= _FAST_LIMIT and lists * request.candidates <= _FAST_CANDIDATES
        numbers = self.table.chunks * (len(request.vectors) * self.info.dimensions + len(request.texts))
        return counted and few and numbers <= _FAST_NUMBERS

    def deletes_fast(self, document_ids: Sequence[str]) -> bool:
        """Whether deleting takes less than 20 ms: 0.1 for a document of 10 chunks."""
        if len(document_ids) > _FAST_DOCUMENTS:
            return False
        heads = (self.table.heads[name] for document_id in document_ids for name in self.table.find(document_id))
        return sum(head.count for head in heads) <= _FAST_LIMIT

    def mark_dirty(self) -> None:
        """Called before a write: from now on a crash leaves something to clear up."""
        if not self._is_dirty:
            self._dirty.touch()
            (self.folder / "frequencies.npz").unlink(missing_ok=True)
            self._is_dirty = True

    # --- the cache ---

    @property
    def wants_cache(self) -> bool:
        """Whether `fill_cache` would make searches faster that come often enough."""
        started = self.cache is not None and not self.cache.is_complete
        return started or (self.cache is None and self._is_cacheable and self._plain_searches >= _CACHE_AFTER)

    def fill_cache(self) -> None:
        """Read one page of vectors into the cache."""
        if self.cache is None:
            points = [point for head in self.table.heads.values() for point in head.point_ids()]
            self.cache = VectorCache(self.info.dimensions, points)
        self.cache.fill(self._vectors_of)

    def _vectors_of(self, points: Sequence[int]) -> Iterator[tuple[int, list[float]]]:
        records = self.engine.retrieve([point for point in points if self.table.has(point)], False, [DENSE])
        return ((record.id, record.vector[DENSE]) for record in records)

    def bound_cache(self) -> None:
        """Called after a write: do without the cache where it has grown too large."""
        if self.cache is not None and len(self.cache) > self._cached_chunks:
            self.cache = None

    @property
    def _is_cacheable(self) -> bool:
        # Other metrics are compared in 64 bits throughout, which is slower than the engine.
        return self.info.distance == "Cosine" and self.table.chunks < self._cached_chunks

    # --- opening ---

    def _load(self) -> Any:
        self.engine = self.edge.EdgeShard.load(str(self.folder / "shard"))
        self._indexed_fields = set(self.engine.info().payload_schema)
        for record in self._scroll(self.edge.Filter(must=[self._is_head]), ["s", "d", *Head.FIELDS]):
            self.table.put((record.payload["s"], record.payload["d"]), Head.of_payload(record.payload))
        if self._dirty.exists():
            (self.folder / "frequencies.npz").unlink(missing_ok=True)
            self._remove_leftovers()
        elif self.table.chunks:
            self.table.frequencies = self._saved_frequencies()
        else:
            self.table.frequencies = Counter()
        return self.engine

    def _remove_leftovers(self) -> None:
        points = (record.id for record in self._scroll(None, False) if isinstance(record.id, int))
        numbers = {point >> INDEX_BITS for point in points}
        self.table.next_number = max([self.table.next_number, *(number + 1 for number in numbers)])
        for number in numbers - self.table.names.keys():
            wanted = self.edge.FieldCondition(NUMBER, match=self.edge.MatchValue(number))
            self.engine.update(self.edge.UpdateOperation.delete_points_by_filter(self.edge.Filter(must=[wanted])))

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

    def frequencies(self) -> Counter[int]:
        """Term -> number of chunks; kept from the first write on; after a crash counted (3 s for 100k chunks) here."""
        if self.table.frequencies is None:
            self.table.frequencies = self._counted_frequencies()
        return self.table.frequencies

    def postings(self, points: Sequence[int]) -> Postings:
        """Terms of the given points, in their order; all of them exist. Without keyword search they have none."""
        if not self.info.keyword:
            return decode(([], []) for _ in points)
        found: list[tuple[list[int], list[float]]] = []
        for start in range(0, len(points), PAGE):
            records = self.engine.retrieve(list(points[start : start + PAGE]), False, [SPARSE])
            found += [_sparse(record) for record in records]
        return decode(found)

    def _counted_frequencies(self) -> Counter[int]:
        counted: Counter[int] = Counter()
        ids: list[int] = []
        for record in self._scroll(None, False, [SPARSE]):
            if isinstance(record.id, int) and record.id >> INDEX_BITS in self.table.names:
                ids += _sparse(record)[0]
            if len(ids) > _COUNTED_IDS:
                counted.update(term_counts(ids))
                ids = []
        counted.update(term_counts(ids))
        return counted

    def _saved_frequencies(self) -> Counter[int] | None:
        with contextlib.suppress(FileNotFoundError), np.load(self.folder / "frequencies.npz") as saved:
            return Counter(dict(zip(saved["terms"].tolist(), saved["counts"].tolist(), strict=True)))
        return None

    def _save_frequencies(self, frequencies: Counter[int]) -> None:
        terms = np.fromiter(frequencies.keys(), np.uint32, len(frequencies))
        counts = np.fromiter(frequencies.values(), np.uint32, len(frequencies))
        np.savez(self.folder / "frequencies.npz", terms=terms, counts=counts)

    # --- searching ---

    def retrieve(self, request: RetrieveRequest) -> list[VectorSearchResult]:
        if request.texts and not self.info.keyword:
            raise without_keyword(self.info.name)
        for vector in request.vectors:
            query_vector(self.info.name, self.info.dimensions, vector)
        return run_steps(request, self._answer)

    def _answer(self, step: Step) -> Any:
        match step:
            case Nearest(vector, limit, metadata_filter, keys):
                return self._nearest(vector, limit, metadata_filter, keys)
            case Keyword(text, limit, metadata_filter):
                return self._keyword(text, limit, metadata_filter)
            case Get(keys):
                return self.chunks(keys)

    def _nearest(
        self,
        vector: Sequence[float],
        limit: int,
        metadata_filter: FilterLike | None,
        keys: Sequence[ChunkKey] | None,
    ) -> list[Scored]:
        if plan(metadata_filter) is None:
            self._plain_searches += 1
            if self.cache is not None and self.cache.is_complete:
                among = None if keys is None else (self.table.point_id(key) for key in dict.fromkeys(keys))
                held = None if among is None else [point for point in among if point is not None]
                query = query_vector(self.info.name, self.info.dimensions, vector)
                return self._best(self.cache.nearest(query, limit, held), limit)
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

    def _keyword(self, text: str, limit: int, metadata_filter: FilterLike | None) -> list[Scored]:
        frequencies, indexed = self.frequencies(), self.table.indexed
        query = {
            term: count * idf(indexed, frequencies[term])
            for term, count in Counter(map(term_id, tokenize(text))).items()
            if term in frequencies
        }
        if not query:
            return []
        sparse = self.edge.SparseVector(list(query), list(query.values()))
        nearest = self.edge.Query.Nearest(sparse, using=SPARSE)
        condition = self.condition(metadata_filter)

        # The engine's weights are those of an earlier average length, at most 20 % off, and a weight is wrong by less
        # than half of that: so the best are among those that score at least so large a share of the last one.
        share = 1 - abs(math.log(self.table.average_length / self.info.weight_average)) - _ROUNDING

        def found(count: int) -> list[Any]:
            request = self.edge.QueryRequest(limit=count, query=nearest, filter=condition, with_vector=[SPARSE])
            hits: list[Any] = self.engine.query(request)
            return hits

        hits = all_from(found, limit, share)
        terms = sorted(query)
        scores = decode(of_terms(_sparse(hit), terms) for hit in hits).bm25(query, self.table.average_length)
        exact = [(hit.id, score) for hit, score in zip(hits, scores, strict=True) if score > 0]
        return self._best(exact, limit)

    def _best(self, hits: list[tuple[int, float]], limit: int) -> list[Scored]:
        return best((Scored(self.table.key(point), score) for point, score in hits), limit)

    def condition(self, metadata_filter: FilterLike | None, conditions: Sequence[Any] = ()) -> Any:
        """Filter of all chunks that count; None for all points that have vectors."""
        node = plan(metadata_filter)
        for field in range_keys(node) - self._indexed_fields:
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
        return {points[record.id]: parse_chunk(record.payload[CHUNK]) for record in records}

    def fetch(
        self, keys: Sequence[ChunkKey], metadata_filter: FilterLike | None, with_vectors: bool
    ) -> list[VectorRecord]:
        points = {point: key for key in keys if (point := self.table.point_id(key)) is not None}
        with_vector = [DENSE] if with_vectors and self.info.dimensions else False
        found: dict[ChunkKey, VectorRecord] = {}
        for record in self.engine.retrieve(list(points), [CHUNK], with_vector):
            key, chunk = points[record.id], parse_chunk(record.payload[CHUNK])
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
        found = [_summary(record) for record in records]
        return sorted(found, key=lambda summary: (summary.scope, summary.document_id))

    def names_matching(self, names: Sequence[Name], metadata_filter: FilterLike | None) -> list[Name]:
        """Those of `names` whose document metadata matches."""
        if plan(metadata_filter) is None or not names:
            return list(names)
        heads = self.engine.retrieve([head_id(name) for name in names], [SUMMARY], False)
        summaries = [_summary(record) for record in heads]
        kept = {(item.scope, item.document_id) for item in summaries if matches(metadata_filter, item.metadata)}
        return [name for name in names if name in kept]


def head_id(name: Name) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(["agent_rag", *name]))


def _summary(head: Any) -> DocumentSummary:
    return DocumentSummary.model_validate_json(head.payload[SUMMARY])


def _sparse(record: Any) -> tuple[list[int], list[float]]:
    vector = (record.vector or {}).get(SPARSE)
    return ([], []) if vector is None else (vector.indices, vector.values)
