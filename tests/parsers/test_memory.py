"""Parsing one file takes at most five times its size and 100 MB."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pptx import Presentation

_CHILD = """
import asyncio, sys
from pathlib import Path
from agent_rag.parsers import parser_for
from agent_rag.workers import mark_as_isolated
mark_as_isolated()
path = Path(sys.argv[1])
sections = asyncio.run(parser_for(path).parse(path, path.name))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
print(int(peak) * 1024, len(sections))
"""

DENSE: dict[str, Callable[[], str]] = {
    "table.html": lambda: "<table>" + f"<tr>{'<td>cell' * 8}</tr>" * 120_000 + "</table>",
    "blocks.html": lambda: "<div>w</div>" * 600_000,
    "headings.html": lambda: "<h2>w</h2>" * 400_000,
    "links.html": lambda: "<a href=/x>w</a> " * 400_000,
    "headings.md": lambda: "".join(f"# h{i}\n" for i in range(430_000)),
    "headings.rst": lambda: "".join(f"T{i % 10}\n==\n" for i in range(500_000)),
    "records.jsonl": lambda: "{}\n" * 1_500_000,
    "elements.xml": lambda: "<a>" + "<b><c>x</c></b>" * 400_000 + "</a>",
    "rows.csv": lambda: "a,b,c\n" + "1,2,3\n" * 500_000,
    "paragraphs.rtf": lambda: "{\\rtf1 " + "w\\par\n" * 400_000 + "}",
    "cells.ipynb": lambda: (
        '{"nbformat":4,"cells":[' + '{"cell_type":"code","source":"x=1","outputs":[]},' * 30_000 + '{}],"metadata":{}}'
    ),
}
"""Files whose parts are a few characters each: the worst case for objects per byte."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc: run it on Linux")
@pytest.mark.parametrize("name", DENSE)
def test_a_dense_file_stays_within_the_bound(name: str, tmp_path: Path) -> None:
    """Its parts are a few characters each."""
    path = tmp_path / name
    path.write_text(DENSE[name](), "utf-8")

    assert_within_the_bound(path, path.stat().st_size)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc: run it on Linux")
def test_a_slide_of_many_shapes_stays_within_the_bound(tmp_path: Path) -> None:
    """120,000 shapes on one slide; the file itself is small, its size is what it holds."""
    path = tmp_path / "shapes.pptx"
    deck = Presentation()
    deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_textbox(0, 0, 9, 9).text_frame.text = "w"
    deck.save(str(path))
    with zipfile.ZipFile(path) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    shape = b"<p:sp><p:txBody><a:p><a:r><a:t>w</a:t></a:r></a:p></p:txBody></p:sp>"
    slide = "ppt/slides/slide1.xml"
    parts[slide] = re.sub(rb"<p:sp>.*</p:sp>", shape * 120_000, parts[slide], flags=re.S)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in parts.items():
            package.writestr(name, data)

    assert_within_the_bound(path, sum(map(len, parts.values())))


def assert_within_the_bound(path: Path, size: int) -> None:
    """Parses the file in a process of its own, whose peak counts, interpreter and libraries included."""
    done = subprocess.run([sys.executable, "-c", _CHILD, path], capture_output=True, text=True, check=True)
    peak, sections = map(int, done.stdout.split())
    assert sections > 0
    assert peak < 5 * size + 100_000_000, f"{peak / 1e6:.0f} MB for {size / 1e6:.1f} MB"
