"""Parsing against AgentScope, markitdown and kreuzberg: speed and text recall on the same files, in one run.

Each library runs in a process and an environment of its own; for each file they take turns, so that the load of the
machine hits all alike. Text recall is the share of the words of an independent reference that a library finds:
`pdftotext` (Debian: poppler-utils) for PDF, a raw walk of the XML for Office, the text nodes for HTML. The files are
the handbook, generated ones, and the public cases beside the checkout where they exist.

A library that is not there is left out with the command that installs it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from _common import ROOT, SHARED, write_result

COMPETITORS = {
    "agentscope": "agentscope[rag]==2.0.11",
    "markitdown": "markitdown[pdf,docx,pptx,xlsx]",
    "kreuzberg": "kreuzberg==4.10.4",
}
KINDS = ("pdf", "xlsx", "docx", "pptx", "html")
ENVIRONMENTS = ROOT / ".bench"
_WORD = re.compile(r"\w+")


class Child:
    """A library at work in its own process."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        child = Path(__file__).with_name("_parse_child.py")
        self._process = subprocess.Popen(
            [python, str(child), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{name} does not start with {python}")

    def read(self, path: Path) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        files = _files(Path(folder)) + arguments.files
        children = [Child(name, python) for name, python in _pythons(arguments.python).items()]
        rows = [_measured(path, children, arguments.repeats) for path in files]
        for child in children:
            child.__exit__(None, None, None)
    summary = {kind: _summary([row for row in rows if row["kind"] == kind]) for kind in KINDS}
    _show(summary)
    packages = ("agent-rag-middleware", "pypdf", "pypdfium2", "python-docx", "python-pptx", "openpyxl", "lxml")
    write_result("parsing", {"summary": summary, "files": rows, "competitors": COMPETITORS}, packages=packages)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PYTHON")
    parser.add_argument("--files", nargs="*", type=Path, default=[], help="measure these too, for example long PDFs")
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def _pythons(given: list[str]) -> dict[str, str]:
    named = dict(entry.split("=", 1) for entry in given)
    found = {"agent_rag": sys.executable}
    for name, requirement in COMPETITORS.items():
        python = named.get(name, str(ENVIRONMENTS / name / "bin/python"))
        if Path(python).exists():
            found[name] = python
        elif importlib.util.find_spec(name):
            found[name] = sys.executable
        else:
            folder = ENVIRONMENTS.relative_to(ROOT) / name
            print(f"without {name}: python -m venv {folder} && {folder}/bin/pip install '{requirement}'")
    return found


def _measured(path: Path, children: list[Child], repeats: int) -> dict[str, Any]:
    """Median seconds and recall of each library on one file; the first reading warms up and is not counted."""
    reference = _reference(path)
    row: dict[str, Any] = {"file": path.name, "kind": path.suffix[1:], "pages": _pages(path), "libraries": {}}
    seconds: dict[str, list[float]] = {child.name: [] for child in children}
    for turn in range(repeats + 1):
        for child in children:
            answer = child.read(path)
            if turn == 0:
                row["libraries"][child.name] = {"error": answer["error"], "recall": _recall(answer["text"], reference)}
            else:
                seconds[child.name].append(answer["seconds"])
    for name, values in seconds.items():
        row["libraries"][name]["seconds"] = round(statistics.median(values), 5)
    return row


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over the files that all libraries read: seconds together, relation to ours, mean recall."""
    names = list(rows[0]["libraries"]) if rows else []
    shared = [row for row in rows if not any(row["libraries"][name]["error"] for name in names)]
    ours = sum(row["libraries"]["agent_rag"]["seconds"] for row in shared)
    result: dict[str, Any] = {"files": len(rows), "read_by_all": len(shared), "pages": sum(r["pages"] for r in shared)}
    for name in names:
        total = sum(row["libraries"][name]["seconds"] for row in shared)
        recalls = [row["libraries"][name]["recall"] for row in rows if row["libraries"][name]["recall"] is not None]
        result[name] = {
            "seconds": round(total, 4),
            "times_ours": round(total / ours, 2) if ours else None,
            "pages_per_s": round(result["pages"] / total, 1) if total and result["pages"] else None,
            "recall": round(statistics.mean(recalls), 4) if recalls else None,
            "failed": [row["file"] for row in rows if row["libraries"][name]["error"]],
        }
    return result


def _show(summary: dict[str, Any]) -> None:
    for kind, result in summary.items():
        print(f"{kind}: {result['files']} files, {result['read_by_all']} read by all")
        for name, figures in result.items():
            if isinstance(figures, dict):
                print(
                    f"  {name:11} {figures['seconds']:9.3f} s  {figures['times_ours']:>6} x ours  "
                    f"recall {figures['recall']}  pages/s {figures['pages_per_s']}  failed {len(figures['failed'])}"
                )


def _files(folder: Path) -> list[Path]:
    found = [p for p in sorted((ROOT / "examples/handbook").rglob("*")) if p.suffix[1:] in KINDS]
    public = SHARED / "cases/parse/files"
    if public.is_dir():
        found += [p for p in sorted(public.iterdir()) if p.suffix[1:] in KINDS]
    return found + _generated(folder)


def _generated(folder: Path) -> list[Path]:
    import docx
    import openpyxl
    import pptx

    sentence = "The outdoor unit number {} stands on four feet and hums at {} decibels in the night. "
    pages = "".join(f"<h2>Part {i}</h2><p>{sentence.format(i, i % 50) * 5}</p>" for i in range(2_000))
    (folder / "pages.html").write_text(f"<html><title>Units</title><body>{pages}</body></html>")

    _write_manual(folder / "manual.pdf", [sentence.format(i, i % 50) * 4 for i in range(1_200)])

    document = docx.Document()
    for i in range(600):
        document.add_heading(f"Part {i}", 2) if i % 10 == 0 else document.add_paragraph(sentence.format(i, i % 50) * 4)
    table = document.add_table(60, 5)
    for r, row in enumerate(table.rows):
        for c, cell in enumerate(row.cells):
            cell.text = f"value {r} {c}"
    document.save(str(folder / "long.docx"))

    deck = pptx.Presentation()
    for i in range(80):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Slide {i}"
        slide.placeholders[1].text = "\n".join(sentence.format(i, n) for n in range(8))
    deck.save(str(folder / "deck.pptx"))

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Readings")
    for r in range(8_000):
        sheet.append([r, f"unit {r % 97}", r * 0.25, "Oslo" if r % 2 else "Bergen", *range(r, r + 6)])
    book.save(str(folder / "readings.xlsx"))
    return sorted(folder.iterdir())


def _write_manual(path: Path, paragraphs: list[str]) -> None:
    """About 120 pages of running text with headings."""
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer

    styles = getSampleStyleSheet()
    flow: list[Any] = []
    for number, paragraph in enumerate(paragraphs):
        if number % 10 == 0:
            flow.append(Paragraph(f"Part {number}", styles["Heading2"]))
        flow += [Paragraph(paragraph, styles["BodyText"]), Spacer(1, 6)]
    SimpleDocTemplate(str(path), invariant=1).build(flow)


def _pages(path: Path) -> int:
    if path.suffix != ".pdf" or shutil.which("pdfinfo") is None:
        return 0
    done = subprocess.run(["pdfinfo", str(path)], capture_output=True, text=True)
    found = re.search(r"^Pages:\s+(\d+)", done.stdout, re.M)
    return int(found[1]) if found else 0


def _reference(path: Path) -> Counter[str] | None:
    """Words of the file by a way that none of the libraries goes; None where there is none."""
    if path.suffix == ".pdf":
        if shutil.which("pdftotext") is None:
            return None
        done = subprocess.run(["pdftotext", str(path), "-"], capture_output=True)
        return _words(done.stdout.decode("utf-8", "replace"))
    if path.suffix == ".html":
        return _words(_html_text(path.read_text("utf-8", "replace")))
    try:
        return _words(_office_text(path))
    except zipfile.BadZipFile:
        return None


def _html_text(page: str) -> str:
    page = re.sub(r"(?is)<(script|style)\b.*?</\1>|<!--.*?-->", " ", page)
    return re.sub(r"<[^>]+>", " ", page)


def _office_text(path: Path) -> str:
    """Text runs of the main parts, in any order."""
    parts = {
        ".docx": r"word/document\.xml",
        ".pptx": r"ppt/slides/slide\d+\.xml",
        ".xlsx": r"xl/(sharedStrings|worksheets/sheet\d+)\.xml",
    }[path.suffix]
    runs = {".docx": r"<w:t[ >][^<]*", ".pptx": r"<a:t>[^<]*", ".xlsx": r"<t[ >][^<]*"}[path.suffix]
    with zipfile.ZipFile(path) as archive:
        texts = [
            archive.read(name).decode("utf-8", "replace") for name in archive.namelist() if re.fullmatch(parts, name)
        ]
    found = [run.partition(">")[2] for text in texts for run in re.findall(runs, text)]
    return (" " if path.suffix == ".xlsx" else "\n").join(found)


def _words(text: str) -> Counter[str]:
    return Counter(word.lower() for word in _WORD.findall(text))


def _recall(text: str, reference: Counter[str] | None) -> float | None:
    if not reference:
        return None
    return round((_words(text) & reference).total() / reference.total(), 4)


if __name__ == "__main__":
    main()
