"""MongoDBStore, against the loopback stand-in, and a real server where AGENT_RAG_MONGODB_URL names one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_rag.stores.base import VectorStoreBase
from agent_rag.stores.mongodb import MongoDBStore
from agent_rag.testing import StoreContract
from agent_rag.testing.store_contract import MakeStore

from ..standins.mongodb_server import MongoDBServer

SERVER_URL = os.environ.get("AGENT_RAG_MONGODB_URL")
_SERVE = """
import sys
from tests.standins.mongodb_server import MongoDBServer
with MongoDBServer(index_build_s=0.02, building=sys.argv[1], search_delay_s=0.01, search_spread_s=0.00001) as uri:
    print(uri, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module", params=["empty", "error"])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The real server's URL where there is one; else that of a stand-in in another process, as a server would be."""
    if SERVER_URL:
        yield SERVER_URL
        return
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, request.param],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


class TestMongoDBStore(StoreContract):
    """The contract over the wire protocol; `AGENT_RAG_MONGODB_URL=mongodb://...` runs it on a real server."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, server_url: str) -> MakeStore:
        return lambda: MongoDBStore(uri=server_url, database="agent_rag_test")

    @pytest.fixture
    def unavailable(self) -> VectorStoreBase:
        server = MongoDBServer()
        uri = server.start()
        server.stop()
        return MongoDBStore(uri=uri, database="x", timeout_s=1)
