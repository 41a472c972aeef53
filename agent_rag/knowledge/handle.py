"""What a knowledge base is made of: a model, a store, a collection and a scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..documents import (
    Chunk,
)
from ..embeddings.base import EmbeddingModelLike
from ..errors import ConfigurationError
from ..events import (
    EventCallback,
)
from ..filters.nodes import is_node
from ..limits import Limits
from ..retrieval.fusion import DEFAULT_KEYWORD_WEIGHT
from ..retrieval.rank import Fusion
from ..stores.base import VectorStoreBase
from ..stores.native import NativeStoreBase
from ..stores.seven import SevenMethodAdapter
from ..tables.folder import TableFolder
from .collection import Collection
from .embedder import Embedder
from .keyword_fields import KeywordFields
from .search import SearchMode
from .tables import tables_of

Scope = Mapping[str, Any] | None


class Handle:
    """The parts of a knowledge base, and what its reads and writes ask of them."""

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
    def takes_parts(self) -> bool:
        """Whether `replace_in_parts` works here."""
        return self._store.takes_parts

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

    @property
    def embedder(self) -> Embedder:
        """The embedding model with its answers checked."""
        return self._embedder

    def can_index(self, chunk: Chunk) -> bool:
        """Whether a chunk can be found here: it has text, or is an image that the model embeds."""
        return self._embedder.can_index(chunk)

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


def _check_scope(scope: Mapping[str, Any], name: str) -> None:
    if is_node(scope):  # it would be stamped onto records as three fields, and read as a condition
        raise ConfigurationError(f"the scope of {name!r} is a filter node, {dict(scope)!r}; pass field -> scalar")
