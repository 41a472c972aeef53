"""The search half of the MongoDB stand-in: `$vectorSearch` and `$search` over indexes that lag behind.

Stands for: MongoDB Vector Search and MongoDB Search (the `mongot` process of Atlas and of the community
edition), after the pages "$vectorSearch Stage", "How to Index Fields for Vector Search", "Score the Documents
in the Results", "text", "compound", "equals", "in", "range", "exists" of the MongoDB documentation as of
2025, with the error texts of mongot where they are known:

- score of a vector: (1 + cosine) / 2, (1 + dot) / 2, 1 / (1 + euclidean distance); vectors and scores have
  float32 precision.
- score of a text: BM25 of Lucene, k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)), N the
  documents that have the field, tf = f / (f + k1 (1 - b + b length / average length)). Here the statistics
  are those of the whole collection and the lengths exact. In reality every index partition (and node) has
  statistics of its own, deleted documents count until their segment is merged, and lengths above 40 are
  stored lossily in one byte, so real scores differ a little.
- a missing index gives no rows and no error; an index that is not built gives no rows, or mongot's error on
  request.
- a row carries the document as it is in the collection now, found by `_id`; a document deleted since gives no
  row. So a search may answer with fewer rows than `limit`, and a changed document with the score of its old
  vector.

Does not do: approximation (every search is exact, `numCandidates` only bounds), quantisation, automatic
embedding, views, `storedSource`, facets, highlights, fuzzy, phrase, wildcard, queryString, score modifiers
other than boost and constant, language analysers. What is not done is refused.
"""

from __future__ import annotations

import math
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import numpy as np

from .mongodb_query import (
    MISSING,
    Document,
    MongoError,
    bson_type,
    compile_filter,
    equal,
    is_operator_object,
    order_key,
    type_rank,
    values_at,
    vector_of,
)

Key = tuple[Any, ...]
"""A document's `_id` in the form that compares and hashes as BSON does."""
Change = tuple[float, Key, Document | None]
"""When a write becomes visible to search (monotonic seconds), whose, and the document or None for a deletion.
"""

_FILTER_OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$not")
_FILTER_TYPES: Final = (1, 2, 5, 7, 8, 9, 10, 16, 18)
MAX_CANDIDATES: Final = 10_000
MAX_DIMENSIONS: Final = 8_192


def search_error(message: str) -> MongoError:
    """An error of mongot as the server passes it on."""
    return MongoError(8, "UnknownError", f"PlanExecutor error during aggregation :: caused by :: {message}")


def _known(spec: Any, allowed: set[str], where: str) -> None:
    if not isinstance(spec, Mapping):
        raise search_error(f'"{where}" must be a document')
    unknown = sorted(set(spec) - allowed)
    if unknown:
        raise search_error(f'"{where}" unrecognized field "{unknown[0]}"')


class SearchIndex:
    """One search index: its definition, its build state and a copy of the collection that follows the change
    log.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        definition: Document,
        *,
        documents: Mapping[Key, Document],
        position: int,
        build_time_s: float,
    ) -> None:
        self.id = uuid.uuid4().hex[:24]
        self.name = name
        self.kind: Literal["search", "vectorSearch"] = "vectorSearch" if kind == "vectorSearch" else "search"
        self.version = 0
        self.documents = dict(documents)
        self.position = position  # changes of the log that are applied
        self.staged: tuple[Document, float] | None = None
        self.failed = False
        self.queryable_at = math.inf
        self.definition: Document = {}
        self.stage(definition, build_time_s=build_time_s)

    def stage(self, definition: Document, *, build_time_s: float) -> None:
        """Take a new definition; an index that already answers goes on with the old one until the new one is
        built.
        """
        validate_definition(self.kind, definition)
        self.version += 1
        self.created_at = datetime.now(UTC).replace(tzinfo=None)
        self.started_at = time.monotonic()
        ready_at = self.started_at + build_time_s
        if self.version == 1 or not self.queryable:
            self.definition, self.queryable_at = definition, ready_at
            self._matcher = self._make_matcher()
        else:
            self.staged = (definition, ready_at)

    def _make_matcher(self) -> VectorMatcher | TextMatcher:
        made = VectorMatcher(self.definition) if self.kind == "vectorSearch" else TextMatcher(self.definition)
        for key, doc in self.documents.items():
            made.put(key, doc)
        return made

    @property
    def queryable(self) -> bool:
        return not self.failed and time.monotonic() >= self.queryable_at

    @property
    def status(self) -> str:
        now = time.monotonic()
        if self.failed:
            return "FAILED"
        ready_at = self.staged[1] if self.staged else self.queryable_at
        if now >= ready_at:
            return "READY"
        return "PENDING" if now - self.started_at < (ready_at - self.started_at) / 2 else "BUILDING"

    def describe(self) -> Document:
        """The entry of this index in `$listSearchIndexes`."""
        latest = self.staged[0] if self.staged else self.definition
        return {
            "id": self.id,
            "name": self.name,
            "type": self.kind,
            "status": self.status,
            "queryable": self.queryable,
            "latestDefinitionVersion": {"version": self.version, "createdAt": self.created_at},
            "latestDefinition": latest,
            "statusDetail": [{"hostname": "standin", "status": self.status, "queryable": self.queryable}],
        }

    def follow(self, log: list[Change], offset: int) -> None:
        """Apply the changes whose time has come. `offset` is the number of changes already dropped from the
        log.
        """
        now = time.monotonic()
        if self.staged and now >= self.staged[1]:
            self.definition, self.staged = self.staged[0], None
            self._matcher = self._make_matcher()
        for visible_at, key, doc in log[self.position - offset :]:
            if visible_at > now:
                break
            self.position += 1
            self._matcher.drop(key)
            self.documents.pop(key, None)
            if doc is not None:
                self.documents[key] = doc
                self._matcher.put(key, doc)

    def search(self, stage: str, spec: Mapping[str, Any]) -> list[tuple[Key, float]]:
        """(document key, score) pairs, best first; equal scores in the order of indexing."""
        if stage != ("$vectorSearch" if self.kind == "vectorSearch" else "$search"):
            raise search_error(f"Cannot execute {stage} over {self.kind} index '{self.name}'")
        return self._matcher.search(spec)


def validate_definition(kind: str, definition: Any) -> None:
    """Refuse a definition that mongot would refuse: unknown fields and types, dimensions out of range."""
    if not isinstance(definition, Mapping):
        raise MongoError(14, "TypeMismatch", "BSON field 'definition' is the wrong type, expected type 'object'")
    try:
        VectorMatcher(dict(definition)) if kind == "vectorSearch" else TextMatcher(dict(definition))
    except MongoError as error:
        raise MongoError(2, "BadValue", error.message.rpartition(" :: ")[2]) from error


# --- vectors -------------------------------------------------------------------------------------------


class VectorMatcher:
    """What a `vectorSearch` index holds: the vectors of its paths and the values of its filter paths."""

    def __init__(self, definition: Document) -> None:
        _known(definition, {"fields", "storedSource", "numPartitions"}, "definition")
        self.vector_fields: dict[str, Document] = {}
        self.filter_paths: set[str] = set()
        for field in definition.get("fields") or []:
            self._declare(field)
        if not self.vector_fields:
            raise search_error('"fields" must contain at least one "vector" field')
        self._vectors: dict[str, dict[Key, np.ndarray]] = {path: {} for path in self.vector_fields}
        self._filterable: dict[Key, Document] = {}

    def _declare(self, field: Document) -> None:
        kind = field.get("type") if isinstance(field, Mapping) else None
        if kind == "filter":
            _known(field, {"type", "path"}, "fields")
            self.filter_paths.add(field["path"])
        elif kind == "vector":
            optional = {"quantization", "hnswOptions", "indexingMethod"}
            _known(field, {"type", "path", "numDimensions", "similarity"} | optional, "fields")
            dimensions = field.get("numDimensions")
            if not isinstance(dimensions, int | float) or not 1 <= dimensions <= MAX_DIMENSIONS:
                raise search_error(f'"numDimensions" must be within bounds [1..{MAX_DIMENSIONS}]')
            if field.get("similarity") not in ("cosine", "euclidean", "dotProduct"):
                raise search_error('"similarity" must be one of [cosine, dotProduct, euclidean]')
            if field.get("quantization", "none") not in ("none", "scalar", "binary"):
                raise search_error('"quantization" must be one of [none, scalar, binary]')
            self.vector_fields[field["path"]] = field
        else:
            raise search_error('"fields.type" must be one of [filter, vector]')

    def drop(self, key: Key) -> None:
        self._filterable.pop(key, None)
        for vectors in self._vectors.values():
            vectors.pop(key, None)

    def put(self, key: Key, doc: Document) -> None:
        """Index a document; a vector of another dimension, or a zero vector under cosine, is left out as in
        mongot.
        """
        for path, field in self.vector_fields.items():
            numbers = vector_of(next(values_at(doc, path.split(".")), None))
            if numbers is None or len(numbers) != field["numDimensions"]:
                continue
            vector = np.array(numbers, dtype=np.float32).astype(np.float64)
            if field["similarity"] == "cosine" and not vector.any():
                continue
            self._vectors[path][key] = vector
        self._filterable[key] = _only_paths(doc, self.filter_paths)

    def search(self, spec: Mapping[str, Any]) -> list[tuple[Key, float]]:
        allowed = {"index", "path", "queryVector", "numCandidates", "limit", "filter", "exact"}
        _known(spec, allowed, "$vectorSearch")
        query = self._check(spec)
        matches = self._filter(spec["filter"]) if spec.get("filter") else None
        similarity = self.vector_fields[spec["path"]]["similarity"]
        scored = [
            (key, _similarity(similarity, query, vector))
            for key, vector in self._vectors[spec["path"]].items()
            if matches is None or matches(self._filterable[key])
        ]
        scored.sort(key=lambda pair: pair[1], reverse=True)
        return scored[: int(spec["limit"])]

    def _check(self, spec: Mapping[str, Any]) -> np.ndarray:
        for name in ("path", "queryVector", "limit"):
            if name not in spec:
                raise search_error(f'"{name}" is required')
        limit, candidates, exact = spec["limit"], spec.get("numCandidates"), spec.get("exact", False)
        if isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1:
            raise search_error('"limit" must be positive')
        if exact and candidates is not None:
            raise search_error('"numCandidates" must be omitted when "exact" is set to true')
        if not exact:
            if candidates is None:
                raise search_error('"numCandidates" is required')
            if not 1 <= candidates <= MAX_CANDIDATES:
                raise search_error(f'"numCandidates" must be within bounds [1..{MAX_CANDIDATES}]')
            if limit > candidates:
                raise search_error('"limit" must be less than or equal to "numCandidates"')
        field = self.vector_fields.get(spec["path"])
        if field is None:
            raise search_error(f"{spec['path']} is not indexed as vector")
        numbers = vector_of(spec["queryVector"])
        if numbers is None:
            raise search_error('"queryVector" must be an array of numbers or a BSON vector')
        if len(numbers) != field["numDimensions"]:
            held = field["numDimensions"]
            raise search_error(f"vector field is indexed with {held} dimensions but queried with {len(numbers)}")
        query = np.array(numbers, dtype=np.float32).astype(np.float64)
        if field["similarity"] == "cosine" and not query.any():
            raise search_error("Cosine similarity cannot be calculated against a zero vector.")
        return query

    def _filter(self, spec: Any) -> Callable[[Document], bool]:
        self._check_filter(spec)
        return compile_filter(spec)

    def _check_filter(self, spec: Any) -> None:
        """Only declared paths, only the documented operators, only values that can be indexed."""
        if not isinstance(spec, Mapping):
            raise search_error('"filter" must be a document')
        for path, condition in spec.items():
            if path in ("$and", "$or", "$nor"):
                for part in condition:
                    self._check_filter(part)
            elif path.startswith("$"):
                raise search_error(f'"filter" unsupported operator {path}')
            elif path not in self.filter_paths:
                raise search_error(f"Path '{path}' needs to be indexed as filter")
            else:
                _check_condition(path, condition)


def _check_condition(path: str, condition: Any) -> None:
    operators = condition if is_operator_object(condition) else {"$eq": condition}
    for name, operand in operators.items():
        if name not in _FILTER_OPERATORS:
            raise search_error(f'"filter.{path}" unsupported operator {name}')
        if name == "$not":
            _check_condition(path, operand)
        elif name != "$exists":
            for value in operand if name in ("$in", "$nin") and isinstance(operand, list) else [operand]:
                if bson_type(value) not in _FILTER_TYPES:
                    allowed = "a boolean, objectId, number, string, date, uuid, or null"
                    raise search_error(f'"filter.{path}.{name}" must be {allowed}')


def _only_paths(doc: Document, paths: set[str]) -> Document:
    """The part of a document that filters see: single values and arrays of them, never fields inside an array
    of documents.
    """
    kept: Document = {}
    for path in paths:
        *parents, last = path.split(".")
        source: Any = doc
        for part in parents:
            source = source.get(part) if isinstance(source, Mapping) else None
        if not isinstance(source, Mapping) or last not in source or isinstance(source[last], Mapping):
            continue
        value = source[last]
        target = kept
        for part in parents:
            target = target.setdefault(part, {})
        target[last] = [v for v in value if not isinstance(v, Mapping | list)] if isinstance(value, list) else value
    return kept


def _similarity(kind: str, query: np.ndarray, vector: np.ndarray) -> float:
    if kind == "euclidean":
        score = 1.0 / (1.0 + float(np.linalg.norm(query - vector)))
    else:
        product = float(query @ vector)
        if kind == "cosine":
            product /= float(np.linalg.norm(query)) * float(np.linalg.norm(vector))
        score = max((1.0 + product) / 2.0, 0.0)
    return float(np.float32(score))


# --- text ----------------------------------------------------------------------------------------------

_CJK: Final = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_STANDARD_TOKEN: Final = re.compile(rf"[{_CJK}]|[^\W_{_CJK}](?:['.\u2019]?[^\W{_CJK}])*|_+[^\W{_CJK}]+")


def _standard(text: str) -> list[str]:
    """Close to Lucene's StandardTokenizer (Unicode word break), lower-cased: CJK characters are single
    tokens.
    """
    return [token.lower() for token in _STANDARD_TOKEN.findall(text)]


_ANALYZERS: Final[dict[str, Callable[[str], list[str]]]] = {
    "lucene.standard": _standard,
    "lucene.whitespace": str.split,
    "lucene.keyword": lambda text: [text] if text else [],
    "lucene.simple": lambda text: [token.lower() for token in re.findall(r"[^\W\d_]+", text)],
}
_VALUE_TYPES: Final = {
    "token": (2,),
    "number": (1, 16, 18),
    "boolean": (8,),
    "date": (9,),
    "objectId": (7,),
    "uuid": (5,),
}
_DYNAMIC_TYPES: Final = ("string", "number", "boolean", "date", "objectId", "uuid")
K1, B = 1.2, 0.75


def _analyzer(name: str) -> Callable[[str], list[str]]:
    if name not in _ANALYZERS:
        raise search_error(f"analyzer {name} is not one the stand-in knows: {', '.join(_ANALYZERS)}")
    return _ANALYZERS[name]


class _Field:
    """The inverted index of one string field."""

    def __init__(self, analyzer: str, search_analyzer: str) -> None:
        self.analyze = _analyzer(analyzer)
        self.analyze_query = _analyzer(search_analyzer)
        self.postings: dict[str, dict[Key, int]] = {}
        self.lengths: dict[Key, int] = {}
        self.total = 0

    def add(self, key: Key, texts: list[str]) -> None:
        counts = Counter(token for text in texts for token in self.analyze(text))
        self.lengths[key] = counts.total()
        self.total += counts.total()
        for token, count in counts.items():
            self.postings.setdefault(token, {})[key] = count

    def remove(self, key: Key, texts: list[str]) -> None:
        if key not in self.lengths:
            return
        self.total -= self.lengths.pop(key)
        for token in {token for text in texts for token in self.analyze(text)}:
            self.postings[token].pop(key, None)
            if not self.postings[token]:
                del self.postings[token]

    def scores(self, token: str) -> Iterator[tuple[Key, float]]:
        found = self.postings.get(token)
        if not found:
            return
        count, average = len(self.lengths), self.total / len(self.lengths)
        idf = math.log(1 + (count - len(found) + 0.5) / (len(found) + 0.5))
        for key, frequency in found.items():
            norm = K1 * (1 - B + B * self.lengths[key] / average)
            yield key, idf * frequency / (frequency + norm)


class TextMatcher:
    """What a `search` index holds: inverted indexes of string fields and the values of other fields."""

    def __init__(self, definition: Document) -> None:
        _known(
            definition,
            {"mappings", "analyzer", "searchAnalyzer", "storedSource", "numPartitions"},
            "definition",
        )
        self._analyzer = definition.get("analyzer", "lucene.standard")
        self._search_analyzer = definition.get("searchAnalyzer", self._analyzer)
        if "mappings" not in definition:
            raise search_error('"mappings" is required')
        self.mappings = definition["mappings"]
        self._check_mappings(self.mappings)
        self._known_definitions: dict[str, list[Document]] = {}
        self._strings: dict[str, _Field] = {}
        self._texts: dict[Key, dict[str, list[str]]] = {}
        self._values: dict[Key, dict[str, list[tuple[str, Any]]]] = {}

    def _check_mappings(self, mappings: Any) -> None:
        _known(mappings, {"dynamic", "fields"}, "mappings")
        for name, definitions in mappings.get("fields", {}).items():
            for field in definitions if isinstance(definitions, list) else [definitions]:
                kind = field.get("type")
                extra = {
                    "string": {"analyzer", "searchAnalyzer", "indexOptions", "store", "ignoreAbove", "norms"},
                    "token": {"normalizer"},
                    "number": {"representation", "indexIntegers", "indexDoubles"},
                    "document": {"dynamic", "fields"},
                }.get(kind, set())
                if kind not in _VALUE_TYPES and kind not in ("string", "document"):
                    raise search_error(f'"mappings.fields.{name}.type" {kind} is not one the stand-in knows')
                _known(field, {"type"} | extra, f"mappings.fields.{name}")
                if kind == "string":
                    _analyzer(field.get("analyzer", self._analyzer))
                if kind == "token" and field.get("normalizer", "none") not in ("none", "lowercase"):
                    raise search_error('"normalizer" must be one of [none, lowercase]')
                if kind == "document":
                    self._check_mappings({k: v for k, v in field.items() if k != "type"})

    def _definitions(self, path: str) -> list[Document]:
        """How a path is indexed: its own definitions, or the dynamic ones of the nearest document that has
        them.
        """
        if path not in self._known_definitions:
            self._known_definitions[path] = self._find_definitions(path)
        return self._known_definitions[path]

    def _find_definitions(self, path: str) -> list[Document]:
        node = self.mappings
        *parents, last = path.split(".")
        for part in parents:
            child = next((f for f in _as_list(node.get("fields", {}).get(part)) if f["type"] == "document"), None)
            if child is None:
                if not node.get("dynamic"):
                    return []
                child = {"dynamic": True}
            node = child
        own = _as_list(node.get("fields", {}).get(last))
        return own or ([{"type": kind} for kind in _DYNAMIC_TYPES] if node.get("dynamic") else [])

    def _field(self, path: str, field: Document) -> _Field:
        if path not in self._strings:
            analyzer = str(field.get("analyzer", self._analyzer))
            query_analyzer = str(field.get("searchAnalyzer", field.get("analyzer", self._search_analyzer)))
            self._strings[path] = _Field(analyzer, query_analyzer)
        return self._strings[path]

    def put(self, key: Key, doc: Document) -> None:
        texts: dict[str, list[str]] = {}
        values: dict[str, list[tuple[str, Any]]] = {}
        for path, value in _leaves(doc):
            for field in self._definitions(path):
                kind = field["type"]
                if kind == "string" and isinstance(value, str):
                    texts.setdefault(path, []).append(value)
                elif kind in _VALUE_TYPES and bson_type(value) in _VALUE_TYPES[kind]:
                    lower = kind == "token" and field.get("normalizer") == "lowercase"
                    values.setdefault(path, []).append((kind, value.lower() if lower else value))
        for path, found in texts.items():
            field = next(f for f in self._definitions(path) if f["type"] == "string")
            self._field(path, field).add(key, found)
        self._texts[key], self._values[key] = texts, values

    def drop(self, key: Key) -> None:
        for path, found in self._texts.pop(key, {}).items():
            self._strings[path].remove(key, found)
        self._values.pop(key, None)

    def search(self, spec: Mapping[str, Any]) -> list[tuple[Key, float]]:
        operators = {name: value for name, value in spec.items() if name != "index"}
        scored = self._score(operators, "$search")
        order = {key: position for position, key in enumerate(self._texts)}
        ranked = [(key, float(np.float32(score))) for key, score in scored.items()]
        return sorted(ranked, key=lambda pair: (-pair[1], order[pair[0]]))

    def _score(self, clause: Any, where: str) -> dict[Key, float]:
        if not isinstance(clause, Mapping) or len(clause) != 1:
            raise search_error(f'"{where}" must have exactly one operator, found {sorted(clause)}')
        name, body = next(iter(clause.items()))
        operator = _OPERATORS.get(name)
        if operator is None:
            raise search_error(f'"{where}" unrecognized field "{name}"')
        scored = operator(self, body)
        modifier = body.get("score") if name != "compound" else None
        return {key: _modified(score, modifier) for key, score in scored.items()} if modifier else scored

    def _text(self, body: Any) -> dict[Key, float]:
        _known(body, {"query", "path", "score", "matchCriteria"}, "text")
        queries, criteria = _as_list(body["query"]), body.get("matchCriteria", "any")
        if not queries or not all(isinstance(query, str) for query in queries):
            raise search_error('"text.query" must be a string or a non-empty array of strings')
        scored: dict[Key, float] = {}
        for path in self._paths(body["path"]):
            field = self._strings.get(path)
            if field is None:
                continue
            found: dict[Key, float] = {}
            hits: Counter[Key] = Counter()
            tokens = [token for query in queries for token in field.analyze_query(query)]
            for token in tokens:
                for key, score in field.scores(token):
                    found[key] = found.get(key, 0.0) + score
                    hits[key] += 1
            for key, score in found.items():
                if criteria != "all" or hits[key] == len(tokens):
                    scored[key] = scored.get(key, 0.0) + score
        return scored

    def _paths(self, path: Any) -> list[str]:
        paths: list[str] = []
        for entry in _as_list(path):
            if isinstance(entry, Mapping):
                _known(entry, {"wildcard"}, "path")
                pattern = re.compile(".*".join(map(re.escape, entry["wildcard"].split("*"))) + "$")
                paths.extend(known for known in self._strings if pattern.match(known))
            else:
                paths.append(entry)
        return paths

    def _needs(self, path: str, value: Any) -> str:
        """The index type a value needs at a path, checked to be there."""
        code = bson_type(value)
        kind = next((kind for kind, codes in _VALUE_TYPES.items() if code in codes), None)
        if kind is None:
            raise search_error(f"a value of BSON type {code} cannot be searched for")
        if not any(field["type"] == kind for field in self._definitions(path)):
            raise search_error(f"Path '{path}' needs to be indexed as {kind}")
        return kind

    def _having(self, path: str, kind: str, test: Callable[[Any], bool]) -> dict[Key, float]:
        return {
            key: 1.0
            for key, values in self._values.items()
            if any(found == kind and test(value) for found, value in values.get(path, []))
        }

    def _equals(self, body: Any) -> dict[Key, float]:
        _known(body, {"path", "value", "score"}, "equals")
        value = body["value"]
        if value is None:
            return {key: 1.0 for key in self._values if not self._present(key, body["path"])}
        return self._having(body["path"], self._needs(body["path"], value), lambda v: equal(v, value))

    def _in(self, body: Any) -> dict[Key, float]:
        _known(body, {"path", "value", "score"}, "in")
        values = _as_list(body["value"])
        wanted = {order_key(value) for value in values}
        scored: dict[Key, float] = {}
        for path in _as_list(body["path"]):
            kinds = {self._needs(path, value) for value in values}
            if len(kinds) != 1:
                raise search_error('"in.value" must hold values of one type')
            scored |= self._having(path, kinds.pop(), lambda v: order_key(v) in wanted)
        return scored

    def _range(self, body: Any) -> dict[Key, float]:
        _known(body, {"path", "gt", "gte", "lt", "lte", "score"}, "range")
        bounds = {name: body[name] for name in ("gt", "gte", "lt", "lte") if name in body}
        if not bounds:
            raise search_error('"range" needs at least one of [gt, gte, lt, lte]')
        if len({type_rank(value) for value in bounds.values()}) != 1:
            raise search_error('"range" bounds must be of one type')
        condition = compile_filter({"v": {f"${name}": value for name, value in bounds.items()}})
        scored: dict[Key, float] = {}
        for path in _as_list(body["path"]):
            kind = self._needs(path, next(iter(bounds.values())))
            scored |= self._having(path, kind, lambda v: condition({"v": v}))
        return scored

    def _exists(self, body: Any) -> dict[Key, float]:
        _known(body, {"path", "score"}, "exists")
        return {key: 1.0 for key in self._values if self._present(key, body["path"])}

    def _present(self, key: Key, path: str) -> bool:
        indexed = [*self._texts[key], *self._values[key]]
        return any(known == path or known.startswith(f"{path}.") for known in indexed)

    def _compound(self, body: Any) -> dict[Key, float]:
        _known(body, {"must", "mustNot", "should", "filter", "minimumShouldMatch", "score"}, "compound")
        parts = {
            name: [self._score(clause, f"compound.{name}") for clause in _as_list(body.get(name, []))]
            for name in ("must", "mustNot", "should", "filter")
        }
        if not any(parts.values()):
            raise search_error('"compound" must have at least one clause')
        required = parts["must"] + parts["filter"]
        least = int(body.get("minimumShouldMatch", 0 if required or not parts["should"] else 1))
        keys = self._values.keys() - {key for clause in parts["mustNot"] for key in clause}
        return {
            key: sum(clause.get(key, 0.0) for clause in parts["must"] + parts["should"])
            for key in keys
            if all(key in clause for clause in required) and sum(key in clause for clause in parts["should"]) >= least
        }


_OPERATORS: Final[dict[str, Callable[[TextMatcher, Any], dict[Key, float]]]] = {
    "text": TextMatcher._text,
    "equals": TextMatcher._equals,
    "in": TextMatcher._in,
    "range": TextMatcher._range,
    "exists": TextMatcher._exists,
    "compound": TextMatcher._compound,
}


def _modified(score: float, modifier: Mapping[str, Any]) -> float:
    _known(modifier, {"boost", "constant"}, "score")
    if "boost" in modifier:
        return score * float(modifier["boost"]["value"])
    return float(modifier["constant"]["value"])


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of all that is neither document nor array; arrays add nothing to the path."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for element in value:
            yield from _leaves(element, path)
    elif value is not MISSING and value is not None:
        yield path, value
