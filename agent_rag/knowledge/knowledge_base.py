"""The KnowledgeBase: the only door to a store."""

from __future__ import annotations

import logging
import os
import unicodedata
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

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
from ..embeddings.base import EmbeddingModelLike
from ..errors import ConfigurationError, DimensionMismatchError, ModelMismatchError, redact
from ..events import (
    DocumentsDeleted,
    DocumentsRefused,
    DocumentsReplaced,
    EventCallback,
    MetadataUpdated,
    Trigger,
    emit,
)
from ..filters import FilterLike, all_of, as_filter, matches
from ..filters.nodes import is_node
from ..limits import Limits
from ..retrieval.fusion import DEFAULT_KEYWORD_WEIGHT
from ..retrieval.lexical import ENGLISH
from ..retrieval.pattern import TextPattern
from ..retrieval.rank import Fusion, collapse
from ..retrieval.runs import DocumentText
from ..stores.base import RetrieveRequest, VectorStoreBase
from ..stores.native import NativeStoreBase
from ..stores.seven import SevenMethodAdapter
from ..tables.catalog import CatalogTable
from ..tables.describe import described
from ..tables.folder import TableFolder
from ..tables.query import QueryLimits, TableAnswer
from .collection import Collection
from .document import Document, WriteReport
from .embedder import Embedder
from .finding import FindResult, keys_of, result_of, tally
from .hits import Hits
from .keyword_fields import KeywordFields, first_chunk
from .misspelt import corrections_for, shown_corrections
from .outline import DocumentOutline, outline_of, select
from .reembedding import ModelReindex, Reembedding
from .reindexing import KeywordReindex, reindex_keywords
from .search import Query, SearchMode, check_number, checked_filter, rank_function, usable_queries, vetted
from .tables import DocumentTables, tables_of, with_tables_of
from .updating import DocumentChange, batches, changed, check_change
from .writing import check_chunks, check_documents, prepare, reject_duplicates, summary_of

logger = logging.getLogger("agent_rag")

Scope = Mapping[str, Any] | None
T = TypeVar("T")


class KnowledgeBase:
    """Binds an embedding model, a vector store, a collection and, for tenants, a scope.

    It does not open or close the store: enter the store with ``async with`` first. Safe for concurrent use.
    """

    def __init__(
        self,
        name: str,
        description: str,
        embedding_model: EmbeddingModelLike | None,
        vector_store: VectorStoreBase,
        collection: str,
        metadata_filter: Mapping[str, Any] | Callable[[], Scope] | None = None,
        *,
        fusion: Fusion = "convex",
        keyword_weight: float | None = None,
        keyword_grams: bool | None = None,
        candidates: int = 100,
        limits: Limits | None = None,
        on_event: EventCallback | None = None,
        tables: TableFolder | str | Path | None = None,
    ) -> None:
        """
        Args:
            name: Short name, shown to models that choose among several.
            description: What can be found here, for the same readers.
            embedding_model: None: keyword search only. Anything with `dimensions`, `supports_multimodal` and
                ``await model(inputs)`` giving `.embeddings` works.
            vector_store: Any store; entered by you, before the first operation.
            collection: Created on the first write, sized to the model.
            metadata_filter: Scope of this handle, as field -> scalar: part of every record's identity, forced onto
                every record written, required of every record read, listed or deleted. A callable is asked at each
                operation and must give a scope. None: no scope; reads and deletes see every scope.
            fusion: How hybrid search combines its two lists: "convex" (min-max, weighted), "rrf" or "dbsf".
            keyword_weight: Share of the keyword score in "convex" hybrid search; default: the model's, or 0.8. Only the
                default shrinks with what a question says in words that the collection has not, where the model says
                so (`coverage_weighting`).
            keyword_grams: Whether a new collection indexes the four-character parts of words, too: found are other
                endings, compounds, names in code and typing errors, for five times the postings. None: unless its first
                documents are English prose. A collection keeps what it has until `reindex_keywords`.
            candidates: Length of each list that is fused.
            on_event: Called with `DocumentsReplaced`, `DocumentsDeleted` and `MetadataUpdated` after the store
                acknowledged, and with `DocumentsRefused` when a write failed.
            tables: Folder where the typed tables of documents are kept, for `query_tables`: of this store alone, since
                it is in step with it. None: documents have no tables.

        Raises: ConfigurationError: an option is out of range. LimitExceededError: the vectors are over
            ``limits.dimensions``.
        """
        if not name or not collection:
            raise ConfigurationError(f"a KnowledgeBase needs a name and a collection, got {name=} {collection=}")
        if not isinstance(vector_store, VectorStoreBase):
            given = vector_store.__name__ if isinstance(vector_store, type) else type(vector_store).__name__
            raise ConfigurationError(
                f"vector_store is {given}, which is no store; pass an instance of a subclass of VectorStoreBase"
            )
        if not (metadata_filter is None or callable(metadata_filter) or isinstance(metadata_filter, Mapping)):
            raise ConfigurationError(
                f"metadata_filter is {metadata_filter!r}; pass a mapping, or a function giving one"
            )
        if isinstance(metadata_filter, Mapping):
            _check_scope(metadata_filter, name)
        if embedding_model is not None and not (callable(embedding_model) and hasattr(embedding_model, "dimensions")):
            raise ConfigurationError(
                f"embedding_model is a {type(embedding_model).__name__}; it needs `dimensions` and an awaitable call"
            )
        if keyword_weight is not None and not 0 <= keyword_weight <= 1:
            raise ConfigurationError(f"keyword_weight is {keyword_weight}; it is a share, from 0 to 1")
        self.name = name
        self.description = description
        self.vector_store = vector_store
        self.collection = collection
        self.limits = limits or Limits()
        self._metadata_filter = metadata_filter
        self._fusion = fusion
        self._given_weight = keyword_weight
        self._candidates = candidates
        self._on_event = on_event
        self._store: NativeStoreBase = (
            vector_store
            if isinstance(vector_store, NativeStoreBase)
            else SevenMethodAdapter(vector_store, Embedder(embedding_model).dimensions)
        )
        self._use(embedding_model)
        self._keyword_fields = KeywordFields(self._store, collection, keyword_grams)
        self._tables = tables_of(tables, collection)

    def _use(self, embedding_model: EmbeddingModelLike | None) -> None:
        self.embedding_model = embedding_model
        self._embedder = Embedder(embedding_model)
        self.limits.check("dimensions", self._embedder.dimensions, f"vectors of the model of {self.name!r}")
        weight = self._given_weight
        self._by_coverage = weight is None and bool(getattr(embedding_model, "coverage_weighting", False))
        if weight is None:
            weight = getattr(embedding_model, "keyword_weight", None)
        self._keyword_weight = DEFAULT_KEYWORD_WEIGHT if weight is None else weight
        self._stored = Collection(self._store, self.collection, self._embedder, owner=self.name)

    def __repr__(self) -> str:
        return f"KnowledgeBase({self.name!r}, collection={self.collection!r})"

    @property
    def atomic(self) -> bool:
        """Whether replacing a document is atomic; it is not on a third-party store with the seed's seven methods."""
        return self._store is self.vector_store

    @property
    def default_mode(self) -> SearchMode:
        """Hybrid where the store can, else semantic; keyword without an embedding model."""
        if self.embedding_model is None:
            return "keyword"
        return "hybrid" if self._store.keyword_search else "semantic"

    @property
    def metadata_filter(self) -> dict[str, Any] | None:
        """The scope as it is now; a callable is asked."""
        if not callable(self._metadata_filter):
            return dict(self._metadata_filter) if self._metadata_filter else None
        scope = self._metadata_filter()
        if not scope:  # a forgotten return must not open every scope
            raise ConfigurationError(f"the scope function of {self.name!r} gave {scope!r}; it must give a mapping")
        _check_scope(scope, self.name)
        return dict(scope)

    def searching(
        self, *, fusion: Fusion | None = None, keyword_weight: float | None = None, candidates: int | None = None
    ) -> KnowledgeBase:
        """The same knowledge base with other options of search, over the same store; None keeps an option.

        Raises: ConfigurationError: `keyword_weight` is no share.
        """
        if keyword_weight is not None and not 0 <= keyword_weight <= 1:
            raise ConfigurationError(f"keyword_weight is {keyword_weight}; it is a share, from 0 to 1")
        other = copy(self)
        other._fusion = self._fusion if fusion is None else fusion
        other._keyword_weight = self._keyword_weight if keyword_weight is None else keyword_weight
        other._candidates = self._candidates if candidates is None else candidates
        other._by_coverage = self._by_coverage and keyword_weight is None
        return other

    # --- writing ---

    async def insert_document(
        self,
        chunks: Sequence[Chunk],
        document_id: str | None = None,
        document_metadata: Mapping[str, Any] | None = None,
        *,
        title: str | None = None,
        uri: str | None = None,
        trigger: Trigger = "user",
    ) -> str:
        """Write `chunks` as one document; a known `document_id` is replaced whole.

        Everything is embedded before anything is written, so a failure leaves what was there. Metadata of the scope
        wins over the chunk's, the chunk's over `document_metadata`. No chunks: nothing happens.

        Returns: The document id, new when None was given.
        Raises: EmbeddingError, StoreError, RecordError, LimitExceededError; DimensionMismatchError and
            ModelMismatchError when the collection belongs to another model.
        """
        check_chunks(chunks)
        document_id = document_id or uuid.uuid4().hex
        if chunks:
            document = Document(
                document_id=document_id,
                chunks=list(chunks),
                metadata=dict(document_metadata or {}),
                title=title,
                uri=uri,
            )
            await self.replace_documents([document], trigger=trigger)
        return document_id

    async def replace_documents(
        self,
        documents: Sequence[Document],
        *,
        trigger: Trigger = "user",
        known_vectors: Mapping[str, Sequence[float]] | None = None,
        tell_refused: bool = True,
    ) -> WriteReport:
        """Write whole documents, each replacing what was stored under its id in this scope.

        One without a chunk that can be indexed is removed; if its state has a status, that is remembered.

        Args:
            documents: With different ids.
            trigger: Who asked for it, for the audit event.
            known_vectors: Vectors of this model by what is embedded, as `known_vectors` gives them.
            tell_refused: Emit `DocumentsRefused` on failure; a caller that tries smaller parts next does not want it.

        Raises: ValueError: an id occurs twice. Otherwise as `insert_document`.
        """
        try:
            with span("replace", documents=len(documents)) as told:
                report, written, gone = await self._replace(documents, known_vectors)
                told.set_attribute("chunks", report.chunk_count)
        except Exception as error:
            if tell_refused:
                await self._refused([document.document_id for document in documents], error, trigger)
            raise
        if written:
            event = DocumentsReplaced(
                knowledge_base=self.name, document_ids=written, chunk_count=report.chunk_count, trigger=trigger
            )
            await emit(self._on_event, event)
        await self._deleted(list(gone), trigger=trigger, chunk_count=sum(gone.values()))
        return report

    async def _replace(
        self, documents: Sequence[Document], known_vectors: Mapping[str, Sequence[float]] | None
    ) -> tuple[WriteReport, tuple[str, ...], dict[str, int]]:
        """The report, the ids that were written, and the chunks of each document that is gone for being empty."""
        scope = self.metadata_filter
        check_documents(documents, self.limits, self.name)
        report = WriteReport()
        prepared = [prepare(document, scope, self._embedder, self.limits, report) for document in documents]
        await self._stored.open()
        chunks = [chunk for document in prepared for chunk in document.chunks]
        analysis = await self._keyword_fields.of(chunks)
        for chunk in chunks:
            chunk.analysis = analysis
        vectors = await self._embedder.vectors(chunks, known_vectors, report)
        key = scope_key(scope)
        replaced: list[DocumentSummary] = []
        if self._tables is not None:
            replaced = await self._summaries([document.document_id for document in prepared])
            prepared = await self._tables.kept(prepared, key)
        records: list[VectorRecord] = []
        for document in prepared:
            for chunk in document.chunks:
                records.append(
                    VectorRecord.model_construct(
                        vector=vectors[len(records)] if self.atomic else list(vectors[len(records)]),
                        document_id=document.document_id,
                        chunk=chunk,
                        scope=key,
                    )
                )
        kept = [summary_of(document, key) for document in prepared if document.chunks or "status" in document.state]
        empty = [document.document_id for document in prepared if not document.chunks]
        gone = await self.chunk_counts(empty) if empty else {}
        if kept:
            report.replaced_chunks += await self._stored.replace(kept, records, key)
        if removed := sorted(set(empty) - {summary.document_id for summary in kept}):
            report.replaced_chunks += await self._store.delete_documents(self.collection, removed, as_filter(scope))
        if self._tables is not None:
            await self._tables.forget(replaced)
        report.chunk_count = len(records)
        written = tuple(document.document_id for document in prepared if document.chunks)
        return report, written, gone

    async def delete_document(self, document_id: str, *, trigger: Trigger = "user") -> int:
        """Remove a document: by its id, also with ``./`` before it or in another Unicode form, or by the absolute path
        of its file. Relative paths are none of its names; the command line knows the working directory.

        Returns: The number of chunks removed; 0 for an unknown id, and nothing happens.
        """
        removed = await self.delete_documents([document_id], trigger=trigger)
        if removed == 0 and (other := await self._other_name(document_id)) is not None:
            removed = await self.delete_documents([other], trigger=trigger)
        return removed

    async def delete_documents(self, document_ids: Sequence[str], *, trigger: Trigger = "user") -> int:
        """Remove documents; unknown ids are skipped. Returns the number of chunks removed.

        Raises: ValueError: an id occurs twice.
        """
        _check_list("document_ids", document_ids)
        reject_duplicates(document_ids)
        scope = as_filter(self.metadata_filter)
        listed = await self._summaries(document_ids)
        try:
            removed = await self._stored.if_there(
                0, lambda: self._store.delete_documents(self.collection, document_ids, scope)
            )
        except Exception as error:
            await self._refused(document_ids, error, trigger)
            raise
        if self._tables is not None:
            await self._tables.forget(listed)
        there = [summary.document_id for summary in listed if summary.chunk_count]
        await self._deleted(there, chunk_count=removed, trigger=trigger)
        return removed

    async def delete_by_filter(self, filter: FilterLike, *, trigger: Trigger = "user") -> list[str]:
        """Remove the documents whose metadata matches `filter`. Returns their ids, sorted."""
        scoped = all_of(self.metadata_filter, filter)
        if scoped is None:
            raise ConfigurationError("delete_by_filter needs a filter; to remove everything, drop the collection")
        listed: list[DocumentSummary] = await self._stored.if_there(
            [], lambda: self._store.list_documents(self.collection, scoped)
        )
        document_ids: list[str] = await self._stored.if_there(
            [], lambda: self._store.delete_by_filter(self.collection, scoped)
        )
        gone = set(document_ids)
        if self._tables is not None:
            await self._tables.forget([item for item in listed if item.document_id in gone])
        count = sum(item.chunk_count for item in listed if item.document_id in gone)
        await self._deleted(document_ids, chunk_count=count, trigger=trigger)
        return document_ids

    async def update_documents(
        self, filter: FilterLike, *, metadata: Mapping[str, Any], trigger: Trigger = "user"
    ) -> list[str]:
        """Set metadata of the documents that match, and of all their chunks; nothing is parsed or embedded.

        Each document changes at once: a reader sees it as it was or as it is. A later ingestion of a changed file
        writes the metadata of its source again; give what shall last to the source.

        Args:
            filter: On the document's metadata; ``None`` is refused, an empty mapping is every document.
            metadata: Fields to set; the value None removes a field.

        Returns: The ids of the documents that were changed, sorted.
        Raises: ConfigurationError: a field belongs to the scope. LimitExceededError, FilterError, StoreError.
        """
        if filter is None:
            raise ConfigurationError("update_documents needs a filter; an empty mapping {} means every document")
        check_change(
            metadata, self.metadata_filter, lambda count: self.limits.check("metadata_fields", count, "metadata")
        )
        listed = await self.list_documents(filter=filter or None)
        change = DocumentChange(metadata=dict(metadata))
        await self.change_documents({summary.document_id: change for summary in listed}, listed)
        changed_ids = tuple(sorted(summary.document_id for summary in listed))
        if changed_ids:
            event = MetadataUpdated(
                knowledge_base=self.name, document_ids=changed_ids, fields=tuple(sorted(metadata)), trigger=trigger
            )
            await emit(self._on_event, event)
        return list(changed_ids)

    async def change_documents(
        self, changes: Mapping[str, DocumentChange], summaries: Sequence[DocumentSummary]
    ) -> None:
        """Write documents again with another metadata, uri or state, and with the vectors they have.

        Args:
            changes: Document id -> change.
            summaries: As `list_documents` gave them; those without a change are left alone.
        """

        async def read(summary: DocumentSummary) -> list[VectorRecord]:
            limit = self.limits.chunks_per_document
            return await self._records(summary.document_id, offset=0, limit=limit, vectors=True)

        wanted = [summary for summary in summaries if summary.document_id in changes]
        changes = {summary.document_id: _with_its_tables(changes[summary.document_id], summary) for summary in wanted}
        key = scope_key(self.metadata_filter)
        async for batch in batches(wanted, read):
            pairs = [changed(summary, records, changes[summary.document_id]) for summary, records in batch]
            records = [record for _, of_one in pairs for record in of_one]
            await self._stored.replace([summary for summary, _ in pairs], records, key)

    async def keyword_fields(self) -> str | None:
        """What the keyword index of the collection has, as its first chunk says: "words" where an earlier release wrote
        it, else such as "words+title+pairs". None: there are no chunks, or the store has no keyword search."""
        if not self._store.keyword_search:
            return None
        chunk = await self._stored.if_there(None, lambda: first_chunk(self._store, self.collection))
        return None if chunk is None else chunk.analysis or "words"

    @property
    def keyword_notes(self) -> list[str]:
        """What there is to say about the keyword index, one line each: that an earlier release wrote it, or that other
        fields were asked for or would suit what was written through this handle."""
        return list(self._keyword_fields.notes)

    async def reindex_keywords(
        self, *, grams: bool | None = None, on_progress: Callable[[int, int], None] | None = None
    ) -> KeywordReindex:
        """Index the words of the whole collection anew, without embedding: after an upgrade, or with other fields.

        Each document is replaced as a whole, searches go on, and what is done is skipped when it is run again. Nobody
        else should write meanwhile: a document that is replaced while it is read comes back as it was.

        Args:
            grams: As `keyword_grams`; None: by what the collection holds now.
            on_progress: Called with (documents done, documents) after each batch.

        Raises: ConfigurationError: this is a part of a collection (`metadata_filter`), or the store has no keyword
            search.
        """
        if self._metadata_filter is not None:
            raise ConfigurationError(
                f"{self.name!r} is a part of the collection {self.collection!r}, whose chunks are indexed alike; "
                "reindex it from a knowledge base without metadata_filter"
            )
        self._check_mode("keyword")
        if not await self._stored.exists():
            return KeywordReindex()
        report = await reindex_keywords(self._store, self.collection, grams=grams, on_progress=on_progress)
        self._keyword_fields.forget()
        return report

    async def reindex_model(
        self, embedding_model: EmbeddingModelLike, *, on_progress: Callable[[int, int], None] | None = None
    ) -> ModelReindex:
        """Embed the whole collection with another model, while it is searched with the one it has; then switch at once.

        It goes on where a run that was killed left off, and catches up what is written meanwhile. This handle uses the
        new model from the switch on; others get a `ModelMismatchError` a second later, and are made anew with the new
        model. Writers who have not seen the switch lose nothing. Files are not read again, then or at the next sync.

        Args:
            embedding_model: The new one.
            on_progress: Called with (documents done, documents) after each batch.

        Returns: With `switched` False where the store cannot exchange collections (all but SQLite and memory): the
            report then names the collection that has the new vectors, for a KnowledgeBase of its own.
        Raises: ConfigurationError: this is a part of a collection (`metadata_filter`), a seven-method store, or an
            image that the new model cannot embed. EmbeddingError, StoreError: what is done is kept.
        """
        if self._metadata_filter is not None or not self.atomic:
            raise ConfigurationError(
                f"{self.name!r} is a part of the collection {self.collection!r}, or its store has the seven methods "
                "only; reindex it from a knowledge base without metadata_filter, over a store of this package"
            )
        embedder = Embedder(embedding_model)
        self.limits.check("dimensions", embedder.dimensions, f"vectors of the new model of {self.name!r}")

        async def switch() -> None:
            self._use(embedding_model)

        return await Reembedding(self._store, self.collection, embedder, on_progress=on_progress).run(switch)

    # --- reading ---

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
        _check_list("chunk_ids", chunk_ids)
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

    # --- tables ---

    @property
    def keeps_tables(self) -> bool:
        """Whether documents keep typed tables here: it was made with `tables`."""
        return self._tables is not None

    async def list_tables(self, question: str | None = None, *, filter: FilterLike | None = None) -> list[CatalogTable]:
        """The typed tables of the documents of this scope, those first that fit `question`.

        Args:
            filter: On the document's metadata.

        Raises: ConfigurationError: it keeps no tables. StoreDamagedError.
        """
        catalog, _ = await self._with_tables().catalog(lambda: self.list_documents(filter=filter))
        return catalog.ranked(question)

    async def describe_tables(
        self, question: str | None = None, *, filter: FilterLike | None = None, characters: int = 8_000
    ) -> str:
        """Tables with their columns, types, examples and places, as text for whoever writes the SQL.

        Args:
            question: Those that fit it stand first.
            filter: On the document's metadata.
            characters: Length of the text, about; what does not fit is named.

        Raises: as `list_tables`.
        """
        catalog, missing = await self._with_tables().catalog(lambda: self.list_documents(filter=filter))
        return described(catalog.ranked(question), characters=characters, missing=missing)

    async def query_tables(
        self, sql: str, *, filter: FilterLike | None = None, limits: QueryLimits | None = None
    ) -> TableAnswer:
        """Answer one SELECT, in SQLite's language, over the tables of the documents of this scope, and no others.

        Args:
            filter: On the document's metadata: tables of other documents do not exist for the query.
            limits: Of rows, time and size.

        Raises: TableQueryError: it is no SELECT, names what is not there, or takes too long; the message says what is
            nearest. ConfigurationError: no tables are kept. StoreDamagedError.
        """
        return await self._with_tables().answer(
            sql, lambda: self.list_documents(filter=filter), limits or QueryLimits()
        )

    async def sweep_tables(self) -> int:
        """Delete the files of tables that a crash left behind, which no document names. Returns how many."""
        if self._tables is None:
            return 0
        return await self._tables.sweep(await self.list_documents(remembered=True), scope_key(self.metadata_filter))

    async def drop_tables(self) -> None:
        """Delete the tables of the whole collection, of all scopes: for when it was dropped."""
        if self._tables is not None:
            await self._tables.drop()

    def _with_tables(self) -> DocumentTables:
        if self._tables is None:
            raise ConfigurationError(
                f"the knowledge base {self.name!r} keeps no tables; pass tables=FOLDER and ingest again"
            )
        return self._tables

    @property
    def embedder(self) -> Embedder:
        """The embedding model with its answers checked."""
        return self._embedder

    def can_index(self, chunk: Chunk) -> bool:
        """Whether a chunk can be found here: it has text, or is an image that the model embeds."""
        return self._embedder.can_index(chunk)

    # --- inner parts ---

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

    def _check_mode(self, mode: SearchMode) -> None:
        if mode not in ("hybrid", "semantic", "keyword"):
            raise ConfigurationError(f"mode {mode!r} is unknown; use hybrid, semantic or keyword")
        if mode != "keyword" and self.embedding_model is None:
            raise ConfigurationError(f"{mode} search in {self.name!r} needs an embedding model; use mode='keyword'")
        if mode != "semantic" and not self._store.keyword_search:
            raise ConfigurationError(
                f"{mode} search in {self.name!r} needs a store with keyword search; "
                f"{type(self.vector_store).__name__} has none, use mode='semantic'"
            )

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

    async def _other_name(self, name: str) -> str | None:
        spelled = unicodedata.normalize("NFC", name.removeprefix("./"))
        if not os.path.isabs(name):
            return spelled if spelled not in ("", name) else None
        uri = Path(name).as_uri()
        return next((one.document_id for one in await self.list_documents() if one.uri == uri), None)

    async def chunk_counts(self, document_ids: Sequence[str]) -> dict[str, int]:
        """Document id -> number of chunks, of those that are there and have any."""
        listed = await self._summaries(document_ids)
        return {summary.document_id: summary.chunk_count for summary in listed if summary.chunk_count}

    async def _summaries(self, document_ids: Sequence[str]) -> list[DocumentSummary]:
        scope = as_filter(self.metadata_filter)
        listed: list[DocumentSummary] = await self._stored.if_there(
            [], lambda: self._store.list_documents(self.collection, scope, document_ids=document_ids)
        )
        return listed

    async def _deleted(self, document_ids: Sequence[str], *, chunk_count: int, trigger: Trigger) -> None:
        if document_ids:
            event = DocumentsDeleted(
                knowledge_base=self.name, document_ids=tuple(document_ids), chunk_count=chunk_count, trigger=trigger
            )
            await emit(self._on_event, event)

    async def _refused(self, document_ids: Sequence[str], error: Exception, trigger: Trigger) -> None:
        event = DocumentsRefused(
            knowledge_base=self.name,
            document_ids=tuple(document_ids),
            reason=redact(str(error) or type(error).__name__),
            trigger=trigger,
        )
        await emit(self._on_event, event)


def _with_its_tables(change: DocumentChange, summary: DocumentSummary) -> DocumentChange:
    if change.state is None:
        return change
    return change.model_copy(update={"state": with_tables_of(change.state, summary.state)})


def _check_scope(scope: Mapping[str, Any], name: str) -> None:
    if is_node(scope):  # it would be stamped onto records as three fields, and read as a condition
        raise ConfigurationError(f"the scope of {name!r} is a filter node, {dict(scope)!r}; pass field -> scalar")


def _check_list(name: str, value: object) -> None:
    if isinstance(value, str | bytes):
        raise ConfigurationError(f"{name} is the single text {value!r}; pass a list of ids")
