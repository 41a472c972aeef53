"""Looking into a local file of Milvus Lite, and at what a store has read of it."""

from __future__ import annotations

import subprocess
import sys

from agent_rag.stores.milvus import MilvusLiteStore
from agent_rag.stores.milvus.lite_collection import LiteCollection


def collection_of(store: MilvusLiteStore, name: str) -> LiteCollection:
    """A collection that the store has read."""
    found: LiteCollection = store._engine._collections[name]  # type: ignore[attr-defined]
    return found


def row_counts(store: MilvusLiteStore) -> dict[str, int]:
    """Rows that each collection should have in the file."""
    collections: dict[str, LiteCollection] = store._engine._collections  # type: ignore[attr-defined]
    return {name: sum(len(one.row_ids(name_)) for name_ in one.versions) for name, one in collections.items()}


def start_process(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Python code in a process of its own; its output can be read."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
