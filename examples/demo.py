"""The main job in one file: a folder of office files becomes a knowledge base, and an agent answers from it.

Run it with ``scripts/demo``. It needs no key and no network: the embedding model and the store are embedded, and the
"model" is `ExtractiveChatModel`, which is no language model and quotes sentences.
"""

import asyncio
from pathlib import Path

from agent_rag import ExtractiveChatModel, KnowledgeBase, LocalEmbeddingModel, RAGMiddleware, SQLiteStore, ingest
from agent_rag.middleware.loop import run_agent

HANDBOOK = Path(__file__).parent / "handbook"
STORE = Path(".agent-rag/demo.db")
QUESTIONS = (
    "What torque do the screws of the mains terminals need on a Lumo?",  # in a PDF
    "Who owns the brazing robot project in Ostrava?",  # in a workbook
    "How much is the referral bonus if I recommend somebody for a job?",  # in a Word document
)


async def main() -> None:
    async with SQLiteStore(STORE) as store:
        kb = KnowledgeBase("handbook", "The company handbook.", LocalEmbeddingModel(), store, "handbook")

        print(f"1. Ingest {HANDBOOK.name}/")
        report = await ingest(kb, HANDBOOK)
        for file in report.files:
            print(f"   {file.outcome:<10}{file.chunks:>4} chunks  {file.document_id}  {file.reason or ''}".rstrip())
        print(f"   {report}\n")

        print(f"2. Search: {QUESTIONS[0]!r}")
        for hit in await kb.search(QUESTIONS[0], top_k=3):
            print(f"   {hit.score:.2f}  {hit.chunk.source}  {hit.chunk.text[:80]!r}")
        print()

        print("3. An agent loop answers with citations")
        rag = RAGMiddleware([kb], RAGMiddleware.Parameters(mode="agentic", top_k=5))
        for question in QUESTIONS:
            run = await run_agent(ExtractiveChatModel(), question, middleware=rag)
            print(f"   Q: {question}\n   A: {run.text}")
            for citation in run.citations:
                if f"[{citation.number}]" in run.text:
                    print(f"      [{citation.number}] {citation.label}")
            print()


if __name__ == "__main__":
    asyncio.run(main())
