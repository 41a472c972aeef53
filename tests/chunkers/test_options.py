"""Options, length functions, the choice of a chunker, and rebuilding one from JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tokenizers import Tokenizer

import agent_rag.chunkers as chunkers
from agent_rag.chunkers import (
    ApproxTokenChunker,
    AutoChunker,
    ChunkerBase,
    CodeChunker,
    FixedSizeChunker,
    JSONChunker,
    MarkdownChunker,
    RecursiveChunker,
    SizedChunker,
    approx_tokens,
    chunker_for,
    chunker_from,
    register_length,
    token_length,
)
from agent_rag.documents import Section, text_section
from agent_rag.errors import ConfigurationError

from .test_cases import byte_level_tokenizer

ALL: list[ChunkerBase] = [
    ApproxTokenChunker(ApproxTokenChunker.Parameters(chunk_size=99, overlap=9)),
    AutoChunker(chunk_size=500),
    CodeChunker(chunk_size=77, overlap=7),
    FixedSizeChunker(size=300, overlap=20),
    JSONChunker(chunk_size=88),
    MarkdownChunker(chunk_size=200, keep_heading=False),
    RecursiveChunker(chunk_size=123, overlap=12, length="approx_tokens"),
]


def test_names_are_sorted_and_there() -> None:
    """`__all__` lists what the package exports."""
    assert chunkers.__all__ == sorted(chunkers.__all__)
    assert all(hasattr(chunkers, name) for name in chunkers.__all__)


def test_importing_the_chunkers_loads_nothing_heavy() -> None:
    """Tokenisers, the Markdown parser and grammars wait until they are used."""
    code = "import agent_rag.chunkers, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert not {"tokenizers", "markdown_it", "tree_sitter", "numpy", "transformers"} & set(loaded)


@pytest.mark.parametrize("chunker", ALL, ids=lambda chunker: chunker.chunker_type)
def test_type_and_parameters_rebuild_a_chunker(chunker: ChunkerBase) -> None:
    """JSON text and a dict of the Parameters both give a chunker that cuts alike."""
    stored = chunker.parameters.model_dump_json()

    for rebuilt in (chunker_from(chunker.chunker_type, stored), chunker_from(chunker.chunker_type, json.loads(stored))):
        assert type(rebuilt) is type(chunker)
        assert rebuilt.parameters == chunker.parameters
        assert rebuilt.fingerprint == chunker.fingerprint


@pytest.mark.parametrize("chunker", ALL, ids=lambda chunker: chunker.chunker_type)
def test_the_schema_serves_forms(chunker: ChunkerBase) -> None:
    """Every option has a default and a lower bound where it has one."""
    properties = type(chunker).Parameters.model_json_schema()["properties"]

    assert all("default" in option for option in properties.values())
    assert (properties["chunk_size"]["minimum"], properties["overlap"]["minimum"]) == (1, 0)


@pytest.mark.parametrize(
    ("cls", "size", "overlap"),
    [
        (RecursiveChunker, 1000, 100),
        (MarkdownChunker, 1000, 100),
        (AutoChunker, 1000, 100),
        (FixedSizeChunker, 2000, 200),
        (JSONChunker, 1000, 0),
        (CodeChunker, 1000, 0),
    ],
)
def test_defaults(cls: type[SizedChunker], size: int, overlap: int) -> None:
    """The documented sizes, in characters."""
    assert (cls().parameters.chunk_size, cls().parameters.overlap, cls().length) == (size, overlap, len)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"parameters": JSONChunker.Parameters()}, TypeError, "RecursiveChunker.Parameters"),
        ({"parameters": RecursiveChunker.Parameters(), "overlap": 3}, TypeError, "not both"),
        ({"colour": 1}, ValueError, "colour"),
        ({"length": "unheard of"}, ConfigurationError, "register_length"),
        ({"chunk_size": "many"}, ValueError, "chunk_size"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """Each names what is wrong at construction."""
    with pytest.raises(error, match=message):
        RecursiveChunker(**options)


def test_a_given_length_is_in_the_fingerprint() -> None:
    """Its registered name, its tokeniser's digest, or where it is defined."""
    tokenizer = byte_level_tokenizer()

    def mine(text: str) -> int:
        return len(text) // 2

    assert RecursiveChunker(length=approx_tokens).parameters.length == "approx_tokens"
    assert RecursiveChunker(length=mine).parameters.length.endswith("mine")
    assert RecursiveChunker(length=token_length(tokenizer)).parameters.length.startswith("tokens:")
    assert len({RecursiveChunker(length=length).fingerprint for length in (len, mine, token_length(tokenizer))}) == 3


def test_a_registered_length_can_be_rebuilt() -> None:
    """A name stands for one function."""

    def halves(text: str) -> int:
        return (len(text) + 1) // 2

    stored = RecursiveChunker(length=halves).parameters.model_copy(update={"length": "halves"}).model_dump_json()
    with pytest.raises(ConfigurationError, match="halves"):
        chunker_from("recursive", stored)

    register_length("halves", halves)
    register_length("halves", halves)

    rebuilt = chunker_from("recursive", stored)
    assert isinstance(rebuilt, RecursiveChunker)
    assert rebuilt.length is halves
    with pytest.raises(ConfigurationError, match="another"):
        register_length("halves", len)


def test_a_truncating_tokenizer_is_counted_in_full() -> None:
    """Otherwise any text would seem to fit; the caller's tokeniser keeps its limit."""
    tokenizer: Tokenizer = byte_level_tokenizer()
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)

    assert token_length(tokenizer)("x" * 50) == 50
    assert token_length(tokenizer)("x") == 1
    assert len(tokenizer.encode("x" * 50).ids) == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("the", 1),
        ("people", 2),  # peo-ple
        ("NASA", 2),
        ("1984", 4),
        ("a, b!", 4),
        ("漢字", 4),
        ("été", 3),
        ("international", 5),
        ("🙂", 4),
        ("a  b\n\nc", 6),  # three words, a run of spaces, two line breaks
    ],
)
def test_approximate_tokens(text: str, expected: int) -> None:
    """Counted by hand from the rule in its docstring."""
    assert approx_tokens(text) == expected


@pytest.mark.parametrize(
    ("what", "cls"),
    [
        ("text/markdown; charset=utf-8", MarkdownChunker),
        ("notes.MD", MarkdownChunker),
        ("page.html", MarkdownChunker),
        ("application/json", JSONChunker),
        ("application/geo+json", JSONChunker),
        ("data.jsonl", JSONChunker),
        ("main.py", CodeChunker),
        ("text/x-python", CodeChunker),
        ("report.pdf", RecursiveChunker),
        ("text/plain", RecursiveChunker),
        ("text/x-rst", RecursiveChunker),
        (text_section("x", "x", format="markdown"), MarkdownChunker),
        (text_section("x", "x", format="jsonl"), JSONChunker),
        (text_section("x", "x", format="code", language="go"), CodeChunker),
        (text_section("x", "x.md"), RecursiveChunker),
        (text_section("x", "x", format=["odd"]), RecursiveChunker),
    ],
)
def test_the_chunker_that_fits(what: Section | str, cls: type[SizedChunker]) -> None:
    """By a section's format, a media type, or a file name."""
    assert type(chunker_for(what)) is cls
    assert chunker_for(what, chunk_size=321, overlap=1).parameters.chunk_size == 321


async def test_auto_cuts_each_section_with_its_own_chunker() -> None:
    """One call, four kinds; sizes, overlap and length are passed on."""
    sections = [
        text_section("# A\na\n# B\nb", "a.md", format="markdown"),
        text_section("[" + ", ".join(["12345"] * 9) + "]", "a.json", format="json"),
        text_section("x = 1\ny = 2\n", "a.py", format="code", language="python"),
        text_section("Plain words that go on and on.", "a.txt"),
    ]

    chunks = await AutoChunker(chunk_size=24, overlap=8, length=len).chunk(sections)

    assert [(chunk.section_index, chunk.text) for chunk in chunks] == [
        (0, "# A\na\n"),
        (0, "# B\nb"),
        (1, "[12345, 12345, 12345]"),
        (1, "[12345, 12345, 12345]"),
        (1, "[12345, 12345, 12345]"),
        (2, "x = 1\ny = 2\n"),
        (3, "Plain words that go on "),
        (3, "go on and on."),
    ]
    assert chunks[5].metadata["line_end"] == 2
