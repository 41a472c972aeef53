"""agent-rag.toml says what Python can say."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from agent_rag import F, KnowledgeBase, OpenAIChatModel
from agent_rag.cli.advice import with_keys
from agent_rag.config import KnowledgeBaseSettings, load_settings
from agent_rag.config.parts import chat_model_of, chunker_of, reranker_of, run_options, transforms_of
from agent_rag.config.settings import Settings, open_store
from agent_rag.config.tables import ChatSettings, IngestSettings, SearchSettings
from agent_rag.errors import ConfigurationError
from agent_rag.ingestion import CharFilter, CleanText, IngestOptions
from agent_rag.middleware import Parameters
from agent_rag.parsers import ParserPool
from agent_rag.sources import DirectorySource

from .calling import result, run

_WHOLE = """
default = "a"
[chat]
model = "small"
base_url = "http://127.0.0.1:9/v1"
options = { temperature = 0 }
[middleware]
max_context_tokens = 4000
filter = { field = "year", operator = "gte", value = 2020 }
[reranker]
kind = "tei"
options = { base_url = "http://127.0.0.1:9" }
[mcp]
http = true
port = 9000
[knowledge_bases.a]
store = "sqlite:kb.db"
store_options = { memory_mb = 64 }
chunker = "recursive"
chunker_options = { length = "approx_tokens" }
chunk_size = 200
sources = ["docs"]
limits = { results = 20 }
[knowledge_bases.a.ingest]
transforms = ["CleanText", { CharFilter = ["noon"] }]
metadata = { year = 2024 }
workers = 1
[knowledge_bases.a.search]
top_k = 1
mode = "keyword"
"""


def test_every_option_of_python_has_a_key() -> None:
    """Of KnowledgeBase, ingest, sync, DirectorySource, ParserPool, OpenAIChatModel and the middleware; what is left is
    an object of Python, or a thing of one run."""
    knowledge = set(inspect.signature(KnowledgeBase).parameters)
    ingest = set(IngestOptions.__annotations__)
    directory = set(inspect.signature(DirectorySource).parameters)
    pool, chat = set(inspect.signature(ParserPool).parameters), set(inspect.signature(OpenAIChatModel).parameters)
    keys = set(KnowledgeBaseSettings.model_fields) | set(IngestSettings.model_fields) | set(SearchSettings.model_fields)

    assert knowledge - keys == {"name", "embedding_model", "vector_store", "on_event"}
    assert ingest - keys == {"force", "dry_run", "prune", "trigger", "on_event", "pool", "parser_for", "name"}
    assert directory - keys == {"root", "extensions", "id_prefix", "name"}
    assert pool - keys == set()
    assert chat - set(ChatSettings.model_fields) == {"api_key", "client_kwargs"}
    assert set(Settings.model_fields["middleware"].annotation.model_fields) == set(Parameters.model_fields)  # type: ignore[union-attr]


def test_a_whole_file_is_read(files: Path) -> None:
    """Each table has its effect."""
    (files / "agent-rag.toml").write_text(_WHOLE)
    settings = load_settings()
    base = settings.knowledge_bases["a"]

    chunker = chunker_of(base)
    assert chunker is not None
    assert (type(chunker).__name__, chunker.parameters.chunk_size, chunker.parameters.length) == (
        "RecursiveChunker", 200, "approx_tokens"
    )  # fmt: skip
    assert run_options(base.ingest)["metadata"] == {"year": 2024}
    assert [type(step) for step in transforms_of(["CleanText", {"CharFilter": ["x"]}])] == [CleanText, CharFilter]
    assert settings.middleware.filter == (F("year") >= 2020)
    assert repr(reranker_of(settings)).startswith("HTTPReranker")
    assert vars(open_store(base))["_memory_bytes"] == 64_000_000
    report = result("ingest")
    assert report["counts"] == {"added": 2}
    (hit,) = result("search", "canteen opens")
    assert (hit["document_id"], hit["chunk"]["metadata"]["year"]) == ("canteen.txt", 2024)
    assert "noon" not in hit["chunk"]["content"]["text"]
    assert "is over the limit results=20" in run("search", "canteen", "-n", "21").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chat]\nmodle = 'x'", "chat.modle"),
        ("[knowledge_bases.a]\nlimits = { result = 3 }", "knowledge_bases.a.limits.result"),
        ("[knowledge_bases.a.ingest]\nmemory_mb = 3", "knowledge_bases.a.ingest.memory_mb"),
        ("[knowledge_bases.a]\nstore = 'sqlite:x.db'\nstore_options = { memory = 3 }", "memory"),
        ("[knowledge_bases.a.ingest]\ntransforms = ['Clean']", "use CleanText, RemoveBoilerplate, { CharFilter"),
        ("[knowledge_bases.a]\nchunker = 'semantic'", "known types: "),
        ("[knowledge_bases.a]\nchunker_options = { size = 3 }", "size"),
        ("[middleware]\nmode = 'both'", "middleware.mode"),
        ("[reranker]\nkind = 'bm25'", "reranker.kind"),
        ("[mcp]\nport = 0", "mcp.port"),
    ],
)
def test_a_wrong_entry_is_named(files: Path, text: str, message: str) -> None:
    """One line with the entry, exit code 2."""
    (files / "agent-rag.toml").write_text(text)

    told = run("ingest", "docs")

    assert told.exit_code == 2, told.output
    assert message in told.stderr
    assert "Traceback" not in told.output


def test_the_schema_describes_every_key() -> None:
    """Editors show a sentence for each key that is no plain name."""
    schema = json.loads(run("config", "schema").stdout)
    described = ("KnowledgeBaseSettings", "IngestSettings", "SearchSettings", "ChatSettings", "RerankerSettings")

    missing = [
        f"{name}.{key}"
        for name in described
        for key, value in schema["$defs"][name]["properties"].items()
        if not value.get("description")
    ]
    assert missing == []
    assert schema["$defs"]["KnowledgeBaseSettings"]["additionalProperties"] is False


def test_messages_name_the_key() -> None:
    """What Python calls an option is a key of the file."""
    assert with_keys("split it, or pass PDFParser(max_pages=...)").endswith(
        "(agent-rag.toml: parser_options.max_pages)"
    )
    assert with_keys("pass Limits(results=...) to").endswith("(agent-rag.toml: limits.results)")
    assert with_keys("parse it with ParserPool(timeout_s=...)").endswith("(agent-rag.toml: ingest.timeout_s)")
    assert with_keys("nothing to add") == "nothing to add"


def test_the_chat_model_may_be_named_in_the_file(files: Path) -> None:
    """Its key stays in the environment; without any name the message says where one belongs."""
    assert repr(chat_model_of(ChatSettings(model="m", base_url="http://127.0.0.1:9"))).startswith("OpenAIChatModel('m'")
    with pytest.raises(ConfigurationError, match="OPENAI_MODEL"):
        chat_model_of(ChatSettings())


def test_config_show_takes_tables_apart_and_hides_secrets(files: Path) -> None:
    """What was given, with its place; defaults are a number without --all."""
    (files / "agent-rag.toml").write_text(
        "[knowledge_bases.a]\nstore = 'postgresql://me:geheim@db/x'\nparser_options = { password = 'geheim' }\n"
        "[knowledge_bases.a.ingest]\nworkers = 2\n[mcp]\nport = 9000\n"
    )

    shown = run("config", "show").stdout
    every = run("config", "show", "--all").stdout
    rows = {row["name"]: (row["value"], row["from"]) for row in result("config", "show")}

    assert "geheim" not in shown + every
    assert rows["knowledge_bases.a.ingest.workers"] == (2, "agent-rag.toml")
    assert rows["knowledge_bases.a.limits.results"] == (100, "default")
    assert rows["mcp.port"] == (9000, "agent-rag.toml")
    assert "limits.results" not in shown
    assert "settings have their default; --all shows them" in shown
    assert "limits.results" in every
