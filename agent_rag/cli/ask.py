"""One question, one answer with citations: what ``agent-rag ask`` runs."""

from __future__ import annotations

import os
import re

from pydantic import BaseModel

from ..chat import ChatMessage, ChatModel, OpenAIChatModel, system, user
from ..chat.extractive import ExtractiveChatModel
from ..knowledge.knowledge_base import KnowledgeBase
from ..middleware import RAGMiddleware
from ..middleware.loop import run_agent

INSTRUCTIONS = (
    "Answer the question from the documents. Call search_knowledge first; search again with other words if that does "
    "not help. Cite each fact with the number of its source, like [1]. If the documents do not say it, say so."
)
_NUMBER = re.compile(r"\[(\d+)\]")


class CitedSource(BaseModel):
    """A source that the answer cites."""

    number: int
    label: str
    """``[1] guide.pdf, page 4 (guide.pdf:12)``."""
    document_id: str
    chunk_ids: list[str]
    source: str
    location: dict[str, object]
    uri: str | None = None


class Answer(BaseModel):
    """An answer and what it cites."""

    text: str
    model: str
    """Name of the model; the offline one is called ``extractive``."""
    citations: list[CitedSource]
    error: str | None = None
    """Why nothing could be searched."""


async def answer(
    kb: KnowledgeBase,
    question: str,
    *,
    top_k: int = 5,
    threshold: float | None = None,
    offline: bool = False,
    model: ChatModel | None = None,
) -> Answer:
    """Run the agent loop on one question.

    Args:
        model: Default: the OpenAI-compatible model of the environment, else `ExtractiveChatModel`.
    """
    chosen = model or (ExtractiveChatModel() if offline or not _configured() else OpenAIChatModel())
    parameters = RAGMiddleware.Parameters(mode="agentic", top_k=top_k, score_threshold=threshold)
    messages: list[ChatMessage] = [system(INSTRUCTIONS), user(question)]
    run = await run_agent(chosen, messages, middleware=RAGMiddleware([kb], parameters))
    failures = [m.text for m in run.messages if getattr(m.artifact, "is_error", False)]
    cited = {int(number) for number in _NUMBER.findall(run.text)}
    return Answer(
        text=run.text,
        model=getattr(chosen, "model", "extractive"),
        citations=[
            CitedSource(
                number=citation.number,
                label=f"[{citation.number}] {citation.label} ({', '.join(citation.chunk_ids)})",
                document_id=citation.document_id,
                chunk_ids=list(citation.chunk_ids),
                source=citation.source,
                location=citation.location,
                uri=citation.uri,
            )
            for citation in run.citations
            if citation.number in cited
        ],
        error=failures[0] if failures and not run.citations else None,
    )


def _configured() -> bool:
    return bool(
        os.environ.get("OPENAI_MODEL") and (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))
    )
