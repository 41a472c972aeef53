"""What both Qdrant engines share: the payload layout, filters, and BM25 weights as sparse vectors.

A chunk is a point with the vectors `DENSE` and `SPARSE`; a document is a point without vectors, its head, which holds
the summary and names the version that counts. Only what filters look at is indexed; the chunk itself is one JSON text,
so that it comes back as it was (integers above 2**63, null, nested and dotted keys).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..documents import Chunk, DocumentSummary, VectorRecord
from ..errors import StoreError
from ..filters.plan import AllOf, AnyOf, HasAny, InRange, NotOf, Plan, index_metadata
from ..retrieval.lexical import K1, B, term_id, tokenize
from ._records import Prepared
from .base import FORMAT_VERSION, CollectionInfo

DENSE, SPARSE = "d", "k"
CHUNK = "c"
"""The chunk as JSON text."""
TOKENS = "x"
"""Filter tokens, a list of keywords; on a head those of the document's metadata."""
KIND = "t"
"""`HEAD` on heads, missing on chunks."""
HEAD = "head"
SUMMARY = "h"
"""On a head: the DocumentSummary as JSON text."""

Distance = Literal["Cosine", "Dot", "Euclid", "Manhattan"]

# A chunk's sparse vector carries its own length and the average length its weights were computed with, in two
# dimensions that no query asks for: term frequencies can then be recovered, and scores computed for any statistics.
_LENGTH, _AVERAGE = 2**32 - 1, 2**32 - 2


def number_field(key: str) -> str:
    """Payload name of a range key; hashed, since keys are any text and payload paths are not."""
    return f"n_{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def metadata_payload(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a payload that filters look at."""
    indexed = index_metadata(metadata)
    numbers = {number_field(key): value for key, value in indexed.numbers.items()}
    return {TOKENS: list(indexed.tokens), **numbers}


def score_of(raw: float, distance: str) -> float:
    """Higher is better: cosine within [-1, 1], distances negated."""
    if distance == "Cosine":
        return min(1.0, max(-1.0, raw))
    return raw if distance == "Dot" else -raw + 0.0


class Dialect(Protocol):
    """How one client spells conditions."""

    def any_token(self, tokens: Sequence[str]) -> Any:
        """`TOKENS` has one of `tokens`; none at all is never true."""

    def in_range(self, field: str, bounds: Mapping[str, float]) -> Any:
        """The number called `field` is within `bounds`."""

    def combine(self, must: Sequence[Any] = (), should: Sequence[Any] = (), must_not: Sequence[Any] = ()) -> Any:
        """All of `must`, one of `should` where there are some, none of `must_not`."""


def translate(node: Plan, dialect: Dialect) -> Any:
    """A plan as a condition of one of the clients."""
    match node:
        case HasAny(tokens):
            return dialect.any_token(tokens)
        case InRange(key, bounds):
            return dialect.in_range(number_field(key), dict(bounds))
        case AllOf(parts):
            return dialect.combine(must=[translate(part, dialect) for part in parts])
        case AnyOf(parts):
            # An empty `should` is no condition at all.
            return dialect.combine(should=[translate(part, dialect) for part in parts] or [dialect.any_token(())])
        case NotOf(part):
            return dialect.combine(must_not=[translate(part, dialect)])


def range_keys(node: Plan | None) -> set[str]:
    """Payload names of the numbers that `node` compares."""
    match node:
        case InRange(key, _):
            return {number_field(key)}
        case AllOf(parts) | AnyOf(parts):
            return {name for part in parts for name in range_keys(part)}
        case NotOf(part):
            return range_keys(part)
    return set()


@dataclass(frozen=True, slots=True)
class Terms:
    """Term frequencies of one text by `term_id`."""

    ids: list[int]
    frequencies: list[int]
    length: int

    @classmethod
    def of(cls, text: str) -> Terms:
        counted = Counter(map(term_id, tokenize(text)))
        return cls(list(counted), list(counted.values()), counted.total())

    def sparse(self, average: float) -> tuple[list[int], list[float]]:
        """Indices and values of the sparse vector; both empty for a text without tokens."""
        if not self.ids:
            return [], []
        base = K1 * (1 - B + B * self.length / average)
        weights = [frequency / (frequency + base) for frequency in self.frequencies]
        return sparse_vector(self.ids, weights, self.length, average)


def sparse_vector(ids: list[int], weights: list[float], length: float, average: float) -> tuple[list[int], list[float]]:
    """Indices and values, with the two that make them readable again."""
    return [*ids, _LENGTH, _AVERAGE], [*weights, float(length), average]


def storable_average(average: float) -> float:
    """`average` as the 32-bit float that comes back, at least 1."""
    return float(np.float32(max(average, 1.0)))


def decode(sparse: Iterable[tuple[Sequence[int], Sequence[float]]]) -> Postings:
    """The postings in the sparse vectors of some points."""
    ids: list[int] = []
    weights: list[float] = []
    sizes: list[int] = []
    for indices, values in sparse:
        ids += indices
        weights += values
        sizes.append(len(indices))
    return Postings(np.array(ids, np.uint32), np.array(weights, np.float64), np.array(sizes, np.int64))


def term_counts(indices: Sequence[int]) -> dict[int, int]:
    """Term -> number of times it occurs among the indices of sparse vectors."""
    terms, counts = np.unique(np.array(indices, np.uint32), return_counts=True)
    found = dict(zip(terms.tolist(), counts.tolist(), strict=True))
    for marker in (_LENGTH, _AVERAGE):
        found.pop(marker, None)
    return found


class Postings:
    """Terms of several points: `point`, `term` and `frequency` side by side, and `lengths` by point."""

    def __init__(
        self, ids: npt.NDArray[np.uint32], weights: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64]
    ) -> None:
        points = np.repeat(np.arange(len(sizes)), sizes)
        self.lengths = self._by_point(len(sizes), points, ids, weights, _LENGTH)
        average = self._by_point(len(sizes), points, ids, weights, _AVERAGE)
        kept = ids < _AVERAGE
        self.point, self.term, weights = points[kept], ids[kept], weights[kept]
        base = K1 * (1 - B + B * self.lengths / np.maximum(average, 1e-9))
        self.frequency = np.rint(weights * base[self.point] / np.maximum(1 - weights, 1e-9))

    @staticmethod
    def _by_point(
        count: int,
        points: npt.NDArray[np.int64],
        ids: npt.NDArray[np.uint32],
        weights: npt.NDArray[np.float64],
        dimension: int,
    ) -> npt.NDArray[np.float64]:
        found = np.zeros(count)
        at = ids == dimension
        found[points[at]] = weights[at]
        return found

    def frequencies_by_term(self) -> dict[int, int]:
        """Term -> number of points that have it."""
        terms, counts = np.unique(self.term, return_counts=True)
        return dict(zip(terms.tolist(), counts.tolist(), strict=True))

    def bm25(self, query: Mapping[int, float], average: float) -> list[float]:
        """Scores by point.

        Args:
            query: Term -> idf, times its count in the query.
            average: Average length of the collection's chunks that have tokens.
        """
        wanted = np.array(sorted(query), np.uint32)
        at = np.minimum(np.searchsorted(wanted, self.term), len(wanted) - 1)
        hit = wanted[at] == self.term
        idf = np.array([query[term] for term in wanted.tolist()])[at[hit]]
        point, frequency = self.point[hit], self.frequency[hit]
        base = K1 * (1 - B + B * self.lengths[point] / average)
        scores = np.bincount(point, idf * frequency / (frequency + base), minlength=len(self.lengths))
        found: list[float] = scores.tolist()
        return found


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A record as it is written, computed off the event loop and before the engine is asked."""

    index: int
    vector: list[float]
    payload: dict[str, Any]
    terms: Terms

    @classmethod
    def of(cls, record: VectorRecord, vector: list[float]) -> PreparedChunk:
        chunk = record.chunk
        payload = {CHUNK: chunk.model_dump_json(), **metadata_payload(chunk.metadata)}
        return cls(chunk.chunk_index, vector, payload, Terms.of(chunk.indexed_text))


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document as it is written."""

    summary: DocumentSummary
    chunks: list[PreparedChunk]
    """By index, each once."""
    given: bool
    """Whether the summary was passed to `replace`."""

    @property
    def name(self) -> tuple[str, str]:
        """``(scope, document id)``."""
        return self.summary.scope, self.summary.document_id


def prepare_documents(
    summaries: Sequence[DocumentSummary], prepared: Prepared, *, given: bool
) -> list[PreparedDocument]:
    """Everything about the documents that needs no engine: JSON, tokens, terms. For a worker thread."""
    chunks: dict[tuple[str, str], list[PreparedChunk]] = {
        (summary.scope, summary.document_id): [] for summary in summaries
    }
    for record, vector in zip(prepared.records, prepared.matrix.tolist(), strict=True):
        chunks[record.scope, record.document_id].append(PreparedChunk.of(record, vector))
    return [
        PreparedDocument(
            summary, sorted(chunks[summary.scope, summary.document_id], key=lambda chunk: chunk.index), given
        )
        for summary in summaries
    ]


def check_format(info: CollectionInfo) -> None:
    """Raises: StoreError: a later version of this package wrote the collection."""
    if info.format_version > FORMAT_VERSION:
        raise StoreError(
            f"collection {info.name!r} has format {info.format_version}, this version reads up to {FORMAT_VERSION}; "
            "upgrade agent-rag-middleware"
        )


def parse_chunk(text: str) -> Chunk:
    return Chunk.model_validate_json(text)


def cut_ties(found: Callable[[int], list[tuple[Any, float]]], limit: int, count: int) -> list[tuple[Any, float]]:
    """The best hits, asking for more while the last one ties with the one at `limit`, so that ties are cut by key.

    Args:
        found: ``found(n)``: the best `n` hits, best first.
        count: First `n` to ask for, above `limit`.
    """
    while True:
        hits = found(count)
        if len(hits) < count or hits[-1][1] < hits[limit - 1][1]:
            return hits
        count *= 4
