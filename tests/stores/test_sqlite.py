"""SQLiteStore passes the contract of all capabilities with any number of stores on one file."""

import pytest

from agent_rag.stores.sqlite import SQLiteStore
from agent_rag.testing import StoreContract


class TestSQLiteStore(StoreContract):
    """Each store that is made has connections of its own."""

    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SQLiteStore(tmp_path / "store.db")


class TestSQLiteStoreWithCodes(StoreContract):
    """The same without room for vectors: 8-bit codes find, the file decides."""

    persistent = True
    shared = True

    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SQLiteStore(tmp_path / "store.db", memory_mb=0)
