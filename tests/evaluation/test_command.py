"""``agent-rag eval`` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_rag.cli.app import app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two ingested files and two questions."""
    monkeypatch.chdir(tmp_path)
    for variable in ("AGENT_RAG_STORE", "AGENT_RAG_CONFIG", "AGENT_RAG_KNOWLEDGE_BASE", "OPENAI_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/gateway.md").write_text("# Gateway\n\nThe gateway timeout is thirty seconds.\n")
    (tmp_path / "docs/canteen.md").write_text("# Canteen\n\nThe canteen opens at noon.\n")
    rows = [
        {"question": "what is the gateway timeout?", "quotes": ["thirty seconds"]},
        {"question": "when does the canteen open?", "documents": ["canteen.md"]},
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert CliRunner().invoke(app, ["ingest", "docs"]).exit_code == 0
    return tmp_path


def test_eval_prints_a_table_and_writes_a_page(folder: Path) -> None:
    """A row for each configuration, its differences below it."""
    result = CliRunner().invoke(
        app, ["eval", "q.jsonl", "-w", "mode=keyword", "-w", "chunk_size=100", "--html", "r.html"]
    )

    assert result.exit_code == 0, result.output
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows] == ["now", "mode=keyword", "", "", "chunk_size=100", "", ""]
    assert "+0.000 to +0.000" in rows[3]
    assert "2 questions in" in result.stdout
    assert "<h2>mode=keyword: 0 better, 0 worse" in (folder / "r.html").read_text("utf-8")


def test_eval_prints_json(folder: Path) -> None:
    """Every figure and every question's, without the texts of hits."""
    result = CliRunner().invoke(app, ["eval", "q.jsonl", "--json", "-w", "mode=semantic"])

    report = json.loads(result.stdout)
    assert [one["name"] for one in report["configurations"]] == ["now", "mode=semantic"]
    assert report["configurations"][0]["metrics"]["recall@5"] == 1.0
    assert report["configurations"][1]["differences"]["recall@5"]["significant"] is False
    (first, _) = report["results"][0]["outcomes"]["now"]["hits"]
    assert (first["chunk_id"], first["relevant"], first["place"]) == ("gateway.md:0", True, "lines 1-3 · Gateway")
    assert "text" not in first


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["q.jsonl", "--split", "half"], "use train, test or all"),
        (["q.jsonl", "-w", "mode=best"], "mode 'best' is unknown"),
        (["none.jsonl"], "none.jsonl: cannot be read"),
        (["wrong.jsonl"], "wrong.jsonl, line 1: is no JSON"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder: Path, arguments: list[str], told: str) -> None:
    """With the exit code of wrong usage."""
    (folder / "wrong.jsonl").write_text("what is this?")

    result = CliRunner().invoke(app, ["eval", *arguments])

    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
