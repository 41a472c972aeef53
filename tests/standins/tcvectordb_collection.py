"""A collection of the stand-in for Tencent Cloud VectorDB: what it checks, and its searches.

After the pages create (95116), upsert (95120), query (95122), search (95123), update (98667) and delete (95124) of
product 1709: COSINE scores the cosine, IP the inner product, L2 the distance (smaller is nearer), in 32-bit floats.
Every index is exact.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .tcvectordb_filter import Document, FilterError, Predicate, parse

PARAMETER, NO_DATABASE, NO_COLLECTION = 15000, 15301, 15302
MAX_UPSERT, MAX_IDS, MAX_DELETE_IDS, MAX_LIMIT = 1_000, 20, 1_000, 16_384
MODELS = {"bge-base-zh": 768}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,127}")
_INDEX_FIELDS = {"fieldName", "fieldType", "indexType", "dimension", "metricType", "params"}


class VectorDBError(Exception):
    """An error as the server reports it: `{code, msg}`."""

    def __init__(self, code: int, message: str, *, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


def refuse(message: str) -> VectorDBError:
    return VectorDBError(PARAMETER, message)


def known(body: Any, allowed: Iterable[str]) -> None:
    """Refuse what is no object, and fields that the documentation does not have or the store does not send."""
    if not isinstance(body, Mapping):
        raise refuse(f"{body!r} has to be an object")
    if unknown := sorted(set(body) - set(allowed)):
        raise refuse(f"unknown field '{unknown[0]}'")


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refuse(f"name {name!r} is invalid: letters, digits, _ and -, a letter first, length [1,128]")
    return name


def whole(body: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refuse(f"{name} {value!r} is out of range [{least},{most}]")
    return value


class Collection:
    """One collection.

    Args:
        body: The request of /collection/create.
        zones: Of the instance; in two or three the number of replicas is at least 1 or 2 (page 95093).
    """

    def __init__(self, body: Mapping[str, Any], *, zones: int) -> None:
        self.name = check_name(body.get("collection"))
        self.shards, self.replicas = whole(body, "shardNum", 1, 1, 100), whole(body, "replicaNum", 0, zones - 1, 5)
        self.docs: dict[str, Document] = {}
        self._indexes: dict[str, Mapping[str, Any]] = {}
        for index in body.get("indexes") or ():
            self._add_index(index)
        if self._indexes.get("id", {}).get("indexType") != "primaryKey" or "vector" not in self._indexes:
            raise refuse("indexes must have a primaryKey named 'id' and a vector index named 'vector'")
        self._types = {n: one["fieldType"] for n, one in self._indexes.items() if one["indexType"] == "filter"}
        self._embedding = body.get("embedding") or {}
        known(self._embedding, {"field", "vectorField", "model", "status"})
        model = self._embedding.get("model")
        if model is not None and model not in MODELS:
            raise refuse(f"embedding model {model!r} is not supported")
        self._dimension = MODELS[model] if model else whole(self._indexes["vector"], "dimension", 0, 1, 4096)

    def _add_index(self, index: Any) -> None:
        known(index, _INDEX_FIELDS)
        name, kind = index.get("fieldName"), (index.get("fieldType"), index.get("indexType"))
        metric = index.get("metricType")
        fits = {
            "id": kind == ("string", "primaryKey"),
            "vector": kind in (("vector", "HNSW"), ("vector", "FLAT")) and metric in ("COSINE", "IP", "L2"),
            "sparse_vector": kind == ("sparseVector", "inverted") and metric == "IP",
        }
        if not fits.get(name, kind[0] in ("string", "uint64", "array") and kind[1] == "filter"):
            raise refuse(f"index of {name!r} is not supported: {index!r}")
        if kind[1] == "HNSW":
            whole(index["params"], "M", 16, 4, 64)
            whole(index["params"], "efConstruction", 200, 8, 512)
        self._indexes[name] = index

    def described(self) -> Document:
        indexes = [dict(one) for one in self._indexes.values()]
        return {
            "collection": self.name,
            "documentCount": len(self.docs),
            "alias": [],
            "replicaNum": self.replicas,
            "shardNum": self.shards,
            "indexes": indexes,
            "indexStatus": {"status": "ready", "startTime": ""},
        }

    # --- writing ---

    def upsert(self, documents: Any) -> int:
        if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_UPSERT:
            raise refuse(f"the number of documents is out of range [1,{MAX_UPSERT}]")
        self.docs |= {one["id"]: one for one in [self._checked(dict(one)) for one in documents]}
        return len(documents)

    def update(self, keys: list[str], change: Mapping[str, Any]) -> int:
        if not change or "id" in change:
            raise refuse("update is empty, or of the primary key")
        self.docs |= {key: self._checked({**self.docs[key], **change}) for key in keys}
        return len(keys)

    def delete(self, keys: list[str]) -> int:
        for key in keys:
            del self.docs[key]
        return len(keys)

    def _checked(self, doc: Document) -> Document:
        key = doc.get("id")
        if not isinstance(key, str) or not 1 <= len(key) <= 128:
            raise refuse(f"document id {key!r} has to be a string of length [1,128]")
        for name, value in doc.items():
            if name == "score" or (name in self._types and not _fits(self._types[name], value)):
                raise refuse(f"the value of field '{name}' has to be {self._types.get(name)}")
        if self._embedding and "vector" not in doc:
            doc["vector"] = _embed(doc[self._embedding["field"]], self._dimension)
        doc["vector"] = self._vector(doc.get("vector"))
        if "sparse_vector" in doc and ("sparse_vector" not in self._indexes or not _is_sparse(doc["sparse_vector"])):
            raise refuse("sparse_vector has no index, or is not [[index, weight], ...]")
        return doc

    def _vector(self, value: Any) -> list[float]:
        if not isinstance(value, list) or len(value) != self._dimension:
            raise refuse(f"the dimension of the index is {self._dimension}: {str(value)[:60]}")
        return [float(number) for number in np.asarray(value, np.float32)]

    # --- reading ---

    def predicate(self, text: Any) -> Predicate:
        if text in (None, ""):
            return lambda _: True
        try:
            return parse(text, self._types)
        except FilterError as error:
            raise refuse(f"filter expression error: {error}") from error

    def selected(self, query: Mapping[str, Any], *, most_ids: int) -> list[str]:
        """Ids that `documentIds` and `filter` select together, in the order of `sort`."""
        ids = query.get("documentIds")
        if ids is not None and (not isinstance(ids, list) or not 1 <= len(ids) <= most_ids):
            raise refuse(f"the number of documentIds is out of range [1,{most_ids}]")
        matches = self.predicate(query.get("filter"))
        keys = dict.fromkeys(self.docs if ids is None else ids)
        found = [key for key in keys if key in self.docs and matches(self.docs[key])]
        for rule in query.get("sort") or ():
            known(rule, {"fieldName", "direction"})
            name = rule["fieldName"]
            if self._types.get(name) != "uint64" or rule.get("direction", "asc") != "asc":
                raise refuse(f"sort by {name!r} needs a numeric filter index, ascending")
            found.sort(key=lambda key: self.docs[key][name])
        return found

    def shown(self, key: str, body: Mapping[str, Any], score: float | None = None) -> Document:
        """A document as a response has it: the output fields, vectors on request, the score."""
        fields = body.get("outputFields")
        hidden = () if body.get("retrieveVector") else ("vector", "sparse_vector")
        shown = {k: v for k, v in self.docs[key].items() if k not in hidden and (not fields or k in fields)}
        return shown if score is None else {**shown, "score": float(np.float32(score))}

    def nearest(self, search: Mapping[str, Any]) -> list[tuple[str, float]]:
        """(id, score) of the documents that match, nearest first."""
        known(search.get("params") or {}, {"ef"})
        whole(search.get("params") or {}, "ef", 10, 1, 32_768)
        (asked,) = search.get("vectors") or search["embeddingItems"]
        wanted = np.array(_embed(asked, self._dimension) if isinstance(asked, str) else self._vector(asked))
        matches = self.predicate(search.get("filter"))
        keys = [key for key, doc in self.docs.items() if matches(doc)]
        metric = self._indexes["vector"]["metricType"]
        matrix = np.array([self.docs[key]["vector"] for key in keys]).reshape(len(keys), self._dimension)
        if metric == "L2":
            scores = -np.linalg.norm(matrix - wanted, axis=1)
        else:
            scores = matrix @ wanted
        if metric == "COSINE":
            norms = np.linalg.norm(matrix, axis=1) * np.linalg.norm(wanted)
            scores = np.divide(scores, norms, out=np.zeros(len(keys)), where=norms > 0)
        order = np.argsort(-scores, kind="stable")
        return [(keys[place], abs(scores[place]) if metric == "L2" else scores[place]) for place in order]

    def sparse(self, search: Mapping[str, Any]) -> list[tuple[str, float]]:
        """(id, inner product) of the documents that share a term with the query, best first."""
        match = search.get("match") or {}
        known(match, {"fieldName", "data"})
        data = match.get("data")
        if match.get("fieldName") != "sparse_vector" or not (isinstance(data, list) and _is_sparse(data[0])):
            raise refuse("match has to be {fieldName: sparse_vector, data: [[[index, weight], ...]]}")
        query, matches = dict(data[0]), self.predicate(search.get("filter"))
        scored = []
        for key, doc in self.docs.items():
            shared = [weight * query[term] for term, weight in doc.get("sparse_vector", ()) if term in query]
            if shared and matches(doc):
                scored.append((key, math.fsum(shared)))
        return sorted(scored, key=lambda pair: -pair[1])


def _fits(kind: str, value: Any) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "uint64":
        return isinstance(value, int) and 0 <= value < 2**64
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list) and len(one) == 2 and isinstance(one[0], int) and 0 <= one[0] < 2**32 for one in value
    )


def _embed(text: str, dimension: int) -> list[float]:
    """The normalised sum of a pseudo-random vector per word: texts that share words are near."""
    total = np.zeros(dimension)
    for word in re.findall(r"\w+", text.lower()) or [text]:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        total += np.random.default_rng(seed).standard_normal(dimension)
    return [float(number) for number in total / np.linalg.norm(total)]
