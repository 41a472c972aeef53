"""Sixty things that people get wrong: one readable message with the cure, the right exit code, no traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .calling import run
from .conftest import VARIABLES

FAILED, USAGE, DOWN, REFUSED = 1, 2, 3, 4


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that was ingested, with files that cannot be read."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for variable in VARIABLES:
            patch.delenv(variable, raising=False)
        (folder / "docs").mkdir()
        (folder / "docs/gateway.md").write_text("# Gateway\n\nThe gateway timeout is thirty seconds.\n")
        assert run("ingest", "docs").exit_code == 0
    (folder / "empty").mkdir()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "not.toml").write_text("[knowledge_bases")
    (folder / "text.db").write_text("no store at all")
    return folder


@pytest.fixture
def place(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to make mistakes in."""
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    return folder


MISTAKES: list[tuple[str, int, str]] = [
    # names
    ("search -k nosuch x", USAGE, "it has default"),
    ("ask -k nosuch x", USAGE, "it has default"),
    ("list -k nosuch", USAGE, "it has default"),
    ("show gateway.md -k nosuch", USAGE, "it has default"),
    ("drop nosuch --yes", USAGE, "it has default"),
    ("show nosuch.md", FAILED, "agent-rag list names them"),
    ("delete nosuch.md", FAILED, "not in this knowledge base"),
    ("remove nosuch", USAGE, "nosuch"),
    ("reload nosuch", USAGE, "nosuch"),
    ("serach x", USAGE, "No such command"),
    # paths
    ("ingest nowhere", FAILED, "nowhere"),
    ("ingest empty", USAGE, "no file found in empty"),
    ("ingest broken.pdf", FAILED, "broken.pdf"),
    ("sync nowhere", USAGE, "does not exist"),
    ("sync broken.pdf", USAGE, "is a file"),
    ("sync empty", USAGE, "no file found in empty"),
    ("ingest", USAGE, "agent-rag ingest FOLDER"),
    ("sync", USAGE, "no path is given"),
    ("ingest docs broken.pdf --watch", USAGE, "--watch takes one directory"),
    ("ingest docs empty --source x", USAGE, "is for one source"),
    ("ingest http://127.0.0.1:9/x", FAILED, "--allow-private"),
    ("ingest nosuch://bucket/x", FAILED, "Protocol not known: nosuch"),
    # sizes and options
    ("ingest docs --chunk-size 100 --overlap 100", USAGE, "is not smaller than"),
    ("ingest docs --chunk-size 100 --overlap 200", USAGE, "is not smaller than"),
    ("ingest docs --chunk-size 0", USAGE, "chunk-size"),
    ("ingest docs --chunk-size -5", USAGE, "chunk-size"),
    ("ingest docs --chunk-size many", USAGE, "chunk-size"),
    ("ingest docs --overlap -1", USAGE, "overlap"),
    ("search", USAGE, "Missing argument"),
    ("search x -n 0", USAGE, "top-k"),
    ("search x -n 1000", USAGE, "limits.results"),
    ("search x --mode psychic", USAGE, "psychic"),
    ("ask x --mode psychic", USAGE, "use agentic or static"),
    ("search x --threshold high", USAGE, "threshold"),
    ("search x --filter {", USAGE, "filter"),
    ("search x --filter []", USAGE, "filter"),
    ('search x --filter {"year":{"near":3}}', USAGE, "filter"),
    ("list --status lost", USAGE, "use stored, skipped or failed"),
    ("list --limit 0", USAGE, "limit"),
    ("search x --nosuch", USAGE, "No such option"),
    # stores
    ("list --store nosuch:thing", USAGE, "unknown scheme 'nosuch'"),
    ("list --store sqlite:other.db", USAGE, "agent-rag ingest PATH makes it"),
    ("list --store sqlite:text.db", FAILED, "text.db"),
    ("check --store sqlite:other.db", FAILED, "does not exist"),
    ("check --store memory:", USAGE, "tools of its own"),
    ("backup .agent-rag/store.db", USAGE, "name a new file for the backup"),
    ("copy sqlite:.agent-rag/store.db", USAGE, "Missing argument"),
    ("copy memory: memory:#x", USAGE, "add #COLLECTION there"),
    ("copy sqlite:.agent-rag/store.db#nosuch memory:", FAILED, "there is no collection 'nosuch'"),
    ("list --store postgresql://127.0.0.1:9/x", DOWN, "127.0.0.1"),
    # configuration
    ("list --config missing.toml", USAGE, "missing.toml does not exist"),
    ("list --config not.toml", USAGE, "is not valid TOML"),
    ("status --config not.toml", USAGE, "is not valid TOML"),
    ("mcp -k nosuch --config not.toml", USAGE, "is not valid TOML"),
    ("config nosuch", USAGE, "No such command"),
    ("init nowhere", USAGE, "does not exist"),
    ("eval missing.jsonl", USAGE, "missing.jsonl"),
]

SETTINGS: list[tuple[str, str, int, str]] = [
    ("[knowledge_bases.default]\nembeding = 'local'", "search x", USAGE, "knowledge_bases.default.embeding"),
    ("[knowledge_bases.default]\nembedding = 'nosuch'", "search x", USAGE, "use one of"),
    ("[knowledge_bases.default]\nembedding = 'openai:x'\ndimensions = 256", "search x", REFUSED, "was built with"),
    ("[knowledge_bases.default]\nembedding = 'openai:x'\ndimensions = 8", "ingest docs", REFUSED, "256"),
    ("[knowledge_bases.default]\nembedding = 'openai:x'", "ingest docs", USAGE, "dimensions"),
    ("[knowledge_bases.default]\nembedding = 'none'", "search x --mode semantic", USAGE, "mode='keyword'"),
    ("[knowledge_bases.a]\n[knowledge_bases.b]", "search x -k c", USAGE, "it has a, b"),
    ("default = 'c'\n[knowledge_bases.a]", "search x", USAGE, "it has a"),
    ("[knowledge_bases.default]\nchunk_size = 10", "ingest docs", USAGE, "chunk_size"),
    ("[knowledge_bases.default]\nmetadata_filter = { tenant = ['a'] }", "search x", USAGE, "metadata_filter"),
]


@pytest.mark.parametrize(("command", "code", "message"), MISTAKES, ids=[mistake[0] for mistake in MISTAKES])
def test_a_mistake_is_one_message(place: Path, command: str, code: int, message: str) -> None:
    """It names what is wrong or what to do, and ends with the code that the documentation gives."""
    _check(command, code, message)


@pytest.mark.parametrize(("text", "command", "code", "message"), SETTINGS, ids=[one[0][-30:] for one in SETTINGS])
def test_a_mistake_in_the_file_is_one_message(place: Path, text: str, command: str, code: int, message: str) -> None:
    """The entry is named."""
    (place / "agent-rag.toml").write_text(text)

    _check(command, code, message)


def _check(command: str, code: int, message: str) -> None:
    told = run(*command.split(" "))

    assert told.exit_code == code, told.output
    assert message in told.output
    assert "Traceback" not in told.output
    assert told.exception is None or isinstance(told.exception, SystemExit), told.exception
