"""AutoGen: an agent with the hint and the tool.

    pip install 'agent-rag-middleware[autogen]'

Runs offline with a scripted client; put your own in its place.
"""

import asyncio
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import MemoryQueryEvent
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.autogen import RAGMiddleware, rag_options

QUESTION = "How long is the warranty of the heat pump?"


class Scripted(ChatCompletionClient):
    """A client that searches once and answers."""

    model_info = ModelInfo(
        vision=False, function_calling=True, json_output=False, family="scripted", structured_output=False
    )
    capabilities = model_info

    def __init__(self) -> None:
        search = FunctionCall(id="1", name="search_knowledge", arguments='{"query": "warranty conditions"}')
        self.steps: Any = iter([[search], "Five years [1], if it is serviced every year [2]."])

    async def create(self, *args: Any, **options: Any) -> CreateResult:
        return CreateResult(finish_reason="stop", content=next(self.steps), usage=RequestUsage(0, 0), cached=False)

    def create_stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def count_tokens(self, *args: Any, **options: Any) -> int:
        return 0

    def remaining_tokens(self, *args: Any, **options: Any) -> int:
        return 0


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
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1)),
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
        ]
        agent = AssistantAgent("assistant", Scripted(), max_tool_iterations=5, **rag_options(*rag))
        result = await agent.run(task=QUESTION)

        events = [event for event in result.messages if isinstance(event, MemoryQueryEvent)]
        hint, *answers = [content.metadata for event in events for content in event.content]
        print(f"hint: {[citation['source'] for citation in hint['citations']]}")
        print(f"Q: {QUESTION}\nA: {result.messages[-1].content}")
        for citation in (citation for answer in answers for citation in answer["citations"]):
            print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        stored = (await agent.save_state())["llm_context"]["messages"]
        print(f"stored messages: {[message['type'] for message in stored]}")


if __name__ == "__main__":
    asyncio.run(main())
