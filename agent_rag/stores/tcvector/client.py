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
from ..versions.groups import at_most, grouped, slices
from .schema import (
    BODY,
    CHUNK_FIELDS,
    CONTENT,
    COUNTS,
    HEAD_FIELDS,
    ID,
    KIND,
    ORDER,
    SPARSE,
    TERMS,
    TEXT,
    TOKENS,
    VECTOR,
    Document,
)

MAX_LIMIT = 16_384
_IDS_PER_DELETE = 1_000
_ROWS_PER_UPSERT = 1_000
# The client writes a body in one call, which stops all threads for as long: 10 ms.
_PIECE_BYTES = 500_000
_FEWEST_REPLICAS = (0, 1, 2)
"""Of instances in one, two and three zones (page 95093 of the documentation)."""
_NO_DATABASE, _NO_COLLECTION = 15301, 15302
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
    replicas: int | None
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
        """Two may make it at once; the database's code for that is not documented."""
        database = self.options.database
        if self.client.exists_db(database):
            return
        try:
            self.client.create_database(database)
        except self._errors.ServerInternalError:
            if not self.client.exists_db(database):
                raise

    def make_heads(self, table: str) -> None:
        self._make(table, [self._primary(), self._vector(1, "FLAT", "L2"), *self._filters(HEAD_FIELDS)], None)

    def make_chunks(self, table: str, dimensions: int) -> None:
        options = self.options
        vector = self._vector(None if options.embedding else max(dimensions, 1), options.index_type, options.metric)
        sparse = self._index.SparseIndex(name=SPARSE)
        embedding = None
        if options.embedding:
            model = needs("tcvector", "tcvectordb.model.collection")
            embedding = model.Embedding(vector_field=VECTOR, field=TEXT, model_name=options.embedding)
        self._make(table, [self._primary(), vector, sparse, *self._filters(CHUNK_FIELDS)], embedding)

    def _make(self, table: str, indexes: list[Any], embedding: Any) -> None:
        """With the fewest replicas that the instance takes, where none are asked for.

        Nothing happens when another one made it.
        """
        index, options = self._index.Index(*indexes), self.options
        counts = _FEWEST_REPLICAS if options.replicas is None else (options.replicas,)
        for replicas in counts:
            try:
                self.client.create_collection(
                    options.database, table, options.shards, replicas, index=index, embedding=embedding
                )
                return
            except self._errors.ServerInternalError:
                if self.has(table):
                    return
                if replicas == counts[-1]:
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
        with self._missing():
            self.client.drop_collection(self.options.database, table)

    def empty(self, heads: str) -> None:
        """Remove all heads. Nothing happens when the table is not there."""
        with self._missing():
            self.delete_where(heads, f'{KIND} != "info"')

    @contextlib.contextmanager
    def _missing(self) -> Iterator[None]:
        try:
            yield
        except self._errors.VectorDBException as error:
            if error.code not in (_NO_COLLECTION, _NO_DATABASE):
                raise

    # --- writing ---

    def upsert(self, table: str, rows: list[Document]) -> None:
        """One of `pieces`."""
        self.client.upsert(self.options.database, table, rows)

    def update_if(self, table: str, row_id: str, condition: str, changes: Document) -> None:
        """Change one row where it meets `condition`."""
        self.client.update(self.options.database, table, data=changes, document_ids=[row_id], filter=condition)

    def delete(self, table: str, ids: Sequence[str]) -> None:
        for part in slices(ids, _IDS_PER_DELETE):
            self.client.delete(self.options.database, table, document_ids=list(part))

    def delete_where(self, table: str, condition: str) -> None:
        """All rows that meet `condition`; one request may have a limit."""
        while int(self.client.delete(self.options.database, table, filter=condition).get("affectedCount", 0)):
            pass

    # --- reading ---

    def get(self, table: str, ids: Sequence[str], fields: Sequence[str], *, vectors: bool = False) -> list[Document]:
        """Rows by id, at most 20, in any order; missing ones are left out."""
        found: list[Document] = self.client.query(
            self.options.database,
            table,
            document_ids=list(ids),
            limit=len(ids),
            output_fields=_asked(fields, vectors),
            retrieve_vector=vectors,
        )
        return found

    def scan(
        self, table: str, condition: str | None, fields: Sequence[str], page: int, *, vectors: bool = False
    ) -> list[Document]:
        """All rows that meet `condition`, by pages in the order of `ORDER`, so that writers do not shift them."""
        found: dict[str, Document] = {}
        after = 0
        while True:
            rows = self.client.query(
                self.options.database,
                table,
                filter=" and ".join((f"{ORDER} >= {after}", *([f"({condition})"] if condition else []))),
                limit=page,
                output_fields=_asked((ORDER, *fields), vectors),
                retrieve_vector=vectors,
                sort={"fieldName": ORDER, "direction": "asc"},
            )
            found |= {row[ID]: row for row in rows}
            if len(rows) < page:
                return list(found.values())
            after = rows[-1][ORDER]

    def count(self, table: str, condition: str | None = None) -> int:
        return int(self.client.count(self.options.database, table, filter=condition))

    def nearest(self, table: str, vector: Sequence[float], count: int, condition: str | None, fields: Sequence[str],
                *, vectors: bool) -> list[Document]:  # fmt: skip
        """Best rows by the vector index, at most 16,384; `score` is its own."""
        params = self._sdk.model.document.SearchParams(ef=min(32_768, max(self.options.ef, 2 * count)))
        found = self.client.search(
            self.options.database,
            table,
            vectors=[list(vector)],
            filter=condition,
            params=params if self.options.index_type == "HNSW" else None,
            limit=min(count, MAX_LIMIT),
            output_fields=_asked(fields, vectors),
            retrieve_vector=vectors,
        )
        return found[0] if found else []

    def nearest_to_text(
        self, table: str, text: str, count: int, condition: str | None, fields: Sequence[str]
    ) -> list[Document]:
        """Best rows by the database's own embedding of `text`."""
        answer = self.client.search_by_text(
            self.options.database,
            table,
            embedding_items=[text],
            filter=condition,
            limit=min(count, MAX_LIMIT),
            output_fields=_asked(fields),
        )
        found: list[list[Document]] = answer.get("documents") or [[]]
        return found[0]

    def by_words(
        self, table: str, weights: Sequence[tuple[int, float]], count: int, condition: str | None, fields: Sequence[str]
    ) -> list[Document]:
        """Best rows by the sparse index."""
        found: list[Document] = self.client.fulltext_search(
            self.options.database,
            table,
            data=[[term, weight] for term, weight in weights],
            filter=condition,
            limit=min(count, MAX_LIMIT),
            output_fields=_asked(fields),
        )
        return found


def _asked(fields: Iterable[str], vectors: bool = False) -> list[str]:
    return [ID, *fields, *([VECTOR] if vectors else [])]


def pieces(rows: Iterable[Document]) -> Iterator[list[Document]]:
    """Rows for one request each."""
    return grouped(rows, at_most(_ROWS_PER_UPSERT), (_bytes, _PIECE_BYTES))


def _bytes(row: Document) -> int:
    """About what a row takes in a request."""
    numbers = 22 * len(row.get(VECTOR, ())) + 34 * len(row.get(SPARSE, ()))
    texts = sum(len(row.get(name, "")) for name in (CONTENT, COUNTS, TEXT, BODY))
    return 500 + numbers + 3 * texts + 20 * len(row[TOKENS]) + 12 * len(row.get(TERMS, ()))
