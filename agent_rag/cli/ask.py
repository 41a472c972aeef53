"""One question, one answer with citations: what ``agent-rag ask`` runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel

from ..answers import Outcome
from ..chat import ChatMessage, ChatModel, ChatReply, ToolSpec, system, user
from ..chat.extractive import ExtractiveChatModel
from ..config.parts import chat_model_of, reranker_of
from ..config.settings import Settings
from ..knowledge.knowledge_base import KnowledgeBase
from ..middleware import RAGMiddleware
from ..middleware.loop import AgentRun, run_agent

AskMode = Literal["agentic", "static"]
_CITE = "Cite each fact with the number of its source, like [1]. If the documents do not say it, say so."
AGENTIC_INSTRUCTIONS = (
    "Answer the question from the documents. Call search_knowledge first; search again with other words if that does "
    f"not help. {_CITE}"
)
STATIC_INSTRUCTIONS = f"Answer the question from the passages that are shown, and from nothing else. {_CITE}"
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


class Remark(BaseModel):
    """A sentence of the answer that no cited passage supports."""

    text: str
    start: int
    end: int
    """Characters in the answer."""
    outcome: Outcome
    remark: str


class Answer(BaseModel):
    """An answer and what it cites."""

    text: str
    model: str
    """Name of the model; the offline one is called ``extractive``."""
    citations: list[CitedSource]
    mode: AskMode = "agentic"
    """How the model got passages: by calling the search, or shown before its answer."""
    unsupported: list[Remark] = []
    """What no cited passage says, in the order of the answer; compared word by word, without a model."""
    note: str | None = None
    """What the reader should know: no model is configured, or the answer names no source."""
    error: str | None = None
    """Why nothing could be searched."""


async def answer(
    kb: KnowledgeBase,
    question: str,
    *,
    top_k: int = 5,
    threshold: float | None = None,
    offline: bool = False,
    mode: AskMode | None = None,
    model: ChatModel | None = None,
    settings: Settings | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Answer:
    """Run the agent loop on one question. The documents are searched in any case: a model that calls no tool, since it
    or its server cannot, is asked again with passages before it.

    Args:
        mode: Default: "agentic", and "static" when the model did not search.
        model: Default: the OpenAI-compatible model of `settings` and the environment, else `ExtractiveChatModel`.
        settings: Its ``[chat]``, ``[middleware]`` and ``[reranker]`` count.
        on_text: Called with the text of the answer as it comes, where the model streams; never with what a model says
            before anything was searched.
    """
    known = settings or Settings()
    missing = missing_for_chat(known)
    chosen: ChatModel = model or (ExtractiveChatModel() if offline or missing else chat_model_of(known.chat))
    reranker = reranker_of(known)
    name = getattr(chosen, "model", "extractive")

    async def run_in(way: AskMode) -> AgentRun:
        parameters = known.middleware.model_copy(update={"mode": way, "top_k": top_k, "score_threshold": threshold})
        instructions = AGENTIC_INSTRUCTIONS if way == "agentic" else STATIC_INSTRUCTIONS
        messages: list[ChatMessage] = [system(instructions), user(question)]
        asked = chosen if on_text is None else Streaming(chosen, on_text, searched=way == "static")
        return await run_agent(asked, messages, middleware=RAGMiddleware([kb], parameters, reranker=reranker))

    used: AskMode = mode or "agentic"
    run = await run_in(used)
    if mode is None and not _searched(run):
        used, run = "static", await run_in("static")
    failures = [m.text for m in run.messages if getattr(m.artifact, "is_error", False)]
    cited = {int(number) for number in _NUMBER.findall(run.text)}
    sources = [citation for citation in run.citations if citation.number in cited]
    note = None
    if model is None and missing and not offline:
        note = f"quoted, not answered by a language model: {missing}"
    elif not sources:
        note = "this answer names no source of the documents: check it"
    return Answer(
        text=run.text,
        model=name,
        mode=used,
        note=note,
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
            for citation in sources
        ],
        unsupported=[
            Remark(text=one.text, start=one.start, end=one.end, outcome=one.outcome, remark=one.remark)
            for one in run.cited.unsupported
        ],
        error=failures[0] if failures and not run.citations else None,
    )


class Streaming:
    """A chat model that tells its text as it comes, from the first search on."""

    def __init__(self, model: ChatModel, on_text: Callable[[str], None], *, searched: bool) -> None:
        self._model, self._on_text, self._searched = model, on_text, searched
        self.supports_images = bool(getattr(model, "supports_images", False))

    async def __call__(self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()) -> ChatReply:
        searched = self._searched or any(message.role == "tool" for message in messages)
        if not searched or not hasattr(self._model, "stream"):
            return await self._model(messages, tools=tools)
        reply = ChatReply()
        async for piece in self._model.stream(messages, tools=tools):
            if isinstance(piece, ChatReply):
                reply = piece
            else:
                self._on_text(piece)
        return reply


def missing_for_chat(settings: Settings) -> str | None:
    """What is not set, so that no language model can be asked; None when all is there."""
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL") or settings.chat.base_url):
        return "set OPENAI_API_KEY, or OPENAI_BASE_URL of a server of your own, and OPENAI_MODEL"
    if not (settings.chat.model or os.environ.get("OPENAI_MODEL")):
        return "OPENAI_MODEL is not set (agent-rag.toml: chat.model)"
    return None


def _searched(run: AgentRun) -> bool:
    return any(message.role == "tool" for message in run.messages)
