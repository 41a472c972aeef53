"""The connection to Milvus: opening, errors, messages of a size that it takes."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from ..._extras import needs
from ...errors import CollectionNotFoundError, StoreError, StoreLockedError, StoreUnavailableError, redact
from .._shared.records import closed_store
from .schema import (
    CONTENT,
    DENSE,
    DOCUMENT_HASH,
    FREQUENCIES,
    HEAD,
    HEAD_OF,
    ID,
    NUMBER,
    NUMBER_COLUMNS,
    NUMBERS,
    SPARSE,
    SUMMARY,
    TERMS,
    TEXT_TOKENS,
    TOKEN_LIST,
    VALUE_COLUMNS,
    MilvusInfo,
    row_bytes,
)

# A server refuses messages above 64 MB.
_PIECE_BYTES = 24_000_000
_IDS_PER_CALL = 1_000
_PAGE_ROWS = 2_000
# Rows that are not flushed are searched in Python by Milvus Lite, 27 microseconds each; a flush takes about 50 ms.
_FLUSH_BEFORE_READ = 200
_FLUSH_AFTER_WRITE = 5_000
MAX_LIMIT = 16_384
_UNAVAILABLE_CODES = frozenset({2})
_MISSING_CODES = frozenset({4, 100})
_NUMBER_SPACE = 2**62 + 1
_ALL_LISTS = 65_536

_log = logging.getLogger(__name__)
_open_paths: set[Path] = set()
_open_paths_lock = threading.Lock()


@dataclass(frozen=True)
class MilvusOptions:
    """What the constructor of the store got."""

    uri: str
    metric_type: str
    index_type: str
    batch_size: int
    timeout_s: float
    token: SecretStr | None
    keyword: bool = True
    client_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether `uri` is a file of Milvus Lite."""
        return "://" not in self.uri


class Connection:
    """A MilvusClient that is open or closed. All calls block."""

    def __init__(self, owner: object, options: MilvusOptions) -> None:
        self._owner = owner
        self.options = options
        self.pymilvus = needs("milvus", "pymilvus", purpose="MilvusLiteStore")
        if options.is_local:
            needs("milvus", "milvus_lite", purpose="MilvusLiteStore(uri='file.db')")
        self._client: Any = None
        self._path = Path(options.uri).absolute()
        self._loaded: set[str] = set()
        self._growing: Counter[str] = Counter()
        self._has_snapshots: bool | None = None

    # --- opening ---

    def open(self) -> None:
        """Raises: StoreLockedError: someone else has the file open. StoreUnavailableError: the server is not there."""
        if not self.options.is_local:
            with self.errors():
                self._client = self.pymilvus.MilvusClient(uri=self.options.uri, **self._client_arguments())
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _open_paths_lock:
            # pymilvus shares one engine per path in a process, and two stores on it would not see each other's writes.
            if self._path in _open_paths or _is_locked(self._path / "LOCK"):
                raise _locked(self._path)
            try:
                self._client = self.pymilvus.MilvusClient(uri=str(self._path), **self._client_arguments())
            except Exception as error:
                if _is_locked(self._path / "LOCK"):
                    raise _locked(self._path) from error
                raise StoreError(f"Milvus Lite cannot open {self._path}: {error}") from error
            _open_paths.add(self._path)

    def close(self) -> None:
        """Release the file; harmless when closed."""
        client, self._client = self._client, None
        if client is None:
            return
        self._loaded, self._growing, self._has_snapshots = set(), Counter(), None
        client.close()
        if self.options.is_local:
            from milvus_lite.server_manager import server_manager_instance

            server_manager_instance.release_server(str(self._path))
            with _open_paths_lock:
                _open_paths.discard(self._path)

    def _client_arguments(self) -> dict[str, Any]:
        token = self.options.token
        secret = {} if token is None else {"token": token.get_secret_value()}
        return {"timeout": self.options.timeout_s, **secret, **self.options.client_kwargs}

    # --- calling ---

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client within the time limit; its errors become ours."""
        if self._client is None:
            raise closed_store(self._owner)
        with self.errors():
            return getattr(self._client, method)(*arguments, timeout=self.options.timeout_s, **options)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of pymilvus and gRPC into ours."""
        import grpc

        try:
            yield
        except grpc.RpcError as error:
            raise self._unavailable(error) from error
        except self.pymilvus.exceptions.MilvusUnavailableException as error:
            raise self._unavailable(error) from error
        except self.pymilvus.exceptions.MilvusException as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, grpc.RpcError) or error.code in _UNAVAILABLE_CODES or "retry" in str(error).lower():
                raise self._unavailable(error) from error
            if error.code in _MISSING_CODES:
                raise CollectionNotFoundError(f"{redact(str(error))}; it was dropped meanwhile") from error
            raise StoreError(f"Milvus at {redact(self.options.uri)} answered: {redact(str(error))[:500]}") from error

    def _unavailable(self, error: BaseException) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"Milvus at {redact(self.options.uri)} does not answer: {redact(str(error))[:300]}; "
            "check the address and that the server runs"
        )

    @property
    def has_snapshots(self) -> bool:
        """Whether a search at an address sees the rows of one moment, as it does on a Milvus server.

        Milvus Lite 3.2 reads the rows first and what was deleted at the end, and both change meanwhile.
        """
        if self._has_snapshots is None:
            self._has_snapshots = "lite" not in str(self.call("get_server_version"))
        return self._has_snapshots

    # --- rows ---

    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]], *, partial: bool = False) -> None:
        """Write `rows`, all of which fit in one message (see `pieces`)."""
        options = {"partial_update": True} if partial else {}
        self.call("upsert", collection, list(rows), **options)
        self._growing[collection] += len(rows)
        if self._growing[collection] >= _FLUSH_AFTER_WRITE:
            self._flush(collection)

    def pieces(self, rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """`rows` in parts for one message each."""
        piece: list[dict[str, Any]] = []
        size = 0
        for row in rows:
            bytes_of = row_bytes(row)
            if piece and (len(piece) == self.options.batch_size or size + bytes_of > _PIECE_BYTES):
                yield piece
                piece, size = [], 0
            piece.append(row)
            size += bytes_of
        if piece:
            yield piece

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _IDS_PER_CALL):
            self.call("delete", collection, ids=list(ids[start : start + _IDS_PER_CALL]))

    def get(self, collection: str, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Rows by id; missing ones are left out."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(ids), _IDS_PER_CALL):
            part = list(ids[start : start + _IDS_PER_CALL])
            found += self.call("get", collection, ids=part, output_fields=list(fields), **self._strong)
        return found

    def query(self, collection: str, condition: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Rows that match, at most about `MAX_LIMIT`."""
        self._settle(collection)
        rows = self.call("query", collection, filter=condition, output_fields=list(fields), **self._strong)
        return list(rows)

    def count(self, collection: str, condition: str = "") -> int:
        self._settle(collection)
        # Without a condition Milvus Lite counts ids; with one it reads every row that matches, 60 microseconds each.
        (row,) = self.call("query", collection, filter=condition, output_fields=["count(*)"], **self._strong)
        return int(row["count(*)"])

    def scan(
        self, collection: str, condition: str, fields: Sequence[str], *, distinct: bool = True
    ) -> Iterator[dict[str, Any]]:
        """All rows of versions that match, a page at a time: numbers are random, so ranges of them are pages.

        Args:
            distinct: Give each id once; see `Writer.repair`.
        """
        total = self.count(collection, f"{NUMBER} > 0" + (f" and {condition}" if condition else ""))
        pages = -(-total // _PAGE_ROWS)
        for page in range(pages):
            low, high = _NUMBER_SPACE * page // pages, _NUMBER_SPACE * (page + 1) // pages
            bounds = f"{NUMBER} > {low} and {NUMBER} <= {high}"
            rows = self.query(collection, f"{bounds} and {condition}" if condition else bounds, fields)
            yield from {row[ID]: row for row in rows}.values() if distinct else rows

    def search(
        self, collection: str, field_name: str, query: Any, limit: int, condition: str, fields: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The best rows with ``id`` and ``distance``, best first."""
        self._settle(collection)
        if not self.options.is_local:
            limit = min(limit, MAX_LIMIT)
        metric = "IP" if field_name == SPARSE else self.options.metric_type
        (hits,) = self.call(
            "search",
            collection,
            data=[query],
            anns_field=field_name,
            limit=limit,
            filter=condition,
            output_fields=list(fields),
            search_params={"metric_type": metric, **({"params": {"nprobe": _ALL_LISTS}} if self._is_exact else {})},
            **self._strong,
        )
        found = {hit[ID]: {ID: hit[ID], "distance": hit["distance"], **hit["entity"]} for hit in hits}
        return list(found.values())

    @property
    def _strong(self) -> dict[str, Any]:
        return {} if self.options.is_local else {"consistency_level": "Strong"}

    def _settle(self, collection: str) -> None:
        if self._growing[collection] >= _FLUSH_BEFORE_READ:
            self._flush(collection)

    def _flush(self, collection: str) -> None:
        """Make Milvus Lite index what was written; a server does so by itself."""
        self._growing[collection] = 0
        if self.options.is_local:
            self.call("flush", collection)

    # --- collections ---

    def has(self, collection: str) -> bool:
        return bool(self.call("has_collection", collection))

    def load(self, collection: str) -> None:
        """Before the first read of a session; harmless when loaded."""
        if collection not in self._loaded:
            self.call("load_collection", collection)
            self._loaded.add(collection)

    def drop(self, collection: str) -> None:
        self._loaded.discard(collection)
        del self._growing[collection]
        self.call("drop_collection", collection)

    def names(self) -> list[str]:
        return list(self.call("list_collections"))

    def create_chunks(self, collection: str, info: MilvusInfo) -> None:
        schema, indexes = self._schema()
        data = self.pymilvus.DataType
        if info.dimensions:
            schema.add_field(DENSE, data.FLOAT_VECTOR, dim=info.dimensions)
            indexes.add_index(DENSE, index_type=self._dense_index, metric_type=self.options.metric_type)
        schema.add_field(HEAD_OF, data.VARCHAR, max_length=64)
        if info.is_sparse:
            schema.add_field(SPARSE, data.SPARSE_FLOAT_VECTOR)
            indexes.add_index(SPARSE, index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        self._add_texts(schema, CONTENT)
        if self.options.is_local:
            for column in NUMBER_COLUMNS:
                schema.add_field(column, data.DOUBLE)
            for column in VALUE_COLUMNS:
                schema.add_field(column, data.INT64)
        else:
            schema.add_field(TERMS, data.ARRAY, element_type=data.INT64, max_capacity=4_096)
            indexes.add_index(TERMS, index_type="INVERTED")
        self._create(collection, schema, indexes)

    def create_heads(self, collection: str) -> None:
        schema, indexes = self._schema()
        data = self.pymilvus.DataType
        schema.add_field(DENSE, data.FLOAT_VECTOR, dim=2)
        indexes.add_index(DENSE, index_type="FLAT", metric_type="L2")
        schema.add_field(DOCUMENT_HASH, data.VARCHAR, max_length=64)
        indexes.add_index(DOCUMENT_HASH, index_type="INVERTED")
        self._add_texts(schema, HEAD, SUMMARY, FREQUENCIES)
        self._create(collection, schema, indexes)

    @property
    def _is_exact(self) -> bool:
        """Whether the vectors have the exact index of a local file."""
        return self.options.is_local and self.options.index_type == "AUTOINDEX"

    @property
    def _dense_index(self) -> str:
        return "FLAT" if self._is_exact else self.options.index_type

    def index_vectors(self, collection: str) -> None:
        """Let faiss compare the vectors of a local file instead of numpy: as exact, as all are in one list, and 0.2 ms
        instead of 10 ms for 10,000."""
        if not self._is_exact:
            return
        self.call("release_collection", collection)
        if DENSE in self.call("list_indexes", collection):  # else a crash left it so
            self.call("drop_index", collection, f"{DENSE}_idx")  # by another name Milvus Lite drops them all
        index = self.pymilvus.MilvusClient.prepare_index_params()
        # Twice `params`, since pymilvus takes the first one off and Milvus Lite reads the second one.
        one_list = {"params": {"nlist": 1}}
        index.add_index(DENSE, index_type="IVF_FLAT", metric_type=self.options.metric_type, params=one_list)
        self.call("create_index", collection, index, sync=False)
        self.call("load_collection", collection)

    def _schema(self) -> tuple[Any, Any]:
        data = self.pymilvus.DataType
        schema = self.pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(ID, data.VARCHAR, max_length=100, is_primary=True)
        schema.add_field(NUMBER, data.INT64)
        schema.add_field(TEXT_TOKENS, data.VARCHAR, max_length=65_535)
        schema.add_field(TOKEN_LIST, data.ARRAY, element_type=data.VARCHAR, max_capacity=4_096, max_length=32)
        schema.add_field(NUMBERS, data.JSON)
        indexes = self.pymilvus.MilvusClient.prepare_index_params()
        indexes.add_index(NUMBER, index_type="INVERTED")
        if not self.options.is_local:
            indexes.add_index(TOKEN_LIST, index_type="INVERTED")
        return schema, indexes

    def _add_texts(self, schema: Any, *names: str) -> None:
        data = self.pymilvus.DataType
        for name in names:
            schema.add_field(name, data.ARRAY, element_type=data.VARCHAR, max_capacity=4_096, max_length=65_535)

    def _create(self, collection: str, schema: Any, indexes: Any) -> None:
        options = {} if self.options.is_local else {"num_shards": 1}
        try:
            self.call("create_collection", collection, schema=schema, consistency_level="Strong", **options)
        except StoreError:
            if not self.has(collection):  # else another process was quicker
                raise
        for index in indexes:
            self._create_index(collection, index)
        self.load(collection)

    def _create_index(self, collection: str, index: Any) -> None:
        one = self.pymilvus.MilvusClient.prepare_index_params()
        one.add_index(index.field_name, **index.get_index_configs())
        try:
            # Without waiting, which pymilvus does in steps of half a second per index; loading waits for them.
            self.call("create_index", collection, one, sync=False)
        except StoreError as error:
            if index.field_name not in (TOKEN_LIST, TERMS):
                raise
            _log.warning("no index on %s.%s, so filters read all rows: %s", collection, index.field_name, error)


def _locked(path: Path) -> StoreLockedError:
    return StoreLockedError(
        f"{path} is in use by another store object, in this process or another one; share that object, close it first, "
        "or run a Milvus server and use MilvusLiteStore(uri='http://host:19530')"
    )


def _is_locked(lock: Path) -> bool:
    """Whether another open file holds Milvus Lite's lock."""
    if sys.platform == "win32":
        return False  # opening it fails then
    import fcntl

    try:
        descriptor = os.open(lock, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
