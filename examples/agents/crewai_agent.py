"""CrewAI: an agent with the hint and the tool.

    pip install 'agent-rag-middleware[crewai]'

Runs offline with a scripted model; put your own in its place.
"""

import os
import warnings
from typing import Any

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

with warnings.catch_warnings():
    # Its dependencies warn of each other when they are imported.
    warnings.simplefilter("ignore")
    from crewai import Agent, BaseLLM, Crew, Task

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock, run_sync
from agent_rag.middleware.core.events import HintEvent
from agent_rag.middleware.crewai import RAGMiddleware, attach, citations

QUESTION = "How long is the warranty of the heat pump?"
SEARCH = {"name": "search_knowledge", "arguments": '{"query": "warranty conditions"}'}


class Scripted(BaseLLM):
    """A model that searches once and answers."""

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        if any(message["role"] == "tool" for message in messages):
            return "Five years [1], if it is serviced every year [2]."
        return [{"id": "1", "type": "function", "function": SEARCH}]


def show(event: object) -> None:
    if isinstance(event, HintEvent):
        print(f"hint: {[citation.source for citation in event.citations]}")


async def fill(store: MemoryStore) -> KnowledgeBase:
    await store.__aenter__()
    knowledge = KnowledgeBase("products", "Manuals and terms.", LocalEmbeddingModel(), store, "products")
    texts = {
        "warranty.md": "The warranty of the heat pump lasts five years.",
        "conditions.md": "Warranty conditions: the unit is serviced every year by a certified technician.",
    }
    for source, text in texts.items():
        chunk = Chunk(content=TextBlock(text=text), source=source, chunk_index=0, total_chunks=1)
        await knowledge.insert_document([chunk], document_id=source)
    return knowledge


def main() -> None:
    store = MemoryStore()
    # Tools of CrewAI are synchronous: all searches, and so the store too, live in one background loop.
    knowledge = run_sync(fill(store))

    rag = [
        RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1), on_event=show),
        RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
    ]
    agent = Agent(role="Clerk", goal="Answer questions", backstory="Knows the manuals.", llm=Scripted(model="scripted"))
    task = Task(description=QUESTION, expected_output="A cited answer", agent=attach(agent, *rag))
    output = Crew(agents=[agent], tasks=[task]).kickoff()

    print(f"Q: {QUESTION}\nA: {output.raw}")
    for citation in citations(task):
        print(f"   [{citation.number}] {citation.source}: {citation.text}")
    print(f"stored messages: {[message['role'] for message in output.tasks_output[0].messages]}")
    run_sync(store.__aexit__(None, None, None))


if __name__ == "__main__":
    main()
