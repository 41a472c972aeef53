"""ApproxTokenChunker cuts exactly as the seed's does."""

from __future__ import annotations

import random

import pytest

from agent_rag.chunkers import ApproxTokenChunker
from agent_rag.documents import text_section


def reference(text: str, chunk_size: int, overlap: int) -> list[str]:
    """The algorithm in the words of notes/AGENTSCOPE.md 1.3, on a table of byte offsets."""
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode("utf-8", "surrogatepass")))
    if offsets[-1] // 4 <= chunk_size:
        return [text]
    pieces: list[str] = []
    start = 0
    while True:
        end = start + 1
        while end < len(text) and offsets[end + 1] - offsets[start] <= 4 * chunk_size:
            end += 1
        pieces.append(text[start:end])
        if end == len(text):
            return pieces
        following = max(index for index in range(end + 1) if offsets[index] <= offsets[end] - 4 * overlap)
        start = max(following, start + 1)


async def texts(text: str, chunk_size: int, overlap: int) -> list[str]:
    chunker = ApproxTokenChunker(ApproxTokenChunker.Parameters(chunk_size=chunk_size, overlap=overlap))
    section = text_section("", "t.txt")
    section.content = section.content.model_construct(type="text", text=text)
    return [chunk.text for chunk in await chunker.chunk([section])]


@pytest.mark.parametrize("seed", range(60))
async def test_random_texts_are_cut_as_by_the_reference(seed: int) -> None:
    """ASCII, two-, three- and four-byte characters and lone surrogates, small windows."""
    chosen = random.Random(seed)
    text = "".join(chosen.choice("ab é日🙂\ud800") for _ in range(chosen.randrange(1, 400))) + "x"
    size = chosen.randrange(2, 20)
    overlap = chosen.randrange(size - 1)

    found = await texts(text, size, overlap)

    assert found == [piece for piece in reference(text, size, overlap) if piece.strip()]


async def test_a_text_up_to_the_size_stays_whole() -> None:
    """43 bytes are 10 tokens (43 // 4), so they are one chunk at size 10; 44 are 11 and are cut at 40 bytes."""
    assert await texts("x" * 43, 10, 0) == ["x" * 43]
    assert await texts("x" * 44, 10, 0) == ["x" * 40, "x" * 4]


async def test_a_window_that_brings_nothing_new_is_left_out() -> None:
    """Windows of 12 bytes, 8 repeated. The first ends behind 日 (1 + 4 + 4 + 3 bytes); 8 bytes back lies in the first
    🙂, so the next starts there, and its 12 bytes end at 日 again: the seed makes a chunk of it, here it is left out.
    The window behind it starts one character later: 🙂日🙂 (11 bytes), the last at 日, 8 bytes before the end: 🙂🙂."""
    assert reference("a🙂🙂日🙂🙂", 3, 2)[:2] == ["a🙂🙂日", "🙂🙂日"]
    assert await texts("a🙂🙂日🙂🙂", 3, 2) == ["a🙂🙂日", "🙂日🙂", "日🙂🙂"]


def test_the_old_keywords_still_work() -> None:
    """The seed's earlier form is accepted with a DeprecationWarning."""
    with pytest.warns(DeprecationWarning, match="Parameters"):
        chunker = ApproxTokenChunker(chunk_size=256, overlap=32)

    assert chunker.parameters == ApproxTokenChunker.Parameters(chunk_size=256, overlap=32)


def test_defaults_are_the_seeds() -> None:
    """512 tokens, 50 repeated; a size of 9 alone collides with the default overlap."""
    assert ApproxTokenChunker().parameters.model_dump() == {"chunk_size": 512, "overlap": 50}
    with pytest.raises(ValueError, match="chunk_size=9 with overlap=50"):
        ApproxTokenChunker(ApproxTokenChunker.Parameters(chunk_size=9))
