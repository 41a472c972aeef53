"""Parsing against AgentScope, markitdown and kreuzberg: speed and text recall on the same files, in one run.

Each library runs in a process and an environment of its own; for each file they take turns, so that the load of the
machine hits all alike. Text recall is the share of the words of an independent reference that a library finds:
`pdftotext` (Debian: poppler-utils) for PDF, a raw walk of the XML for Office, the text nodes for HTML without
navigation (and beside it with all of them); precision is
the share of a library's words that the reference has, so that text given twice shows. The files are the handbook,
generated ones, and, where they exist, Debian's manuals and the public cases beside the checkout.

Words are compared in the form of Unicode's NFKC, since pdftotext keeps ligatures, and with lam and alef in one order,
since it turns the two letters of an Arabic lam-alef glyph round.

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
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from _common import ROOT, write_result
from _parse_files import KINDS, MANUALS, benchmark_files
from _parse_references import html_text, office_text

COMPETITORS = {
    "agentscope": "agentscope[rag]==2.0.11",
    "markitdown": "markitdown[pdf,docx,pptx,xlsx]",
    "kreuzberg": "kreuzberg==4.10.4",
}
ENVIRONMENTS = ROOT / ".bench"
SLOW_S = 10.0
"""A library that takes longer for a file reads it only once more."""
_WORD = re.compile(r"\w+")
_LAM_ALEF = re.compile("\u0644([\u0622\u0623\u0625\u0627])")


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
        files = benchmark_files(Path(folder), arguments.kinds) + arguments.files
        pythons = _pythons(arguments.python)
        children = [Child(name, python) for name, python in pythons.items() if name not in arguments.without]
        rows = [_measured(path, children, arguments.repeats) for path in files]
        for child in children:
            child.__exit__(None, None, None)
    summary = {kind: _summary([row for row in rows if row["kind"] == kind]) for kind in arguments.kinds}
    _show(rows, summary)
    if arguments.kinds != list(KINDS) or arguments.without:
        return  # the result file holds all
    packages = ("agent-rag-middleware", "pypdf", "pypdfium2", "openpyxl", "lxml")
    write_result(
        "parsing",
        {"summary": summary, "files": rows, "competitors": COMPETITORS, "manuals": MANUALS},
        packages=packages,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PYTHON")
    parser.add_argument("--files", nargs="*", type=Path, default=[], help="measure these too, for example long PDFs")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS), help="only these; writes no result")
    parser.add_argument("--without", nargs="*", choices=COMPETITORS, default=[], help="leave out; writes no result")
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
            if seconds[child.name] and seconds[child.name][0] > SLOW_S:
                continue
            answer = child.read(path)
            if turn == 0:
                row["libraries"][child.name] = {"error": answer["error"], **_agreement(answer["text"], reference)}
                if path.suffix == ".html":
                    everything = _words(html_text(path.read_text("utf-8", "replace")))
                    full = _agreement(answer["text"], everything)["recall"]
                    row["libraries"][child.name]["recall_with_navigation"] = full
            else:
                seconds[child.name].append(answer["seconds"])
    for name, values in seconds.items():
        row["libraries"][name]["seconds"] = round(statistics.median(values), 5)
    print(path.name, *(f"{name} {values[-1] * 1000:.1f} ms" for name, values in seconds.items()))
    return row


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over the files that all libraries read: seconds together, relation to ours, mean recall."""
    names = list(rows[0]["libraries"]) if rows else []
    shared = [row for row in rows if not any(row["libraries"][name]["error"] for name in names)]
    ours = sum(row["libraries"]["agent_rag"]["seconds"] for row in shared)
    result: dict[str, Any] = {"files": len(rows), "read_by_all": len(shared), "pages": sum(r["pages"] for r in shared)}
    for name in names:
        total = sum(row["libraries"][name]["seconds"] for row in shared)
        relations = [row["libraries"][name]["seconds"] / row["libraries"]["agent_rag"]["seconds"] for row in shared]
        result[name] = {
            "seconds": round(total, 4),
            "times_ours": round(total / ours, 2) if ours else None,
            "times_ours_median_file": round(statistics.median(relations), 2) if relations else None,
            "pages_per_s": round(result["pages"] / total, 1) if total and result["pages"] else None,
            "recall": _mean(rows, name, "recall"),
            "precision": _mean(rows, name, "precision"),
            **({"recall_with_navigation": _mean(rows, name, "recall_with_navigation")} if _is_html(rows) else {}),
            "failed": [row["file"] for row in rows if row["libraries"][name]["error"]],
        }
    return result


def _is_html(rows: list[dict[str, Any]]) -> bool:
    return any(row["kind"] == "html" for row in rows)


def _mean(rows: list[dict[str, Any]], name: str, figure: str) -> float | None:
    values = [row["libraries"][name][figure] for row in rows if row["libraries"][name][figure] is not None]
    return round(statistics.mean(values), 4) if values else None


def _show(rows: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    for kind, result in summary.items():
        print(f"{kind}: {result['files']} files, {result['read_by_all']} read by all")
        for row in (row for row in rows if row["kind"] == kind):
            ours = row["libraries"]["agent_rag"]["seconds"]
            figures = [f"{n} {r['seconds'] / ours:.1f}x {r['recall']}" for n, r in row["libraries"].items()]
            print(f"  {row['file']:45} {row['pages']:4} pages  {'  '.join(figures)}")
        for name, figures in result.items():
            if isinstance(figures, dict):
                print(
                    f"  {name:11} {figures['seconds']:9.3f} s  {figures['times_ours']:>6} x ours, median file "
                    f"{figures['times_ours_median_file']}  recall {figures['recall']}  precision "
                    f"{figures['precision']}  pages/s {figures['pages_per_s']}  failed {len(figures['failed'])}"
                )


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
        return _words(html_text(path.read_text("utf-8", "replace"), main=True))
    try:
        return _words(office_text(path))
    except zipfile.BadZipFile:
        return None


def _words(text: str) -> Counter[str]:
    text = _LAM_ALEF.sub("\\1\u0644", unicodedata.normalize("NFKC", text))
    return Counter(word.lower() for word in _WORD.findall(text))


def _agreement(text: str, reference: Counter[str] | None) -> dict[str, float | None]:
    """Share of the reference's words that are in the text, and of the text's that are in the reference."""
    if not reference:
        return {"recall": None, "precision": None}
    words = _words(text)
    common = (words & reference).total()
    return {
        "recall": round(common / reference.total(), 4),
        "precision": round(common / words.total(), 4) if words else None,
    }


if __name__ == "__main__":
    main()
