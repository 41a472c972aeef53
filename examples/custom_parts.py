"""A parser, a chunker, an embedding model and a store of your own slot into the pipeline.

Each passes the shipped contract (`agent_rag.testing`); tests/testing/test_custom_parts.py runs them.
"""

import asyncio
import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import Field

from agent_rag import (
    Chunk,
    ChunkerBase,
    DataBlock,
    DocumentSummary,
    EmbeddingModelBase,
    EmbeddingResponse,
    KnowledgeBase,
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
from agent_rag.documents import is_blank, renumber
from agent_rag.embeddings import EmbeddingInput, EmbeddingMode
from agent_rag.errors import (
    CollectionNotFoundError,
    DimensionMismatchError,
    EmptyFileError,
    ParseError,
    RecordError,
    StoreClosedError,
)
from agent_rag.filters import matches
from agent_rag.stores import clean_record


class LogParser(ParserBase):
    """One Section per day of a log file."""

    supported_media_types = ["text/x-daily-log"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".daylog"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        data = file if isinstance(file, bytes) else await asyncio.to_thread(Path(file).read_bytes)
        if not data.strip():
            raise EmptyFileError(f"{filename}: there is nothing in it")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ParseError(f"{filename}: a daily log is UTF-8 text ({error})") from error
        return [
            Section(content=TextBlock(text=day), source=filename, metadata={"day": number})
            for number, day in enumerate(text.split("\n\n"))
        ]


class LineChunker(ChunkerBase):
    """A chunk per few lines, longer ones cut."""

    chunker_type = "example_lines"

    class Parameters(ChunkerBase.Parameters):
        lines: int = Field(default=2, ge=1)

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        return renumber([chunk for section in sections for chunk in self._cut(section)])

    def _cut(self, section: Section) -> list[Chunk]:
        if isinstance(section.content, DataBlock):
            return [self._chunk(section, section.content)]
        lines = section.text.splitlines(keepends=True)
        step = self.parameters.lines
        texts = ["".join(lines[start : start + step]) for start in range(0, len(lines), step)]
        return [self._chunk(section, TextBlock(text=text)) for text in texts if not is_blank(text)]

    def _chunk(self, section: Section, content: TextBlock | DataBlock) -> Chunk:
        metadata = dict(section.metadata)
        return Chunk(content=content, source=section.source, chunk_index=0, total_chunks=0, metadata=metadata)


class WordCountModel(EmbeddingModelBase):
    """A bag of hashed words: too simple for real use, and it needs no weights."""

    dimensions = 64

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        return EmbeddingResponse(embeddings=[self._vector(item) for item in inputs])

    def _vector(self, item: EmbeddingInput) -> list[float]:
        text = item if isinstance(item, str) else item.text if isinstance(item, TextBlock) else item.caption or ""
        if is_blank(text):
            raise ValueError("there is no text to embed; leave blank inputs out")
        counts = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.lower()) or [text]:
            counts[zlib.crc32(word.encode()) % self.dimensions] += 1.0
        return counts


class ListStore(VectorStoreBase):
    """The seven methods that a store must have, over lists."""

    def __init__(self) -> None:
        self._collections: dict[str, tuple[int, list[VectorRecord]]] = {}
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._open = False

    async def create_collection(self, name: str, dimensions: int) -> None:
        self._check_open()
        self._collections.setdefault(name, (dimensions, []))

    async def delete_collection(self, name: str) -> None:
        self._check_open()
        self._collections.pop(name, None)

    async def has_collection(self, name: str) -> bool:
        self._check_open()
        return name in self._collections

    async def insert(self, collection: str, records: list[VectorRecord]) -> None:
        dimensions, held = self._records(collection)
        for record in records:
            _check_vector(record.vector, collection, dimensions)
        cleaned = [clean_record(record) for record in records]
        new = {_identity(record): record for record in cleaned}
        held[:] = [*(record for record in held if _identity(record) not in new), *new.values()]

    async def delete(self, collection: str, document_id: str, metadata_filter: Any = None) -> None:
        held = self._records(collection)[1]
        held[:] = [record for record in held if record.document_id != document_id]

    async def search(
        self, collection: str, query_vector: list[float], top_k: int = 5, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        dimensions, held = self._records(collection)
        _check_vector(query_vector, collection, dimensions)
        hits = [
            VectorSearchResult(
                score=_cosine(record.vector, query_vector),
                document_id=record.document_id,
                chunk=record.chunk.model_copy(deep=True),
            )
            for record in held
            if matches(metadata_filter, record.chunk.metadata)
        ]
        hits.sort(key=lambda hit: (-hit.score, hit.document_id, hit.chunk.chunk_index))
        return hits[: max(top_k, 0)]

    async def list_documents(self, collection: str, metadata_filter: Any = None) -> list[DocumentSummary]:
        summaries: dict[str, DocumentSummary] = {}
        for record in sorted(self._records(collection)[1], key=_identity):
            chunk = record.chunk.model_copy(deep=True)
            if matches(metadata_filter, chunk.metadata):
                summary = summaries.setdefault(
                    record.document_id,
                    DocumentSummary(
                        document_id=record.document_id, source=chunk.source, chunk_count=0, metadata=chunk.metadata
                    ),
                )
                summary.chunk_count += 1
        return list(summaries.values())

    def _records(self, collection: str) -> tuple[int, list[VectorRecord]]:
        self._check_open()
        if collection not in self._collections:
            raise CollectionNotFoundError(f"there is no collection {collection!r}; create_collection makes it")
        return self._collections[collection]

    def _check_open(self) -> None:
        if not self._open:
            raise StoreClosedError("the store is closed; use it inside 'async with store:'")


def _identity(record: VectorRecord) -> tuple[str, int]:
    return record.document_id, record.chunk.chunk_index


def _check_vector(vector: Sequence[float], collection: str, dimensions: int) -> None:
    if len(vector) != dimensions:
        raise DimensionMismatchError(f"{collection!r} holds vectors of {dimensions} numbers, got {len(vector)}")
    if not all(abs(number) < 3.4e38 for number in vector):
        raise RecordError(f"a vector for {collection!r} has a number that is not finite")


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    size = math.hypot(*left) * math.hypot(*right)
    return max(-1.0, min(1.0, sum(a * b for a, b in zip(left, right, strict=True)) / size)) if size else 0.0


async def main() -> None:
    register_parser(LogParser)
    log = "Monday\npump started\npressure stable\n\nTuesday\nvalve replaced\npump stopped"
    async with ListStore() as store:
        kb = KnowledgeBase("logs", "Daily logs.", WordCountModel(), store, "logs")
        print(await sync(kb, TextSource({"week.daylog": log}), chunker=LineChunker(LineChunker.Parameters(lines=3))))
        for hit in await kb.search("valve replaced", top_k=1):
            print(hit.chunk.metadata["day"], repr(hit.chunk.text))


if __name__ == "__main__":
    asyncio.run(main())
