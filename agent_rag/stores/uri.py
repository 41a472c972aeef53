"""Stores by URI, for configuration files and the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..errors import ConfigurationError, redact
from .base import VectorStoreBase

__all__ = ["store_from_uri"]

StoreFactory = Callable[..., VectorStoreBase]

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


def store_from_uri(uri: str, **options: Any) -> VectorStoreBase:
    """Make the store that `uri` names; a plain path is a SQLite file, an existing folder is Qdrant's. Nothing is
    opened yet.

    An entry point of the group ``agent_rag.stores`` is a function that takes the URI; its name is the scheme.

    Args:
        options: Further arguments of the store's class.

    Raises: ConfigurationError: the scheme is unknown, or an option does not fit. MissingExtraError: the store's package
        is not installed.
    """
    try:
        return _made(uri, options)
    except TypeError as error:
        if not options:
            raise
        raise ConfigurationError(f"store {redact(uri)!r} with the options {', '.join(options)}: {error}") from error


def _made(uri: str, options: Mapping[str, Any]) -> VectorStoreBase:
    scheme, colon, rest = uri.partition(":")
    base, _, transport = scheme.lower().partition("+")
    if not colon or len(scheme) == 1 or "/" in scheme:  # a path, also one of Windows
        base, transport, rest = "qdrant" if os.path.isdir(uri) else "sqlite", "", uri
    target = f"{transport}:{rest}" if transport in ("http", "https") else rest
    match base:
        case "memory":
            from .memory import MemoryStore

            return MemoryStore(**options)
        case "sqlite":
            from .sqlite import SQLiteStore

            return SQLiteStore(rest, **options)
        case "qdrant":
            return _qdrant(transport, target, options)
        case "postgresql" | "postgres":
            return _postgres(transport, uri, rest, options)
        case "milvus":
            from .milvus import MilvusLiteStore

            return MilvusLiteStore(uri=target, **options)
        case "elasticsearch":
            from .elasticsearch import ElasticsearchStore

            return ElasticsearchStore(hosts=target, **options)
        case "mongodb":
            from .mongodb import MongoDBStore

            database = urlsplit(uri).path.strip("/") or "agent_rag"
            return MongoDBStore(uri=uri, database=database, **options)
        case "tcvector":
            return _tcvector(target, options)
    return _from_entry_point(base, uri, options)


def _qdrant(transport: str, target: str, options: Mapping[str, Any]) -> VectorStoreBase:
    from .qdrant import QdrantStore

    if transport in ("http", "https"):
        return QdrantStore(url=target, api_key=os.environ.get("AGENT_RAG_QDRANT_API_KEY"), **options)
    place: dict[str, Any] = {"location": target} if target == ":memory:" else {"path": target}
    return QdrantStore(**place, **options)


def _postgres(transport: str, uri: str, rest: str, more: Mapping[str, Any]) -> VectorStoreBase:
    from .postgres import PostgresStore

    if transport == "embedded":
        return PostgresStore.embedded(rest, **more)
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query))
    table = options.pop("table", None)
    query = "&".join(f"{key}={value}" for key, value in options.items())
    dsn = parts._replace(scheme="postgresql", query=query).geturl()
    named: dict[str, Any] = {"table": table} if table else {}
    return PostgresStore(dsn, **named, **more)


def _tcvector(target: str, more: Mapping[str, Any]) -> VectorStoreBase:
    from .tcvector import TcVectorStore

    parts = urlsplit(target)
    options = dict(parse_qsl(parts.query))
    return TcVectorStore(
        url=parts._replace(query="").geturl(),
        username=options.get("username", "root"),
        api_key=os.environ.get("AGENT_RAG_TCVECTOR_API_KEY"),
        **more,
    )


def _from_entry_point(scheme: str, uri: str, options: Mapping[str, Any]) -> VectorStoreBase:
    for point in entry_points(group=ENTRY_POINT_GROUP, name=scheme):
        factory: StoreFactory = point.load()
        return factory(uri, **options)
    raise ConfigurationError(
        f"store {redact(uri)!r} has the unknown scheme {scheme!r}; use one of: {'; '.join(SCHEMES.values())}"
    )
