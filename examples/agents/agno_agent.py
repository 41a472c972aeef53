"""Agno: one call that gives an agent the hint and the tool.

    pip install 'agent-rag-middleware[agno]'

Runs offline with a scripted model; put your own in its place.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.agno import RAGMiddleware, attach, citations
from agent_rag.middleware.core.events import HintEvent

QUESTION = "How long is the warranty of the heat pump?"
SEARCH = {"name": "search_knowledge", "arguments": json.dumps({"query": "warranty conditions"})}


@dataclass
class ScriptedModel(Model):
    """Says what it is told to, so that the example needs no key."""

    id: str = "scripted"

    def invoke(self, messages: list[Any], *args: Any, **options: Any) -> ModelResponse:
        if messages[-1].role == "tool":
            return ModelResponse(role="assistant", content="Five years [1], if it is serviced every year [2].")
        return ModelResponse(role="assistant", tool_calls=[{"id": "1", "type": "function", "function": SEARCH}])

    async def ainvoke(self, messages: list[Any], *args: Any, **options: Any) -> ModelResponse:
        return ScriptedModel.invoke(self, messages)

    def invoke_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke_stream


def show(event: object) -> None:
    if isinstance(event, HintEvent):
        print(f"hint: {[citation.source for citation in event.citations]}")


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

        agent = attach(
            Agent(model=ScriptedModel(), telemetry=False),
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1), on_event=show),
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
        )
        output = await agent.arun(QUESTION)

        print(f"Q: {QUESTION}\nA: {output.content}")
        for citation in citations(output):
            print(f"   [{citation.number}] {citation.source}: {citation.text}")
        print(f"stored messages: {[message.role for message in output.messages]}")


if __name__ == "__main__":
    asyncio.run(main())
