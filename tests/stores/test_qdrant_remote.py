"""QdrantStore(url=...), against the loopback stand-in, and a real server where AGENT_RAG_QDRANT_URL names one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_rag.stores.base import VectorStoreBase
from agent_rag.stores.qdrant import QdrantStore
from agent_rag.testing import StoreContract
from agent_rag.testing.store_contract import MakeStore

from ..standins.qdrant_server import QdrantServer

SERVER_URL = os.environ.get("AGENT_RAG_QDRANT_URL")
_SERVE = """
import sys
from tests.standins.qdrant_server import QdrantServer
with QdrantServer() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """The real server's URL where there is one; else that of a stand-in in another process, as a server would be."""
    if SERVER_URL:
        yield SERVER_URL
        return
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


class TestQdrantServer(StoreContract):
    """The contract over HTTP; `AGENT_RAG_QDRANT_URL=http://localhost:6333` runs it on a real server."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, server_url: str) -> MakeStore:
        key = os.environ.get("AGENT_RAG_QDRANT_API_KEY")
        return lambda: QdrantStore(url=server_url, api_key=key)

    @pytest.fixture
    def unavailable(self) -> VectorStoreBase:
        server = QdrantServer()
        url = server.start()
        server.stop()
        return QdrantStore(url=url)
