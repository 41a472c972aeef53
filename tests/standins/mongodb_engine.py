"""What the commands of the MongoDB stand-in share: the call, cursors, a pipeline's view, field checks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import bson
from bson import Int64, ObjectId
from bson.raw_bson import RawBSONDocument

from .mongodb_aggregate import (
    Row,
)
from .mongodb_query import (
    MAX_BSON_SIZE,
    MISSING,
    Document,
    MongoError,
    Predicate,
    bson_type,
    order_key,
)
from .mongodb_search import Key, SearchIndex, search_error
from .mongodb_storage import Collection, Namespace, Storage, Transaction

_FIRST_BATCH: Final = 101


@dataclass
class Call:
    """One command on its way: the database, the body without its generic fields' meaning, the transaction it
    runs in.
    """

    database: str
    name: str
    body: Document
    txn: Transaction | None = None

    def namespace(self, key: str | None = None) -> Namespace:
        name = self.body[key or self.name]
        if not isinstance(name, str):
            raise MongoError(73, "InvalidNamespace", f"collection name has invalid type {bson_type(name)}")
        return self.database, name


@dataclass
class Engine:
    """What the commands work on."""

    storage: Storage
    building: Literal["empty", "error"]
    build_time_s: float
    cursors: dict[int, tuple[Namespace, list[Document]]] = field(default_factory=dict)

    def reader(self, call: Call) -> Reader:
        return Reader(self, call.database, call.txn)

    def matching(self, call: Call, namespace: Namespace, query: Any, predicate: Predicate) -> list[Key]:
        """The keys of the documents that match, in natural order; by `_id` directly where the query allows
        it.
        """
        view = self.storage.view(namespace, call.txn)
        wanted = query.get("_id", MISSING) if isinstance(query, Mapping) else MISSING
        if isinstance(wanted, Mapping) and list(wanted) == ["$in"] and isinstance(wanted["$in"], list):
            keys = list(dict.fromkeys(order_key(value) for value in wanted["$in"]))
            return [key for key in keys if key in view and predicate(view[key])]
        if isinstance(wanted, str | int | ObjectId) and not isinstance(wanted, bool):
            key = order_key(wanted)
            return [key] if key in view and predicate(view[key]) else []
        return [key for key, doc in list(view.items()) if predicate(doc)]

    def cursor(
        self, namespace: Namespace, docs: list[Document], batch_size: int | None, *, single: bool = False
    ) -> Document:
        """The reply of a command that returns a cursor."""
        batch, rest = take_batch(docs, _FIRST_BATCH if batch_size is None else batch_size)
        cursor_id = 0
        if rest and not single:
            cursor_id = random.getrandbits(62) + 1
            self.cursors[cursor_id] = (namespace, rest)
        return {"cursor": {"firstBatch": batch, "id": Int64(cursor_id), "ns": ".".join(namespace)}, "ok": 1.0}


class Reader:
    """A pipeline's view of one database."""

    def __init__(self, engine: Engine, database: str, txn: Transaction | None) -> None:
        self.engine = engine
        self.database = database
        self.txn = txn

    def documents(self, collection: str) -> list[Document]:
        return list(self.engine.storage.view((self.database, collection), self.txn).values())

    def first_stage(self, collection: str, name: str, spec: Any) -> list[Row]:
        if self.txn is not None:
            raise MongoError(
                263,
                "OperationNotSupportedInTransaction",
                f"Stage not supported inside of a multi-document transaction: {name}",
            )
        held = self.engine.storage.collections.get((self.database, collection))
        if held is None:
            return []
        held.follow_log()
        if name == "$listSearchIndexes":
            return list_search_indexes(held, spec)
        if not isinstance(spec, Mapping):
            raise MongoError(9, "FailedToParse", f"the {name} stage specification must be an object")
        if name == "$vectorSearch" and "index" not in spec:
            raise search_error('"index" is required')
        index = held.search_indexes.get(spec.get("index", "default"))
        if index is None or not self._ready(index):
            return []
        meta = "vectorSearchScore" if name == "$vectorSearch" else "searchScore"
        found = index.search(name, spec)
        return [(held.docs[key], {meta: score}) for key, score in found if key in held.docs]

    def _ready(self, index: SearchIndex) -> bool:
        if index.queryable:
            return True
        if index.failed or self.engine.building == "error":
            kind = "vector" if index.kind == "vectorSearch" else "search"
            state = "FAILED" if index.failed else "INITIAL_SYNC" if index.status == "BUILDING" else "NOT_STARTED"
            raise search_error(
                f"cannot query {kind} index {index.id} ({kind} index {index.name}) while in state {state}"
            )
        return False


def list_search_indexes(collection: Collection, spec: Any) -> list[Row]:
    if not isinstance(spec, Mapping) or set(spec) - {"id", "name"} or len(spec) > 1:
        raise MongoError(9, "FailedToParse", "$listSearchIndexes takes at most one of 'id' and 'name'")
    described = [index.describe() for index in collection.search_indexes.values()]
    return [(doc, {}) for doc in described if all(doc[key] == value for key, value in spec.items())]


def take_batch(docs: Sequence[Document], size: int) -> tuple[list[RawBSONDocument], list[Document]]:
    """As many documents as fit into a reply of 16 MB, at most `size`, encoded; and the rest."""
    batch: list[RawBSONDocument] = []
    used = 0
    for position, doc in enumerate(docs):
        raw = bson.encode(doc)
        if len(raw) > MAX_BSON_SIZE:
            raise MongoError(10334, "BSONObjectTooLarge", f"BSONObj size: {len(raw)} ({len(raw):#x}) is invalid.")
        if position == size or (batch and used + len(raw) > MAX_BSON_SIZE):
            return batch, list(docs[position:])
        batch.append(RawBSONDocument(raw))
        used += len(raw)
    return batch, []


def check_fields(doc: Mapping[str, Any], allowed: set[str], where: str) -> None:
    for key in doc:
        if key not in allowed:
            raise MongoError(40415, "IDLUnknownField", f"BSON field '{where}.{key}' is an unknown field.")


def check_collation(doc: Mapping[str, Any]) -> None:
    if doc.get("collation", {}).get("locale", "simple") != "simple":
        raise MongoError(115, "CommandNotSupported", "the stand-in knows only the collation 'simple'")
