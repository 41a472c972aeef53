"""The command line, as a user calls it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent_rag import KnowledgeBase, MemoryStore, TextSource, sync
from agent_rag.chat import ChatReply
from agent_rag.cli.app import app
from agent_rag.cli.ask import answer
from agent_rag.config import load_settings
from agent_rag.config.settings import store_uri
from agent_rag.errors import ConfigurationError
from agent_rag.testing import HashEmbedding
from tests.cpu import cpu_seconds


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a folder of two files."""
    monkeypatch.chdir(tmp_path)
    for variable in ("AGENT_RAG_STORE", "AGENT_RAG_CONFIG", "AGENT_RAG_KNOWLEDGE_BASE", "OPENAI_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/gateway.md").write_text("# Gateway\n\nThe gateway timeout is thirty seconds.\n")
    (tmp_path / "docs/canteen.txt").write_text("The canteen opens at noon.\n")
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def run_json(*arguments: str) -> Any:
    """The last line, which is the result; lines of progress are before it."""
    result = run(*arguments, "--json")
    return json.loads(result.stdout.splitlines()[-1])


def test_ingest_search_list_delete(files: Path) -> None:
    """The main job: add, find, list, see nothing changed, delete."""
    first = run_json("ingest", "docs")
    second = run_json("ingest", "docs")
    (hit,) = run_json("search", "what is the gateway timeout?", "-n", "1")
    listed = run_json("list")
    deleted = run_json("delete", "docs/gateway.md")

    assert first["counts"] == {"added": 2}
    assert second["counts"] == {"unchanged": 2}
    assert (second["embedded"], second["ok"]) == (0, True)
    assert hit["document_id"] == "gateway.md"
    assert hit["chunk"]["heading_path"] == ["Gateway"]
    assert [document["document_id"] for document in listed] == ["canteen.txt", "gateway.md"]
    assert deleted == {"docs/gateway.md": 1}


def test_failures_set_the_exit_code(files: Path) -> None:
    """A file that fails is in the table with its reason, and the exit code is 1; the others are in. (I01)"""
    (files / "docs/broken.pdf").write_bytes(b"%PDF-1.4 broken")

    result = run("ingest", "docs")

    assert result.exit_code == 1
    assert "broken.pdf" in result.stdout
    assert "failed" in result.stdout
    assert "2 added, 1 failed" in result.stdout or "1 failed, 2 added" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ingest", "empty"], 2, "no file found in empty"),
        (["ingest", "nowhere"], 1, "nowhere"),
        (["delete", "unknown"], 2, "there is no store yet"),
        (["search", "x", "--filter", "{"], 2, "there is no store yet"),
        (["search", "x", "--mode", "psychic"], 2, "there is no store yet"),
        (["list", "--store", "nosuch:thing"], 2, "unknown scheme 'nosuch'"),
        (["list", "--config", "missing.toml"], 2, "missing.toml does not exist"),
        (["copy", "memory:", "memory:#x"], 2, "add #COLLECTION there"),
        (["copy", "memory:#x", "memory:"], 1, "there is no collection 'x'"),
    ],
)
def test_mistakes_get_one_line(files: Path, arguments: list[str], code: int, message: str) -> None:
    """What went wrong is one line without a traceback, and the exit code says so. (I03, I13)"""
    (files / "empty").mkdir()

    result = run(*arguments)

    assert result.exit_code == code, result.output
    assert message in result.output
    assert "Traceback" not in result.output


def test_sync_prunes_and_refuses_to_prune_most(files: Path) -> None:
    """sync deletes what is gone; most of it only with --force."""
    run("sync", "docs")
    for path in (files / "docs").iterdir():
        path.unlink()
    (files / "docs/new.txt").write_text("new text")

    refused = run("sync", "docs")
    forced = run_json("sync", "docs", "--force")

    assert refused.exit_code == 1
    assert "--force" in refused.output
    assert forced["counts"] == {"pruned": 2, "unchanged": 1}


def test_configuration_names_knowledge_bases(files: Path) -> None:
    """agent-rag.toml chooses store, collection and scope; its folders are relative to it."""
    (files / "conf").mkdir()
    (files / "conf/agent-rag.toml").write_text(
        'default = "a"\n'
        '[knowledge_bases.a]\nstore = "qdrant:store"\ncollection = "shared"\nmetadata_filter = { tenant = "a" }\n'
        '[knowledge_bases.b]\nstore = "qdrant:store"\ncollection = "shared"\nmetadata_filter = { tenant = "b" }\n'
    )

    run("ingest", "docs", "--config", "conf/agent-rag.toml")
    mine = run_json("list", "--config", "conf/agent-rag.toml")
    theirs = run_json("list", "--config", "conf/agent-rag.toml", "--kb", "b")
    unknown = run("list", "--config", "conf/agent-rag.toml", "--kb", "c")

    assert (files / "conf/store").is_dir()
    assert [document["document_id"] for document in mine] == ["canteen.txt", "gateway.md"]
    assert theirs == []
    assert "it has a, b" in unknown.output


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = [", "not valid TOML"), ("[knowledge_bases.a]\nstor = 1", "knowledge_bases.a.stor"), ("nope = 1", "nope")],
)
def test_a_wrong_configuration_names_the_entry(files: Path, text: str, message: str) -> None:
    """A typo in the file is an error that names it."""
    (files / "agent-rag.toml").write_text(text)

    with pytest.raises(ConfigurationError, match=message):
        load_settings()


def test_copy_moves_a_collection(files: Path) -> None:
    """A collection goes to another store with its vectors, and is searchable there."""
    run("ingest", "docs", "--store", "qdrant:one")

    report = run_json("copy", "qdrant:one#default", "qdrant:two#moved")
    (files / "agent-rag.toml").write_text('[knowledge_bases.moved]\nstore = "qdrant:two"\n')
    (hit,) = run_json("search", "gateway timeout", "-n", "1")

    assert (report["documents"], report["chunks"]) == (2, 2)
    assert hit["document_id"] == "gateway.md"


def test_copy_without_a_collection_takes_all(files: Path) -> None:
    """Every collection goes under its own name; renaming needs one."""
    run("ingest", "docs", "--store", "qdrant:one", "-k", "a")
    run("ingest", "docs/gateway.md", "--store", "qdrant:one", "-k", "b")

    report = run_json("copy", "qdrant:one", "sqlite:two.db")

    assert (report["documents"], report["chunks"]) == (3, 3)
    assert len(run_json("list", "--store", "two.db", "-k", "a")) == 2
    assert run("copy", "qdrant:one", "sqlite:two.db#c").exit_code == 2


def test_check_backup_and_compact(files: Path) -> None:
    """A backup is a store; a damaged one is told by its exit code; deleted text is gone from the compacted file."""
    run("ingest", "docs")

    checked = run_json("check")
    copied = run_json("backup", "copy.db")
    run("delete", "gateway.md")
    compacted = run_json("compact")
    left = subprocess.run(["grep", "-c", "thirty seconds", ".agent-rag/store.db"], capture_output=True, text=True)

    assert (checked["documents"], checked["problems"], checked["ok"]) == (2, [], True)
    assert copied["bytes"] == (files / "copy.db").stat().st_size
    assert compacted["settled"]
    assert left.stdout == "0\n"
    assert len(run_json("list", "--store", "sqlite:copy.db")) == 2
    assert run("backup", "copy.db").exit_code == 2
    assert run("check", "--store", "nowhere.db").exit_code == 1
    assert run("check", "--store", "memory:").exit_code == 2


def test_a_former_default_store_is_named(files: Path) -> None:
    """Where only the Qdrant folder of an earlier version is, a line says how to take it over; not once that is done."""
    run("ingest", "docs", "--store", "qdrant:.agent-rag/store")

    first = run("list")
    assert not (files / ".agent-rag/store.db").exists()  # reading makes nothing
    run("copy", "qdrant:.agent-rag/store", "sqlite:.agent-rag/store.db")
    second = run("list")

    assert "agent-rag copy qdrant:.agent-rag/store sqlite:.agent-rag/store.db" in first.stderr
    assert second.stderr == ""
    assert "gateway.md" in second.stdout


def test_doctor_tells_what_is_here(files: Path) -> None:
    """Every default dependency is found; extras carry their install line; configured stores are pinged."""
    (files / "agent-rag.toml").write_text('[knowledge_bases.a]\nstore = "memory:"\n')

    findings = run_json("doctor")

    assert {finding["name"] for finding in findings if finding["required"] and not finding["ok"]} == set()
    assert {key: value for key, value in findings[-1].items() if key in ("kind", "name", "ok")} == {
        "kind": "store",
        "name": "a",
        "ok": True,
    }
    extras = {finding["name"] for finding in findings if finding["kind"] == "extra"}
    assert "postgres" in extras
    assert not extras & {"test", "bench", "adapter-test"}
    missing = [finding for finding in findings if finding["kind"] == "extra" and not finding["ok"]]
    assert all(finding["detail"] == f"pip install 'agent-rag-middleware[{finding['name']}]'" for finding in missing)


def test_ask_quotes_and_cites_offline(files: Path) -> None:
    """Without a model, ask quotes the sentence with its citation; what is not there is not found."""
    run("ingest", "docs")

    answer = run_json("ask", "What is the gateway timeout?")
    unknown = run_json("ask", "Who won the football championship?")

    assert "thirty seconds" in answer["text"]
    assert [source["document_id"] for source in answer["citations"]] == ["gateway.md"]
    assert f"[{answer['citations'][0]['number']}]" in answer["text"]
    assert "not found" in unknown["text"].lower()
    assert unknown["citations"] == []


def test_small_chunks_and_version(files: Path) -> None:
    """--chunk-size alone scales the overlap; --version answers; an empty path is refused."""
    assert run("ingest", "docs", "--chunk-size", "60").exit_code == 0
    assert run("--version").stdout.startswith("agent-rag 0.")
    assert "a path is empty" in run("ingest", "").output


def test_ask_says_that_it_could_not_search(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead embedding endpoint is no "not found": the answer says so and the exit code is 1."""
    run("ingest", "docs", "--store", "qdrant:dead")
    (files / "agent-rag.toml").write_text(
        '[knowledge_bases.default]\nstore = "qdrant:dead"\nembedding = "openai:x"\ndimensions = 256\n'
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")

    result = run("ask", "--offline", "What is the gateway timeout?")

    assert result.exit_code == 1
    assert "nothing could be searched" in result.output


def test_control_characters_do_not_reach_the_terminal(files: Path) -> None:
    """A file name cannot colour the terminal."""
    (files / "docs/esc\x1b[31mred.txt").write_text("text")

    assert "\x1b[31m" not in run("ingest", "docs").stdout


@pytest.mark.slow
def test_an_interrupted_ingest_can_be_run_again(files: Path) -> None:
    """SIGINT ends it within 5 seconds of CPU with code 130 and leaves no lock; the next run completes. (I17)"""
    for number in range(3_000):
        (files / f"docs/{number}.txt").write_text(f"document {number} " + "word " * 400)
    # A test run in the background of a shell ignores SIGINT, and so would its children.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from agent_rag.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "ingest", "docs", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (files / ".agent-rag/store.db").exists():
        time.sleep(0.05)
    time.sleep(1.0)

    started = cpu_seconds()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=120)
    spent = cpu_seconds() - started
    again = subprocess.run(command, capture_output=True, text=True, check=True)

    assert child.returncode == 130
    assert spent < 5
    report = json.loads(again.stdout.splitlines()[-1])
    assert report["ok"]
    assert sum(report["counts"].values()) == 3_002


def test_a_misspelt_knowledge_base_is_refused(files: Path) -> None:
    """CL01: what reads is told which names there are; what writes says that it made a new one."""
    run("ingest", "docs")

    for command in (["search", "gateway"], ["ask", "gateway?"], ["list"], ["show", "gateway.md"], ["sources"]):
        result = run(*command, "-k", "defualt")
        assert result.exit_code == 2, command
        assert "no knowledge base 'defualt' in this store; it has default" in result.stderr
    assert "'other' is a new knowledge base" in run("ingest", "docs", "-k", "other").stderr
    assert "new knowledge base" not in run("ingest", "docs", "-k", "other").stderr
    assert run("search", "gateway", "-k", "other").exit_code == 0


def test_reading_makes_nothing(files: Path) -> None:
    """Before the first ingestion there is no store, and asking for one does not make it."""
    for command in (["search", "x"], ["list"], ["status"], ["sources"], ["check"], ["ask", "x"]):
        run(*command)

    assert not (files / ".agent-rag").exists()
    (status,) = run_json("status")
    assert "does not exist yet" in status["note"]


@pytest.mark.parametrize(
    "sizes", [["100", "100"], ["100", "200"], ["0", "0"], ["-1", "0"], ["many", "0"], ["49", "0"], ["100", "-1"]]
)
def test_sizes_that_cannot_work_are_usage_errors(files: Path, sizes: list[str]) -> None:
    """CL03: one line and exit code 2, no traceback."""
    result = run("ingest", "docs", "--chunk-size", sizes[0], "--overlap", sizes[1])

    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_doctor_and_ask_say_what_the_chat_model_lacks(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CL04: a key alone is no model."""
    run("ingest", "docs")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-12345678")
    monkeypatch.delenv("OPENAI_MODEL", raising=False)

    (chat,) = [finding for finding in run_json("doctor") if finding["name"] == "chat model"]
    asked = run("ask", "What is the gateway timeout?")

    assert (chat["ok"], "OPENAI_MODEL is not set" in chat["detail"]) == (False, True)
    assert "quoted, not answered by a language model: OPENAI_MODEL is not set" in asked.stderr
    assert run_json("ask", "What is the gateway timeout?", "--offline")["note"] is None


def test_one_place_is_one_store_in_every_command(files: Path) -> None:
    """CL06: the default store and one that is named are the same file, beside the configuration."""
    (files / "conf").mkdir()
    (files / "conf/agent-rag.toml").write_text(
        '[knowledge_bases.a]\ncollection = "c"\n'
        '[knowledge_bases.b]\nstore = "sqlite:.agent-rag/../.agent-rag/store.db"\ncollection = "c"\n'
    )
    config = ("--config", "conf/agent-rag.toml")
    settings = load_settings("conf/agent-rag.toml")

    run("ingest", "docs", "-k", "a", *config)

    assert {store_uri(base, settings.folder) for base in settings.knowledge_bases.values()} == {
        "sqlite:conf/.agent-rag/store.db"
    }
    assert (files / "conf/.agent-rag/store.db").exists()
    assert len(run_json("list", "-k", "b", *config)) == 2
    assert {base["name"]: base["documents"] for base in run_json("status", *config)} == {"a": 2, "b": 2}


class Chatty:
    """A server's model that ignores tools, and repeats what it was shown of passages."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.seen: list[str] = []

    async def __call__(self, messages: Any, *, tools: Any = ()) -> ChatReply:
        self.seen.append("\n".join(message.text for message in messages))
        return ChatReply(text=self.answer)


async def test_ask_searches_also_for_a_model_that_calls_no_tool() -> None:
    """CL07: the passages are shown to it, and an answer that names no source is marked."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("k", "d", HashEmbedding(), store, "k")
        await sync(kb, TextSource({"a.txt": "The gateway timeout is thirty seconds."}))
        honest, inventing = Chatty("Thirty seconds [1]."), Chatty("It is capped at $100.")

        first = await answer(kb, "What is the gateway timeout?", model=honest)
        second = await answer(kb, "What is the gateway timeout?", model=inventing)

    assert (first.mode, [source.document_id for source in first.citations], first.note) == ("static", ["a.txt"], None)
    assert "thirty seconds" in honest.seen[-1]
    assert second.citations == []
    assert second.note == "this answer names no source of the documents: check it"


async def test_ask_marks_what_no_passage_says() -> None:
    """Another number and an invented citation are named below the answer; what is quoted is not."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("k", "d", HashEmbedding(), store, "k")
        await sync(kb, TextSource({"a.txt": "The gateway timeout is thirty seconds."}))
        model = Chatty(
            "The gateway timeout is thirty seconds [1]. The gateway timeout is 40 seconds [1]. So it is [9]."
        )

        given = await answer(kb, "What is the gateway timeout?", model=model)

    assert [(one.outcome, one.text) for one in given.unsupported] == [
        ("number", "The gateway timeout is 40 seconds [1]."),
        ("never_shown", "So it is [9]."),
    ]
    assert given.unsupported[1].remark == "[9] stands for nothing"


def test_find_counts_and_shows_lines(files: Path) -> None:
    """Below each document its lines with their places; the total at the end, also where not all is shown."""
    (files / "docs/log.md").write_text("# Log\n\nERR-1 seen.\n\nerr-2 and ERR-3 seen.\n")
    run("ingest", "docs")

    everything, first = run("find", "err-"), run("find", r"ERR-\d", "--regex", "--match-case", "-n", "1")
    result = run_json("find", "err-", "--in", "log.md")
    refused = run("find", "(", "--regex")

    assert everything.stdout.splitlines()[0] == "log.md: 3"
    assert "ERR-1 seen." in everything.stdout
    assert everything.stdout.endswith("3 occurrences in 1 document\n")
    assert first.stdout.splitlines()[-2:] == [
        "... 1 more occurrences not shown; --limit shows more",
        "2 occurrences in 1 document",
    ]
    assert (result["total"], len(result["matches"])) == (3, 3)
    assert refused.exit_code != 0
    assert "no regular expression" in refused.stderr


def test_show_prints_parts_and_the_outline(files: Path) -> None:
    """A heading or rows; what is not there is said."""
    (files / "docs/guide.md").write_text("# Guide\n\n## Pay\n\nMoney.\n\n## Leave\n\nDays.\n")
    run("ingest", "docs")

    outline = run("show", "guide.md", "--outline").stdout.splitlines()
    (leave,) = run_json("show", "guide.md", "--heading", "leave")

    assert [line.strip() for line in outline[1:]] == ["Guide", "Pay", "Leave"]
    assert "Days." in leave["content"]["text"]
    assert run("show", "guide.md", "--page", "7").exit_code == 1
    assert run("show", "nope.md", "--outline").exit_code == 1
    assert run("show", "guide.md", "--rows", "all").exit_code == 2


def test_show_status_and_drop(files: Path) -> None:
    """A document chunk by chunk; what is stored; a knowledge base goes whole, and only after a yes."""
    (files / "docs/broken.pdf").write_bytes(b"%PDF-1.4 broken")
    run("ingest", "docs")

    (chunk,) = run_json("show", "gateway.md")
    (before,) = run_json("status")
    refused = run("drop", "default")
    unknown = run("drop", "nope", "--yes")
    dropped = run_json("drop", "default", "--yes")

    assert chunk["heading_path"] == ["Gateway"]
    assert run("show", "nope.md").exit_code == 1
    assert (before["documents"], before["failed"], before["model"]) == (2, 1, "wordllama/l2_supercat_256")
    assert refused.exit_code != 0
    assert unknown.exit_code == 2
    assert dropped == {"dropped": "default", "chunks": 2}
    assert run("search", "gateway", "-k", "default").exit_code == 2


def test_init_writes_a_configuration_that_works(files: Path) -> None:
    """It is read, is not ingested itself, and is not written over."""
    assert run("init").exit_code == 0
    assert run("init").exit_code == 2
    settings = load_settings("agent-rag.toml")
    run("ingest", ".")

    assert len(settings.knowledge_bases) == 1
    assert {document["document_id"] for document in run_json("list")} == {"docs/canteen.txt", "docs/gateway.md"}
    assert json.loads(run("config", "schema").stdout)["properties"]["default"]
    shown = {row["name"].rpartition(".")[2]: row["from"] for row in run_json("config", "show")}
    assert (shown["description"], shown["store"]) == ("agent-rag.toml", "default")


def test_failures_are_grouped_by_reason(files: Path) -> None:
    """Ten broken files are one row with their number; --all names each."""
    for number in range(10):
        (files / f"docs/broken{number}.pdf").write_bytes(b"%PDF-1.4 broken")

    result = run("ingest", "docs")
    every = run("ingest", "docs", "--reread", "--all")

    assert result.exit_code == 1
    (row,) = [line for line in result.stdout.splitlines() if "cannot be read as PDF" in line]
    assert "10" in row
    assert "and 5 more" in row
    assert "broken9.pdf" in every.stdout


def test_settings_of_a_knowledge_base_are_used(files: Path) -> None:
    """Chunk size, patterns and parser options of agent-rag.toml count as the flags do."""
    (files / "agent-rag.toml").write_text(
        '[knowledge_bases.a]\nchunk_size = 50\noverlap = 0\nexclude = ["canteen.txt"]\n'
    )
    (files / "docs/long.txt").write_text("One sentence of words here. " * 20)

    run("ingest", "docs")

    assert {document["document_id"] for document in run_json("list")} == {"gateway.md", "long.txt"}
    assert max(len(chunk["content"]["text"]) for chunk in run_json("show", "long.txt")) <= 50


async def test_the_cache_of_embeddings_is_shown_and_cleared(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cache` says what is kept, `cache --clear` deletes it."""
    from agent_rag.embeddings import CachedEmbeddingModel, LocalEmbeddingModel

    monkeypatch.setenv("AGENT_RAG_CACHE", str(files / "cache.db"))
    await CachedEmbeddingModel(LocalEmbeddingModel())(["a", "b"])

    shown = await asyncio.to_thread(run_json, "cache")
    cleared = await asyncio.to_thread(run_json, "cache", "--clear")
    after = await asyncio.to_thread(run_json, "cache")

    assert (shown["vectors"], cleared["cleared"], after["vectors"]) == (2, 2, 0)
