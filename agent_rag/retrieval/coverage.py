"""How much of a query a collection can know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from .lexical import idf

__all__ = ["seen_share"]

Term = TypeVar("Term")


def seen_share(terms: Iterable[Term], frequencies: Mapping[Term, int], documents: int) -> float:
    """Share of the idf mass of a query's terms that the collection has; a term it has not counts as its rarest.

    What a query says in words that no chunk has, keyword search cannot find: a question in another language than the
    documents has a share near 0, and vectors decide.

    Args:
        terms: Of the query; each counts once.
        frequencies: Term -> number of chunks that have it; 0 and missing are the same.
        documents: Number of chunks with terms.

    Returns: In [0, 1]; 1 for a query without terms.
    """
    seen = unseen = 0.0
    for term in set(terms):
        if frequency := frequencies.get(term, 0):
            seen += idf(max(documents, frequency), frequency)
        else:
            unseen += idf(max(documents, 1), 1)
    return seen / (seen + unseen) if seen or unseen else 1.0
