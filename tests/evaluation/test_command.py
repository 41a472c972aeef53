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


def test_make_writes_questions_and_their_review(folder: Path) -> None:
    """Without a model from headings, and says so; what is there is not written over."""
    (folder / "docs/hours.md").write_text("# Opening hours of the shop\n\nThe shop opens at nine on all days.\n")
    assert CliRunner().invoke(app, ["ingest", "docs"]).exit_code == 0

    made = CliRunner().invoke(app, ["eval", "made.jsonl", "--make", "5"])
    measured = CliRunner().invoke(app, ["eval", "made.jsonl"])
    again = CliRunner().invoke(app, ["eval", "made.jsonl", "--make", "5"])

    assert made.exit_code == 0, made.output
    assert "wrote 1 questions to made.jsonl" in made.stdout
    assert "made from titles and headings, which keyword search finds easily" in made.stdout
    assert "2 proposals left out: the title is one word" in made.stdout
    assert "Opening hours of the shop" in (folder / "made.review.md").read_text("utf-8")
    assert "1 questions in" in measured.stdout
    assert (again.exit_code, "is there already" in again.stderr) == (2, True)


def test_tune_says_what_stands(folder: Path) -> None:
    """In one sentence, after the figures of the training questions."""
    rows = [{"question": f"canteen {number}?", "documents": ["canteen.md"]} for number in range(60)]
    (folder / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    told = CliRunner().invoke(app, ["eval", "many.jsonl", "--tune"])
    as_json = json.loads(CliRunner().invoke(app, ["eval", "many.jsonl", "--tune", "--json"]).stdout)

    assert told.exit_code == 0, told.output
    assert "The settings stand: none of those tried has a higher ndcg@10" in told.stdout
    assert (as_json["proven"], as_json["proposal"], as_json["metric"]) == (False, {}, "ndcg@10")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--make", "5", "--tune"],
        ["--make", "5", "-w", "mode=keyword"],
        ["--offline"],
        ["--chunk-size", "600"],
        ["--tune", "--html", "x.html"],
        ["--tune", "--split", "test"],
        ["--tune", "--answers"],
        ["--preset", "trpc"],
        ["--answers", "--preset", "best"],
        ["--answers", "--html", "x.html"],
    ],
)
def test_options_that_do_not_go_together(folder: Path, arguments: list[str]) -> None:
    """They are refused with the exit code of wrong usage."""
    assert CliRunner().invoke(app, ["eval", "new.jsonl", *arguments]).exit_code == 2


def test_answers_need_a_model_that_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is answered before it is clear that it can be judged."""
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)

    result = CliRunner().invoke(app, ["eval", "q.jsonl", "--answers"])

    assert (result.exit_code, "--answers needs a language model: set OPENAI_API_KEY" in result.stderr) == (2, True)
