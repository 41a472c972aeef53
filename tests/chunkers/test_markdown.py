"""MarkdownChunker follows the structure of Markdown."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from agent_rag._util.markdown import Markdown
from agent_rag.chunkers import MarkdownChunker
from agent_rag.chunkers._grammars import grammar_of
from agent_rag.documents import Chunk, Heading, text_section


async def chunks_of(text: str, **options: Any) -> list[Chunk]:
    return await MarkdownChunker(**{"overlap": 0, **options}).chunk([text_section(text, "t.md", format="markdown")])


def shown(chunks: list[Chunk]) -> list[tuple[list[str], str]]:
    return [(chunk.heading_path, chunk.text.strip()) for chunk in chunks]


async def test_a_heading_without_text_shares_the_chunk_below() -> None:
    """No chunk ends with a heading, unless the document does."""
    chunks = await chunks_of("# Guide\n\n## Setup\n\nInstall it.\n\n## End\n")

    assert shown(chunks) == [
        (["Guide", "Setup"], "# Guide\n\n## Setup\n\nInstall it."),
        (["Guide", "End"], "## End"),
    ]


async def test_hashes_in_code_are_no_headings() -> None:
    """Fences of any kind, nested ones, indented code and fences inside lists hide their lines."""
    code = (
        "````md\n```sh\n# comment\n```\n# still code\n````\n\n~~~\n# tilde\n~~~\n\n    # indented\n\n"
        "- item\n\n  ```\n  # in a list\n  ```\n"
    )

    chunks = await chunks_of(f"# Real\n\n{code}")

    assert shown(chunks) == [(["Real"], f"# Real\n\n{code}".strip())]


async def test_setext_headings_and_markup_in_titles() -> None:
    """Underlined headings count; a title in the path has no markup."""
    chunks = await chunks_of("The *big* `plan`\n===\n\nText.\n\nDetails [here](http://x)\n---\n\nMore.\n")

    assert [chunk.heading_path for chunk in chunks] == [["The big plan"], ["The big plan", "Details here"]]


async def test_front_matter_is_no_heading() -> None:
    """YAML between dashes stays text, although it looks like an underlined heading."""
    chunks = await chunks_of("---\ntitle: x\nkey: y\n---\n\nHello.\n")

    assert shown(chunks) == [([], "---\ntitle: x\nkey: y\n---\n\nHello.")]


async def test_blocks_stay_whole_where_they_fit() -> None:
    """A fence that does not fit behind the text before it starts its own chunk, although half of it would fit."""
    fence = "```\nline one\n\nline two\n```"

    chunks = await chunks_of(f"Some words before it.\n\n{fence}\n\nSome words after.\n", chunk_size=45)

    assert [chunk.text.strip() for chunk in chunks] == ["Some words before it.", fence, "Some words after."]


async def test_a_large_table_repeats_its_header() -> None:
    """Parts after the first start with the header and say which rows they hold; the first is a span of the text.

    The header takes 20 characters, a row 10: a first part of 50 holds 3 rows, so does each later one.
    """
    header = "| name | n |\n|--|--|\n"  # 13 + 8 = 21 with both line ends
    rows = [f"| r{number} | {number} |\n" for number in range(7)]  # 11 each

    chunks = await chunks_of("# T\n\n" + header + "".join(rows), chunk_size=58)

    assert [(chunk.text, chunk.metadata["rows"], chunk.span is None) for chunk in chunks] == [
        ("# T\n\n" + header + "".join(rows[:2]), [1, 2], False),
        (header + "".join(rows[2:5]).rstrip(), [3, 5], True),
        (header + "".join(rows[5:]).rstrip(), [6, 7], True),
    ]
    assert all(chunk.heading_path == ["T"] for chunk in chunks)


async def test_a_row_larger_than_a_chunk_is_cut_under_the_header() -> None:
    """Nothing of it is lost, and every part has the header."""
    header = "| a | b |\n|---|---|\n"

    chunks = await chunks_of(header + "| " + "y" * 200 + " | z |\n| 1 | 2 |\n", chunk_size=60)

    assert all(chunk.text.startswith(header) and len(chunk.text) <= 60 for chunk in chunks)
    assert sum(chunk.text.count("y") for chunk in chunks) == 200
    assert chunks[-1].text.endswith("| 1 | 2 |")


async def test_a_large_list_is_divided_at_its_items() -> None:
    """Items stay whole, with what belongs to them."""
    text = "".join(f"- item {number}\n\n  its text {number}\n" for number in range(4))  # 26 each

    chunks = await chunks_of(text, chunk_size=54)

    assert [chunk.text.count("- item") for chunk in chunks] == [2, 2]
    assert all(chunk.text.startswith("- item") for chunk in chunks)


async def test_only_prose_is_repeated() -> None:
    """The end of a paragraph is repeated before a block that has room for it; code is not."""
    prose = "One sentence here. Two words.\n\nThree more words follow here.\n\n"
    text = prose + "```\nsome code\n```\n\nThe end of it all now.\n"

    chunks = await chunks_of(text, chunk_size=44, overlap=14)

    assert [chunk.text.strip() for chunk in chunks] == [
        "One sentence here. Two words.",
        "Two words.\n\nThree more words follow here.",
        "follow here.\n\n```\nsome code\n```",
        "The end of it all now.",
    ]


async def test_headings_can_be_left_out() -> None:
    """With keep_heading=False the titles stand in the path only; a heading without any text below stays."""
    chunks = await chunks_of("# A\na1\n## B\nb1\n# C\n", keep_heading=False)

    assert shown(chunks) == [(["A"], "a1"), (["A", "B"], "b1"), (["C"], "# C")]


async def test_the_sections_own_headings_win() -> None:
    """Headings that the parser found, and what stands above the section, make the path."""
    section = text_section("# *A*\n\ntext\n", "t.md").model_copy(
        update={"headings": [Heading(level=1, title="Alpha", offset=0)], "heading_path": ["Book"]}
    )

    (chunk,) = await MarkdownChunker().chunk([section])

    assert chunk.heading_path == ["Book", "Alpha"]


@pytest.mark.parametrize("seed", range(40))
async def test_random_documents_lose_nothing(seed: int) -> None:
    """Every word comes out, sizes hold, and table parts start with the header of their table."""
    chosen = random.Random(seed)
    words = iter(range(10_000))

    def sentence() -> str:
        return " ".join(f"w{next(words)}" for _ in range(chosen.randrange(1, 15))) + "."

    blocks = {
        "heading": lambda: "#" * chosen.randrange(1, 4) + " " + sentence(),
        "paragraph": lambda: "\n".join(sentence() for _ in range(chosen.randrange(1, 6))),
        "fence": lambda: "```\n" + "\n".join("# " + sentence() for _ in range(chosen.randrange(1, 9))) + "\n```",
        "table": lambda: "| h |\n|---|\n" + "\n".join(f"| {sentence()} |" for _ in range(chosen.randrange(1, 9))),
        "list": lambda: "\n".join("- " + sentence() for _ in range(chosen.randrange(1, 9))),
        "quote": lambda: "> " + sentence(),
        "reference": lambda: f"[w{next(words)}]: http://example.org",
    }
    text = "\n\n".join(blocks[chosen.choice(list(blocks))]() for _ in range(chosen.randrange(1, 20)))
    size = chosen.randrange(20, 200)

    chunks = await chunks_of(text, chunk_size=size, overlap=chosen.randrange(size))

    joined = "".join(chunk.text for chunk in chunks)
    assert max(len(chunk.text) for chunk in chunks) <= size
    assert {letter for letter in "0123456789#|->[]" if letter in text} <= set(joined)
    if size > 40:
        missing = [word for number in range(next(words)) if (word := f"w{number}") in text and word not in joined]
        assert missing == []
    for chunk in chunks:
        assert chunk.span is None or chunk.text == text[slice(*chunk.span)]
        is_fenced = chunk.text.rstrip().endswith("```") and "```" in chunk.text[:-3]
        assert chunk.span is not None or chunk.text.startswith("| h |\n|---|\n") or is_fenced


async def test_a_deeply_nested_list_takes_no_quadratic_time() -> None:
    """800 levels, 640 kB of indentation, are cut in seconds and nothing is lost. (It took 14 s, and grew squarely.)"""
    text = "\n".join("  " * level + f"- item{level}" for level in range(800))
    started = time.process_time()

    chunks = await MarkdownChunker().chunk([text_section(text, "list.md", format="markdown")])

    assert time.process_time() - started < 8
    joined = "".join(chunk.text for chunk in chunks)
    assert all(f"item{level}" in joined for level in range(0, 800, 50))


@pytest.mark.skipif(grammar_of("python") is None, reason="pip install 'agent-rag-middleware[code]' to run this")
async def test_code_in_a_fence_is_cut_at_its_functions() -> None:
    """Each part is in the fence, holds whole functions, and its path ends with the function."""
    function = "def f{0}(a):\n    b = a + {0}\n    return b\n\n\n"
    text = "# Use\n\n```python\n" + "".join(function.format(n) for n in range(4)) + "```\n"

    chunks = await MarkdownChunker(chunk_size=75, overlap=0).chunk([text_section(text, "a.md", format="markdown")])

    assert [chunk.heading_path for chunk in chunks[1:]] == [["Use", f"f{n}"] for n in range(1, 4)]
    assert chunks[1].text == "```python\ndef f1(a):\n    b = a + 1\n    return b\n```"


async def test_thousands_of_headings_with_nothing_below_them_start_no_chunks() -> None:
    """20,000 of the lowest rank with 8 characters each fill chunks as text does; those of ranks above start them."""
    text = "".join(f"# Part {part}\n\n" + "## a\n\nb\n" * 2_000 for part in range(10))

    chunks = await chunks_of(text)

    assert len(chunks) < 10 * 25
    assert {tuple(chunk.heading_path) for chunk in chunks if chunk.text.startswith("# ")} == {
        (f"Part {part}",) for part in range(10)
    }


def test_a_list_is_read_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is longer than what is parsed at once is one block, with the items that it has when read whole."""
    items = ["- a\n", "- b\n\n", "- # C\n", "  - d\n\n    its text\n", "- ```\n  - e\n  ```\n", "lazy\n", " - f\n"]
    text = "para\n\n" + "".join(items * 30) + "\n1. g\n2. h\n\nend\n"
    whole = Markdown(text).blocks()

    for window in (10, 50, 300):
        monkeypatch.setattr("agent_rag._util.markdown._WINDOW", window)
        assert Markdown(text).blocks() == whole
