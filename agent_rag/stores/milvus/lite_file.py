"""A file of Milvus Lite, driven through its embedded engine: collections of rows by id.

A write is in the log, and with the operating system, when its call ends: a killed process loses nothing, a power cut
can lose the latest writes. After an error of a write the collection is read anew from its log (`LiteRows`).

The engine is Python in this process. `pymilvus` would talk to it over gRPC, which takes most of the time of a write.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._util.extras import needs
from ...errors import AgentRAGError, ConfigurationError, StoreError, StoreLockedError
from .lite_folder import LiteFolder

ID, TEXT, VECTORS, TERMS = "id", "c", "p", "t"
_SPARSE = "z"
"""Always empty; Milvus wants a vector column."""
Row = Mapping[str, str | None]

# Milvus Lite builds a file of all rows since the last flush, and holds the interpreter for .1 s at its own 128 MB.
_FLUSH_BYTES = 24_000_000

_log = logging.getLogger(__name__)


class LiteFile:
    """A file that is open or closed. All calls block."""

    def __init__(self, path: str, database: str = "") -> None:
        """
        Args:
            database: Of the databases in the file, "" for the default one.

        Raises: ConfigurationError: there is no such path on any disk.
        """
        if "\0" in path:
            raise ConfigurationError(f"the path {path!r} has a NUL character; choose another")
        self.path = Path(path).absolute()
        self._database = database or "default"
        self._lite = needs("milvus", "milvus_lite", purpose="MilvusLiteStore(uri='file.db')")
        self._arrow = needs("milvus", "pyarrow", purpose="MilvusLiteStore(uri='file.db')")
        self._errors = (self._lite.MilvusLiteError, self._arrow.ArrowException, OSError)
        self._db: Any = None
        self._loaded: dict[str, Any] = {}
        """Collections in Milvus Lite's memory."""
        self._failed: BaseException | None = None

    def open(self) -> None:
        """Raises: StoreLockedError: someone else has the file open. StoreError: it cannot be opened."""
        self._failed = None
        try:
            with self.errors():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._db = self._lite.MilvusLite(str(self.path))
        except StoreError as error:
            if isinstance(error.__cause__, self._lite.DataDirLockedError):
                raise _locked(self.path) from error.__cause__
            raise

    def close(self) -> None:
        """Release the file; harmless when closed."""
        if self._db is None:
            return
        try:
            for name, collection in list(self._loaded.items()):
                log = collection._wal
                try:
                    collection.close()
                except Exception:  # its rows are in the log
                    _log.warning(
                        "cannot write the segments of %s; its log stays", self.folder(name).path, exc_info=True
                    )
                    self._forget(name, log)
        finally:
            db, self._db, self._loaded = self._db, None, {}
            with self.errors():
                db.close()

    def check(self) -> None:
        """Raises: StoreError: what is in memory cannot be trusted."""
        if self._failed is not None:
            raise StoreError(
                f"{self.path} could not be read again after an error ({self._failed}); close this store, then it can "
                "be opened again"
            ) from self._failed

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of Milvus Lite, and of reading what it holds, into ours."""
        try:
            yield
        except AgentRAGError:
            raise
        except self._errors as error:
            raise StoreError(f"Milvus Lite failed on {self.path}: {str(error)[:500]}") from error
        except Exception as error:
            raise StoreError(
                f"{self.path} cannot be used, it may be damaged ({type(error).__name__}: {str(error)[:300]}); restore "
                "it from a copy, or ingest into a new file"
            ) from error

    # --- collections ---

    def names(self) -> list[str]:
        with self.errors():
            return list(self._db.list_collections(database_name=self._database))

    def get(self, name: str) -> LiteRows:
        """A collection that is there; its rows are in memory from then on."""
        self._load(name)
        return LiteRows(self, name)

    def collection(self, name: str) -> Any:
        """Milvus Lite's object."""
        self.check()
        return self._loaded[name]

    def _load(self, name: str) -> None:
        with self.errors():
            self.folder(name).check()
            self._loaded[name] = self._db.get_collection(name, database_name=self._database)
        self._arrow.default_memory_pool().release_unused()  # 180 MB after reading 100,000 chunks

    def create(self, name: str) -> LiteRows:
        """A new collection; one with this name is dropped."""
        field, kind = self._lite.FieldSchema, self._lite.DataType
        schema = self._lite.CollectionSchema(
            fields=[
                field(ID, kind.VARCHAR, is_primary=True, max_length=255),
                field(TEXT, kind.VARCHAR),
                field(VECTORS, kind.VARCHAR, nullable=True),
                field(TERMS, kind.VARCHAR, nullable=True),
                field(_SPARSE, kind.SPARSE_FLOAT_VECTOR, nullable=True),
            ]
        )
        self.drop(name)
        with self.errors():
            self._loaded[name] = self._db.create_collection(name, schema, database_name=self._database)
        return LiteRows(self, name)

    def drop(self, name: str) -> None:
        """Harmless when there is no such collection, or a part of one."""
        with self.errors():
            self._forget(name)
            if self._db.has_collection(name, database_name=self._database):
                self._db.drop_collection(name, database_name=self._database)
            self.folder(name).remove()

    def folder(self, name: str) -> LiteFolder:
        """The folder of a collection, whether it is there or not.

        Raises: StoreError: no collection has this name. (It may come from a damaged catalog, and folders are removed.)
        """
        if not re.fullmatch(r"[a-zA-Z0-9_]+", name):
            raise StoreError(
                f"{self.path} may be damaged: it names a collection {name[:100]!r}; restore it from a copy"
            )
        default = self._database == "default"
        return LiteFolder((self.path if default else self.path / "databases" / self._database) / "collections" / name)

    # --- after an error ---

    def restore(self, name: str, log: Any, log_sizes: Mapping[str, int]) -> None:
        """Read a collection anew, as it was when its log had these sizes. Where that fails, `check` raises from now on.

        Args:
            log: Milvus Lite's object for the log before the error.

        Milvus Lite cannot go on by itself: a flush that fails has emptied its memory, and the next one deletes the log
        of what was there; an append that fails leaves half a message, and recovery does not read what follows it.
        """
        try:
            self._forget(name, log)
            self.folder(name).cut_log(log_sizes)
            self._load(name)
        except Exception as error:
            self._failed = error
            _log.exception("cannot read %s again", self.folder(name).path)

    def _forget(self, name: str, *logs: Any) -> None:
        """Drop Milvus Lite's memory of a collection. (Its `close` flushes, and then deletes the log.)

        Args:
            logs: More of its logs that may be open.
        """
        self._loaded.pop(name, None)
        collection = self._db._collections.pop((self._database, name), None)
        if collection is None:
            return
        collection._bg_closed = True
        collection._bg_executor.shutdown(wait=True)
        for log in (collection._wal, *logs):
            for sink in (log._data_sink, log._delta_sink):
                if sink is not None and not sink.closed:
                    sink.raw.close()  # so that the rest of a failed message, still buffered, never gets into the log


class LiteRows:
    """The rows of one collection. Each call of `insert` and of `delete` is there whole or not at all after a crash.

    One that raises has written nothing, and what was written before it is there; or else every later call raises.
    """

    def __init__(self, file: LiteFile, name: str) -> None:
        self._file, self._name, self._folder = file, name, file.folder(name)
        self._unflushed = 0
        self.restored = 0
        """How often the rows were read anew from the log, after an error."""

    @property
    def _collection(self) -> Any:
        return self._file.collection(self._name)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """See `LiteFile.errors`."""
        with self._file.errors():
            yield

    @contextlib.contextmanager
    def tidying(self) -> Iterator[None]:
        """For writes that only remove what does not count: where they fail, the next opening does it."""
        try:
            yield
        except StoreError:
            self._file.check()
            _log.warning("rows that do not count stay in %s until it is opened again", self._folder.path, exc_info=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        before, log = self._folder.log_sizes(), self._collection._wal
        try:
            with self._file.errors():
                yield
        except BaseException:
            self._file.restore(self._name, log, before)
            self.restored += 1
            raise

    def insert(self, rows: Sequence[Row]) -> None:
        """Write rows; one with the same id is written over."""
        self._file.check()
        if self._unflushed >= _FLUSH_BYTES:  # before, so that a write that fails has written nothing
            with self._writing():
                self._collection.flush()
            self._unflushed = 0
        with self._writing():
            self._collection.insert([dict(row) for row in rows])
        self._unflushed += sum(map(row_bytes, rows))

    def delete(self, ids: Sequence[str]) -> None:
        self._file.check()
        with self._writing():
            self._collection.delete(list(ids))

    def sync(self) -> None:
        """Have all that was written since the last flush on the disk, also after a power cut."""
        with self._file.errors():
            self._folder.sync_log()

    def get(self, ids: Sequence[str], fields: Sequence[str]) -> dict[str, Row]:
        """Rows by id; missing ones are left out."""
        with self._file.errors():
            return {row[ID]: row for row in self._collection.get(list(ids), output_fields=list(fields))}

    def ending(self, end: str) -> dict[str, str]:
        """Id and text of the rows whose ids end with `end`, letters; reads the ids of all rows."""
        with self._file.errors():
            found = self._collection.query(f'{ID} like "%{end}"', output_fields=[TEXT])
            return {row[ID]: row[TEXT] for row in found}

    def ids(self) -> list[str]:
        """Of all rows, one that is held twice twice; reads all rows. See `LiteCollection.load`."""
        with self._file.errors():
            return [row[ID] for row in self._collection.query(None, output_fields=[ID])]

    def count(self) -> int:
        """As `ids`, without reading the rows."""
        with self._file.errors():
            return int(self._collection.num_entities)


def row_bytes(row: Row) -> int:
    """About what a row takes in memory."""
    return sum(len(value) for value in row.values() if value)


def _locked(path: Path) -> StoreLockedError:
    return StoreLockedError(
        f"{path} is in use by another store object, in this process or another one; share that object, close it first, "
        "or run a Milvus server and use MilvusLiteStore(uri='http://host:19530')"
    )
