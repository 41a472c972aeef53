"""One index of the Elasticsearch stand-in: its writes, what a refresh shows, and the Query DSL over that."""

from __future__ import annotations

import ast
import math
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .elasticsearch_mapping import (
    INTEGERS,
    NUMERIC,
    Doc,
    DocumentParser,
    EsError,
    Field,
    Json,
    Mapping,
    Mask,
    Match,
    Scores,
    analyse,
    as_list,
    as_number,
    as_text,
    check_vector,
    filter_source,
    illegal,
    invalid,
    lossy_length,
    parse_date,
    parsing,
)

# -- an index: writes, and what a refresh shows -----------------------------------------------------

SETTINGS = re.compile(
    r"(number_of_(shards|replicas)|refresh_interval|codec|hidden|auto_expand_replicas|max_result_window|max_terms_count"
    r"|max_inner_result_window|mapping\.(total_fields\.limit|exclude_source_vectors)|analysis\..+|similarity\..+"
    r"|(translog|merge|blocks|routing|search|sort)\..+)$"
)
BAD_NAME = re.compile(r"[A-Z\\/*?\"<>| ,#:]|^[-_+]|^\.\.?$")


def flat_settings(settings: Json, prefix: str = "") -> Json:
    flat: Json = {}
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            flat.update(flat_settings(value, path + "."))
        else:
            flat[path.removeprefix("index.")] = value
    return flat


class Index:
    def __init__(self, name: str, settings: Json, mappings: Json, *, exclude_vectors: bool) -> None:
        self.name, self.uuid = name, uuid.uuid4().hex[:22]
        self.settings = self.checked(settings)
        self.mapping = Mapping(self.settings)
        self.mapping.merge(mappings)
        own = str(self.settings.get("mapping.exclude_source_vectors", exclude_vectors)).lower()
        self.exclude_vectors = own == "true"
        self.docs: dict[str, Doc] = {}
        self.tombstones: dict[str, int] = {}
        self.next_seq_no = 0
        self.reader = Reader(self, [])

    @staticmethod
    def checked(settings: Json) -> Json:
        flat = flat_settings(settings)
        for key in flat:
            if not SETTINGS.match(key):
                raise illegal(f"unknown setting [index.{key}] please check that any required plugins are installed")
        return flat

    def refresh(self) -> None:
        if self.reader.state != self.next_seq_no or self.reader.fields is not self.mapping.fields:
            self.reader = Reader(self, list(self.docs.values()))

    def conflict(self, doc_id: str, reason: str) -> EsError:
        about = {"index_uuid": self.uuid, "shard": "0", "index": self.name}
        what = f"[{doc_id}]: version conflict, {reason}"
        return EsError(409, "version_conflict_engine_exception", what, about=about)

    def check_seq_no(self, doc_id: str, options: Json) -> None:
        if options.get("if_seq_no") is None:
            return
        wanted, term = int(options["if_seq_no"]), int(options.get("if_primary_term") or 0)
        if term < 1:
            raise invalid("ifSeqNo is set, but primary term is [0]")
        now = self.docs.get(doc_id)
        if now is None or (now.seq_no, 1) != (wanted, term):
            found = (
                "but no document was found"
                if now is None
                else f"current document has seqNo [{now.seq_no}] and primary term [1]"
            )
            raise self.conflict(doc_id, f"required seqNo [{wanted}], primary term [{term}]. {found}")

    def written(self, doc_id: str, version: int, result: str, status: int) -> Json:
        seq_no, self.next_seq_no = self.next_seq_no, self.next_seq_no + 1
        copies = int(self.settings.get("number_of_replicas", 1)) + 1
        shards = {"total": copies, "successful": 1, "failed": 0}
        answer = {
            "_index": self.name,
            "_id": doc_id,
            "_version": version,
            "result": result,
            "_shards": shards,
        }
        return {**answer, "_seq_no": seq_no, "_primary_term": 1, "status": status}

    def put(self, doc_id: str, source: Json, options: Json, *, create: bool = False) -> Json:
        now = self.docs.get(doc_id)
        if create and now is not None:
            raise self.conflict(doc_id, f"document already exists (current version [{now.version}])")
        self.check_seq_no(doc_id, options)
        doc = Doc(doc_id, source, seq_no=self.next_seq_no)
        DocumentParser(self.mapping, doc)
        doc.version = (now.version if now else self.tombstones.pop(doc_id, 0)) + 1
        self.docs.pop(doc_id, None)  # a new version is a new Lucene document, last in index order
        self.docs[doc_id] = doc
        return self.written(doc_id, doc.version, "updated" if now else "created", 200 if now else 201)

    def delete(self, doc_id: str, options: Json) -> Json:
        self.check_seq_no(doc_id, options)
        now = self.docs.pop(doc_id, None)
        version = (now.version if now else self.tombstones.get(doc_id, 0)) + 1
        self.tombstones[doc_id] = version
        return self.written(doc_id, version, "deleted" if now else "not_found", 200 if now else 404)

    def update(self, doc_id: str, body: Json, options: Json) -> Json:
        for key in set(body) - {"doc", "doc_as_upsert", "upsert", "detect_noop", "_source"}:
            raise EsError(400, "x_content_parse_exception", f"[1:2] [UpdateRequest] unknown field [{key}]")
        now = self.docs.get(doc_id)
        self.check_seq_no(doc_id, options)
        if now is None:
            first = body.get("doc") if body.get("doc_as_upsert") else body.get("upsert")
            if first is None:
                about = {"index_uuid": self.uuid, "shard": "0", "index": self.name}
                raise EsError(404, "document_missing_exception", f"[{doc_id}]: document missing", about=about)
            return self.put(doc_id, first, {})
        merged = merge_source(now.source, body.get("doc", {}))
        if merged == now.source and body.get("detect_noop", True):
            answer = {"_index": self.name, "_id": doc_id, "_version": now.version, "result": "noop"}
            shards = {"total": 0, "successful": 0, "failed": 0}
            return {**answer, "_shards": shards, "_seq_no": now.seq_no, "_primary_term": 1, "status": 200}
        return self.put(doc_id, merged, {})

    def source_of(self, doc: Doc, wanted: Any, params: Json) -> Json | None:
        """The `_source` that a request asks for, or None."""
        includes, excludes = params.get("_source_includes"), params.get("_source_excludes")
        vectors = self.exclude_vectors
        if isinstance(wanted, dict):
            known = {"includes", "include", "excludes", "exclude"} | (
                {"exclude_vectors"} if vectors_flag(params) else set()
            )
            for key in set(wanted) - known:
                raise parsing(f"Unknown key for a VALUE in [{key}].")
            includes = wanted.get("includes", wanted.get("include"))
            excludes = wanted.get("excludes", wanted.get("exclude"))
            vectors = wanted.get("exclude_vectors", vectors)
        elif str(wanted).lower() == "false":
            return None
        elif isinstance(wanted, str | list) and str(wanted).lower() not in ("true", ""):
            includes = wanted
        if "_source_exclude_vectors" in params:
            vectors = params["_source_exclude_vectors"] != "false"
        split = [p if isinstance(p, list) else p.split(",") if p else [] for p in (includes, excludes)]
        hidden = self.mapping.vector_paths() if vectors else []
        if not any(split) and not hidden:
            return doc.source
        filtered: Json = filter_source(doc.source, split[0], split[1] + hidden)
        return filtered


def vectors_flag(params: Json) -> bool:
    """Whether this version knows `_source.exclude_vectors` (the server puts the answer among the params)."""
    return bool(params.get(" exclude_vectors", True))


def merge_source(old: Json, new: Json) -> Json:
    merged = dict(old)
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(old.get(key), dict)
        merged[key] = merge_source(old[key], value) if both else value
    return merged


# -- reading: columns of one refresh, and the queries over them ---------------------------------------


@dataclass
class TextColumn:
    postings: dict[str, tuple[npt.NDArray[np.int64], Scores]]
    lengths: Scores
    documents: int


class Reader:
    """The documents of one refresh in index order; a later write does not change them."""

    lossy_lengths = False

    def __init__(self, index: Index, docs: list[Doc]) -> None:
        self.index, self.docs, self.n = index, docs, len(docs)
        self.state, self.fields = index.next_seq_no, index.mapping.fields
        self._inverted: dict[str, dict[Any, list[int]]] = {}
        self._text: dict[str, TextColumn] = {}
        self._holders: dict[str, int] = {}
        self._vectors: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]] = {}

    def nothing(self) -> Match:
        return np.zeros(self.n, dtype=bool), np.zeros(self.n)

    def everything(self, score: float = 1.0) -> Match:
        return np.ones(self.n, dtype=bool), np.full(self.n, score)

    def constant(self, places: Iterable[int], score: float) -> Match:
        mask, scores = self.nothing()
        chosen = list(places)
        mask[chosen], scores[chosen] = True, score
        return mask, scores

    @cached_property
    def by_id(self) -> dict[str, int]:
        return {doc.id: place for place, doc in enumerate(self.docs)}

    def inverted(self, path: str) -> dict[Any, list[int]]:
        if path not in self._inverted:
            lists: dict[Any, list[int]] = {}
            for place, doc in enumerate(self.docs):
                for value in set(doc.values.get(path, ())):
                    lists.setdefault(value, []).append(place)
            self._inverted[path] = lists
        return self._inverted[path]

    def holders(self, path: str) -> int:
        """How many documents have a value at `path`."""
        if path not in self._holders:
            self._holders[path] = sum(path in doc.values for doc in self.docs)
        return self._holders[path]

    def text(self, path: str) -> TextColumn:
        if path not in self._text:
            lengths = np.zeros(self.n)
            lists: dict[str, tuple[list[int], list[int]]] = {}
            documents = 0
            for place, doc in enumerate(self.docs):
                tokens = doc.tokens.get(path)
                documents += bool(tokens)
                lengths[place] = len(tokens or ())
                for token, count in Counter(tokens or ()).items():
                    places, counts = lists.setdefault(token, ([], []))
                    places.append(place)
                    counts.append(count)
            packed = {token: (np.array(p), np.array(c, dtype=float)) for token, (p, c) in lists.items()}
            self._text[path] = TextColumn(packed, lengths, documents)
        return self._text[path]

    def leaf(self, path: str) -> Field | None:
        found = self.index.mapping.resolve(path)
        if found is not None and not found.searchable:
            what = f"Cannot search on field [{path}] since it is not indexed nor has doc values."
            reason = f"failed to create query: {what}"
            raise EsError(400, "query_shard_exception", reason, shard=True, index=self.index.name)
        return found

    def bm25(self, leaf: Field, token: str) -> Match:
        """The scores of one term; see the module's docstring for the formula."""
        column = self.text(leaf.path)
        mask, scores = self.nothing()
        if token not in column.postings:
            return mask, scores
        places, counts = column.postings[token]
        mask[places] = True
        name = leaf.params.get("similarity", "default")
        k1 = float(self.index.settings.get(f"similarity.{name}.k1", 1.2))
        b = float(self.index.settings.get(f"similarity.{name}.b", 0.75))
        if name == "boolean":
            scores[places] = 1.0
            return mask, scores
        if leaf.params.get("norms") is False:
            b = 0.0
        if leaf.params.get("index_options") == "docs":
            counts = np.ones_like(counts)
        lengths = column.lengths[places]
        average = column.lengths.sum() / column.documents
        if self.lossy_lengths:
            lengths = np.array([lossy_length(int(length)) for length in lengths], dtype=float)
        idf = math.log(1 + (column.documents - len(places) + 0.5) / (len(places) + 0.5))
        scores[places] = (k1 + 1) * idf * counts / (counts + k1 * (1 - b + b * lengths / average))
        return mask, scores

    def term(self, leaf: Field | None, value: Any) -> Match:
        if leaf is None:
            return self.nothing()
        if isinstance(value, dict | list) or value is None:
            raise parsing(f"[term] query does not support a value of [{value}]")
        if leaf.kind == "text":
            return self.bm25(leaf, as_text(value))
        if leaf.kind in ("dense_vector", "binary"):
            raise illegal(f"Field [{leaf.path}] of type [{leaf.kind}] does not support term queries", shard=True)
        if leaf.kind == "date":
            return self.range(leaf, {"gte": value, "lte": value})
        try:
            if leaf.kind in INTEGERS and isinstance(value, float) and not value.is_integer():
                return self.nothing()
            wanted = as_text(value) if leaf.kind == "flattened" else leaf.convert(value)
        except ValueError as error:
            if leaf.kind in INTEGERS and "out of range" in str(error):
                return self.nothing()
            raise self.unreadable(error) from error
        places = self.inverted(leaf.path).get(wanted, [])
        score = 1.0
        if leaf.kind in ("keyword", "flattened") and places:  # no norms, frequency 1: what is left is the idf
            documents = self.holders(leaf.path)
            score = math.log(1 + (documents - len(places) + 0.5) / (len(places) + 0.5))
        return self.constant(places, score)

    def unreadable(self, error: Exception) -> EsError:
        reason = f"failed to create query: {error}"
        return EsError(400, "query_shard_exception", reason, shard=True, index=self.index.name)

    def range(self, leaf: Field, bounds: Json) -> Match:
        if leaf.kind in ("dense_vector", "binary"):
            raise illegal(f"Field [{leaf.path}] of type [{leaf.kind}] does not support range queries", shard=True)
        tests: list[Callable[[Any], bool]] = []
        for name, bound in bounds.items():
            if bound is None:
                continue
            try:
                edge: Any
                if leaf.kind == "date":
                    edge = parse_date(bound, round_up=name in ("gt", "lte"))
                elif leaf.kind in NUMERIC:
                    edge = float(bound) if isinstance(bound, str) else as_number("double", bound)
                    edge = bound if isinstance(bound, int) else edge
                else:
                    edge = as_text(bound) if leaf.kind in ("text", "flattened") else leaf.convert(bound)
            except (ValueError, OverflowError) as error:
                raise self.unreadable(error) from error
            tests.append(COMPARE[name](edge))
        terms: dict[Any, Any] = self.inverted(leaf.path)
        if leaf.kind == "text":
            terms = {token: places for token, (places, _) in self.text(leaf.path).postings.items()}
        hits = [place for value, places in terms.items() if all(test(value) for test in tests) for place in places]
        return self.constant(hits, 1.0)

    def exists(self, path: str) -> Mask:
        below = path + "."
        leaves = [p for p in self.fields if p == path or p.startswith(below)]
        leaves = leaves if leaves or self.index.mapping.resolve(path) is None else [path]
        return np.fromiter((any(p in d.values or p in d.vectors for p in leaves) for d in self.docs), bool, self.n)

    def vectors(self, path: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        if path not in self._vectors:
            places = [place for place, doc in enumerate(self.docs) if path in doc.vectors]
            rows = [self.docs[place].vectors[path] for place in places]
            self._vectors[path] = np.array(places, dtype=np.int64), np.array(rows, dtype=np.float32)
        return self._vectors[path]

    # The Query DSL: one method per query type, named `query_<type>`.

    def match(self, query: Any, size: int = 10) -> Match:
        if not isinstance(query, dict) or len(query) != 1:
            raise parsing(
                "query malformed, empty clause found" if query == {} else f"[_na] query malformed: {query!r:.80}"
            )
        ((kind, body),) = query.items()
        method = getattr(self, f"query_{kind}", None)
        if method is None:
            cause = {"type": "named_object_not_found_exception", "reason": f"[1:1] unknown field [{kind}]"}
            raise parsing(f"unknown query [{kind}]", caused_by=cause)
        if not isinstance(body, dict):
            raise parsing(f"[{kind}] query malformed, no start_object after query name")
        if kind == "knn":
            return knn_matches([self], body, size)[0]
        mask, scores = method(body)
        return mask, scores * mask

    def options(self, kind: str, body: Json, allowed: str) -> float:
        """Refuse unknown options; return the boost."""
        for key in set(body) - {"boost", "_name", *allowed.split()}:
            raise parsing(f"[{kind}] query does not support [{key}]")
        boost = float(body.get("boost", 1.0))
        if boost < 0:
            raise illegal(f"negative [boost] are not allowed in [{kind}], use a value between 0 and 1 to deboost")
        return boost

    def one_field(self, kind: str, body: Json, allowed: str, short: str | None) -> tuple[str, Json, float]:
        fields = [key for key in body if key not in ("boost", "_name")]
        if len(fields) != 1:
            found = " and ".join(f"[{name}]" for name in fields)
            raise parsing(f"[{kind}] query doesn't support multiple fields, found {found}")
        inner = body[fields[0]]
        if not isinstance(inner, dict):
            if short is None:
                raise parsing(f"[{kind}] query does not support [{fields[0]}]")
            inner = {short: inner}
        return fields[0], inner, self.options(kind, inner, allowed) * float(body.get("boost", 1.0))

    def query_match_all(self, body: Json) -> Match:
        return self.everything(self.options("match_all", body, ""))

    def query_match_none(self, body: Json) -> Match:
        self.options("match_none", body, "")
        return self.nothing()

    def query_ids(self, body: Json) -> Match:
        boost = self.options("ids", body, "values")
        if "values" not in body:
            raise parsing("[ids] requires providing a list of values")
        return self.constant((self.by_id[i] for i in set(map(str, as_list(body["values"]))) & set(self.by_id)), boost)

    def query_exists(self, body: Json) -> Match:
        boost = self.options("exists", body, "field")
        if "field" not in body:
            raise parsing("[exists] must be provided with a [field]")
        mask = self.exists(body["field"])
        return mask, mask * boost

    def query_term(self, body: Json) -> Match:
        path, inner, boost = self.one_field("term", body, "value", "value")
        if path == "_id":
            return self.query_ids({"values": [inner.get("value")], "boost": boost})
        mask, scores = self.term(self.leaf(path), inner.get("value"))
        return mask, scores * boost

    def query_terms(self, body: Json) -> Match:
        boost = self.options("terms", {k: v for k, v in body.items() if k in ("boost", "_name")}, "")
        fields = [key for key in body if key not in ("boost", "_name")]
        if len(fields) != 1 or not isinstance(body[fields[0]], list):
            raise parsing("[terms] query requires one field with an array of terms")
        limit = int(self.index.settings.get("max_terms_count", 65536))
        if len(body[fields[0]]) > limit:
            raise illegal(
                f"The number of terms [{len(body[fields[0]])}] used in the Terms Query request has exceeded "
                f"the allowed maximum of [{limit}].",
                shard=True,
            )
        if fields[0] == "_id":
            return self.query_ids({"values": body["_id"], "boost": boost})
        leaf, mask = self.leaf(fields[0]), self.nothing()[0]
        for value in body[fields[0]]:
            if value is None:
                raise illegal("No value specified for terms query", shard=True)
            mask |= self.term(leaf, value)[0]
        return mask, mask * boost

    def query_range(self, body: Json) -> Match:
        path, inner, boost = self.one_field("range", body, "gt gte lt lte", None)
        leaf = self.leaf(path)
        if leaf is None:
            return self.nothing()
        mask, scores = self.range(leaf, {key: value for key, value in inner.items() if key in COMPARE})
        return mask, scores * boost

    def query_match(self, body: Json) -> Match:
        path, inner, boost = self.one_field(
            "match", body, "query operator minimum_should_match zero_terms_query", "query"
        )
        leaf = self.leaf(path)
        if inner.get("query") is None:
            raise parsing("No text specified for text query")
        operator = str(inner.get("operator", "or")).lower()
        if operator not in ("or", "and"):
            raise illegal(f"No enum constant org.elasticsearch.index.query.Operator.{operator.upper()}")
        if leaf is None or leaf.kind != "text":
            mask, scores = self.term(leaf, inner["query"])
            return mask, scores * boost
        name: str = leaf.params.get("search_analyzer") or leaf.params.get("analyzer", "standard")
        tokens = analyse(as_text(inner["query"]), self.index.mapping.analyzer(name))
        if not tokens:
            return self.everything(boost) if inner.get("zero_terms_query") == "all" else self.nothing()
        parts = [self.bm25(leaf, token) for token in tokens]
        default = len(tokens) if operator == "and" else 1
        least = minimum_should_match(inner.get("minimum_should_match", default), len(tokens))
        matched = np.sum([mask for mask, _ in parts], axis=0)
        return matched >= max(least, 1), np.sum([scores for _, scores in parts], axis=0) * boost

    def query_bool(self, body: Json) -> Match:
        boost = self.options("bool", body, "must should filter must_not minimum_should_match")
        clauses = {name: as_list(body.get(name, [])) for name in ("must", "should", "filter", "must_not")}
        mask, scores = self.everything(0.0)
        if not any(clauses.values()):
            return self.everything(boost)
        for query in clauses["must"]:
            inner, added = self.match(query)
            mask, scores = mask & inner, scores + added
        for query in clauses["filter"]:
            mask = mask & self.match(query)[0]
        for query in clauses["must_not"]:
            mask = mask & ~self.match(query)[0]
        if clauses["should"]:
            parts = [self.match(query) for query in clauses["should"]]
            default = 0 if clauses["must"] or clauses["filter"] else 1
            least = minimum_should_match(body.get("minimum_should_match", default), len(parts))
            mask = mask & (np.sum([inner for inner, _ in parts], axis=0) >= least)
            scores = scores + np.sum([added for _, added in parts], axis=0)
        return mask, scores * boost

    def query_constant_score(self, body: Json) -> Match:
        boost = self.options("constant_score", body, "filter")
        if "filter" not in body:
            raise parsing("[constant_score] requires a 'filter' element")
        mask = self.match(body["filter"])[0]
        return mask, mask * boost

    def query_script_score(self, body: Json) -> Match:
        boost = self.options("script_score", body, "query script min_score")
        if "query" not in body or "script" not in body:
            raise parsing("script_score requires 'query' and 'script'")
        mask, inner = self.match(body["query"])
        scores = Script(self, body["script"]).run(mask, inner)
        wrong = mask & ((scores < 0) | np.isnan(scores))
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            reason = f"script_score script returned an invalid score [{scores[place]}] for doc [{place}]."
            raise illegal(f"{reason} Must be a non-negative score!", shard=True)
        if "min_score" in body:
            mask = mask & (scores >= body["min_score"])
        return mask, scores * boost

    def query_knn(self, body: Json) -> Match:
        raise NotImplementedError("match() sends knn to knn_matches")


COMPARE: dict[str, Callable[[Any], Callable[[Any], bool]]] = {
    "gt": lambda edge: lambda value: bool(value > edge),
    "gte": lambda edge: lambda value: bool(value >= edge),
    "lt": lambda edge: lambda value: bool(value < edge),
    "lte": lambda edge: lambda value: bool(value <= edge),
}


def minimum_should_match(spec: Any, clauses: int) -> int:
    """An integer or a percentage, negative ones counted from all clauses."""
    if re.fullmatch(r"-?\d+%", str(spec)):
        share = int(clauses * abs(int(str(spec)[:-1])) / 100)
        return clauses - share if str(spec).startswith("-") else share
    try:
        number = int(spec)
    except ValueError as error:
        raise illegal(f"the stand-in does not read minimum_should_match [{spec}]") from error
    return clauses + number if number < 0 else number


class Script:
    """`cosineSimilarity(params.v, 'field')` and `dotProduct(...)` in an arithmetic expression."""

    CALL = re.compile(r"(cosineSimilarity|dotProduct)\(\s*params\.(\w+)\s*,\s*'([^']+)'\s*\)")

    def __init__(self, reader: Reader, script: Any) -> None:
        script = {"source": script} if isinstance(script, str) else script
        for key in set(script) - {"source", "params", "lang"}:
            raise parsing(f"[script] unknown field [{key}]")
        self.reader, self.params = reader, script.get("params", {})
        self.calls: list[tuple[str, str, str]] = []
        text = self.CALL.sub(self._call, script["source"].strip().removeprefix("return ").rstrip("; "))
        try:
            self.tree = ast.parse(re.sub(r"params\.(\w+)", r"params_\1", text), mode="eval").body
        except SyntaxError as error:
            raise EsError(400, "script_exception", f"compile error: {script['source']}", shard=True) from error

    def _call(self, match: re.Match[str]) -> str:
        self.calls.append((match[1], match[2], match[3]))
        return f"call_{len(self.calls) - 1}"

    def run(self, mask: Mask, inner: Scores) -> Scores:
        names: dict[str, Any] = {"_score": inner}
        names.update({f"params_{key}": value for key, value in self.params.items()})
        for number, call in enumerate(self.calls):
            names[f"call_{number}"] = self._similarity(mask, *call)
        scores = self._evaluate(self.tree, names)
        return np.broadcast_to(np.asarray(scores, dtype=float), (self.reader.n,)).copy()

    def _similarity(self, mask: Mask, function: str, param: str, path: str) -> Scores:
        leaf = self.reader.index.mapping.resolve(path)
        if leaf is None or leaf.kind != "dense_vector":
            raise EsError(400, "script_exception", f"runtime error: No field found for [{path}] in mapping", shard=True)
        query = np.asarray(self.params[param], dtype=np.float32)
        places, rows = self.reader.vectors(path)
        scores = np.zeros(self.reader.n)
        missing = mask.copy()
        missing[places] = False
        if missing.any():
            raise illegal("A document doesn't have a value for a vector field!", shard=True)
        if len(places):
            if rows.shape[1] != len(query):
                reason = f"The query vector has a different number of dimensions [{len(query)}]"
                raise illegal(f"{reason} than the document vectors [{rows.shape[1]}].", shard=True)
            scores[places] = rows @ query
            if function == "cosineSimilarity":
                scores[places] /= np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
        return scores

    def _evaluate(self, node: ast.expr, names: dict[str, Any]) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._evaluate(node.operand, names)
        if isinstance(node, ast.BinOp):
            left, right = self._evaluate(node.left, names), self._evaluate(node.right, names)
            for kind, apply in (
                (ast.Add, np.add),
                (ast.Sub, np.subtract),
                (ast.Mult, np.multiply),
                (ast.Div, np.divide),
            ):
                if isinstance(node.op, kind):
                    return apply(left, right)
        raise EsError(400, "script_exception", "compile error: the stand-in knows only vector functions", shard=True)


def knn_matches(readers: list[Reader], spec: Json, size: int) -> list[Match]:
    """The k nearest over all readers, as a match in each; `similarity` is a bound on the raw similarity."""
    known = {
        "field",
        "query_vector",
        "k",
        "num_candidates",
        "filter",
        "boost",
        "similarity",
        "_name",
        "rescore_vector",
    }
    for key in set(spec) - known:
        raise EsError(400, "x_content_parse_exception", f"[1:1] [knn] unknown field [{key}]")
    for key in ("field", "query_vector"):
        if key not in spec:
            raise illegal(f"[knn] requires [{key}]")
    k = spec.get("k", size)
    candidates = spec.get("num_candidates", min(round(1.5 * k), 10_000))
    if k < 1:
        raise illegal("[k] must be greater than 0")
    if candidates < k:
        raise illegal("[num_candidates] cannot be less than [k]")
    if candidates > 10_000:
        raise illegal("[num_candidates] cannot exceed [10000]")
    found: list[tuple[float, int, int]] = []
    for number, reader in enumerate(readers):
        places, scores = knn_scores(reader, spec)
        found += [(-score, number, place) for place, score in zip(places.tolist(), scores.tolist(), strict=True)]
    matches = [reader.nothing() for reader in readers]
    for negative, number, place in sorted(found)[:k]:
        matches[number][0][place] = True
        matches[number][1][place] = -negative * spec.get("boost", 1.0)
    return matches


def knn_scores(reader: Reader, spec: Json) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    path = spec["field"]
    leaf = reader.index.mapping.resolve(path)
    if leaf is None:
        reason = f"failed to create query: field [{path}] does not exist in the mapping"
        raise EsError(400, "query_shard_exception", reason, shard=True, index=reader.index.name)
    if leaf.kind != "dense_vector":
        raise illegal(f"[knn] queries are only supported on [dense_vector] fields, not on [{leaf.kind}]", shard=True)
    if not leaf.params["index"]:
        raise illegal(
            f"to perform knn search on field [{path}], its mapping must have [index] set to [true]",
            shard=True,
        )
    try:
        query = check_vector(leaf, spec["query_vector"], "query")
    except ValueError as error:
        raise illegal(str(error), shard=True) from error
    allowed = reader.everything()[0]
    for inner in as_list(spec.get("filter", [])):
        allowed = allowed & reader.match(inner)[0]
    places, rows = reader.vectors(path)
    keep = allowed[places]
    places, rows = places[keep], rows[keep]
    if not len(places):
        return places, np.zeros(0, dtype=np.float32)
    kind = leaf.params["similarity"]
    if kind == "l2_norm":
        raw = np.linalg.norm(rows - query, axis=1)
        scores = 1 / (1 + raw**2)
    else:
        raw = rows @ query
        if kind == "cosine":
            raw = np.clip(raw / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query)), -1, 1)
        scores = (1 + raw) / 2
        if kind == "max_inner_product":
            scores = np.where(raw < 0, 1 / (1 - np.minimum(raw, 0)), raw + 1)
    if "similarity" in spec:
        close = raw <= spec["similarity"] if kind == "l2_norm" else raw >= spec["similarity"]
        places, scores = places[close], scores[close]
    return places, scores.astype(np.float32)
