"""The connection to a Milvus server: opening, errors, messages of a size that it takes."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._util.extras import needs
from ...errors import CollectionNotFoundError, StoreError, StoreUnavailableError, redact
from ..engine.records import closed_store
from ..versions.groups import at_most, grouped
from .options import MilvusOptions
from .schema import (
    CONTENT,
    DENSE,
    DOCUMENT_HASH,
    HEAD,
    HEAD_OF,
    ID,
    NUMBER,
    NUMBERS,
    SPARSE,
    SUMMARY,
    TERMS,
    TOKEN_LIST,
    MilvusDialect,
    MilvusInfo,
    row_bytes,
)

# A server refuses messages above 64 MB.
_PIECE_BYTES = 24_000_000
_IDS_PER_CALL = 1_000
_PAGE_ROWS = 2_000
MAX_LIMIT = 16_384
_STRONG = {"consistency_level": "Strong"}
_UNAVAILABLE_CODES = frozenset({2})
_MISSING_CODES = frozenset({4, 100})
_NUMBER_SPACE = 2**62 + 1

_log = logging.getLogger(__name__)


class Rows(ABC):
    """What the engine asks of a Milvus, wherever it runs. All calls block.

    Args:
        options: Of the store.
    """

    is_shared: bool = True
    """Whether others may write during a read."""
    dialect = MilvusDialect()

    def __init__(self, options: MilvusOptions) -> None:
        self.options = options

    @abstractmethod
    def open(self) -> None:
        """Raises: StoreUnavailableError, StoreLockedError."""

    @abstractmethod
    def close(self) -> None:
        """Harmless when closed."""

    @property
    @abstractmethod
    def has_snapshots(self) -> bool:
        """Whether a search sees the rows of one moment."""

    @abstractmethod
    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write `rows`, all of which fit in one message (see `pieces`)."""

    def pieces(self, rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """`rows` in parts for one message each."""
        return grouped(rows, at_most(self.options.batch_size), (row_bytes, _PIECE_BYTES))

    @abstractmethod
    def delete(self, collection: str, ids: Sequence[str]) -> None: ...

    @abstractmethod
    def get(self, collection: str, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Rows by id; missing ones are left out."""

    @abstractmethod
    def query(self, collection: str, condition: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Rows that match, at most about `MAX_LIMIT`."""

    @abstractmethod
    def count(self, collection: str, condition: str = "") -> int:
        """Rows that match."""

    @abstractmethod
    def scan(self, collection: str, condition: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        """All rows of versions that match."""

    @abstractmethod
    def search(
        self, collection: str, field_name: str, query: Any, limit: int, condition: str, fields: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The best rows with ``id`` and ``distance``, best first."""

    @abstractmethod
    def has(self, collection: str) -> bool: ...

    @abstractmethod
    def load(self, collection: str) -> None:
        """Before the first read of a session; harmless when loaded."""

    @abstractmethod
    def drop(self, collection: str) -> None: ...

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def create_chunks(self, collection: str, info: MilvusInfo) -> None: ...

    @abstractmethod
    def create_heads(self, collection: str) -> None: ...


class Connection(Rows):
    """A MilvusClient that is open or closed."""

    def __init__(self, owner: object, options: MilvusOptions) -> None:
        super().__init__(options)
        self._owner = owner
        self.pymilvus = needs("milvus", "pymilvus", purpose="MilvusLiteStore")
        self._client: Any = None
        self._loaded: set[str] = set()
        self._has_snapshots: bool | None = None

    # --- opening ---

    def open(self) -> None:
        """Raises: StoreUnavailableError: the server is not there."""
        with self.errors():
            self._client = self.pymilvus.MilvusClient(uri=self.options.uri, **self._client_arguments())

    def close(self) -> None:
        """Harmless when closed."""
        client, self._client = self._client, None
        if client is not None:
            self._loaded, self._has_snapshots = set(), None
            client.close()

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

    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write `rows`, all of which fit in one message (see `pieces`)."""
        self.call("upsert", collection, list(rows))

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _IDS_PER_CALL):
            self.call("delete", collection, ids=list(ids[start : start + _IDS_PER_CALL]))

    def get(self, collection: str, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Rows by id; missing ones are left out."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(ids), _IDS_PER_CALL):
            part = list(ids[start : start + _IDS_PER_CALL])
            found += self.call("get", collection, ids=part, output_fields=list(fields), **_STRONG)
        return found

    def query(self, collection: str, condition: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Rows that match, at most about `MAX_LIMIT`."""
        rows = self.call("query", collection, filter=condition, output_fields=list(fields), **_STRONG)
        return list(rows)

    def count(self, collection: str, condition: str = "") -> int:
        # Without a condition Milvus Lite counts ids; with one it reads every row that matches, 60 microseconds each.
        (row,) = self.call("query", collection, filter=condition, output_fields=["count(*)"], **_STRONG)
        return int(row["count(*)"])

    def scan(self, collection: str, condition: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        """All rows of versions that match, a page at a time: numbers are random, so ranges of them are pages."""
        total = self.count(collection, f"{NUMBER} > 0" + (f" and {condition}" if condition else ""))
        pages = -(-total // _PAGE_ROWS)
        for page in range(pages):
            low, high = _NUMBER_SPACE * page // pages, _NUMBER_SPACE * (page + 1) // pages
            bounds = f"{NUMBER} > {low} and {NUMBER} <= {high}"
            rows = self.query(collection, f"{bounds} and {condition}" if condition else bounds, fields)
            yield from {row[ID]: row for row in rows}.values()

    def search(
        self, collection: str, field_name: str, query: Any, limit: int, condition: str, fields: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The best rows with ``id`` and ``distance``, best first."""
        metric = "IP" if field_name == SPARSE else self.options.metric_type
        (hits,) = self.call(
            "search",
            collection,
            data=[query],
            anns_field=field_name,
            limit=min(limit, MAX_LIMIT),
            filter=condition,
            output_fields=list(fields),
            search_params={"metric_type": metric},
            **_STRONG,
        )
        found = {hit[ID]: {ID: hit[ID], "distance": hit["distance"], **hit["entity"]} for hit in hits}
        return list(found.values())

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
        self.call("drop_collection", collection)

    def names(self) -> list[str]:
        return list(self.call("list_collections"))

    def create_chunks(self, collection: str, info: MilvusInfo) -> None:
        schema, indexes = self._schema()
        data = self.pymilvus.DataType
        if info.dimensions:
            schema.add_field(DENSE, data.FLOAT_VECTOR, dim=info.dimensions)
            indexes.add_index(DENSE, index_type=self.options.index_type, metric_type=self.options.metric_type)
        schema.add_field(HEAD_OF, data.VARCHAR, max_length=64)
        if info.is_sparse:
            schema.add_field(SPARSE, data.SPARSE_FLOAT_VECTOR)
            indexes.add_index(SPARSE, index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        self._add_texts(schema, CONTENT)
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
        self._add_texts(schema, HEAD, SUMMARY)
        self._create(collection, schema, indexes)

    def _schema(self) -> tuple[Any, Any]:
        data = self.pymilvus.DataType
        schema = self.pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(ID, data.VARCHAR, max_length=100, is_primary=True)
        schema.add_field(NUMBER, data.INT64)
        schema.add_field(TOKEN_LIST, data.ARRAY, element_type=data.VARCHAR, max_capacity=4_096, max_length=32)
        schema.add_field(NUMBERS, data.JSON)
        indexes = self.pymilvus.MilvusClient.prepare_index_params()
        indexes.add_index(NUMBER, index_type="INVERTED")
        indexes.add_index(TOKEN_LIST, index_type="INVERTED")
        return schema, indexes

    def _add_texts(self, schema: Any, *names: str) -> None:
        data = self.pymilvus.DataType
        for name in names:
            schema.add_field(name, data.ARRAY, element_type=data.VARCHAR, max_capacity=4_096, max_length=65_535)

    def _create(self, collection: str, schema: Any, indexes: Any) -> None:
        try:
            self.call("create_collection", collection, schema=schema, num_shards=1, **_STRONG)
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
