"""BM25 over the table of postings, with the statistics of the moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...retrieval.lexical import K1, B, idf
from ..engine.records import without_keyword
from .connection import Session
from .copy import term_key
from .filters import Values
from .schema import Collection


async def term_weights(session: Session, collection: Collection, tokens: Mapping[str, float]) -> dict[int, float]:
    """Key of each of `tokens` that is indexed -> its inverse document frequency, times its weight.

    Raises: ConfigurationError: the collection has no keyword index.
    """
    if not collection.keyword:
        raise without_keyword(collection.info.name)
    terms = {term_key(token): weight for token, weight in tokens.items()}
    if not terms or not collection.worded:
        return {}
    found = await frequencies(session, collection, terms)
    return {term: terms[term] * idf(collection.worded, frequency) for term, frequency in found.items()}


async def word_counts(session: Session, collection: Collection, tokens: Sequence[str]) -> dict[str, int]:
    """Number of chunks that have each token; those of none left out."""
    keys = {term_key(token): token for token in tokens}
    counted = await frequencies(session, collection, keys) if collection.keyword else {}
    return {keys[term]: frequency for term, frequency in counted.items()}


async def frequencies(session: Session, collection: Collection, terms: Iterable[int]) -> dict[int, int]:
    """Number of chunks by key of a token, of those that are indexed.

    Counted for each search (3 ms for the 39,000 postings of a median question at 100k chunks): kept counts would make
    all writers wait for each other at every common word.
    """
    rows = await session.fetch(
        f"SELECT term, count(*) AS frequency FROM {collection.postings} WHERE term = ANY($1::int8[]) GROUP BY term",
        list(terms),
    )
    return {row["term"]: row["frequency"] for row in rows}


def ranking_sql(
    collection: Collection, weights: dict[int, float], limit: int, values: Values, among: str | None = None
) -> str:
    """A query for (chunk, weight) of the best `limit` chunks, and of those with the score of the last one.

    Args:
        among: A condition over the alias ``c`` for the only chunks that count.
    """
    average = collection.words / collection.worded
    norm = f"({values.bind(K1 * (1 - B), 'float8')} + {values.bind(K1 * B / average, 'float8')} * p.length)"
    terms = values.bind(list(weights), "int8[]")
    numbers = values.bind(list(weights.values()), "float8[]")
    chunks = f"(SELECT c.id FROM {collection.chunk_table} c WHERE {among})"
    return (
        f"SELECT p.chunk, sum(q.weight / (1 + {norm} / p.frequency)) AS weight "
        f"FROM unnest({terms}, {numbers}) AS q(term, weight) JOIN {collection.postings} p ON p.term = q.term "
        f"{'' if among is None else f'WHERE p.chunk IN {chunks} '}GROUP BY p.chunk "
        f"ORDER BY weight DESC FETCH FIRST ({values.bind(limit, 'int8')}) ROWS WITH TIES"
    )
