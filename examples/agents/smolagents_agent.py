"""smolagents: an agent with the hint and the tool.

    pip install 'agent-rag-middleware[smolagents]'

Runs offline with a scripted model; put your own in its place.
"""

from typing import Any

from smolagents import Model, ToolCallingAgent
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore, TextBlock, run_sync
from agent_rag.middleware.core.events import HintEvent
from agent_rag.middleware.smolagents import RAGMiddleware, attach, citations

QUESTION = "How long is the warranty of the heat pump?"


class Scripted(Model):
    """A model that searches once and answers."""

    steps = iter(
        [
            ("search_knowledge", {"query": "warranty conditions"}),
            ("final_answer", {"answer": "Five years [1], if it is serviced every year [2]."}),
        ]
    )

    def generate(self, messages: Any, *args: Any, **options: Any) -> ChatMessage:
        name, arguments = next(self.steps)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        return ChatMessage("assistant", "", [ChatMessageToolCall(id=name, type="function", function=function)])


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
    # smolagents is synchronous: all searches, and so the store too, live in one background loop.
    knowledge = run_sync(fill(store))

    rag = [
        RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="static", top_k=1), on_event=show),
        RAGMiddleware([knowledge], RAGMiddleware.Parameters(mode="agentic")),
    ]
    agent = attach(ToolCallingAgent(tools=[], model=Scripted(), verbosity_level=0), *rag)
    answer = agent.run(QUESTION)

    print(f"Q: {QUESTION}\nA: {answer}")
    for citation in citations(agent):
        print(f"   [{citation.number}] {citation.source}: {citation.text}")
    print(f"stored steps: {[type(step).__name__ for step in agent.memory.steps]}")
    run_sync(store.__aexit__(None, None, None))


if __name__ == "__main__":
    main()
