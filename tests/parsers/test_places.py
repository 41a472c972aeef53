"""The place that a citation shows is where the chunk's text stands: a plain program finds it there."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook
from pptx import Presentation

from agent_rag.chunkers import AutoChunker
from agent_rag.documents import Chunk
from agent_rag.parsers import parser_for

from .samples import pdf_of

_WORDS = ["valve", "boiler", "rotor", "pump", "tank", "gasket", "sensor", "relay", "flange", "piston", "crane", "hoist"]
_CHUNKS = 200
"""Of each format, drawn at random."""


def _sentence(chosen: random.Random, number: int) -> str:
    return " ".join([f"w{number}", *chosen.choices(_WORDS, k=chosen.randrange(4, 30))]) + "."


def _lines(text: str, chunk: Chunk) -> str:
    first, last = chunk.metadata["lines"]
    return "\n".join(text.split("\n")[first - 1 : last])


def _text(chosen: random.Random) -> str:
    return "\n".join(_sentence(chosen, n) + chosen.choice(["", "\n", "\n\n"]) for n in range(1500))


def _markdown(chosen: random.Random) -> str:
    parts = ["---\ntitle: Plant\ndescription: Where the valves are kept\n---\n\n\n# Plant\n"]
    for n in range(700):
        parts.append(
            chosen.choice(["## {}\n", "{}\n", "- {}\n", "```\n{}\n```\n", "> {}\n"]).format(_sentence(chosen, n))
        )
    parts.append("| a | b |\n| - | - |\n" + "".join(f"| r{n} | {_sentence(chosen, n)} |\n" for n in range(200)))
    return "\n".join(parts)


def _yaml(chosen: random.Random) -> str:
    return "items:\n" + "".join(f"- id: {n}\n  text: |\n    {_sentence(chosen, n)}\n" for n in range(900))


def _code(chosen: random.Random) -> str:
    return "".join(f'def f{n}():\n    """{_sentence(chosen, n)}"""\n    return {n}\n\n\n' for n in range(900))


@pytest.mark.parametrize(
    ("name", "make"),
    [("a.txt", _text), ("a.md", _markdown), ("a.yaml", _yaml), ("a.py", _code), ("a.rst", _text), ("a.toml", _yaml)],
)
async def test_lines_are_those_of_the_file(name: str, make: Callable[[random.Random], str]) -> None:
    """Every line of the chunk stands between the first and the last that are named, which it begins and ends with."""
    text = make(random.Random(7))
    for chunk in await _chunks(name, text.encode()):
        place = _lines(text, chunk)
        shown = [line for line in chunk.text.strip().split("\n") if line.strip()]
        repeated = shown[:2] if chunk.span is None else []  # the header of a table, the fence of code
        assert all(line.strip() in place or line in (*repeated, "```") for line in shown)
        assert shown[-1].strip() in (place.rsplit("\n", 1)[-1].strip(), "```") or shown[-1].strip() in place


async def test_rows_are_those_of_a_csv() -> None:
    """Blank rows, cells of several lines, a title above the header."""
    chosen = random.Random(7)
    rows = [["Stock list"], ["id", "text", "n"]]
    for n in range(1500):
        rows += [[f"r{n}", _sentence(chosen, n) + chosen.choice(["", "\nsecond line"]), str(n)]] + [[]] * (n % 7 == 0)
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)

    for chunk in await _chunks("a.csv", stream.getvalue().encode()):
        first, last = chunk.metadata["rows"]
        place = list(csv.reader(io.StringIO(stream.getvalue())))[first - 1 : last]
        _assert_rows_are(chunk, [[cell.replace("\n", "<br>") for cell in row] for row in place if row])


async def test_rows_are_those_of_a_sheet() -> None:
    """As Excel numbers them, after gaps, on several sheets."""
    chosen = random.Random(7)
    book = Workbook()
    for name in ("Parts", "Stock"):
        sheet = book.create_sheet(name)
        for n in range(1200):
            row = 1 if n == 0 else n + 2 + n // 50 * 3
            values = (f"r{n}", _sentence(chosen, n), f"u{n}") if n else ("id", "text", "unit")
            for column, value in enumerate(values, 1):
                sheet.cell(row, column, value)
    stream = io.BytesIO()
    book.save(stream)
    read = load_workbook(io.BytesIO(stream.getvalue()))

    for chunk in await _chunks("a.xlsx", stream.getvalue()):
        if "rows" not in chunk.metadata:
            assert chunk.text.startswith("Sheet: ")
            continue
        first, last = chunk.metadata["rows"]
        rows = read[chunk.metadata["sheet"]].iter_rows(first, last, values_only=True)
        _assert_rows_are(chunk, [[str(cell) for cell in row] for row in rows if any(row)])


def _assert_rows_are(chunk: Chunk, place: list[list[str]]) -> None:
    lines = [line[2:-2].split(" | ") for line in chunk.text.strip().split("\n") if line.startswith("| ")]
    body = [cells for cells in lines if cells[0].startswith("r")]
    assert body
    assert body == [row for row in place if row[0].startswith("r")]


async def test_records_and_items_are_those_of_the_json() -> None:
    """JSON Lines by record, also inside of a long one; an array by key path and position."""
    chosen = random.Random(7)
    records = [{"id": n, "tags": [n], "text": _sentence(chosen, n) * (1 + 9 * (n % 50 == 0))} for n in range(1500)]
    lines = [json.dumps(record) for record in records]

    for chunk in await _chunks("a.jsonl", ("\n\n".join(lines)).encode()):
        first, last = chunk.metadata["records"]
        for found in _numbers(json.loads(chunk.text)):
            assert first <= found + 1 <= last
    for chunk in await _chunks("a.json", json.dumps({"shop": {"parts": records}}).encode()):
        place: Any = {"shop": {"parts": records}}
        for key in chunk.metadata["key_path"]:
            place = place[int(key)] if isinstance(place, list) else place[key]
        first, last = chunk.metadata.get("items", (None, None))
        place = place[first : last + 1] if last is not None else place
        assert all(word in json.dumps(place) for word in chunk.text.split() if word.startswith("w"))


def _numbers(value: Any) -> list[int]:
    """The ids in a chunk of records, as far as it has any."""
    values = value if isinstance(value, list) else [value]
    return [item["id"] for item in values if isinstance(item, dict) and "id" in item]


async def test_a_page_of_html_is_found_below_its_headings() -> None:
    """The path names the headings above the text in the page's own order."""
    chosen = random.Random(7)
    page, under, path = [], {}, ["", ""]
    for n in range(900):
        level = chosen.choice([0, 0, 1, 2])
        if level:
            path = [f"Part {n}", ""] if level == 1 else [path[0], f"Section {n}"]
            page.append(f"<h{level}>{path[level - 1]}</h{level}>")
        sentence = _sentence(chosen, n)
        under[f"w{n}"] = [title for title in path if title]
        page.append(f"<p>{sentence}</p>")

    for chunk in await _chunks("a.html", "".join(page).encode()):
        first = next(word for word in chunk.text.split() if word in under)
        assert chunk.heading_path == under[first]


async def test_slides_and_pages_are_those_of_the_file() -> None:
    """Counted from 1, as readers show them."""
    chosen = random.Random(7)
    texts = [[_sentence(chosen, 10 * n + k) for k in range(6)] for n in range(100)]
    deck = Presentation()
    for lines in texts:
        deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_textbox(0, 0, 9, 9).text_frame.text = "\n".join(lines)
    stream = io.BytesIO()
    deck.save(stream)

    for name, field, data in (("a.pptx", "slide", stream.getvalue()), ("a.pdf", "page", _pdf(texts))):
        for chunk in await _chunks(name, data):
            place = " ".join(texts[chunk.metadata[field] - 1]).split()
            assert {word for word in chunk.text.split() if word[0] == "w"} <= set(place)


async def test_a_row_that_is_cut_into_columns_has_its_number_in_each_chunk() -> None:
    """30,000 columns; each chunk looks its row up, but not by counting the lines of a megabyte again."""
    rows = ["a," * 30_000 + "b", "c," * 30_000 + "d"]

    chunks = await AutoChunker().chunk(await parser_for("a.csv").parse("\n".join(rows).encode(), "a.csv"))

    assert len(chunks) > 1_000
    assert {tuple(chunk.metadata["rows"]) for chunk in chunks} <= {(1, 1), (2, 2), (1, 2)}


def _pdf(pages: list[list[str]]) -> bytes:
    """Six lines a page."""
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] /MediaBox [0 0 3000 800] /Resources << /Font << /F1 "
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>".encode(),
    }
    for n, lines in enumerate(pages):
        shown = "".join(f"BT /F1 12 Tf 50 {700 - 20 * k} Td ({line}) Tj ET\n" for k, line in enumerate(lines)).encode()
        objects[3 + 2 * n] = f"<< /Type /Page /Parent 2 0 R /Contents {4 + 2 * n} 0 R >>".encode()
        objects[4 + 2 * n] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(shown), shown)
    return pdf_of(objects)


async def _chunks(name: str, data: bytes) -> list[Chunk]:
    """`_CHUNKS` chunks at random, or all."""
    chunks = await AutoChunker(chunk_size=400, overlap=40).chunk(await parser_for(name).parse(data, name))
    assert len(chunks) >= _CHUNKS
    return random.Random(3).sample(chunks, _CHUNKS)
