"""CodeChunker follows the syntax tree, drops nothing and knows its lines."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import agent_rag
from agent_rag.chunkers import CodeChunker
from agent_rag.chunkers.code import GRAMMARS, _grammar
from agent_rag.documents import Chunk, text_section

needs_grammars = pytest.mark.skipif(
    _grammar("python") is None, reason="pip install 'agent-rag-middleware[code]' to run this"
)


async def chunks_of(text: str, source: str = "t.py", **options: Any) -> list[Chunk]:
    return await CodeChunker(**options).chunk([text_section(text, source, format="code")])


def check_lines(chunks: list[Chunk], text: str) -> None:
    lines = text.split("\n")
    for chunk in chunks:
        told = "\n".join(lines[chunk.metadata["line_start"] - 1 : chunk.metadata["line_end"]])
        assert chunk.text.strip() in told
        assert chunk.text.strip().count("\n") == chunk.metadata["line_end"] - chunk.metadata["line_start"]


@pytest.mark.parametrize("source", ["t.py", "t.unknown"])
async def test_oversized_leaves_are_kept(source: str) -> None:
    """C21: a string of 700 characters is cut, not dropped, and what follows is there."""
    text = 'k = "' + "Z" * 700 + '"\nm = 2\n'

    chunks = await chunks_of(text, source, chunk_size=90)

    assert "".join(chunk.text for chunk in chunks) == text
    assert max(len(chunk.text) for chunk in chunks) <= 90
    assert any("m = 2" in chunk.text for chunk in chunks)
    check_lines(chunks, text)


async def test_wrong_syntax_falls_back_to_lines() -> None:
    """C21: every line is kept whole and counted right."""
    text = "def broken(:\n" + "".join(f"    line_{number} = {number}\n" for number in range(30)) + ")]}\n"

    chunks = await chunks_of(text, chunk_size=60)

    assert "".join(chunk.text for chunk in chunks) == text
    assert all(chunk.text.endswith("\n") for chunk in chunks)
    check_lines(chunks, text)


async def test_without_the_extra_code_is_cut_at_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing grammar is no error."""
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    _grammar.cache_clear()
    try:
        chunks = await chunks_of("a = 1\n" * 20, chunk_size=32)
    finally:
        _grammar.cache_clear()

    assert [chunk.text for chunk in chunks] == ["a = 1\n" * 5] * 4


async def test_overlap_repeats_lines_where_lines_are_cut() -> None:
    """Windows of four lines of 7 characters; the last whole line within 10 characters is repeated."""
    chunks = await chunks_of("".join(f"line {n}\n" for n in range(8)), "t.unknown", chunk_size=28, overlap=10)

    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["line 0", "line 3", "line 6"]


@needs_grammars
async def test_functions_stay_whole_with_their_comments() -> None:
    """A comment and a decorator go with the function below them; methods are not split when they fit."""
    first = "import os\n\n\n"
    second = '# what it does\n@wraps\ndef one(a):\n    """Eins."""\n    return a\n\n\n'
    third = "class Two:\n    def x(self):\n        return 1\n\n    def y(self):\n        return 2\n"

    chunks = await chunks_of(first + second + third, chunk_size=80)

    assert [chunk.text for chunk in chunks] == [first + second, third]
    assert [(chunk.metadata["line_start"], chunk.metadata["line_end"]) for chunk in chunks] == [(1, 8), (11, 16)]


@needs_grammars
async def test_large_classes_are_entered() -> None:
    """Methods of a class that does not fit are kept whole, the class line stays with the first."""
    method = "    def m{0}(self):\n        é = '日本'\n        return {0}\n\n"
    text = "class Big:\n" + "".join(method.format(number) for number in range(6))

    chunks = await chunks_of(text, chunk_size=130)

    assert "".join(chunk.text for chunk in chunks) == text
    assert chunks[0].text.startswith("class Big:\n    def m0")
    assert all(chunk.text.rstrip().endswith(tuple("012345")) for chunk in chunks)
    check_lines(chunks, text)


@needs_grammars
async def test_this_package_survives_cutting() -> None:
    """Real files: nothing is lost but white space between pieces, sizes hold, lines are right."""
    for path in sorted(Path(agent_rag.__file__).parent.glob("*.py")):
        text = path.read_text("utf-8")

        chunks = await chunks_of(text, chunk_size=300)

        assert "".join("".join(chunk.text for chunk in chunks).split()) == "".join(text.split())
        assert all(len(chunk.text) <= 300 for chunk in chunks)
        check_lines(chunks, text)


@needs_grammars
async def test_deep_nesting_ends() -> None:
    """Thousands of nested brackets are cut by lines below a depth, not by exhausting the stack."""
    text = "x = " + "(" * 3000 + "1" + ")" * 3000 + "\n"

    chunks = await chunks_of(text, chunk_size=500)

    assert "".join(chunk.text for chunk in chunks) == text


@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_every_grammar_loads(language: str) -> None:
    """Each language of the table has a grammar of a version that the parser reads."""
    pytest.importorskip(GRAMMARS[language][0], reason="pip install 'agent-rag-middleware[code]' to run this")

    assert _grammar(language) is not None


@needs_grammars
async def test_many_files_at_once_are_cut_as_one_after_another() -> None:
    """Forty files of one language, cut from four threads with a loop each, give the chunks of a quiet process."""
    files = sorted(Path(agent_rag.__file__).parent.rglob("*.py"), key=lambda path: -path.stat().st_size)[:40]
    texts = [path.read_text("utf-8") * 4 for path in files]

    alone = [await chunks_of(text) for text in texts]

    def cut(part: list[str]) -> list[list[Chunk]]:
        async def all_at_once() -> list[list[Chunk]]:
            return await asyncio.gather(*(chunks_of(text) for text in part))

        return asyncio.run(all_at_once())

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(cut, [texts[number::4] for number in range(4)]))
    assert [parts[index % 4][index // 4] for index in range(len(texts))] == alone
