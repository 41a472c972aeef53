"""The KnowledgeBase: the only door to a store."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from ..documents import scope_key
from ..embeddings.base import EmbeddingModelLike
from ..errors import ConfigurationError
from ..filters import FilterLike
from ..retrieval.analysis import WORDS
from ..retrieval.rank import Fusion
from ..stores.native import first_chunk
from ..tables.catalog import CatalogTable
from ..tables.describe import described
from ..tables.query import QueryLimits, TableAnswer
from .changing import Changing
from .embedder import Embedder
from .reembedding import ModelReindex, Reembedding
from .reindexing import KeywordReindex, reindex_keywords
from .tables import DocumentTables


class KnowledgeBase(Changing):
    """Binds an embedding model, a vector store, a collection and, for tenants, a scope.

    It does not open or close the store: enter the store with ``async with`` first. Safe for concurrent use.
    """

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

    async def keyword_fields(self) -> str | None:
        """What the keyword index of the collection has, as its first chunk says: "words" where an earlier release wrote
        it, else such as "words+title+pairs". None: there are no chunks, or the store has no keyword search."""
        if not self._store.keyword_search:
            return None
        chunk = await self._stored.if_there(None, lambda: first_chunk(self._store, self.collection))
        return None if chunk is None else chunk.analysis or WORDS

    @property
    def keyword_notes(self) -> list[str]:
        """What there is to say about the keyword index, one line each: that an earlier release wrote it, or that other
        fields were asked for or would suit what was written through this handle."""
        return list(self._keyword_fields.notes)

    async def reindex_keywords(
        self, *, grams: bool | None = None, on_progress: Callable[[int, int], None] | None = None
    ) -> KeywordReindex:
        """Index the words of the whole collection anew, without embedding: after an upgrade, or with other fields.

        Each document is replaced as a whole, searches and writes go on, and what is done is skipped when it is run
        again. A document that somebody replaces meanwhile is read again.

        Args:
            grams: As `keyword_grams`; None: by what the collection holds now.
            on_progress: Called with (documents done, documents) after each batch.

        Raises: ConfigurationError: this is a part of a collection (`metadata_filter`), or the store has no keyword
            search. StoreError: documents are written all the time; what is done is kept.
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

        Returns: With `switched` False where the store cannot exchange collections (`store.can_exchange`), which is
            logged first: the report then names the collection that has the new vectors, for a KnowledgeBase of its own.
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
