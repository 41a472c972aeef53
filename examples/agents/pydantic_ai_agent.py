"""Pydantic AI: one capability for the hint, one for the tool, both on one agent.

    pip install 'agent-rag-middleware[pydantic-ai]'

Runs offline with a scripted model; put your own in its place.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.pydantic_ai import RAGHintEvent, RAGMiddleware

QUESTION = "How long is the warranty of the heat pump?"
SCRIPT = [
    {0: DeltaToolCall("search_knowledge", '{"query": "warranty conditions"}')},
    "Five years [1], if it is serviced every year [2].",
]


async def scripted(messages: list[Any], info: Any) -> AsyncIterator[Any]:
    """Says what it is told to, so that the example needs no key."""
    yield SCRIPT.pop(0)


async def main() -> None:
    async with MemoryStore() as store:
        knowledge = KnowledgeBase("products", "Manuals and terms.", LocalEmbeddingModel(), store, "products")
        texts = {
            "warranty.md": "The warranty of the heat pump lasts five years.",
            "conditions.md": "Warranty conditions: the unit is serviced every year by a certified technician.",
        }
        for source, text in texts.items():
            chunk = Chunk(content=TextBlock(text=text), source=source, chunk_index=0, total_chunks=1)
            await knowledge.insert_document([chunk], document_id=source)

        agent = Agent(
            FunctionModel(stream_function=scripted),
            capabilities=[
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1)),
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
            ],
        )
        async with agent.run_stream_events(QUESTION) as stream:
            events = [event async for event in stream]
        for event in events:
            if isinstance(event, RAGHintEvent):
                print(f"hint: {[citation.source for citation in event.hint.citations]}")

        result = events[-1].result
        print(f"Q: {QUESTION}\nA: {result.output}")
        parts = [part for message in result.all_messages() for part in message.parts]
        results = [part for part in parts if isinstance(part, ToolReturnPart)]
        for citation in [one for result in results for one in result.metadata["citations"]]:
            print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        print(f"stored parts: {[part.part_kind for part in parts]}")


if __name__ == "__main__":
    asyncio.run(main())
