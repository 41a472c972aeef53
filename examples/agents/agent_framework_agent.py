"""Microsoft Agent Framework: one provider for the hint, one for the tool, both on one agent.

    pip install 'agent-rag-middleware[agent-framework]'

Runs offline with a scripted client; put your own chat client in its place.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
)

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.agent_framework import RAGMiddleware

QUESTION = "How long is the warranty of the heat pump?"
SEARCH = Content.from_function_call("1", "search_knowledge", arguments=json.dumps({"query": "warranty conditions"}))
SCRIPT = [SEARCH, Content.from_text("Five years [1], if it is serviced every year [2].")]


class ScriptedRaw(BaseChatClient):
    """Says what it is told to, so that the example needs no key."""

    def _inner_get_response(self, **options: Any) -> Any:
        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(role="assistant", contents=[SCRIPT.pop(0)])

        return self._build_response_stream(updates())


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, ScriptedRaw):
    """With the layers that the framework's own clients have."""


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

        history = InMemoryHistoryProvider()
        agent = Agent(
            client=ScriptedClient(),
            context_providers=[
                history,
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1)),
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
            ],
        )
        session = agent.create_session()
        stream = agent.run(QUESTION, session=session, stream=True)
        async for update in stream:
            for event in (update.additional_properties or {}).get("agent_rag_hints", []):
                print(f"hint: {[citation['source'] for citation in event['citations']]}")

        response = await stream.get_final_response()
        print(f"Q: {QUESTION}\nA: {response.messages[-1].text}")
        results = [one for message in response.messages for one in message.contents if one.type == "function_result"]
        for citation in [one for result in results for one in result.items[0].additional_properties["citations"]]:
            print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        stored = await history.get_messages(session.session_id, state=session.state[history.source_id])
        print(f"stored messages: {[message.role for message in stored]}")


if __name__ == "__main__":
    asyncio.run(main())
