"""A stand-in for Tencent Cloud VectorDB: a small server that checks and answers what `TcVectorStore` sends.

It follows the SDK `tcvectordb` 2.1 over HTTP and the vendor's documentation (product 1709, 2025-08); what it has is in
memory, and what the store does not send it does not know. Codes: 15301 no such database, 15302 no such collection,
15000 a parameter that is not accepted; the texts are its own. `test_tcvectordb.py` has the published exchanges.

Not verified on a real instance: the HTTP status of an error (200; 401 without valid credentials), what `outputFields`
does to `id` and to vectors.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

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

Failure = VectorDBError | Literal["disconnect", "disconnect_after"]


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    path: str
    body: Document


class TcVectorDBServer:
    """The server. Entering it starts it and gives the URL.

    Args:
        zones: Of the instance: in how many its copies have to lie.
        lags: Whether reads that are not strongly consistent see nothing.
    """

    api_key = "standin"

    def __init__(self, *, zones: int = 1, lags: bool = True) -> None:
        self.hang = False
        """Accept connections and never answer."""
        self.requests: deque[Request] = deque(maxlen=100_000)
        self.databases: dict[str, dict[str, Collection]] = {}
        self.zones = zones
        self._lags = lags
        self._lock = threading.Lock()
        self._http = _HTTPServer(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> str:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self.url

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop listening and cut every connection."""
        if not self._http.stopping:
            self._http.shutdown()
            self._http.cut_connections()
            self._http.server_close()

    def failure_for(self, path: str) -> Failure | None:
        """For tests to replace: what becomes of a request. "disconnect_after" runs it and does not answer."""
        return None

    def answer(self, request: Request, authorization: str | None) -> tuple[int, Document] | None:
        """HTTP status and body of the response; None to cut the connection."""
        self.requests.append(request)
        failure = self.failure_for(request.path)
        if failure == "disconnect":
            return None
        try:
            if isinstance(failure, VectorDBError):
                raise failure
            if authorization != f"Bearer account=root&api_key={self.api_key}":
                raise VectorDBError(1, "Unauthorized: invalid account or api_key", status=401)
            if request.path not in _HANDLERS:
                raise VectorDBError(1, f"no such interface: {request.path}", status=404)
            with self._lock:
                status, reply = (
                    200,
                    {"code": 0, "msg": "operation success", **_HANDLERS[request.path](self, request.body)},
                )
        except VectorDBError as error:
            status, reply = error.status, {"code": error.code, "msg": error.message}
        return None if failure == "disconnect_after" else (status, reply)

    def database(self, body: Mapping[str, Any]) -> dict[str, Collection]:
        if body.get("database") not in self.databases:
            raise VectorDBError(NO_DATABASE, f"database {body.get('database')!r} not exist")
        return self.databases[body["database"]]

    def collection(self, body: Mapping[str, Any], *more: str) -> Collection:
        known(body, {"database", "collection", *more})
        found = self.database(body).get(body.get("collection", ""))
        if found is None:
            raise VectorDBError(NO_COLLECTION, f"collection {body.get('collection')!r} not exist")
        return found

    def sees(self, body: Mapping[str, Any]) -> bool:
        """Whether a read sees what was written."""
        return not self._lags or body.get("readConsistency") == "strongConsistency"


# --- databases and collections ---


def _database_create(server: TcVectorDBServer, body: Document) -> Document:
    if check_name(body.get("database")) in server.databases:
        raise refuse(f"database {body['database']!r} already exist")
    server.databases[body["database"]] = {}
    return {"affectedCount": 1}


def _database_list(server: TcVectorDBServer, _: Document) -> Document:
    return {
        "databases": list(server.databases),
        "info": {name: {"createTime": "", "dbType": "BASE_DB"} for name in server.databases},
    }


def _create(server: TcVectorDBServer, body: Document) -> Document:
    named = {"database", "collection", "shardNum", "replicaNum", "description", "indexes", "embedding"}
    known(body, named | {"filterIndexConfig", "ttlConfig"})
    there, made = server.database(body), Collection(body, zones=server.zones)
    # "An instance cannot have two collections of one name", page 95116.
    if any(made.name in collections for collections in server.databases.values()):
        raise refuse(f"collection {made.name!r} already exist")
    there[made.name] = made
    return {"affectedCount": 1}


def _list(server: TcVectorDBServer, body: Document) -> Document:
    return {
        "collections": [{**one.described(), "database": body["database"]} for one in server.database(body).values()]
    }


def _describe(server: TcVectorDBServer, body: Document) -> Document:
    return {"collection": {**server.collection(body).described(), "database": body["database"]}}


def _drop(server: TcVectorDBServer, body: Document) -> Document:
    del server.database(body)[server.collection(body, "force").name]
    return {"affectedCount": 1}


# --- documents ---


def _upsert(server: TcVectorDBServer, body: Document) -> Document:
    return {"affectedCount": server.collection(body, "documents", "buildIndex").upsert(body.get("documents"))}


def _query(server: TcVectorDBServer, body: Document) -> Document:
    collection, query = server.collection(body, "query", "readConsistency"), body.get("query") or {}
    known(query, {"documentIds", "filter", "limit", "offset", "outputFields", "retrieveVector", "sort"})
    limit = whole(query, "limit", 1, 0, MAX_LIMIT)
    keys = collection.selected(query, most_ids=MAX_IDS) if server.sees(body) else []
    return {"count": len(keys), "documents": [collection.shown(key, query) for key in keys[:limit]]}


def _search(server: TcVectorDBServer, body: Document) -> Document:
    collection, search = server.collection(body, "search", "readConsistency"), body.get("search") or {}
    known(search, {"vectors", "embeddingItems", "params", "filter", "limit", "outputFields", "retrieveVector"})
    return _best(server, body, collection, collection.nearest(search))


def _full_text_search(server: TcVectorDBServer, body: Document) -> Document:
    collection, search = server.collection(body, "search", "readConsistency"), body.get("search") or {}
    known(search, {"match", "filter", "limit", "outputFields", "retrieveVector"})
    return _best(server, body, collection, collection.sparse(search))


def _best(
    server: TcVectorDBServer, body: Document, collection: Collection, found: Sequence[tuple[str, float]]
) -> Document:
    limit = whole(body["search"], "limit", 10, 1, MAX_LIMIT)
    shown = found[:limit] if server.sees(body) else []
    return {"documents": [[collection.shown(key, body["search"], score) for key, score in shown]]}


def _delete(server: TcVectorDBServer, body: Document) -> Document:
    collection, query = server.collection(body, "query"), _chosen(body, "limit")
    keys = collection.selected(query, most_ids=MAX_DELETE_IDS)
    return {"affectedCount": collection.delete(keys[: whole(query, "limit", MAX_LIMIT, 1, MAX_LIMIT)])}


def _update(server: TcVectorDBServer, body: Document) -> Document:
    collection, query = server.collection(body, "query", "update"), _chosen(body)
    return {"affectedCount": collection.update(collection.selected(query, most_ids=MAX_IDS), body.get("update") or {})}


def _count(server: TcVectorDBServer, body: Document) -> Document:
    collection, query = server.collection(body, "query", "readConsistency"), body.get("query") or {}
    known(query, {"filter"})
    return {"count": len(collection.selected(query, most_ids=0)) if server.sees(body) else 0}


def _chosen(body: Document, *more: str) -> Document:
    query: Document = body.get("query") or {}
    known(query, {"documentIds", "filter", *more})
    if query.get("documentIds") is None and not query.get("filter"):
        raise refuse("documentIds or filter is needed")
    return query


_HANDLERS: dict[str, Callable[[TcVectorDBServer, Document], Document]] = {
    "/database/create": _database_create,
    "/database/list": _database_list,
    "/collection/create": _create,
    "/collection/list": _list,
    "/collection/describe": _describe,
    "/collection/drop": _drop,
    "/document/upsert": _upsert,
    "/document/query": _query,
    "/document/search": _search,
    "/document/fullTextSearch": _full_text_search,
    "/document/delete": _delete,
    "/document/update": _update,
    "/document/count": _count,
}


# --- HTTP ---


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    owner: TcVectorDBServer
    stopping = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.open: set[Any] = set()

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
        self._handle(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))

    def _handle(self, body: Document) -> None:
        while self.server.owner.hang:
            if self.server.stopping:
                self.close_connection = True
                return
            time.sleep(0.02)
        reply = self.server.owner.answer(Request(self.path.partition("?")[0], body), self.headers.get("Authorization"))
        if reply is None:
            self.close_connection = True
            return
        status, content = reply
        payload = json.dumps(content).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)
        except OSError:  # the peer has left
            self.close_connection = True
