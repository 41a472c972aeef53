"""Haystack: an agent with the hint and the tool.

    pip install 'agent-rag-middleware[haystack]'

Runs offline with a scripted generator; put your own in its place.
"""

import asyncio

from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.core.events import HintEvent
from agent_rag.middleware.haystack import RAGMiddleware, attach

QUESTION = "How long is the warranty of the heat pump?"
SCRIPT = [
    ChatMessage.from_assistant(tool_calls=[ToolCall("search_knowledge", {"query": "warranty conditions"}, id="1")]),
    ChatMessage.from_assistant("Five years [1], if it is serviced every year [2]."),
]


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

        rag = [
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1), on_event=show),
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
        ]
        agent = attach(Agent(chat_generator=MockChatGenerator(SCRIPT)), *rag)
        result = await agent.run_async(messages=[ChatMessage.from_user(QUESTION)])

        print(f"Q: {QUESTION}\nA: {result['last_message'].text}")
        for citation in result["citations"]:
            print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        print(f"stored messages: {[message.role.value for message in result['messages']]}")


if __name__ == "__main__":
    asyncio.run(main())
