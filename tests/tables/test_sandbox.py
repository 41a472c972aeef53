"""What a query may not do: write, open files, leave its tables, or go on for ever."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_rag.documents import DocumentSummary
from agent_rag.errors import TableQueryError
from agent_rag.tables.catalog import Catalog
from agent_rag.tables.folder import TableFolder
from agent_rag.tables.model import Column, Table, Value
from agent_rag.tables.query import QueryLimits, TableAnswer, run_query
from agent_rag.tables.sandbox import Readable, answer


def table(name: str, rows: Sequence[tuple[str, int]]) -> Table:
    columns = [
        Column(name="who", header="Who", type="text"),
        Column(name="amount", header="Amount", type="integer", unit="EUR"),
    ]
    numbered: list[tuple[Value, ...]] = [(*row, number) for number, row in enumerate(rows, start=2)]
    return Table(
        name=name, columns=columns, rows=numbered, row_count=len(rows), first=2, last=len(rows) + 1,
        place={"sheet": "Pay"},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> TableFolder:
    return TableFolder(tmp_path / "tables")


@pytest.fixture
def mine(folder: TableFolder) -> Path:
    return folder.file("kb", "mine", folder.write("kb", "mine", [table("table", [("Ada", 10), ("Bo", 30)])]))


@pytest.fixture
def theirs(folder: TableFolder) -> Path:
    return folder.file("kb", "theirs", folder.write("kb", "theirs", [table("table", [("Secret", 99)])]))


@pytest.fixture
def catalog(folder: TableFolder, mine: Path, theirs: Path) -> Catalog:
    """What one reader may see: the other file lies beside it."""
    document = DocumentSummary(document_id="pay.xlsx", source="pay.xlsx", chunk_count=1)
    return Catalog([(document, mine, folder.read(mine))])


async def ask(catalog: Catalog, sql: str, **limits: float) -> TableAnswer:
    return await run_query(sql, catalog, QueryLimits(**limits))  # type: ignore[arg-type]


ATTACKS = {
    "insert": "insert into pay values ('x', 1, 1)",
    "update": "update pay set amount = 0",
    "delete": "delete from pay",
    "replace": "replace into pay values ('x', 1, 1)",
    "drop table": "drop table document0.t0",
    "drop view": "drop view pay",
    "create table": "create table x as select * from pay",
    "create temp table": "create temp table x as select * from pay",
    "create index": "create index document0.i on t0(amount)",
    "create trigger": "create temp trigger x after insert on pay begin select 1; end",
    "alter": "alter table document0.t0 add column x",
    "delete with returning": "delete from document0.t0 returning *",
    "attach": "attach '{theirs}' as other",
    "attach read-only": "attach 'file:{theirs}?mode=ro' as other",
    "detach": "detach document0",
    "vacuum into": "vacuum into '{copy}'",
    "vacuum": "vacuum",
    "reindex": "reindex",
    "analyze": "analyze",
    "pragma": "pragma query_only = off",
    "pragma as a function": "select * from pragma_database_list",
    "pragma writable_schema": "pragma writable_schema = on",
    "schema": "select * from sqlite_master",
    "schema of the file": "select sql from document0.sqlite_schema",
    "temporary schema": "select * from sqlite_temp_master",
    "catalog of the file": "select info from document0.tables",
    "load_extension": "select load_extension('{theirs}')",
    "readfile": "select readfile('{theirs}')",
    "writefile": "select writefile('{copy}', 'x')",
    "edit": "select edit('x', 'rm')",
    "fts3_tokenizer": "select fts3_tokenizer('simple')",
    "dbpage": "select * from sqlite_dbpage",
    "dbstat": "select * from dbstat",
    "zipfile": "select * from zipfile('{theirs}')",
    "csv of a file": "create virtual table temp.x using csv(filename='{theirs}')",
    "full text index": "create virtual table temp.x using fts5(a)",
    "begin": "begin immediate",
    "savepoint": "savepoint a",
    "two statements": "select 1; delete from document0.t0",
    "table of another file": "select * from theirs",
    "table that is not there": "select * from main.t0",
    "as a name of a common table": "with pay as (select * from document1.t0) select * from pay",
    "in a subquery": "select (select group_concat(name) from document0.sqlite_schema) from pay",
    "in a count": "select count(*) from document0.sqlite_schema",
    "random": "select random() from pay",
    "explain": "explain select * from pay",
    "memory": "select zeroblob(1000000000)",
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_attack_gets_an_error_and_changes_nothing(
    attack: str, catalog: Catalog, mine: Path, theirs: Path, tmp_path: Path
) -> None:
    """No write, no file, no other table; the files hold what they held, and no new one is there."""
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    sql = ATTACKS[attack].format(theirs=theirs, copy=tmp_path / "copy")

    with pytest.raises(TableQueryError):
        await ask(catalog, sql)

    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    "sql",
    [
        "with recursive t(x) as (select 1 union all select x + 1 from t) select count(*) from t",
        "with recursive t(x) as (select 'a' union all select x || x from t) select length(max(x)) from t",
        "with recursive t(x) as (select 1 union select x + 1 from t) select sum(a.x) from t a, t b, t c",
        "select count(*) from " + ", ".join(f"pay p{n}" for n in range(40)),
        "with recursive t(x) as (select printf('%.400000c', 'a') union all select x from t) "
        "select count(*) from t where instr(x, printf('%.200000c', 'a') || 'b')",
        "with " + ", ".join(
            [f"t{n + 1} as (select * from t{n} union all select * from t{n})" for n in range(60)]
        ).replace("t1 as", "t0 as (select 1 as x), t1 as", 1) + " select count(*) from t60",
    ],
    ids=["counting", "growing", "joined", "product", "slow function", "doubling"],
)  # fmt: skip
async def test_an_endless_query_ends_with_an_error(sql: str, catalog: Catalog) -> None:
    """By the clock of SQLite's machine, by a limit, or with its process."""
    with pytest.raises(TableQueryError):
        await ask(catalog, sql)


async def test_a_query_may_compute_join_and_open_json(catalog: Catalog) -> None:
    """What the sandbox is for is not in its way."""
    sql = (
        "with top as (select who, sum(amount) as total from pay group by who) "
        "select p.who, round(p.amount * 1.5, 2) as more, rank() over (order by p.amount desc) as place, "
        "(select count(*) from json_each('[1, 2]')) as items, strftime('%Y', '2024-03-05') as year "
        "from pay p join top using (who) order by place"
    )

    found = await ask(catalog, sql)

    assert found.rows == [("Bo", 45.0, 1, 2, "2024"), ("Ada", 15.0, 2, 2, "2024")]
    assert [citation.label for citation in found.citations] == ["pay.xlsx, sheet Pay, rows 2-3"]


async def test_a_count_of_rows_cites_its_table(catalog: Catalog) -> None:
    """Although no column is read."""
    found = await ask(catalog, "select count(*) from pay")

    assert (found.rows, [citation.table for citation in found.citations]) == ([(2,)], ["pay"])


async def test_the_rows_of_an_answer_are_cited_where_it_names_them(catalog: Catalog) -> None:
    """With `_row` in the answer the citation has these rows, without it the table's."""
    narrow = await ask(catalog, "select * from pay where amount > 20")
    wide = await ask(catalog, "select who from pay where amount > 20")

    assert narrow.citations[0].rows == (3, 3)
    assert wide.citations[0].rows == (2, 3)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from pays", "there is no table 'pays'; nearest: pay"),
        ("select * from salary", "there is no table 'salary'; tables: pay"),
        ("select amuont from pay", "there is no column 'amuont'; nearest: amount"),
        ("select p.zzz from pay p", "there is no column 'zzz'; columns of pay: who, amount"),
        ("selec who from pay", "only SELECT is answered (WITH may stand before it), not 'selec'"),
        ("select who, from pay", 'the query is not valid SQL of SQLite: near "from": syntax error'),
        ("", "the query is empty; write a SELECT over the tables of describe_tables"),
        ("select 1; select 2", "only one SELECT is answered at a time; send the statements one by one"),
    ],
)
async def test_an_error_names_what_is_nearest(sql: str, message: str, catalog: Catalog) -> None:
    with pytest.raises(TableQueryError) as raised:
        await ask(catalog, sql)

    assert str(raised.value) == message


async def test_a_long_answer_is_cut_and_says_so(catalog: Catalog) -> None:
    """By rows and by characters."""
    numbers = "with recursive t(x) as (select 1 union all select x + 1 from t where x < 500) select x from t"

    few = await ask(catalog, numbers, rows=10)
    short = await ask(catalog, numbers, characters=100)

    assert (len(few.rows), few.has_more) == (10, True)
    assert (len(short.rows), short.has_more) == (15, True)
    assert "there are more" in few.text()


def test_tables_of_many_documents_are_asked_together(folder: TableFolder) -> None:
    """SQLite attaches ten files; of more, tables are copied, and nothing else of their files is there."""
    files = [folder.file("kb", "", folder.write("kb", "", [table("table", [("x", n)])])) for n in range(12)]
    readable = [Readable(f"pay_{n}", file, 0) for n, file in enumerate(files)]
    union = " union all ".join(f"select amount from pay_{n}" for n in range(12))

    found = answer(f"select sum(amount) from ({union})", readable, 10, 5)
    other = answer("select * from sqlite_schema, " + ", ".join(f"pay_{n}" for n in range(12)), readable, 10, 5)

    assert (found.rows, sorted(found.used)) == ([(66,)], sorted(f"pay_{n}" for n in range(12)))
    assert other.refused == "table sqlite_master" or other.refused == "table sqlite_schema"


def test_the_clock_stops_a_query_in_its_process(mine: Path) -> None:
    """The limit is the query's own, not the end of its process."""
    started = time.monotonic()

    found = answer("with recursive t(x) as (select 1 union all select x + 1 from t) select max(x) from t", [], 10, 0.05)

    assert found.timed_out
    assert time.monotonic() - started < 5
