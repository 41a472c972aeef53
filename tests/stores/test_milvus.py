"""MilvusLiteStore passes the contract through an address; `test_milvus_lite` has its local files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_rag.errors import ConfigurationError, RecordError
from agent_rag.filters import F
from agent_rag.testing import StoreContract, record
from agent_rag.testing.records import document
from agent_rag.testing.store_contract import MakeStore
from tests.stores.races import assert_one_version_is_seen

pytest.importorskip("pymilvus", reason="pip install 'agent-rag-middleware[milvus]' to run this")
pytest.importorskip("milvus_lite", reason="pip install 'agent-rag-middleware[milvus]' to run this")

from agent_rag.stores.milvus import MilvusLiteStore, client
from agent_rag.stores.milvus.schema import MilvusDialect, MilvusInfo, chunk_row, chunks_of
from agent_rag.stores.versions.protocol import NewRow

SERVER = os.environ.get("AGENT_RAG_MILVUS_URL")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Milvus server: that of AGENT_RAG_MILVUS_URL, or Milvus Lite in a process of its own."""
    if SERVER:
        yield SERVER
        return
    with _serving(tmp_path_factory.mktemp("milvus"), "-m", "milvus_lite", "server") as address:
        yield address


@contextlib.contextmanager
def _serving(folder: Path, *command: str) -> Iterator[str]:
    """Address of a server in a process of its own."""
    port = _free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--data-dir", str(folder / "data")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *command, *options], stdout=log, stderr=log)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the Milvus Lite server did not start within 30 s")


class TestMilvusEndpoint(StoreContract):
    """The same calls to a server, which several stores may write to."""

    persistent = True
    shared = True
    has_unavailable = True

    @pytest.fixture
    def make_store(self, endpoint: str) -> MakeStore:
        return lambda: MilvusLiteStore(endpoint)

    @pytest.fixture
    def unavailable(self) -> MilvusLiteStore:
        return MilvusLiteStore(f"http://127.0.0.1:{_free_port()}", token="user:secret", timeout_s=3)

    async def test_readers_see_one_version_beside_two_writers(self, make_store: MakeStore, collection: str) -> None:
        """Three stores at once: no search and no list mixes versions, finds a part of one, or none."""
        reads = await assert_one_version_is_seen(make_store, collection, replaces=self.race_trials)

        assert reads > 10

    async def test_a_stall_within_a_search_hides_no_document(self, tmp_path: Path, collection: str) -> None:
        """Milvus Lite reads rows first and what was deleted last; a replace that fits in between is noticed."""
        with _serving(tmp_path, "-c", _STALLING_SERVER) as address:
            reads = await assert_one_version_is_seen(lambda: MilvusLiteStore(address), collection, replaces=20)

        assert reads > 0

    async def test_stores_that_create_one_collection_at_once_make_one(
        self, make_store: MakeStore, collection: str
    ) -> None:
        """Whoever is first decides its size; nothing that was written to it goes, and no heads of others stay."""
        async with make_store() as first, make_store() as second:
            await asyncio.gather(
                first.create_collection(collection, 4), second.create_collection(collection, 8), return_exceptions=True
            )
            info = await second.collection_info(collection)
            assert info is not None
            vector = (1.0, *[0.0] * (info.dimensions - 1))
            for number, store in enumerate((first, second)):
                await store.insert(collection, [record(f"d{number}", vector=vector)])
            names = await asyncio.to_thread(store._engine._server.milvus.names)  # type: ignore[attr-defined]

            assert [item.document_id for item in await first.list_documents(collection)] == ["d0", "d1"]
            assert len([name for name in names if name.startswith(chunks_of(collection).removesuffix("chunks"))]) == 2

    async def test_large_chunks_are_read_in_parts(
        self, make_store: MakeStore, collection: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By what they take in an answer: 40 of 4,000 characters, at most 100,000 bytes each time."""
        monkeypatch.setattr(client, "PIECE_BYTES", 100_000)
        async with make_store() as store:
            await store.create_collection(collection, 4)
            await store.replace(collection, [document()], [record("doc", n, f"{n} {'x' * 4_000}") for n in range(40)])
            answers = []
            call = client.Connection.call

            def counting(self: client.Connection, method: str, *arguments: object, **options: object) -> object:
                answer = call(self, method, *arguments, **options)
                if method == "get" and "c" in options.get("output_fields", ()):  # type: ignore[operator]
                    answers.append(len(answer))
                return answer

            monkeypatch.setattr(client.Connection, "call", counting)
            listed = await store.list_chunks(collection, "doc", limit=50)

        assert [item.chunk.chunk_index for item in listed] == list(range(40))
        assert answers == [5] * 8


# --- options and names ---


def test_wrong_options_are_refused() -> None:
    """The message names what is allowed; a password in an address is not shown."""
    with pytest.raises(ConfigurationError, match=r"ends in '\.db'"):
        MilvusLiteStore("./folder")
    with pytest.raises(ConfigurationError, match="COSINE"):
        MilvusLiteStore(metric_type="cosine")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="batch_size=0"):
        MilvusLiteStore(batch_size=0)
    assert "secret" not in repr(MilvusLiteStore("http://user:secret@localhost:19530"))


def test_different_names_are_stored_apart() -> None:
    """No two names share a Milvus collection, also those that look like encodings of others."""
    names = ["a b", "a_20_b", "a_b", "a__b", "ab", "AB", "x" * 300, "x" * 301, "_", "__", "5f"]

    stored = {chunks_of(name) for name in names}

    assert len(stored) == len(names)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,254}", one) for one in stored)


# --- filters as text ---

_values = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())


@given(field=st.text(min_size=1), value=_values, more=st.lists(_values, max_size=20))
def test_no_value_gets_into_an_expression(field: str, value: object, more: list[object]) -> None:
    """Whatever the caller's field and values are, an expression has field names, hashes, numbers and operators."""
    where = (F(field) == value) | ~F(field).in_(more) | F(field).contains(value) | (F(field) >= 1.5)

    expression = MilvusDialect().condition(where)

    word = r"array_contains_any|not|and|or|[ny]|id|e[+-]?"
    assert re.fullmatch(rf'(?:"(?:n_)?[0-9a-f]{{16}}"|""|{word}|[-\d.]+|[()\[\],=!<>\s])*', expression)


def test_too_many_filter_values_are_refused() -> None:
    """A list that does not fit in a field of Milvus raises, with the limit."""
    row = NewRow(0, np.zeros(4, np.float32), "{}", {"tags": [str(n) for n in range(5_000)]}, [])

    with pytest.raises(RecordError, match="3,800"):
        chunk_row(MilvusInfo(name="c", dimensions=4), "7", row, 1.0)


_STALLING_SERVER = """
import random, sys, time
from milvus_lite.cmdline import main
from milvus_lite.storage.memtable import MemTable

deleted = MemTable.delete_index_snapshot
random.seed(1)

def stalling(self):
    if random.random() < 0.25:
        time.sleep(0.2)
    return deleted(self)

MemTable.delete_index_snapshot = stalling
sys.argv[1:1] = ["server"]
main()
"""
