"""A stand-in for a MongoDB server with search: a small server that checks and answers what `MongoDBStore` sends.

Stands for one node of a MongoDB 8.0 replica set with mongot beside it; peer: `pymongo` 4.10 or later. Follows "MongoDB
Wire Protocol" (OP_MSG; OP_QUERY for the handshake) and the driver specifications "Handshake" and "Retryable Writes".
What it has is in memory. `test_mongodb_standin.py` has published exchanges.
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
from typing import Any, Literal

import bson
from bson import ObjectId

from .mongodb_commands import Storage, run_command
from .mongodb_query import MAX_BSON_SIZE, Document, MongoError

MAX_MESSAGE_BYTES = 48_000_000
_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_CHECKSUM, _MORE_TO_COME = 1, 2
_HANDSHAKE = ("hello", "isMaster", "ismaster", "ping", "buildInfo", "buildinfo", "endSessions", "killCursors")

Failure = MongoError | Literal["disconnect", "disconnect_after"]


@dataclass(frozen=True)
class Request:
    """One command as it came in."""

    command: str
    body: Document


class MongoDBServer:
    """The server. Entering it starts it and gives the URI.

    Args:
        index_build_s: How long a new search index is PENDING, then BUILDING, and not queryable.
        building: What a search over such an index gives: "empty" no rows, "error" mongot's refusal to answer.
        search_delay_s: How long a write takes until search sees it.
        search_spread_s: Time between two writes becoming visible to search.
    """

    def __init__(
        self,
        *,
        index_build_s: float = 0.2,
        building: Literal["empty", "error"] = "empty",
        search_delay_s: float = 0.05,
        search_spread_s: float = 0.0,
    ) -> None:
        self.hang = False
        """Accept connections and never answer."""
        self.requests: deque[Request] = deque(maxlen=100_000)
        self.storage = Storage(
            search_delay_s=search_delay_s,
            search_spread_s=search_spread_s,
            index_build_s=index_build_s,
            building=building,
        )
        self._failures: list[tuple[Failure, frozenset[str] | None]] = []
        self._retryable: dict[bytes, tuple[int, Document]] = {}
        self._tcp = _TCPServer(("127.0.0.1", 0), _Connection)
        self._tcp.owner = self
        self._host = f"127.0.0.1:{self._tcp.server_address[1]}"
        self.uri = f"mongodb://{self._host}/?directConnection=true"

    def __enter__(self) -> str:
        threading.Thread(target=self._tcp.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self.uri

    def __exit__(self, *_: object) -> None:
        """Stop listening and cut every connection."""
        self._tcp.shutdown()
        self._tcp.cut_connections()
        self._tcp.server_close()

    def fail_next(self, n: int, error: Failure, *, commands: Sequence[str] | None = None) -> None:
        """Make the next n commands fail, all but the handshake, or only the named ones.

        Args:
            error: A MongoError to answer with, "disconnect" to cut the connection before the command runs, or
                "disconnect_after" to run it and cut the connection instead of answering.
        """
        self._failures.extend([(error, frozenset(commands) if commands else None)] * n)

    def _failure_for(self, command: str) -> Failure | None:
        if command in _HANDSHAKE:
            return None
        for position, (error, commands) in enumerate(self._failures):
            if commands is None or command in commands:
                del self._failures[position]
                return error
        return None

    def answer(self, body: Document) -> Document | None:
        """The reply to a command document; None to cut the connection."""
        name = next(iter(body))
        self.requests.append(Request(name, body))
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
        if "txnNumber" not in body:
            return run_command(self.storage, name, body)
        session, number = bytes(body["lsid"]["id"]), int(body["txnNumber"])
        if self._retryable.get(session, (-1, {}))[0] != number:  # a repetition gets the reply of the first run
            self._retryable[session] = (number, run_command(self.storage, name, body))
        return self._retryable[session][1]

    def _hello(self, name: str) -> Document:
        return {
            "helloOk": True,
            "isWritablePrimary" if name == "hello" else "ismaster": True,
            "secondary": False,
            "setName": "rs0",
            "setVersion": 1,
            "hosts": [self._host],
            "primary": self._host,
            "me": self._host,
            "electionId": ObjectId("7fffffff0000000000000001"),
            "maxBsonObjectSize": MAX_BSON_SIZE,
            "maxMessageSizeBytes": MAX_MESSAGE_BYTES,
            "maxWriteBatchSize": 100_000,
            "localTime": datetime.now(UTC),
            "logicalSessionTimeoutMinutes": 30,
            "connectionId": 1,
            "minWireVersion": 0,
            "maxWireVersion": 25,
            "readOnly": False,
            "ok": 1.0,
        }


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


__all__ = ["MongoDBServer", "MongoError"]
