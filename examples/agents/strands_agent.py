"""Strands: one plugin for the hint, one for the tool, both on one agent.

    pip install 'agent-rag-middleware[strands]'

Runs offline with a scripted model; put your own in its place.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models import Model

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.strands import RAGMiddleware

QUESTION = "How long is the warranty of the heat pump?"
SEARCH = {"toolUse": {"input": json.dumps({"query": "warranty conditions"})}}
SCRIPT = [SEARCH, {"text": "Five years [1], if it is serviced every year [2]."}]


class ScriptedModel(Model):
    """Says what it is told to, so that the example needs no key."""

    def update_config(self, **options: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        yield {}

    async def stream(self, *arguments: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        delta = SCRIPT.pop(0)
        searches = "toolUse" in delta
        start = {"toolUse": {"name": "search_knowledge", "toolUseId": "1"}} if searches else {}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if searches else "end_turn"}}


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
            model=ScriptedModel(),
            plugins=[
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1)),
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
            ],
            callback_handler=None,
        )
        async for event in agent.stream_async(QUESTION):
            if "agent_rag_hint" in event:
                print(f"hint: {[citation['source'] for citation in event['agent_rag_hint']['citations']]}")

        blocks = [block for message in agent.messages for block in message["content"]]
        print(f"Q: {QUESTION}\nA: {blocks[-1]['text']}")
        for result in (block["toolResult"] for block in blocks if "toolResult" in block):
            for citation in result["structuredContent"]["citations"]:
                print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        print(f"stored blocks: {[next(iter(block)) for block in blocks]}")


if __name__ == "__main__":
    asyncio.run(main())
