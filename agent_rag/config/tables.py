"""The tables of agent-rag.toml below a knowledge base, and those of the whole file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..knowledge.search import SearchMode

Scalar = str | int | float | bool
Options = dict[str, Scalar | list[Scalar]]
"""Named options of a class: numbers, texts, truth values, and lists of them."""


class Table(BaseModel):
    """A table that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class IngestSettings(Table):
    """``[knowledge_bases.NAME.ingest]``: how `ingest` and `sync` work; see `agent_rag.ingestion.SyncOptions`."""

    recursive: bool = True
    """Look into sub-directories."""
    include_hidden: bool = False
    """Also names that start with a dot."""
    links: Literal["inside", "all", "none"] = "inside"
    """Which links of a directory are followed: those that stay in it, all, none."""
    file_facts: bool = False
    """Size, time of change and media type of each file of a directory as metadata."""
    metadata: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """Given to every document of a directory, to filter by."""
    transforms: list[str | dict[str, list[str]]] | None = None
    """Steps between parsing and chunking, in order: "CleanText", "RemoveBoilerplate", { CharFilter = ["x"] },
    { CharDedup = ["-"] }. Default: CleanText."""
    contexts: bool = False
    """The model of [chat] writes a line of context for each chunk, which is indexed and never shown: a request for each
    chunk, once. `agent-rag ingest --dry-run` says how many."""
    strict: bool = False
    """Stop at the first failure."""
    checksum: bool = False
    """Compare the content of every file, not its size, times and inode."""
    max_prune_share: float = Field(default=0.5, ge=0, le=1)
    """`sync` refuses to delete more than this share of a source."""
    allow_private: bool = False
    """Also fetch from this machine and private networks."""
    workers: int | None = Field(default=None, ge=1)
    """Processes that read files; default: one for each CPU, four at most."""
    timeout_s: float = Field(default=60.0, gt=0)
    """For reading one file."""
    memory_mb: int = Field(default=1024, ge=64)
    """Memory of a process that reads files."""
    source_concurrency: int = Field(default=4, ge=1)
    """Sources that are listed at once."""
    document_concurrency: int | None = Field(default=None, ge=1)
    """Files that are read at once; default: one more than workers."""
    embedding_batch_size: int | None = Field(default=None, ge=1)
    """Texts in a request to the embedding model; default: the model's."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Requests to the embedding model in flight; default: the model's, else 4."""
    max_file_bytes: int | None = Field(default=None, ge=1)
    """A larger file is skipped; default: the parser's own bound; 32 MiB for kinds of text where the store takes
    documents whole (all but SQLite)."""
    max_chunks: int | None = Field(default=None, ge=1)
    """A file that gives more chunks is skipped; default: 1,000,000, and 100,000 where the store takes documents whole
    (all but SQLite)."""


class SearchSettings(Table):
    """``[knowledge_bases.NAME.search]``: how it is searched."""

    mode: SearchMode | None = None
    """Default: hybrid where there are a model and a keyword index."""
    top_k: int = Field(default=5, ge=1)
    """Hits that `agent-rag search` shows."""
    fusion: Literal["convex", "rrf", "dbsf"] = "convex"
    """How hybrid search combines its two lists."""
    keyword_weight: float | None = Field(default=None, ge=0, le=1)
    """Share of the keyword score in hybrid search; default: the model's."""
    keyword_grams: bool | None = None
    """Index four-character parts of words, too, when the collection is made; default: unless its first documents are
    English prose. `agent-rag reindex --keywords` changes a collection."""
    candidates: int = Field(default=100, ge=1)
    """Length of each list that is combined."""
    distinct: bool = False
    """One hit for each text."""


class ChatSettings(Table):
    """``[chat]``: the language model of `agent-rag ask`, at an OpenAI-compatible address. Its key is OPENAI_API_KEY."""

    model: str | None = None
    """Default: OPENAI_MODEL."""
    base_url: str | None = None
    """Default: OPENAI_BASE_URL, else OpenAI's."""
    timeout_s: float = Field(default=60.0, gt=0)
    """For each wait on the server."""
    max_attempts: int = Field(default=3, ge=1)
    """Including the first."""
    supports_images: bool = False
    """The model is shown pictures."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a request, such as { temperature = 0 }."""


class RerankerSettings(Table):
    """``[reranker]``: judges what was found, for `ask` and MCP."""

    kind: Literal["llm", "cross-encoder", "cohere", "jina", "voyage", "tei", "infinity", "vllm"]
    """"llm": the model of [chat]; "cross-encoder": a model folder, needs the extra; others: that service's API."""
    model: str | None = None
    """Default: the service's own; of a cross-encoder its folder (of a model in ONNX it is `path` of the options)."""
    options: Options = Field(default_factory=dict)
    """Further arguments of the reranker's class, such as base_url and timeout_s."""


class MCPSettings(Table):
    """``[mcp]``: what `agent-rag mcp` offers. The token of HTTP clients is AGENT_RAG_MCP_TOKEN."""

    knowledge_bases: list[str] = Field(default_factory=list)
    """Names; default: all."""
    name: str = "agent-rag"
    """Name of the server."""
    http: bool = False
    """Streamable HTTP instead of stdio."""
    host: str = "127.0.0.1"
    """Others than loopback need a token."""
    port: int = Field(default=8765, ge=1, le=65535)
    allowed_origins: list[str] = Field(default_factory=list)
    """Origin headers to accept."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Names by which clients reach the server."""
