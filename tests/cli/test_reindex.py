"""`agent-rag reindex --keywords`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calling import result, run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("The pumps have been running loudly since yesterday.")
    (tmp_path / "agent-rag.toml").write_text('[knowledge_bases.notes]\nembedding = "none"\n')
    assert run("ingest", "notes").exit_code == 0
    return tmp_path


def test_the_keyword_index_is_made_anew(folder: Path) -> None:
    """With parts of words on request; `status` says what there is."""
    before = result("status")[0]
    first, again = result("reindex", "--keywords", "--grams"), result("reindex", "--keywords", "--grams")
    after = result("status")[0]

    assert (before["keywords"], after["keywords"]) == ("words+title+pairs", "words+title+pairs+grams")
    assert first == {"fields": "words+title+pairs+grams", "documents": 1, "chunks": 1, "unchanged": 0}
    assert (again["documents"], again["unchanged"]) == (0, 1)
    assert result("search", "pumqs", "--mode", "keyword")[0]["document_id"] == "a.txt"


def test_the_configuration_chooses_the_fields(folder: Path) -> None:
    """`keyword_grams` of the search table."""
    with (folder / "agent-rag.toml").open("a") as file:
        file.write("[knowledge_bases.notes.search]\nkeyword_grams = true\n")

    shown = run("reindex", "--keywords").stdout

    assert shown == "1 documents (1 chunks) indexed anew with words+title+pairs+grams\n"


def test_reindex_wants_to_know_what(folder: Path) -> None:
    """It is no command without an option."""
    refused = run("reindex")

    assert refused.exit_code == 2
    assert "agent-rag reindex --keywords" in refused.output


def test_another_model_is_used_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a configured model the collection says which local one it has; a configured one is to be changed."""
    pytest.importorskip("onnxruntime", reason="pip install -r requirements/test.txt")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("The pumps have been running loudly since yesterday.")
    assert run("ingest", "notes").exit_code == 0

    report = result("reindex", "--model", "local:all-MiniLM-L6-v2")
    hits = result("search", "noise of machines", "--mode", "semantic")
    (tmp_path / "agent-rag.toml").write_text('[knowledge_bases.default]\nembedding = "local:all-MiniLM-L6-v2"\n')
    shown = run("reindex", "--model", "local").stdout
    refused = run("search", "noise of machines")

    assert report == {"collection": "default", "switched": True, "documents": 1, "chunks": 1, "unchanged": 0}
    assert hits[0]["document_id"] == "a.txt"
    assert shown.splitlines() == [
        "1 documents (1 chunks) embedded with local",
        'in agent-rag.toml, from now on: embedding = "local"',
    ]
    assert refused.exit_code == 4
    assert "agent-rag reindex --model NAME" in refused.output


def test_an_ingestion_says_when_other_fields_are_asked_for(folder: Path) -> None:
    """One line of its report, with the command."""
    with (folder / "agent-rag.toml").open("a") as file:
        file.write("[knowledge_bases.notes.search]\nkeyword_grams = true\n")
    (folder / "notes" / "b.txt").write_text("The valves are loud.")

    report = result("ingest", "notes")

    assert report["notes"] == [
        "collection 'notes' has the keyword fields words+title+pairs, without parts of words; "
        "`agent-rag reindex --keywords` changes that"
    ]
