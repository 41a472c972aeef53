"""The chunking cases of shared/cases/behaviour.jsonl and others of the same kinds of fault."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import regex
from tokenizers import Tokenizer, models, pre_tokenizers

from agent_rag import chunkers
from agent_rag.documents import Chunk, text_section

SIZED: list[type[chunkers.ChunkerBase]] = [
    chunkers.ApproxTokenChunker,
    chunkers.AutoChunker,
    chunkers.CodeChunker,
    chunkers.FixedSizeChunker,
    chunkers.JSONChunker,
    chunkers.MarkdownChunker,
    chunkers.RecursiveChunker,
]
GENERAL: list[type[chunkers.SizedChunker]] = [
    chunkers.AutoChunker,
    chunkers.CodeChunker,
    chunkers.FixedSizeChunker,
    chunkers.MarkdownChunker,
    chunkers.RecursiveChunker,
]


async def chunks_of(chunker: chunkers.ChunkerBase, text: str, **metadata: Any) -> list[Chunk]:
    return await chunker.chunk([text_section(text, "case.txt", **metadata)])


def byte_level_tokenizer() -> Tokenizer:
    """One token per UTF-8 byte, as a byte-level BPE without merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def stub_tokens(text: str) -> int:
    """One token per CJK character and per punctuation mark, one per other word."""
    return len(re.findall(r"[\u3400-\u9fff]|[^\w\s]|[^\W\u3400-\u9fff]+", text))


@pytest.mark.parametrize("cls", SIZED)
@pytest.mark.parametrize(("size", "overlap"), [(50, 50), (50, 60), (50, -1), (0, 0), (-3, 0), (1, 1)])
def test_sizes_that_cannot_work_are_refused(cls: type[chunkers.ChunkerBase], size: int, overlap: int) -> None:
    """C01: an overlap of the size or more, or a size below 1, is a ValueError that names both numbers."""
    with pytest.raises(ValueError, match=rf"(?s)chunk_size={size}.*overlap={overlap}"):
        cls(cls.Parameters(chunk_size=size, overlap=overlap))


@pytest.mark.parametrize("cls", GENERAL)
async def test_the_size_is_never_exceeded(cls: type[chunkers.SizedChunker]) -> None:
    """C03: separators and overlap count; 200 random texts of words, tabs, double spaces and blank lines."""
    chosen = random.Random(3)
    for _ in range(200):
        gaps = [" ", "  ", "\t", "\n", "\n\n", ". "]
        text = "".join("x" * chosen.randrange(1, 20) + chosen.choice(gaps) for _ in range(chosen.randrange(1, 60)))
        size = chosen.randrange(4, 65)

        chunks = await chunks_of(cls(chunk_size=size, overlap=chosen.randrange(size)), text)

        assert max(len(chunk.text) for chunk in chunks) <= size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("🙂👩‍👩‍👧ä日" * 40, 3),
        ("🙂👩‍👩‍👧ä日" * 40, 5),
        ("🙂👩‍👩‍👧ä日" * 40, 18),
        ("e\u0301🇩🇪한글ก็" * 40, 8),
        ("a\u0301" * 90, 3),
    ],
)
async def test_token_windows_keep_characters_whole(text: str, size: int) -> None:
    """C05: with a byte-level tokeniser no character is halved, and a cluster only when it alone exceeds the size."""
    length = chunkers.token_length(byte_level_tokenizer())

    chunks = await chunks_of(chunkers.RecursiveChunker(chunk_size=size, overlap=0, length=length), text)

    assert "".join(chunk.text for chunk in chunks) == text
    assert all(chunk.text for chunk in chunks)
    assert all(length(chunk.text) <= size or len(chunk.text) == 1 for chunk in chunks)
    starts = {match.start() for match in regex.finditer(r"\X", text)}
    for chunk in chunks:
        assert chunk.span is not None
        if chunk.span[0] not in starts:
            cluster = regex.match(r"\X", text, pos=max(start for start in starts if start < chunk.span[0]))
            assert length(cluster[0]) > size


@pytest.mark.parametrize(
    ("cls", "text", "length"),
    [
        (chunkers.RecursiveChunker, "今天下雨。我们在家读书！你呢？" * 60, len),
        (chunkers.RecursiveChunker, "今天下雨。我们在家读书！你呢？" * 60, stub_tokens),
        (chunkers.RecursiveChunker, "東京は晴れです。大阪は雨でしょうか？" * 60, len),
        (chunkers.MarkdownChunker, "今天下雨。我们在家读书！你呢？" * 60, len),
    ],
)
async def test_text_without_spaces_is_cut_at_sentences(
    cls: type[chunkers.SizedChunker], text: str, length: Callable[[str], int]
) -> None:
    """C07: Chinese and Japanese are cut behind 。！？, also when counted in tokens."""
    chunks = await chunks_of(cls(chunk_size=40, overlap=0, length=length), text)

    assert all(length(chunk.text) <= 40 for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == text
    assert sum(chunk.text[-1] in "。！？" for chunk in chunks) >= 0.8 * len(chunks)


@pytest.mark.parametrize("cls", GENERAL)
async def test_a_long_unbroken_string_is_cut(cls: type[chunkers.SizedChunker]) -> None:
    """C09: a URL or base64 run does not raise, keeps its length, and takes nothing with it."""
    chunks = await chunks_of(cls(chunk_size=100, overlap=0), "see " + "k" * 5000 + " end")

    joined = "".join(chunk.text for chunk in chunks)
    assert max(len(chunk.text) for chunk in chunks) <= 100
    assert joined.count("k") == 5000
    assert joined.startswith("see")
    assert joined.rstrip().endswith("end")


async def test_each_heading_reaches_its_own_text_only() -> None:
    """C11: the path of a sub-heading does not leak onto the next section, and the heading line stays in its text."""
    chunks = await chunks_of(chunkers.MarkdownChunker(), "# A\na1\n## B\nb1\n# C\nc1")

    assert [(chunk.text.split(), chunk.heading_path) for chunk in chunks] == [
        (["#", "A", "a1"], ["A"]),
        (["##", "B", "b1"], ["A", "B"]),
        (["#", "C", "c1"], ["C"]),
    ]


@pytest.mark.parametrize("cls", [*GENERAL, chunkers.JSONChunker])
@pytest.mark.parametrize("blank", ["\n\n \t\n", "", "\u200b\u00a0", "\ufeff", "\u2060 \u00ad\n", "\x00"])
async def test_blank_text_gives_no_chunk(cls: type[chunkers.SizedChunker], blank: str) -> None:
    """C13: nothing blank reaches the embedder."""
    assert await chunks_of(cls(chunk_size=4, overlap=0), blank) == []


@pytest.mark.parametrize("cls", GENERAL)
async def test_blank_runs_inside_a_text_give_no_chunk(cls: type[chunkers.SizedChunker]) -> None:
    """C13: exactly the visible content comes out, once."""
    chunks = await chunks_of(cls(chunk_size=3, overlap=0), "a\n\n\n\n   \n\n\nb")

    assert [chunk.text.strip() for chunk in chunks] == ["a", "b"]


async def test_long_metadata_takes_no_room() -> None:
    """C15: metadata stays whole beside the text, outside the size and outside what is embedded."""
    metadata = {"abstract": "m " * 2000}

    chunks = await chunks_of(
        chunkers.RecursiveChunker(chunk_size=64, overlap=8, length=stub_tokens), "word " * 300, **metadata
    )

    assert all(stub_tokens(chunk.text) <= 64 for chunk in chunks)
    assert all(chunk.metadata == metadata for chunk in chunks)
    assert all(chunk.indexed_text == chunk.text for chunk in chunks)


@pytest.mark.parametrize(
    ("text", "size", "overlap"),
    [
        ("k1;k2;k3;k4;", 6, 3),
        ("x" * 100, 60, 50),
        ("word " * 50 + "\n" * 40, 60, 50),
        ("One two. Three four. Five six. " * 9, 50, 49),
        ("今天下雨。" * 30, 20, 15),
        ("a" * 59 + "🙂" * 3, 12, 11),
    ],
)
@pytest.mark.parametrize(
    "cls",
    [
        chunkers.RecursiveChunker,
        chunkers.FixedSizeChunker,
        chunkers.MarkdownChunker,
        chunkers.CodeChunker,
        chunkers.ApproxTokenChunker,
    ],
)
async def test_no_chunk_lies_within_another(
    cls: type[chunkers.ChunkerBase], text: str, size: int, overlap: int
) -> None:
    """C17: no chunk is nothing but overlap; each brings a visible character of its own."""
    chunks = await chunks_of(cls(cls.Parameters(chunk_size=size, overlap=overlap)), text)

    for before, after in pairwise(chunk.span for chunk in chunks):
        assert before is not None
        assert after is not None
        assert before[0] < after[0]
        assert before[1] < after[1]
        assert cls is chunkers.ApproxTokenChunker or text[before[1] : after[1]].strip()


@pytest.mark.parametrize("size", [4, 10, 40, 1000])
@pytest.mark.parametrize("cls", GENERAL)
async def test_short_pieces_are_kept(cls: type[chunkers.SizedChunker], size: int) -> None:
    """C19: a short paragraph is not thrown away."""
    text = "Long paragraph of plain words here.\n\nOK\n\nAnother long paragraph of words."

    chunks = await chunks_of(cls(chunk_size=size, overlap=0), text)

    assert any("OK" in chunk.text for chunk in chunks)
    assert "".join("".join(chunk.text for chunk in chunks).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "text", ["漢字" * 4000, '{"a":[1,2,3]},' * 800, "the quick brown fox, " * 500, "if (a[i] != b[j]) { x++; }\n" * 400]
)
async def test_approximate_tokens_err_high(text: str) -> None:
    """C23: chunks sized by `approx_tokens` hold at most the limit in real tokens, and the estimate is never below."""
    chunks = await chunks_of(chunkers.RecursiveChunker(chunk_size=512, overlap=50, length=chunkers.approx_tokens), text)

    assert all(chunkers.approx_tokens(chunk.text) <= 512 for chunk in chunks)
    assert all(stub_tokens(chunk.text) <= chunkers.approx_tokens(chunk.text) for chunk in chunks)


async def test_a_real_tokenizer_sizes_the_chunks() -> None:
    """C23: with a tokeniser as length the limit holds in its tokens."""
    length = chunkers.token_length(byte_level_tokenizer())

    chunks = await chunks_of(
        chunkers.RecursiveChunker(chunk_size=512, overlap=50, length=length), "漢字" * 400 + "plain text. " * 300
    )

    assert all(length(chunk.text) <= 512 for chunk in chunks)
    assert max(length(chunk.text) for chunk in chunks) > 400


@pytest.mark.parametrize("cls", [*GENERAL, chunkers.JSONChunker, chunkers.ApproxTokenChunker])
async def test_time_grows_with_the_text(cls: type[chunkers.ChunkerBase]) -> None:
    """No input is quadratic: unbroken letters, marks on one letter, blanks, quotes, brackets, one wide character."""
    texts = [
        "k" * 60_000,
        "e" + "\u0301" * 60_000,
        " \n" * 30_000 + "x",
        "> " * 30_000,
        "[" * 60_000,
        "🇩" * 30_000,
    ]
    for text in texts:
        started = time.process_time()

        chunks = await chunks_of(cls(), text)

        assert chunks
        assert time.process_time() - started < 3, text[:8]
