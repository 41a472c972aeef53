"""A stand-in for a MongoDB server with search: the wire protocol over loopback, storage in memory.

Stands for: one node of a MongoDB 8.0 replica set with the search process (mongot) beside it, as Atlas and the
community edition with search run it; peer: the official `pymongo` >= 4.10. Follows "MongoDB Wire Protocol"
(OP_MSG; OP_QUERY for the handshake) and the "Handshake", "Sessions", "Transactions" and "Retryable Writes"
driver specifications.

    with MongoDBServer() as uri:
        client = AsyncMongoClient(uri)

Limits are announced in `hello` and enforced: 16 MiB per document, 48,000,000 bytes per message (a larger
message closes the connection, as the server does), 100,000 statements per write command.

Does not do: TLS, authentication, compression, checksums of its own, streamed `hello`, exhaust cursors,
sharding, failover, durability (data lives as long as the object: `stop()` and `start()` keep it). What single
commands leave out stands in the modules `mongodb_commands`, `mongodb_catalog`, `mongodb_query`,
`mongodb_update`, `mongodb_expressions`, `mongodb_aggregate`, `mongodb_search` and `mongodb_storage`.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal

import bson
from bson import ObjectId

from .mongodb_commands import MAX_WRITE_BATCH, run_command
from .mongodb_engine import Call, Engine
from .mongodb_query import MAX_BSON_SIZE, Document, MongoError
from .mongodb_storage import Storage, Transaction, no_such_transaction

MAX_MESSAGE_BYTES: Final = 48_000_000
MAX_WIRE_VERSION: Final = 25  # MongoDB 8.0
_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_CHECKSUM, _MORE_TO_COME = 1, 2
_HANDSHAKE: Final = (
    "hello",
    "isMaster",
    "ismaster",
    "ping",
    "buildInfo",
    "buildinfo",
    "endSessions",
    "killCursors",
)

Failure = MongoError | Literal["disconnect", "disconnect_after"]


@dataclass(frozen=True)
class Request:
    """One command as it came in."""

    command: str
    database: str
    body: Document
    at: float


class MongoDBServer:
    """The server. Entering it starts it and gives the URI.

    Args:
        index_build_s: How long a new search index is PENDING, then BUILDING, and not queryable.
        building: What a search over such an index gives: "empty" no rows, "error" mongot's refusal to answer.
        search_delay_s: How long a write takes until search sees it.
        search_spread_s: Time between two writes becoming visible to search; above 0, search sees half of a
        transaction.
        lock_wait_s: How long a write outside transactions waits for a document that a transaction holds.
        transaction_lifetime_s: After this time without a statement a transaction loses its documents to
        others.
        hang: Accept connections and never answer. May be set and cleared while running.
        port: 0 for any free one. A second `start` takes the port of the first.
    """

    def __init__(
        self,
        *,
        index_build_s: float = 0.2,
        building: Literal["empty", "error"] = "empty",
        search_delay_s: float = 0.05,
        search_spread_s: float = 0.0,
        lock_wait_s: float = 5.0,
        transaction_lifetime_s: float = 60.0,
        hang: bool = False,
        port: int = 0,
    ) -> None:
        self.hang = hang
        self.port = port
        self.requests: deque[Request] = deque(maxlen=100_000)
        self.storage = Storage(
            search_delay_s=search_delay_s,
            search_spread_s=search_spread_s,
            lock_wait_s=lock_wait_s,
            lifetime_s=transaction_lifetime_s,
        )
        self.engine = Engine(self.storage, building, index_build_s)
        self._failures: list[tuple[Failure, frozenset[str] | None]] = []
        self._sessions: dict[bytes, Transaction] = {}
        self._retryable: dict[bytes, tuple[int, Document]] = {}
        self._tcp: _TCPServer | None = None
        self._connections = 0

    # --- life ---

    def start(self) -> str:
        """Listen on 127.0.0.1 and return the connection string."""
        self._tcp = _TCPServer(("127.0.0.1", self.port), _Connection)
        self._tcp.owner = self
        self.port = self._tcp.server_address[1]
        threading.Thread(target=self._tcp.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self.uri

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def stop(self) -> None:
        """Stop listening and cut every connection; the data stays."""
        if self._tcp is None:
            return
        self._tcp.shutdown()
        self._tcp.cut_connections()
        self._tcp.server_close()
        self._tcp = None

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- control by tests ---

    def fail_next(self, n: int, error: Failure, *, commands: Sequence[str] | None = None) -> None:
        """Make the next n commands fail, all but the handshake, or only the named ones.

        Args:
            error: A MongoError to answer with, "disconnect" to cut the connection before the command runs, or
                "disconnect_after" to run it and cut the connection instead of answering.
        """
        self._failures.extend([(error, frozenset(commands) if commands else None)] * n)

    def fail_index(self, database: str, collection: str, name: str) -> None:
        """Put a search index into the state FAILED."""
        with self.storage.lock:
            self.storage.collections[(database, collection)].search_indexes[name].failed = True

    def _failure_for(self, command: str) -> Failure | None:
        if command in _HANDSHAKE:
            return None
        for position, (error, commands) in enumerate(self._failures):
            if commands is None or command in commands:
                del self._failures[position]
                return error
        return None

    # --- answering ---

    def answer(self, body: Document) -> Document | None:
        """The reply to a command document; None to cut the connection."""
        name = next(iter(body))
        self.requests.append(Request(name, body.get("$db", ""), body, time.monotonic()))
        failure = self._failure_for(name)
        if failure == "disconnect":
            return None
        if isinstance(failure, MongoError):
            return failure.reply()
        try:
            with self.storage.lock:
                reply = self._run(name, body)
        except MongoError as error:
            reply = error.reply()
        except Exception as error:
            reply = MongoError(1, "InternalError", f"stand-in: {type(error).__name__}: {error}").reply()
        return None if failure == "disconnect_after" else reply

    def _run(self, name: str, body: Document) -> Document:
        if name in ("hello", "isMaster", "ismaster"):
            return self._hello(name)
        session = bytes(body["lsid"]["id"]) if "lsid" in body else b""
        if name == "endSessions":
            for entry in body["endSessions"]:
                self._end_session(bytes(entry["id"]))
            return {"ok": 1.0}
        if name in ("commitTransaction", "abortTransaction"):
            return self._end_transaction(name, session, int(body["txnNumber"]))
        call = Call(body.get("$db", ""), name, body)
        if body.get("autocommit") is False:
            return self._run_in_transaction(call, session)
        if "txnNumber" in body:
            return self._run_once(call, session, int(body["txnNumber"]))
        return run_command(self.engine, call)

    def _hello(self, name: str) -> Document:
        self._connections += 1
        me = f"127.0.0.1:{self.port}"
        return {
            "helloOk": True,
            "isWritablePrimary" if name == "hello" else "ismaster": True,
            "secondary": False,
            "setName": "rs0",
            "setVersion": 1,
            "hosts": [me],
            "primary": me,
            "me": me,
            "electionId": ObjectId("7fffffff0000000000000001"),
            "maxBsonObjectSize": MAX_BSON_SIZE,
            "maxMessageSizeBytes": MAX_MESSAGE_BYTES,
            "maxWriteBatchSize": MAX_WRITE_BATCH,
            "localTime": datetime.now(UTC),
            "logicalSessionTimeoutMinutes": 30,
            "connectionId": self._connections,
            "minWireVersion": 0,
            "maxWireVersion": MAX_WIRE_VERSION,
            "readOnly": False,
            "ok": 1.0,
        }

    # --- sessions and transactions ---

    def _run_once(self, call: Call, session: bytes, number: int) -> Document:
        """A retryable write: a repetition gets the reply of the first run."""
        done = self._retryable.get(session)
        if done is not None and done[0] == number:
            return done[1]
        reply = run_command(self.engine, call)
        self._retryable[session] = (number, reply)
        return reply

    def _run_in_transaction(self, call: Call, session: bytes) -> Document:
        number = int(call.body["txnNumber"])
        held = self._sessions.get(session)
        if call.body.get("startTransaction"):
            if held is not None and held.state == "open":
                self.storage.abort(held)
            held = self._sessions[session] = self.storage.begin(number)
        if held is None or held.number != number or held.state != "open":
            raise no_such_transaction(number)
        held.last_used = time.monotonic()
        call.txn = held
        try:
            return run_command(self.engine, call)
        except MongoError:
            self.storage.abort(held)
            raise

    def _end_transaction(self, name: str, session: bytes, number: int) -> Document:
        held = self._sessions.get(session)
        committing = name == "commitTransaction"
        if held is None or held.number != number or held.state == "aborted":
            raise no_such_transaction(number)
        if held.state == "committed":
            if not committing:
                raise MongoError(256, "TransactionCommitted", "Transaction has been committed")
            return {"ok": 1.0}
        (self.storage.commit if committing else self.storage.abort)(held)
        return {"ok": 1.0}

    def _end_session(self, session: bytes) -> None:
        held = self._sessions.pop(session, None)
        if held is not None and held.state == "open":
            self.storage.abort(held)
        self._retryable.pop(session, None)


class _TCPServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
    owner: MongoDBServer

    def __init__(self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(address, handler)
        self.open: set[socket.socket] = set()
        self.stopping = False

    def cut_connections(self) -> None:
        self.stopping = True
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the peer was faster
                pass


class _Connection(socketserver.BaseRequestHandler):
    server: _TCPServer
    request: socket.socket

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.open.add(self.request)

    def finish(self) -> None:
        self.server.open.discard(self.request)

    def handle(self) -> None:
        try:
            while self._one_message():
                pass
        except OSError:  # the connection is gone
            return

    def _one_message(self) -> bool:
        header = self._read(16)
        if header is None:
            return False
        length, request_id, _, op_code = struct.unpack("<iiii", header)
        if not 16 < length <= MAX_MESSAGE_BYTES:
            return False
        payload = self._read(length - 16)
        if payload is None:
            return False
        while self.server.owner.hang:
            if self.server.stopping:
                return False
            time.sleep(0.02)
        if op_code == _OP_QUERY:
            return self._legacy(request_id, payload)
        return op_code == _OP_MSG and self._message(request_id, payload)

    def _read(self, count: int) -> bytes | None:
        chunks: list[bytes] = []
        while count:
            chunk = self.request.recv(min(count, 1 << 20))
            if not chunk:
                return None
            chunks.append(chunk)
            count -= len(chunk)
        return b"".join(chunks)

    def _message(self, request_id: int, payload: bytes) -> bool:
        (flags,) = struct.unpack_from("<I", payload)
        body = decode_sections(payload[4 : len(payload) - 4 * (flags & _CHECKSUM)])
        reply = self.server.owner.answer(body)
        if reply is None:
            return False
        if not flags & _MORE_TO_COME:
            self._send(_OP_MSG, request_id, struct.pack("<IB", 0, 0) + bson.encode(reply))
        return True

    def _legacy(self, request_id: int, payload: bytes) -> bool:
        """OP_QUERY: only the handshake comes this way."""
        start = payload.index(b"\0", 4) + 9
        body = bson.decode(payload[start:])
        name = next(iter(body))
        if name in ("hello", "isMaster", "ismaster"):
            reply = self.server.owner.answer({**body, "$db": "admin"})
        else:
            reply = MongoError(
                352,
                "UnsupportedOpQueryCommand",
                f"Unsupported OP_QUERY command: {name}. The client driver may require an upgrade.",
            ).reply()
        if reply is None:
            return False
        self._send(_OP_REPLY, request_id, struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(reply))
        return True

    def _send(self, op_code: int, response_to: int, payload: bytes) -> None:
        self.request.sendall(struct.pack("<iiii", 16 + len(payload), 0, response_to, op_code) + payload)


def decode_sections(payload: bytes) -> Document:
    """The command document of an OP_MSG, with its document sequences put in."""
    body: Document = {}
    sequences: dict[str, list[Any]] = {}
    at = 0
    while at < len(payload):
        kind = payload[at]
        (size,) = struct.unpack_from("<i", payload, at + 1)
        section = payload[at + 1 : at + 1 + size]
        if kind == 0:
            body = bson.decode(section)
        else:
            name_end = section.index(b"\0", 4)
            sequences[section[4:name_end].decode()] = bson.decode_all(section[name_end + 1 :])
        at += 1 + size
    return {**body, **sequences}


__all__ = ["Failure", "MongoDBServer", "MongoError", "Request"]
