"""MemoryStore passes the contract of all capabilities."""

import pytest

from agent_rag.stores import MemoryStore
from agent_rag.testing import StoreContract


class TestMemoryStore(StoreContract):
    """Closing keeps the data of the object, so reopening is tested too."""

    persistent = True

    @pytest.fixture
    def make_store(self):
        store = MemoryStore()
        return lambda: store
