"""The reads of a knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

from .._util.tracing import span
from ..content import DataBlock
from ..documents import (
    Chunk,
    ChunkKey,
    DocumentSummary,
    VectorRecord,
    VectorSearchResult,
    scope_key,
    storable_metadata,
)
from ..errors import ConfigurationError, DimensionMismatchError, ModelMismatchError
from ..filters import FilterLike, all_of, as_filter, matches
from ..retrieval.lexical import ENGLISH
from ..retrieval.pattern import TextPattern
from ..retrieval.rank import collapse
from ..retrieval.runs import DocumentText
from ..stores.base import RetrieveRequest
from .finding import FindResult, keys_of, result_of, tally
from .handle import Handle
from .hits import Hits
from .misspelt import corrections_for, shown_corrections
from .outline import DocumentOutline, outline_of, select
from .search import Query, SearchMode, check_number, checked_filter, rank_function, usable_queries, vetted
from .stored_vectors import StoredVectors

T = TypeVar("T")


class Reading(Handle):
    """Search, find, list and read; within the scope."""

    async def search(
        self,
        queries: Query | Sequence[Query],
        top_k: int = 5,
        score_threshold: float | None = None,
        *,
        mode: SearchMode | None = None,
        filter: FilterLike | None = None,
        distinct: bool = False,
    ) -> list[VectorSearchResult]:
        """Find chunks.

        Args:
            queries: One or several; several are merged. Images are dropped when the model cannot embed them.
            top_k: Number of hits in all; <= 0 gives none.
            score_threshold: Least score to keep a hit: the cosine in semantic and hybrid mode, BM25 in keyword mode.
            mode: Default: `default_mode`. The score is the cosine ("semantic"), BM25 ("keyword"), or an ordering in
                [0, 1] ("hybrid"); each hit carries its `signals` as well.
            filter: On the chunk's metadata, ANDed with the scope.
            distinct: One hit per text; it lists the others in `also_in`.

        Returns: Best first. [] is a normal answer: nothing passed. `Hits.corrected` has the words that were asked for
            beside misspelt ones.
        Raises: ConfigurationError: the mode needs a model or a store that is not there. LimitExceededError,
            FilterError, EmbeddingError, StoreError.
        """
        mode = mode or self.default_mode
        self._check_mode(mode)
        check_number("top_k", top_k, int)
        if score_threshold is not None:
            check_number("score_threshold", score_threshold, int | float)
        self.limits.check("results", top_k, f"top_k of a search in {self.name!r}")
        texts, blocks = usable_queries(queries, self.limits, multimodal=self._embedder.multimodal)
        if top_k <= 0 or not (texts or (blocks and mode != "keyword")):
            return Hits()
        embedder = self._embedder
        search = partial(self._search, texts, blocks, top_k, score_threshold, mode, filter, distinct=distinct)
        try:
            hits = await search()
        except (DimensionMismatchError, ModelMismatchError):
            if self._embedder is embedder:
                raise
        else:
            if self._embedder is embedder:
                return hits
        return await search()  # another model came meanwhile (`reindex_model`)

    async def _search(
        self,
        texts: list[str],
        blocks: list[DataBlock],
        top_k: int,
        score_threshold: float | None,
        mode: SearchMode,
        filter: FilterLike | None,
        *,
        distinct: bool,
    ) -> Hits:
        if not await self._stored.exists():
            return Hits()
        scope = None if (now := self.metadata_filter) is None else storable_metadata(now)
        vectors: list[list[float]] = []
        if mode != "keyword":
            with span("embed", inputs=len(texts) + len(blocks)):
                vectors = await self._embedder.embed([*texts, *blocks], "query")
        seen: list[float] | None = [] if self._by_coverage and mode == "hybrid" else None
        request = RetrieveRequest(
            vectors=vectors,
            texts=texts if mode != "semantic" else [],
            limit=self._candidates if distinct else top_k,
            candidates=max(self._candidates, top_k) if mode == "hybrid" or distinct else top_k,
            metadata_filter=all_of(scope, checked_filter(filter, self.limits)),
            rank=rank_function(
                mode,
                score_threshold,
                fusion=self._fusion,
                keyword_weight=self._keyword_weight,
                seen=() if seen is None else seen,
            ),
            seen=seen,
            grams=self._keyword_fields.grams,
            language=self._keyword_fields.language,
        )
        with span("search", mode=mode, top_k=top_k) as told:
            nothing: tuple[list[VectorSearchResult], dict[str, str]] = ([], {})
            results, corrected = await self._stored.if_there(nothing, lambda: self._retrieve(request))
            told.set_attribute("results", len(results))
        results = vetted(results, scope, mode, score_threshold, self.name)
        results = (collapse(results) if distinct else results)[:top_k]
        hits = Hits(result.model_copy(update={"knowledge_base": self.name}) for result in results)
        hits.corrected = shown_corrections(corrected, hits)
        return hits

    async def fetch(self, chunk_ids: Sequence[str]) -> list[Chunk]:
        """Exact chunks by ``<document_id>:<index>``, in the order asked; missing ones are left out.

        Raises: ValueError: an id is not of that form.
        """
        check_list("chunk_ids", chunk_ids)
        scope = self.metadata_filter
        keys = [ChunkKey.from_chunk_id(chunk_id, scope=scope_key(scope)) for chunk_id in chunk_ids]
        records: list[VectorRecord] = await self._stored.if_there(
            [], lambda: self._store.fetch(self.collection, keys, as_filter(scope))
        )
        return [record.chunk for record in records]

    async def list_documents(
        self,
        *,
        filter: FilterLike | None = None,
        source: str | None = None,
        status: Literal["stored", "skipped", "failed"] | None = None,
        remembered: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[DocumentSummary]:
        """Every document of this scope, by id.

        Args:
            filter: On the document's metadata.
            source: Only those of this source; see `list_sources`.
            status: Only those of this `DocumentSummary.status`; "skipped" and "failed" are also files without chunks.
            remembered: Also the files that ingestion skipped or could not read, which have no chunks.
            limit, after: A page: so many at most, behind this id.
        """
        scope = self.metadata_filter
        wanted = all_of(scope, checked_filter(filter, self.limits))
        listed: list[DocumentSummary] = await self._stored.if_there(
            [], lambda: self._store.list_documents(self.collection, wanted)
        )
        chosen = [
            summary
            for summary in listed
            if (scope is None or matches(scope, summary.metadata))
            and (remembered or status is not None or summary.chunk_count or "status" not in summary.state)
            and (source is None or summary.state.get("source") == source)
            and (status is None or summary.status == status)
            and (after is None or summary.document_id > after)
        ]
        return chosen if limit is None else chosen[:limit]

    async def find_chunks(self, filter: FilterLike, *, limit: int = 30, after: str | None = None) -> list[Chunk]:
        """Chunks whose metadata match, without a query, by document id and position: "all memos of 2023".

        Args:
            limit: So many at most; `count` says how many there are.
            after: Only those behind this chunk id, for the next page.

        Raises: ConfigurationError: a seven-method store, which cannot go through its chunks.
        """
        if not self.atomic:
            raise ConfigurationError(f"{type(self.vector_store).__name__} cannot go through its chunks; use search")
        last = None if after is None else ChunkKey.from_chunk_id(after)[1:]
        wanted = all_of(self.metadata_filter, checked_filter(filter, self.limits))
        found: list[Chunk] = []
        if limit <= 0 or not await self._stored.exists():
            return found
        async for record in self._store.iterate(self.collection, wanted, batch_size=min(500, limit)):
            if last is None or (record.document_id, record.chunk.chunk_index) > last:
                found.append(record.chunk)
            if len(found) >= limit:
                break
        return found

    async def find(
        self,
        pattern: str,
        *,
        regex: bool = False,
        ignore_case: bool = True,
        ignore_accents: bool = False,
        filter: FilterLike | None = None,
        document_id: str | None = None,
        limit: int = 100,
    ) -> FindResult:
        """Every occurrence of a text, or of a regular expression of Python's `re`, counted over all stored text.

        What two chunks share is counted once, and what stands across their border is found. White space of a text
        stands for any white space. ``^`` and ``$`` are the begin and end of a line; empty occurrences do not count.

        Args:
            ignore_accents: Find ``Müller`` as ``Muller``, however it is encoded.
            filter: On the chunk's metadata, ANDed with the scope.
            document_id: Only in this document.
            limit: Occurrences that are shown; all are counted.

        Raises: PatternError: blank, too long, no regular expression, or one that takes too long, which is known within
            a second. ConfigurationError: a seven-method store, which cannot go through its chunks.
        """
        wanted = TextPattern(pattern, regex=regex, ignore_case=ignore_case, ignore_accents=ignore_accents)
        check_number("limit", limit, int)
        if not self.atomic:
            raise ConfigurationError(f"{type(self.vector_store).__name__} cannot go through its chunks; use search")
        scoped = all_of(self.metadata_filter, checked_filter(filter, self.limits))
        if not await self._stored.exists():
            return FindResult()
        records: list[VectorRecord]
        with span("find", regex=regex):
            pages = self._texts(scoped, document_id, wanted)
            found = await tally(wanted, pages, max(limit, 0))
            records = await self._stored.if_there(
                [], lambda: self._store.fetch(self.collection, keys_of(found), scoped)
            )
        return result_of(found, {record.key: record.chunk for record in records})

    def _texts(
        self, scoped: FilterLike | None, document_id: str | None, pattern: TextPattern
    ) -> AsyncIterator[list[DocumentText]]:
        if document_id is None:
            return self._store.scan(self.collection, scoped, pattern=pattern)
        return self._store.scan_document(self.collection, document_id, scoped)

    async def list_chunks(self, document_id: str, *, offset: int = 0, limit: int = 30) -> list[Chunk]:
        """Chunks of one document with ``offset <= chunk_index < offset + limit``, in order."""
        records = await self._records(document_id, offset=offset, limit=limit)
        return [record.chunk for record in records]

    async def outline(self, document_id: str) -> DocumentOutline | None:
        """Headings, slides and sheets of a document, with their places; None when there is no such document."""
        return outline_of(document_id, await self.read(document_id))

    async def read(
        self,
        document_id: str,
        *,
        page: int | None = None,
        heading: str | None = None,
        rows: tuple[int, int] | None = None,
    ) -> list[Chunk]:
        """Chunks of one document, in order: all, or those that every condition holds for.

        Args:
            page: On this page or slide.
            heading: Below a heading of this title, or on a sheet of this name, in any case; where there is none, below
                one that holds it.
            rows: With a row, record or line from the first to the last of these.
        """
        chunks = await self.list_chunks(document_id, limit=self.limits.chunks_per_document)
        return select(chunks, page=page, heading=heading, rows=rows)

    async def count(self, *, filter: FilterLike | None = None) -> int:
        """Number of chunks in this scope whose metadata matches."""
        wanted = all_of(self.metadata_filter, checked_filter(filter, self.limits))
        return await self._stored.if_there(0, lambda: self._store.count(self.collection, wanted))

    async def known_vectors(self, document_ids: Sequence[str]) -> dict[str, Sequence[float]]:
        """Stored vectors of these documents by what was embedded, for `replace_documents`."""
        known: dict[str, Sequence[float]] = {}
        for document_id in document_ids:
            records = await self._records(document_id, offset=0, limit=self.limits.chunks_per_document, vectors=True)
            known.update((self._embedder.key_of(record.chunk), record.vector) for record in records if record.vector)
        return known

    async def stored_vectors(self, document_ids: Sequence[str]) -> StoredVectors:
        """As `known_vectors`, for documents that are too large for memory."""
        scope = self.metadata_filter

        async def fetch(wanted: Sequence[tuple[str, int]]) -> list[VectorRecord]:
            keys = [ChunkKey(scope_key(scope), document_id, index) for document_id, index in wanted]
            records: list[VectorRecord] = await self._stored.if_there(
                [], lambda: self._store.fetch(self.collection, keys, as_filter(scope), with_vectors=True)
            )
            return records

        found = StoredVectors(self._embedder.key_of, fetch)
        await found.load(await self._summaries(document_ids), self._records)
        return found

    async def chunk_counts(self, document_ids: Sequence[str]) -> dict[str, int]:
        """Document id -> number of chunks, of those that are there and have any."""
        listed = await self._summaries(document_ids)
        return {summary.document_id: summary.chunk_count for summary in listed if summary.chunk_count}

    async def _retrieve(self, request: RetrieveRequest) -> tuple[list[VectorSearchResult], dict[str, str]]:
        """What the store found, and the words that were asked for beside misspelt ones; where parts of words are
        indexed, these find them."""
        results = await self._store.retrieve(self.collection, request)
        self._keyword_fields.seen(results)
        if request.texts and (language := self._keyword_fields.language) != request.language:
            # The first search of this handle, or the collection was indexed anew.
            request = replace(request, language=language, grams=self._keyword_fields.grams)
            results = await self._store.retrieve(self.collection, request)
        if not request.texts or self._keyword_fields.grams or request.language != ENGLISH:
            return results, {}
        corrected = await corrections_for(self._store, self.collection, request.texts, results)
        if corrected:
            results = await self._store.retrieve(self.collection, replace(request, corrections=corrected))
        return results, corrected

    async def _records(self, document_id: str, *, offset: int, limit: int, vectors: bool = False) -> list[VectorRecord]:
        scope = as_filter(self.metadata_filter)
        records: list[VectorRecord] = await self._stored.if_there(
            [],
            lambda: self._store.list_chunks(
                self.collection,
                document_id,
                offset=offset,
                limit=limit,
                metadata_filter=scope,
                with_vectors=vectors,
            ),
        )
        return records

    async def _summaries(self, document_ids: Sequence[str]) -> list[DocumentSummary]:
        scope = as_filter(self.metadata_filter)
        listed: list[DocumentSummary] = await self._stored.if_there(
            [], lambda: self._store.list_documents(self.collection, scope, document_ids=document_ids)
        )
        return listed


def check_list(name: str, value: object) -> None:
    if isinstance(value, str | bytes):
        raise ConfigurationError(f"{name} is the single text {value!r}; pass a list of ids")
