"""Looking into a local file of Milvus Lite, and at what a store has read of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from agent_rag.stores import MemoryStore
from agent_rag.stores.milvus import MilvusLiteStore
from agent_rag.stores.milvus.lite_collection import LiteCollection
from agent_rag.testing import record
from agent_rag.testing.records import document

Store = MilvusLiteStore | MemoryStore


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


@contextlib.contextmanager
def full_disk(size: int = 0) -> Iterator[None]:
    """No file can grow above `size` bytes."""
    import resource  # not on every system

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def replace(store: Store, name: str, count: int, text: str = "pear") -> None:
    """Write a document of collection "c"."""
    await store.replace("c", [document(name)], [record(name, n, f"{text} {n}") for n in range(count)])


def disk_full(*_: object, **__: object) -> None:
    """In place of a method that writes."""
    raise OSError("disk full")
