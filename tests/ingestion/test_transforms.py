"""Steps between parsing and chunking."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_rag import KnowledgeBase, MemoryStore, ParserPool, ingest
from agent_rag.documents import Heading, Section, text_section
from agent_rag.errors import ConfigurationError
from agent_rag.ingestion import CharDedup, CharFilter, CleanText, Edit, RemoveBoilerplate, edited
from agent_rag.sources import SourceDocument
from agent_rag.testing import HashEmbedding

PICTURE = base64.b64encode(os.urandom(225_000)).decode()
MARKDOWN = f"# Title\n\nBefore.\n\n![chart](data:image/png;base64,{PICTURE})\n\n## Next\n\nAfter.\n"


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


async def test_a_picture_in_markdown(store: MemoryStore, pool: ParserPool) -> None:
    """300 kB of base64 are no text chunks; the text around them and its headings stay, and a warning says so. (IN07)"""
    kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb")

    report = await ingest(kb, SourceDocument(document_id="a.md", content=MARKDOWN), pool=pool)

    chunks = await kb.list_chunks("a.md")
    assert len(chunks) <= 2
    assert "Before." in chunks[0].text
    assert "After." in chunks[-1].text
    assert all(len(chunk.text) < 200 for chunk in chunks)
    assert report.files[0].warnings == [f"{len(PICTURE):,} characters of data in base64 left out of the text"]


async def test_a_picture_for_a_model_that_embeds_images(store: MemoryStore, pool: ParserPool) -> None:
    """It becomes an image with its alternative text as caption, under its heading. (IN07)"""
    kb = KnowledgeBase("kb", "files", HashEmbedding(supports_multimodal=True), store, "kb")

    await ingest(kb, SourceDocument(document_id="a.md", content=MARKDOWN), pool=pool)

    images = [chunk for chunk in await kb.list_chunks("a.md") if chunk.content.type == "data"]
    assert [(chunk.text, chunk.heading_path) for chunk in images] == [("chart", ["Title"])]


async def test_steps_of_a_caller(store: MemoryStore, pool: ParserPool) -> None:
    """They run in order; another list of steps reads the document anew, () runs none."""
    kb = KnowledgeBase("kb", "files", HashEmbedding(), store, "kb")
    document = SourceDocument(document_id="a.txt", content="a--b~~~~c")

    first = await ingest(kb, document, pool=pool, transforms=[CharFilter("-"), CharDedup("~")])
    changed = [chunk.text for chunk in await kb.list_chunks("a.txt")]
    second = await ingest(kb, document, pool=pool, transforms=())

    assert changed == ["ab~c"]
    assert [chunk.text for chunk in await kb.list_chunks("a.txt")] == ["a--b~~~~c"]
    assert (first.counts, second.counts) == ({"added": 1}, {"replaced": 1})
    assert "transforms" in (second.files[0].reason or "")


def test_headers_and_footers() -> None:
    """Lines that most pages have at their edge go, and page numbers; the same words inside a page stay."""
    pages = [
        text_section(
            f"ACME manual\nChapter {n}\nACME manual\nMore of {n}.\nLast words.\nPage {n} of 5\n", "a.pdf", page=n
        )
        for n in range(1, 6)
    ]

    cleaned = RemoveBoilerplate().apply(pages)

    assert cleaned[2].text == "Chapter 3\nACME manual\nMore of 3.\n"
    assert pages[2].text.startswith("ACME manual")
    assert RemoveBoilerplate().apply(pages[:2]) == pages[:2]


def test_text_that_no_database_keeps() -> None:
    """NUL characters and lone surrogates go."""
    (section,) = CleanText().apply([text_section("a\x00b\ud800c", "a.txt")])

    assert section.text == "abc"


def test_long_words_are_no_data() -> None:
    """Hashes, long identifiers and Chinese stay."""
    text = "sha256 " + "ab12" * 16 + " " + "VeryLongIdentifier" * 15 + " 中文" * 200

    assert CleanText().apply([text_section(text, "a.txt")])[0].text == text


def test_hostile_text_takes_no_longer() -> None:
    """A megabyte of what almost is base64 is read in linear time."""
    text = ("data:image/png;base64," + "A" * 199 + "!") * 2_500 + ("A" * 60 + "\n") * 7 + "A" * 300_000 + "!"

    started = time.process_time()
    CleanText().apply([text_section(text, "a.txt")])

    assert time.process_time() - started < 3


@given(
    st.text("ab\n#", min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.text("xy\n", max_size=3)), max_size=5),
)
def test_headings_move_with_their_text(text: str, wanted: list[tuple[int, int, str]]) -> None:
    """A heading whose first character is kept stands at that character afterwards."""
    edits, position = [], 0
    for start, length, replacement in sorted(wanted):
        if start >= position and start + length <= len(text):
            edits.append(Edit(start, start + length, replacement))
            position = start + length
    headings = [Heading(level=1, title=str(n), offset=n) for n in range(len(text))]
    section = Section(content={"type": "text", "text": text}, source="a", headings=headings)  # type: ignore[arg-type]

    result = edited(section, edits)

    kept = [n for n in range(len(text)) if not any(edit.start <= n < edit.end for edit in edits)]
    assert [text[n] for n in kept] == [result.text[result.headings[n].offset] for n in kept]


def test_no_string_to_filter() -> None:
    """An empty string would match everywhere."""
    for make in (CharFilter, CharDedup):
        with pytest.raises(ConfigurationError, match="at least one"):
            make("")


def test_fingerprints_tell_options_apart(tmp_path: Path) -> None:
    """Equal options give equal fingerprints."""
    assert CharFilter("a").fingerprint == CharFilter("a").fingerprint != CharFilter("b").fingerprint
