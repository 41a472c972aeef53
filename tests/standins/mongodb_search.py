"""`$vectorSearch` and `$search` of the stand-in for MongoDB, over indexes that lag behind.

After the pages "$vectorSearch Stage", "How to Index Fields for Vector Search", "Score the Documents in the Results",
"text", "compound", "in" and "exists" of the documentation as of 2025, with mongot's texts of errors where known:

- a vector scores (1 + cosine) / 2, (1 + dot) / 2 or 1 / (1 + euclidean distance), in 32-bit floats;
- a text scores BM25 of Lucene, k1 = 1.2, b = .75, with exact lengths and the statistics of the whole collection;
- an index that is not built gives no rows, or mongot's error;
- a row is the document as it is now: one that was deleted since takes a place of `limit` and gives no row.

Every search is exact. What the store does not send is refused.
"""

from __future__ import annotations

import math
import struct
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bson import Binary

from .mongodb_query import Document, MongoError, bad_value, compile_filter

Change = tuple[float, Any, Document | None]
"""When a write becomes visible to search (monotonic seconds), the `_id`, and the document; None: it was deleted."""
Scored = list[tuple[Any, float]]
"""(id, score), best first."""

MAX_CANDIDATES, MAX_DIMENSIONS = 10_000, 8_192
_SIMILARITIES = ("cosine", "euclidean", "dotProduct")


def search_error(message: str) -> MongoError:
    """An error of mongot as the server passes it on."""
    return MongoError(8, "UnknownError", f"PlanExecutor error during aggregation :: caused by :: {message}")


def _known(spec: Any, allowed: set[str], where: str) -> None:
    if not isinstance(spec, Mapping):
        raise search_error(f'"{where}" must be a document')
    if unknown := sorted(set(spec) - allowed):
        raise search_error(f'"{where}" unrecognized field "{unknown[0]}"')


class SearchIndex:
    """A search index: its definition, its state, and what it has seen of the collection's changes."""

    def __init__(self, spec: Mapping[str, Any], documents: Mapping[Any, Document], build_s: float) -> None:
        _known(spec, {"name", "type", "definition"}, "indexes")
        self.name = str(spec["name"])
        self._kind, self._definition = spec["type"], dict(spec["definition"])
        makers: dict[str, type[VectorIndex] | type[TextIndex]] = {"vectorSearch": VectorIndex, "search": TextIndex}
        try:
            self._held = makers[self._kind](self._definition)
        except (MongoError, KeyError) as error:
            raise bad_value(str(error).rpartition(" :: ")[2]) from error
        for key, doc in documents.items():
            self._held.put(key, doc)
        self._started, self._build_s = time.monotonic(), build_s
        self._seen = 0

    def skip(self, log: Sequence[Change]) -> None:
        """Changes before the index was made."""
        self._seen = len(log)

    @property
    def queryable(self) -> bool:
        return time.monotonic() - self._started >= self._build_s

    def described(self) -> Document:
        """The entry of this index in `$listSearchIndexes`."""
        past = time.monotonic() - self._started
        return {
            "id": uuid.uuid5(uuid.NAMESPACE_URL, self.name).hex[:24],
            "name": self.name,
            "type": self._kind,
            "status": "READY" if self.queryable else "PENDING" if past < self._build_s / 2 else "BUILDING",
            "queryable": self.queryable,
            "latestDefinition": self._definition,
        }

    def follow(self, log: Sequence[Change]) -> None:
        """Take the changes whose time has come."""
        now = time.monotonic()
        while self._seen < len(log) and log[self._seen][0] <= now:
            _, key, doc = log[self._seen]
            self._seen += 1
            self._held.drop(key)
            if doc is not None:
                self._held.put(key, doc)

    def search(self, stage: str, spec: Mapping[str, Any]) -> Scored:
        if stage != ("$vectorSearch" if self._kind == "vectorSearch" else "$search"):
            raise search_error(f"Cannot execute {stage} over {self._kind} index '{self.name}'")
        return self._held.search(spec)


class VectorIndex:
    """One path of vectors, and the paths that its filters may name."""

    def __init__(self, definition: Document) -> None:
        _known(definition, {"fields"}, "definition")
        self._filters: set[str] = set()
        self._field: Document = {}
        for field in definition["fields"]:
            if field.get("type") == "filter":
                _known(field, {"type", "path"}, "fields")
                self._filters.add(field["path"])
            else:
                _known(field, {"type", "path", "numDimensions", "similarity"}, "fields")
                self._field = field
        if not 1 <= self._field.get("numDimensions", 0) <= MAX_DIMENSIONS:
            raise search_error(f'"numDimensions" must be within bounds [1..{MAX_DIMENSIONS}]')
        if self._field.get("similarity") not in _SIMILARITIES:
            raise search_error('"similarity" must be one of [cosine, dotProduct, euclidean]')
        self._vectors: dict[Any, Any] = {}
        self._filterable: dict[Any, Document] = {}

    def drop(self, key: Any) -> None:
        self._vectors.pop(key, None)
        self._filterable.pop(key, None)

    def put(self, key: Any, doc: Document) -> None:
        """A vector of another size, or of zeros under cosine, is left out."""
        vector = _vector_of(doc.get(self._field["path"]))
        if vector is None or len(vector) != self._field["numDimensions"]:
            return
        if vector.any() or self._field["similarity"] != "cosine":
            self._vectors[key] = vector
            self._filterable[key] = {path: doc[path] for path in self._filters if path in doc}

    def search(self, spec: Mapping[str, Any]) -> Scored:
        _known(spec, {"index", "path", "queryVector", "numCandidates", "limit", "filter", "exact"}, "$vectorSearch")
        query = self._checked(spec)
        self._check_filter(spec.get("filter", {}))
        matches = compile_filter(spec["filter"]) if spec.get("filter") else None
        keys = [key for key in self._vectors if matches is None or matches(self._filterable[key])]
        if not keys:
            return []
        scores = self._scores(query, np.array([self._vectors[key] for key in keys]))
        order = np.argsort(-scores, kind="stable")[: spec["limit"]]
        return [(keys[place], float(scores[place])) for place in order]

    def _scores(self, query: Any, matrix: Any) -> Any:
        if self._field["similarity"] == "euclidean":
            return (1.0 / (1.0 + np.linalg.norm(matrix - query, axis=1))).astype(np.float32)
        products = matrix @ query
        if self._field["similarity"] == "cosine":
            products = products / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(query))
        return np.maximum((1.0 + products) / 2.0, 0.0).astype(np.float32)

    def _checked(self, spec: Mapping[str, Any]) -> Any:
        limit, candidates = spec.get("limit"), spec.get("numCandidates")
        if not isinstance(limit, int) or limit < 1:
            raise search_error('"limit" must be positive')
        if spec.get("exact"):
            if candidates is not None:
                raise search_error('"numCandidates" must be omitted when "exact" is set to true')
        elif candidates is None:
            raise search_error('"numCandidates" is required')
        elif not limit <= candidates <= MAX_CANDIDATES:
            raise search_error(f'"numCandidates" must be within bounds [limit..{MAX_CANDIDATES}]')
        if spec.get("path") != self._field["path"]:
            raise search_error(f"{spec.get('path')} is not indexed as vector")
        query = _vector_of(spec.get("queryVector"))
        if query is None or len(query) != self._field["numDimensions"]:
            size, held = 0 if query is None else len(query), self._field["numDimensions"]
            raise search_error(f"vector field is indexed with {held} dimensions but queried with {size}")
        if self._field["similarity"] == "cosine" and not query.any():
            raise search_error("Cosine similarity cannot be calculated against a zero vector.")
        return query

    def _check_filter(self, query: Mapping[str, Any]) -> None:
        for path, condition in query.items():
            if path in ("$and", "$or"):
                for part in condition:
                    self._check_filter(part)
            elif path not in self._filters:
                raise search_error(f"Path '{path}' needs to be indexed as filter")


def _vector_of(value: Any) -> Any:
    """Of an array of numbers, or a BSON vector (binary subtype 9) of 32-bit floats."""
    if isinstance(value, Binary) and value.subtype == 9 and value[0] == 0x27:
        value = struct.unpack(f"<{len(value[2:]) // 4}f", value[2:])
    elif not isinstance(value, list):
        return None
    return np.array(value, dtype=np.float32).astype(np.float64)


class TextIndex:
    """One string field whose words blanks divide, and token fields."""

    def __init__(self, definition: Document) -> None:
        _known(definition, {"mappings"}, "definition")
        _known(definition["mappings"], {"dynamic", "fields"}, "mappings")
        self._strings: dict[str, _Words] = {}
        self._tokens: dict[str, dict[Any, set[str]]] = {}
        for path, field in definition["mappings"]["fields"].items():
            if field.get("type") == "string" and field.get("analyzer") == "lucene.whitespace":
                self._strings[path] = _Words()
            elif field == {"type": "token"}:
                self._tokens[path] = {}
            else:
                raise search_error(f"field {path} is not supported: {field}")
        self._keys: dict[Any, None] = {}

    def drop(self, key: Any) -> None:
        self._keys.pop(key, None)
        for words in self._strings.values():
            words.drop(key)
        for tokens in self._tokens.values():
            tokens.pop(key, None)

    def put(self, key: Any, doc: Document) -> None:
        self._keys[key] = None
        for path, words in self._strings.items():
            if isinstance(doc.get(path), str):
                words.put(key, doc[path].split())
        for path, tokens in self._tokens.items():
            if path in doc:
                tokens[key] = set(doc[path] if isinstance(doc[path], list) else [doc[path]])

    def search(self, spec: Mapping[str, Any]) -> Scored:
        scores = self._scores({name: value for name, value in spec.items() if name != "index"})
        ranked = [(key, float(np.float32(scores[key]))) for key in self._keys if key in scores]
        return sorted(ranked, key=lambda pair: -pair[1])

    def _scores(self, clause: Mapping[str, Any]) -> dict[Any, float]:
        if len(clause) != 1:
            raise search_error(f'"$search" must have exactly one operator, found {sorted(clause)}')
        ((name, body),) = clause.items()
        operators = {"text": self._text, "in": self._in, "exists": self._exists, "compound": self._compound}
        if name not in operators:
            raise search_error(f'"$search" unrecognized field "{name}"')
        return operators[name](body)

    def _text(self, body: Any) -> dict[Any, float]:
        _known(body, {"query", "path", "score"}, "text")
        boost = body.get("score", {}).get("boost", {}).get("value", 1.0)
        found: Counter[Any] = Counter()
        for word in body["query"].split():
            for key, score in self._strings[body["path"]].scores(word).items():
                found[key] += boost * score
        return dict(found)

    def _in(self, body: Any) -> dict[Any, float]:
        _known(body, {"path", "value"}, "in")
        if body["path"] not in self._tokens:
            raise search_error(f"Path '{body['path']}' needs to be indexed as token")
        wanted = set(body["value"])
        return {key: 1.0 for key, tokens in self._tokens[body["path"]].items() if not wanted.isdisjoint(tokens)}

    def _exists(self, body: Any) -> dict[Any, float]:
        _known(body, {"path"}, "exists")
        return dict.fromkeys(self._tokens[body["path"]], 1.0)

    def _compound(self, body: Any) -> dict[Any, float]:
        _known(body, {"should", "filter", "mustNot", "minimumShouldMatch"}, "compound")
        should, required, banned = (
            [self._scores(clause) for clause in body.get(name, [])] for name in ("should", "filter", "mustNot")
        )
        if not should and not required:
            return {}  # Lucene finds nothing by a negation alone
        keys = set().union(*should) if should and body.get("minimumShouldMatch") else set(self._keys)
        for clause in required:
            keys &= clause.keys()
        for clause in banned:
            keys -= clause.keys()
        return {key: sum(clause.get(key, 0.0) for clause in should) for key in keys}


class _Words:
    """The inverted index of one string field."""

    def __init__(self) -> None:
        self._counts: dict[Any, Counter[str]] = {}
        self._postings: dict[str, dict[Any, int]] = {}
        self._total = 0

    def put(self, key: Any, words: list[str]) -> None:
        counted = self._counts[key] = Counter(words)
        self._total += counted.total()
        for word, count in counted.items():
            self._postings.setdefault(word, {})[key] = count

    def drop(self, key: Any) -> None:
        counted = self._counts.pop(key, Counter())
        self._total -= counted.total()
        for word in counted:
            del self._postings[word][key]

    def scores(self, word: str) -> dict[Any, float]:
        """Lucene's BM25: idf = ln(1 + (N - n + .5) / (n + .5)), tf / (tf + 1.2 (.25 + .75 length / average))."""
        found = self._postings.get(word, {})
        if not found:
            return {}
        idf = math.log(1 + (len(self._counts) - len(found) + 0.5) / (len(found) + 0.5))
        average = self._total / len(self._counts)
        return {
            key: idf * count / (count + 1.2 * (0.25 + 0.75 * self._counts[key].total() / average))
            for key, count in found.items()
        }
