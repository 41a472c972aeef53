"""What is asked of messy workbooks has the answer that the clean data gives."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from agent_rag.parsers import parser_for
from agent_rag.tables.extract import extract_tables
from agent_rag.tables.model import Table

from .workbooks import CleanTable, Workbook, workbooks

CORPUS = workbooks()


def tables_of(book: Workbook) -> list[Table]:
    parser = parser_for(book.filename, data=book.data)
    return extract_tables(parser.parse_here(book.data, book.filename))  # type: ignore[attr-defined]


def matching(found: list[Table], wanted: CleanTable) -> tuple[Table, dict[str, int]]:
    """The table that has the wanted headers, and which of its columns each of them is."""
    for table in found:
        labels = [re.split(r" / |\(", column.header)[-1 if "(" not in column.header else 0] for column in table.columns]
        labels = [label.strip() for label in labels]
        if all(column.label in labels for column in wanted.columns):
            return table, {column.name: labels.index(column.label) for column in wanted.columns}
    raise AssertionError(f"no table with {[column.label for column in wanted.columns]} in {found}")


def cells(book: Workbook) -> list[tuple[str, Any, Any]]:
    """(type as it should be and is, value as it should be, value as it is) of all cells."""
    found = tables_of(book)
    pairs: list[tuple[str, Any, Any]] = []
    for wanted in book.tables:
        table, at = matching(found, wanted)
        for number, row in enumerate(wanted.rows):
            for index, column in enumerate(wanted.columns):
                got = table.rows[number][at[column.name]] if number < len(table.rows) else "missing row"
                kinds = f"{column.type}={table.columns[at[column.name]].type}"
                pairs.append((kinds, row[index], got))
    return pairs


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(other) and one == other


def database(tables: list[tuple[str, list[str], list[tuple[Any, ...]]]]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for name, columns, rows in tables:
        connection.execute(f"create table {name} ({', '.join(columns)})")
        connection.executemany(f"insert into {name} values ({', '.join('?' * len(columns))})", rows)
    return connection


def asked(connection: sqlite3.Connection, sql: str, name_of: Callable[[str], str]) -> list[tuple[Any, ...]]:
    return connection.execute(re.sub(r"\{([\w.]+)\}", lambda found: name_of(found[1]), sql)).fetchall()


@pytest.mark.parametrize("book", CORPUS, ids=lambda book: book.filename)
def test_each_table_has_the_rows_of_the_clean_data(book: Workbook) -> None:
    """Titles, totals, repeated headers and notes are no rows; empty rows cut none off."""
    found = tables_of(book)

    counts = [matching(found, wanted)[0].row_count for wanted in book.tables]

    assert counts == [len(wanted.rows) for wanted in book.tables]


def test_cells_have_their_types_and_values() -> None:
    """At least 99 % of all cells: numbers of both languages, dates, codes with leading zeros, gaps."""
    pairs = [pair for book in CORPUS for pair in cells(book)]

    wrong = [
        pair
        for pair in pairs
        if (len(set(pair[0].split("="))) > 1 and pair[0] != "number=integer") or not equal(*pair[1:])
    ]

    assert len(pairs) > 4_000
    assert len(wrong) <= len(pairs) // 100, wrong[:20]


@pytest.mark.parametrize("book", CORPUS, ids=lambda book: book.filename)
def test_questions_have_the_answers_of_the_clean_data(book: Workbook) -> None:
    """Count, sum, average, max, group and join: each equals gold SQL over the clean data."""
    gold = database([(one.name, [column.name for column in one.columns], one.rows) for one in book.tables])
    found = tables_of(book)
    matched = {one.name: matching(found, one) for one in book.tables}
    mine = database(
        [
            (name, [f"c{index}" for index in range(len(table.columns))], [row[:-1] for row in table.rows])
            for name, (table, _) in matched.items()
        ]
    )

    def renamed(name: str) -> str:
        table, _, column = name.partition(".")
        return f"{table}.c{matched[table][1][column]}" if column else table

    with closing(gold), closing(mine):
        for question in book.questions:
            wanted = asked(gold, question, lambda name: name)
            got = asked(mine, question, renamed)
            assert len(got) == len(wanted), (question, got, wanted)
            assert all(equal(a, b) for x, y in zip(got, wanted, strict=True) for a, b in zip(x, y, strict=True)), (
                question, got, wanted,
            )  # fmt: skip


def test_there_are_more_than_150_questions() -> None:
    assert sum(len(book.questions) for book in CORPUS) >= 150
