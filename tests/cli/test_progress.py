"""What ingest and sync show while they work, and when they are interrupted."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent_rag.cli.progress import LoadState
from agent_rag.cli.reporting import show_report
from agent_rag.events import LoadProgress
from agent_rag.ingestion import FileReport, IngestReport

from .calling import lines, run

_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from agent_rag.cli import main; main()"
)


def test_json_is_lines_and_the_last_is_the_report(files: Path) -> None:
    """Each stored file is a line while the run goes on."""
    *events, report = lines("ingest", "docs")

    assert {event["event"] for event in events} == {"progress"}
    assert [event["document_id"] for event in events if event["stage"] == "store"] in (
        ["canteen.txt", "gateway.md"],
        ["gateway.md", "canteen.txt"],
    )
    assert (report["event"], report["counts"], report["ok"]) == ("report", {"added": 2}, True)


def test_quiet_says_what_failed_and_nothing_else(files: Path) -> None:
    """A run without failures is silent; one with is not, and its exit code is 1."""
    silent = run("ingest", "docs", "--quiet")
    (files / "docs/broken.pdf").write_bytes(b"%PDF-1.4 broken")
    failed = run("sync", "docs", "-q")

    assert (silent.exit_code, silent.output) == (0, "")
    assert failed.exit_code == 1
    assert "broken.pdf" in failed.stdout
    assert "unchanged" not in failed.stdout


def test_stages_have_rates_and_times_to_go() -> None:
    """Read 20 of 100 files in 10 s: 2 a second, 40 s to go; worked out by hand."""
    state = LoadState()
    state.take(LoadProgress(source="a", stage="list", done=0, total=100))
    state.take(
        LoadProgress(
            source="a",
            stage="parse",
            done=20,
            total=100,
            document_id="x/y.md",
            chunks=50,
            chunks_waiting=10,
            elapsed_s=10.0,
        )
    )
    later: dict[str, Any] = {"total": 100, "chunks": 50, "chunks_waiting": 10, "elapsed_s": 10.0}
    state.take(LoadProgress(source="a", stage="store", done=8, document_id="b.md", **later))
    state.take(LoadProgress(source="a", stage="store", done=9, error="broken", **later))

    read, embed, store = state.stages
    assert (read.rate, read.left_s) == (2.0, 40.0)
    assert (embed.done, embed.total, embed.rate) == (50, 60, 5.0)
    assert (store.done, store.total) == (9, 100)
    assert (
        state.line()
        == "read 20 of 100 (2/s); embed 50 chunks (5/s); store 9 of 100 (1/s); about 40 s to go; 1 failed; b.md"
    )


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_bars_fit_the_terminal(width: int) -> None:
    """No line is wider than the terminal, also with a long name."""
    state = LoadState()
    state.take(
        LoadProgress(
            source="a",
            stage="parse",
            done=2_000,
            total=240_000,
            document_id="f/" * 150,
            chunks=9,
            chunks_waiting=2,
            elapsed_s=10.0,
        )
    )
    shown = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    shown.print(state)

    written = shown.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, written)) <= width
    assert any("read" in line and "2,000/240,000" in line for line in written)


@pytest.mark.slow
def test_an_interrupt_says_what_is_kept_and_how_to_go_on(files: Path) -> None:
    """In a log without a terminal: one line, exit code 130."""
    for number in range(3_000):
        (files / f"docs/{number}.txt").write_text(f"document {number} " + "word " * 400)
    command = [sys.executable, "-c", _PROGRAM, "ingest", "docs"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    written = files / ".agent-rag/store.db-wal"
    while not (written.exists() and written.stat().st_size > 500_000):  # documents, not only tables
        assert child.poll() is None
        time.sleep(0.02)

    os.kill(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=120)

    assert child.returncode == 130
    assert "interrupted; " in told
    assert "of 3,002 files were written in this run and are kept; the same command goes on from there" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("width", [40, 80, 200])
def test_reports_fit_the_terminal_and_cut_no_name(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folded names are whole when their pieces are put together; failures stand before the rest."""
    long = "a-folder-of-a-deep-tree/" * 3 + "the-name-of-a-document.md"
    report = IngestReport(
        files=[
            FileReport(document_id=long, uri="file:///a", outcome="added", chunks=3),
            FileReport(document_id="b.pdf", uri="file:///b", outcome="failed", reason="b.pdf: cannot be read"),
        ]
    )
    shown = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr("agent_rag.cli.reporting.console_of", lambda: shown)

    show_report(report, as_json=False)

    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    assert long in "".join(line.split(" ")[0] for line in text.splitlines())
    assert text.index("1 failed") < text.index("a-folder")
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
