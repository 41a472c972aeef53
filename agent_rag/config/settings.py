"""Knowledge bases by name, from ``agent-rag.toml`` and the environment: for the command line, MCP and `copy`."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from ..embeddings.base import EmbeddingModelBase
from ..embeddings.local import model_of
from ..embeddings.registry import embedding_model, is_paid
from ..errors import ConfigurationError
from ..knowledge.knowledge_base import KnowledgeBase
from ..limits import Limits
from ..middleware.core.parameters import Parameters
from ..stores.base import VectorStoreBase
from ..stores.native import NativeStoreBase
from ..stores.uri import store_from_uri
from .tables import ChatSettings, IngestSettings, MCPSettings, Options, RerankerSettings, Scalar, SearchSettings, Table

_FILE_SCHEMES = ("sqlite", "qdrant", "milvus", "postgresql+embedded")
CONFIG_NAME = "agent-rag.toml"
DEFAULT_STORE = "sqlite:.agent-rag/store.db"
FORMER_STORE = ".agent-rag/store"
"""Folder of the default store of version 0.1, an embedded Qdrant."""


class KnowledgeBaseSettings(Table):
    """``[knowledge_bases.NAME]``."""

    description: str = ""
    """What can be found here, for models that choose."""
    store: str = DEFAULT_STORE
    """Store URI; see `agent_rag.stores.uri.SCHEMES`. Relative folders are relative to the configuration file."""
    store_options: Options = Field(default_factory=dict)
    """Further arguments of the store's class, such as { memory_mb = 2048 }."""
    collection: str | None = None
    """Default: the knowledge base's name."""
    embedding: str = "local"
    """``local``, a provider (``openai``, ``ollama``, ...), ``PROVIDER:MODEL``, or ``none`` for keyword search only."""
    dimensions: int | None = Field(default=None, ge=1)
    """Size of the model's vectors, where it is not known or can be chosen."""
    base_url: str | None = None
    """Address of the provider, where it is not the usual one."""
    embedding_options: Options = Field(default_factory=dict)
    """Further options of the embedding model, such as ``batch_size`` and ``query_prefix``."""
    embedding_cache: bool = True
    """Keep the vectors of a paid provider on disk, so that no text is paid for twice (``agent-rag cache``)."""
    metadata_filter: dict[str, Scalar] | None = None
    """Scope: forced onto every document that is written, required of every one that is read."""
    limits: Limits = Field(default_factory=Limits)
    """Bounds on what enters and what is asked."""
    sources: list[str] = Field(default_factory=list)
    """What `ingest` and `sync` take where no path is given; relative to the configuration file."""
    include_generated: bool = False
    """`ingest` and `sync` also take what no person wrote; see `DirectorySource`."""
    chunker: str | None = None
    """``auto`` (default: by kind of text), ``recursive``, ``markdown``, ``json``, ``code``, ``fixed_size``,
    ``approx_token``."""
    chunker_options: Options = Field(default_factory=dict)
    """Further parameters of the chunker, such as { length = "approx_tokens" }."""
    chunk_size: int | None = Field(default=None, ge=50)
    """Characters a chunk, at most."""
    overlap: int | None = Field(default=None, ge=0)
    """Characters that neighbouring chunks share; below `chunk_size`."""
    include: list[str] = Field(default_factory=list)
    """Patterns as in .gitignore, for directories."""
    exclude: list[str] = Field(default_factory=list)
    """Patterns as in .gitignore, for directories."""
    ocr: bool | str = False
    """Recognise the text of scanned pages and pictures with Tesseract; a text names its languages, such as
    ``"eng+deu"``."""
    ocr_options: Options = Field(default_factory=dict)
    """Further arguments of `TesseractOCR`: min_confidence, timeout_s."""
    parser_options: Options = Field(default_factory=dict)
    """Given to each parser that takes them, such as ``include_comments`` and ``password``."""
    tables: bool | str = True
    """Keep the tables of documents for SQL: in a folder beside the store's file, or in this one, relative to the
    configuration file. Of a store on a server only in a folder that is named."""
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    """How `ingest` and `sync` work."""
    search: SearchSettings = Field(default_factory=SearchSettings)
    """How it is searched."""
    score_threshold: float | None = None
    """Used by `ask`, `search` and MCP where none is given."""


class Settings(Table):
    """The whole file."""

    default: str | None = None
    """Knowledge base that commands use when none is named; default: the only or the first one."""
    knowledge_bases: dict[str, KnowledgeBaseSettings] = Field(default_factory=dict)
    """By name."""
    chat: ChatSettings = Field(default_factory=ChatSettings)
    """The language model of `ask`."""
    middleware: Parameters = Field(default_factory=Parameters)
    """How `ask` and MCP search for a model; see `RAGMiddleware.Parameters`."""
    reranker: RerankerSettings | None = None
    """Judges what was found, for `ask` and MCP."""
    mcp: MCPSettings = Field(default_factory=MCPSettings)
    """What `agent-rag mcp` offers."""
    folder: Path = Field(default_factory=Path, exclude=True)
    """Folder of the file."""
    file: Path | None = Field(default=None, exclude=True)
    """The file; None where there is none."""

    def choose(self, name: str | None) -> tuple[str, KnowledgeBaseSettings]:
        """A knowledge base by name; None: the default one.

        Raises: ConfigurationError: there is none of that name.
        """
        wanted = name or os.environ.get("AGENT_RAG_KNOWLEDGE_BASE") or self.default
        if wanted is None:
            wanted = next(iter(self.knowledge_bases), "default")
        if wanted in self.knowledge_bases:
            return wanted, self.knowledge_bases[wanted]
        if self.knowledge_bases and (name is not None or self.default is not None):
            raise ConfigurationError(
                f"no knowledge base {wanted!r} in {CONFIG_NAME}; it has {', '.join(self.knowledge_bases)}"
            )
        return wanted, KnowledgeBaseSettings()


def load_settings(path: str | Path | None = None) -> Settings:
    """Read the configuration.

    Args:
        path: Default: AGENT_RAG_CONFIG, else ``agent-rag.toml`` in this folder; a missing default file is no error.

    Raises: ConfigurationError: the file is missing, is not TOML, or has an unknown or wrong entry.
    """
    given = path or os.environ.get("AGENT_RAG_CONFIG")
    file = Path(given or CONFIG_NAME)
    if not file.is_file():
        if given:
            raise ConfigurationError(f"configuration file {file} does not exist")
        return Settings()
    try:
        settings = Settings.model_validate(
            {**tomllib.loads(file.read_text("utf-8")), "folder": file.parent, "file": file}
        )
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigurationError(f"{file}: {problems}") from error
    for base in settings.knowledge_bases.values():
        if isinstance(base.tables, str):
            base.tables = os.path.normpath(file.parent / base.tables)
    return settings


def store_uri(settings: KnowledgeBaseSettings, folder: Path | None = None) -> str:
    """The URI of a knowledge base's store, which is one text for one place; files are relative to `folder`.

    AGENT_RAG_STORE stands in for the default store.
    """
    uri = settings.store
    if "store" not in settings.model_fields_set and (given := os.environ.get("AGENT_RAG_STORE")):
        return given
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme not in _FILE_SCHEMES or rest.startswith((":", "//")):
        return uri
    return f"{scheme}:{os.path.normpath((folder or Path()) / rest)}"


def open_store(settings: KnowledgeBaseSettings, *, folder: Path | None = None) -> VectorStoreBase:
    """The store of a knowledge base, not yet entered."""
    return store_from_uri(store_uri(settings, folder), **settings.store_options)


def former_store_note(settings: KnowledgeBaseSettings) -> str | None:
    """One line where the default store is new and one of an earlier version lies beside it; else None."""
    default = "store" not in settings.model_fields_set and "AGENT_RAG_STORE" not in os.environ
    if not default or Path(DEFAULT_STORE.partition(":")[2]).exists() or not Path(FORMER_STORE).is_dir():
        return None
    return (
        f"{FORMER_STORE} is a Qdrant store of an earlier version; take it over with: "
        f"agent-rag copy qdrant:{FORMER_STORE} {DEFAULT_STORE}"
    )


def embedding_model_from(settings: KnowledgeBaseSettings) -> EmbeddingModelBase | None:
    """The embedding model of a knowledge base; the vectors of a paid provider are kept on disk.

    Raises: ConfigurationError: the name is unknown, or an option does not fit.
    """
    options = {"dimensions": settings.dimensions, "base_url": settings.base_url, **settings.embedding_options}
    model = embedding_model(settings.embedding, **options)
    if model is not None and settings.embedding_cache and is_paid(settings.embedding):
        from ..embeddings.cached import CachedEmbeddingModel

        return CachedEmbeddingModel(model)
    return model


async def with_stored_model(
    name: str, settings: KnowledgeBaseSettings, store: VectorStoreBase
) -> KnowledgeBaseSettings:
    """With the local model that the collection has the vectors of (`agent-rag reindex`), where none is configured."""
    if "embedding" in settings.model_fields_set or not isinstance(store, NativeStoreBase):
        return settings
    info = await store.collection_info(settings.collection or name)
    stored = model_of(info.fingerprint) if info is not None and info.fingerprint else None
    return settings if stored is None else settings.model_copy(update={"embedding": f"local:{stored}"})


def knowledge_base_from(
    name: str, settings: KnowledgeBaseSettings, store: VectorStoreBase, **options: Any
) -> KnowledgeBase:
    """The knowledge base of a configuration entry over an entered store."""
    return KnowledgeBase(
        name=name,
        description=settings.description or f"Documents in {name}.",
        embedding_model=embedding_model_from(settings),
        vector_store=store,
        collection=settings.collection or name,
        metadata_filter=settings.metadata_filter,
        fusion=settings.search.fusion,
        keyword_weight=settings.search.keyword_weight,
        keyword_grams=settings.search.keyword_grams,
        candidates=settings.search.candidates,
        limits=settings.limits,
        **{"tables": tables_folder(settings, store), **options},
    )


def tables_folder(settings: KnowledgeBaseSettings, store: VectorStoreBase) -> Path | None:
    """Where the tables of documents are kept: beside the store's file, or where the settings say; None: nowhere."""
    if isinstance(settings.tables, str):
        return Path(settings.tables)
    path = getattr(store, "path", None)
    return path.with_suffix(".tables") if settings.tables and isinstance(path, Path) else None
