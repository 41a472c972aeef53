"""ElasticsearchStore passes the contract on the stand-in, or on the server of AGENT_RAG_ELASTICSEARCH_URL."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from agent_rag.testing import StoreContract
from agent_rag.testing.store_contract import MakeStore
from tests.standins.elasticsearch_server import ElasticsearchServer

pytest.importorskip("elasticsearch", reason="pip install 'agent-rag-middleware[elasticsearch]' to run this")

from agent_rag.stores.elasticsearch import ElasticsearchStore

SERVER = os.environ.get("AGENT_RAG_ELASTICSEARCH_URL")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Address of a server: that of AGENT_RAG_ELASTICSEARCH_URL, or the stand-in."""
    if SERVER:
        yield SERVER
        return
    with ElasticsearchServer() as standin:
        yield standin.url


class TestElasticsearch(StoreContract):
    """On the stand-in, or on a real server."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, server: str) -> MakeStore:
        prefix = f"agent_rag_test_{uuid.uuid4().hex[:8]}-"
        return lambda: ElasticsearchStore(server, index_prefix=prefix, refresh=True)

    @pytest.fixture
    def unavailable(self) -> ElasticsearchStore:
        return ElasticsearchStore("http://elastic:secret@127.0.0.1:9", timeout_s=3)
