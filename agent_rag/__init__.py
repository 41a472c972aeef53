"""Retrieval-augmented generation that attaches to any Python agent framework.

::

    file -> parser -> Section -> chunker -> Chunk -> embedding model -> VectorRecord -> store
    query -> middleware -> KnowledgeBase -> store: keyword and semantic search -> VectorSearchResult -> citations

What README, docs, examples and the seeds import from here is here, each folder has the rest. Names are imported when
first used, so importing this package loads no parser, no store client and no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .content import Base64Source, DataBlock, TextBlock, URLSource
from .documents import Chunk, DocumentSummary, Heading, Section, Signals, VectorRecord, VectorSearchResult
from .errors import AgentRAGError
from .filters import F
from .limits import Limits

if TYPE_CHECKING:
    from ._util.sync import run_sync
    from .answers import check_answer
    from .chat import ChatModel, OpenAIChatModel
    from .chat.extractive import ExtractiveChatModel
    from .chunkers import (
        ApproxTokenChunker,
        AutoChunker,
        ChunkerBase,
        CodeChunker,
        FixedSizeChunker,
        JSONChunker,
        MarkdownChunker,
        RecursiveChunker,
        chunker_from,
    )
    from .embeddings import EmbeddingModelBase, EmbeddingResponse, LocalEmbeddingModel, OpenAIEmbeddingModel
    from .ingestion.ingest import ingest, sync
    from .ingestion.report import IngestReport
    from .knowledge.document import Document
    from .knowledge.knowledge_base import KnowledgeBase
    from .middleware import RAGMiddleware
    from .parsers import (
        ExcelParser,
        ImageParser,
        ParserBase,
        ParserPool,
        PDFParser,
        PPTParser,
        TextParser,
        WordParser,
        parse_text,
        parser_for,
        register_parser,
        supported_extensions,
    )
    from .sources import DirectorySource, FileSource, TextSource, WebSource
    from .stores import (
        ElasticsearchStore,
        MemoryStore,
        MilvusLiteStore,
        MongoDBStore,
        PostgresStore,
        QdrantStore,
        SQLiteStore,
        TcVectorStore,
        VectorStoreBase,
    )

_LAZY = {
    "answers": ("check_answer",),
    "chat": ("ChatModel", "OpenAIChatModel"),
    "chunkers": (
        "ApproxTokenChunker",
        "AutoChunker",
        "ChunkerBase",
        "CodeChunker",
        "FixedSizeChunker",
        "JSONChunker",
        "MarkdownChunker",
        "RecursiveChunker",
        "chunker_from",
    ),
    "embeddings": ("EmbeddingModelBase", "EmbeddingResponse", "LocalEmbeddingModel", "OpenAIEmbeddingModel"),
    "chat.extractive": ("ExtractiveChatModel",),
    "_util.sync": ("run_sync",),
    "ingestion": ("IngestReport", "ingest", "sync"),
    "knowledge": ("Document", "KnowledgeBase"),
    "middleware": ("RAGMiddleware",),
    "parsers": (
        "ExcelParser",
        "ImageParser",
        "PDFParser",
        "PPTParser",
        "ParserBase",
        "ParserPool",
        "TextParser",
        "WordParser",
        "parse_text",
        "parser_for",
        "register_parser",
        "supported_extensions",
    ),
    "sources": ("DirectorySource", "FileSource", "TextSource", "WebSource"),
    "stores": (
        "ElasticsearchStore",
        "MemoryStore",
        "MilvusLiteStore",
        "MongoDBStore",
        "PostgresStore",
        "QdrantStore",
        "SQLiteStore",
        "TcVectorStore",
        "VectorStoreBase",
    ),
}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names}

__all__ = [
    "AgentRAGError",
    "ApproxTokenChunker",
    "AutoChunker",
    "Base64Source",
    "ChatModel",
    "Chunk",
    "ChunkerBase",
    "CodeChunker",
    "DataBlock",
    "DirectorySource",
    "Document",
    "DocumentSummary",
    "ElasticsearchStore",
    "EmbeddingModelBase",
    "EmbeddingResponse",
    "ExcelParser",
    "ExtractiveChatModel",
    "F",
    "FileSource",
    "FixedSizeChunker",
    "Heading",
    "ImageParser",
    "IngestReport",
    "JSONChunker",
    "KnowledgeBase",
    "Limits",
    "LocalEmbeddingModel",
    "MarkdownChunker",
    "MemoryStore",
    "MilvusLiteStore",
    "MongoDBStore",
    "OpenAIChatModel",
    "OpenAIEmbeddingModel",
    "PDFParser",
    "PPTParser",
    "ParserBase",
    "ParserPool",
    "PostgresStore",
    "QdrantStore",
    "RAGMiddleware",
    "RecursiveChunker",
    "SQLiteStore",
    "Section",
    "Signals",
    "TcVectorStore",
    "TextBlock",
    "TextParser",
    "TextSource",
    "URLSource",
    "VectorRecord",
    "VectorSearchResult",
    "VectorStoreBase",
    "WebSource",
    "WordParser",
    "check_answer",
    "chunker_from",
    "ingest",
    "parse_text",
    "parser_for",
    "register_parser",
    "run_sync",
    "supported_extensions",
    "sync",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
