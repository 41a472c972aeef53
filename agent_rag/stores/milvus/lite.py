"""A file of Milvus Lite, driven through its embedded engine, with the calls of `Connection`.

The engine is Python in this process. `pymilvus` would talk to it over gRPC, which takes most of the time of a write.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._util.extras import needs
from ...errors import AgentRAGError, CollectionNotFoundError, ConfigurationError, StoreError, StoreLockedError
from ..engine.records import closed_store
from .client import MAX_LIMIT, Rows
from .options import MilvusOptions
from .schema import (
    CONTENT,
    DENSE,
    DOCUMENT_HASH,
    HEAD,
    HEAD_OF,
    ID,
    NEVER,
    NUMBER,
    NUMBERS,
    SPARSE,
    SUMMARY,
    TERMS,
    TOKEN_LIST,
    MilvusDialect,
    MilvusInfo,
    row_bytes,
    token_hash,
)

_SPARSE_ENTRY = np.dtype([("index", "<u4"), ("value", "<f4")])
_EARLIER = "agent_rag"
"""A collection that files of earlier versions had."""
_FLUSH_ROWS = 200
_FLUSH_BYTES = 24_000_000
"""Milvus Lite writes a segment of all rows since the last flush; at its own 128 MB it holds the interpreter .1 s."""


class LiteDialect(MilvusDialect):
    """Milvus Lite compares texts and numbers with Arrow, and looks into lists and JSON row by row: 100 times as long.
    So lists are texts, and numbers fields of their own."""

    def any_token(self, tokens: Sequence[str]) -> str:
        parts = [f'{TOKEN_LIST} like "% {token_hash(token)} %"' for token in tokens]
        return f"({' or '.join(parts)})" if parts else f"({NEVER})"

    def has_term(self, term: int) -> str:
        return f'{TERMS} like "% {term:d} %"'

    def number(self, field: str) -> str:
        return field


class LiteConnection(Rows):
    """A file that is open or closed. All calls block, and belong into one thread: others would see half a write."""

    has_snapshots = True
    is_shared = False
    dialect = LiteDialect()

    def __init__(self, owner: object, options: MilvusOptions) -> None:
        """Raises: ConfigurationError: there is no such path on any disk."""
        if "\0" in options.uri:
            raise ConfigurationError(f"the path {options.uri!r} has a NUL character; choose another")
        super().__init__(options)
        self._owner = owner
        self.path = Path(options.uri).absolute()
        self._lite = needs("milvus", "milvus_lite", purpose="MilvusLiteStore(uri='file.db')")
        self._database = {"database_name": str(options.client_kwargs.get("db_name") or "default")}
        self._db: Any = None
        self._unflushed: Counter[str] = Counter()
        """Rows by collection."""
        self._unflushed_bytes = 0
        self._failed: BaseException | None = None

    # --- opening ---

    def open(self) -> None:
        """Raises: StoreLockedError: someone else has the file open. StoreError: it cannot be opened."""
        self._failed = None
        with self.errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._db = self._lite.MilvusLite(str(self.path))
            except self._lite.DataDirLockedError as error:
                raise StoreLockedError(
                    f"{self.path} is in use by another store object, in this process or another one; share that "
                    "object, close it first, or run a Milvus server and use MilvusLiteStore(uri='http://host:19530')"
                ) from error
            if _EARLIER in self.names():
                self.close()
                raise StoreError(
                    f"an earlier version wrote {self.path}, in a layout of its own; ingest into a new file, or copy "
                    "the collections with that version ('agent-rag copy')"
                )

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
        except AgentRAGError:
            raise
        except self._lite.CollectionNotFoundError as error:
            raise CollectionNotFoundError(f"{error}; it was dropped meanwhile") from error
        except (self._lite.MilvusLiteError, OSError) as error:
            raise StoreError(f"Milvus Lite failed on {self.path}: {str(error)[:500]}") from error
        except Exception as error:
            raise StoreError(
                f"{self.path} cannot be used, it may be damaged ({type(error).__name__}: {str(error)[:300]}); restore "
                "it from a copy, or ingest into a new file"
            ) from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """After an error of a write Milvus Lite's memory and its log may differ, so nothing is read or written then."""
        try:
            with self.errors():
                yield
        except BaseException as error:
            self._failed = error
            raise

    def _opened(self) -> Any:
        if self._db is None:
            raise closed_store(self._owner)
        if self._failed is not None:
            raise StoreError(
                f"an earlier write to {self.path} failed ({self._failed}); close this store and open it again"
            ) from self._failed
        return self._db

    def _collection(self, name: str) -> Any:
        return self._opened().get_collection(name, **self._database)

    # --- rows ---

    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._unflushed_bytes >= _FLUSH_BYTES:
            self._flush(collection)
        found = self._collection(collection)
        with self._writing():
            found.insert(list(map(_storable, rows)))  # whole rows; `upsert` reads those that are there first
        self._unflushed[collection] += len(rows)
        self._unflushed_bytes += sum(map(row_bytes, rows))

    def _flush(self, collection: str) -> None:
        found = self._collection(collection)
        with self._writing():
            found.flush()
        self._unflushed[collection] = self._unflushed_bytes = 0

    def _searchable(self, name: str) -> Any:
        """A collection whose rows are nearly all in segments: in memory, 4,000 rows take 1 s a search, 25 times as
        long."""
        if self._unflushed[name] > _FLUSH_ROWS:
            self._flush(name)
        return self._collection(name)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        if ids:
            found = self._collection(collection)
            with self._writing():
                found.delete(list(ids))

    def get(self, collection: str, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        if not ids:
            return []
        found = self._collection(collection)
        with self.errors():
            return list(map(_readable, found.get(list(ids), output_fields=list(fields))))

    def query(self, collection: str, condition: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        found = self._searchable(collection)
        with self.errors():
            return list(map(_readable, found.query(condition or None, output_fields=list(fields))))

    def count(self, collection: str, condition: str = "") -> int:
        if not condition:
            return int(self._collection(collection).num_entities)
        return len({row[ID] for row in self.query(collection, condition, [ID])})

    def scan(self, collection: str, condition: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        bounds = f"{NUMBER} > 0"
        rows = self.query(collection, f"{bounds} and {condition}" if condition else bounds, [ID, *fields])
        yield from {row[ID]: row for row in rows}.values()

    def search(
        self, collection: str, field_name: str, query: Any, limit: int, condition: str, fields: Sequence[str]
    ) -> list[dict[str, Any]]:
        found = self._searchable(collection)
        with self.errors():
            (hits,) = found.search(
                [query],
                top_k=min(limit, MAX_LIMIT),
                metric_type="IP" if field_name == SPARSE else None,  # None: that of the index
                expr=condition or None,
                output_fields=list(fields),
                anns_field=field_name,
            )
        best = {hit[ID]: {ID: hit[ID], "distance": hit["distance"], **_readable(hit["entity"])} for hit in hits}
        return list(best.values())

    # --- collections ---

    def has(self, collection: str) -> bool:
        return bool(self._opened().has_collection(collection, **self._database))

    def load(self, collection: str) -> None:
        found = self._collection(collection)
        if found.load_state != "loaded":
            with self.errors():
                found.load()

    def drop(self, collection: str) -> None:
        db = self._opened()
        with self._writing():
            db.drop_collection(collection, **self._database)

    def names(self) -> list[str]:
        return list(self._opened().list_collections(**self._database))

    def create_chunks(self, collection: str, info: MilvusInfo) -> None:
        kind, field = self._lite.DataType, self._lite.FieldSchema
        fields = [field(HEAD_OF, kind.VARCHAR, max_length=64), self._texts(CONTENT)]
        fields.append(field(TERMS, kind.VARCHAR, max_length=65_535))
        indexes = {}
        if info.dimensions:
            fields.append(field(DENSE, kind.FLOAT_VECTOR, dim=info.dimensions))
            indexes[DENSE] = {"index_type": "FLAT", "metric_type": self.options.metric_type}
        if info.is_sparse:
            fields.append(field(SPARSE, kind.SPARSE_FLOAT_VECTOR))
            indexes[SPARSE] = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}
        self._create(collection, fields, indexes)

    def create_heads(self, collection: str) -> None:
        kind, field = self._lite.DataType, self._lite.FieldSchema
        fields = [field(DENSE, kind.FLOAT_VECTOR, dim=2), field(DOCUMENT_HASH, kind.VARCHAR, max_length=64)]
        fields += [self._texts(HEAD), self._texts(SUMMARY)]
        self._create(collection, fields, {DENSE: {"index_type": "FLAT", "metric_type": "L2"}})

    def _texts(self, name: str) -> Any:
        kind = self._lite.DataType
        return self._lite.FieldSchema(
            name, kind.ARRAY, element_type=kind.VARCHAR, max_capacity=4_096, max_length=65_535
        )

    def _create(self, collection: str, fields: Sequence[Any], indexes: Mapping[str, Mapping[str, str]]) -> None:
        kind, field = self._lite.DataType, self._lite.FieldSchema
        schema = self._lite.CollectionSchema(
            fields=[
                field(ID, kind.VARCHAR, is_primary=True, max_length=100),
                field(NUMBER, kind.INT64),
                field(TOKEN_LIST, kind.VARCHAR, max_length=65_535),
                *fields,
            ],
            enable_dynamic_field=True,
        )
        db = self._opened()
        with self._writing():
            made = db.create_collection(collection, schema, **self._database)
            for name, index in indexes.items():
                made.create_index(name, {**index, "params": {}})
            made.load()


def _storable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as `LiteDialect` finds it."""
    stored = {**row, **row[NUMBERS]}
    del stored[NUMBERS]
    for name in (TOKEN_LIST, TERMS):
        if name in stored:
            stored[name] = f" {' '.join(map(str, stored[name]))} "
    return stored


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """A row as `Connection` gives it: the engine's sparse vectors are bytes."""
    if isinstance(packed := row.get(SPARSE), bytes):
        entries = np.frombuffer(packed, _SPARSE_ENTRY)
        row[SPARSE] = dict(zip(entries["index"].tolist(), entries["value"].tolist(), strict=True))
    return row
