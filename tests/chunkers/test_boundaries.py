"""Where RecursiveChunker and FixedSizeChunker cut, and what they repeat."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from agent_rag.chunkers import FixedSizeChunker, RecursiveChunker, SizedChunker
from agent_rag.documents import Heading, Section, text_section


async def texts(chunker: SizedChunker, text: str) -> list[str]:
    return [chunk.text for chunk in await chunker.chunk([text_section(text, "t.txt")])]


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        # A paragraph end at 14 of 20 beats the sentence end at 19.
        ("First words.\n\nTwo. Three. Four.", 20, ["First words.\n\n", "Two. Three. Four."]),
        # A paragraph end in the first half does not cut the piece short: the sentence end at 17 is taken.
        ("Ab.\n\nSentence 1. Sentence two.", 20, ["Ab.\n\nSentence 1. ", "Sentence two."]),
        # A line that ends a thought beats a sentence end behind it; a soft break of wrapped prose does not.
        ("Name: Ada Byron\nBorn. In London", 24, ["Name: Ada Byron\n", "Born. In London"]),
        ("We went on. And then we\nfell asleep there", 30, ["We went on. And then we\n", "fell asleep there"]),
        (
            "We all went right on. And we\nfell asleep there",
            32,
            ["We all went right on. ", "And we\nfell asleep there"],
        ),
        # Windows line ends.
        ("First words.\r\n\r\nTwo. Three. Four.", 22, ["First words.\r\n\r\n", "Two. Three. Four."]),
        # Words, with the space left at the end of the piece; at the edge of the window the space starts the next one.
        ("alpha beta gamma", 12, ["alpha beta ", "gamma"]),
        ("alpha beta gamma", 10, ["alpha beta", " gamma"]),
        # Closing quotes stay with their sentence.
        ('He said "go." Then left town.', 20, ['He said "go." ', "Then left town."]),
        ("他说：“走吧。”然后离开了这里", 10, ["他说：“走吧。”", "然后离开了这里"]),
        # A full stop just behind the window does not start the next piece.
        ("今天天气很好我们去玩。好的", 10, ["今天天气很好我们去", "玩。好的"]),
        # Devanagari, Arabic and Thai.
        ("यह एक है। वह दो", 12, ["यह एक है। ", "वह दो"]),
        ("كيف الحال؟ بخير شكرا", 14, ["كيف الحال؟ ", "بخير شكرا"]),
        # An unbroken string fills the windows.
        ("k" * 25, 10, ["k" * 10, "k" * 10, "k" * 5]),
    ],
)
async def test_the_best_boundary_is_taken(text: str, size: int, expected: list[str]) -> None:
    """Paragraph, line, sentence, soft line break, clause, word, grapheme cluster."""
    assert await texts(RecursiveChunker(chunk_size=size, overlap=0), text) == expected


@pytest.mark.parametrize(
    ("text", "size", "overlap", "expected"),
    [
        # The last 12 characters before the cut hold a sentence start.
        ("One two three. Four five. Six seven.", 26, 12, ["One two three. Four five. ", "Four five. Six seven."]),
        # No sentence starts there, but a word does.
        ("One two three four. Five six seven.", 22, 10, ["One two three four. ", "four. Five six seven."]),
        # Nothing starts within 4 characters of the cut: nothing is repeated.
        ("abcdefgh ijklmnop qrstuvwx", 18, 4, ["abcdefgh ijklmnop ", "qrstuvwx"]),
        # A sentence of a script without spaces.
        ("今天下雨。我在家。你呢？好。", 9, 4, ["今天下雨。我在家。", "我在家。你呢？好。"]),
        # Inside an unbroken run any character may start.
        ("x" * 14, 10, 3, ["x" * 10, "x" * 7]),
    ],
)
async def test_an_overlap_starts_where_something_starts(
    text: str, size: int, overlap: int, expected: list[str]
) -> None:
    """The repeated text starts at a sentence or word and counts inside the size."""
    assert await texts(RecursiveChunker(chunk_size=size, overlap=overlap), text) == expected


async def test_white_space_that_does_not_fit_is_left_out() -> None:
    """A blank run between two pieces and a blank tail make no chunk of their own."""
    text = "alpha" + " " * 40 + "beta" + "\n" * 40

    chunks = await RecursiveChunker(chunk_size=10, overlap=0).chunk([text_section(text, "t.txt")])

    assert [chunk.text.strip() for chunk in chunks] == ["alpha", "beta"]


async def test_headings_are_the_best_boundaries() -> None:
    """A heading in the second half of the window starts the next chunk, and nothing is repeated across it."""
    text = "Alpha text goes on. Beta\nmore text here, as it should."
    headings = [Heading(level=1, title="Alpha", offset=0), Heading(level=1, title="Beta", offset=20)]
    section = text_section(text, "t.txt").model_copy(update={"headings": headings})

    chunks = await RecursiveChunker(chunk_size=35, overlap=15).chunk([section])

    assert [(chunk.text, chunk.heading_path) for chunk in chunks] == [
        ("Alpha text goes on. ", ["Alpha"]),
        ("Beta\nmore text here, as it should.", ["Beta"]),
    ]


@pytest.mark.parametrize(
    ("text", "size", "overlap", "expected"),
    [
        # A space near the edge beats a paragraph end in the middle of the window.
        ("one two.\n\nthree four five six", 20, 0, ["one two.\n\nthree four", " five six"]),
        # A paragraph end in the last quarter beats the space behind it.
        ("one two three fou.\n\nfive six", 22, 0, ["one two three fou.\n\n", "five six"]),
        ("one two three four five", 12, 5, ["one two", "two three", "four five"]),
    ],
)
async def test_fixed_sizes_end_at_white_space(text: str, size: int, overlap: int, expected: list[str]) -> None:
    """FixedSizeChunker fills the window; an overlap starts at a word."""
    found = await texts(FixedSizeChunker(size=size, overlap=overlap), text)

    assert [piece.strip() for piece in found] == [piece.strip() for piece in expected]


async def test_a_large_overlap_moves_on() -> None:
    """An overlap just below the size does not advance by one character at a time: a quarter of each chunk is new."""
    text = "some words of plain text " * 800  # 20,000 characters

    found = await texts(FixedSizeChunker(size=1000, overlap=999), text)

    # The first brings 1,000 characters, each other one about 250 (less up to one word): (20,000 - 1,000) / 244 = 78.
    assert len(found) <= 80


async def test_long_texts_are_cut_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop stays free; a short text is cut at once."""
    threads: list[threading.Thread] = []

    class Watched(RecursiveChunker):
        def split(self, section: Section) -> Any:
            threads.append(threading.current_thread())
            return super().split(section)

    await Watched().chunk([text_section("word " * 10, "short.txt")])
    await Watched().chunk([text_section("word " * 10_000, "long.txt")])

    assert threads[0] is threading.main_thread()
    assert threads[1] is not threading.main_thread()


async def test_a_lone_surrogate_is_passed_on() -> None:
    """Text that is no valid Unicode is cut like any other."""
    section = text_section("", "t.txt")
    section.content = section.content.model_construct(type="text", text="a\ud800b " * 5)

    chunks = await RecursiveChunker(chunk_size=8, overlap=0).chunk([section])

    assert "".join(chunk.text for chunk in chunks) == "a\ud800b " * 5


@pytest.mark.parametrize("enabled", [True, False])
async def test_garbage_collection_is_left_as_it_was(enabled: bool) -> None:
    """Making many chunks pauses the collector and puts it back, whichever way the caller had it."""
    text = "word " * 5000
    if not enabled:
        gc.disable()
    try:
        chunks = await RecursiveChunker(chunk_size=20, overlap=0).chunk([text_section(text, "t.txt")])

        assert len(chunks) > 1000
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
