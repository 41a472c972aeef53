"""Every shipped chunker, and the seed's example of a custom one, keeps the contract."""

from __future__ import annotations

import pytest
from pydantic import Field

from agent_rag.chunkers import (
    ApproxTokenChunker,
    AutoChunker,
    ChunkerBase,
    CodeChunker,
    FixedSizeChunker,
    JSONChunker,
    MarkdownChunker,
    RecursiveChunker,
    approx_tokens,
    from_function,
)
from agent_rag.content import TextBlock
from agent_rag.documents import Chunk, Section
from agent_rag.testing import ChunkerContract


class TestRecursiveChunker(ChunkerContract):
    max_size = 60

    @pytest.fixture(params=[0, 20, 59])
    def chunker(self, request: pytest.FixtureRequest) -> ChunkerBase:
        return RecursiveChunker(chunk_size=60, overlap=request.param)


class TestRecursiveChunkerInApproximateTokens(ChunkerContract):
    max_size = 40
    length = staticmethod(approx_tokens)

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return RecursiveChunker(chunk_size=40, overlap=10, length=approx_tokens)


class TestRecursiveChunkerInBytes(ChunkerContract):
    max_size = 50
    length = staticmethod(lambda text: len(text.encode()))

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return RecursiveChunker(chunk_size=50, overlap=5, length=lambda text: len(text.encode()))


class TestFixedSizeChunker(ChunkerContract):
    max_size = 60

    @pytest.fixture(params=[0, 20, 59])
    def chunker(self, request: pytest.FixtureRequest) -> ChunkerBase:
        return FixedSizeChunker(size=60, overlap=request.param)


class TestApproxTokenChunker(ChunkerContract):
    # A text of up to 4 * 15 + 3 bytes stays whole.
    max_size = 63
    length = staticmethod(lambda text: len(text.encode()))

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return ApproxTokenChunker(ApproxTokenChunker.Parameters(chunk_size=15, overlap=4))


class TestMarkdownChunker(ChunkerContract):
    max_size = 60
    has_spans = False  # Later parts of a table repeat its header.

    @pytest.fixture(params=[0, 20])
    def chunker(self, request: pytest.FixtureRequest) -> ChunkerBase:
        return MarkdownChunker(chunk_size=60, overlap=request.param)


class TestJSONChunker(ChunkerContract):
    max_size = 60

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return JSONChunker(chunk_size=60)


class TestCodeChunker(ChunkerContract):
    max_size = 60

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return CodeChunker(chunk_size=60)


class TestAutoChunker(ChunkerContract):
    max_size = 60

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return AutoChunker(chunk_size=60, overlap=10)


class TestFunctionChunker(ChunkerContract):
    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return from_function(lambda text: text.split("\n"))


class FixedCharChunker(ChunkerBase):
    """The custom chunker of the seed, as printed there."""

    chunker_type = "fixed_char_of_the_contract_test"

    class Parameters(ChunkerBase.Parameters):
        chunk_size: int = Field(default=1000, ge=1)

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for section in sections:
            if not isinstance(section.content, TextBlock):
                chunks.append(
                    Chunk(
                        content=section.content,
                        source=section.source,
                        chunk_index=0,
                        total_chunks=0,
                        metadata=dict(section.metadata),
                    ),
                )
                continue
            text = section.content.text
            for start in range(0, len(text), self.parameters.chunk_size):
                chunks.append(
                    Chunk(
                        content=TextBlock(text=text[start : start + self.parameters.chunk_size]),
                        source=section.source,
                        chunk_index=0,
                        total_chunks=0,
                        metadata=dict(section.metadata),
                    ),
                )
        for index, chunk in enumerate(chunks):
            chunk.chunk_index = index
            chunk.total_chunks = len(chunks)
        return chunks


class TestFixedCharChunker(ChunkerContract):
    max_size = 60
    has_spans = False
    drops_blank = False

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        return FixedCharChunker(FixedCharChunker.Parameters(chunk_size=60))
