"""agent-rag tables and query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent_rag.cli.app import app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose one file is ingested."""
    monkeypatch.chdir(tmp_path)
    for variable in ("AGENT_RAG_STORE", "AGENT_RAG_CONFIG", "AGENT_RAG_KNOWLEDGE_BASE"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/pay.csv").write_text("name;euro\nAda;1.234,50\nBo;12,00\nCleo;k.A.\n")
    assert run("ingest", "docs").exit_code == 0
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_tables_are_kept_beside_the_store_and_asked(folder: Path) -> None:
    """Without any setting."""
    shown = run("tables")
    found = json.loads(run("query", "select sum(euro) as total from pay", "--json").stdout)

    assert "pay: 3 rows, pay.csv, rows 2-4" in shown.stdout
    assert "euro number: 12.0 to 1234.5, 1 NULL" in shown.stdout
    assert found["rows"] == [[1246.5]]
    assert found["citations"][0]["rows"] == [2, 4]
    assert (folder / ".agent-rag/store.tables").is_dir()


def test_a_wrong_query_is_one_line(folder: Path) -> None:
    """With what is nearest, and an exit code."""
    result = run("query", "select eur from pay")

    assert result.exit_code == 1
    assert result.stderr == "agent-rag: there is no column 'eur'; nearest: euro\n"


def test_the_rows_are_shown_with_their_source(folder: Path) -> None:
    result = run("query", "select name, euro from pay where euro > 100")

    assert "1234.5" in result.stdout
    assert "source: pay.csv, rows 2-4" in result.stdout


def test_tables_can_be_switched_off_and_moved(folder: Path) -> None:
    """By `tables` in agent-rag.toml; a folder is relative to it."""
    (folder / "agent-rag.toml").write_text('[knowledge_bases.a]\nstore = "sqlite:a.db"\ntables = false\n')
    run("ingest", "docs")
    off = run("tables")
    (folder / "agent-rag.toml").write_text('[knowledge_bases.a]\nstore = "sqlite:a.db"\ntables = "elsewhere"\n')
    run("ingest", "docs")
    moved = run("query", "select count(*) from pay")

    assert off.exit_code == 2
    assert "keeps no tables" in off.stderr
    assert moved.exit_code == 0
    assert (folder / "elsewhere").is_dir()
    assert not (folder / "a.tables").exists()


def test_a_dropped_knowledge_base_leaves_no_tables(folder: Path) -> None:
    run("drop", "default", "--yes")

    assert list((folder / ".agent-rag/store.tables").rglob("*.db")) == []
