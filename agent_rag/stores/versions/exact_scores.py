"""Scores computed here, for engines whose own are rounded, bent or of other statistics."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...retrieval.lexical import term_weight

Term = TypeVar("Term", bound=Hashable)
Floats = npt.NDArray[np.float64]


def bm25(counted: Mapping[Term, int], length: int, weights: Mapping[Term, float], average_length: float) -> float:
    """BM25 of one text.

    Args:
        counted: Term -> number of times the text has it; other terms than those of `weights` may be left out.
        length: Number of tokens of the text.
        weights: Query frequency times idf, by term.
        average_length: Of the collection's texts that have tokens.
    """
    return sum(
        weight * term_weight(counted[term], length, average_length)
        for term, weight in weights.items()
        if counted.get(term)
    )


def similarities(distance: str, query: npt.NDArray[np.float32], matrix: npt.NDArray[np.float32]) -> Floats:
    """Cosine, dot product or negated Euclidean distance of each row of `matrix` to `query`, in 64-bit floats."""
    rows, wanted = matrix.astype(np.float64), query.astype(np.float64)
    if not len(rows):
        return np.empty(0)
    if distance == "Euclid":
        distances: Floats = np.sqrt(((rows - wanted) ** 2).sum(axis=1))
        return 0.0 - distances
    products: Floats = (rows * wanted).sum(axis=1)
    if distance == "Dot":
        return products
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(wanted)
    cosines: Floats = np.clip(products / np.where(sizes > 0, sizes, 1.0), -1.0, 1.0)
    return cosines
