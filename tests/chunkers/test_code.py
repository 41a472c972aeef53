"""CodeChunker follows the syntax tree, drops nothing and knows its lines."""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import agent_rag
from agent_rag._util.languages import language_of
from agent_rag.chunkers import CodeChunker
from agent_rag.chunkers._grammars import GRAMMARS, _loaded, grammar_of
from agent_rag.documents import Chunk, text_section

needs_grammars = pytest.mark.skipif(
    grammar_of("python") is None, reason="pip install 'agent-rag-middleware[code]' to run this"
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
    _loaded.cache_clear()
    try:
        chunks = await chunks_of("a = 1\n" * 20, chunk_size=32)
    finally:
        _loaded.cache_clear()

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
    pytest.importorskip(GRAMMARS[language].module, reason="pip install 'agent-rag-middleware[code]' to run this")

    assert grammar_of(language) is not None


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


@needs_grammars
async def test_a_syntax_error_costs_its_own_region_only() -> None:
    """The functions around a macro that is no C stay whole."""
    function = "static int f{0}(int a)\n{{\n    int b = a + {0};\n    return b;\n}}\n\n"
    text = function.format(1) + "BROKEN_MACRO(x) {{{ ;\n\n" + "".join(function.format(n) for n in range(2, 8))

    chunks = await chunks_of(text, "a.c", chunk_size=150)

    for number in range(2, 8):
        assert any(function.format(number).strip() in chunk.text for chunk in chunks), number
    assert "".join(chunk.text for chunk in chunks) == text


async def test_an_endless_line_is_cut_without_its_tree() -> None:
    """A program wrote it, and the tree of 2 MB takes seconds."""
    text = "f('é'); function g() { return 1 }\n" + "f('é');" * 75_000

    chunks = await chunks_of(text, "t.js")

    assert "".join(chunk.text for chunk in chunks).replace("\n", "") == text.replace("\n", "")
    assert {tuple(chunk.heading_path) for chunk in chunks} == {()}


@needs_grammars
async def test_one_long_line_takes_linear_time() -> None:
    """Four times the line, with a character beyond ASCII, takes at most eight times the time."""

    def seconds(count: int) -> float:
        section = text_section("é = [" + "1234, " * count + "]\n", "a.py", format="code")
        started = time.process_time()
        CodeChunker()._chunk([section])
        return time.process_time() - started

    seconds(1_000)
    short, long = seconds(20_000), seconds(80_000)

    assert long < 8 * short


@needs_grammars
@pytest.mark.parametrize(
    ("source", "text", "size", "together"),
    [
        ("a.rs", "fn a() {\n    1;\n}\n\n#[test]\nfn b() {\n    2;\n}\n", 30, "#[test]\nfn b() {\n    2;\n}"),
        ("a.ts", "class A {\n  a() { return 1; }\n\n  @Post('/b')\n  b() { return 2; }\n}\n", 36, "@Post('/b')\n  b()"),
        ("a.py", "def name(first, second=None):\n    a = 1\n    b = 2\n    c = 3\n", 52, "second=None):\n    a = 1\n"),
        ("a.js", "function f(a) {\n  one();\n  two();\n  three();\n}\n", 30, "function f(a) {\n  one();\n"),
        ("a.go", "package a\n\nvar A = 1 // red\nvar B = 2 // green\n", 30, "var A = 1 // red\n"),
        (
            "a.cpp",
            "class A {\n  int first() { return 1; }\nprivate:\n  int b() { return 2; }\n};\n",
            38,
            "private:\n  int b()",
        ),
        (
            "a.rb",
            "class A\n  def a\n    1\n  end\n\n  private\n\n  def b\n    2\n  end\nend\n",
            40,
            "  def b\n    2\n  end",
        ),
        (
            "a.cs",
            "class A {\n  #region X\n  int a() { return 1; }\n  int b() { return 2; }\n}\n",
            46,
            "#region X\n  int a()",
        ),
    ],
)
async def test_what_belongs_together_stays_together(source: str, text: str, size: int, together: str) -> None:
    """Attributes, decorators and labels with what follows, signatures with the body, comments with their line."""
    chunks = await chunks_of(text, source, chunk_size=size)

    assert any(together in chunk.text for chunk in chunks), [chunk.text for chunk in chunks]
    assert "".join("".join(chunk.text for chunk in chunks).split()) == "".join(text.split())


@needs_grammars
@pytest.mark.parametrize(
    ("source", "text", "path"),
    [
        ("pkg/mod.py", "class A:\n    def close(self): pass\n", ["pkg.mod", "A", "close"]),
        ("src/net/conn.rs", "impl Conn {\n    fn close(&self) {}\n}\n", ["net::conn", "Conn", "close"]),
        ("a.go", "package net\n\nfunc (c *Conn) Close() error {\n\treturn nil\n}\n", ["net", "Conn", "Close"]),
        ("a/B.java", "package a.b;\nclass B {\n  void close() { run(); }\n}\n", ["a.b", "B", "close"]),
        ("a.ts", "export class A {\n  close(): void { run(); }\n}\n", ["a", "A", "close"]),
        ("a.js", "const close = () => {\n  run();\n};\n", ["a", "close"]),
        ("a.cpp", "namespace n {\nvoid A::close() { run(); }\n}\n", ["a", "n", "A::close"]),
        ("a.c", "static char *name(int a)\n{\n    return 0;\n}\n", ["a", "name"]),
        ("a.rb", "module M\n  class A\n    def close\n      run\n    end\n  end\nend\n", ["a", "M", "A", "close"]),
        ("a.cs", "namespace N;\nclass A {\n  void Close() { Run(); }\n}\n", ["N", "A", "Close"]),
        ("a.kt", "package p\nclass A {\n  fun close() { run() }\n}\n", ["p", "A", "close"]),
        ("a.swift", "class A {\n  func close() { run() }\n}\n", ["a", "A", "close"]),
        ("a.scala", "package p\nobject A {\n  def close(): Unit = run()\n}\n", ["p", "A", "close"]),
        ("a.lua", "function close(a)\n  run()\nend\n", ["a", "close"]),
        ("a.php", "<?php\nclass A {\n  function close() { run(); }\n}\n", ["A", "close"]),
        ("a.tf", 'resource "aws_instance" "web" {\n  ami = "x"\n}\n', ['resource "aws_instance" "web"']),
        ("a.toml", '[tool.ruff]\nline-length = 120\n', ["tool.ruff"]),
        ("a.sql", "CREATE TABLE users (id INT, name TEXT);\n", ["users"]),
        ("Makefile", "build: src\n\tcc -o a src\n", ["build"]),
        ("a.css", ".button { color: red; }\n", [".button"]),
        ("a.sh", "close() {\n  run\n}\n", ["a", "close"]),
    ],
)  # fmt: skip
async def test_the_heading_path_is_how_the_language_spells_it(source: str, text: str, path: list[str]) -> None:
    """Module or package, then what encloses the innermost line."""
    chunks = await chunks_of(text, source, chunk_size=26)

    assert path in [chunk.heading_path for chunk in chunks]


@needs_grammars
async def test_a_chunk_inside_a_function_embeds_its_signature() -> None:
    """The signature and the words of the names are embedded, and never quoted."""
    text = "def parseHttpHeader(raw, strict=True):\n" + "".join(f"    field_{n} = raw[{n}]\n" for n in range(20))

    chunks = await chunks_of(text, "web/http_util.py", chunk_size=200)

    assert chunks[1].text.startswith("    field_")
    assert chunks[1].heading_path == ["web.http_util", "parseHttpHeader"]
    assert chunks[1].embed_context == "web http util parse Http Header\ndef parseHttpHeader(raw, strict=True):"
    assert chunks[1].indexed_text == (
        "web.http_util > parseHttpHeader\nweb http util parse Http Header\ndef parseHttpHeader(raw, strict=True):\n"
        + chunks[1].text
    )


@needs_grammars
async def test_imports_do_not_swallow_the_first_class() -> None:
    """A class that does not fit begins a chunk of its own."""
    imports = "".join(f"import module_{n}\n" for n in range(6))
    methods = "".join(f"    def method_{n}(self):\n        return {n}\n\n" for n in range(8))

    chunks = await chunks_of(f"{imports}\n\nclass Big:\n{methods}", chunk_size=250)

    assert chunks[0].text.strip() == imports.strip()
    assert chunks[1].text.startswith("class Big:\n    def method_0")


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("run", "#!/usr/bin/env python3\n", "python"), ("run", "#!/bin/sh -e\n", "bash"),
        ("run", "#!/usr/bin/env -S deno run\n", "typescript"), ("tool", "# -*- mode: ruby; x: y -*-\n", "ruby"),
        ("tool", "a\n# vim: set ts=4 ft=lua:\n", "lua"), ("Dockerfile.test", "", "dockerfile"),
        ("Makefile", "", "make"), ("README", "plain words\n", None), ("a.txt", "#!/bin/sh\n", None),
        ("Jenkinsfile", "", "groovy"), ("a.h", "int f(void);\n", "c"), ("a.h", "namespace a {\n}\n", "cpp"),
        ("a.pyx", "", "cython"), ("a.mts", "", "typescript"),
    ],
)  # fmt: skip
def test_the_language_is_told_by_name_shebang_and_modeline(name: str, text: str, language: str | None) -> None:
    """In this order; prose has none."""
    assert language_of(name, text) == language
