"""Which files of a folder belong to an embedded store, so that no source takes them for documents."""

from __future__ import annotations

import os
from collections.abc import Collection

_POSTGRES = {"PG_VERSION", "base", "pg_wal"}
TABLES_MARK = "agent-rag-tables"
"""A file in each folder of tables."""
_BESIDE_SQLITE = ("-wal", "-shm", "-gate", "-seq", "-writer")


def is_store_folder(folder: str, names: Collection[str]) -> bool:
    """Whether `folder`, which holds `names`, is an embedded Qdrant store, the data of a PostgreSQL server, or holds
    typed tables (`agent_rag.tables`)."""
    if TABLES_MARK in names:
        return True
    if _POSTGRES.issubset(names):
        return True
    if "lock" not in names:
        return False
    collections = [name for name in names if name.startswith("c-")]
    return len(names) == 1 or any(os.path.isdir(os.path.join(folder, name, "shard")) for name in collections)


def store_files(names: Collection[str]) -> set[str]:
    """Those of `names` in one folder that are a SQLite store: the file that others are named after, and these."""
    found = set()
    for name in names:
        for ending in _BESIDE_SQLITE:
            if name.endswith(ending) and (main := name.removesuffix(ending)) in names:
                found |= {name, main}
    return found
