"""Vector stores, one folder per engine. Importing this package loads no engine's client."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import VectorStoreBase

if TYPE_CHECKING:
    from .elasticsearch import ElasticsearchStore
    from .memory import MemoryStore
    from .milvus import MilvusLiteStore
    from .mongodb import MongoDBStore
    from .postgres import PostgresStore
    from .qdrant import QdrantStore
    from .tcvector import TcVectorStore

_STORES = {
    "ElasticsearchStore": "elasticsearch",
    "MemoryStore": "memory",
    "MilvusLiteStore": "milvus",
    "MongoDBStore": "mongodb",
    "PostgresStore": "postgres",
    "QdrantStore": "qdrant",
    "TcVectorStore": "tcvector",
}

__all__ = [
    "ElasticsearchStore",
    "MemoryStore",
    "MilvusLiteStore",
    "MongoDBStore",
    "PostgresStore",
    "QdrantStore",
    "TcVectorStore",
    "VectorStoreBase",
]


def __getattr__(name: str) -> Any:
    if name not in _STORES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_STORES[name]}", __name__), name)
