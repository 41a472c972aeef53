"""Google ADK: one plugin for the hint, one for the tool, both in one app.

    pip install 'agent-rag-middleware[google-adk]'

Runs offline with a scripted model; put your own in its place.
"""

import asyncio
from collections.abc import AsyncIterator

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock
from agent_rag.middleware.core.events import HintEvent
from agent_rag.middleware.google_adk import METADATA_KEY, RAGMiddleware

QUESTION = "How long is the warranty of the heat pump?"
SEARCH = types.FunctionCall(id="1", name="search_knowledge", args={"query": "warranty conditions"})
SCRIPT = [types.Part(function_call=SEARCH), types.Part(text="Five years [1], if it is serviced every year [2].")]


class ScriptedModel(BaseLlm):
    """Says what it is told to, so that the example needs no key."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=types.Content(role="model", parts=[SCRIPT.pop(0)]))


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

        app = App(
            name="app",
            root_agent=LlmAgent(name="assistant", model=ScriptedModel(model="scripted")),
            plugins=[
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1), on_event=show),
                RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
            ],
        )
        runner = InMemoryRunner(app=app)
        session = await runner.session_service.create_session(app_name="app", user_id="user")
        message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
        events = [event async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message)]

        print(f"Q: {QUESTION}\nA: {events[-1].content.parts[0].text}")
        results = [one for event in events for one in (event.custom_metadata or {}).get(METADATA_KEY, {}).values()]
        for citation in [one for result in results for one in result["citations"]]:
            print(f"   [{citation['number']}] {citation['source']}: {citation['text']}")
        kept = await runner.session_service.get_session(app_name="app", user_id="user", session_id=session.id)
        print(f"stored events: {[event.author for event in kept.events]}")


if __name__ == "__main__":
    asyncio.run(main())
