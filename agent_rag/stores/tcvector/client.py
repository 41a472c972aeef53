"""The connection to Tencent Cloud VectorDB: errors, requests of a size that it takes, pages. All calls block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from ..._util.extras import needs
from ...errors import CollectionNotFoundError, StoreError, StoreUnavailableError, redact
from ..engine.records import closed_store
from ..versions.groups import at_most, grouped
from .schema import (
    DOCUMENT,
    ID,
    INDEX,
    KIND,
    ORDER,
    REVISION,
    SPARSE,
    TERMS,
    TEXT,
    TOKENS,
    VECTOR,
    VERSION,
    WRITTEN,
    Row,
    row_weight,
)

MAX_LIMIT = 16_384
_IDS_PER_QUERY = 20
_IDS_PER_DELETE = 1_000
_ROWS_PER_UPSERT = 1_000
# The client writes a body in one call, which stops all threads for as long: 10 ms.
_PIECE_BYTES = 500_000
_PAGE = 1_000
_NO_DATABASE, _NO_COLLECTION, _REFUSED = 15301, 15302, 15000
_UNAVAILABLE = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class TcVectorOptions:
    """What the constructor of the store got."""

    url: str
    username: str
    api_key: SecretStr | None
    database: str
    metric: str
    index_type: str
    ef: int
    embedding: str | None
    shards: int
    replicas: int
    timeout_s: float

    @property
    def where(self) -> str:
        """For messages."""
        return redact(self.url)


class Connection:
    """A VectorDBClient that is open or closed."""

    def __init__(self, owner: object, options: TcVectorOptions) -> None:
        self._owner = owner
        self.options = options
        self._sdk = needs("tcvector", "tcvectordb", purpose="TcVectorStore")
        self._errors = needs("tcvector", "tcvectordb.exceptions", purpose="TcVectorStore")
        self._requests = needs("tcvector", "requests", purpose="TcVectorStore")
        self._index = needs("tcvector", "tcvectordb.model.index")
        self._enum = needs("tcvector", "tcvectordb.model.enum")
        self._client: Any = None

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open(self) -> None:
        key = self.options.api_key
        self._client = self._sdk.VectorDBClient(
            url=self.options.url,
            username=self.options.username,
            key=key.get_secret_value() if key else "",
            timeout=self.options.timeout_s,
            read_consistency=self._enum.ReadConsistency.STRONG_CONSISTENCY,
            pool_size=16,
        )

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def client(self) -> Any:
        if self._client is None:
            raise closed_store(self._owner)
        return self._client

    @contextlib.contextmanager
    def errors(self, collection: str = "") -> Iterator[None]:
        """Turn errors of the client into ours."""
        try:
            yield
        except (self._errors.ConnectError, self._errors.NoConnectError) as error:
            raise self._unavailable(error) from error
        except self._requests.exceptions.RequestException as error:
            raise self._unavailable(error) from error
        except self._errors.VectorDBException as error:
            if error.code in (_NO_COLLECTION, _NO_DATABASE):
                raise CollectionNotFoundError(
                    f"collection {collection!r} does not exist at {self.options.where}; create it with "
                    "create_collection, or check the name"
                ) from error
            if error.code in _UNAVAILABLE:
                raise self._unavailable(error) from error
            detail = redact(str(error))[:500]
            raise StoreError(f"VectorDB at {self.options.where} refused a request: {detail}") from error

    def _unavailable(self, error: BaseException) -> StoreUnavailableError:
        detail = " ".join(redact(str(error)).split())[:300]
        return StoreUnavailableError(
            f"VectorDB at {self.options.where} does not answer: {detail}; check the address, that the instance runs, "
            f"and timeout_s={self.options.timeout_s:g}"
        )

    # --- collections ---

    def names(self) -> list[str]:
        """Collections of the database; none when it does not exist."""
        try:
            found = self.client.list_collections(self.options.database)
        except self._errors.VectorDBException as error:
            if error.code == _NO_DATABASE:
                return []
            raise
        return [collection.collection_name for collection in found]

    def has(self, table: str) -> bool:
        try:
            self.client.describe_collection(self.options.database, table)
        except self._errors.VectorDBException as error:
            if error.code in (_NO_COLLECTION, _NO_DATABASE):
                return False
            raise
        return True

    def make_database(self) -> None:
        if not self.client.exists_db(self.options.database):
            with self._unless(lambda: bool(self.client.exists_db(self.options.database))):
                self.client.create_database(self.options.database)

    def make_heads(self, table: str) -> None:
        fields = {KIND: "String", VERSION: "String", REVISION: "String", DOCUMENT: "String"}
        fields |= {ORDER: "Uint64", WRITTEN: "Uint64", TOKENS: "Array"}
        vector = self._vector(1, "FLAT", "L2")
        self._make(table, [self._primary(), vector, *self._filters(fields)], None)

    def make_chunks(self, table: str, dimensions: int) -> None:
        options = self.options
        fields = {VERSION: "String", INDEX: "Uint64", TOKENS: "Array", TERMS: "Array"}
        vector = self._vector(None if options.embedding else max(dimensions, 1), options.index_type, options.metric)
        sparse = self._index.SparseIndex(name=SPARSE)
        embedding = None
        if options.embedding:
            model = needs("tcvector", "tcvectordb.model.collection")
            embedding = model.Embedding(vector_field=VECTOR, field=TEXT, model_name=options.embedding)
        self._make(table, [self._primary(), vector, sparse, *self._filters(fields)], embedding)

    def _make(self, table: str, indexes: list[Any], embedding: Any) -> None:
        """Nothing happens when another one made it."""
        index = self._index.Index(*indexes)
        options = self.options
        with self._unless(lambda: self.has(table)):
            self.client.create_collection(
                options.database,
                table,
                shard=options.shards,
                replicas=options.replicas,
                index=index,
                embedding=embedding,
            )

    @contextlib.contextmanager
    def _unless(self, there: Any) -> Iterator[None]:
        """Two may make the same at once; the database's code for that is not documented."""
        try:
            yield
        except self._errors.ServerInternalError:
            if not there():
                raise

    def _primary(self) -> Any:
        kind = self._enum
        return self._index.FilterIndex(ID, kind.FieldType.String, kind.IndexType.PRIMARY_KEY)

    def _filters(self, fields: dict[str, str]) -> list[Any]:
        kind = self._enum
        return [
            self._index.FilterIndex(name, getattr(kind.FieldType, field), kind.IndexType.FILTER)
            for name, field in fields.items()
        ]

    def _vector(self, dimensions: int | None, index_type: str, metric: str) -> Any:
        kind = self._enum
        params = self._index.HNSWParams(m=16, efconstruction=200) if index_type == "HNSW" else None
        index, metric_type = getattr(kind.IndexType, index_type), getattr(kind.MetricType, metric)
        return self._index.VectorIndex(VECTOR, dimensions, index, metric_type, params)

    def drop(self, table: str) -> None:
        """Nothing happens when it is not there."""
        try:
            self.client.drop_collection(self.options.database, table)
        except self._errors.VectorDBException as error:
            if error.code not in (_NO_COLLECTION, _NO_DATABASE):
                raise

    # --- writing ---

    def upsert(self, table: str, rows: Iterable[Row]) -> None:
        for piece in _pieces(rows):
            self.client.upsert(self.options.database, table, piece)

    def update_if(self, table: str, row_id: str, condition: str, changes: Row) -> bool:
        """Change one row where it meets `condition`; whether it did."""
        answer = self.client.update(self.options.database, table, data=changes, document_ids=[row_id], filter=condition)
        return bool(answer.get("affectedCount"))

    def delete(self, table: str, ids: Sequence[str], condition: str | None = None) -> int:
        """Of the rows `ids`, those that meet `condition`. Returns their number."""
        removed = 0
        for start in range(0, len(ids), _IDS_PER_DELETE):
            part = list(ids[start : start + _IDS_PER_DELETE])
            answer = self.client.delete(self.options.database, table, document_ids=part, filter=condition)
            removed += int(answer.get("affectedCount", 0))
        return removed

    def delete_where(self, table: str, condition: str) -> None:
        self.client.delete(self.options.database, table, filter=condition)

    # --- reading ---

    def get(self, table: str, ids: Sequence[str], fields: Sequence[str], *, vectors: bool = False) -> list[Row]:
        """Rows by id, in any order; missing ones are left out."""
        found: list[Row] = []
        for start in range(0, len(ids), _IDS_PER_QUERY):
            part = list(ids[start : start + _IDS_PER_QUERY])
            found += self.client.query(
                self.options.database,
                table,
                document_ids=part,
                limit=len(part),
                output_fields=[ID, *fields, *([VECTOR] if vectors else [])],
                retrieve_vector=vectors,
            )
        return found

    def query(
        self, table: str, condition: str, fields: Sequence[str], *, limit: int = MAX_LIMIT, vectors: bool = False
    ) -> list[Row]:
        """Rows that meet `condition`, at most `limit`."""
        found: list[Row] = self.client.query(
            self.options.database,
            table,
            filter=condition,
            limit=limit,
            output_fields=[ID, *fields, *([VECTOR] if vectors else [])],
            retrieve_vector=vectors,
        )
        return found

    def scan(self, table: str, condition: str, fields: Sequence[str]) -> Iterator[Row]:
        """All heads that meet `condition`, by pages in the order of `ORDER`, so that writers do not shift them."""
        after = 0
        seen: set[str] = set()
        while True:
            rows: list[Row] = self.client.query(
                self.options.database,
                table,
                filter=f"{ORDER} >= {after} and {condition}",
                limit=_PAGE,
                output_fields=[ID, ORDER, *fields],
                sort={"fieldName": ORDER, "direction": "asc"},
            )
            yield from (row for row in rows if row[ID] not in seen)
            if len(rows) < _PAGE:
                return
            after = rows[-1][ORDER]
            seen = {row[ID] for row in rows}

    def count(self, table: str, condition: str | None = None) -> int:
        return int(self.client.count(self.options.database, table, filter=condition))

    def nearest(self, table: str, vector: Sequence[float], count: int, condition: str | None, fields: Sequence[str],
                *, vectors: bool) -> list[Row]:  # fmt: skip
        """Best rows by the vector index, at most 16,384; `score` is its own."""
        params = self._sdk.model.document.SearchParams(ef=min(32_768, max(self.options.ef, 2 * count)))
        found = self.client.search(
            self.options.database,
            table,
            vectors=[list(vector)],
            filter=condition,
            params=params if self.options.index_type == "HNSW" else None,
            limit=min(count, MAX_LIMIT),
            output_fields=[ID, *fields, *([VECTOR] if vectors else [])],
            retrieve_vector=vectors,
        )
        return found[0] if found else []

    def nearest_to_text(self, table: str, text: str, count: int, condition: str | None) -> list[Row]:
        """Best rows by the database's own embedding of `text`."""
        answer = self.client.search_by_text(
            self.options.database,
            table,
            embedding_items=[text],
            filter=condition,
            limit=min(count, MAX_LIMIT),
            output_fields=[ID],
        )
        found: list[list[Row]] = answer.get("documents") or [[]]
        return found[0]

    def by_words(
        self, table: str, weights: Sequence[tuple[int, float]], count: int, condition: str | None, fields: Sequence[str]
    ) -> list[Row]:
        """Best rows by the sparse index."""
        found: list[Row] = self.client.fulltext_search(
            self.options.database,
            table,
            data=[[term, weight] for term, weight in weights],
            filter=condition,
            limit=min(count, MAX_LIMIT),
            output_fields=[ID, *fields],
        )
        return found


def _pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    return grouped(rows, at_most(_ROWS_PER_UPSERT), (row_weight, _PIECE_BYTES))
