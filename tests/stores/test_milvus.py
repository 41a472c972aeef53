"""MilvusLiteStore passes the contract on Milvus Lite, and more that only it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_rag.testing import StoreContract
from agent_rag.testing.store_contract import MakeStore

pytest.importorskip("pymilvus", reason="pip install 'agent-rag-middleware[milvus]' to run this")
pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")

from agent_rag.stores.milvus import MilvusLiteStore


class TestMilvusLite(StoreContract):
    """A local file."""

    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: MilvusLiteStore(tmp_path / "store.db")
