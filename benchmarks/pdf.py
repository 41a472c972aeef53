"""PDF: words lost and invented against pdftotext, and the order of columns and rows, on a folder of real files.

    scripts/bench pdf --folder DIR [--files 400] [--pages 10]

DIR holds the PDFs that packages ship (``texlive-publishers-doc`` and ``texlive-science-doc`` of Debian unpacked, sdists
of PyPI, packages of npm); none is committed. Two measures:

- *words*: of each file the words that pdftotext (Debian: ``poppler-utils``) finds and the parser does not, and the
  other way round, beside the same count for pdfium's own order. No file may have more of them than pdfium's own order.
- *order*: what decides on columns (`column_areas`) is shown pages whose right order is known, because pdfium reads them
  in the order in which they were written. A page of two columns written one after the other is handed over line by
  line across both, as some programs write it: it has to be put back (found / all). A page written row by row, as
  tables are, has to be left as it is (torn / all).
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pypdfium2
from _common import write_result

from agent_rag.errors import AgentRAGError
from agent_rag.parsers import PDFParser
from agent_rag.parsers.pdf.ffi import FastPdfium, address
from agent_rag.parsers.pdf.layout import Box, column_areas, rows_of
from agent_rag.parsers.pdf.text import clean

_WORD = re.compile(r"\w+")
_MIN_WORDS = 20
"""A file with fewer in the reference says nothing."""
_MIN_LINES = 12
"""Lines in each of two columns, or rows of a table, for a page to count."""


def main() -> None:
    arguments = _arguments()
    if shutil.which("pdftotext") is None:
        sys.exit("pdftotext is missing: apt install poppler-utils")
    paths = sorted(arguments.folder.rglob("*.pdf"))
    random.Random(7).shuffle(paths)
    words = list(_words_of_files(paths, arguments.files, arguments.pages))
    order = _order_of_pages(paths, arguments.files, arguments.pages)
    worse = [row for row in words if row["parser"] > row["pdfium"]]
    result = {
        "files": len(words),
        "words in the reference": sum(row["reference"] for row in words),
        "lost or invented by the parser": sum(row["parser"] for row in words),
        "lost or invented by pdfium's own order": sum(row["pdfium"] for row in words),
        "files better than pdfium": sum(row["parser"] < row["pdfium"] for row in words),
        "files worse than pdfium": worse,
        "order": order,
    }
    for name, value in result.items():
        print(f"{name}: {value}")
    if not arguments.dry_run:
        write_result("pdf", result, packages=("agent-rag-middleware", "pypdf", "pypdfium2"))


def _words_of_files(paths: list[Path], most: int, pages: int) -> Iterator[dict[str, Any]]:
    parser = PDFParser(isolation="none")
    for path in paths:
        reference = _reference(path, pages)
        if reference.total() < _MIN_WORDS:
            continue
        data = path.read_bytes()
        try:
            sections = parser.parse_here(data, path.name)
        except AgentRAGError as error:
            print(f"{path.name}: {error}")
            continue
        ours = [section.text for section in sections if section.metadata["page"] <= pages]
        own = [text for _, text in _pages(path, pages)]
        yield {
            "file": path.name,
            "reference": reference.total(),
            "parser": _difference(reference, _words("\n".join(ours))),
            "pdfium": _difference(reference, _words("\n".join(own))),
        }
        most -= 1
        if not most:
            return


def _reference(path: Path, pages: int) -> Counter[str]:
    done = subprocess.run(["pdftotext", "-l", str(pages), str(path), "-"], capture_output=True)
    return _words(clean(done.stdout.decode("utf-8", "replace").replace("\f", "\n"), join_hyphens=True))


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _difference(reference: Counter[str], found: Counter[str]) -> int:
    return (reference - found).total() + (found - reference).total()


def _order_of_pages(paths: list[Path], files: int, pages: int) -> dict[str, Any]:
    fast = FastPdfium(pypdfium2.raw)
    counts: Counter[str] = Counter()
    torn: list[str] = []
    missed: list[str] = []
    for path in paths[:files]:
        for number, (textpage, text) in enumerate(_pages(path, pages), start=1):
            handle = address(textpage.raw)
            count = fast.count_rects(handle)
            if not 2 * _MIN_LINES <= count <= 5_000:
                continue
            boxes = fast.rects(handle, count)

            def read(box: Box, handle: int = handle, size: int = 2 * len(text) + 100) -> str:
                return fast.text_in(handle, box, size)

            kind = _kind(boxes)
            if kind == "columns":
                counts["columns"] += 1
                across = [box for row in rows_of(boxes) for box in row.boxes]
                found = column_areas(across, read) is not None
                counts["columns found"] += found
                missed += [] if found else [f"{path.name} {number}"]
            elif kind == "rows":
                counts["rows"] += 1
                if column_areas(boxes, read) is not None:
                    counts["rows torn"] += 1
                    torn.append(f"{path.name} {number}")
    return {**counts, "torn": torn, "missed": missed}


def _pages(path: Path, most: int) -> Iterator[tuple[Any, str]]:
    """The first pages as pdfium reads them, with their cleaned text.

    What fields and stamps show is drawn into the page, as the parser does. (pdftotext leaves out those without the flag
    Print, which are on the screen: the word "Yes" on the chosen button of l3pdffield-radiobutton.pdf.)
    """
    try:
        with pypdfium2.PdfDocument(path) as document:
            for index in range(min(most, len(document))):
                pypdfium2.raw.FPDFPage_Flatten(document[index], pypdfium2.raw.FLAT_NORMALDISPLAY)
                textpage = document[index].get_textpage()
                yield textpage, clean(textpage.get_text_range())
    except pypdfium2.PdfiumError as error:
        print(f"{path.name}: {error}")


def _kind(boxes: list[Box]) -> str:
    """How the page was written: "columns" one after the other, "rows" to and fro, or "" for neither."""
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    middle = (left + right) / 2
    wide = [box for box in boxes if box.left < middle < box.right]
    sides = [box.left >= middle for box in boxes if box not in wide]
    jumps = sum(a != b for a, b in pairwise(sides))
    rows = [row for row in rows_of(boxes) if not any(box in wide for box in row.boxes)]
    both = sum(row.boxes[0].right <= middle <= row.boxes[-1].left for row in rows)
    if (
        both >= _MIN_LINES
        and len(wide) <= 0.2 * len(boxes)
        and jumps <= 4
        and min(sum(sides), len(sides)) >= _MIN_LINES
    ):
        lines = {side: [b for b in boxes if b not in wide and (b.left >= middle) == side] for side in (False, True)}
        if all(len(rows_of(part)) >= _MIN_LINES for part in lines.values()):
            return "columns"
    across = sum(b.left > a.right + 9 and b.bottom < a.top and b.top > a.bottom for a, b in pairwise(boxes))
    return "rows" if across >= _MIN_LINES // 2 and jumps > 4 else ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="searched for *.pdf")
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--pages", type=int, default=10, help="read of each file")
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
