"""A service with uploads and questions of many tenants (needs fastapi and python-multipart).

`uvicorn fastapi_service:app` starts it.

The token stands for whatever tells you who is asking; here it is the tenant's name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request, UploadFile
from pydantic import BaseModel

from agent_rag import ExtractiveChatModel, KnowledgeBase, LocalEmbeddingModel, RAGMiddleware, SQLiteStore
from agent_rag.ingestion import FileReport, Ingestor
from agent_rag.middleware.loop import run_agent
from agent_rag.sources import SourceDocument

MODEL = LocalEmbeddingModel()
STORE = SQLiteStore("service.db")  # or PostgresStore("postgresql://rag@db/rag"), ...


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Ingestor]]:
    """Open the store and the workers; on shutdown uploads end first."""
    async with STORE, Ingestor(max_file_bytes=20_000_000) as ingestor:
        yield {"ingestor": ingestor}


app = FastAPI(lifespan=lifespan)


class Passage(BaseModel):
    source: str
    text: str
    score: float


class Answer(BaseModel):
    text: str
    citations: list[str]


def knowledge(authorization: Annotated[str, Header()]) -> KnowledgeBase:
    """The knowledge base of whoever is asking: no other tenant's documents can be read or written through it."""
    tenant = authorization.removeprefix("Bearer ")
    if not tenant:
        raise HTTPException(401, "who is asking?")
    return KnowledgeBase(tenant, "Documents of this tenant.", MODEL, STORE, "shared", {"tenant": tenant})


Tenant = Annotated[KnowledgeBase, Depends(knowledge)]


@app.put("/documents/{document_id}")
async def put(document_id: str, file: UploadFile, kb: Tenant, request: Request) -> FileReport:
    """Store an upload; what was stored under its id is replaced."""
    ingestor: Ingestor = request.state.ingestor
    document = SourceDocument(document_id=document_id, content=await file.read(), filename=file.filename or document_id)
    report = await ingestor.put(kb, document)
    if report.outcome in ("failed", "skipped"):
        raise HTTPException(422, report.reason)
    return report


@app.delete("/documents/{document_id}")
async def delete(document_id: str, kb: Tenant) -> int:
    """The number of chunks that are gone."""
    return await kb.delete_document(document_id)


@app.get("/search")
async def search(q: str, kb: Tenant, top_k: int = 5) -> list[Passage]:
    """Passages, best first."""
    hits = await kb.search(q, top_k=top_k)
    return [Passage(source=hit.chunk.source, text=hit.chunk.text, score=hit.score) for hit in hits]


@app.get("/ask")
async def ask(q: str, kb: Tenant) -> Answer:
    """An answer with its sources. OpenAIChatModel("gpt-4.1-mini") writes one; this model quotes."""
    run = await run_agent(ExtractiveChatModel(), q, middleware=RAGMiddleware([kb]))
    return Answer(text=run.text, citations=[citation.label for citation in run.citations])
