"""Several stores on one server that replace and read the same document at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent_rag.documents import VectorRecord
from agent_rag.stores.base import RetrieveRequest, Scored, VectorStoreBase
from agent_rag.testing import record
from agent_rag.testing.records import document


def version(name: str, count: int) -> list[VectorRecord]:
    """`count` chunks that say which version they belong to, and of how many."""
    return [record("doc", n, f"pear {name} {n}", metadata={"version": name}, total=count) for n in range(count)]


async def assert_one_version_is_seen(make_store: Callable[[], VectorStoreBase], collection: str, replaces: int) -> int:
    """Two stores replace one document over and over, a third one reads: by meaning, by words, both, and as a list.

    Returns: Number of reads.
    """
    reads = 0
    done = asyncio.Event()

    async def write(store: VectorStoreBase, writer: str) -> None:
        for number in range(replaces):
            await store.replace(collection, [document()], version(f"{writer}{number}", 2 + (number * 7) % 31))
            await asyncio.sleep(0.001)

    async def read(store: VectorStoreBase) -> None:
        nonlocal reads
        requests = [
            RetrieveRequest(vectors=[[1.0, 0, 0, 0]], limit=100),
            RetrieveRequest(texts=["pear"], limit=100),
            RetrieveRequest(vectors=[[1.0, 0, 0, 0]], texts=["pear"], limit=100, rank=_union),
        ]
        while not done.is_set():
            request = requests[reads % len(requests)]
            found = [hit.chunk for hit in await store.retrieve(collection, request)]
            listed = [item.chunk for item in await store.list_chunks(collection, "doc", limit=100)]
            for chunks in (found, listed):
                assert len({chunk.metadata["version"] for chunk in chunks}) == 1, chunks
                assert len(chunks) == chunks[0].total_chunks, chunks
            reads += 1

    async with make_store() as first, make_store() as second, make_store() as third:
        await first.create_collection(collection, 4)
        await first.replace(collection, [document()], version("start", 5))
        readers = [asyncio.create_task(read(third)) for _ in range(2)]
        try:
            await asyncio.gather(write(first, "a"), write(second, "b"))
        finally:
            done.set()
            await asyncio.gather(*readers)
        (summary,) = await third.list_documents(collection)
        assert await third.count(collection) == summary.chunk_count
    return reads


def _union(semantic: list[list[Scored]], keyword: list[list[Scored]], signals: object) -> list[Scored]:
    return [Scored(key, 0.5) for key in sorted({hit.key for ranking in (*semantic, *keyword) for hit in ranking})]
