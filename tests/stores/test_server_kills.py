"""Servers, nodes and clients that are killed at work: what was acknowledged is there, whole, and counted once.

Two clients and a server of each kind in a usual run; ``AGENT_RAG_SOAK=1`` kills 60 clients and 25 servers or nodes of
each of the two engines.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import IO, TypeVar

import pytest

from agent_rag.errors import StoreError
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.native import NativeStoreBase
from agent_rag.testing.records import document
from tests.shared import ROOT

from .server_writer import DOCUMENTS, chunks_of, open_store
from .servers import Server, elasticsearch, qdrant

T = TypeVar("T")
SOAK = "AGENT_RAG_SOAK" in os.environ
CLIENTS, SERVERS = (60, 25) if SOAK else (4, 2)
EAST = [1.0, 0.0, 0.0, 0.0]

pytestmark = pytest.mark.slow


@contextmanager
def started(kind: str, nodes: int) -> Iterator[list[Server]]:
    with (qdrant if kind == "qdrant" else elasticsearch)(nodes=nodes) as servers:
        yield servers


class Writers:
    """Processes that write, and what they were told is stored."""

    def __init__(self, kind: str, collection: str) -> None:
        self._kind = kind
        self._collection = collection

    def start(self, url: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.stores.server_writer", self._kind, url, self._collection]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def stop(self, *processes: subprocess.Popen[str]) -> dict[str, list[tuple[str, int]]]:
        """Kill them. Returns what each document was acknowledged to be, in order of each process."""
        found: dict[str, list[tuple[str, int]]] = {}
        for process in processes:
            process.kill()
            output: IO[str] | None = process.stdout
            assert output is not None
            for line in output.read().splitlines():
                name, version, count = line.split()
                found.setdefault(name, []).append((version, int(count)))
            output.close()
            process.wait()
        return found


async def patient(call: Callable[[], Awaitable[T]]) -> T:
    """Again while the server recovers."""
    until = time.monotonic() + 60
    while True:
        try:
            return await call()
        except StoreError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.3)


async def quiet(store: NativeStoreBase, collection: str) -> None:
    """Return when the server has done what it had received, and its searches show that.

    The head that a dead client wrote last is in Elasticsearch's searches only after the next refresh.
    """
    before: object = None
    for _ in range(60):
        now = (
            await patient(lambda: store.list_documents(collection)),
            await patient(lambda: store.count(collection)),
            await patient(lambda: store.count(collection, {"kind": "pear"})),
        )
        if now == before and now[1] == now[2]:
            return
        before = now
        await asyncio.sleep(0.5)


async def assert_agreeing(store: NativeStoreBase, collection: str, acknowledged: dict[str, str]) -> None:
    """Every way of reading shows the same whole versions, and of no document an older one than was acknowledged."""
    summaries = {one.document_id: one for one in await patient(lambda: store.list_documents(collection))}
    total = sum(one.chunk_count for one in summaries.values())
    assert acknowledged.keys() <= summaries.keys()
    listed: dict[str, set[str]] = {}
    for name, summary in summaries.items():
        chunks = await store.list_chunks(collection, name, limit=100)
        assert len(chunks) == summary.chunk_count
        listed[name] = {item.chunk.metadata["version"] for item in chunks}
        assert len(listed[name]) == 1
    assert await store.count(collection) == total
    assert await store.count(collection, {"kind": "pear"}) == total
    for request in (RetrieveRequest(vectors=[EAST], limit=500), RetrieveRequest(texts=["pear"], limit=500)):
        found: dict[str, list[str]] = {}
        for hit in await store.retrieve(collection, request):
            found.setdefault(hit.document_id, []).append(hit.chunk.metadata["version"])
        assert {name: set(versions) for name, versions in found.items()} == listed
        assert sum(map(len, found.values())) == total
    for name, version in acknowledged.items():
        writer, number = version.split("-")
        (stored,) = listed[name]
        if stored.startswith(f"{writer}-"):
            assert int(stored.split("-")[1]) >= int(number)


@pytest.mark.parametrize("kind", ["qdrant", "elasticsearch"])
async def test_a_client_that_is_killed_leaves_nothing_half(kind: str) -> None:
    """After each kill all ways of reading agree; after the next write nothing of the dead is on the server."""
    with started(kind, 1) as (server,):
        writers = Writers(kind, "kills")
        async with open_store(kind, server.url) as store:
            await store.create_collection("kills", 4)
            for _ in range(CLIENTS // 2):
                processes = [writers.start(server.url) for _ in range(2)]
                await asyncio.sleep(1.5 + random.random())
                said = await asyncio.to_thread(writers.stop, *processes)
                await quiet(store, "kills")

                # Two writers race, so that of a document only the last version of one of them is known to be old.
                last = {name: versions[-1][0] for name, versions in said.items()}
                await assert_agreeing(store, "kills", last if len(processes) == 1 else {})
                assert said.keys() <= {one.document_id for one in await store.list_documents("kills")}
                for number in range(DOCUMENTS):
                    name = f"d{number}"
                    await store.replace("kills", [document(name)], chunks_of(name, "0-1", 2))
                assert await store.compact("kills") == 0  # type: ignore[attr-defined]
                assert await store.count("kills") == 2 * DOCUMENTS


@pytest.mark.parametrize(("kind", "nodes"), [("qdrant", 1), ("elasticsearch", 1), ("qdrant", 3)])
async def test_a_server_that_is_killed_keeps_what_it_acknowledged(kind: str, nodes: int) -> None:
    """A client writes meanwhile; afterwards the server, or a node, is started again and everything agrees."""
    with started(kind, nodes) as servers:
        writers = Writers(kind, "kills")
        options = {"replication_factor": 2, "write_consistency_factor": 2} if nodes > 1 else {}
        async with open_store(kind, servers[0].url) as store:
            if options:
                from agent_rag.stores.qdrant import QdrantStore

                async with QdrantStore(url=servers[0].url, **options) as maker:  # type: ignore[arg-type]
                    await maker.create_collection("kills", 4)
            else:
                await store.create_collection("kills", 4)
            for _ in range(SERVERS):
                process = writers.start(servers[0].url)
                await asyncio.sleep(1.5 + random.random())
                victim = servers[-1]
                await asyncio.to_thread(victim.kill)
                said = await asyncio.to_thread(writers.stop, process)
                victim.start()
                await asyncio.to_thread(victim.wait)

                await quiet(store, "kills")
                await assert_agreeing(store, "kills", {name: versions[-1][0] for name, versions in said.items()})
