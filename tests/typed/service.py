"""A service as a user writes it: parts of its own, uploads, tenants, an agent's turn. Only type-checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from agent_rag import (
    Chunk,
    ChunkerBase,
    F,
    KnowledgeBase,
    LocalEmbeddingModel,
    MemoryStore,
    ParserBase,
    RAGMiddleware,
    RecursiveChunker,
    Section,
    TextBlock,
    TextSource,
    VectorSearchResult,
    VectorStoreBase,
    ingest,
    parse_text,
    sync,
)
from agent_rag.chat import ChatModel
from agent_rag.documents import renumber, text_section
from agent_rag.errors import AgentRAGError
from agent_rag.events import Event, LoadProgress
from agent_rag.ingestion import IngestReport
from agent_rag.middleware import Parameters
from agent_rag.middleware.loop import AgentRun, run_agent
from agent_rag.sources import SourceItem


class LineParser(ParserBase):
    """Plain text of its own kind."""

    supported_media_types = ["text/x-lines"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        return [text_section(data.decode(), filename)]


class LineChunker(ChunkerBase):
    """So many lines a chunk."""

    class Parameters(ChunkerBase.Parameters):
        lines: int = Field(default=2, ge=1)

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        step: int = self.parameters.lines
        texts = [(section, section.text.splitlines()) for section in sections]
        return renumber(
            [
                Chunk(
                    content=TextBlock(text="\n".join(lines[n : n + step])),
                    source=section.source,
                    chunk_index=0,
                    total_chunks=0,
                )
                for section, lines in texts
                for n in range(0, len(lines), step)
            ]
        )


class Model:
    """An embedding model that subclasses nothing."""

    dimensions = 2

    class Answer:
        def __init__(self, embeddings: list[list[float]]) -> None:
            self.embeddings = embeddings

    async def __call__(self, inputs: list[str]) -> Answer:
        return self.Answer([[float(len(text)), 1.0] for text in inputs])


def on_event(event: Event) -> None:
    if isinstance(event, LoadProgress):
        print(event.stage, event.done, event.total)


class Service:
    """One knowledge base per tenant over one store."""

    def __init__(self, store: VectorStoreBase, chat: ChatModel) -> None:
        self.store = store
        self.chat = chat
        self.model = LocalEmbeddingModel()

    def base(self, tenant: str) -> KnowledgeBase:
        return KnowledgeBase(
            "docs", "Documents.", self.model, self.store, "docs", {"tenant": tenant}, on_event=on_event
        )

    async def upload(self, tenant: str, name: str, text: str) -> IngestReport:
        return await sync(self.base(tenant), TextSource({name: text}), chunker=RecursiveChunker(), prune=False)

    async def folder(self, tenant: str, folder: Path) -> bool:
        report = await ingest(self.base(tenant), folder, include=["*.md"], on_event=on_event)
        return report.ok and report.counts.get("added", 0) > 0

    async def note(self, tenant: str, text: str) -> str:
        chunks = await RecursiveChunker().chunk(await parse_text(text, "note.txt"))
        return await self.base(tenant).insert_document(chunks, document_metadata={"kind": "note"})

    async def search(self, tenant: str, question: str) -> Sequence[VectorSearchResult]:
        try:
            return await self.base(tenant).search(question, top_k=3, filter=F("kind") == "note")
        except AgentRAGError as error:
            print(error)
            return []

    async def answer(self, tenant: str, question: str) -> tuple[str, list[str]]:
        rag = RAGMiddleware([self.base(tenant)], Parameters(mode="static", top_k=3))
        run: AgentRun = await run_agent(self.chat, question, middleware=rag)
        return run.text, [citation.label for citation in run.citations]


def lines(item: SourceItem) -> ParserBase:
    return LineParser()


async def of_its_own_parts() -> None:
    async with MemoryStore() as store:
        kb = KnowledgeBase("lines", "Lines.", Model(), store, "lines")
        await ingest(kb, ["a.lines"], parser_for=lines, chunker=LineChunker(lines=3))
