"""The event loop goes on while large files are parsed and chunked."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_rag import Section
from agent_rag.chunkers import AutoChunker
from agent_rag.parsers import HTMLParser, JSONParser, parse_text, parser_for
from agent_rag.parsers.file import is_large
from agent_rag.testing.loop import longest_block

from .samples import zip_of

_SENTENCE = "The outdoor unit number {} stands on four feet and hums at {} decibels in the night. "


def _json() -> bytes:
    return json.dumps(
        [{"id": i, "text": _SENTENCE.format(i, i % 50), "v": [i, {"a": 1.5}]} for i in range(30_000)]
    ).encode()


def _markdown() -> bytes:
    return "".join(f"## Part {i}\n\n{_SENTENCE.format(i, 7) * 4}\n\n- a\n- b\n\n" for i in range(9_000)).encode()


def _html() -> bytes:
    rows = "".join(f"<h2>Part {i}</h2><p>{_SENTENCE.format(i, 7) * 4}</p><ul><li>a<li>b</ul>" for i in range(8_000))
    return f"<html><body>{rows}</body></html>".encode()


@pytest.fixture
def quiet_heap() -> Iterator[None]:
    """The test run's own objects stay out of the collections that are measured."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("quiet_heap")
@pytest.mark.parametrize(("name", "make"), [("a.json", _json), ("a.md", _markdown), ("a.html", _html)])
async def test_a_large_file_does_not_stop_the_loop(name: str, make: Callable[[], bytes]) -> None:
    """Neither its parsing nor its chunking holds the interpreter for 50 ms."""
    data = make()
    sections: list[Section] = []

    async def parse() -> None:
        sections.extend(await parser_for(name).parse(data, name))

    await parser_for(name).parse(data, name)  # the first call starts the worker
    parsing_s = await longest_block(parse())
    chunking_s = await longest_block(AutoChunker().chunk(sections))

    assert len(data) > 3_000_000
    assert parsing_s < 0.05
    assert chunking_s < 0.05


@pytest.mark.usefixtures("quiet_heap")
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.log", "\x1b[31m{}\x1b[0m\n"),
        ("a.md", "## T *x*\n\n{}\n\n- a\n\n"),
        ("a.csv", '1,"{}"\n'),
        ("a.html", "<h2>T</h2><p>{}</p><ul><li>a<li>b</ul>"),
        ("a.jsonl", '{{"t": "{}"}}\n'),
        ("a.yaml", "- id: 1\n  t: {}\n"),
        ("a.vtt", "00:01.000 --> 00:02.000\n<v Ann>{}</v>\n\n"),
    ],
)
async def test_a_file_below_the_workers_size_does_not_stop_the_loop(name: str, part: str) -> None:
    """900 kB are read in this process, and never hold it for 50 ms."""
    text = part.format(_SENTENCE.format(7, 8))
    data = (text * (900_000 // len(text))).encode()
    sections: list[Section] = []

    async def parse() -> None:
        sections.extend(await parser_for(name).parse(data, name))

    parsing_s = await longest_block(parse())
    chunking_s = await longest_block(AutoChunker().chunk(sections))

    assert not is_large(data)
    assert parsing_s < 0.05
    assert chunking_s < 0.05


@pytest.mark.usefixtures("quiet_heap")
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.md", "# a\n"),
        ("a.md", "# a\nb\n"),
        ("a.md", "- a\n"),
        ("a.html", "<h1>a</h1>"),
        ("a.html", "<li>a"),
        ("a.yaml", "- a\n"),
        ("a.ini", "[a]\nb=1\n"),
        ("a.tex", "\\section{a}\n"),
        ("a.log", "\x1b[31ma\x1b[0m\n"),
        ("a.jsonl", '{"a":1}\n'),
        ("a.csv", "a,"),
    ],
)
async def test_a_dense_file_does_not_stop_the_loop(name: str, part: str) -> None:
    """As many things as 900 kB can hold, each of which could be an object or a chunk."""
    data = (part * (900_000 // len(part))).encode()
    sections: list[Section] = []

    async def parse() -> None:
        sections.extend(await parser_for(name).parse(data, name))

    await parser_for("a.md").parse(b"a b\n" * 20_000, "a.md")  # the first call starts the worker
    parsing_s = await longest_block(parse())
    chunking_s = await longest_block(AutoChunker().chunk(sections))

    assert parsing_s < 0.05
    assert chunking_s < 0.05


async def test_a_large_file_gives_the_same_wherever_it_is_read() -> None:
    """In a worker, in a thread, and as text in memory."""
    data = _html()[:1_500_000]

    in_worker = await HTMLParser().parse(data, "a.html")

    assert in_worker == await HTMLParser(isolation="none").parse(data, "a.html")
    assert in_worker == await parse_text(data.decode(), "a.html")


async def test_a_parser_that_cannot_travel_reads_large_files_too() -> None:
    """One made in a function runs in a thread."""

    class Local(JSONParser):
        pass

    sections = await Local().parse(b"[" + b"1, " * 500_000 + b"1]", "a.json")

    assert len(sections[0].text) == 1_500_003


def test_size_is_judged_before_and_after_unpacking(tmp_path: Path) -> None:
    """1 MiB of file, or 8 MiB of what a zip's directory promises."""
    path = tmp_path / "a.docx"
    path.write_bytes(zip_of({"a": bytes(9 << 20), "b": bytes(range(256)) * 300}) + b"")

    assert is_large(b" " * ((1 << 20) + 1))
    assert not is_large(b" " * (1 << 20))
    assert not is_large(tmp_path / "missing")
    assert not is_large(b"PK" + bytes(100_000))
    assert is_large(str(path)) == (path.stat().st_size >= 64 * 1024)
