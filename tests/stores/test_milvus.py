"""MilvusLiteStore passes the contract on Milvus Lite, and more that only it promises."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_rag.testing import StoreContract
from agent_rag.testing.store_contract import MakeStore

pytest.importorskip("pymilvus", reason="pip install 'agent-rag-middleware[milvus]' to run this")
pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")

from agent_rag.stores.milvus import MilvusLiteStore

SERVER = os.environ.get("AGENT_RAG_MILVUS_URL")


class TestMilvusLite(StoreContract):
    """A local file."""

    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: MilvusLiteStore(tmp_path / "store.db")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Milvus server: that of AGENT_RAG_MILVUS_URL, or Milvus Lite in a process of its own."""
    if SERVER:
        yield SERVER
        return
    port = _free_port()
    command = [sys.executable, "-m", "milvus_lite", "server", "--host", "127.0.0.1", "--port", str(port)]
    folder = tmp_path_factory.mktemp("milvus")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--data-dir", str(folder / "data")], stdout=log, stderr=log)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the Milvus Lite server did not start within 30 s")


class TestMilvusEndpoint(StoreContract):
    """The same calls to a server, which several stores may write to."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, endpoint: str) -> MakeStore:
        return lambda: MilvusLiteStore(endpoint)

    @pytest.fixture
    def unavailable(self) -> MilvusLiteStore:
        return MilvusLiteStore(f"http://127.0.0.1:{_free_port()}", token="user:secret", timeout_s=3)
