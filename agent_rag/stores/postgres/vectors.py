"""Comparing vectors in SQL: with pgvector's operators, or with plain arrays on a stock server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import ConfigurationError
from ..base import CollectionInfo
from ..engine.records import Matrix, query_vector
from .connection import Session
from .copy import Engine
from .filters import Values

logger = logging.getLogger("agent_rag")

VectorChoice = Literal["auto", "pgvector", "array"]
OLDEST_PGVECTOR = (0, 8)
"""The first version with iterative scans."""
MAX_VECTOR_DIMENSIONS = 16_000
MAX_INDEXED_DIMENSIONS = 2_000
MAX_HALF_DIMENSIONS = 4_000

# Cosine vectors are stored with length 1 and compared by inner product: cheaper, and a vector of zeros scores 0
# instead of NaN.
_OPERATORS = {"Cosine": "<#>", "Dot": "<#>", "Euclid": "<->", "Manhattan": "<+>"}
_CLASSES = {"Cosine": "ip", "Dot": "ip", "Euclid": "l2", "Manhattan": "l1"}
# On a stock server each element is a subscript and each number of the query a value of its own: 4.8 us per vector of
# 256, against 19.5 with unnest and sum.
_TERMS = {"Cosine": "{a}*{b}", "Dot": "{a}*{b}", "Euclid": "({a}-{b})*({a}-{b})", "Manhattan": "abs({a}-{b})"}
_WHOLE = {"Cosine": "-({sum})", "Dot": "-({sum})", "Euclid": "sqrt({sum})", "Manhattan": "({sum})"}
_MAX_TERMS = 4_000
"""A statement takes 32,767 values; above this one array is bound."""
_GROUP = 64
"""Terms that are added in a row; one long sum would be a deep tree."""


@dataclass(frozen=True)
class Extension:
    """pgvector in a database."""

    schema: str
    """Empty: the search path decides."""
    version: str

    @property
    def _qualifier(self) -> str:
        quoted = self.schema.replace('"', '""')
        return f'"{quoted}".' if quoted else ""

    @property
    def vector(self) -> str:
        return f"{self._qualifier}vector"

    @property
    def halfvec(self) -> str:
        return f"{self._qualifier}halfvec"

    def operator(self, symbol: str) -> str:
        return f"OPERATOR({self._qualifier}{symbol})"

    def operator_class(self, name: str) -> str:
        return f"{self._qualifier}{name}"


async def find_extension(session: Session) -> tuple[Extension | None, str]:
    """pgvector as installed in this database, or None and the reason; "" for one that only has to be created."""
    row = await session.fetch_one(
        "SELECT n.nspname AS schema, e.extversion AS version, a.default_version AS available "
        "FROM (VALUES ('vector')) v(name) LEFT JOIN pg_extension e ON e.extname = v.name "
        "LEFT JOIN pg_namespace n ON n.oid = e.extnamespace "
        "LEFT JOIN pg_available_extensions a ON a.name = v.name"
    )
    version = row["version"] or row["available"]
    if version is None:
        return None, "the server does not have it"
    if _numbers(version) < OLDEST_PGVECTOR:
        return None, f"its version {version} is older than 0.8"
    return (Extension(row["schema"], version), "") if row["version"] is not None else (None, "")


def engine_for(dimensions: int, extension: Extension | None) -> Engine:
    """How a new collection keeps its vectors."""
    if dimensions == 0:
        return "none"
    if extension is None:
        return "array"
    if dimensions > MAX_VECTOR_DIMENSIONS:
        logger.warning(
            "pgvector holds up to %d dimensions; a collection of %d is kept in arrays, without an index",
            MAX_VECTOR_DIMENSIONS,
            dimensions,
        )
        return "array"
    return "pgvector"


def column_type(dimensions: int, engine: Engine, extension: Extension | None) -> str:
    """SQL type of the vector column, "" for none."""
    match engine:
        case "pgvector":
            assert extension is not None
            return f"{extension.vector}({dimensions})"
        case "array":
            return "float4[]"
    return ""


def operator_class(extension: Extension, distance: str, *, half: bool) -> str:
    """Operator class of an HNSW index."""
    return extension.operator_class(f"{'halfvec' if half else 'vector'}_{_CLASSES[distance]}_ops")


def distance_sql(
    collection: CollectionInfo,
    engine: Engine,
    extension: Extension | None,
    query: Sequence[float],
    values: Values,
    *,
    half: bool = False,
) -> str:
    """An expression over ``c.embedding`` that is smaller for nearer vectors: the negated score.

    Args:
        query: From `stored_query`; it is bound to `values`.
        half: Compare in half precision, as an index of more than 2,000 dimensions does.

    Raises: ConfigurationError: the collection needs pgvector, and there is none.
    """
    if engine == "array":
        return _array_distance(collection.distance, query, values)
    if extension is None:
        raise ConfigurationError(
            f"collection {collection.name!r} was built with pgvector, which this database lacks; "
            "run CREATE EXTENSION vector"
        )
    operator = extension.operator(_OPERATORS[collection.distance])
    bound = f"{values.bind(query, 'float4[]')}::{extension.vector}"
    if half:
        kind = f"{extension.halfvec}({collection.dimensions})"
        return f"(c.embedding::{kind} {operator} {bound}::{kind})"
    return f"(c.embedding {operator} {bound})"


def _array_distance(distance: str, query: Sequence[float], values: Values) -> str:
    term, whole = _TERMS[distance], _WHOLE[distance]
    if len(query) > _MAX_TERMS:
        pairs = f"unnest(c.embedding, {values.bind(query, 'float8[]')}) AS u(a, b)"
        return whole.format(sum=f"SELECT sum({term.format(a='a', b='b')}) FROM {pairs}")
    terms = [
        term.format(a=f"c.embedding[{place}]", b=values.bind(number, "float8")) for place, number in enumerate(query, 1)
    ]
    groups = ("+".join(terms[start : start + _GROUP]) for start in range(0, len(terms), _GROUP))
    return whole.format(sum="+".join(f"({group})" for group in groups))


def stored_matrix(matrix: Matrix, distance: str) -> Matrix:
    """What is written for `matrix`: unit vectors for cosine."""
    if distance != "Cosine":
        return matrix
    sizes = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    unit: Matrix = (matrix / np.where(sizes > 0, sizes, 1.0)[:, None]).astype(np.float32)
    return unit


def stored_query(info: CollectionInfo, vector: Sequence[float]) -> list[float]:
    """A checked query as it is bound.

    Raises: DimensionMismatchError: another size than the collection's. ValueError: a number is not finite.
    """
    query = query_vector(info.name, info.dimensions, vector)
    numbers: list[float] = stored_matrix(query[None, :], info.distance)[0].tolist()
    return numbers


def score_of(distance: float | None, metric: str) -> float:
    """The score of a distance from `distance_sql`."""
    score = 0.0 - (distance or 0.0)
    return min(1.0, max(-1.0, score)) if metric == "Cosine" else score


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
