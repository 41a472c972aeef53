"""An agent loop of your own, without a framework: the hint before the first step, and the tool on demand.

Runs offline with `ExtractiveChatModel`, which is no language model. With OPENAI_MODEL (and OPENAI_API_KEY or
OPENAI_BASE_URL) set it asks that model instead.
"""

import asyncio
import os

from agent_rag import (
    Chunk,
    ExtractiveChatModel,
    KnowledgeBase,
    LocalEmbeddingModel,
    MemoryStore,
    OpenAIChatModel,
    RAGMiddleware,
    TextBlock,
)
from agent_rag.chat import ChatModel, user
from agent_rag.middleware import HintEvent, ToolCallEvent
from agent_rag.middleware.loop import run_agent

FACTS = {
    "opening.md": "The museum is open from Tuesday to Sunday, 10:00 to 18:00, on the first Thursday until 21:00.",
    "tickets.md": "A ticket costs 14 EUR. Visitors under 19 pay nothing. Groups of ten or more get 20 percent off.",
    "garden.md": "Dogs are welcome in the garden, on a lead. They have to stay outside of the building.",
}


def report(event: object) -> None:
    """The neutral callback: what a front end or a log would show."""
    if isinstance(event, HintEvent):
        print(f"   hint: {len(event.citations)} passages for {event.queries[0]!r}")
    elif isinstance(event, ToolCallEvent):
        print(f"   tool: {event.tool}({event.query!r}) found {event.hits}")


async def main() -> None:
    model: ChatModel = OpenAIChatModel() if os.environ.get("OPENAI_MODEL") else ExtractiveChatModel()
    async with MemoryStore() as store:
        museum = KnowledgeBase("museum", "Visiting the museum.", LocalEmbeddingModel(), store, "museum")
        for source, text in FACTS.items():
            chunk = Chunk(content=TextBlock(text=text), source=source, chunk_index=0, total_chunks=1)
            await museum.insert_document([chunk], document_id=source)

        for mode in ("static", "agentic"):
            print(f"{mode} mode")
            rag = RAGMiddleware([museum], RAGMiddleware.Parameters(mode=mode, top_k=3), on_event=report)
            history = []
            for question in ("How much does a ticket cost?", "Where are dogs welcome?"):
                run = await run_agent(model, [*history, user(question)], middleware=rag)
                history = run.messages  # grows by question, tool traffic and answer; hints are not in it
                print(f"   Q: {question}\n   A: {run.text}")
                for citation in run.citations:
                    if f"[{citation.number}]" in run.text:
                        print(f"      [{citation.number}] {citation.label}")


if __name__ == "__main__":
    asyncio.run(main())
