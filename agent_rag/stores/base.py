"""The contract of a vector store.

Its seven methods are enough for a third-party store: the KnowledgeBase then calls it with their arguments only. A store
that does more subclasses `NativeStoreBase` of `agent_rag.stores.native`, which says what more is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from pydantic import BaseModel

from ..documents import Chunk, ChunkKey, DocumentSummary, Signals, VectorRecord, VectorSearchResult, storable_text
from ..filters import FilterLike
from ..retrieval.analysis import query_weights
from ..retrieval.lexical import ENGLISH, tokenize

__all__ = ["CollectionInfo", "RetrieveRequest", "StoreHealth", "VectorStoreBase", "retrieve_steps"]

FORMAT_VERSION = 1


class CollectionInfo(BaseModel):
    """What a collection remembers of itself."""

    name: str
    dimensions: int
    """0 for a collection without vectors (keyword search only)."""
    fingerprint: str | None = None
    """Embedding model it was built with; None until known."""
    distance: str = "Cosine"
    format_version: int = FORMAT_VERSION


class Scored(NamedTuple):
    """A chunk's identity with one score; higher is better."""

    key: ChunkKey
    score: float


RankFunction = Callable[[list[list[Scored]], list[list[Scored]], dict[ChunkKey, Signals]], list[Scored]]
"""``rank(semantic, keyword, signals)``: one list per vector and per text, best first, and every candidate's signals;
returns what to keep, best first."""


@dataclass(frozen=True)
class RetrieveRequest:
    """One search, run by a store against one state of the collection."""

    vectors: Sequence[Sequence[float]] = ()
    texts: Sequence[str] = ()
    limit: int = 5
    candidates: int = 100
    """Length of each list that goes into `rank`."""
    metadata_filter: FilterLike | None = None
    rank: RankFunction | None = None
    """None: a single list is passed through."""
    seen: list[float] | None = None
    """Where given, filled before `rank`: for each text, the share of it that the collection has (`Seen`)."""
    grams: bool = True
    """Whether texts ask for parts of words, too: False where the collection is known to have none (see
    `agent_rag.retrieval.analysis`)."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Misspelt word of the texts -> the word that is asked for beside it."""
    language: str = ENGLISH
    """Of the collection, where it is known to have another."""

    def weights(self, text: str) -> dict[str, float]:
        """The tokens of one of the texts, with their weights."""
        return query_weights(
            storable_text(text), grams=self.grams, corrections=self.corrections, language=self.language
        )


# What a store must be able to do for `retrieve`, as steps that a driver answers (see `retrieve_steps`).
@dataclass(frozen=True)
class Nearest:
    """Best `limit` chunks by similarity to `vector`; only among `keys` where given. Answer: list[Scored]."""

    vector: Sequence[float]
    limit: int
    metadata_filter: FilterLike | None
    keys: Sequence[ChunkKey] | None = None


@dataclass(frozen=True)
class Keyword:
    """Best `limit` chunks by BM25 of `text`, scores above 0 only. Answer: list[Scored]."""

    text: str
    limit: int
    metadata_filter: FilterLike | None
    weights: Mapping[str, float]
    """The tokens of `text`, each with its weight (`query_weights`)."""


@dataclass(frozen=True)
class Seen:
    """How much of a text the collection has. Answer: `retrieval.coverage.seen_share` of its words."""

    words: Sequence[str]
    """Tokens of the text (`tokenize`), without those of other fields."""


@dataclass(frozen=True)
class Get:
    """The chunks of `keys`. Answer: dict[ChunkKey, Chunk]; missing ones are left out."""

    keys: Sequence[ChunkKey]


Step = Nearest | Keyword | Seen | Get


def retrieve_steps(request: RetrieveRequest) -> Generator[Step, Any, list[VectorSearchResult]]:
    """The search itself, without I/O: yields steps and receives their answers, so that an embedded store can drive it
    inside one thread job and a server store inside one transaction.

    Every candidate ends with its semantic signal when there is a vector, also one that only a keyword list found.
    """
    length = request.limit if request.rank is None else request.candidates
    semantic: list[list[Scored]] = []
    for vector in request.vectors:
        semantic.append((yield Nearest(vector, length, request.metadata_filter)))
    keyword: list[list[Scored]] = []
    for text in request.texts:
        keyword.append((yield Keyword(storable_text(text), length, request.metadata_filter, request.weights(text))))
    if request.seen is not None:
        shares: list[float] = []
        for text in request.texts:
            shares.append((yield Seen(tokenize(storable_text(text), request.language))))
        request.seen[:] = shares
    if request.vectors and keyword:
        seen = [{hit.key for hit in ranking} for ranking in semantic]
        found = dict.fromkeys(hit.key for ranking in (*semantic, *keyword) for hit in ranking)
        extra = []
        for vector, known in zip(request.vectors, seen, strict=True):
            missing = [key for key in found if key not in known]
            extra.append((yield Nearest(vector, len(missing), None, missing)) if missing else [])
    else:
        extra = []
    signals = _signals(semantic, extra, keyword)
    if request.rank is not None:
        ranked = request.rank(semantic, keyword, signals)
    else:
        ranked = next(iter(semantic or keyword), [])
    ranked = ranked[: request.limit]
    chunks: Mapping[ChunkKey, Chunk] = (yield Get([hit.key for hit in ranked])) if ranked else {}
    return [_result(hit, chunks[hit.key], signals.get(hit.key)) for hit in ranked if hit.key in chunks]


def _result(hit: Scored, chunk: Chunk, signals: Signals | None) -> VectorSearchResult:
    return VectorSearchResult(
        score=hit.score,
        document_id=hit.key.document_id,
        chunk=chunk,
        signals=signals or Signals(),
        scope=hit.key.scope,
    )


def _signals(
    semantic: list[list[Scored]], extra: list[list[Scored]], keyword: list[list[Scored]]
) -> dict[ChunkKey, Signals]:
    cosines: dict[ChunkKey, float] = {}
    for hit in (hit for ranking in (*semantic, *extra) for hit in ranking):
        cosines[hit.key] = max(hit.score, cosines.get(hit.key, hit.score))
    weights: dict[ChunkKey, float] = {}
    for hit in (hit for ranking in keyword for hit in ranking):
        weights[hit.key] = max(hit.score, weights.get(hit.key, hit.score))
    return {
        key: Signals(semantic=cosines.get(key), keyword=weights.get(key)) for key in dict.fromkeys((*cosines, *weights))
    }


@dataclass
class StoreHealth:
    """Answer of `ping`."""

    ok: bool
    detail: str = ""
    facts: dict[str, str] = field(default_factory=dict)


class VectorStoreBase(ABC):
    """Where records live.

    Use it inside ``async with store:``; entering opens the connection, leaving closes it, and a closed store raises
    StoreClosedError. `open` and `close` are the same without a block, for notebooks and services. Arguments are never
    changed. Scores follow DESIGN: higher is better, cosine in [-1, 1] for cosine collections, negated distance
    otherwise. Equal scores are ordered by (scope, document id, chunk index).
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        return None

    async def open(self) -> Self:
        """Enter without a block; opened twice, it is closed by the second `close`."""
        return await self.__aenter__()

    async def close(self) -> None:
        """Leave what `open` entered."""
        await self.__aexit__(None, None, None)

    @abstractmethod
    async def create_collection(self, name: str, dimensions: int) -> None:
        """Create an empty collection; nothing happens when it exists."""

    @abstractmethod
    async def delete_collection(self, name: str) -> None:
        """Drop a collection with all its records; nothing happens when it does not exist."""

    @abstractmethod
    async def has_collection(self, name: str) -> bool:
        """Whether the collection exists."""

    @abstractmethod
    async def insert(self, collection: str, records: list[VectorRecord]) -> None:
        """Add records; one with the same (scope, document id, chunk index) is overwritten, the last one wins."""

    @abstractmethod
    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> int | None:
        """Remove every record of a document, within `metadata_filter`. Returns the number of chunks removed."""

    @abstractmethod
    async def search(
        self, collection: str, query_vector: list[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        """The `top_k` most similar records, best first; [] when `top_k` <= 0."""

    @abstractmethod
    async def list_documents(self, collection: str, metadata_filter: Any = None) -> list[DocumentSummary]:
        """Every document, ordered by (scope, document id). A filter looks at the document's metadata."""

    async def ping(self) -> StoreHealth:
        """Whether the store answers, for `agent-rag doctor`."""
        return StoreHealth(ok=True)
