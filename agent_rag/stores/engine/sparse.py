"""BM25 weights as sparse vectors, for engines that rank by a dot product."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...retrieval.lexical import K1, B, term_id

# A chunk's sparse vector carries its own length and the average length its weights were computed with, in two
# dimensions that no query asks for: term frequencies can then be recovered, and scores computed for any statistics.
_LENGTH, _AVERAGE = 2**32 - 1, 2**32 - 2


@dataclass(frozen=True, slots=True)
class Terms:
    """Term frequencies of one chunk by `term_id`."""

    ids: list[int]
    frequencies: list[int]
    length: int

    @classmethod
    def of(cls, tokens: Iterable[str]) -> Terms:
        counted = Counter(map(term_id, tokens))
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


def by_term_id(weights: Mapping[str, float]) -> dict[int, float]:
    """Weights of a query's tokens by `term_id`."""
    found: dict[int, float] = {}
    for token, weight in weights.items():
        found[term_id(token)] = found.get(term_id(token), 0.0) + weight
    return found


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
    # Half the time of np.array.
    terms = np.frombuffer(array("I", ids), np.uint32)
    return Postings(terms, np.array(weights, np.float64), np.array(sizes, np.int64))


def of_terms(
    sparse: tuple[Sequence[int], Sequence[float]], terms: Sequence[int]
) -> tuple[Sequence[int], Sequence[float]]:
    """What `decode` needs for the scores of `terms`: a tenth of a sparse vector whose indices ascend."""
    indices, values = sparse
    if not indices:
        return sparse
    places = [place for term in terms if indices[place := bisect_left(indices, term)] == term]
    return [*(indices[place] for place in places), *indices[-2:]], [*(values[place] for place in places), *values[-2:]]


class Postings:
    """Terms of several points: `point`, `term` and `frequency` side by side, `lengths` and `averages` by point."""

    def __init__(
        self, ids: npt.NDArray[np.uint32], weights: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64]
    ) -> None:
        points = np.repeat(np.arange(len(sizes)), sizes)
        self.lengths = self._by_point(len(sizes), points, ids, weights, _LENGTH)
        self.averages = self._by_point(len(sizes), points, ids, weights, _AVERAGE)
        kept = ids < _AVERAGE
        self.point, self.term, weights = points[kept], ids[kept], weights[kept]
        base = K1 * (1 - B + B * self.lengths / np.maximum(self.averages, 1e-9))
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
