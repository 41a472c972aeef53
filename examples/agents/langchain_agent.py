"""LangChain: one middleware for the hint, one for the tool, both in one agent.

    pip install 'agent-rag-middleware[langchain]'

Runs offline with a scripted model; put your own chat model in its place. The same for LangGraph and deepagents.
"""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.langchain import RAGMiddleware

QUESTION = "How long is the warranty of the heat pump?"


class ScriptedModel(GenericFakeChatModel):
    """Says what it is told to, so that the example needs no key."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def script() -> ScriptedModel:
    search = {"name": "search_knowledge", "args": {"query": "warranty conditions"}, "id": "1"}
    answers = [AIMessage("", tool_calls=[search]), AIMessage("Five years [1], if it is serviced every year [2].")]
    return ScriptedModel(messages=iter(answers))


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

        agent = create_agent(
            script(),
            middleware=[
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1)),
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
            ],
            checkpointer=InMemorySaver(),
        )
        thread = {"configurable": {"thread_id": "1"}}
        async for event in agent.astream({"messages": [HumanMessage(QUESTION)]}, thread, stream_mode="custom"):
            print(f"hint: {[citation['source'] for citation in event['citations']]}")

        messages = (await agent.aget_state(thread)).values["messages"]
        print(f"Q: {QUESTION}\nA: {messages[-1].text}")
        for message in messages:
            for citation in (message.artifact or {}).get("citations", []) if message.type == "tool" else []:
                print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        print(f"stored messages: {[message.type for message in messages]}")


if __name__ == "__main__":
    asyncio.run(main())
