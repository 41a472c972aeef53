"""The embedded deployments of QdrantStore."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_rag.stores.qdrant import QdrantStore
from agent_rag.testing import StoreContract
from agent_rag.testing.store_contract import MakeStore


class TestQdrantFolder(StoreContract):
    """QdrantStore(path=...)."""

    persistent = True

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeStore:
        return lambda: QdrantStore(path=tmp_path / "store")


class TestQdrantMemory(StoreContract):
    """QdrantStore(":memory:")."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda: QdrantStore(":memory:")
