"""Commands about agent-rag.toml: init, config show, config schema."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from ..config.settings import CONFIG_NAME, Settings, load_settings
from ..errors import redact
from ..parsers import supported_extensions
from . import output as console
from .options import AsJSON, Config
from .running import guarded, stop

config_app = typer.Typer(name="config", help="Show the configuration and its schema.", no_args_is_help=True)

_TEMPLATE = """# Knowledge bases of this folder. Every key: agent-rag config schema > .agent-rag/schema.json
#:schema ./.agent-rag/schema.json
# default = "{name}"

[knowledge_bases.{name}]
description = "{description}"          # tells an agent what can be found here
sources = ["."]                            # what ingest and sync take: folders, files, https://..., s3://...
# store = "sqlite:.agent-rag/store.db"     # or qdrant+http://host:6333, postgresql://..., see docs/stores.md
# embedding = "local"                      # or openai, ollama:nomic-embed-text, voyage, ...; none: keywords only
# dimensions = 768                         # of a model whose size is not known
# chunk_size = 1000
# overlap = 100
# include = ["*.md"]
# exclude = ["drafts/"]
# tables = false                           # keep no tables for agent-rag query; or a folder, for stores on a server
# ocr = "eng"                              # {scans}
# score_threshold = 0.3

# [knowledge_bases.{name}.ingest]
# metadata = {{ team = "people" }}           # of every document, to filter by
# max_file_bytes = 50000000

# [chat]                                   # the language model of ask; its key: OPENAI_API_KEY
# model = "gpt-4.1-mini"
# base_url = "http://localhost:11434/v1"   # a server of your own
"""
_VARIABLES = (
    "AGENT_RAG_CONFIG",
    "AGENT_RAG_STORE",
    "AGENT_RAG_KNOWLEDGE_BASE",
    "AGENT_RAG_CACHE",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "OPENAI_EMBEDDING_MODEL",
)
_DEFAULT = "default"
_SECRET_KEY = re.compile("password|token|secret|api_?key", re.IGNORECASE)
_SECRETS = ("OPENAI_API_KEY", "AGENT_RAG_MCP_TOKEN")


def init(
    folder: Annotated[Path, typer.Argument(help="Folder with the documents.", exists=True, file_okay=False)] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a commented agent-rag.toml for a folder, and say what to do next."""
    file = folder / CONFIG_NAME
    if file.exists() and not force:
        stop(f"{file} is there already; change it, or pass --force", as_json=False)
    endings = set(supported_extensions())
    found = [path for path in folder.rglob("*") if path.suffix.lower() in endings and ".agent-rag" not in path.parts]
    scans = sum(path.suffix.lower() in (".png", ".jpg", ".jpeg", ".tif", ".tiff") for path in found)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in folder.resolve().name).strip("-") or "documents"
    about = f"Documents in {folder.resolve().name}.".replace('"', "'").replace("\\", "/")
    note = f"{scans} pictures were found: their text needs this" if scans else "for scanned pages: tesseract is needed"
    file.write_text(_TEMPLATE.format(name=name, description=about, scans=note), "utf-8")
    typer.echo(f"wrote {file}; {len(found)} files here can be read")
    chosen = "" if folder == Path() else f" -c {file}"
    typer.echo(f'next: agent-rag ingest{chosen}, then agent-rag ask{chosen} "..."')


@config_app.command("show")
def show_config(
    config: Config = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also what is not set, with its default.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Print the settings that count, and where each came from; secrets are hidden."""

    async def work() -> None:
        settings = load_settings(config)
        rows = list(_settings(settings, "", str(settings.file), given=True))
        rows += [(name, redact(os.environ[name]), "environment") for name in _VARIABLES if name in os.environ]
        rows += [(name, "***", "environment") for name in _SECRETS if name in os.environ]
        hidden = 0 if show_all or as_json else sum(origin == _DEFAULT for _, _, origin in rows)
        if hidden:
            rows = [row for row in rows if row[2] != _DEFAULT]
        console.show_settings(rows, as_json=as_json, hidden=hidden)

    guarded(work, as_json)


def _settings(table: BaseModel, path: str, origin: str, *, given: bool) -> Iterator[tuple[str, Any, str]]:
    """Each key below `path` with its value, and the file or "default"; a table in a table is taken apart."""
    for name in type(table).model_fields:
        value = getattr(table, name)
        here = given and name in table.model_fields_set
        if name in ("folder", "file"):
            continue
        if isinstance(value, dict) and value and all(isinstance(one, BaseModel) for one in value.values()):
            for key, one in value.items():
                yield from _settings(one, f"{path}{name}.{key}.", origin, given=here)
        elif isinstance(value, BaseModel):
            yield from _settings(value, f"{path}{name}.", origin, given=here)
        else:
            plain = table.model_dump(mode="json", include={name}).get(name)
            yield f"{path}{name}", _hidden(plain), origin if here else _DEFAULT


def _hidden(value: Any) -> Any:
    """Without what looks like a secret."""
    if isinstance(value, dict):
        return {key: "***" if _SECRET_KEY.search(key) else _hidden(one) for key, one in value.items()}
    return redact(value) if isinstance(value, str) else value


@config_app.command("schema")
def schema() -> None:
    """Print the JSON schema of agent-rag.toml, for editors."""
    console.show_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **Settings.model_json_schema()})
