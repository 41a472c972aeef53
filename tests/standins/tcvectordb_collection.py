"""A collection of the Tencent Cloud VectorDB stand-in: its schema, its documents, and the searches over them.

Stands for: a collection of a base database, after the pages create (95116), upsert, query (95122), search
(95123), hybridSearch (111377), delete (95124) of product 1709. Scores, as documented: COSINE the cosine, IP
the inner product, L2 the distance (smaller is nearer); weighted fusion is the plain weighted sum of the raw
scores (the page's example shows no normalisation), RRF is sum of 1 / (k + rank), rank from 1. Vectors and
scores have float32 precision, as in the vendor's examples.

Does not do: approximation (FLAT, HNSW, IVF all search exactly), binary vectors, TTL deletion, aggregates.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from .tcvectordb_filter import Document, Filter, FilterError, Predicate, Schema

PARAMETER: Final = 15000
NO_DATABASE: Final = 15301
NO_COLLECTION: Final = 15302

MODELS: Final = {
    "bge-base-zh": 768,
    "bge-large-zh": 1024,
    "m3e-base": 768,
    "multilingual-e5-base": 768,
    "e5-large-v2": 1024,
    "text2vec-large-chinese": 1024,
    "BAAI/bge-m3": 1024,
    "bge-m3": 1024,
}
"""Embedding model -> dimension, as the SDKs list them."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,127}")
_VECTOR_TYPES: Final = ("vector", "float16_vector", "bfloat16_vector")
_VECTOR_INDEXES: Final = {
    "FLAT",
    "HNSW",
    "DISK_FLAT",
    "IVF_FLAT",
    "IVF_PQ",
    "IVF_SQ4",
    "IVF_SQ8",
    "IVF_SQ16",
    "IVF_RABITQ",
}
_SCALAR_TYPES: Final = ("string", "uint64", "int64", "double", "array", "json")
_INDEX_FIELDS: Final = {
    "fieldName",
    "fieldType",
    "indexType",
    "dimension",
    "metricType",
    "params",
    "indexedCount",
    "autoId",
    "enableValueCache",
    "fieldElementType",
    "diskSwapEnabled",
}
MAX_UPSERT = 1_000
MAX_IDS = 20
MAX_DELETE_IDS = 1_000
MAX_LIMIT = 16_384


class VectorDBError(Exception):
    """An error as the server reports it: `{code, msg}`."""

    def __init__(self, code: int, message: str, *, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


def refuse(message: str) -> VectorDBError:
    return VectorDBError(PARAMETER, message)


def known(body: Any, allowed: Iterable[str], where: str) -> None:
    """Refuse what is no object and fields that the documentation does not have."""
    if not isinstance(body, Mapping):
        raise refuse(f"{where} has to be an object")
    unknown = sorted(set(body) - set(allowed))
    if unknown:
        raise refuse(f"unknown field '{unknown[0]}' in {where}")


def check_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refuse(f"{what} name {name!r} is invalid: letters, digits, _ and -, a letter first, length [1,128]")
    return name


def whole(body: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refuse(f"{name} {value!r} is out of range [{least},{most}]")
    return value


def embed(text: str, dimension: int) -> list[float]:
    """The stand-in embedding: the normalised sum of a pseudo-random vector per word or CJK character.

    Equal texts get equal vectors, texts that share words are near, others nearly orthogonal.
    """
    total = np.zeros(dimension)
    for token in re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+", text.lower()) or [text]:
        seed = int.from_bytes(hashlib.sha256(token.encode()).digest()[:8], "big")
        total += np.random.default_rng(seed).standard_normal(dimension)
    return [float(x) for x in (total / np.linalg.norm(total)).astype(np.float32)]


def _float32(value: float) -> float:
    return float(np.float32(value))


class Collection:
    """One collection.

    Args:
        body: The request of /collection/create, checked here.
        replica_lag_s: How long eventual reads lag behind writes.
        escapes: Whether filters may escape quotes (see `tcvectordb_filter`).
        missing_matches_negation: See `tcvectordb_filter`.
    """

    def __init__(
        self, body: Mapping[str, Any], *, replica_lag_s: float, escapes: bool, missing_matches_negation: bool
    ) -> None:
        self.database: str = body["database"]
        self.name = check_name(body.get("collection"), "collection")
        self.shards = whole(body, "shardNum", 1, 1, 100)
        self.replicas = whole(body, "replicaNum", 0, 0, 9)
        self.description: str | None = body.get("description")
        self.ttl = body.get("ttlConfig")
        self.created = time.strftime("%Y-%m-%d %H:%M:%S")
        self.aliases: list[str] = []
        self.docs: dict[str, Document] = {}
        self._replica: dict[str, Document] = {}
        self._pending: list[tuple[float, str, Document | None]] = []
        self._replica_lag_s = replica_lag_s
        self._escapes = escapes
        self._missing = missing_matches_negation
        self._configure_full_index(body.get("filterIndexConfig") or {})
        self.indexes: dict[str, Document] = {}
        for index in body.get("indexes") or []:
            self.add_index(index)
        if not any(index["indexType"] == "primaryKey" for index in self.indexes.values()):
            raise refuse("indexes must have one primaryKey")
        if not any(index["fieldType"] in (*_VECTOR_TYPES, "sparseVector") for index in self.indexes.values()):
            raise refuse("indexes must have a vector or a sparseVector")
        self.embedding = self._embedding(body.get("embedding") or {})

    # --- schema ---

    def _configure_full_index(self, config: Any) -> None:
        known(config, {"filterAll", "fieldsWithoutIndex", "maxStrLen"}, "filterIndexConfig")
        self.full_index = dict(config)
        if config:
            whole(config, "maxStrLen", 32, 1, 65_536)

    def add_index(self, index: Any, *, only_filter: bool = False) -> None:
        known(index, _INDEX_FIELDS, "indexes")
        name, field_type, index_type = (index.get(key) for key in ("fieldName", "fieldType", "indexType"))
        if not isinstance(name, str) or not name or name in self.indexes:
            raise refuse("fieldName must exist and be unique")
        if only_filter and index_type != "filter":
            raise refuse(f"only filter indexes can be added, not {index_type}")
        if index_type == "primaryKey":
            if name != "id" or field_type not in ("string", "uint64"):
                raise refuse("the primaryKey has to be a string (or uint64) named 'id'")
            if index.get("autoId") not in (None, "uuid"):
                raise refuse(f"autoId {index['autoId']!r} is not supported, only 'uuid'")
        elif index_type == "filter":
            if field_type not in _SCALAR_TYPES:
                raise refuse(f"fieldType {field_type!r} of '{name}' cannot have a filter index")
            if field_type == "array" and index.get("fieldElementType", "string") != "string":
                raise refuse(f"array '{name}' can only hold strings")
        elif index_type == "inverted":
            if field_type != "sparseVector" or name != "sparse_vector" or index.get("metricType") != "IP":
                raise refuse("a sparse index is an inverted index with metricType IP on 'sparse_vector'")
        else:
            self._check_vector_index(name, index)
        self.indexes[name] = {key: value for key, value in index.items() if key != "indexedCount"}

    def _check_vector_index(self, name: str, index: Mapping[str, Any]) -> None:
        if index.get("indexType") not in _VECTOR_INDEXES or index.get("fieldType") not in _VECTOR_TYPES:
            raise refuse(f"indexType {index.get('indexType')!r} of '{name}' is not supported")
        if name != "vector":
            raise refuse("the vector index has to be named 'vector'")
        if index.get("metricType") not in ("COSINE", "IP", "L2"):
            raise refuse(f"metricType {index.get('metricType')!r} is not one of COSINE, IP, L2")
        if index.get("dimension") is not None:
            whole(index, "dimension", 0, 1, 4096)
        if index["indexType"] == "HNSW":
            params = index.get("params") or {}
            whole(params, "M", 16, 4, 64)
            whole(params, "efConstruction", 200, 8, 512)

    def drop_index(self, name: str) -> None:
        if self.indexes.get(name, {}).get("indexType") != "filter":
            raise refuse(f"field '{name}' has no filter index")
        del self.indexes[name]

    def _embedding(self, config: Any) -> Document:
        known(config, {"field", "vectorField", "model", "status"}, "embedding")
        config = {key: value for key, value in config.items() if key != "status"}
        vector = self.indexes.get("vector")
        if not config:
            if vector is not None and vector.get("dimension") is None:
                raise refuse("dimension of the vector index is required")
            return {}
        model = config.get("model")
        if model not in MODELS:
            raise refuse(f"embedding model {model!r} is not supported: {', '.join(MODELS)}")
        if vector is None or config.get("vectorField") != "vector" or not config.get("field"):
            raise refuse("embedding needs a field and the vectorField 'vector'")
        if vector.setdefault("dimension", MODELS[model]) != MODELS[model]:
            raise refuse(f"dimension {vector['dimension']} does not fit the model {model}: {MODELS[model]}")
        return dict(config)

    @property
    def schema(self) -> Schema:
        types = {n: i["fieldType"] for n, i in self.indexes.items() if i["indexType"] in ("filter", "primaryKey")}
        return Schema(
            types,
            index_all=bool(self.full_index.get("filterAll")),
            without_index=frozenset(self.full_index.get("fieldsWithoutIndex", [])),
            max_length=self.full_index.get("maxStrLen", 32),
        )

    def describe(self) -> Document:
        indexes = [dict(index) for index in self.indexes.values()]
        for index in indexes:
            if index["fieldType"] in _VECTOR_TYPES:
                index["indexedCount"] = len(self.docs)
        described: Document = {
            "database": self.database,
            "collection": self.name,
            "documentCount": len(self.docs),
            "alias": self.aliases,
            "replicaNum": self.replicas,
            "shardNum": self.shards,
            "createTime": self.created,
            "description": self.description or "",
            "indexes": indexes,
            "indexStatus": {"status": "ready", "startTime": ""},
        }
        if self.embedding:
            described["embedding"] = {**self.embedding, "status": "enabled"}
        if self.ttl:
            described["ttlConfig"] = self.ttl
        if self.full_index:
            described["filterIndexConfig"] = self.full_index
        return described

    # --- writing ---

    def upsert(self, documents: Any) -> int:
        if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_UPSERT:
            raise refuse(f"the number of documents is out of range [1,{MAX_UPSERT}]")
        checked = [self._checked(dict(doc)) for doc in documents]
        for doc in checked:
            self._put(doc["id"], doc)
        return len(checked)

    def update(self, keys: Iterable[str], change: Mapping[str, Any]) -> int:
        if not change:
            raise refuse("update is empty")
        if "id" in change:
            raise refuse("the primary key cannot be updated")
        count = 0
        for key in list(keys):
            merged = {**self.docs[key], **change}
            if self.embedding and self.embedding["field"] in change:
                merged.pop("vector", None)
            self._put(key, self._checked(merged))
            count += 1
        return count

    def delete(self, keys: Iterable[str]) -> int:
        found = list(keys)
        for key in found:
            self._put(key, None)
        return len(found)

    def truncate(self) -> int:
        return self.delete(self.docs)

    def _put(self, key: str, doc: Document | None) -> None:
        if doc is None:
            self.docs.pop(key, None)
        else:
            self.docs[key] = doc
        self._pending.append((time.monotonic() + self._replica_lag_s, key, doc))

    def _checked(self, doc: Document) -> Document:
        primary = self.indexes["id"]
        if "id" not in doc and primary.get("autoId") == "uuid":
            doc["id"] = str(uuid.uuid4())
        key = doc.get("id")
        if primary["fieldType"] == "string" and (not isinstance(key, str) or not 1 <= len(key) <= 128):
            raise refuse(f"document id {key!r} has to be a string of length [1,128]")
        for name, value in doc.items():
            if name == "score":
                raise refuse("'score' is a reserved field name")
            if name in self.indexes and value is not None:
                self._check_value(name, self.indexes[name]["fieldType"], value)
        self._fill_vector(doc)
        if "sparse_vector" in doc and "sparse_vector" not in self.indexes:
            raise refuse("the collection has no sparse vector index")
        return doc

    def _check_value(self, name: str, field_type: str, value: Any) -> None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = {
            "string": isinstance(value, str),
            "uint64": number and isinstance(value, int) and 0 <= value < 2**64,
            "int64": number and isinstance(value, int) and -(2**63) <= value < 2**63,
            "double": number,
            "array": isinstance(value, list) and all(isinstance(element, str) for element in value),
            "json": isinstance(value, dict),
            "sparseVector": _is_sparse(value),
        }
        if not fits.get(field_type, True):
            raise refuse(f"the value of field '{name}' has to be {field_type}")

    def _fill_vector(self, doc: Document) -> None:
        index = self.indexes.get("vector")
        if index is None:
            return
        given = doc.get("vector")
        if isinstance(given, str):
            doc["vector"] = self._embedded(given)
        elif given is None and self.embedding:
            text = doc.get(self.embedding["field"])
            if not isinstance(text, str):
                raise refuse(f"field '{self.embedding['field']}' is missing: there is nothing to embed")
            doc["vector"] = self._embedded(text)
        else:
            doc["vector"] = self._vector(given)

    def _embedded(self, text: str) -> list[float]:
        if not self.embedding:
            raise refuse("the collection has no embedding, vectors have to be numbers")
        return embed(text, self.indexes["vector"]["dimension"])

    def _vector(self, value: Any) -> list[float]:
        index = self.indexes.get("vector")
        if index is None:
            raise refuse("the collection has no vector index")
        if not isinstance(value, list) or any(isinstance(x, bool) or not isinstance(x, int | float) for x in value):
            raise refuse("vector has to be an array of numbers")
        if len(value) != index["dimension"]:
            raise refuse(f"the dimension of the vector is {len(value)}, the index has {index['dimension']}")
        return [_float32(x) for x in value]

    # --- reading ---

    def view(self, consistency: str) -> dict[str, Document]:
        """The documents a read sees: all with strong consistency, those the replica has by now otherwise."""
        now = time.monotonic()
        applied = 0
        for due, key, doc in self._pending:
            if due > now:
                break
            applied += 1
            if doc is None:
                self._replica.pop(key, None)
            else:
                self._replica[key] = doc
        del self._pending[:applied]
        return self.docs if consistency == "strongConsistency" else self._replica

    def predicate(self, text: Any) -> Predicate:
        if text in (None, ""):
            return lambda doc: True
        if not isinstance(text, str):
            raise refuse("filter has to be a string")
        try:
            parsed = Filter(text, self.schema, escapes=self._escapes, missing_matches_negation=self._missing)
        except FilterError as error:
            raise refuse(f"filter expression error: {error}") from error
        return parsed.matches

    def selected(self, query: Mapping[str, Any], view: Mapping[str, Document], *, most_ids: int) -> list[str]:
        """The ids that `documentIds` and `filter` select together, in the order of insertion."""
        ids = query.get("documentIds")
        if ids is not None and (not isinstance(ids, list) or not 1 <= len(ids) <= most_ids):
            raise refuse(f"the number of documentIds is out of range [1,{most_ids}]")
        matches = self.predicate(query.get("filter"))
        keys = list(dict.fromkeys(ids)) if ids is not None else list(view)
        return [key for key in keys if key in view and matches(view[key])]

    def shown(self, doc: Document, body: Mapping[str, Any], score: float | None = None) -> Document:
        """A document as the response has it: the output fields, the vectors only on request, the score."""
        fields = body.get("outputFields")
        if fields is not None and (not isinstance(fields, list) or not all(isinstance(f, str) for f in fields)):
            raise refuse("outputFields has to be an array of strings")
        hidden = () if body.get("retrieveVector") else ("vector", "sparse_vector")
        result = {k: v for k, v in doc.items() if k not in hidden and (not fields or k in fields)}
        if score is not None:
            result["score"] = _float32(score)
        return result

    def sorted_keys(self, keys: list[str], view: Mapping[str, Document], rules: Any) -> list[str]:
        for rule in reversed(rules or []):
            known(rule, {"fieldName", "direction"}, "sort")
            name, direction = rule.get("fieldName"), rule.get("direction", "asc")
            if self.schema.fields.get(name) not in ("uint64", "int64", "double"):
                raise refuse(f"sort needs a numeric filter index, '{name}' has none")
            if direction not in ("asc", "desc"):
                raise refuse(f"direction {direction!r} is not asc or desc")
            numbers = {key: view[key].get(name) or 0 for key in keys}
            keys = sorted(keys, key=numbers.__getitem__, reverse=direction == "desc")
        return keys

    # --- searching ---

    def nearest(
        self, query: list[float], view: Mapping[str, Document], matches: Predicate, radius: float | None
    ) -> list[tuple[str, float]]:
        """(id, score) of the documents that match, nearest first."""
        index = self.indexes.get("vector")
        if index is None:
            raise refuse("the collection has no vector index")
        metric = index["metricType"]
        wanted = np.array(query, dtype=np.float64)
        scored: list[tuple[str, float]] = []
        for key, doc in view.items():
            if not matches(doc):
                continue
            score = _score(metric, wanted, np.array(doc["vector"], dtype=np.float64))
            if radius is None or (score <= radius if metric == "L2" else score >= radius):
                scored.append((key, score))
        return sorted(scored, key=lambda pair: pair[1] if metric == "L2" else -pair[1])

    def query_vectors(self, search: Mapping[str, Any], view: Mapping[str, Document]) -> list[list[float]]:
        """The vectors that a search names directly, by documents or by texts."""
        given = [name for name in ("documentIds", "vectors", "embeddingItems") if search.get(name) is not None]
        if len(given) != 1:
            raise refuse("The search condition must be one of the [documentIds, vectors, retrieves]")
        items = search[given[0]]
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_IDS:
            raise refuse(f"the number of {given[0]} is out of range [1,{MAX_IDS}]")
        if given[0] == "documentIds":
            missing = [key for key in items if key not in view]
            if missing:
                raise refuse(f"document {missing[0]!r} does not exist")
            return [view[key]["vector"] for key in items]
        if given[0] == "embeddingItems":
            return [self._embedded(text) for text in items]
        return [self._embedded(item) if isinstance(item, str) else self._vector(item) for item in items]

    def search_radius(self, search: Mapping[str, Any]) -> float | None:
        params = search.get("params") or {}
        known(params, {"ef", "nprobe", "radius"}, "params")
        if "ef" in params:
            whole(params, "ef", 10, 1, 32_768)
        radius = search.get("radius", params.get("radius"))
        if radius is not None and not isinstance(radius, int | float):
            raise refuse("radius has to be a number")
        return radius

    def sparse(
        self, match: Mapping[str, Any], view: Mapping[str, Document], matches: Predicate
    ) -> list[tuple[str, float]]:
        """(id, inner product) of the documents that share a term with the sparse query vector, best first."""
        known(match, {"fieldName", "data", "limit", "terminateAfter", "cutoffFrequency"}, "match")
        if match.get("fieldName", "sparse_vector") != "sparse_vector" or "sparse_vector" not in self.indexes:
            raise refuse(f"field {match.get('fieldName')!r} has no sparse vector index")
        data = match.get("data")
        if not isinstance(data, list) or len(data) != 1 or not _is_sparse(data[0]):
            raise refuse("match.data has to hold one sparse vector [[index, weight], ...]")
        query = {int(term): float(weight) for term, weight in data[0]}
        scored = []
        for key, doc in view.items():
            held = doc.get("sparse_vector")
            if not held or not matches(doc):
                continue
            common = [float(weight) * query[int(term)] for term, weight in held if int(term) in query]
            if common:
                scored.append((key, math.fsum(common)))
        return sorted(scored, key=lambda pair: -pair[1])

    def hybrid(self, search: Mapping[str, Any], view: Mapping[str, Document]) -> list[tuple[str, float]]:
        """(id, fused score), best first, of an ann and a match part."""
        matches = self.predicate(search.get("filter"))
        limit = whole(search, "limit", 10, 1, MAX_LIMIT)
        ranked: dict[str, list[tuple[str, float]]] = {}
        for ann in _parts(search, "ann"):
            known(ann, {"fieldName", "documentIds", "data", "params", "limit"}, "ann")
            radius = self.search_radius(ann)
            vector = self._ann_vector(ann, view)
            found = self.nearest(vector, view, matches, radius)
            ranked[ann.get("fieldName", "vector")] = found[: whole(ann, "limit", limit, 1, MAX_LIMIT)]
        for match in _parts(search, "match"):
            found = self.sparse(match, view, matches)
            ranked["sparse_vector"] = found[: whole(match, "limit", limit, 1, MAX_LIMIT)]
        if not ranked:
            raise refuse("hybridSearch needs ann or match")
        return _fused(ranked, search.get("rerank"))[:limit]

    def _ann_vector(self, ann: Mapping[str, Any], view: Mapping[str, Document]) -> list[float]:
        fields = ("vector", self.embedding["field"]) if self.embedding else ("vector",)
        if ann.get("fieldName", "vector") not in fields:
            raise refuse(f"field {ann.get('fieldName')!r} has no vector index")
        if ann.get("documentIds") is not None:
            return self.query_vectors({"documentIds": ann["documentIds"]}, view)[0]
        data = ann.get("data")
        if not isinstance(data, list) or len(data) != 1:
            raise refuse("ann.data has to hold one vector or text")
        return self._embedded(data[0]) if isinstance(data[0], str) else self._vector(data[0])


def _parts(search: Mapping[str, Any], name: str) -> list[Any]:
    parts = search.get(name) or []
    if not isinstance(parts, list) or len(parts) > 1:
        raise refuse(f"{name} has to be an array with at most one element")
    return parts


def _is_sparse(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int) and isinstance(pair[1], int | float)
        for pair in value
    )


def _score(metric: str, query: np.ndarray, vector: np.ndarray) -> float:
    if metric == "L2":
        return _float32(float(np.linalg.norm(query - vector)))
    product = float(query @ vector)
    if metric == "COSINE":
        norms = float(np.linalg.norm(query)) * float(np.linalg.norm(vector))
        product = product / norms if norms else 0.0
    return _float32(product)


def _fused(ranked: Mapping[str, list[tuple[str, float]]], rerank: Any) -> list[tuple[str, float]]:
    if rerank is None:
        if len(ranked) > 1:
            raise refuse("rerank is required with ann and match")
        return next(iter(ranked.values()))
    method = rerank.get("method") if isinstance(rerank, Mapping) else None
    totals: dict[str, float] = {}
    if method == "weighted":
        known(rerank, {"method", "fieldList", "weight"}, "rerank")
        fields, weights = rerank.get("fieldList") or [], rerank.get("weight") or []
        if len(fields) != len(weights) or set(fields) != set(ranked):
            raise refuse("rerank.fieldList has to name the searched fields, with one weight each")
        for name, weight in zip(fields, weights, strict=True):
            for key, score in ranked[name]:
                totals[key] = totals.get(key, 0.0) + weight * score
    elif method == "rrf":
        known(rerank, {"method", "k"}, "rerank")
        k = rerank.get("k", 60)
        for found in ranked.values():
            for rank, (key, _) in enumerate(found, start=1):
                totals[key] = totals.get(key, 0.0) + 1.0 / (k + rank)
    else:
        raise refuse(f"rerank method {method!r} is not weighted or rrf")
    return sorted(totals.items(), key=lambda pair: -pair[1])
