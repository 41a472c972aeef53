"""LlamaIndex: an agent class with the hint and the tool.

    pip install 'agent-rag-middleware[llama-index]'

Runs offline with a scripted model; put your own LLM in its place. The same for ReActAgent and AgentWorkflow.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import ToolSelection

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.llama_index import RAGHintEvent, RAGMiddleware, attach, citations

QUESTION = "How long is the warranty of the heat pump?"
SEARCH = ToolSelection(tool_id="1", tool_name="search_knowledge", tool_kwargs={"query": "warranty conditions"})


class ScriptedModel(FunctionCallingLLM):
    """Says what it is told to, so that the example needs no key."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        if messages[-1].role == "tool":
            answer = ChatMessage(role="assistant", content="Five years [1], if it is serviced every year [2].")
        else:
            answer = ChatMessage(role="assistant", content="", additional_kwargs={"calls": [SEARCH]})
        return ChatResponse(message=answer)

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **options: Any
    ) -> Any:
        return {"messages": chat_history, "tools": tools}

    def get_tool_calls_from_response(self, response: ChatResponse, *args: Any, **options: Any) -> list[ToolSelection]:
        return response.message.additional_kwargs.get("calls", [])

    def _unused(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    chat = stream_chat = astream_chat = complete = acomplete = stream_complete = astream_complete = _unused


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
        agent = attach(FunctionAgent(llm=ScriptedModel(), streaming=False), *rag)
        memory = ChatMemoryBuffer.from_defaults(token_limit=3_000)
        handler = agent.run(user_msg=QUESTION, memory=memory)
        async for event in handler.stream_events():
            if isinstance(event, RAGHintEvent):
                print(f"hint: {[citation.source for citation in event.hint.citations]}")

        output = await handler
        print(f"Q: {QUESTION}\nA: {output}")
        for citation in citations(output):
            print(f"   [{citation.number}] {citation.source}: {citation.text}")
        print(f"stored messages: {[message.role.value for message in memory.get_all()]}")


if __name__ == "__main__":
    asyncio.run(main())
