"""Where typed tables lie: a folder with one SQLite file for each version of a document.

A file is written whole before the store names it, in the document's state, and never changed. So the tables that a
reader sees are those of the version of the document that the store holds: old or new, in any store, with any number of
processes, and a crash leaves at most a file that nobody names. `sweep` removes those.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from ..errors import StoreDamagedError, StoreError, StoreFullError, StoreReadOnlyError
from ..stores.files import TABLES_MARK
from .model import Table, TableInfo
from .names import quoted

STATE = "tables"
"""Field of a document's state that names the version of its tables."""
ORPHAN_AGE_S = 3600.0
"""A file that no document names may belong to a write that is under way; after so long it does not."""
_TYPES = {"integer": "INTEGER", "number": "REAL", "boolean": "INTEGER"}


class TableFolder:
    """The tables of the documents of one store, by collection and scope. Its methods are for threads.

    Args:
        path: Made on the first write. Stores must not share one.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"TableFolder({str(self.path)!r})"

    def file(self, collection: str, scope: str, version: str) -> Path:
        """Where the tables of a document's version are, or would be."""
        return self._folder(collection, scope) / f"{version}.db"

    def write(self, collection: str, scope: str, tables: Sequence[Table]) -> str:
        """Keep the tables of one document. Returns their version, a name that is never used again.

        Raises: StoreFullError, StoreReadOnlyError, StoreError: the folder or a file cannot be written.
        """
        version = uuid.uuid4().hex
        file = self.file(collection, scope, version)
        draft = file.with_suffix(".part")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            (self.path / TABLES_MARK).touch()  # no source takes what lies here for documents
            _write(draft, tables)
            _settle(draft, file)
        except (OSError, sqlite3.Error) as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise _translated(error, self.path) from error
        return version

    def read(self, file: Path) -> list[TableInfo]:
        """The tables in a file, without their rows.

        Raises: FileNotFoundError: it is gone, so the document has a newer version or none. StoreDamagedError.
        """
        if not file.exists():
            raise FileNotFoundError(file)
        try:
            with closing(sqlite3.connect(read_only_uri(file), uri=True)) as connection:
                rows = connection.execute("select info from tables order by position").fetchall()
                return [TableInfo.model_validate_json(info) for (info,) in rows]
        except (sqlite3.Error, ValueError) as error:
            if not file.exists():
                raise FileNotFoundError(file) from None
            raise StoreDamagedError(
                f"{file} is damaged ({error}); delete it and ingest its document again with --reread"
            ) from error

    def remove(self, collection: str, scope: str, versions: Collection[str]) -> None:
        """Delete what documents no longer name. A file that cannot be deleted now is left to `sweep`."""
        for version in versions:
            with suppress(OSError):
                self.file(collection, scope, version).unlink(missing_ok=True)

    def sweep(self, collection: str, scope: str, named: Collection[str], *, age_s: float = ORPHAN_AGE_S) -> int:
        """Delete what no document names and no running write can be about to name. Returns the number of files.

        Args:
            named: Versions that documents of this collection and scope name.
        """
        removed = 0
        before = time.time() - age_s
        keep = set(named)
        for entry in _entries(self._folder(collection, scope)):
            with suppress(OSError):
                if Path(entry.name).stem not in keep and entry.stat().st_mtime < before:
                    os.unlink(entry.path)
                    removed += 1
        return removed

    def drop(self, collection: str) -> None:
        """Delete the tables of a collection that was dropped."""
        shutil.rmtree(self.path / _digest(collection), ignore_errors=True)

    def _folder(self, collection: str, scope: str) -> Path:
        return self.path / _digest(collection) / _digest(scope)


def read_only_uri(file: Path) -> str:
    """For sqlite3; the file never changes, so it needs no locks."""
    return f"{file.resolve().as_uri()}?mode=ro&immutable=1"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from list(entries)
    except FileNotFoundError:
        return


def _write(file: Path, tables: Sequence[Table]) -> None:
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = off")  # nobody knows this file before it is whole
        connection.execute("pragma synchronous = off")
        connection.execute("begin")
        connection.execute("create table tables (position integer primary key, info text not null)")
        for position, table in enumerate(tables):
            connection.execute("insert into tables values (?, ?)", (position, table.info().model_dump_json()))
            columns = [f"{quoted(column.name)} {_TYPES.get(column.type, 'TEXT')}" for column in table.columns]
            connection.execute(f"create table t{position} ({', '.join([*columns, '_row INTEGER'])})")
            marks = ", ".join("?" * (len(columns) + 1))
            connection.executemany(f"insert into t{position} values ({marks})", table.rows)
        connection.execute("commit")


def _settle(draft: Path, file: Path) -> None:
    """Put a whole file in its place, so that it is there after a power failure too."""
    descriptor = os.open(draft, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(draft, file)
    if os.name == "posix":
        descriptor = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _translated(error: Exception, folder: Path) -> StoreError:
    text = str(error).lower()
    if "full" in text or "no space" in text:
        return StoreFullError(f"the disk is full; the tables in {folder} are as they were")
    if isinstance(error, PermissionError) or "readonly" in text or "read-only" in text or "unable to open" in text:
        return StoreReadOnlyError(f"the tables of documents cannot be written to {folder}: {error}")
    return StoreError(f"the tables of documents cannot be written to {folder}: {error}")
