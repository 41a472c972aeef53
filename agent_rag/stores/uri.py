"""Stores by URI, for configuration files and the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import entry_points
from urllib.parse import parse_qsl, urlsplit

from ..errors import ConfigurationError, redact
from .base import VectorStoreBase

__all__ = ["store_from_uri"]

StoreFactory = Callable[[str], VectorStoreBase]

ENTRY_POINT_GROUP = "agent_rag.stores"
SCHEMES: dict[str, str] = {
    "sqlite": "sqlite:FILE.db",
    "memory": "memory: (lost at exit)",
    "qdrant": "qdrant:FOLDER (embedded), qdrant::memory:, or qdrant+http://HOST:6333",
    "postgresql": "postgresql://USER:PASSWORD@HOST/DATABASE[?table=NAME], or postgresql+embedded:FOLDER",
    "milvus": "milvus:FILE.db, or milvus+http://HOST:19530",
    "elasticsearch": "elasticsearch+http://HOST:9200",
    "mongodb": "mongodb://HOST/DATABASE",
    "tcvector": "tcvector+http://HOST[?username=NAME] (key in AGENT_RAG_TCVECTOR_API_KEY)",
}
"""Scheme -> its forms, for help texts. Entry points of the group `agent_rag.stores` add more."""


def store_from_uri(uri: str) -> VectorStoreBase:
    """Make the store that `uri` names; a plain path is a SQLite file, an existing folder is Qdrant's. Nothing is
    opened yet.

    An entry point of the group ``agent_rag.stores`` is a function that takes the URI; its name is the scheme.

    Raises: ConfigurationError: the scheme is unknown. MissingExtraError: the store's package is not installed.
    """
    scheme, colon, rest = uri.partition(":")
    base, _, transport = scheme.lower().partition("+")
    if not colon or len(scheme) == 1 or "/" in scheme:  # a path, also one of Windows
        base, transport, rest = "qdrant" if os.path.isdir(uri) else "sqlite", "", uri
    target = f"{transport}:{rest}" if transport in ("http", "https") else rest
    match base:
        case "memory":
            from .memory import MemoryStore

            return MemoryStore()
        case "sqlite":
            from .sqlite import SQLiteStore

            return SQLiteStore(rest)
        case "qdrant":
            return _qdrant(transport, target)
        case "postgresql" | "postgres":
            return _postgres(transport, uri, rest)
        case "milvus":
            from .milvus import MilvusLiteStore

            return MilvusLiteStore(uri=target)
        case "elasticsearch":
            from .elasticsearch import ElasticsearchStore

            return ElasticsearchStore(hosts=target)
        case "mongodb":
            from .mongodb import MongoDBStore

            database = urlsplit(uri).path.strip("/") or "agent_rag"
            return MongoDBStore(uri=uri, database=database)
        case "tcvector":
            return _tcvector(target)
    return _from_entry_point(base, uri)


def _qdrant(transport: str, target: str) -> VectorStoreBase:
    from .qdrant import QdrantStore

    if transport in ("http", "https"):
        return QdrantStore(url=target, api_key=os.environ.get("AGENT_RAG_QDRANT_API_KEY"))
    return QdrantStore(location=":memory:") if target == ":memory:" else QdrantStore(path=target)


def _postgres(transport: str, uri: str, rest: str) -> VectorStoreBase:
    from .postgres import PostgresStore

    if transport == "embedded":
        return PostgresStore.embedded(rest)
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query))
    table = options.pop("table", None)
    query = "&".join(f"{key}={value}" for key, value in options.items())
    dsn = parts._replace(scheme="postgresql", query=query).geturl()
    return PostgresStore(dsn, table=table) if table else PostgresStore(dsn)


def _tcvector(target: str) -> VectorStoreBase:
    from .tcvector import TcVectorStore

    parts = urlsplit(target)
    options = dict(parse_qsl(parts.query))
    return TcVectorStore(
        url=parts._replace(query="").geturl(),
        username=options.get("username", "root"),
        api_key=os.environ.get("AGENT_RAG_TCVECTOR_API_KEY"),
    )


def _from_entry_point(scheme: str, uri: str) -> VectorStoreBase:
    for point in entry_points(group=ENTRY_POINT_GROUP, name=scheme):
        factory: StoreFactory = point.load()
        return factory(uri)
    raise ConfigurationError(
        f"store {redact(uri)!r} has the unknown scheme {scheme!r}; use one of: {'; '.join(SCHEMES.values())}"
    )
