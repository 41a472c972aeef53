"""A loopback stand-in for a Qdrant server: its REST API over qdrant-client's local engine.

Stands for: the REST API of Qdrant 1.19 and later, as `AsyncQdrantClient(url=..., prefer_grpc=False)` of
qdrant-client 1.20 calls it. Bodies are parsed by `qdrant_client.http.models` (generated from Qdrant's OpenAPI
document), the work is done by `QdrantClient(":memory:")`, and errors have the server's shape and status.
Facts followed: Qdrant's OpenAPI document and REST documentation; the error mapping of its `src/actix/`.

    with QdrantServer() as server:
        client = AsyncQdrantClient(url=server.url)

Where local mode and the server differ, the server is followed:

* Each request is parsed by its REST model: a body that does not parse is 400, a value out of range 422.
* `facet` needs a keyword, integer, uuid or bool index on its key and `order_by` a range index, else 400.
* A point id is an unsigned 64-bit integer or a UUID, in every body that names one, else 400.
* `wait=false` (the server's default; the client sends true) answers `acknowledged`, else `completed`.
* Collection parameters (shards, replicas, quantisation, HNSW, on-disk, strict mode) and payload indexes are
  reported back by `GET /collections/{name}`; local mode forgets them. They have no effect here.
* A body above 32 MB (`max_request_size_mb`) is refused with 400, "JSON payload (N bytes) is larger than
  allowed (limit: 33554432 bytes)."; a proxy in front of a server may say 413, `oversize_status=413` here.

Where this stand-in differs from a server, and a green test says nothing about one:

* Search is exact: no HNSW, quantisation or disk, and search params other than `idf` are ignored.
* Each request runs alone and is atomic. A server shows a half-applied batch to a concurrent reader.
* Unknown body fields are refused (400); a server ignores most of them.
* Sparse IDF counts live points only; a server counts deleted ones until the segment is optimised.
* Full-text `match` is local mode's. There are no strict mode checks, shard keys, snapshots, aliases, groups,
  gRPC, API keys or `/cluster`.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import perf_counter
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from qdrant_client import QdrantClient
from qdrant_client.http import models as rest

RANGE_INDEXES = frozenset({"integer", "float", "datetime", "uuid"})
FACET_INDEXES = frozenset({"keyword", "integer", "uuid", "bool"})
DEFAULT_PARAMS = {"shard_number": 1, "replication_factor": 1, "write_consistency_factor": 1}


@dataclass(frozen=True)
class LoggedRequest:
    """One request as it arrived: `path` without the query string, `body_bytes` by Content-Length."""

    method: str
    path: str
    body_bytes: int


@dataclass(frozen=True)
class Request:
    """What `StandinServer.answer` gets: header names in lower case, a body above `max_body_bytes` empty."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    body_bytes: int


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class _Listener(ThreadingHTTPServer):
    """A thread per connection; `server_close` cuts the connections and joins the threads."""

    request_queue_size = 128
    daemon_threads = False

    def __init__(self, port: int, owner: StandinServer) -> None:
        self.owner = owner
        self.open_sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open_sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open_sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        for request in list(self.open_sockets):
            with contextlib.suppress(OSError):  # the client has gone already
                request.shutdown(socket.SHUT_RDWR)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def answer_request(self) -> None:
        owner = self.server.owner
        length = int(self.headers.get("Content-Length") or 0)
        address = urlsplit(self.path)
        owner.log.append(LoggedRequest(self.command, address.path, length))
        if owner.hang:
            owner.stopped.wait()
            self.close_connection = True
            return
        fits = length <= owner.max_body_bytes
        body = self.rfile.read(length) if fits else self.read_away(length)
        query = {key: values[-1] for key, values in parse_qs(address.query, keep_blank_values=True).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = owner.answer(Request(self.command, address.path, query, headers, body, length))
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def read_away(self, length: int) -> bytes:
        """Read a body that is too large: closing on it would reset the connection and hide the answer."""
        while length:
            length -= len(self.rfile.read(min(length, 1 << 20)))
        return b""

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = answer_request

    def log_message(self, format: str, *args: Any) -> None:
        pass


class StandinServer:
    """A loopback HTTP server: start it, give `url` to a client, read `log` afterwards.

    Args:
        hang: Accept requests and never answer them; may be set and cleared while running.
    """

    max_body_bytes: int

    def __init__(self, *, hang: bool = False) -> None:
        self.hang = hang
        self.log: list[LoggedRequest] = []
        self.stopped = threading.Event()
        self.url = ""
        self.lock = threading.Lock()
        self._failures: list[int] = []
        self._listener: _Listener | None = None
        self._port = 0

    def answer(self, request: Request) -> Reply:
        raise NotImplementedError

    def start(self) -> str:
        """Listen on 127.0.0.1 and return the URL; a restart keeps the port and the data."""
        self.stopped.clear()
        self._listener = _Listener(self._port, self)
        self._port = self._listener.server_address[1]
        self.url = f"http://127.0.0.1:{self._port}"
        threading.Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True).start()
        return self.url

    def stop(self) -> None:
        """Close the port and every open connection; a second call does nothing."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self.stopped.set()
            listener.shutdown()
            listener.server_close()

    def fail_next(self, n: int, status: int) -> None:
        """Answer the next `n` requests with `status`, without running them."""
        with self.lock:
            self._failures.extend([status] * n)

    def next_failure(self) -> int | None:
        """The status that `fail_next` asked for this request; the caller holds `lock`."""
        return self._failures.pop(0) if self._failures else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class QdrantError(Exception):
    """An answer other than 200, with the message of the error body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Collection:
    """What local mode forgets of a collection."""

    created: rest.CreateCollection
    params: dict[str, Any] = field(default_factory=dict)
    indexes: dict[str, rest.PayloadIndexInfo] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One routed request."""

    args: dict[str, str]
    query: dict[str, str]
    body: bytes

    @property
    def name(self) -> str:
        return self.args["name"]

    def parse(self, model: Any) -> Any:
        """Parse the body strictly; Qdrant answers 400 for a body that does not fit its type."""
        try:
            return TypeAdapter(model).validate_json(self.body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise QdrantError(400, f"Format error in JSON body: {first['msg']} at {where or 'the top'}") from error


Route = tuple[str, re.Pattern[str], Callable[["Engine", Call], Any]]
ROUTES: list[Route] = []


def route(method: str, path: str) -> Callable[[Callable[[Engine, Call], Any]], Callable[[Engine, Call], Any]]:
    pattern = re.compile("^" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path) + "$")

    def register(function: Callable[[Engine, Call], Any]) -> Callable[[Engine, Call], Any]:
        ROUTES.append((method, pattern, function))
        return function

    return register


def check_ids(ids: list[Any]) -> None:
    for point_id in ids:
        if isinstance(point_id, int):
            valid = 0 <= point_id < 2**64
        else:
            try:
                valid = bool(UUID(str(point_id)))
            except ValueError:
                valid = False
        if not valid:
            wanted = "valid values are either an unsigned integer or a UUID"
            raise QdrantError(400, f"Format error in JSON body: value {point_id} is not a valid point ID, {wanted}")


def check_at_least(name: str, value: int | None, minimum: int) -> None:
    if value is not None and value < minimum:
        message = f"Validation error in JSON body: [{name}: value {value} invalid, must be {minimum} or larger]"
        raise QdrantError(422, message)


def selector_of(body: Any) -> rest.PointIdsList | rest.FilterSelector:
    if body.points is not None:
        check_ids(body.points)
        return rest.PointIdsList(points=body.points)
    if body.filter is not None:
        return rest.FilterSelector(filter=body.filter)
    raise QdrantError(422, "Validation error in JSON body: either list of point ids or filter must be provided")


def exact_params(params: rest.SearchParams | None) -> rest.SearchParams | None:
    """Keep what changes scores; the rest tunes an index that is not here, and local mode warns about it."""
    return rest.SearchParams(idf=params.idf) if params is not None and params.idf is not None else None


def set_fields(target: Any, diff: BaseModel | None) -> None:
    """Copy the fields that a diff sets onto a model, as PATCH does."""
    if diff is not None:
        for name in diff.model_fields_set & set(type(target).model_fields):
            if getattr(diff, name) is not None:
                setattr(target, name, getattr(diff, name))


class Engine:
    """The endpoints: one method each, over one local client."""

    def __init__(self) -> None:
        self.local = QdrantClient(":memory:")
        self.collections: dict[str, Collection] = {}
        self.operations = 0

    def collection(self, name: str) -> Collection:
        if name not in self.collections:
            raise QdrantError(404, f"Not found: Collection `{name}` doesn't exist!")
        return self.collections[name]

    def updated(self, call: Call) -> rest.UpdateResult:
        self.operations += 1
        done = call.query.get("wait") == "true"
        status = rest.UpdateStatus.COMPLETED if done else rest.UpdateStatus.ACKNOWLEDGED
        return rest.UpdateResult(operation_id=self.operations, status=status)

    # -- service and collections ------------------------------------------------------------------

    @route("GET", "/collections")
    def list_collections(self, call: Call) -> Any:
        return {"collections": [{"name": name} for name in self.collections]}

    @route("GET", "/collections/{name}/exists")
    def exists(self, call: Call) -> Any:
        return {"exists": call.name in self.collections}

    @route("PUT", "/collections/{name}")
    def create_collection(self, call: Call) -> Any:
        body = call.parse(rest.CreateCollection)
        for name in ("shard_number", "replication_factor", "write_consistency_factor"):
            check_at_least(name, getattr(body, name), 1)
        if call.name in self.collections:
            raise QdrantError(409, f"Wrong input: Collection `{call.name}` already exists!")
        self.local.create_collection(
            call.name,
            vectors_config=body.vectors,
            sparse_vectors_config=body.sparse_vectors,
            metadata=body.metadata,
        )
        # Local mode warns above 20,000 points; a server does not.
        self.local._client.collections[call.name].LARGE_DATA_THRESHOLD = sys.maxsize  # type: ignore[attr-defined]
        self.collections[call.name] = Collection(body)
        return True

    @route("DELETE", "/collections/{name}")
    def delete_collection(self, call: Call) -> Any:
        if self.collections.pop(call.name, None) is None:
            return False
        return self.local.delete_collection(call.name)

    @route("PATCH", "/collections/{name}")
    def update_collection(self, call: Call) -> Any:
        kept = self.collection(call.name)
        body = call.parse(rest.UpdateCollection)
        vectors = body.vectors or {}
        known = kept.created.vectors if isinstance(kept.created.vectors, dict) else {"": kept.created.vectors}
        for name, diff in vectors.items():
            if known.get(name) is None:
                raise QdrantError(400, f"Wrong input: Not existing vector name error: {name}")
            set_fields(known[name], diff)
        if body.metadata is not None or body.sparse_vectors is not None:
            self.local.update_collection(call.name, sparse_vectors_config=body.sparse_vectors, metadata=body.metadata)
        kept.params.update(body.params.model_dump(exclude_none=True) if body.params else {})
        for part in ("hnsw_config", "optimizers_config", "strict_mode_config"):
            old, new = getattr(kept.created, part), getattr(body, part)
            setattr(kept.created, part, new if old is None else old)
            set_fields(getattr(kept.created, part), new)
        if body.quantization_config is not None:
            off = isinstance(body.quantization_config, rest.Disabled)
            kept.created.quantization_config = None if off else body.quantization_config
        return True

    @route("GET", "/collections/{name}")
    def get_collection(self, call: Call) -> Any:
        kept = self.collection(call.name)
        created = kept.created
        info = self.local.get_collection(call.name)
        info.config.params.vectors = created.vectors
        for name in ("shard_number", "sharding_method", "replication_factor", "write_consistency_factor"):
            setattr(info.config.params, name, getattr(created, name) or DEFAULT_PARAMS.get(name))
        if created.on_disk_payload is not None:
            info.config.params.on_disk_payload = created.on_disk_payload
        for name, value in kept.params.items():
            setattr(info.config.params, name, value)
        set_fields(info.config.hnsw_config, created.hnsw_config)
        set_fields(info.config.optimizer_config, created.optimizers_config)
        set_fields(info.config.wal_config, created.wal_config)
        info.config.quantization_config = created.quantization_config
        if created.strict_mode_config is not None:
            strict = created.strict_mode_config.model_dump(exclude_none=True)
            info.config.strict_mode_config = rest.StrictModeConfigOutput.model_validate(strict)
        info.payload_schema = {key: self.counted(call.name, key, index) for key, index in kept.indexes.items()}
        return info

    def counted(self, name: str, key: str, index: rest.PayloadIndexInfo) -> rest.PayloadIndexInfo:
        empty = rest.IsEmptyCondition(is_empty=rest.PayloadField(key=key))
        points = self.local.count(name, count_filter=rest.Filter(must_not=[empty])).count
        return index.model_copy(update={"points": points})

    @route("PUT", "/collections/{name}/index")
    def create_index(self, call: Call) -> Any:
        kept = self.collection(call.name)
        body = call.parse(rest.CreateFieldIndex)
        schema = body.field_schema
        if schema is None:
            raise QdrantError(400, "Wrong input: Field schema is required")
        plain = isinstance(schema, rest.PayloadSchemaType)
        kind = schema if plain else rest.PayloadSchemaType(schema.type.value)
        index = rest.PayloadIndexInfo(data_type=kind, params=None if plain else schema, points=0)
        kept.indexes[body.field_name] = index
        if getattr(schema, "scoring", None):  # the one index that local mode acts on
            self.local.create_payload_index(call.name, body.field_name, schema)
        return self.updated(call)

    @route("DELETE", "/collections/{name}/index/{key}")
    def delete_index(self, call: Call) -> Any:
        self.collection(call.name).indexes.pop(call.args["key"], None)
        return self.updated(call)

    # -- writing points -------------------------------------------------------------------------------

    @route("PUT", "/collections/{name}/points")
    def upsert(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.PointInsertOperations)
        listed = isinstance(body, rest.PointsList)
        check_ids([point.id for point in body.points] if listed else body.batch.ids)
        self.local.upsert(
            call.name,
            body.points if listed else body.batch,
            update_filter=body.update_filter,
            update_mode=body.update_mode,
        )
        return self.updated(call)

    @route("POST", "/collections/{name}/points/delete")
    def delete_points(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.PointsSelector)
        if isinstance(body, rest.PointIdsList):
            check_ids(body.points)
        self.local.delete(call.name, points_selector=body)
        return self.updated(call)

    @route("POST", "/collections/{name}/points/payload")
    def set_payload(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.SetPayload)
        self.local.set_payload(call.name, payload=body.payload, points=selector_of(body), key=body.key)
        return self.updated(call)

    @route("PUT", "/collections/{name}/points/payload")
    def overwrite_payload(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.SetPayload)
        self.local.overwrite_payload(call.name, payload=body.payload, points=selector_of(body))
        return self.updated(call)

    @route("POST", "/collections/{name}/points/payload/delete")
    def delete_payload(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.DeletePayload)
        self.local.delete_payload(call.name, keys=body.keys, points=selector_of(body))
        return self.updated(call)

    @route("POST", "/collections/{name}/points/payload/clear")
    def clear_payload(self, call: Call) -> Any:
        self.collection(call.name)
        self.local.clear_payload(call.name, points_selector=call.parse(rest.PointsSelector))
        return self.updated(call)

    @route("PUT", "/collections/{name}/points/vectors")
    def update_vectors(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.UpdateVectors)
        check_ids([point.id for point in body.points])
        self.local.update_vectors(call.name, points=body.points, update_filter=body.update_filter)
        return self.updated(call)

    @route("POST", "/collections/{name}/points/vectors/delete")
    def delete_vectors(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.DeleteVectors)
        self.local.delete_vectors(call.name, vectors=body.vector, points=selector_of(body))
        return self.updated(call)

    @route("POST", "/collections/{name}/points/batch")
    def batch_update(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.UpdateOperations)
        self.local.batch_update_points(call.name, update_operations=body.operations)
        return [self.updated(call) for _ in body.operations]

    # -- reading points -------------------------------------------------------------------------------

    @route("POST", "/collections/{name}/points")
    def retrieve(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.PointRequest)
        check_ids(body.ids)
        return self.local.retrieve(
            call.name,
            ids=body.ids,
            with_payload=True if body.with_payload is None else body.with_payload,
            with_vectors=body.with_vector or False,
        )

    @route("GET", "/collections/{name}/points/{id}")
    def get_point(self, call: Call) -> Any:
        self.collection(call.name)
        raw = call.args["id"]
        point_id: int | str = int(raw) if raw.isdigit() else raw
        check_ids([point_id])
        found = self.local.retrieve(call.name, ids=[point_id], with_payload=True, with_vectors=True)
        if not found:
            raise QdrantError(404, f"Not found: Point with id {raw} does not exists!")
        return found[0]

    @route("POST", "/collections/{name}/points/scroll")
    def scroll(self, call: Call) -> Any:
        kept = self.collection(call.name)
        body = call.parse(rest.ScrollRequest)
        check_at_least("limit", body.limit, 1)
        if body.offset is not None:
            check_ids([body.offset])
        self.check_order_by(kept, body.order_by)
        points, next_offset = self.local.scroll(
            call.name,
            scroll_filter=body.filter,
            limit=10 if body.limit is None else body.limit,
            order_by=body.order_by,
            offset=body.offset,
            with_payload=True if body.with_payload is None else body.with_payload,
            with_vectors=body.with_vector or False,
        )
        return rest.ScrollResult(points=points, next_page_offset=next_offset)

    @route("POST", "/collections/{name}/points/count")
    def count(self, call: Call) -> Any:
        self.collection(call.name)
        body = call.parse(rest.CountRequest)
        return self.local.count(call.name, count_filter=body.filter)

    @route("POST", "/collections/{name}/facet")
    def facet(self, call: Call) -> Any:
        kept = self.collection(call.name)
        body = call.parse(rest.FacetRequest)
        check_at_least("limit", body.limit, 1)
        index = kept.indexes.get(body.key)
        if index is None or index.data_type.value not in FACET_INDEXES:
            needed = 'Index required but not found for "{}" of one of the following types: [{}]'
            raise QdrantError(400, "Bad request: " + needed.format(body.key, ", ".join(sorted(FACET_INDEXES))))
        limit = 10 if body.limit is None else body.limit
        return self.local.facet(call.name, key=body.key, facet_filter=body.filter, limit=limit)

    @route("POST", "/collections/{name}/points/query")
    def query(self, call: Call) -> Any:
        return self.run_query(call.name, call.parse(rest.QueryRequest))

    @route("POST", "/collections/{name}/points/query/batch")
    def query_batch(self, call: Call) -> Any:
        return [self.run_query(call.name, body) for body in call.parse(rest.QueryRequestBatch).searches]

    def run_query(self, name: str, body: rest.QueryRequest) -> rest.QueryResponse:
        kept = self.collection(name)
        check_at_least("limit", body.limit, 1)
        check_at_least("offset", body.offset, 0)
        if isinstance(body.query, rest.OrderByQuery):
            self.check_order_by(kept, body.query.order_by)
        return self.local.query_points(
            name,
            query=body.query,
            using=body.using,
            prefetch=body.prefetch,
            query_filter=body.filter,
            search_params=exact_params(body.params),
            limit=10 if body.limit is None else body.limit,
            offset=body.offset,
            with_payload=body.with_payload or False,
            with_vectors=body.with_vector or False,
            score_threshold=body.score_threshold,
            lookup_from=body.lookup_from,
        )

    def check_order_by(self, kept: Collection, order_by: rest.OrderBy | str | None) -> None:
        if order_by is None:
            return
        key = order_by if isinstance(order_by, str) else order_by.key
        index = kept.indexes.get(key)
        if index is None or index.data_type.value not in RANGE_INDEXES:
            reason = f"No range index for `order_by` key: `{key}`. Please create one to use `order_by`."
            raise QdrantError(400, f"Bad request: {reason}")


def as_error(error: Exception) -> QdrantError:
    """Map an exception of the local engine to the server's status and wording."""
    if isinstance(error, QdrantError):
        return error
    if isinstance(error, KeyError):
        return QdrantError(404, f"Not found: No point with id {error.args[0]} found")
    if isinstance(error, NotImplementedError):
        return QdrantError(501, f"the stand-in cannot do this: {error}")
    if isinstance(error, ValueError | TypeError):
        return QdrantError(400, f"Wrong input: {str(error).removeprefix('Wrong input: ')}")
    return QdrantError(500, f"Service internal error: {type(error).__name__}: {error}")


class QdrantServer(StandinServer):
    """The stand-in for a Qdrant server.

    Args:
        hang: Accept requests and never answer them; may be set and cleared while running.
        oversize_status: What a body above 32 MB gets; the server itself says 400.
        version: What `GET /` reports; the client warns when it is more than one minor version away.
    """

    max_body_bytes = 32 * 1024 * 1024

    def __init__(self, *, hang: bool = False, oversize_status: int = 400, version: str = "1.20.0") -> None:
        super().__init__(hang=hang)
        self.oversize_status = oversize_status
        self.version = version
        self._engine = Engine()

    def answer(self, request: Request) -> Reply:
        started = perf_counter()
        with self.lock:
            try:
                content = self._run(request)
                status = 200
                if request.path != "/":
                    content = {"result": content, "status": "ok", "time": perf_counter() - started}
                body = TypeAdapter(Any).dump_json(content)
            except Exception as error:
                failed = as_error(error)
                status = failed.status
                took = perf_counter() - started
                body = json.dumps({"status": {"error": str(failed)}, "time": took, "result": None}).encode()
        return Reply(status, body, {"Content-Type": "application/json"})

    def _run(self, request: Request) -> Any:
        failure = self.next_failure()
        if failure is not None:
            raise QdrantError(failure, "Service internal error: asked for by fail_next")
        if request.body_bytes > self.max_body_bytes:
            limit = f"(limit: {self.max_body_bytes} bytes)"
            reason = f"JSON payload ({request.body_bytes} bytes) is larger than allowed {limit}."
            raise QdrantError(self.oversize_status, reason)
        if request.method == "GET" and request.path == "/":
            return {"title": "qdrant - vector search engine", "version": self.version}
        for verb, pattern, function in ROUTES:
            match = pattern.match(request.path)
            if match and verb == request.method:
                args = {key: unquote(value) for key, value in match.groupdict().items()}
                return function(self._engine, Call(args, request.query, request.body))
        raise QdrantError(404, f"the stand-in has no {request.method} {request.path}")
