"""Vector stores, one folder per engine. Importing this package loads no engine's client."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import VectorStoreBase

if TYPE_CHECKING:
    from .copy import CopyReport, copy_collection
    from .elasticsearch import ElasticsearchStore
    from .engine.records import clean_record
    from .memory import MemoryStore
    from .milvus import MilvusLiteStore
    from .mongodb import MongoDBStore
    from .native import ConnectedStoreBase, NativeStoreBase
    from .postgres import PostgresStore
    from .qdrant import QdrantStore
    from .sqlite import SQLiteStore
    from .tcvector import TcVectorStore
    from .uri import store_from_uri

_LAZY = {
    "ConnectedStoreBase": "native",
    "CopyReport": "copy",
    "ElasticsearchStore": "elasticsearch",
    "MemoryStore": "memory",
    "MilvusLiteStore": "milvus",
    "MongoDBStore": "mongodb",
    "PostgresStore": "postgres",
    "QdrantStore": "qdrant",
    "NativeStoreBase": "native",
    "SQLiteStore": "sqlite",
    "TcVectorStore": "tcvector",
    "clean_record": "engine.records",
    "copy_collection": "copy",
    "store_from_uri": "uri",
}

__all__ = [
    "ConnectedStoreBase",
    "CopyReport",
    "ElasticsearchStore",
    "MemoryStore",
    "MilvusLiteStore",
    "MongoDBStore",
    "NativeStoreBase",
    "PostgresStore",
    "QdrantStore",
    "SQLiteStore",
    "TcVectorStore",
    "VectorStoreBase",
    "clean_record",
    "copy_collection",
    "store_from_uri",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
