"""Real servers for tests, each a process of `scripts/servers start`, or the address that the environment names."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_START = Path(__file__).resolve().parents[2] / "scripts" / "servers"
_NONE = 3
_READY_S = 180.0
CLOUD = [
    *(
        f"QDRANT__STORAGE__COLLECTION__STRICT_MODE__{setting}"
        for setting in (
            "ENABLED=true",
            "UNINDEXED_FILTERING_RETRIEVE=false",
            "UNINDEXED_FILTERING_UPDATE=false",
            "MAX_PAYLOAD_INDEX_COUNT=100",
        )
    ),
    "QDRANT__SERVICE__API_KEY=write",
    "QDRANT__SERVICE__READ_ONLY_API_KEY=read",
]
"""Settings of a Qdrant Cloud cluster, with its two keys."""


class Server:
    """One server; `kill` and `start` again where it is a process of ours."""

    def __init__(self, kind: str, ready: str, data: Path | None, port: int, arguments: Sequence[str] = ()) -> None:
        self.kind = kind
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._ready = ready
        self._data = data
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def at(cls, kind: str, url: str) -> Server:
        """One that somebody else runs."""
        server = cls(kind, "", None, 0)
        server.url = url
        return server

    def start(self) -> None:
        assert self._data is not None
        self._data.mkdir(exist_ok=True)
        self._data.chmod(0o777)
        with (self._data.parent / f"{self._data.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(_START), "start", self.kind, str(self._data), str(self.port), *self._arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "ES_HEAP": os.environ.get("ES_HEAP", "512m")},
            )

    def wait(self) -> None:
        """Until it is ready. Skips the test where no server can be started."""
        assert self._process is not None
        until = time.monotonic() + _READY_S
        while not self.is_ready():
            status = self._process.poll()
            if status == _NONE:
                pytest.skip(
                    f"no {self.kind} server: see the head of scripts/servers, or set AGENT_RAG_{self.kind.upper()}_URL"
                )
            assert status is None, f"{self.kind} ended with {status}"
            assert time.monotonic() < until, f"{self.kind} is not ready after {_READY_S:g} s"
            time.sleep(0.1)

    def is_ready(self) -> bool:
        # Keys of tests; a server without keys does not look at them.
        request = urllib.request.Request(f"{self.url}/{self._ready}", headers={"api-key": "write"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status == 200
        except (OSError, urllib.error.HTTPError):
            return False

    def kill(self) -> None:
        """As a power cut would end it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def qdrant(*settings: str, nodes: int = 1) -> Iterator[list[Server]]:
    """A Qdrant server, or the nodes of a cluster, in which a collection has as many shards."""
    if nodes == 1 and not settings and (url := os.environ.get("AGENT_RAG_QDRANT_URL")):
        yield [Server.at("qdrant", url)]
        return
    ports = _free_ports(nodes, 6)
    with _servers() as folder:
        servers = []
        for number, port in enumerate(ports):
            arguments = list(settings)
            if nodes > 1:
                arguments += ["QDRANT__CLUSTER__ENABLED=true", f"QDRANT__CLUSTER__P2P__PORT={port + 5}", "--"]
                arguments += ["--uri", f"http://127.0.0.1:{port + 5}"]
                arguments += ["--bootstrap", f"http://127.0.0.1:{ports[0] + 5}"] if number else []
            servers.append(Server("qdrant", "readyz", Path(folder) / f"n{number}", port, arguments))
        yield from _run(servers)


@contextlib.contextmanager
def elasticsearch(*settings: str, nodes: int = 1) -> Iterator[list[Server]]:
    """An Elasticsearch server, or the nodes of a cluster."""
    if nodes == 1 and not settings and (url := os.environ.get("AGENT_RAG_ELASTICSEARCH_URL")):
        yield [Server.at("elasticsearch", url)]
        return
    ports = _free_ports(nodes, 2)
    seeds = ",".join(f"127.0.0.1:{port + 1}" for port in ports)
    names = ",".join(f"n{number}" for number in range(nodes))
    with _servers() as folder:
        servers = []
        for number, port in enumerate(ports):
            arguments = [f"transport.port={port + 1}", *settings]
            if nodes > 1:
                arguments += [f"node.name=n{number}", f"cluster.name=c{ports[0]}", f"discovery.seed_hosts={seeds}"]
                arguments += [f"cluster.initial_master_nodes={names}"]
            ready = f"_cluster/health?wait_for_status=yellow&wait_for_nodes={nodes}&timeout=1s"
            servers.append(Server("elasticsearch", ready, Path(folder) / f"n{number}", port, arguments))
        yield from _run(servers, one_by_one=False)


@contextlib.contextmanager
def _servers() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="agent-rag-servers-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # Elasticsearch runs as nobody
        yield folder


def _run(servers: list[Server], *, one_by_one: bool = True) -> Iterator[list[Server]]:
    try:
        for server in servers:
            server.start()
            if one_by_one:
                server.wait()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.kill()


def _free_ports(count: int, width: int) -> list[int]:
    """First ports of `count` runs of `width` free ones."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000, 10)
        if port not in found and all(map(_is_free, range(port, port + width))):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
