"""A stand-in for Tencent Cloud VectorDB: its HTTP API over loopback, storage in memory.

Stands for: an instance of the vector database as the official SDK `tcvectordb` 2.1 talks to it over HTTP
(`VectorDBClient`, `AsyncVectorDBClient`; paths and bodies read from that SDK) and as the vendor's
documentation (product 1709, 2025) describes it. Base databases only.

    with TcVectorDBServer() as url:
        client = tcvectordb.VectorDBClient(url=url, username="root", key=server.api_key)

Every answer is `{"code": ..., "msg": ..., ...}`; code 0 is success. Codes known from the SDKs: 15301 no such
database, 15302 no such collection, 15000 a parameter that is not accepted; the texts are this stand-in's, but
for those the documentation quotes. An unknown field of a body is refused with 15000, an unknown path with
HTTP 404.

Not verified against a real instance: the HTTP status of an error (200 here; 401 without valid credentials),
the text of most messages, what `outputFields` does to `id` (here: only what is named comes back) and to
vectors (here: only with `retrieveVector`), the default `limit` of a query (1, as the Java page says), the
choices listed in `tcvectordb_filter`.

Does not do: gRPC (`RPCVectorDBClient`), AI databases, file upload, users, TTL deletion, index rebuilding
(accepted, no effect).
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Literal

from .tcvectordb_collection import (
    MAX_DELETE_IDS,
    MAX_IDS,
    MAX_LIMIT,
    NO_COLLECTION,
    NO_DATABASE,
    Collection,
    VectorDBError,
    check_name,
    known,
    refuse,
    whole,
)
from .tcvectordb_filter import Document

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
Failure = VectorDBError | Literal["disconnect", "disconnect_after"]


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    body: Document
    backend: str | None
    at: float


class TcVectorDBServer:
    """The server. Entering it starts it and gives the URL.

    Args:
        account, api_key: The credentials it accepts.
        replica_lag_s: How long reads with eventualConsistency (the SDK's default) lag behind writes.
        escapes, missing_matches_negation: Undocumented behaviour of filters, see `tcvectordb_filter`.
        hang: Accept connections and never answer. May be set and cleared while running.
        port: 0 for any free one. A second `start` takes the port of the first.
    """

    def __init__(
        self,
        *,
        account: str = "root",
        api_key: str = "standin",
        replica_lag_s: float = 0.0,
        escapes: bool = False,
        missing_matches_negation: bool = True,
        hang: bool = False,
        port: int = 0,
    ) -> None:
        self.account = account
        self.api_key = api_key
        self.hang = hang
        self.port = port
        self.requests: deque[Request] = deque(maxlen=100_000)
        self.databases: dict[str, dict[str, Collection]] = {}
        self.created: dict[str, str] = {}
        self._options = {
            "replica_lag_s": replica_lag_s,
            "escapes": escapes,
            "missing_matches_negation": missing_matches_negation,
        }
        self._failures: list[tuple[Failure, frozenset[str] | None]] = []
        self._lock = threading.Lock()
        self._http: _HTTPServer | None = None

    # --- life ---

    def start(self) -> str:
        """Listen on 127.0.0.1 and return the URL."""
        self._http = _HTTPServer(("127.0.0.1", self.port), _Handler)
        self._http.owner = self
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self.url

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop listening and cut every connection; the data stays."""
        if self._http is None:
            return
        self._http.shutdown()
        self._http.cut_connections()
        self._http.server_close()
        self._http = None

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def fail_next(self, n: int, error: Failure, *, paths: Sequence[str] | None = None) -> None:
        """Make the next n requests fail, all or only those to the named paths.

        Args:
            error: A VectorDBError to answer with, "disconnect" to cut the connection before the request runs,
                or "disconnect_after" to run it and cut the connection instead of answering.
        """
        self._failures.extend([(error, frozenset(paths) if paths else None)] * n)

    def _failure_for(self, path: str) -> Failure | None:
        for position, (error, paths) in enumerate(self._failures):
            if paths is None or path in paths:
                del self._failures[position]
                return error
        return None

    # --- answering ---

    def answer(self, request: Request, authorization: str | None) -> tuple[int, Document] | None:
        """HTTP status and body of the response; None to cut the connection."""
        self.requests.append(request)
        failure = self._failure_for(request.path)
        if failure == "disconnect":
            return None
        try:
            if isinstance(failure, VectorDBError):
                raise failure
            if authorization != f"Bearer account={self.account}&api_key={self.api_key}":
                raise VectorDBError(1, "Unauthorized: invalid account or api_key", status=401)
            handler = _HANDLERS.get((request.method, request.path))
            if handler is None:
                raise VectorDBError(1, f"no such interface: {request.method} {request.path}", status=404)
            with self._lock:
                status, reply = 200, {"code": 0, "msg": "operation success", **handler(self, request.body)}
        except VectorDBError as error:
            status, reply = error.status, {"code": error.code, "msg": error.message}
        if failure == "disconnect_after":
            return None
        return status, {**reply, "requestId": uuid.uuid4().hex}

    def database(self, body: Mapping[str, Any]) -> dict[str, Collection]:
        name = body.get("database")
        if name not in self.databases:
            raise VectorDBError(NO_DATABASE, f"database {name!r} not exist")
        return self.databases[name]

    def collection(self, body: Mapping[str, Any]) -> Collection:
        collections, name = self.database(body), body.get("collection")
        for collection in collections.values():
            if name == collection.name or name in collection.aliases:
                return collection
        raise VectorDBError(NO_COLLECTION, f"collection {name!r} not exist")


# --- databases and collections -------------------------------------------------------------------------


def _database_create(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database"}, "the request")
    name = check_name(body.get("database"), "database")
    if name in server.databases:
        raise refuse(f"database {name!r} already exist")
    server.databases[name] = {}
    server.created[name] = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"affectedCount": 1}


def _database_drop(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database"}, "the request")
    server.database(body)
    del server.databases[body["database"]]
    return {"affectedCount": 1}


def _database_list(server: TcVectorDBServer, _body: Document) -> Document:
    info = {
        name: {"createTime": server.created[name], "dbType": "BASE_DB", "count": len(collections)}
        for name, collections in server.databases.items()
    }
    return {"databases": list(server.databases), "info": info}


_CREATE_FIELDS: Final = {
    "database",
    "collection",
    "shardNum",
    "replicaNum",
    "description",
    "indexes",
    "embedding",
    "ttlConfig",
    "filterIndexConfig",
}


def _collection_create(server: TcVectorDBServer, body: Document) -> Document:
    known(body, _CREATE_FIELDS, "the request")
    server.database(body)
    made = Collection(body, **server._options)  # type: ignore[arg-type]
    # "One instance cannot have two collections of one name", page 95116.
    if any(made.name in collections for collections in server.databases.values()):
        raise refuse(f"collection {made.name!r} already exist")
    server.databases[made.database][made.name] = made
    return {"affectedCount": 1}


def _collection_list(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database"}, "the request")
    return {"collections": [collection.describe() for collection in server.database(body).values()]}


def _collection_describe(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection"}, "the request")
    return {"collection": server.collection(body).describe()}


def _collection_drop(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "force", "without_alias"}, "the request")
    del server.database(body)[server.collection(body).name]
    return {"affectedCount": 1}


def _collection_truncate(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "only_flush_ann_index"}, "the request")
    return {"affectedCount": server.collection(body).truncate()}


def _alias_set(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "alias"}, "the request")
    collection, alias = server.collection(body), check_name(body.get("alias"), "alias")
    for other in server.database(body).values():
        if alias in other.aliases:
            other.aliases.remove(alias)
    collection.aliases.append(alias)
    return {"affectedCount": 1}


def _alias_delete(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "alias"}, "the request")
    for collection in server.database(body).values():
        if body.get("alias") in collection.aliases:
            collection.aliases.remove(body["alias"])
            return {"affectedCount": 1}
    raise refuse(f"alias {body.get('alias')!r} not exist")


def _index_add(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "indexes", "buildExistedData"}, "the request")
    for index in body.get("indexes") or []:
        server.collection(body).add_index(index, only_filter=True)
    return {}


def _index_drop(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "fieldNames"}, "the request")
    for name in body.get("fieldNames") or []:
        server.collection(body).drop_index(name)
    return {}


def _index_rebuild(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "dropBeforeRebuild", "throttle", "fieldName"}, "the request")
    server.collection(body)
    return {}


# --- documents -----------------------------------------------------------------------------------------


def _tokens_used(texts: Sequence[Any]) -> Document:
    return {"embeddingExtraInfo": {"tokenUsed": sum(len(text) for text in texts if isinstance(text, str))}}


def _document_upsert(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "buildIndex", "documents"}, "the request")
    collection = server.collection(body)
    if not isinstance(body.get("buildIndex", True), bool):
        raise refuse("buildIndex has to be true or false")
    reply: Document = {"affectedCount": collection.upsert(body.get("documents"))}
    if collection.embedding:
        reply |= _tokens_used([doc.get(collection.embedding["field"]) for doc in body["documents"]])
    return reply


def _consistency(body: Document) -> str:
    value = body.get("readConsistency", "eventualConsistency")
    if value not in ("eventualConsistency", "strongConsistency"):
        raise refuse(f"readConsistency {value!r} is not eventualConsistency or strongConsistency")
    return str(value)


def _document_query(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "readConsistency", "query"}, "the request")
    query = body.get("query")
    known(query, {"documentIds", "filter", "limit", "offset", "outputFields", "retrieveVector", "sort"}, "query")
    assert query is not None
    collection = server.collection(body)
    view = collection.view(_consistency(body))
    limit = whole(query, "limit", 1, 0, MAX_LIMIT)
    offset = whole(query, "offset", 0, 0, 2**63)
    keys = collection.selected(query, view, most_ids=MAX_IDS)
    keys = collection.sorted_keys(keys, view, query.get("sort"))
    page = keys[offset : offset + limit]
    return {"count": len(keys), "documents": [collection.shown(view[key], query) for key in page]}


_SEARCH_FIELDS: Final = {
    "documentIds",
    "vectors",
    "embeddingItems",
    "params",
    "filter",
    "limit",
    "radius",
    "outputFields",
    "retrieveVector",
}


def _document_search(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "readConsistency", "search"}, "the request")
    search = body.get("search")
    known(search, _SEARCH_FIELDS, "search")
    assert search is not None
    collection = server.collection(body)
    view = collection.view(_consistency(body))
    limit = whole(search, "limit", 10, 1, MAX_LIMIT)
    matches, radius = collection.predicate(search.get("filter")), collection.search_radius(search)
    documents = []
    for vector in collection.query_vectors(search, view):
        found = collection.nearest(vector, view, matches, radius)[:limit]
        documents.append([collection.shown(view[key], search, score) for key, score in found])
    reply: Document = {"documents": documents}
    return reply | (_tokens_used(search["embeddingItems"]) if search.get("embeddingItems") else {})


def _document_hybrid_search(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "readConsistency", "search"}, "the request")
    search = body.get("search")
    known(search, {"ann", "match", "rerank", "filter", "limit", "outputFields", "retrieveVector"}, "search")
    assert search is not None
    collection = server.collection(body)
    view = collection.view(_consistency(body))
    found = collection.hybrid(search, view)
    return {"documents": [[collection.shown(view[key], search, score) for key, score in found]]}


def _document_full_text_search(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "readConsistency", "search"}, "the request")
    search = body.get("search")
    known(search, {"match", "filter", "limit", "outputFields", "retrieveVector"}, "search")
    assert search is not None
    collection = server.collection(body)
    view = collection.view(_consistency(body))
    limit = whole(search, "limit", 10, 1, MAX_LIMIT)
    found = collection.sparse(search.get("match") or {}, view, collection.predicate(search.get("filter")))[:limit]
    return {"documents": [[collection.shown(view[key], search, score) for key, score in found]]}


def _document_delete(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "query"}, "the request")
    query = body.get("query")
    known(query, {"documentIds", "filter", "limit"}, "query")
    assert query is not None
    if query.get("documentIds") is None and not query.get("filter"):
        raise refuse("delete needs documentIds or filter")
    collection = server.collection(body)
    keys = collection.selected(query, collection.docs, most_ids=MAX_DELETE_IDS)
    if "limit" in query:
        keys = keys[: whole(query, "limit", 1, 1, MAX_LIMIT)]
    return {"affectedCount": collection.delete(keys)}


def _document_update(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "query", "update"}, "the request")
    query = body.get("query")
    known(query, {"documentIds", "filter"}, "query")
    assert query is not None
    if query.get("documentIds") is None and not query.get("filter"):
        raise refuse("update needs documentIds or filter")
    collection = server.collection(body)
    keys = collection.selected(query, collection.docs, most_ids=MAX_DELETE_IDS)
    return {"affectedCount": collection.update(keys, body.get("update") or {})}


def _document_count(server: TcVectorDBServer, body: Document) -> Document:
    known(body, {"database", "collection", "readConsistency", "query"}, "the request")
    query = body.get("query") or {}
    known(query, {"filter"}, "query")
    collection = server.collection(body)
    view = collection.view(_consistency(body))
    return {"count": len(collection.selected(query, view, most_ids=MAX_IDS))}


_HANDLERS: Final[dict[tuple[str, str], Callable[[TcVectorDBServer, Document], Document]]] = {
    ("POST", "/database/create"): _database_create,
    ("POST", "/database/drop"): _database_drop,
    ("GET", "/database/list"): _database_list,
    ("POST", "/collection/create"): _collection_create,
    ("POST", "/collection/list"): _collection_list,
    ("POST", "/collection/describe"): _collection_describe,
    ("POST", "/collection/drop"): _collection_drop,
    ("POST", "/collection/truncate"): _collection_truncate,
    ("POST", "/alias/set"): _alias_set,
    ("POST", "/alias/delete"): _alias_delete,
    ("POST", "/index/add"): _index_add,
    ("POST", "/index/drop"): _index_drop,
    ("POST", "/index/rebuild"): _index_rebuild,
    ("POST", "/document/upsert"): _document_upsert,
    ("POST", "/document/query"): _document_query,
    ("POST", "/document/search"): _document_search,
    ("POST", "/document/hybridSearch"): _document_hybrid_search,
    ("POST", "/document/fullTextSearch"): _document_full_text_search,
    ("POST", "/document/delete"): _document_delete,
    ("POST", "/document/update"): _document_update,
    ("POST", "/document/count"): _document_count,
}


# --- HTTP ----------------------------------------------------------------------------------------------


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    owner: TcVectorDBServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.open: set[Any] = set()
        self.stopping = False

    def cut_connections(self) -> None:
        self.stopping = True
        for connection in list(self.open):
            try:
                connection.shutdown(2)
            except OSError:  # the peer was faster
                pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HTTPServer

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        try:
            super().finish()
        except OSError:  # the connection is gone
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet; `requests` is the log."""

    def do_GET(self) -> None:
        self._handle({})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            self._send(413, {"code": 1, "msg": f"the body has {length} bytes, more than {MAX_BODY_BYTES}"})
            return
        try:
            body = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            body = None
        if isinstance(body, dict):
            self._handle(body)
        else:
            self._send(400, {"code": 1, "msg": "the body has to be a JSON object"})

    def _handle(self, body: Document) -> None:
        while self.server.owner.hang:
            if self.server.stopping:
                self.close_connection = True
                return
            time.sleep(0.02)
        request = Request(
            self.command,
            self.path.partition("?")[0],
            body,
            self.headers.get("backend-service"),
            time.monotonic(),
        )
        reply = self.server.owner.answer(request, self.headers.get("Authorization"))
        if reply is None:
            self.close_connection = True
            return
        self._send(*reply)

    def _send(self, status: int, reply: Document) -> None:
        payload = json.dumps(reply, ensure_ascii=False).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)
        except OSError:  # the peer has left
            self.close_connection = True


__all__ = ["Failure", "Request", "TcVectorDBServer", "VectorDBError"]
