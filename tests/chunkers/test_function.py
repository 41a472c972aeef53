"""A plain function, or an object with `split`, works as a chunker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent_rag.chunkers import chunker_from, from_function
from agent_rag.documents import Chunk, text_section
from agent_rag.errors import ChunkError, ConfigurationError


async def chunks_of(split: Any, text: str, **metadata: Any) -> list[Chunk]:
    return await from_function(split).chunk([text_section(text, "t.txt", **metadata)])


class MarkdownSections:
    """The chunker of the Harnest page, with its protocol."""

    def split(self, document: Any) -> Sequence[str]:
        return tuple(section.strip() for section in document.text.split("\n## ") if section.strip())


async def test_an_object_with_split_is_a_chunker() -> None:
    """Harnest's example runs as printed."""
    chunks = await chunks_of(MarkdownSections(), "# A\none\n## B\ntwo\n## C\n")

    assert [(chunk.text, chunk.span) for chunk in chunks] == [
        ("# A\none", (0, 7)),
        ("B\ntwo", (11, 16)),
        ("C", (20, 21)),
    ]


@pytest.mark.parametrize(
    ("text", "pieces", "spans"),
    [
        # Equal pieces get different spans.
        ("a\na\na", ["a", "a", "a"], [(0, 1), (2, 3), (4, 5)]),
        # A piece that also occurs inside the one before is found behind it.
        ("aba a", ["aba", "a"], [(0, 3), (4, 5)]),
        # Overlaps.
        ("abcdefgh", ["abcde", "defgh"], [(0, 5), (3, 8)]),
        # A piece that was written anew has no span; the others keep theirs.
        ("one two three", ["one", "TWO", "three"], [(0, 3), None, (8, 13)]),
        ("one two", ["one", "  ", "two"], [(0, 3), (4, 7)]),
    ],
)
async def test_spans_are_recovered(text: str, pieces: list[str], spans: list[tuple[int, int] | None]) -> None:
    """Pieces that occur in order get their place in the text."""
    chunks = await chunks_of(lambda _: pieces, text)

    assert [chunk.span for chunk in chunks] == spans
    assert [chunk.text for chunk in chunks] == [piece for piece in pieces if piece.strip()]


async def test_the_function_sees_the_document() -> None:
    """The argument is a str that also tells source and metadata."""
    seen: list[tuple[str, Any, bool]] = []

    def split(text: Any) -> list[str]:
        seen.append((text.source, text.metadata["page"], isinstance(text, str)))
        return [text]

    await chunks_of(split, "words", page=3)

    assert seen == [("t.txt", 3, True)]


@pytest.mark.parametrize("returned", ["one string", None, 5, [b"bytes"], ["fine", 3], [], ["  "], iter(["x"])])
async def test_wrong_results_are_told(returned: Any) -> None:
    """Anything but a sequence of str with some text is a ChunkError."""
    with pytest.raises(ChunkError, match="return"):
        await chunks_of(lambda _: returned, "words")


async def test_errors_of_the_function_pass_through() -> None:
    """The caller's own bug is the caller's own exception."""
    with pytest.raises(ZeroDivisionError):
        await chunks_of(lambda _: 1 / 0, "words")


def test_the_name_is_in_the_fingerprint() -> None:
    """Another function is another fingerprint; a given name replaces the function's own."""
    assert from_function(MarkdownSections()).fingerprint != from_function(str.split).fingerprint
    assert "v2" in from_function(str.split, name="v2").fingerprint


def test_a_function_cannot_be_rebuilt() -> None:
    """Stored parameters do not hold the function."""
    with pytest.raises(ConfigurationError, match="from_function"):
        chunker_from("function", {"name": "x"})
