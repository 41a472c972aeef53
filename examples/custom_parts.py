"""A parser, a chunker and a store of your own slot into the pipeline."""

import asyncio
from pathlib import Path
from typing import Any

from pydantic import Field

from agent_rag import (
    Chunk,
    ChunkerBase,
    DocumentSummary,
    KnowledgeBase,
    LocalEmbeddingModel,
    ParserBase,
    Section,
    TextBlock,
    TextSource,
    VectorRecord,
    VectorSearchResult,
    VectorStoreBase,
    register_parser,
    sync,
)
from agent_rag.documents import renumber


class LogParser(ParserBase):
    """One Section per day of a log file."""

    supported_media_types = ["text/x-daily-log"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".daylog"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        days = data.decode("utf-8").split("\n\n")
        return [
            Section(content=TextBlock(text=day), source=filename, metadata={"day": index})
            for index, day in enumerate(days)
        ]


class LineChunker(ChunkerBase):
    """A chunk per few lines."""

    chunker_type = "example_lines"

    class Parameters(ChunkerBase.Parameters):
        lines: int = Field(default=2, ge=1)

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        chunks = []
        for section in sections:
            lines = section.text.splitlines()
            for start in range(0, len(lines), self.parameters.lines):
                text = "\n".join(lines[start : start + self.parameters.lines])
                chunks.append(
                    Chunk(
                        content=TextBlock(text=text),
                        source=section.source,
                        chunk_index=0,
                        total_chunks=0,
                        metadata=dict(section.metadata),
                    )
                )
        return renumber(chunks)


class ListStore(VectorStoreBase):
    """The seven methods that a store must have, over a list."""

    def __init__(self) -> None:
        self.collections: dict[str, list[VectorRecord]] = {}

    async def create_collection(self, name: str, dimensions: int) -> None:
        self.collections.setdefault(name, [])

    async def delete_collection(self, name: str) -> None:
        self.collections.pop(name, None)

    async def has_collection(self, name: str) -> bool:
        return name in self.collections

    async def insert(self, collection: str, records: list[VectorRecord]) -> None:
        new = {record.key for record in records}
        kept = [record for record in self.collections[collection] if record.key not in new]
        self.collections[collection] = [*kept, *records]

    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> None:
        records = self.collections[collection]
        self.collections[collection] = [record for record in records if record.document_id != document_id]

    async def search(
        self, collection: str, query_vector: list[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        def score(record: VectorRecord) -> float:
            return sum(a * b for a, b in zip(record.vector, query_vector, strict=True))

        best = sorted(self._matching(collection, metadata_filter), key=score, reverse=True)[:top_k]
        return [
            VectorSearchResult(score=score(record), document_id=record.document_id, chunk=record.chunk)
            for record in best
        ]

    async def list_documents(self, collection: str, metadata_filter: Any = None) -> list[DocumentSummary]:
        summaries: dict[str, DocumentSummary] = {}
        for record in self._matching(collection, metadata_filter):
            chunk = record.chunk
            summary = summaries.setdefault(
                record.document_id,
                DocumentSummary(
                    document_id=record.document_id, source=chunk.source, chunk_count=0, metadata=chunk.metadata
                ),
            )
            summary.chunk_count += 1
        return list(summaries.values())

    def _matching(self, collection: str, metadata_filter: dict[str, Any] | None) -> list[VectorRecord]:
        wanted = (metadata_filter or {}).items()
        records = self.collections[collection]
        return [record for record in records if wanted <= record.chunk.metadata.items()]


async def main() -> None:
    register_parser(LogParser)
    log = "Monday\npump started\npressure stable\n\nTuesday\nvalve replaced\npump stopped"
    async with ListStore() as store:
        kb = KnowledgeBase("logs", "Daily logs.", LocalEmbeddingModel(), store, "logs")
        print(await sync(kb, TextSource({"week.daylog": log}), chunker=LineChunker(LineChunker.Parameters(lines=3))))
        for hit in await kb.search("When was the valve replaced?", top_k=1):
            print(hit.chunk.metadata["day"], repr(hit.chunk.text))


if __name__ == "__main__":
    asyncio.run(main())
