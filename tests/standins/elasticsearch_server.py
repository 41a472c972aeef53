"""A loopback stand-in for an Elasticsearch server, with its own small engine.

Stands for: Elasticsearch 9.2 and later (`version="8.19.0"` for 8.x) on one node with one shard, as the
official client `AsyncElasticsearch(url)` calls it. Follows the Elasticsearch reference (REST API, Query
DSL, mapping types) and the published examples of elastic/elasticsearch-specification, which the tests
beside it replay.

    with ElasticsearchServer() as server:
        client = AsyncElasticsearch(server.url)

Facts that a store has to know, and that hold here:

* A write is not visible to search, count, delete-by-query or aggregations before a refresh: `refresh=true`,
  `refresh=wait_for` or `_refresh`. This stand-in never refreshes by itself (a server does after about a
  second). GET and `_mget` by id are real time.
* knn scores: cosine and dot_product `(1 + s) / 2`, l2_norm `1 / (1 + d^2)`, max_inner_product `1 + s`, or
  `1 / (1 - s)` below zero. Cosine refuses zero vectors, dot_product all but unit ones. Scores are 32-bit
  floats.
* Since 9.2 `dense_vector` fields are left out of `_source` unless `_source.exclude_vectors` is false or the
  index setting `index.mapping.exclude_source_vectors` is; `fields` returns them always. 8.x returns them in
  `_source` and refuses the flag.
* BM25 is `(k1 + 1) * idf * tf / (tf + k1 * (1 - b + b * dl / avgdl))` with `idf = ln(1 + (N - n + 0.5) / (n
  + 0.5))`. Lucene 8 dropped the constant `(k1 + 1)`; Elasticsearch kept it: its published explain shows
  "boost 2.2".
* `_id` is at most 512 bytes, a keyword 32,766; `from + size` and `num_candidates` 10,000; 1,000 mapped
  fields.
* A date without a time means its first moment for `gte` and `lt`, and its last for `gt` and `lte`.

What differs from a server, so that a green test says nothing about it: knn is exact and unquantised (a
server uses HNSW over int8, from 384 dimensions over one bit: neighbours are approximate, and with int8
scores too); N and n count live documents (a server counts deleted ones until their segment merges, and per
shard); a field's length is exact, while Lucene keeps it in one byte (`lossy_lengths=True` does that too);
every request runs alone, so a bulk is atomic to readers; shards, replicas and routing are accepted and do
nothing. Absent, refused with 400: scripts other than vector functions, nested, geo and range types, dynamic
templates, aliases, scroll, suggesters, highlighting, date math, fuzzy/prefix/wildcard/query_string queries,
retrievers, update-by-query, security.
"""

from __future__ import annotations

import fnmatch
import gzip
import json
import math
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np

from .elasticsearch_index import BAD_NAME, Index, Reader
from .elasticsearch_mapping import LONG_MAX, EsError, Json, as_text, illegal, invalid, no_index, parsing
from .elasticsearch_search import Search
from .qdrant_server import Reply, Request, StandinServer

# -- HTTP -----------------------------------------------------------------------------------------------

MEDIA_TYPES = [f"application/{prefix}{kind}" for prefix in ("", "vnd.elasticsearch+") for kind in ("json", "x-ndjson")]
COMMON = {"pretty", "human", "error_trace", "filter_path"}
INDICES = "ignore_unavailable allow_no_indices expand_wildcards"
SOURCE = "_source _source_includes _source_excludes _source_exclude_vectors"
WRITE = (
    "refresh routing timeout wait_for_active_shards pipeline require_alias require_data_stream include_source_on_error"
)
SEARCH_PARAMS = (
    f"{INDICES} {SOURCE} size from track_total_hits allow_partial_search_results preference routing"
    " search_type timeout request_cache ccs_minimize_roundtrips max_concurrent_shard_requests"
)


@dataclass(frozen=True)
class Call:
    args: dict[str, str]
    params: dict[str, str]
    body: bytes

    def json(self, what: str = "request body") -> Json:
        if not self.body.strip():
            return {}
        value = read_json(self.body)
        if not isinstance(value, dict):
            raise parsing(f"Expected [START_OBJECT] in the {what}")
        return value

    @property
    def refresh(self) -> bool:
        value = self.params.get("refresh", "false")
        if value not in ("true", "false", "wait_for", ""):
            raise illegal(f"Unknown value for refresh: [{value}].")
        return value != "false"

    def query_params(self, *, exclude_vectors: bool) -> Json:
        return {**self.params, " exclude_vectors": exclude_vectors}


def read_json(text: bytes) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"Non-standard token '{name}'")

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise EsError(400, "x_content_parse_exception", f"[1:1] {error}") from error


def matches_path(tree: Any, patterns: list[list[str]]) -> Any:
    """`filter_path`: keep what a dotted path with `*` names; list items share the path of their list."""
    if isinstance(tree, list):
        kept = [matches_path(item, patterns) for item in tree]
        return [item for item in kept if item not in ({}, [])]
    if not isinstance(tree, dict):
        return tree
    shown: Json = {}
    for key, value in tree.items():
        rests = [pattern[1:] for pattern in patterns if pattern and fnmatch.fnmatchcase(key, pattern[0])]
        if any(not rest for rest in rests):
            shown[key] = value
        elif rests and isinstance(value, dict | list):
            inner = matches_path(value, rests)
            if inner not in ({}, []):
                shown[key] = inner
    return shown


Handler = Callable[["ElasticsearchServer", Call], tuple[int, Any]]
ROUTES: list[tuple[str, re.Pattern[str], set[str], Handler]] = []


def route(methods: str, path: str, params: str = "") -> Callable[[Handler], Handler]:
    pattern = re.compile("^" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^_/][^/]*)", path.replace("{id}", "(?P<id>[^/]+)")) + "$")

    def register(function: Handler) -> Handler:
        for method in methods.split("|"):
            ROUTES.append((method, pattern, COMMON | set(params.split()), function))
        return function

    return register


class ElasticsearchServer(StandinServer):
    """The stand-in for an Elasticsearch server.

    Args:
        hang: Accept requests and never answer them; may be set and cleared while running.
        version: What the server says it is; 9.2 and later leave vectors out of `_source`.
        lossy_lengths: Keep field lengths in one byte for BM25, as Lucene does.
    """

    max_body_bytes = 100 * 1024 * 1024

    def __init__(self, *, hang: bool = False, version: str = "9.2.0", lossy_lengths: bool = False) -> None:
        super().__init__(hang=hang)
        self.version = version
        self.numbers = tuple(int(part) for part in version.split(".")[:2])
        self.lossy_lengths = lossy_lengths
        self.indices: dict[str, Index] = {}
        self.points_in_time: dict[str, tuple[float, list[Reader]]] = {}

    # -- the transport ------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Reply:
        content: Any
        media = request.headers.get("accept", "application/json")
        with self.lock:
            try:
                status, content = self._run(request)
            except EsError as error:
                status, content = error.status, error.body()
            except (KeyError, TypeError, ValueError, AttributeError) as error:  # a value of the wrong JSON type
                reason = f"the stand-in cannot read this request: {type(error).__name__}: {error}"
                status, content = 400, EsError(400, "x_content_parse_exception", reason).body()
        if "filter_path" in request.query and status < 400:
            patterns = [pattern.split(".") for pattern in request.query["filter_path"].split(",")]
            content = matches_path(content, patterns)
        kind = media if media.startswith("application/vnd.elasticsearch+json") else "application/json"
        headers = {"X-Elastic-Product": "Elasticsearch", "Content-Type": kind}
        return Reply(status, json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"), headers)

    def _run(self, request: Request) -> tuple[int, Any]:
        failure = self.next_failure()
        if failure is not None:
            raise EsError(failure, "standin_failure", "asked for by fail_next")
        if request.body_bytes > self.max_body_bytes:
            raise EsError(
                413,
                "content_too_long_exception",
                "entity content is too long for http.max_content_length [100mb]",
            )
        self._check_media_types(request)
        body = request.body
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for method, pattern, allowed, function in ROUTES:
            match = pattern.match(request.path)
            if match and method == request.method:
                for name in sorted(set(request.query) - allowed):
                    raise illegal(f"request [{request.path}] contains unrecognized parameter: [{name}]")
                args = {key: unquote(value) for key, value in match.groupdict().items()}
                return function(self, Call(args, request.query, body))
        raise illegal(f"no handler found for uri [{request.path}] and method [{request.method}]")

    def _check_media_types(self, request: Request) -> None:
        """Refuse what the server refuses; a Content-Type without a body says nothing (aiohttp sends one)."""
        names = ("accept", "content-type") if request.body_bytes else ("accept",)
        for name in names:
            match = re.search(r"compatible-with=(\d+)", request.headers.get(name, ""))
            if match and int(match[1]) not in (self.numbers[0], self.numbers[0] - 1):
                versions = f"either version {self.numbers[0]} or {self.numbers[0] - 1}"
                reason = f"{name} version must be {versions}, but found {match[1]}"
                kind = "media_type_header_exception"
                raise EsError(400, kind, f"Invalid media-type value on headers [{name}]: {reason}")
        if request.body_bytes:
            media = request.headers.get("content-type", "").split(";")[0].strip()
            if media not in MEDIA_TYPES:
                reason = f"Content-Type header [{media}] is not supported"
                raise EsError(406, "content_type_header_exception", reason)

    @property
    def vectors_flag(self) -> bool:
        return self.numbers >= (9, 2)

    def select(self, expression: str, params: Json) -> list[Index]:
        """The indices that a comma-separated list with `*` names."""
        chosen: dict[str, Index] = {}
        for name in expression.split(","):
            if "*" in name or name == "_all":
                pattern = "*" if name == "_all" else name
                chosen.update(
                    {key: self.indices[key] for key in sorted(self.indices) if fnmatch.fnmatchcase(key, pattern)}
                )
            elif name in self.indices:
                chosen[name] = self.indices[name]
            elif params.get("ignore_unavailable") != "true":
                raise no_index(name)
        if not chosen and params.get("allow_no_indices") == "false":
            raise no_index(expression)
        return list(chosen.values())

    def existing(self, name: str) -> Index:
        if name not in self.indices:
            raise no_index(name)
        return self.indices[name]

    def writable(self, name: str) -> Index:
        """The index of a write, created with dynamic mapping when it is new (`action.auto_create_index`)."""
        return self.indices[name] if name in self.indices else self.create(name, {}, {})

    def create(self, name: str, settings: Json, mappings: Json) -> Index:
        if BAD_NAME.search(name) or len(name.encode()) > 255:
            rules = "must be lowercase, not start with '_', '-' or '+', not contain \\/*?\"<>|,#: or space"
            reason = f"Invalid index name [{name}], {rules}"
            raise EsError(400, "invalid_index_name_exception", reason, index_uuid="_na_", index=name)
        if name in self.indices:
            about = {"index_uuid": self.indices[name].uuid, "index": name}
            reason = f"index [{name}/{self.indices[name].uuid}] already exists"
            raise EsError(400, "resource_already_exists_exception", reason, about=about)
        index = Index(name, settings, mappings, exclude_vectors=self.vectors_flag)
        self.indices[name] = index
        self._show(index)
        return index

    def _show(self, index: Index) -> None:
        index.refresh()
        index.reader.lossy_lengths = self.lossy_lengths

    # -- cluster and indices --------------------------------------------------------------------------------

    @route("GET|HEAD", "/")
    def info(self, call: Call) -> tuple[int, Any]:
        version = {
            "number": self.version,
            "build_flavor": "default",
            "build_type": "standin",
            "lucene_version": "10.3.0",
        }
        names = {"name": "standin", "cluster_name": "standin", "cluster_uuid": "standin"}
        return 200, {**names, "version": version, "tagline": "You Know, for Search"}

    @route("GET", "/_cluster/health", "wait_for_status timeout level local wait_for_no_initializing_shards")
    @route(
        "GET",
        "/_cluster/health/{index}",
        "wait_for_status timeout level local wait_for_no_initializing_shards",
    )
    def health(self, call: Call) -> tuple[int, Any]:
        return 200, {"cluster_name": "standin", "status": "green", "timed_out": False, "number_of_nodes": 1}

    @route("PUT", "/{index}", "timeout master_timeout wait_for_active_shards")
    def create_index(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"settings", "mappings"}:
            raise EsError(400, "parse_exception", f"unknown key [{key}] for create index")
        self.create(call.args["index"], body.get("settings") or {}, body.get("mappings") or {})
        return 200, {"acknowledged": True, "shards_acknowledged": True, "index": call.args["index"]}

    @route("GET|HEAD", "/{index}", f"{INDICES} include_defaults flat_settings features local master_timeout")
    def get_index(self, call: Call) -> tuple[int, Any]:
        chosen = self.select(call.args["index"], call.params)
        shown = {i.name: {"aliases": {}, "mappings": i.mapping.raw, "settings": self.settings_of(i)} for i in chosen}
        return 200, shown

    @staticmethod
    def settings_of(index: Index) -> Json:
        defaults = {
            "number_of_shards": "1",
            "number_of_replicas": "1",
            "uuid": index.uuid,
            "provided_name": index.name,
        }
        shown: Json = {}
        for key, value in {**defaults, **index.settings}.items():
            *above, name = key.split(".")
            target = shown
            for part in above:
                target = target.setdefault(part, {})
            target[name] = value if isinstance(value, list) else as_text(value)
        return {"index": shown}

    @route("DELETE", "/{index}", f"{INDICES} timeout master_timeout")
    def delete_index(self, call: Call) -> tuple[int, Any]:
        if "*" in call.args["index"]:
            raise illegal("Wildcard expressions or all indices are not allowed")
        for index in self.select(call.args["index"], call.params):
            del self.indices[index.name]
        return 200, {"acknowledged": True}

    @route("GET", "/_mapping", f"{INDICES} master_timeout local")
    @route("GET", "/{index}/_mapping", f"{INDICES} master_timeout local")
    def get_mapping(self, call: Call) -> tuple[int, Any]:
        chosen = self.select(call.args.get("index", "*"), call.params)
        return 200, {index.name: {"mappings": index.mapping.raw} for index in chosen}

    @route("PUT|POST", "/{index}/_mapping", f"{INDICES} timeout master_timeout write_index_only")
    def put_mapping(self, call: Call) -> tuple[int, Any]:
        for index in self.select(call.args["index"], call.params):
            index.mapping.merge(call.json())
        return 200, {"acknowledged": True}

    @route("GET", "/{index}/_settings", f"{INDICES} include_defaults flat_settings master_timeout local")
    def get_settings(self, call: Call) -> tuple[int, Any]:
        return 200, {i.name: {"settings": self.settings_of(i)} for i in self.select(call.args["index"], call.params)}

    @route("PUT", "/{index}/_settings", f"{INDICES} timeout master_timeout preserve_existing reopen")
    def put_settings(self, call: Call) -> tuple[int, Any]:
        update = Index.checked(call.json().get("settings", call.json()))
        for index in self.select(call.args["index"], call.params):
            for key in update:
                if re.match(r"number_of_shards|analysis|similarity|mapping\.exclude", key):
                    raise illegal(
                        f"Can't update non dynamic settings [[index.{key}]] for open indices [[{index.name}]]"
                    )
            index.settings.update(update)
        return 200, {"acknowledged": True}

    @route("GET|POST", "/_refresh", INDICES)
    @route("GET|POST", "/{index}/_refresh", INDICES)
    @route("POST", "/{index}/_flush", f"{INDICES} force wait_if_ongoing")
    @route(
        "POST",
        "/{index}/_forcemerge",
        f"{INDICES} flush max_num_segments only_expunge_deletes wait_for_completion",
    )
    def refresh_index(self, call: Call) -> tuple[int, Any]:
        chosen = self.select(call.args.get("index", "*"), call.params)
        for index in chosen:
            self._show(index)
        return 200, {"_shards": {"total": len(chosen), "successful": len(chosen), "failed": 0}}

    # -- documents --------------------------------------------------------------------------------

    @route("PUT|POST", "/{index}/_doc/{id}", f"{WRITE} op_type if_seq_no if_primary_term")
    @route("POST", "/{index}/_doc", f"{WRITE} op_type")
    def put_document(self, call: Call) -> tuple[int, Any]:
        doc_id = call.args.get("id") or uuid.uuid4().hex[:20]
        check_id(doc_id)
        index = self.writable(call.args["index"])
        create = call.params.get("op_type") == "create"
        return self.wrote(index, index.put(doc_id, call.json("document"), call.params, create=create), call)

    @route("PUT|POST", "/{index}/_create/{id}", WRITE)
    def create_document(self, call: Call) -> tuple[int, Any]:
        check_id(call.args["id"])
        index = self.writable(call.args["index"])
        return self.wrote(index, index.put(call.args["id"], call.json("document"), {}, create=True), call)

    @route("POST", "/{index}/_update/{id}", f"{WRITE} {SOURCE} if_seq_no if_primary_term retry_on_conflict lang")
    def update_document(self, call: Call) -> tuple[int, Any]:
        index = self.writable(call.args["index"])
        return self.wrote(index, index.update(call.args["id"], call.json(), call.params), call)

    @route("DELETE", "/{index}/_doc/{id}", f"{WRITE} if_seq_no if_primary_term version version_type")
    def delete_document(self, call: Call) -> tuple[int, Any]:
        index = self.existing(call.args["index"])
        return self.wrote(index, index.delete(call.args["id"], call.params), call)

    def wrote(self, index: Index, answer: Json, call: Call) -> tuple[int, Any]:
        if call.refresh:
            self._show(index)
        return answer.pop("status"), answer

    @route("GET|HEAD", "/{index}/_doc/{id}", f"{SOURCE} realtime refresh routing preference version")
    def get_document(self, call: Call) -> tuple[int, Any]:
        wanted = call.params.get("_source", True)
        shown = self.found(self.existing(call.args["index"]), call.args["id"], wanted, call)
        return (200 if shown["found"] else 404), shown

    def found(self, index: Index, doc_id: str, wanted: Any, call: Call) -> Json:
        doc = index.docs.get(doc_id)
        shown: Json = {"_index": index.name, "_id": doc_id, "found": doc is not None}
        if doc is None:
            return shown
        shown.update({"_version": doc.version, "_seq_no": doc.seq_no, "_primary_term": 1})
        source = index.source_of(doc, wanted, call.query_params(exclude_vectors=self.vectors_flag))
        return shown if source is None else {**shown, "_source": source}

    @route("GET|POST", "/_mget", f"{SOURCE} realtime refresh routing preference")
    @route("GET|POST", "/{index}/_mget", f"{SOURCE} realtime refresh routing preference")
    def get_documents(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"docs", "ids"}:
            raise parsing(f"unknown key [{key}] for a START_ARRAY, expected [docs] or [ids]")
        items = [{"_id": doc_id} for doc_id in body.get("ids", [])] + body.get("docs", [])
        if not items:
            raise invalid("no documents to get")
        docs: list[Json] = []
        for item in items:
            name = item.get("_index", call.args.get("index"))
            if name is None:
                raise invalid(f"index is missing for doc {len(docs)}")
            if name not in self.indices:
                docs.append({"_index": name, "_id": item["_id"], "error": no_index(name).body()["error"]})
                continue
            wanted = item.get("_source", call.params.get("_source", True))
            docs.append(self.found(self.indices[name], item["_id"], wanted, call))
        return 200, {"docs": docs}

    @route("POST|PUT", "/_bulk", f"{WRITE} {SOURCE} list_executed_pipelines require_data_stream")
    @route("POST|PUT", "/{index}/_bulk", f"{WRITE} {SOURCE} list_executed_pipelines require_data_stream")
    def bulk(self, call: Call) -> tuple[int, Any]:
        actions = list(read_bulk(call.body, call.args.get("index")))
        refresh = call.refresh
        items: list[Json] = []
        for kind, options, source in actions:
            doc_id = options.get("_id") or uuid.uuid4().hex[:20]
            try:
                index = (self.existing if kind == "delete" else self.writable)(options["_index"])
                answer = self.bulk_item(index, kind, doc_id, options, source)
            except EsError as error:
                failed = {"status": error.status, "error": error.cause}
                answer = {"_index": options["_index"], "_id": doc_id, **failed}
            items.append({kind: answer})
        if refresh:
            for name in {options["_index"] for _, options, _ in actions} & set(self.indices):
                self._show(self.indices[name])
        errors = any("error" in answer for item in items for answer in item.values())
        return 200, {"errors": errors, "took": 1, "items": items}

    @staticmethod
    def bulk_item(index: Index, kind: str, doc_id: str, options: Json, source: bytes) -> Json:
        if kind == "delete":
            return index.delete(doc_id, options)
        body = read_json(source)
        if not isinstance(body, dict):
            raise EsError(400, "document_parsing_exception", "[1:1] failed to parse: expected an object")
        if kind == "update":
            return index.update(doc_id, body, options)
        return index.put(doc_id, body, options, create=kind == "create")

    @route(
        "POST",
        "/{index}/_delete_by_query",
        f"{INDICES} {WRITE} conflicts slices max_docs scroll_size wait_for_completion requests_per_second",
    )
    def delete_by_query(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"query", "max_docs"}:
            raise parsing(f"Unknown key for a START_OBJECT in [{key}].")
        if "query" not in body:
            raise invalid("query is missing")
        if call.params.get("wait_for_completion") == "false":
            raise illegal("the stand-in has no tasks: wait_for_completion must be true")
        hits = [
            (index, index.reader.docs[place])
            for index in self.select(call.args["index"], call.params)
            for place in np.flatnonzero(index.reader.match(body["query"])[0])
        ][: int(call.params.get("max_docs") or body.get("max_docs", LONG_MAX))]
        deleted, failures = 0, []
        for index, doc in hits:
            now = index.docs.get(doc.id)
            if now is doc:
                index.delete(doc.id, {})
                deleted += 1
                continue
            found = (
                "but no document was found"
                if now is None
                else f"current document has seqNo [{now.seq_no}] and primary term [1]"
            )
            cause = index.conflict(doc.id, f"required seqNo [{doc.seq_no}], primary term [1]. {found}").cause
            failures.append({"index": index.name, "id": doc.id, "cause": cause, "status": 409})
        if call.refresh:
            for index in {index for index, _ in hits}:
                self._show(index)
        proceed = call.params.get("conflicts") == "proceed"
        counts = {"total": len(hits), "deleted": deleted, "batches": math.ceil(len(hits) / 1000), "noops": 0}
        rest = {"retries": {"bulk": 0, "search": 0}, "throttled_millis": 0, "requests_per_second": -1.0}
        shown = {"took": 1, "timed_out": False, **counts, **rest, "throttled_until_millis": 0}
        shown.update({"version_conflicts": len(failures), "failures": [] if proceed else failures})
        return (409 if failures and not proceed else 200), shown

    # -- search -----------------------------------------------------------------------------------

    @route("GET|POST", "/_search", SEARCH_PARAMS)
    @route("GET|POST", "/{index}/_search", SEARCH_PARAMS)
    def search(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        pit = body.get("pit")
        params = call.query_params(exclude_vectors=self.vectors_flag)
        if pit is None:
            readers = [index.reader for index in self.select(call.args.get("index", "*"), call.params)]
            return 200, Search(readers, body, params).run()
        if "index" in call.args:
            raise invalid("[indices] cannot be used with point in time. Do not specify any index with point in time.")
        expires, readers = self.points_in_time.get(pit["id"], (0.0, []))
        if expires < time.monotonic():
            reason = f"No search context found for id [{pit['id']}]"
            raise EsError(404, "search_context_missing_exception", reason, shard=True)
        if "keep_alive" in pit:
            self.points_in_time[pit["id"]] = (time.monotonic() + seconds(pit["keep_alive"]), readers)
        return 200, {"pit_id": pit["id"], **Search(readers, body, params).run()}

    @route("GET|POST", "/_count", f"{INDICES} routing preference")
    @route("GET|POST", "/{index}/_count", f"{INDICES} routing preference")
    def count(self, call: Call) -> tuple[int, Any]:
        body = call.json()
        for key in set(body) - {"query"}:
            raise parsing(f"request does not support [{key}]")
        readers = [index.reader for index in self.select(call.args.get("index", "*"), call.params)]
        total = sum(int(reader.match(body.get("query", {"match_all": {}}))[0].sum()) for reader in readers)
        shards = {"total": len(readers), "successful": len(readers), "skipped": 0, "failed": 0}
        return 200, {"count": total, "_shards": shards}

    @route("POST", "/{index}/_pit", f"{INDICES} keep_alive routing preference allow_partial_search_results")
    def open_pit(self, call: Call) -> tuple[int, Any]:
        if "keep_alive" not in call.params:
            raise invalid("[keep_alive] is not specified")
        readers = [index.reader for index in self.select(call.args["index"], call.params)]
        pit_id = uuid.uuid4().hex
        self.points_in_time[pit_id] = (time.monotonic() + seconds(call.params["keep_alive"]), readers)
        shards = {"total": len(readers), "successful": len(readers), "skipped": 0, "failed": 0}
        return 200, {"id": pit_id, "_shards": shards}

    @route("DELETE", "/_pit")
    def close_pit(self, call: Call) -> tuple[int, Any]:
        known = self.points_in_time.pop(str(call.json().get("id")), None) is not None
        return (200 if known else 404), {"succeeded": known, "num_freed": int(known)}


def seconds(keep_alive: str) -> float:
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", keep_alive)
    if match is None:
        raise illegal(f"failed to parse setting [keep_alive] with value [{keep_alive}] as a time value")
    return int(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def check_id(doc_id: str) -> None:
    if len(doc_id.encode()) > 512:
        raise invalid(f"id [{doc_id}] is too long, must be no longer than 512 bytes but was: {len(doc_id.encode())}")


BULK_OPTIONS = "_index _id routing if_seq_no if_primary_term retry_on_conflict require_alias pipeline"


def read_bulk(body: bytes, default_index: str | None) -> Iterator[tuple[str, Json, bytes]]:
    """The (action, options, source line) of each item; a malformed action line fails the whole request."""
    if not body.strip():
        raise invalid("no requests added")
    if not body.endswith(b"\n"):
        raise illegal("The bulk request must be terminated by a newline [\\n]")
    lines = iter(enumerate(body[:-1].split(b"\n"), 1))
    for number, line in lines:
        if not line.strip():
            continue
        action = read_json(line)
        kind = next(iter(action), None) if isinstance(action, dict) and len(action) == 1 else None
        if kind not in ("index", "create", "update", "delete"):
            expected = "expected one of [create, delete, index, update]"
            raise illegal(f"Malformed action/metadata line [{number}], {expected} but found [{kind}]")
        options = {"_index": default_index, **action[kind]}
        for key in set(options) - set(BULK_OPTIONS.split()):
            raise illegal(f"Action/metadata line [{number}] contains an unknown parameter [{key}]")
        if options["_index"] is None:
            raise invalid("index is missing")
        if options.get("_id") is not None:
            options["_id"] = str(options["_id"])
            check_id(options["_id"])
        elif kind in ("update", "delete"):
            raise invalid("id is missing")
        yield kind, options, b"" if kind == "delete" else next(lines, (0, b"null"))[1]
