"""What most tests of ingestion use: worker processes, and an empty knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from agent_rag import KnowledgeBase, MemoryStore, ParserPool
from agent_rag.testing import HashEmbedding


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    """One pool for the module: starting worker processes takes a moment."""
    shared = ParserPool(workers=2)
    yield shared
    shared.close()


@pytest.fixture
async def kb() -> AsyncIterator[KnowledgeBase]:
    async with MemoryStore() as store:
        yield KnowledgeBase("kb", "files", HashEmbedding(), store, "kb")
