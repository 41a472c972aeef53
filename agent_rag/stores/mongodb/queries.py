"""Filters and search indexes of MongoDB."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..._util.extras import needs
from ...filters import FilterLike
from ..engine.filter_tokens import EVERY, Both, Condition, Either, Has, Lacks, condition_of
from ..engine.records import Vector

Document = dict[str, Any]

_FLOAT32_VECTOR = b"\x27\x00"  # BSON binary subtype 9: 32-bit floats, no padding
_VECTOR_SUBTYPE = 9


def where(metadata_filter: FilterLike | None, *more: Document, without: Collection[str] = ()) -> Document:
    """A query, also for the `filter` of `$vectorSearch`: all of `more`, the filter, and none of the versions."""
    condition = condition_of(metadata_filter)
    parts = [*more, *([] if condition is None else [_query(condition)])]
    if without:
        parts.append({"version": {"$nin": sorted(without)}})
    if not parts:
        return {"tokens": {"$in": [EVERY]}}
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _query(condition: Condition) -> Document:
    match condition:
        case Has(tokens):
            return {"tokens": {"$in": list(tokens)}}
        case Lacks(tokens):
            return {"tokens": {"$nin": list(tokens)}}
        case Both(parts):
            return {"$and": [_query(part) for part in parts]}
        case Either(parts):
            return {"$or": [_query(part) for part in parts]}


def search_clauses(metadata_filter: FilterLike | None, *, without: Collection[str] = ()) -> list[Document]:
    """The same as `filter` clauses of a `compound` in `$search`."""
    condition = condition_of(metadata_filter)
    clauses = [] if condition is None else [_clause(condition)]
    if without:
        clauses.append(_not_in("version", sorted(without)))
    return clauses


def _clause(condition: Condition) -> Document:
    match condition:
        case Has(tokens):
            return {"in": {"path": "tokens", "value": list(tokens)}}
        case Lacks(tokens):
            return _not_in("tokens", list(tokens))
        case Both(parts):
            return {"compound": {"filter": [_clause(part) for part in parts]}}
        case Either(parts):
            return {"compound": {"should": [_clause(part) for part in parts], "minimumShouldMatch": 1}}


def _not_in(path: str, values: Sequence[str]) -> Document:
    # Lucene finds nothing by a negation alone.
    not_these = [{"in": {"path": path, "value": list(values)}}]
    return {"compound": {"filter": [{"exists": {"path": "tokens"}}], "mustNot": not_these}}


def vector_index(name: str, dimensions: int, similarity: str) -> Document:
    """Model of the index for `$vectorSearch`; nothing is quantised, so that scores are exact."""
    vector = {"type": "vector", "path": "vector", "numDimensions": dimensions, "similarity": similarity}
    filters = [{"type": "filter", "path": path} for path in ("tokens", "version")]
    return {"name": name, "type": "vectorSearch", "definition": {"fields": [vector, *filters]}}


def text_index(name: str) -> Document:
    """Model of the index for `$search`: words that `lexical` made, so that nothing but blanks divides them."""
    fields = {
        "text": {"type": "string", "analyzer": "lucene.whitespace"},
        "tokens": {"type": "token"},
        "version": {"type": "token"},
    }
    return {"name": name, "type": "search", "definition": {"mappings": {"dynamic": False, "fields": fields}}}


def matrix_of(stored: Sequence[bytes]) -> Vector:
    """One row for each stored vector."""
    return np.stack([vector_of(one) for one in stored]) if stored else np.empty((0, 0), dtype=np.float32)


def vector_of(stored: bytes) -> Vector:
    return np.frombuffer(stored, dtype="<f4", offset=len(_FLOAT32_VECTOR))


def binary_vector(vector: Vector) -> Any:
    return needs("mongodb", "bson").Binary(_FLOAT32_VECTOR + vector.astype("<f4").tobytes(), _VECTOR_SUBTYPE)
