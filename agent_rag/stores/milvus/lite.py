"""A file of Milvus Lite, driven through its embedded engine, with the calls of `Connection`.

The engine is Python in this process. `pymilvus` would talk to it over gRPC, which takes most of the time of a write.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._util.extras import needs
from ...errors import AgentRAGError, CollectionNotFoundError, ConfigurationError, StoreError, StoreLockedError
from ..engine.filter_tokens import token_hash
from ..engine.records import closed_store
from ..versions.protocol import head_of
from .calls import Having, Milvus, Stored, joined
from .options import MilvusOptions
from .schema import (
    BRIEF,
    COUNT,
    DENSE,
    DOCUMENT_HASH,
    HEAD,
    ID,
    INDEXED,
    LENGTH,
    LONG_TEXT,
    NEVER,
    NUMBERS,
    PLACE,
    REVISION,
    SPARSE,
    TERMS,
    TOKEN_LIST,
    VERSION,
    Fields,
    Indexes,
    MilvusDialect,
    MilvusInfo,
    name_of_row,
    parse_row_id,
    row_bytes,
    typed,
)

_SPARSE_ENTRY = np.dtype([("index", "<u4"), ("value", "<f4")])
_EARLIER = "agent_rag"
"""A collection that files of earlier versions had."""
_HEAD_FIELDS = (PLACE, VERSION, LENGTH, COUNT, INDEXED, REVISION, DOCUMENT_HASH, HEAD, BRIEF)
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


class LiteConnection(Milvus):
    """A file that is open or closed. All calls block, and belong into one thread: others would see half a write.

    Nobody else has the file, so all heads, and which versions there are, are kept in memory.
    """

    has_snapshots = True
    is_alone = True
    terms_at_once = 1_000
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
        self._heads: dict[str, dict[str, Stored]] = {}
        """Rows by id, of each collection of heads."""
        self._versions: dict[str, Counter[str]] = {}
        """Number of rows by version, of each collection of chunks."""

    # --- opening ---

    def open(self) -> None:
        """Raises: StoreLockedError: someone else has the file open. StoreError: it cannot be opened."""
        self._failed, self._heads, self._versions = None, {}, {}
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
            if not isinstance(error.__cause__, self._lite.SchemaValidationError):  # refused before it was written
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

    @property
    def version(self) -> str:
        return str(self._lite.__version__)

    def _collection(self, name: str) -> Any:
        with self.errors():
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
        if collection in self._versions:
            self._versions[collection].update(row[VERSION] for row in rows)
        elif collection in self._heads:
            self._heads[collection] |= {row[ID]: {name: row[name] for name in (ID, *_HEAD_FIELDS)} for row in rows}

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
        if not ids:
            return
        found = self._collection(collection)
        with self._writing():
            found.delete(list(ids))
        for one in ids:
            if collection in self._heads:
                self._heads[collection].pop(one, None)
            else:
                self._counted(collection).pop(parse_row_id(one).version, None)

    def delete_tombstones(self, heads: str, before: float) -> None:
        rows = [row for row in self._heads.get(heads, {}).values() if row[BRIEF] and not row[VERSION]]
        self.delete(heads, [row[ID] for row in rows if name_of_row(row)[2] < before])

    def get(self, collection: str, ids: Sequence[str], fields: Sequence[str]) -> list[Stored]:
        found = self._collection(collection)
        if (kept := self._heads.get(collection)) is not None:
            return [kept[one] for one in ids if one in kept]
        with self.errors():
            return list(map(_readable, found.get(list(ids), output_fields=list(fields)))) if ids else []

    def _query(self, collection: str, condition: str, fields: Sequence[str]) -> list[Stored]:
        found = self._searchable(collection)
        with self.errors():
            rows = found.query(condition or None, output_fields=[ID, *fields])
        return list({row[ID]: row for row in rows}.values())

    def scan(self, collection: str, condition: str, fields: Sequence[str], having: Having) -> Iterator[Stored]:
        if condition or collection not in self._heads:
            yield from self._query(collection, joined(condition, having), fields)
            return
        self._collection(collection)
        for row in self._heads[collection].values():
            if row[PLACE] and all(row[field] in values for field, values in having.items()):
                yield row

    def count(self, collection: str) -> int:
        return self._counted(collection).total()

    def tally(self, info: MilvusInfo, condition: str, heads: Collection[str] | None) -> dict[str, int]:
        if condition:
            return super().tally(info, condition, heads)
        there = self._counted(info.chunks).items()
        return {version: count for version, count in there if heads is None or head_of(version) in heads}

    def _counted(self, chunks: str) -> Counter[str]:
        self._collection(chunks)
        return self._versions.get(chunks, Counter())

    def frequencies(self, collection: str, terms: Sequence[int], condition: str) -> dict[int, int]:
        """Reads each row once that has one of the terms: 60 microseconds a row."""
        has_any = f"({' or '.join(map(self.dialect.has_term, terms))})"
        rows = self._query(collection, f"{has_any} and {condition}" if condition else has_any, [TERMS])
        counted = Counter(term for row in rows for term in row[TERMS].split())
        return {term: counted[str(term)] for term in terms}

    def search(
        self, collection: str, metric: str, query: Any, limit: int, condition: str, fields: Sequence[str]
    ) -> list[Stored]:
        found = self._searchable(collection)
        with self.errors():
            (hits,) = found.search(
                [query],
                top_k=limit,
                metric_type=metric,
                expr=condition or None,
                output_fields=list(fields),
                anns_field=SPARSE if isinstance(query, dict) else DENSE,
            )
        best = {hit[ID]: {ID: hit[ID], "distance": hit["distance"], **_readable(hit["entity"])} for hit in hits}
        return list(best.values())

    # --- collections ---

    def fields(self, collection: str) -> list[str] | None:
        if not self._opened().has_collection(collection, **self._database):
            return None
        with self.errors():
            return [field.name for field in self._collection(collection).schema.fields]

    def names(self) -> list[str]:
        return list(self._opened().list_collections(**self._database))

    def create(self, collection: str, fields: Fields) -> bool:
        if self.fields(collection) is not None:
            return False
        held = {name: field for name, field in fields.items() if name != NUMBERS}  # each number is a field
        held |= {name: LONG_TEXT for name in (TOKEN_LIST, TERMS) if name in fields}
        columns = []
        for name, field in held.items():
            kind, options = typed(field, self._lite.DataType)
            columns.append(self._lite.FieldSchema(name, kind, **options))
        db = self._opened()
        with self._writing():
            schema = self._lite.CollectionSchema(fields=columns, enable_dynamic_field=True)
            db.create_collection(collection, schema, **self._database)
        return True

    def load(self, collection: str, indexes: Indexes | None = None, heads: str | None = None) -> None:
        """Indexes of vectors alone: others take a write longer than they save."""
        if collection in self._heads or collection in self._versions:
            return
        found = self._collection(collection)
        with self._writing():
            for field in (DENSE, SPARSE):
                if indexes and field in indexes and not found.has_index(field):
                    found.create_index(field, {**indexes[field], "params": {}})
            if found.load_state != "loaded":
                found.load()
        if heads is None:
            self._heads[collection] = {row[ID]: row for row in self._query(collection, "", _HEAD_FIELDS)}
        else:
            self._versions[collection] = self._cleared(collection, heads)

    def _cleared(self, chunks: str, heads: str) -> Counter[str]:
        """The versions that heads name; the rows of others, which a killed writer left, are removed."""
        named = Counter({row[VERSION]: row[COUNT] for row in self.scan(heads, "", (), {}) if row[COUNT]})
        found = self._collection(chunks)
        if found.num_entities != named.total():
            ids = [row[ID] for row in self._query(chunks, "", [])]
            left = [one for one in ids if parse_row_id(one).version not in named]
            with self._writing():
                found.delete(left)
        return named

    def drop(self, collection: str) -> None:
        db = self._opened()
        with self._writing():
            db.drop_collection(collection, **self._database)
        self._heads.pop(collection, None)
        self._versions.pop(collection, None)


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
