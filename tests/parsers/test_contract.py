"""Every shipped parser, and the seed's own example, keeps the contract that third parties are given."""

from __future__ import annotations

import pytest

from agent_rag import ParserBase, Section, TextBlock
from agent_rag.parsers import parser_for
from agent_rag.testing import ParserContract

from .samples import SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
class TestShipped(ParserContract):
    """One sample of each format, read by what the registry gives for it."""

    @pytest.fixture
    def sample(self, name: str) -> tuple[bytes, str]:
        return SAMPLES[name](), name

    @pytest.fixture
    def parser(self, name: str) -> ParserBase:
        return parser_for(name)


class MyMarkdownParser(ParserBase):
    """The seed's custom parser, word for word."""

    supported_media_types = ["text/markdown"]

    async def parse(
        self,
        file: bytes | str,
        filename: str,
    ) -> list[Section]:
        text = file.decode("utf-8") if isinstance(file, bytes) else file
        # Split by H2 headings into multiple Sections, preserving the source
        return [
            Section(
                content=TextBlock(text=block),
                source=filename,
                metadata={"index": index},
            )
            for index, block in enumerate(text.split("\n## "))
        ]


class TestTheSeedsExample(ParserContract):
    takes_paths = False
    refuses_garbage = False

    @pytest.fixture
    def parser(self) -> ParserBase:
        return MyMarkdownParser()

    @pytest.fixture
    def sample(self) -> tuple[bytes, str]:
        return b"# Rain\n\n## Oslo\n763\n\n## Bergen\n2250\n", "rain.md"
