"""OpenAI Agents SDK: the hint and the tool, attached to one agent.

    pip install 'agent-rag-middleware[openai-agents]'

Runs offline with a scripted model; put your own in its place.
"""

import asyncio
from typing import Any

from agents import Agent, Model, ModelResponse, SQLiteSession, ToolCallOutputItem, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.core.events import HintEvent
from agent_rag.middleware.openai_agents import RAGMiddleware, attach

QUESTION = "How long is the warranty of the heat pump?"
ANSWER = ResponseOutputText(
    text="Five years [1], if it is serviced every year [2].", annotations=[], type="output_text"
)
SCRIPT = [
    ResponseFunctionToolCall(
        arguments='{"query": "warranty conditions"}', call_id="1", name="search_knowledge", type="function_call"
    ),
    ResponseOutputMessage(id="2", content=[ANSWER], role="assistant", status="completed", type="message"),
]


class ScriptedModel(Model):
    """Says what it is told to, so that the example needs no key."""

    async def get_response(self, *arguments: Any, **options: Any) -> ModelResponse:
        return ModelResponse(output=[SCRIPT.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError("the example does not stream")


def show(event: object) -> None:
    if isinstance(event, HintEvent):
        print(f"hint: {[citation.source for citation in event.citations]}")


async def main() -> None:
    set_tracing_disabled(True)
    async with MemoryStore() as store:
        knowledge = KnowledgeBase("products", "Manuals and terms.", LocalEmbeddingModel(), store, "products")
        texts = {
            "warranty.md": "The warranty of the heat pump lasts five years.",
            "conditions.md": "Warranty conditions: the unit is serviced every year by a certified technician.",
        }
        for source, text in texts.items():
            chunk = Chunk(content=TextBlock(text=text), source=source, chunk_index=0, total_chunks=1)
            await knowledge.insert_document([chunk], document_id=source)

        assistant = attach(
            Agent("assistant", model=ScriptedModel()),
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1), on_event=show),
            RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
        )
        session = SQLiteSession("1")
        result = await assistant.run(QUESTION, session=session)

        print(f"Q: {QUESTION}\nA: {result.final_output}")
        outputs = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        for citation in [one for output in outputs for one in output.custom_data["citations"]]:
            print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        print(f"stored items: {[item.get('role') or item['type'] for item in await session.get_items()]}")
        session.close()


if __name__ == "__main__":
    asyncio.run(main())
