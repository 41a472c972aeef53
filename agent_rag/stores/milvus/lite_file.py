"""A file of Milvus Lite, driven through its embedded engine: collections of rows by id, each write durable at once.

The engine is Python in this process. `pymilvus` would talk to it over gRPC, which takes most of the time of a write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._extras import needs
from ...errors import StoreError, StoreLockedError

ID, TEXT, VECTORS, TERMS = "id", "c", "p", "t"
_SPARSE = "z"
"""Always empty; Milvus wants a vector column."""
Row = Mapping[str, str | None]

# Milvus Lite builds a file of all rows since the last flush, and holds the interpreter for .1 s at its own 128 MB.
_FLUSH_BYTES = 24_000_000


class LiteFile:
    """A file that is open or closed. All calls block."""

    def __init__(self, path: str, database: str = "") -> None:
        """
        Args:
            database: Of the databases in the file, "" for the default one.
        """
        self.path = Path(path).absolute()
        self._database = database or "default"
        self._lite = needs("milvus", "milvus_lite", purpose="MilvusLiteStore(uri='file.db')")
        self._arrow = needs("milvus", "pyarrow", purpose="MilvusLiteStore(uri='file.db')")
        self._errors = (self._lite.MilvusLiteError, self._arrow.ArrowException, OSError)
        self._db: Any = None

    def open(self) -> None:
        """Raises: StoreLockedError: someone else has the file open. StoreError: it cannot be opened."""
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
        db, self._db = self._db, None
        if db is not None:
            with self.errors():
                db.close()

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of Milvus Lite into ours."""
        try:
            yield
        except self._errors as error:
            raise StoreError(f"Milvus Lite failed on {self.path}: {str(error)[:500]}") from error

    # --- collections ---

    def names(self) -> list[str]:
        with self.errors():
            return list(self._db.list_collections(database_name=self._database))

    def get(self, name: str) -> LiteRows:
        """A collection that is there; its rows are in memory from then on."""
        with self.errors():
            collection = self._db.get_collection(name, database_name=self._database)
        self._arrow.default_memory_pool().release_unused()  # 180 MB after reading 100,000 chunks
        return LiteRows(self, collection)

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
            return LiteRows(self, self._db.create_collection(name, schema, database_name=self._database))

    def drop(self, name: str) -> None:
        """Harmless when there is no such collection."""
        with self.errors():
            if self._db.has_collection(name, database_name=self._database):
                self._db.drop_collection(name, database_name=self._database)


class LiteRows:
    """The rows of one collection. Each call of `insert` and of `delete` is there whole or not at all after a crash."""

    def __init__(self, file: LiteFile, collection: Any) -> None:
        self._file, self._collection = file, collection
        self._unflushed = 0

    def insert(self, rows: Sequence[Row]) -> None:
        """Write rows; one with the same id is written over."""
        with self._file.errors():
            if self._unflushed >= _FLUSH_BYTES:  # before, so that a write that fails has written nothing
                self._collection.flush()
                self._unflushed = 0
            self._collection.insert([dict(row) for row in rows])
            self._unflushed += sum(map(row_bytes, rows))

    def delete(self, ids: Sequence[str]) -> None:
        with self._file.errors():
            self._collection.delete(list(ids))

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
