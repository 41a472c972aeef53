"""Real knowledge bases for the tests of the middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_rag.content import ContentBlock, TextBlock
from agent_rag.documents import Chunk
from agent_rag.knowledge import KnowledgeBase
from agent_rag.middleware import RAGMiddleware
from agent_rag.stores.memory import MemoryStore
from agent_rag.testing import HashEmbedding

Parameters = RAGMiddleware.Parameters


@asynccontextmanager
async def knowledge(
    documents: Mapping[str, Sequence[str | ContentBlock | Chunk]], *, name: str = "docs", **options: Any
) -> AsyncIterator[KnowledgeBase]:
    """A KnowledgeBase over a MemoryStore with these documents, by id."""
    async with MemoryStore() as store:
        base = KnowledgeBase(name, f"the {name}", HashEmbedding(256), store, name, **options)
        for document_id, contents in documents.items():
            await base.insert_document([chunk(content, f"{document_id}.md") for content in contents], document_id)
        yield base


def chunk(content: str | ContentBlock | Chunk, source: str = "file.md", **fields: Any) -> Chunk:
    if isinstance(content, Chunk):
        return content
    block = TextBlock(text=content) if isinstance(content, str) else content
    return Chunk(content=block, source=source, chunk_index=0, total_chunks=1, **fields)


def static(*bases: Any, options: Mapping[str, Any] | None = None, **parameters: Any) -> RAGMiddleware:
    """A static middleware; `options` go to RAGMiddleware."""
    return RAGMiddleware(list(bases), Parameters(mode="static", **parameters), **(options or {}))


def agentic(*bases: Any, options: Mapping[str, Any] | None = None, **parameters: Any) -> RAGMiddleware:
    """An agentic middleware; `options` go to RAGMiddleware."""
    return RAGMiddleware(list(bases), Parameters(**parameters), **(options or {}))
