"""The contract of a chunker, as tests.

A chunker's test file is a fixture and what only it has::

    from agent_rag.testing import ChunkerContract

    class TestMyChunker(ChunkerContract):
        max_size = 40

        @pytest.fixture
        def chunker(self):
            return MyChunker(MyChunker.Parameters(chunk_size=40))
"""

from __future__ import annotations

import asyncio
import random
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

import pytest

from ..chunkers.base import ChunkerBase
from ..content import Base64Source, DataBlock, TextBlock
from ..documents import Chunk, Heading, Section, text_section
from .concurrency import AT_ONCE, many_at_once

_WORDS = (
    "a", "to", "word", "Hello", "sentence.", "Really?", "x" * 70, "e\u0301te\u0301", "Straße", "ﬁne", "今天下雨。",
    "读书！", "東京タワー", "👩‍👩‍👧", "🇩🇪", "नमस्ते।", "ภาษาไทย", "مرحبا؟", "|", "#", "```", "- item", "1.5",
    '"quoted"', "{", "\\u00e9",
)  # fmt: skip
_GAPS = (" ", " ", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\n \n", "\u00a0", "\u3000", "")


class ChunkerContract:
    """What every chunker keeps; subclass it and give it the fixture `chunker`."""

    pytestmark = pytest.mark.asyncio

    max_size: ClassVar[int | None] = None
    """Most that a chunk of the fixture may hold, measured with `length`; None for a chunker without a limit."""
    length: ClassVar[Callable[[str], int]] = staticmethod(len)
    drops_blank: ClassVar[bool] = True
    """White space alone gives no chunk. (The seed's example of a custom chunker keeps it.)"""
    has_spans: ClassVar[bool] = True
    """Every chunk of plain text says where it stands in its section."""
    seeds: ClassVar[Sequence[int]] = range(30)

    def __init_subclass__(cls) -> None:
        # pytest collects functions only, so a test that does not apply is not there instead of skipped.
        if not cls.drops_blank:
            cls.test_blank_text_gives_no_chunk = None  # type: ignore[assignment, method-assign]
        if not cls.has_spans:
            cls.test_headings_reach_the_chunks = None  # type: ignore[assignment, method-assign]

    @pytest.fixture
    def chunker(self) -> ChunkerBase:
        """The chunker under test."""
        raise NotImplementedError("a subclass of ChunkerContract defines the fixture 'chunker'")

    async def test_no_sections_give_no_chunks(self, chunker: ChunkerBase) -> None:
        """An empty list is a valid input."""
        assert await chunker.chunk([]) == []

    async def test_an_empty_text_gives_no_chunk(self, chunker: ChunkerBase) -> None:
        """Nothing is embedded for a section without text."""
        assert await chunker.chunk([text_section("", "empty.txt")]) == []

    async def test_blank_text_gives_no_chunk(self, chunker: ChunkerBase) -> None:
        """White space and invisible characters are never embedded."""
        blanks = [" ", "\n\n \t\n", "\u200b\u00a0", "\r\n" * 300, "\ufeff", "\x00\x1f"]

        chunks = await chunker.chunk([text_section(blank, "blank.txt") for blank in blanks])

        assert chunks == []

    async def test_chunks_are_numbered_over_the_whole_result(self, chunker: ChunkerBase) -> None:
        """`chunk_index` runs from 0 and every chunk carries the same `total_chunks`."""
        sections = [random_section(1, "a.txt"), text_section("", "b.txt"), picture(), random_section(2, "c.txt")]

        chunks = await chunker.chunk(sections)

        assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
        assert {chunk.total_chunks for chunk in chunks} == {len(chunks)}

    async def test_many_at_once_give_what_one_after_another_gives(self, chunker: ChunkerBase) -> None:
        """80 texts at a time from four threads, a loop each, with one chunker."""
        texts = [[random_section(seed, f"{seed}.txt")] for seed in range(AT_ONCE)]
        alone = [await chunker.chunk(sections) for sections in texts]

        together = await asyncio.to_thread(many_at_once, chunker.chunk, texts)

        assert together == alone

    async def test_chunks_never_cross_sections(self, chunker: ChunkerBase) -> None:
        """A chunk holds the text, the source and the metadata of one section, and sections keep their order."""
        sections = [text_section(letter * 7, f"{letter}.txt", page=page) for page, letter in enumerate("abc", 1)]

        chunks = await chunker.chunk(sections)

        assert "".join(sorted({letter for chunk in chunks for letter in chunk.text})) == "abc"
        for chunk in chunks:
            letter = chunk.text[0]
            assert set(chunk.text) == {letter}
            assert chunk.source == f"{letter}.txt"
            assert chunk.metadata["page"] == "abc".index(letter) + 1
        assert [chunk.text[0] for chunk in chunks] == sorted(chunk.text[0] for chunk in chunks)

    async def test_data_passes_through_whole(self, chunker: ChunkerBase) -> None:
        """A DataBlock becomes one chunk with the same object as content."""
        section = picture()

        (chunk,) = await chunker.chunk([section])

        assert chunk.content is section.content
        assert (chunk.source, chunk.metadata, chunk.span) == (section.source, section.metadata, None)

    async def test_the_input_is_left_alone(self, chunker: ChunkerBase) -> None:
        """Sections are not changed, and a chunk's metadata is its own copy."""
        sections = [random_section(3, "a.txt"), picture()]
        before = [section.model_copy(deep=True) for section in sections]

        chunks = await chunker.chunk(sections)
        for chunk in chunks:
            chunk.metadata["added"] = True
            chunk.heading_path.append("added")

        assert sections == before
        assert len({id(chunk.metadata) for chunk in chunks}) == len(chunks)

    async def test_chunks_are_whole_models(self, chunker: ChunkerBase) -> None:
        """Chunks survive JSON, and equal chunks made by the constructor."""
        chunks = await chunker.chunk([random_section(4, "a.txt"), picture()])

        assert [Chunk.model_validate_json(chunk.model_dump_json()) for chunk in chunks] == chunks
        assert [Chunk(**dict(chunk)) for chunk in chunks] == chunks
        assert all(isinstance(chunk.content, TextBlock | DataBlock) for chunk in chunks)

    async def test_chunking_is_repeatable(self, chunker: ChunkerBase) -> None:
        """The same sections give the same chunks, also when cut at the same time."""
        sections = [random_section(5, "a.txt"), random_section(6, "b.txt")]

        first, second = await asyncio.gather(chunker.chunk(sections), chunker.chunk(sections))

        assert first == second

    async def test_random_texts_keep_their_characters(self, chunker: ChunkerBase) -> None:
        """Every visible character comes out, in order; no chunk is empty or too large; spans are true."""
        for seed in self.seeds:
            section = random_section(seed, "random.txt")

            chunks = await chunker.chunk([section])

            assert is_subsequence(visible(section.text), "".join(chunk.text for chunk in chunks)), f"seed {seed}"
            for chunk in chunks:
                self.check_chunk(chunk, section)
            self.check_spans(chunks)

    async def test_headings_reach_the_chunks(self, chunker: ChunkerBase) -> None:
        """A chunk whose place in the section is known carries the titles above it."""
        headings = [Heading(level=1, title="One", offset=0), Heading(level=2, title="Two", offset=30)]
        text = "One\n" + "alpha " * 4 + "\n\n" + "Two\n" + "beta " * 40
        section = text_section(text, "h.txt").model_copy(update={"headings": headings, "heading_path": ["Top"]})

        chunks = await chunker.chunk([section])

        for chunk in chunks:
            assert chunk.span is not None
            assert chunk.heading_path == section.heading_path_at(chunk.span[0])

    def check_chunk(self, chunk: Chunk, section: Section) -> None:
        """One chunk of a section of text."""
        assert chunk.text != ""
        assert not self.drops_blank or visible(chunk.text)
        assert "\ufffd" not in chunk.text
        assert chunk.source == section.source
        assert set(section.metadata) <= set(chunk.metadata)
        if chunk.span is None:
            assert not self.has_spans
        else:
            assert chunk.text == section.text[slice(*chunk.span)]
            assert chunk.section_index == 0
        if self.max_size is not None and len(chunk.text) > 1:
            assert type(self).length(chunk.text) <= self.max_size

    def check_spans(self, chunks: Sequence[Chunk]) -> None:
        """No chunk lies within another."""
        spans = [chunk.span for chunk in chunks if chunk.span is not None]
        for before, after in pairwise(spans):
            assert before[0] < after[0]
            assert before[1] < after[1]


def random_section(seed: int, source: str) -> Section:
    """A text of words, scripts, emoji, Markdown marks and all kinds of white space."""
    chosen = random.Random(seed)
    text = "".join(chosen.choice(_WORDS) + chosen.choice(_GAPS) for _ in range(chosen.randrange(1, 150)))
    return text_section(text, source, page=seed)


def picture() -> Section:
    """A Section that is one image, without a caption."""
    source = Base64Source(data="iVBORw0KGgo=", media_type="image/png")
    return Section(content=DataBlock(source=source, name="p.png"), source="p.png", metadata={"slide": 1})


def visible(text: str) -> str:
    """`text` without white space, controls and format characters."""
    return "".join(
        letter for letter in text if not letter.isspace() and unicodedata.category(letter) not in ("Cc", "Cf")
    )


def is_subsequence(letters: str, text: str) -> bool:
    """Whether `letters` occur in `text` in their order."""
    rest = iter(text)
    return all(letter in rest for letter in letters)
