"""The same code on a Qdrant cluster: only the store's constructor changes.

Usage: AGENT_RAG_QDRANT_URL=http://localhost:6333 python examples/remote_qdrant.py
"""

import asyncio
import os

from agent_rag import KnowledgeBase, LocalEmbeddingModel, QdrantStore, TextSource, sync


async def main(url: str) -> None:
    store = QdrantStore(
        url=url,
        api_key=os.environ.get("AGENT_RAG_QDRANT_API_KEY"),
        shard_number=2,
        replication_factor=1,
        on_disk=True,
        quantization="scalar",
    )
    async with store:
        kb = KnowledgeBase("facts", "A few facts.", LocalEmbeddingModel(), store, "agent-rag-example")
        print(await sync(kb, TextSource({"cats.txt": "Cats sleep 12 to 16 hours a day.", "dogs.txt": "Dogs bark."})))
        for hit in await kb.search("How long do cats sleep?", top_k=1):
            print(hit.document_id, hit.chunk.text)
        await store.delete_collection("agent-rag-example")


if __name__ == "__main__":
    address = os.environ.get("AGENT_RAG_QDRANT_URL")
    if address is None:
        print(__doc__)
    else:
        asyncio.run(main(address))
