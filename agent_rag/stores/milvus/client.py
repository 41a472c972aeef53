"""The connection to a Milvus server: opening, errors, answers of a size that it sends."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._util.extras import needs
from ...errors import CollectionNotFoundError, StoreError, StoreUnavailableError, redact
from ..engine.records import closed_store
from ..versions.groups import at_most, grouped, slices
from .calls import PIECE_BYTES, Having, Milvus, Stored, joined
from .options import MilvusOptions
from .schema import CONTENT, DENSE, ID, PLACE, PLACES, SIZE, SPARSE, TERMS, TOKEN_LIST, Fields, Indexes, typed

_FEW = 30
"""Chunks that are read without looking at their sizes first."""
_IDS_PER_CALL = 1_000
_PAGE_ROWS = 1_000
_STRONG = {"consistency_level": "Strong"}
_WAITS, _WAIT_S = 10, 0.1
_UNAVAILABLE_CODES = frozenset({2})
_MISSING_CODES = frozenset({4, 100})

_log = logging.getLogger(__name__)


class Connection(Milvus):
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
    def version(self) -> str:
        return str(self.call("get_server_version"))

    @property
    def has_snapshots(self) -> bool:
        """Whether a search at an address sees the rows of one moment, as it does on a Milvus server.

        Milvus Lite 3.2 reads the rows first and what was deleted at the end, and both change meanwhile.
        """
        if self._has_snapshots is None:
            self._has_snapshots = "lite" not in self.version
        return self._has_snapshots

    # --- rows ---

    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.call("upsert", collection, list(rows))

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        for part in slices(ids, _IDS_PER_CALL):
            self.call("delete", collection, ids=list(part))

    def delete_tombstones(self, heads: str, before: float) -> None:
        """None: Milvus cannot delete a row only while it is the one that was read, and a head that is written over it
        at that moment would be lost."""

    def get(self, collection: str, ids: Sequence[str], fields: Sequence[str]) -> list[Stored]:
        """In answers of a size that the server sends."""
        parts: Iterator[Sequence[str]] = slices(ids, _IDS_PER_CALL)
        if len(ids) > _FEW and CONTENT in fields:
            sizes = {row[ID]: row[SIZE] for row in self.get(collection, ids, [SIZE])}
            parts = grouped(sizes, at_most(_IDS_PER_CALL), (sizes.__getitem__, PIECE_BYTES))
        found: list[Stored] = []
        for part in parts:
            found += self.call("get", collection, ids=list(part), output_fields=list(fields), **_STRONG)
        return found

    def _query(self, collection: str, condition: str, fields: Sequence[str], **options: Any) -> list[Stored]:
        rows = self.call("query", collection, filter=condition, output_fields=list(fields), **options, **_STRONG)
        return list(rows)

    def scan(self, collection: str, condition: str, fields: Sequence[str], having: Having) -> Iterator[Stored]:
        """A page at a time: places are random, so ranges of them are pages."""
        wanted = joined(condition, having)
        rows = self._query(collection, wanted, fields, limit=_PAGE_ROWS)
        if len(rows) < _PAGE_ROWS:
            yield from rows
            return
        pages = -(-2 * self._counted(collection, wanted) // _PAGE_ROWS)
        for page in range(pages):
            low, high = PLACES * page // pages, PLACES * (page + 1) // pages
            yield from self._query(collection, f"{PLACE} > {low} and {PLACE} <= {high} and {wanted}", fields)

    def _counted(self, collection: str, condition: str) -> int:
        (row,) = self._query(collection, condition, ["count(*)"])
        return int(row["count(*)"])

    def count(self, collection: str) -> int:
        return self._counted(collection, "")

    def frequencies(self, collection: str, terms: Sequence[int], condition: str) -> dict[int, int]:
        more = f" and {condition}" if condition else ""
        return {term: self._counted(collection, self.dialect.has_term(term) + more) for term in terms}

    def search(
        self, collection: str, metric: str, query: Any, limit: int, condition: str, fields: Sequence[str]
    ) -> list[Stored]:
        (hits,) = self.call(
            "search",
            collection,
            data=[query],
            anns_field=SPARSE if isinstance(query, dict) else DENSE,
            limit=limit,
            filter=condition,
            output_fields=list(fields),
            search_params={"metric_type": metric},
            **_STRONG,
        )
        found = {hit[ID]: {ID: hit[ID], "distance": hit["distance"], **hit["entity"]} for hit in hits}
        return list(found.values())

    # --- collections ---

    def fields(self, collection: str) -> list[str] | None:
        if not self.call("has_collection", collection):
            return None
        try:
            return [field["name"] for field in self.call("describe_collection", collection)["fields"]]
        except CollectionNotFoundError:  # dropped meanwhile
            return None

    def names(self) -> list[str]:
        return list(self.call("list_collections"))

    def create(self, collection: str, fields: Fields) -> bool:
        schema = self.pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        for name, field in fields.items():
            kind, options = typed(field, self.pymilvus.DataType)
            schema.add_field(name, kind, **options)
        try:
            self.call("create_collection", collection, schema=schema, num_shards=1, **_STRONG)
        except StoreError:
            for _ in range(_WAITS):  # for another process that is quicker
                if self.fields(collection) is not None:
                    return False
                time.sleep(_WAIT_S)
            raise
        return True

    def load(self, collection: str, indexes: Indexes | None = None, heads: str | None = None) -> None:
        if collection in self._loaded:
            return
        with self.making:
            self._make_indexes(collection, indexes or {})
            self.call("load_collection", collection)
            self._loaded.add(collection)

    def drop(self, collection: str) -> None:
        self._loaded.discard(collection)
        self.call("drop_collection", collection)

    def _make_indexes(self, collection: str, indexes: Indexes) -> None:
        """Those that are not there."""
        for field, parameters in indexes.items():
            if self._has_index(collection, field):
                continue
            one = self.pymilvus.MilvusClient.prepare_index_params()
            one.add_index(field, **parameters)
            try:
                # Without waiting, which pymilvus does in steps of half a second per index; loading waits for them.
                self.call("create_index", collection, one, sync=False)
            except StoreError as error:
                if self._has_index(collection, field):  # another process was quicker
                    continue
                if field not in (TOKEN_LIST, TERMS):
                    raise
                _log.warning("no index on %s.%s, so filters read all rows: %s", collection, field, error)

    def _has_index(self, collection: str, field: str) -> bool:
        return bool(self.call("list_indexes", collection, field))
