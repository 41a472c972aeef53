"""What the tests of PostgreSQL share; each module has its own ``dsn``, the address of the server it started."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest


@pytest.fixture
def table() -> str:
    """A prefix for tables that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Any]:
    """A connection of our own."""
    asyncpg = pytest.importorskip("asyncpg", reason="pip install 'agent-rag-middleware[postgres]' to run this")
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()
