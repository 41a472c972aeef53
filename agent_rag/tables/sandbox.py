"""One SELECT over some tables, in a worker process: nothing else can be read, nothing written, and it ends."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .folder import read_only_uri
from .names import quoted

_MAX_ATTACHED = 8
"""SQLite attaches ten files at most in its usual build; tables of more documents are copied into memory."""
_STEPS = 2_000
"""Of SQLite's machine between two looks at the clock: .02 ms."""
_FUNCTIONS = frozenset({
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "ceil", "ceiling", "char", "coalesce",
    "concat", "concat_ws", "cos", "cosh", "count", "cume_dist", "date", "datetime", "degrees", "dense_rank", "exp",
    "first_value", "floor", "format", "glob", "group_concat", "hex", "ifnull", "iif", "instr", "json", "json_array",
    "json_array_length", "json_each", "json_extract", "json_group_array", "json_group_object", "json_object",
    "json_type", "json_valid", "julianday", "lag", "last_value", "lead", "length", "like", "ln", "log", "log10",
    "log2", "lower", "ltrim", "max", "median", "min", "mod", "nth_value", "ntile", "nullif", "percent_rank",
    "percentile", "pi", "pow", "power", "printf", "quote", "radians", "rank", "replace", "round", "row_number",
    "rtrim", "sign", "sin", "sinh", "sqrt", "strftime", "string_agg", "substr", "substring", "sum", "tan", "tanh",
    "time", "timediff", "total", "trim", "trunc", "typeof", "unicode", "unixepoch", "upper", "->", "->>",
})  # fmt: skip
"""All that a query may call: what computes from its arguments, and gives the same each time."""
_VIRTUAL = frozenset({"json_each", "json_tree"})
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 1_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 200_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


@dataclass(frozen=True)
class Readable:
    """A table that a query may read."""

    name: str
    """For SQL."""
    file: Path
    position: int
    """Of the table in its document."""


@dataclass
class Answered:
    """What a query gave."""

    columns: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    has_more: bool = False
    used: list[str] = field(default_factory=list)
    """Names of the tables that were read."""
    error: str = ""
    """SQLite's message where it gave none."""
    timed_out: bool = False
    refused: str = ""
    """What the query wanted and may not."""
    gone: bool = False
    """A file is not there any more: its document has been replaced or deleted."""


def answer(sql: str, tables: Sequence[Readable], max_rows: int, timeout_s: float) -> Answered:
    """Run `sql` over `tables`. An error of the query is in the answer.

    Args:
        max_rows: Rows that are read.
        timeout_s: Time for it, without what the opening of files takes.
    """
    result = Answered()
    with closing(sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)) as connection:
        try:
            places = _opened(connection, tables)
        except sqlite3.OperationalError as error:
            if all(table.file.exists() for table in tables):
                raise
            result.gone, result.error = True, str(error)
            return result
        _confine(connection, places, result, time.monotonic() + timeout_s)
        try:
            cursor = connection.execute(sql)
            if cursor.description is None:
                result.refused = "a statement without an answer"
                return result
            result.columns = [str(column[0]) for column in cursor.description]
            found = cursor.fetchmany(max_rows + 1)
            result.has_more = len(found) > max_rows
            result.rows = [tuple(map(_plain, row)) for row in found[:max_rows]]
        except (sqlite3.Error, sqlite3.Warning, MemoryError, UnicodeEncodeError) as error:
            result.error = str(error) or type(error).__name__
            result.rows = []
    return result


def _opened(connection: sqlite3.Connection, tables: Sequence[Readable]) -> dict[tuple[str, str], str]:
    """Attach or copy the tables, with a view for each name. Returns names by (schema, table)."""
    connection.execute("pragma temp_store = memory")
    connection.execute("pragma trusted_schema = off")
    files = list(dict.fromkeys(table.file for table in tables))
    places: dict[tuple[str, str], str] = {}
    copies = len(files) > _MAX_ATTACHED
    for index, file in enumerate(files):
        schema = "copied" if copies else f"document{index}"
        connection.execute(f"attach ? as {schema}", (read_only_uri(file),))
        for table in tables:
            if table.file == file:
                origin = f"{schema}.t{table.position}"
                if copies:
                    connection.execute(f"create table main.{quoted(table.name)} as select * from {origin}")
                    places["main", table.name] = table.name
                else:
                    connection.execute(f"create temp view {quoted(table.name)} as select * from {origin}")
                    places[schema, f"t{table.position}"] = table.name
        if copies:
            connection.execute("detach copied")
    return places


def _confine(
    connection: sqlite3.Connection, places: dict[tuple[str, str], str], result: Answered, deadline: float
) -> None:
    """From now on the connection reads `places` and nothing else, and only until `deadline`."""
    for name in _VIRTUAL:  # SQLite makes them at their first use, which it asks the authorizer for as a write
        with suppress(sqlite3.OperationalError):
            connection.execute(f"select 1 from {name}('[]')")
    connection.execute("pragma query_only = on")
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    views = set(places.values())

    def allowed(action: int, first: str | None, second: str | None, schema: str | None, _: str | None) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            name = places.get((schema or "", first or ""))
            if name is not None:
                if name not in result.used:
                    result.used.append(name)
                return sqlite3.SQLITE_OK
            # A name without a schema is of the query itself: a subquery, or a view that is counted.
            if (first in views and schema == "temp") or first in _VIRTUAL or (not schema and not second):
                return sqlite3.SQLITE_OK
            result.refused = f"table {first}"
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION:
            if second is not None and second.lower() in _FUNCTIONS:
                return sqlite3.SQLITE_OK
            result.refused = f"function {second}"
            return sqlite3.SQLITE_DENY
        result.refused = _ACTIONS.get(action, "a statement that is no SELECT")
        return sqlite3.SQLITE_DENY

    def is_over() -> int:
        result.timed_out = time.monotonic() > deadline
        return int(result.timed_out)

    connection.set_authorizer(allowed)
    connection.set_progress_handler(is_over, _STEPS)


def _actions(names: Iterable[str]) -> dict[int, str]:
    return {getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ") for name in names}


_ACTIONS = _actions(["ATTACH", "DETACH", "PRAGMA", "INSERT", "UPDATE", "DELETE", "TRANSACTION", "CREATE_TABLE"])


def _plain(value: Any) -> Any:
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else value
