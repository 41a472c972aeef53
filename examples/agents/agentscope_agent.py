"""AgentScope: one middleware for the hint, one for the tool, both in one agent.

    pip install 'agent-rag-middleware[agentscope]'

Runs offline with a scripted model; put your own chat model in its place.
"""

import asyncio
import json
from typing import Any

from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.event import HintBlockEvent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import TextBlock as ScopeTextBlock
from agentscope.message import ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.tool import Toolkit

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.agentscope import RAGMiddleware

QUESTION = "How long is the warranty of the heat pump?"


class ScriptedModel(ChatModelBase):
    """Says what it is told to, so that the example needs no key."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(OpenAICredential(api_key="none"), "scripted", self.Parameters(), stream=False)
        self.formatter = OpenAIChatFormatter()
        self.answers = iter(answers)

    async def _call_api(self, *args: Any, **options: Any) -> ChatResponse:
        return ChatResponse(content=[next(self.answers)], is_last=True)


def script() -> ScriptedModel:
    search = ToolCallBlock(id="1", name="search_knowledge", input=json.dumps({"query": "warranty conditions"}))
    return ScriptedModel(search, ScopeTextBlock(text="Five years [1], if it is serviced every year [2]."))


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

        static = RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1))
        agentic = RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic"))
        agent = Agent(
            name="guide",
            system_prompt="Answer from the knowledge base.",
            model=script(),
            toolkit=Toolkit(tools=await agentic.list_tools()),
            middlewares=[static, agentic],
        )
        async for event in agent.reply_stream(UserMsg("user", QUESTION)):
            if isinstance(event, HintBlockEvent) and "citations" in event.metadata:
                print(f"hint: {[citation['source'] for citation in event.metadata['citations']]}")

        answer = agent.state.context[-1]
        print(f"Q: {QUESTION}\nA: {answer.get_text_content()}")
        for result in answer.get_content_blocks("tool_result"):
            for citation in result.metadata["citations"]:
                print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        print(f"stored blocks: {[block.type for message in agent.state.context for block in message.content]}")


if __name__ == "__main__":
    asyncio.run(main())
