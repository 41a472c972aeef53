"""Two tenants share one collection and never see each other, even with the same document id."""

import asyncio

from agent_rag import KnowledgeBase, LocalEmbeddingModel, MemoryStore, RecursiveChunker
from agent_rag.documents import text_section


async def main() -> None:
    async with MemoryStore() as store:

        def knowledge_of(tenant: str) -> KnowledgeBase:
            return KnowledgeBase(
                name=f"{tenant}-kb",
                description=f"Documents of {tenant}.",
                embedding_model=LocalEmbeddingModel(),
                vector_store=store,
                collection="shared",
                metadata_filter={"tenant_id": tenant},
            )

        acme, globex = knowledge_of("acme"), knowledge_of("globex")
        for kb, text in ((acme, "Acme ships on Mondays."), (globex, "Globex ships on Fridays.")):
            chunks = await RecursiveChunker().chunk([text_section(text, "shipping.txt")])
            await kb.insert_document(chunks, document_id="shipping")

        for kb in (acme, globex):
            hits = await kb.search("When does Acme ship?", top_k=10)
            print(kb.name, [hit.chunk.text for hit in hits])
        print("deleted from globex:", await globex.delete_document("shipping"), "acme keeps:", await acme.count())


asyncio.run(main())
