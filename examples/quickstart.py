"""Twelve lines: files in, hits out. Offline."""

import asyncio

from agent_rag import KnowledgeBase, LocalEmbeddingModel, MemoryStore, ingest


async def main() -> None:
    async with MemoryStore() as store:
        kb = KnowledgeBase("handbook", "The company handbook.", LocalEmbeddingModel(), store, "handbook")
        print(await ingest(kb, "examples/handbook"))
        for hit in await kb.search("What torque do the screws of the mains terminals need?", top_k=3):
            print(f"{hit.score:.2f}", hit.chunk.source, hit.chunk.metadata.get("page", ""), hit.chunk.text[:60])


asyncio.run(main())
