"""Typed tables in step with the documents of a store: written, replaced, deleted, kept apart by scope."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_rag import KnowledgeBase, MemoryStore, ParserPool
from agent_rag.documents import Chunk
from agent_rag.errors import ConfigurationError, StoreError, TableQueryError
from agent_rag.ingestion import ingest, sync
from agent_rag.knowledge.document import Document
from agent_rag.sources import DirectorySource, MemorySource, SourceDocument
from agent_rag.stores.sqlite.store import SQLiteStore
from agent_rag.tables.folder import TableFolder
from agent_rag.testing import HashEmbedding

from ..shared import ROOT
from .test_questions import asked, database, equal, matching, tables_of
from .test_sandbox import table
from .workbooks import workbooks


@pytest.fixture(scope="module")
def pool() -> Any:
    shared = ParserPool(workers=2)
    yield shared
    shared.close()


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


def base(store: Any, folder: Path, **options: Any) -> KnowledgeBase:
    return KnowledgeBase("kb", "pay", HashEmbedding(), store, "kb", tables=folder, **options)


def document(name: str, amounts: list[int], **metadata: Any) -> Document:
    rows = [(f"p{number}", amount) for number, amount in enumerate(amounts)]
    chunk = Chunk.model_validate(
        {"content": {"type": "text", "text": f"{name} {amounts}"}, "source": name, "chunk_index": 0, "total_chunks": 1}
    )
    return Document(document_id=name, chunks=[chunk], metadata=metadata, tables=[table("table", rows)])


def version(amount: int) -> Document:
    """A document whose text and two tables say the same number."""
    one = document("pay.xlsx", [])
    one.chunks[0].content.text = f"amount {amount}"  # type: ignore[union-attr]
    return one.model_copy(update={"tables": [table("left", [("a", amount)]), table("right", [("a", amount)])]})


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".db", ".part"))


async def total(kb: KnowledgeBase, name: str = "pay", **options: Any) -> Any:
    found = await kb.query_tables(f"select sum(amount) from {name}", **options)
    return found.rows[0][0]


async def test_a_replaced_document_has_its_new_tables_only(store: MemoryStore, tmp_path: Path) -> None:
    kb = base(store, tmp_path / "t")

    await kb.replace_documents([document("pay.xlsx", [1, 2])])
    first = await total(kb)
    await kb.replace_documents([document("pay.xlsx", [10, 20])])

    assert (first, await total(kb)) == (3, 30)
    assert len(files(tmp_path / "t")) == 1


async def test_a_deleted_document_has_no_tables_and_no_file(store: MemoryStore, tmp_path: Path) -> None:
    """By id and by filter."""
    kb = base(store, tmp_path / "t")
    await kb.replace_documents([document("a.xlsx", [1]), document("b.xlsx", [2], year=2024), document("c.xlsx", [3])])

    await kb.delete_document("a.xlsx")
    await kb.delete_by_filter({"year": 2024})

    assert [one.name for one in await kb.list_tables()] == ["c"]
    assert len(files(tmp_path / "t")) == 1
    with pytest.raises(TableQueryError, match="no table 'a'"):
        await kb.query_tables("select * from a")


async def test_a_failed_write_leaves_the_tables_that_were_there(store: MemoryStore, tmp_path: Path) -> None:
    """The store refuses the new version, so nobody names its tables; a sweep removes the file."""
    kb = base(store, tmp_path / "t")
    await kb.replace_documents([document("pay.xlsx", [1, 2])])
    whole = store.replace

    async def failing(*arguments: Any, **options: Any) -> int:
        raise StoreError("no room")

    store.replace = failing  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await kb.replace_documents([document("pay.xlsx", [10, 20])])
    store.replace = whole  # type: ignore[method-assign]

    assert await total(kb) == 3
    assert len(files(tmp_path / "t")) == 2
    assert await kb.sweep_tables() == 0  # it may belong to a write that is under way
    for file in files(tmp_path / "t"):
        os.utime(file, (0, 0))
    assert await kb.sweep_tables() == 1
    assert await total(kb) == 3


async def test_readers_see_old_or_new_while_documents_are_replaced(store: MemoryStore, tmp_path: Path) -> None:
    """Two tables of one document always have the same version."""
    kb = base(store, tmp_path / "t")

    await kb.replace_documents([version(0)])
    done = asyncio.Event()
    seen: list[Any] = []

    async def write() -> None:
        for amount in range(1, 40):
            await kb.replace_documents([version(amount)])
            await asyncio.sleep(0.01)
        done.set()

    async def read() -> None:
        while not done.is_set():
            found = await kb.query_tables("select l.amount, r.amount from pay_left l join pay_right r on 1")
            seen.append(found.rows[0])

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        group.create_task(read())

    assert seen
    assert [one for one in seen if one[0] != one[1]] == []
    assert len(files(tmp_path / "t")) == 1


async def test_scopes_do_not_see_each_other(store: MemoryStore, tmp_path: Path) -> None:
    """Two tenants with a document of the same id; neither the name nor the file of the other can be asked for."""
    mine = base(store, tmp_path / "t", metadata_filter={"tenant": "me"})
    theirs = base(store, tmp_path / "t", metadata_filter={"tenant": "they"})
    await mine.replace_documents([document("pay.xlsx", [1, 2])])
    await theirs.replace_documents([document("pay.xlsx", [50]), document("secret.xlsx", [99])])

    assert (await total(mine), await total(theirs)) == (3, 50)
    assert [one.name for one in await mine.list_tables()] == ["pay"]
    assert "secret" not in await mine.describe_tables()
    with pytest.raises(TableQueryError, match=r"no table 'secret'; tables: pay$"):
        await mine.query_tables("select * from secret")
    assert [one.name for one in await base(store, tmp_path / "t").list_tables()] != ["pay"]


async def test_a_filter_decides_over_documents(store: MemoryStore, tmp_path: Path) -> None:
    kb = base(store, tmp_path / "t")
    await kb.replace_documents([document("a.xlsx", [1], year=2023), document("b.xlsx", [2], year=2024)])

    names = [one.name for one in await kb.list_tables(filter={"year": 2024})]

    assert names == ["b"]
    with pytest.raises(TableQueryError, match="no table 'a'"):
        await kb.query_tables("select * from a", filter={"year": 2024})


async def test_updated_metadata_keeps_the_tables(store: MemoryStore, tmp_path: Path) -> None:
    kb = base(store, tmp_path / "t")
    await kb.replace_documents([document("pay.xlsx", [1, 2])])

    await kb.update_documents({}, metadata={"year": 2024})

    assert await total(kb, filter={"year": 2024}) == 3


async def test_tables_that_are_lost_are_told_of(store: MemoryStore, tmp_path: Path) -> None:
    """As after the store was copied without them."""
    kb = base(store, tmp_path / "t")
    await kb.replace_documents([document("pay.xlsx", [1])])

    elsewhere = base(store, tmp_path / "other")

    assert await elsewhere.describe_tables() == (
        "there are no tables\nthe tables of 1 document(s) are not here: ingest them again (--reread)"
    )


async def test_a_knowledge_base_without_tables_says_so(store: MemoryStore) -> None:
    kb = KnowledgeBase("kb", "x", HashEmbedding(), store, "kb")
    await kb.replace_documents([document("pay.xlsx", [1])])

    with pytest.raises(ConfigurationError, match="keeps no tables"):
        await kb.query_tables("select 1")


async def test_ingestion_keeps_tables_in_step_with_files(pool: ParserPool, tmp_path: Path) -> None:
    """Added, unchanged, changed, gone: each run of `sync` leaves the tables of the files that are there."""
    folder, docs = tmp_path / "kb.tables", tmp_path / "docs"
    docs.mkdir()
    (docs / "a.csv").write_text("name,amount\nx,1\ny,2\n")
    (docs / "b.md").write_text("# Costs\n\n| Item | Euro |\n| --- | ---: |\n| Rope | 1.234,50 |\n| Tar | 12,00 |\n")
    async with SQLiteStore(tmp_path / "kb.db") as store:
        kb = base(store, folder)
        await sync(kb, DirectorySource(docs), pool=pool)
        first = await total(kb, "a"), (await kb.query_tables("select sum(euro) from b")).rows
        again = await sync(kb, DirectorySource(docs), pool=pool)
        (docs / "a.csv").write_text("name,amount\nx,10\ny,20\nz,30\n")
        (docs / "b.md").unlink()
        await sync(kb, DirectorySource(docs), pool=pool, max_prune_share=1.0)

        assert first == (3, [(1246.5,)])
        assert {file.outcome for file in again.files} == {"unchanged"}
        assert await total(kb, "a") == 60
        assert len(files(folder)) == 1


async def test_documents_are_read_anew_once_tables_are_kept(pool: ParserPool, tmp_path: Path) -> None:
    """A knowledge base that had none gets them at the next run, and the run after that has nothing to do."""
    source = MemorySource([SourceDocument(document_id="a.csv", content="name,amount\nx,1\ny,2\n")], name="mem")
    async with MemoryStore() as store:
        await ingest(KnowledgeBase("kb", "x", HashEmbedding(), store, "kb"), source, pool=pool)
        kb = base(store, tmp_path / "t")
        changed = await ingest(kb, source, pool=pool)
        unchanged = await ingest(kb, source, pool=pool)

        assert [file.outcome for file in changed.files] == ["replaced"]
        assert [file.outcome for file in unchanged.files] == ["unchanged"]
        assert await total(kb, "a") == 3


async def test_150_questions_through_a_knowledge_base(pool: ParserPool, tmp_path: Path) -> None:
    """The messy workbooks in one knowledge base: every question has the answer of the clean data, and a citation."""
    docs = tmp_path / "docs"
    docs.mkdir()
    books = workbooks()
    for book in books:
        (docs / book.filename).write_bytes(book.data)
    count = 0
    async with MemoryStore() as store:
        kb = base(store, tmp_path / "t")
        await ingest(kb, docs, pool=pool)
        listed = await kb.list_tables()
        for book in books:
            gold = database([(one.name, [column.name for column in one.columns], one.rows) for one in book.tables])
            here = [one for one in listed if one.document.source == book.filename]
            names: dict[str, str] = {}
            for wanted in book.tables:
                found, at = matching(tables_of(book), wanted)
                (stored,) = [one for one in here if one.info.columns == found.columns]
                names[wanted.name] = stored.name
                names |= {f"{wanted.name}.{name}": f"{stored.name}.{found.columns[i].name}" for name, i in at.items()}
            for question in book.questions:
                wanted_rows = asked(gold, question, lambda name: name)
                sql = question
                for name in sorted(names, key=len, reverse=True):
                    sql = sql.replace(f"{{{name}}}", names[name])
                got = await kb.query_tables(sql)
                count += 1
                assert len(got.rows) == len(wanted_rows), (sql, got.rows, wanted_rows)
                for row, gold_row in zip(got.rows, wanted_rows, strict=True):
                    assert all(map(equal, row, gold_row)), (sql, got.rows, wanted_rows)
                assert {one.source for one in got.citations} == {book.filename}
            gold.close()
    assert count >= 150


@pytest.mark.parametrize("trial", range(3))
async def test_a_killed_writer_leaves_one_whole_version(trial: int, tmp_path: Path) -> None:
    """kill -9 at any moment: the tables are those of the document that the store holds; the sweep finds the rest."""
    command = [sys.executable, "-m", "tests.tables.crash_child", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "start\n"
        await asyncio.sleep(random.Random(trial).uniform(0.02, 0.4))
        child.send_signal(signal.SIGKILL)

    async with SQLiteStore(tmp_path / "kb.db") as store:
        kb = base(store, tmp_path / "t")
        (chunk,) = await kb.list_chunks("pay.xlsx")
        found = await kb.query_tables("select l.amount, r.amount from pay_left l join pay_right r on 1")
        for file in files(tmp_path / "t"):
            os.utime(file, (0, 0))
        await kb.sweep_tables()

        amount = int(chunk.text.split()[-1])
        assert found.rows == [(amount, amount)]
        assert len(files(tmp_path / "t")) == 1


def test_a_folder_of_tables_is_no_document(tmp_path: Path) -> None:
    """A source that holds the store's folder does not read it."""
    from agent_rag.stores.files import is_store_folder

    TableFolder(tmp_path).write("kb", "", [table("table", [("a", 1)])])

    assert is_store_folder(str(tmp_path), os.listdir(tmp_path))
